//! The lock with several names: what the exclusive lock keeps under one name, this one keeps under each of them.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::base::HoldClass;
use crate::core::vote::fence_outlives_ms;
use crate::guard::Guard;
use crate::handle::{Handle, LockKind, sealed};
use crate::ident::{Names, fence_key, kept_text, release_channel, reserved_key, tombstone_key};
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::one_key::fence_ttl;
use crate::kinds::contract::reply;
use crate::kinds::contract::reservations::reservation;
use crate::node::{Part, Request, Script};

// No batch makes several calls of them in one step. To start a script costs a server as much as two commands, which is
// little beside what these do. And a batch of them would be in everybody's way for a millisecond.
static ACQUIRE: Script =
    Script::new(include_str!("../../lua/multi/acquire.lua")).with_meaning(reply::acquire_meaning);
static CONFIRM: Script =
    Script::new(include_str!("../../lua/multi/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/multi/extend.lua")).with_meaning(reply::extend_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/multi/release.lua"));

/// A server does nothing else while it runs a script. With 16 names that takes 60 us on a busy machine, ten times as long
/// as for a mutex; with 64 names it would be 200 us.
const MOST_NAMES: usize = 16;

/// The kind of locks that have several names, and are exclusive under each of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct AllNames;

impl LockKind for AllNames {
    type Guard = Guard;
}

impl sealed::Kind for AllNames {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "MultiMutex";
}

/// The keys of a lock, and the tombstones and the fences beside them.
struct Keys<'a> {
    locks: Vec<&'a [u8]>,
    beside: Vec<Vec<u8>>,
}

impl<'a> Keys<'a> {
    /// With the tombstones of `buried`, if that is an owner.
    fn new(names: &'a Names, buried: Option<&str>, with_fences: bool) -> Self {
        let locks: Vec<_> = names.keys().collect();
        let tombstones = buried
            .iter()
            .flat_map(|owner| locks.iter().map(|key| tombstone_key(key, owner.as_bytes())));
        let fences = locks.iter().filter(|_| with_fences).map(|key| fence_key(key));
        let beside = tombstones.chain(fences).collect();
        Self { locks, beside }
    }

    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let locks = self.locks.iter().map(|key| Part::Bytes(key));
        locks.chain(self.beside.iter().map(|key| Part::Bytes(key)))
    }
}

impl Kind for AllNames {
    fn label(&self) -> &'static str {
        "multi_mutex"
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn most_names(&self) -> usize {
        MOST_NAMES
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[":fence"]
    }

    fn commands(&self) -> &'static [&'static str] {
        &["set", "get", "mget", "exists", "del", "type", "pttl", "pexpire", "time", "publish"]
    }

    fn acquire(
        &self,
        names: &Names,
        mark_key: &[u8],
        Claimant { owner, .. }: Claimant<'_>,
        ttl: Duration,
        waits: Waits,
        proposal: Option<u64>,
    ) -> Request {
        let reserved: Vec<_> = names.keys().map(reserved_key).collect();
        let fences: Vec<_> = match proposal {
            Some(_) => names.keys().map(fence_key).collect(),
            None => Vec::new(),
        };
        let reservation = reservation(&waits);
        let mut parts = vec![Part::Bytes(mark_key)];
        parts.extend(names.keys().map(Part::Bytes));
        parts.extend(fences.iter().chain(&reserved).map(|key| Part::Bytes(key)));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        parts.push(Part::Bytes(reservation.as_bytes()));
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        Request::new(&ACQUIRE, keys, &parts)
    }

    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request> {
        let keys = Keys::new(names, None, true);
        let mut parts: Vec<_> = keys.parts().collect();
        let keys = parts.len();
        let outlives = Part::Number(fence_outlives_ms());
        parts.extend([Part::Bytes(owner.as_bytes()), number.into(), outlives]);
        Some(Request::new(&CONFIRM, keys, &parts))
    }

    fn extend(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        let keys = Keys::new(names, Some(owner), repair.fence.is_some());
        let mut parts = vec![Part::Bytes(repair.mark_key)];
        parts.extend(keys.parts());
        let keys = parts.len();
        let (until, quarantine) = (Part::Number(repair.until_ms), repair.quarantine.into());
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), until, Part::Number(quarantine)]);
        if let Some(fence) = repair.fence {
            parts.extend([Part::from(fence.number), Part::from(fence.up_to), fence_ttl(ttl)]);
        }
        Request::new(&EXTEND, keys, &parts)
    }

    fn release(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let may_keep = keep.is_some() || raise.is_some();
        let keys = Keys::new(names, may_keep.then_some(owner), raise.is_some());
        let channels: Vec<_> = names.keys().map(release_channel).collect();
        let mut parts: Vec<_> = keys.parts().collect();
        let keys = parts.len();
        let (until_ms, by_ms) = keep.map_or((0, 0), |keep| (keep.until_ms, keep.by_ms));
        let kept = kept_text(owner);
        parts.push(Part::Bytes(owner.as_bytes()));
        parts.extend([Part::Number(until_ms), Part::Number(by_ms), Part::Bytes(kept.as_bytes())]);
        match raise {
            Some(Raise { to, lasts }) => parts.extend([Part::from(to), fence_ttl(lasts)]),
            None => parts.extend([Part::Bytes(b""); 2]),
        }
        parts.extend(channels.iter().map(|channel| Part::Bytes(channel)));
        Request::new(&RELEASE, keys, &parts)
    }
}

/// An exclusive lock under several names at once, from [`Quorlock::multi_mutex`](crate::Quorlock::multi_mutex): all of
/// them or none.
///
/// - **Names.** 1 to 16, each as a [`Mutex`](crate::Mutex) may have it. Their order says nothing, and equal ones count
///   once. A lock waits until all its names are free at once, so fewer names wait for less. More than 16 are
///   [`InvalidName`](crate::ErrorKind::InvalidName), by the first call that uses the handle.
/// - **Exclusion.** It excludes every lock, of any kind, that has one of its names. On the nodes it is under each name
///   what a mutex of that name is.
/// - **No deadlock.** A call never holds some of the names while it waits for the others, so clients may name them in
///   different orders. That is not so of a guard that is held while another call waits.
/// - **Waiting.** A call that was refused for 100 ms reserves its names: callers whose calls began later get none of them until
///   it has got the lock or gives up. So it waits for about as long as the longest hold of any of its names, and 100 ms
///   more for each client whose threads pass a name to each other. Names are reserved for 1 s at a time, then left to
///   others for half as long, then reserved for twice as long, up to 32 s. So a long hold of one name delays callers of the
///   other names now and then. No bound is promised where others hold a name for more than 32 s, again and again.
/// - **Token.** One for all names, larger than that of every holder of any of these names before.
/// - **The guard** is that of a mutex. Renewal, `extend` and the end of the lock concern all names at once. If an
///   operator deletes the key of one name on a majority of the masters, the whole lock is lost.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use quorlock::{OptionalGuard as _, Quorlock};
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let seats = locks.multi_mutex(["show/7/row/4/seat/12", "show/7/row/4/seat/13"]);
/// match seats.try_lock_for(Duration::from_secs(2)).optional()? {
///     Some(guard) => {
///         // .. nobody else, on any machine, sells either of the two now ..
///         guard.unlock()?;
///     }
///     None => println!("somebody is buying one of them"),
/// }
/// # Ok::<(), quorlock::Error>(())
/// ```
pub type MultiMutex = Handle<AllNames>;
