//! The fair lock: the string of an exclusive lock, and beside it a queue of those who wait.

use std::time::Duration;

use crate::core::acquire::{Waits, WayOfWaiting};
use crate::core::base::HoldClass;
use crate::core::vote::PermitsWanted;
use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::{
    Names, fence_key, kept_text, queue_ends_key, queue_key, queued_text, release_channel,
    reserved_key, tombstone_key,
};
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::one_key::{OneKey, fence_ttl};
use crate::kinds::contract::reply;
use crate::kinds::contract::reservations::reservation;
use crate::node::{Part, Request, Script};

// No batch makes several calls of them in one step: who waits for a fair lock asks once a second.
static ACQUIRE: Script =
    Script::new(include_str!("../../lua/fair/acquire.lua")).with_meaning(reply::acquire_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/fair/release.lua"));
static LEAVE: Script = Script::new(include_str!("../../lua/fair/leave.lua"));
// The lock itself is a string as that of a mutex, and a holder is in no queue.
static CONFIRM: Script =
    Script::new(include_str!("../../lua/mutex/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/mutex/extend.lua")).with_meaning(reply::extend_meaning);

static SCRIPTS: OneKey =
    OneKey { acquire: &ACQUIRE, confirm: &CONFIRM, extend: &EXTEND, release: &RELEASE };

/// The kind of fair locks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fair;

impl LockKind for Fair {
    type Guard = Guard;
}

impl OneName for Fair {}

impl sealed::Kind for Fair {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "FairMutex";
}

impl Kind for Fair {
    fn label(&self) -> &'static str {
        "fair_mutex"
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn waiting(&self, _: &Names, _: Option<PermitsWanted>) -> WayOfWaiting {
        WayOfWaiting::InQueue
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[":fence", ":queue", ":queue_ends"]
    }

    fn commands(&self) -> &'static [&'static str] {
        &[
            "set", "get", "mget", "del", "type", "pttl", "pexpire", "time", "publish", "zadd",
            "zrem", "zrange", "zscore", "zcard",
        ]
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
        let key = names.first().key();
        let (queue, ends, queued) = (queue_key(key), queue_ends_key(key), queued_text(owner));
        let (reserved, fence) = (reserved_key(key), proposal.map(|_| fence_key(key)));
        let reservation = reservation(&waits);
        let mut parts: Vec<_> =
            [key, mark_key, &reserved, &queue, &ends].into_iter().map(Part::Bytes).collect();
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        parts.push(Part::Bytes(reservation.as_bytes()));
        let ticket = Part::from(waits.ticket.unwrap_or(0));
        parts.extend([Part::Bytes(queued.as_bytes()), ticket, waits.lasts.into()]);
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        Request::new(&ACQUIRE, keys, &parts)
    }

    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request> {
        Some(SCRIPTS.confirm(names.first().key(), owner, number))
    }

    fn extend(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        SCRIPTS.extend(names.first().key(), owner, ttl, repair)
    }

    fn release(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let key = names.first().key();
        let (queue, queued, kept) = (queue_key(key), queued_text(owner), kept_text(owner));
        let (channel, fence) = (release_channel(key), raise.map(|_| fence_key(key)));
        let may_keep = keep.is_some() || raise.is_some();
        let tombstone = may_keep.then(|| tombstone_key(key, owner.as_bytes()));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(&queue)];
        parts.extend(tombstone.as_deref().map(Part::Bytes));
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([owner.as_bytes(), &channel, queued.as_bytes()].map(Part::Bytes));
        if may_keep {
            let (until_ms, by_ms) = keep.map_or((0, 0), |keep| (keep.until_ms, keep.by_ms));
            let times = [Part::Number(until_ms), Part::Number(by_ms)];
            parts.extend(times.into_iter().chain([Part::Bytes(kept.as_bytes())]));
        }
        if let Some(Raise { to, lasts }) = raise {
            parts.extend([Part::from(to), fence_ttl(lasts)]);
        }
        Request::new(&RELEASE, keys, &parts)
    }

    fn leave_queue(&self, names: &Names, queued: &str) -> Option<Request> {
        let key = names.first().key();
        let (queue, ends, channel) = (queue_key(key), queue_ends_key(key), release_channel(key));
        let parts = [key, &queue, &ends, queued.as_bytes(), &channel].map(Part::Bytes);
        Some(Request::new(&LEAVE, 3, &parts))
    }
}

/// A lock by name that those who wait for it get in the order in which they came, from
/// [`Quorlock::fair_mutex`](crate::Quorlock::fair_mutex): also callers in several threads, processes and machines.
///
/// - **Order.** Of two callers that wait, the one goes first whose call began first, if the calls began at least two round
///   trips apart. Callers that come closer to each other are served in any order, and one after the other.
/// - **Cost.** A free lock that nobody waits for takes one round trip, as a mutex does. A caller that has to wait asks twice
///   more, and then once a second; the nodes tell it, and nobody else, when it is its turn. Each hold is
///   given back to the nodes: the threads of a process do not hand the lock to each other.
/// - **A caller that dies** while it waits keeps those behind it waiting for at most 3 s from the last time it has asked
///   on, longer where the [`node_timeout`](crate::Builder::node_timeout) is longer than half a second. One that is cut off from
///   a majority of the masters gives up its place. Once it reaches them it comes back to it, ahead of callers that came later;
///   if the lock is free by then, the first one to ask has it.
/// - **`try_lock`** takes the lock only if nobody waits for it.
/// - **No order without a majority.** Where clients [fall back](crate::Builder::fallback) to one master, callers come in any order.
/// - **A thread that waits for itself** is not told so by an event, as it is with a mutex.
/// - **Up to 1,000 callers** wait in order. More than that come in no order, once there is room.
/// - **Order is not exclusion.** What a master forgets when it is restarted may let a later caller come first; nobody else has
///   the lock for that. Other kinds of locks of the same name exclude a fair one, and do not wait in its queue. Beside them the
///   first caller of the queue waits as a [`Mutex`](crate::Mutex) does.
///
/// # Examples
///
/// ```no_run
/// use quorlock::Quorlock;
///
/// # fn print(_page: &str) {}
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let printer = locks.fair_mutex("printer/2nd-floor");
/// let guard = printer.lock()?; // first come, first served
/// print("a page");
/// guard.unlock()?;
/// # Ok::<(), quorlock::Error>(())
/// ```
pub type FairMutex = Handle<Fair>;
