//! The exclusive lock: one string per node, the layout of the Redlock algorithm.

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

/// The batch contains the scripts themselves, and a part of that which takes a lock, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function extend(KEYS, ARGV)\n",
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

/// An exclusive lock by name, from [`Quorlock::mutex`](crate::Quorlock::mutex). It has the same calls as the
/// [`Quorlock`](crate::Quorlock), without the name, and settings of its own.
///
/// A call that was refused for one second reserves the lock with its next attempt. Callers of any kind whose calls
/// began later do not get the lock then. A reservation lasts 1 s, or two
/// [node timeouts](crate::Builder::node_timeout) if that is longer. Then the lock is left to others for half as long, and
/// reserved again for twice as long, up to 32 s, until the call gets it or gives up.
///
/// If others hold reads or permits of the same name all the time, the call reserves the lock after 100 ms. So it
/// waits for about 100 ms more than the longest hold, if that hold is shorter than two seconds. Longer holds may go
/// first each time that the call leaves the lock to others: with reads of 3 s, a call has waited for 9 s.
///
/// [`try_lock`](Self::try_lock) says [`Held`](crate::ErrorKind::Held) while another call has reserved the lock.
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
