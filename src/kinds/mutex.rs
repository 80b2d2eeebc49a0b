//! The exclusive lock: one string a node, the layout of the Redlock algorithm.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::base::HoldClass;
use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::Names;
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::one_key::OneKey;
use crate::kinds::contract::reply;
use crate::node::{Request, Script};

static ACQUIRE: Script =
    Script::batched(include_str!("../../lua/mutex/acquire.lua"), "acquire", &BATCH)
        .with_meaning(reply::acquire_meaning);
static CONFIRM: Script =
    Script::new(include_str!("../../lua/mutex/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::batched(include_str!("../../lua/mutex/extend.lua"), "extend", &BATCH)
        .with_meaning(reply::extend_meaning);
static RELEASE: Script =
    Script::batched(include_str!("../../lua/mutex/release.lua"), "release", &BATCH);

/// The scripts themselves are part of it, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function acquire(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/acquire.lua"),
    "end\nlocal function extend(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/release.lua"),
    "end\n",
    include_str!("../../lua/mutex/batch.lua"),
));

static SCRIPTS: OneKey =
    OneKey { acquire: &ACQUIRE, confirm: &CONFIRM, extend: &EXTEND, release: &RELEASE };

/// The kind of exclusive locks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exclusive;

impl LockKind for Exclusive {
    type Guard = Guard;
}

impl OneName for Exclusive {}

impl sealed::Kind for Exclusive {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "Mutex";
}

impl Kind for Exclusive {
    fn label(&self) -> &'static str {
        "mutex"
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[":fence"]
    }

    fn commands(&self) -> &'static [&'static str] {
        &["set", "get", "mget", "del", "type", "pttl", "pexpire", "time", "publish"]
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
        SCRIPTS.acquire(names.first().key(), mark_key, owner, ttl, waits, proposal)
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
        SCRIPTS.release(names.first().key(), owner, &self.channels(names), keep, raise)
    }
}

/// An exclusive lock by name, from [`Quorlock::mutex`](crate::Quorlock::mutex): the same calls as on the [`Quorlock`](crate::Quorlock),
/// without the name, and with settings of its own.
///
/// A call that was refused for a second reserves the lock with its next attempt: callers of any kind whose calls began later do
/// not get it then. A lock is reserved for 1 s, or for two [node timeouts](crate::Builder::node_timeout) if that is longer, then left to others for half as long, then reserved for twice as long, up to
/// 32 s, until the call has got it or gives up. Beside readers or permits of the same name, which others have all the time, it
/// reserves the lock after 100 ms, and so waits for about as much more than the longest hold, if that is shorter than two
/// seconds. Longer ones may go before it each time that it leaves the lock to others: beside reads of 3 s it has waited for 9 s.
/// [`try_lock`](Self::try_lock) says [`Held`](crate::ErrorKind::Held) while somebody has reserved the lock.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use quorlock::{OptionalGuard as _, Quorlock};
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let report = locks.mutex("nightly-report").ttl(Duration::from_secs(5));
/// if let Some(guard) = report.try_lock().optional()? {
///     // .. nobody else writes the report now ..
///     guard.unlock()?;
/// }
/// # Ok::<(), quorlock::Error>(())
/// ```
pub type Mutex = Handle<Exclusive>;
