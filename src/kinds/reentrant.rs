//! The reentrant lock: a hash per node, with the owner as its one field, as in Redisson's `RLock`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::error::Error;
use crate::guard::Guard;
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::{owner_text_with_thread, redisson_channel};
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::layout::{Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::lock_guard::{LockGuard, StaysOnItsThread, sealed as of_guards};
use crate::node::Script;
use crate::runtime::hold::Hold;

static ACQUIRE: Script =
    Script::batched(include_str!("../../lua/reentrant/acquire.lua"), "acquire", &BATCH)
        .with_meaning(reply::acquire_meaning);
static CONFIRM: Script = Script::new(include_str!("../../lua/reentrant/confirm.lua"))
    .with_meaning(reply::confirm_meaning);
static EXTEND: Script =
    Script::batched(include_str!("../../lua/reentrant/extend.lua"), "extend", &BATCH)
        .with_meaning(reply::extend_meaning);
static RELEASE: Script =
    Script::batched(include_str!("../../lua/reentrant/release.lua"), "release", &BATCH);

/// The batch contains the scripts themselves, and a part of that which takes a lock, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function extend(KEYS, ARGV)\n",
    include_str!("../../lua/reentrant/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../../lua/reentrant/release.lua"),
    "end\n",
    include_str!("../../lua/reentrant/batch.lua"),
));

static KIND: Kind = Kind {
    is_reentrant: true,
    ..Kind::exclusive(
        "reentrant",
        Layout {
            acquire: ScriptCall::acquire(&ACQUIRE),
            confirm: Some(ScriptCall::confirm(&CONFIRM)),
            extend: ScriptCall::extend(&EXTEND),
            release: ScriptCall::release_of_redissons(&RELEASE),
            leave: None,
            commands: &[
                "set", "get", "mget", "del", "hset", "hexists", "hdel", "type", "pttl", "pexpire",
                "time", "publish",
            ],
            owner: owner_text_with_thread,
            redissons_channel: Some(redisson_channel),
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_hash,
        },
    )
};

/// The kind of locks that a thread may take again while it holds them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reentrant;

impl LockKind for Reentrant {
    type Guard = ReentrantGuard;
}

impl OneName for Reentrant {}

impl sealed::Kind for Reentrant {
    const HANDLE: &'static str = "ReentrantMutex";

    fn kind() -> &'static Kind {
        &KIND
    }
}

/// A lock by name that the thread which holds it may take again, from
/// [`Quorlock::reentrant_mutex`](crate::Quorlock::reentrant_mutex). It has the same calls as the
/// [`Quorlock`](crate::Quorlock), without the name, and settings of its own.
///
/// The lock belongs to the thread that took it: to a thread of one client, which is a [`Quorlock`](crate::Quorlock)
/// and its clones. While that thread has a guard, each of its further calls returns at once with one more
/// [`ReentrantGuard`], and asks no node. All other threads, clients and processes wait until the last of these guards
/// is given back, in any order.
///
/// The guards share one lease, and so its [`token`](Guard::token), its renewal and its end. The lease keeps the terms
/// on which it was taken first: the `ttl`, `renewal`, `max_hold` and `min_hold` of a handle matter only if the thread
/// does not hold the lock yet. A lock that is lost cannot be taken again while the thread has a guard of it: each
/// call returns [`Lost`](crate::ErrorKind::Lost).
///
/// A waiting call reserves the lock as that of a [`Mutex`](crate::Mutex) does. The thread that holds the lock takes
/// it again despite any reservation.
///
/// On the nodes, the lock equals Redisson's `RLock` of the same key, with a count of 1. With an empty
/// [`key_prefix`](crate::Builder::key_prefix) and one node that both use, the two exclude and wake each other.
/// Redisson knows nothing of quorums, quarantine, and clocks, so a lock that is shared with it rests on that one node
/// alone.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Error, Quorlock, ReentrantMutex};
///
/// /// Protects itself, whoever calls it.
/// fn book(account: &ReentrantMutex, amount: i64) -> Result<(), Error> {
///     account.with_lock_fallible(|guard| {
///         guard.check()?;
///         // .. write `amount` ..
///         Ok(())
///     })
/// }
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let account = locks.reentrant_mutex("accounts/42");
/// let guard = account.lock()?;
/// book(&account, 100)?; // takes the lock a second time
/// book(&account, -5)?;
/// assert_eq!(account.hold_count(), 1);
/// guard.unlock()?; // gives it back
/// # Ok::<(), quorlock::Error>(())
/// ```
pub type ReentrantMutex = Handle<Reentrant>;

impl ReentrantMutex {
    /// Returns the number of guards of this lock that the calling thread has; 0 if it has none. Asks no node.
    ///
    /// Guards of a lost lock count until they are dropped: see
    /// [`is_owned_by_current_thread`](Self::is_owned_by_current_thread). A leaked guard counts for ever.
    #[must_use]
    pub fn hold_count(&self) -> usize {
        self.hold_count_of_this_thread()
    }

    /// Returns true if the calling thread has a guard of this lock, and the lock is certainly not lost. Asks no node.
    ///
    /// The answer is as reliable as that of [`Guard::check`]: it may be wrong the next moment.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.is_held_by_this_thread()
    }
}

/// One of the guards of a held [`ReentrantMutex`]. The lock is given back with the last guard of its thread.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. It dereferences to [`Guard`], whose documentation
/// applies, except where a lock has several guards:
///
/// - each of them reports a loss by its own [`lost`](Guard::lost) and [`on_lost`](Guard::on_lost);
/// - an [`extend`](Guard::extend) for less cuts [`remaining`](Guard::remaining) only if there is no other guard;
/// - a guard that is leaked, or whose thread ends without dropping it, keeps everybody from the lock as long as its
///   client renews it. No later thread is mistaken for that thread.
///
/// ```compile_fail,E0277
/// fn goes_to_another_thread<T: Send>() {}
/// goes_to_another_thread::<quorlock::ReentrantGuard>();
/// ```
#[must_use = "the lock is given back as soon as its last guard is dropped"]
pub struct ReentrantGuard {
    guard: Guard,
    stays: StaysOnItsThread,
}

impl ReentrantGuard {
    /// Gives this guard back. If it is the last one of its thread, the call gives the lock back, and waits as
    /// [`Guard::unlock`] does. Otherwise it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. Each guard of a lost lock returns [`Lost`](crate::ErrorKind::Lost).
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl LockGuard for ReentrantGuard {}

impl of_guards::Guard for ReentrantGuard {
    fn new(hold: Hold) -> Self {
        Self { guard: of_guards::Guard::new(hold), stays: PhantomData }
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }

    fn into_guard(self) -> Guard {
        self.guard
    }
}

impl fmt::Display for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.guard, f)
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReentrantGuard").field(&self.guard).finish()
    }
}
