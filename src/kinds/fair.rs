//! The fair lock: the string of an exclusive lock, and a queue of the waiting callers next to it.

use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::owner_text;
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::{Kind, Order};
use crate::kinds::contract::layout::{Argument, Key, Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::node::Script;

// No batch makes several calls of these scripts in one step: a caller that waits for a fair lock asks only once a
// second.
static ACQUIRE: Script =
    Script::new(include_str!("../../lua/fair/acquire.lua")).with_meaning(reply::acquire_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/fair/release.lua"));
static LEAVE: Script = Script::new(include_str!("../../lua/fair/leave.lua"));
// The lock itself is a string like that of a mutex, and a holder is in no queue.
static CONFIRM: Script =
    Script::new(include_str!("../../lua/mutex/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/mutex/extend.lua")).with_meaning(reply::extend_meaning);

static KIND: Kind = Kind {
    order: Order::Queue,
    ..Kind::exclusive(
        "fair_mutex",
        Layout {
            acquire: ScriptCall {
                script: &ACQUIRE,
                keys: &[
                    Key::Lock,
                    Key::Mark,
                    Key::Reserved,
                    Key::Queue,
                    Key::QueueEnds,
                    Key::Fence,
                ],
                arguments: &[
                    Argument::Owner,
                    Argument::Ttl,
                    Argument::Admitted,
                    Argument::Queued,
                    Argument::Ticket,
                    Argument::StaysFor,
                    Argument::Proposal,
                    Argument::FenceTtl,
                    Argument::Waiter,
                ],
            },
            confirm: Some(ScriptCall::confirm(&CONFIRM)),
            extend: ScriptCall::extend(&EXTEND),
            release: ScriptCall {
                script: &RELEASE,
                keys: &[Key::Lock, Key::Queue, Key::Tombstone, Key::Fence],
                arguments: &[
                    Argument::Owner,
                    Argument::Channel,
                    Argument::Queued,
                    Argument::KeepUntil,
                    Argument::KeepBy,
                    Argument::Kept,
                    Argument::RaiseTo,
                    Argument::FenceTtl,
                ],
            },
            leave: Some(ScriptCall {
                script: &LEAVE,
                keys: &[Key::Lock, Key::Queue, Key::QueueEnds],
                arguments: &[Argument::Queued, Argument::Channel],
            }),
            commands: &[
                "set", "get", "mget", "del", "type", "pttl", "pexpire", "time", "publish", "zadd",
                "zrem", "zrange", "zscore", "zcard",
            ],
            owner: owner_text,
            redissons_channel: None,
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_string,
        },
    )
};

/// The kind of fair locks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fair;

impl LockKind for Fair {
    type Guard = Guard;
}

impl OneName for Fair {}

impl sealed::Kind for Fair {
    const HANDLE: &'static str = "FairMutex";

    fn kind() -> &'static Kind {
        &KIND
    }
}

/// A lock by name that waiting callers get in the order in which they came, from
/// [`Quorlock::fair_mutex`](crate::Quorlock::fair_mutex). The order includes callers in several threads, processes
/// and machines.
///
/// - **Order.** The caller whose call began first goes first, if the two calls began at least two round trips apart. Calls that
///   began closer to each other are served in any order, one after the other.
/// - **Cost.** A free lock without waiters takes one round trip, as a mutex does. A caller that must wait asks twice more, and then
///   once a second. The nodes tell it, and nobody else, when its turn comes. Each hold is given back to the nodes: the threads of
///   a process do not hand the lock to each other.
/// - **A caller that dies** while it waits delays those behind it by at most 3 s after its last request, or longer if the
///   [`node_timeout`](crate::Builder::node_timeout) is longer than half a second. A caller that is cut off from a majority of the
///   masters gives up its place. Once it reaches them again, it gets its place back, ahead of callers that came later. If the
///   lock is free by then, the first caller to ask gets it.
/// - **`try_lock`** takes the lock only if nobody waits for it.
/// - **No order without a majority.** If clients [fall back](crate::Builder::fallback) to one master, callers come in any order.
/// - **A thread that waits for itself** causes no event, unlike with a mutex.
/// - **Up to 1,000 callers** wait in order. Further callers come in any order, once there is room.
/// - **Order is not exclusion.** If a master forgets its queue in a restart, a later caller may come first, but exclusion still
///   holds. Other kinds of locks of the same name exclude a fair one, and do not wait in its queue. In competition with them, the
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
