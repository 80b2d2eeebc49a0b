//! The exclusive lock: one string a node, the layout of the Redlock algorithm.

use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::owner_text;
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::layout::{Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::node::Script;

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

pub(super) static KIND: Kind = Kind::exclusive(
    "mutex",
    Layout {
        acquire: ScriptCall::acquire(&ACQUIRE),
        confirm: Some(ScriptCall::confirm(&CONFIRM)),
        extend: ScriptCall::extend(&EXTEND),
        release: ScriptCall::release(&RELEASE),
        leave: None,
        commands: &["set", "get", "mget", "del", "type", "pttl", "pexpire", "time", "publish"],
        owner: owner_text,
        redissons_channel: None,
        #[cfg(all(test, feature = "embedded"))]
        holders: holders::of_string,
    },
);

/// The kind of exclusive locks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Exclusive;

impl LockKind for Exclusive {
    type Guard = Guard;
}

impl OneName for Exclusive {}

impl sealed::Kind for Exclusive {
    const HANDLE: &'static str = "Mutex";

    fn kind() -> &'static Kind {
        &KIND
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
