//! The reentrant lock: a hash a node, with the owner as its one field, as Redisson's `RLock` has it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::base::HoldClass;
use crate::error::Error;
use crate::guard::{Guard, LockGuard, StaysOnItsThread, sealed as of_guards};
use crate::handle::{Handle, LockKind, OneName, sealed};
use crate::ident::{Names, owner_text_with_thread, redisson_channel, release_channel};
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::one_key::OneKey;
use crate::kinds::contract::reply;
use crate::node::{Request, Script};
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

/// The scripts themselves are part of it, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function acquire(KEYS, ARGV)\n",
    include_str!("../../lua/reentrant/acquire.lua"),
    "end\nlocal function extend(KEYS, ARGV)\n",
    include_str!("../../lua/reentrant/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../../lua/reentrant/release.lua"),
    "end\n",
    include_str!("../../lua/reentrant/batch.lua"),
));

static SCRIPTS: OneKey =
    OneKey { acquire: &ACQUIRE, confirm: &CONFIRM, extend: &EXTEND, release: &RELEASE };

/// The kind of locks that a thread may take again while it holds them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reentrant;

impl LockKind for Reentrant {
    type Guard = ReentrantGuard;
}

impl OneName for Reentrant {}

impl sealed::Kind for Reentrant {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "ReentrantMutex";
}

impl Kind for Reentrant {
    fn label(&self) -> &'static str {
        "reentrant"
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn is_reentrant(&self) -> bool {
        true
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        &[":fence"]
    }

    fn owner_text(&self, label: &str, random: u128) -> String {
        owner_text_with_thread(label, random)
    }

    fn commands(&self) -> &'static [&'static str] {
        &[
            "set", "get", "mget", "del", "hset", "hexists", "hdel", "type", "pttl", "pexpire",
            "time", "publish",
        ]
    }

    /// Ours comes first, as in the script.
    fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        let key = names.first().key();
        vec![release_channel(key), redisson_channel(key)]
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

    #[cfg(all(test, feature = "embedded"))]
    fn holders(
        &self,
        key: &[u8],
        call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
    ) -> Vec<(Vec<u8>, i64)> {
        use crate::embedded::Reply;

        let (Reply::List(fields), Reply::Int(end_ms)) =
            (call(&[b"HKEYS", key]), call(&[b"PEXPIRETIME", key]))
        else {
            return Vec::new();
        };
        let beside = [b"mode".as_slice(), b"permits"].map(|field| Reply::Bulk(field.to_vec()));
        if beside.iter().any(|field| fields.contains(field)) {
            return Vec::new(); // a read-write lock, or a semaphore
        }
        let owner =
            |field| if let Reply::Bulk(owner) = field { Some((owner, end_ms)) } else { None };
        fields.into_iter().filter_map(owner).collect()
    }
}

/// A lock by name that the thread which holds it may take again, from
/// [`Quorlock::reentrant_mutex`](crate::Quorlock::reentrant_mutex): the same calls as on the [`Quorlock`](crate::Quorlock),
/// without the name, and with settings of its own.
///
/// The lock belongs to the thread that took it: to a thread of one client, which is a
/// [`Quorlock`](crate::Quorlock) and its clones. While that thread has a guard, each of its further calls returns at once
/// with one more [`ReentrantGuard`], and asks no node. All other threads, clients and processes wait until the last of these
/// guards is given back, in whatever order they are.
///
/// The guards share one lease, and so its [`token`](Guard::token), its renewal and its end. The lease stays on the terms
/// on which it was taken first: the `ttl`, `renewal`, `max_hold` and `min_hold` of a handle matter only if the thread does
/// not hold the lock yet. A lock that is lost cannot be taken again while the thread has a guard of it: each call says
/// [`Lost`](crate::ErrorKind::Lost).
///
/// A call that waits reserves the lock as that of a [`Mutex`](crate::Mutex) does. The thread that holds the lock takes it again
/// whatever is reserved.
///
/// On the nodes it is what Redisson's `RLock` of the same key is, with a count of 1: with an empty
/// [`key_prefix`](crate::Builder::key_prefix) and one node that both use, the two exclude and wake each other. Redisson
/// knows nothing of quorums, quarantine, and clocks, so a lock that is shared with it rests on that one node alone.
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
    /// How many guards of this lock the calling thread has; 0, if it has none. Asks no node.
    ///
    /// Guards of a lock that is lost count until they are dropped: see
    /// [`is_owned_by_current_thread`](Self::is_owned_by_current_thread). A guard that was leaked counts for ever.
    #[must_use]
    pub fn hold_count(&self) -> usize {
        self.hold_count_of_this_thread()
    }

    /// Whether the calling thread has a guard of this lock, and the lock is certainly not lost. Asks no node.
    ///
    /// The answer is as old as that of [`Guard::check`]: it may be wrong the next moment.
    #[must_use]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.is_held_by_this_thread()
    }
}

/// One of the guards of a [`ReentrantMutex`] that is held. The lock is given back with the last guard of its thread.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. All else is as [`Guard`] says, to which it dereferences, but
/// for what several guards of a lock mean:
///
/// - each of them hears of a loss by its own [`lost`](Guard::lost) and [`on_lost`](Guard::on_lost);
/// - an [`extend`](Guard::extend) for less cuts [`remaining`](Guard::remaining) only if there is no other guard;
/// - a guard that is leaked, or whose thread ends without dropping it, keeps the lock from everybody, for as long as its
///   client renews it. No later thread is taken for that one.
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
    /// Gives this guard back. If it is the last one of its thread it gives the lock back, and waits as
    /// [`Guard::unlock`] does; if not, it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. [`Lost`](crate::ErrorKind::Lost) comes from each guard of a lock that is lost.
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
