//! The lock with several names. Under each name it keeps what the exclusive lock keeps under its one name.

use crate::guard::Guard;
use crate::handle::{Handle, LockKind, sealed};
use crate::ident::owner_text;
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::layout::{Argument, Key, Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::node::Script;

// No batch makes several calls of these scripts in one step. Starting a script costs a server as much as two
// commands, which is little compared with the work of these scripts. And a batch of them would block everybody for a
// millisecond.
static ACQUIRE: Script =
    Script::new(include_str!("../../lua/multi/acquire.lua")).with_meaning(reply::acquire_meaning);
static CONFIRM: Script =
    Script::new(include_str!("../../lua/multi/confirm.lua")).with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::new(include_str!("../../lua/multi/extend.lua")).with_meaning(reply::extend_meaning);
static RELEASE: Script = Script::new(include_str!("../../lua/multi/release.lua"));

/// The largest number of names. A server does nothing else while it runs a script. With 16 names that takes 60 us on
/// a busy machine, ten times as long as for a mutex; with 64 names it would be 200 us.
const MOST_NAMES: usize = 16;

// The mark is the first key, and the fences are the last ones: the scripts derive the number of names from the number
// of keys.
static KIND: Kind = Kind {
    most_names: MOST_NAMES,
    ..Kind::exclusive(
        "multi_mutex",
        Layout {
            acquire: ScriptCall {
                keys: &[Key::Mark, Key::Reserved, Key::Lock, Key::Fence],
                ..ScriptCall::acquire(&ACQUIRE)
            },
            confirm: Some(ScriptCall::confirm(&CONFIRM)),
            extend: ScriptCall {
                keys: &[Key::Mark, Key::Lock, Key::Tombstone, Key::Fence],
                ..ScriptCall::extend(&EXTEND)
            },
            // The channels come last, so that the other arguments have fixed places.
            release: ScriptCall {
                arguments: &[
                    Argument::Owner,
                    Argument::KeepUntil,
                    Argument::KeepBy,
                    Argument::Kept,
                    Argument::RaiseTo,
                    Argument::FenceTtl,
                    Argument::Channel,
                ],
                ..ScriptCall::release(&RELEASE)
            },
            leave: None,
            commands: &[
                "set", "get", "mget", "exists", "del", "type", "pttl", "pexpire", "time", "publish",
            ],
            owner: owner_text,
            redissons_channel: None,
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_string,
        },
    )
};

/// The kind of locks that have several names, and are exclusive under each of them.
#[derive(Debug)]
#[non_exhaustive]
pub struct AllNames;

impl LockKind for AllNames {
    type Guard = Guard;
}

impl sealed::Kind for AllNames {
    const HANDLE: &'static str = "MultiMutex";

    fn kind() -> &'static Kind {
        &KIND
    }
}

/// An exclusive lock under several names at once, from [`Quorlock::multi_mutex`](crate::Quorlock::multi_mutex): all
/// of them or none.
///
/// - **Names.** 1 to 16, each as for a [`Mutex`](crate::Mutex). Their order does not matter, and equal ones count once. A call
///   waits until all names are free at once, so locks with fewer names wait less. The first call on a handle with more than 16
///   names returns [`InvalidName`](crate::ErrorKind::InvalidName).
/// - **Exclusion.** It excludes every lock, of any kind, that has one of its names. On the nodes it looks like a mutex under each
///   of its names.
/// - **No deadlock.** A call never holds some of the names while it waits for the others, so clients may name them in different
///   orders. This does not cover a guard that is held while another call waits.
/// - **Waiting.** A call that was refused for 100 ms reserves its names: callers whose calls began later get none of them until
///   it has got the lock or gives up. So it waits for about as long as the longest hold of any of its names, and 100 ms
///   more for each client whose threads pass a name to each other. Names are reserved for 1 s at a time, then left to
///   others for half as long, then reserved for twice as long, up to 32 s. So a long hold of one name delays callers of the
///   other names now and then. No bound is promised if others hold a name for more than 32 s, again and again.
/// - **Token.** One for all names, larger than that of every earlier holder of any of these names.
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
