//! The read-write lock: a hash per node, with its mode and a field for each hold, as in Redisson's `RReadWriteLock`.
//! Reading and writing are two kinds of one group.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::core::base::HoldClass;
use crate::error::Error;
use crate::guard::Guard;
use crate::handle::{LockKind, OneName, sealed};
use crate::ident::{WRITES, owner_text_with_thread, redisson_rwlock_channel, write_with_names};
#[cfg(all(test, feature = "embedded"))]
use crate::kinds::contract::holders;
use crate::kinds::contract::kind::{Kind, Order};
use crate::kinds::contract::layout::{Argument, Key, Layout, ScriptCall};
use crate::kinds::contract::reply;
use crate::lock_guard::{LockGuard, StaysOnItsThread, sealed as of_guards};
use crate::node::Script;
use crate::runtime::hold::Hold;

static READ_ACQUIRE: Script = Script::new(include_str!("../../lua/rwlock/read_acquire.lua"))
    .with_meaning(reply::acquire_meaning);
static READ_CONFIRM: Script = Script::new(include_str!("../../lua/rwlock/read_confirm.lua"))
    .with_meaning(reply::confirm_meaning);
static READ_EXTEND: Script = Script::new(include_str!("../../lua/rwlock/read_extend.lua"))
    .with_meaning(reply::extend_meaning);
static READ_RELEASE: Script = Script::new(include_str!("../../lua/rwlock/read_release.lua"));

static WRITE_ACQUIRE: Script = Script::new(include_str!("../../lua/rwlock/write_acquire.lua"))
    .with_meaning(reply::acquire_meaning);
static WRITE_CONFIRM: Script = Script::new(include_str!("../../lua/reentrant/confirm.lua"))
    .with_meaning(reply::confirm_meaning);
static WRITE_EXTEND: Script = Script::new(include_str!("../../lua/rwlock/write_extend.lua"))
    .with_meaning(reply::extend_meaning);
static WRITE_RELEASE: Script = Script::new(include_str!("../../lua/rwlock/write_release.lua"));

/// The group of the two kinds.
const GROUP: &str = "rwlock";

/// Both kinds state the commands of the read scripts, because a writer may go on as a reader.
const COMMANDS: &[&str] = &[
    "set", "get", "mget", "del", "hset", "hmget", "hgetall", "hexists", "hdel", "hlen", "type",
    "pttl", "pexpire", "time", "publish",
];

static READING: Kind = Kind {
    hold_class: HoldClass::Shared,
    group: GROUP,
    is_reentrant: true,
    order: Order::Turns,
    ..Kind::exclusive(
        "read",
        Layout {
            acquire: ScriptCall {
                keys: &[Key::Lock, Key::Mark, Key::Reserved, Key::ReadEnd, Key::Fence, Key::Reads],
                ..ScriptCall::acquire(&READ_ACQUIRE)
            },
            confirm: Some(ScriptCall {
                keys: &[Key::Lock, Key::Fence, Key::Reads],
                ..ScriptCall::confirm(&READ_CONFIRM)
            }),
            extend: ScriptCall {
                script: &READ_EXTEND,
                keys: &[
                    Key::Lock,
                    Key::Mark,
                    Key::Tombstone,
                    Key::WriteTombstone,
                    Key::ReadEnd,
                    Key::Fence,
                    Key::Reads,
                ],
                arguments: &[
                    Argument::Owner,
                    Argument::WriteOwner,
                    Argument::Ttl,
                    Argument::Until,
                    Argument::Quarantine,
                    Argument::Outlives,
                    Argument::Channel,
                    Argument::RedissonsChannel,
                    Argument::Number,
                    Argument::UpTo,
                    Argument::FenceTtl,
                ],
            },
            // Nodes never keep a read lock after its release: others may read meanwhile.
            release: ScriptCall {
                script: &READ_RELEASE,
                keys: &[Key::Lock, Key::ReadEnd, Key::Tombstone, Key::WriteTombstone],
                arguments: &[
                    Argument::Owner,
                    Argument::WriteOwner,
                    Argument::Channel,
                    Argument::RedissonsChannel,
                    Argument::ReadsPrefix,
                    Argument::TombstoneTtl,
                ],
            },
            leave: None,
            commands: COMMANDS,
            owner: owner_text_with_thread,
            redissons_channel: Some(redisson_rwlock_channel),
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_reads,
        },
    )
};

static WRITING: Kind = Kind {
    group: GROUP,
    is_reentrant: true,
    order: Order::Turns,
    downgrades_to: Some(&READING),
    ..Kind::exclusive(
        "write",
        Layout {
            acquire: ScriptCall {
                arguments: &[
                    Argument::Owner,
                    Argument::Ttl,
                    Argument::Admitted,
                    Argument::WaitingChannel,
                    Argument::Proposal,
                    Argument::FenceTtl,
                    Argument::Waiter,
                ],
                ..ScriptCall::acquire(&WRITE_ACQUIRE)
            },
            confirm: Some(ScriptCall::confirm(&WRITE_CONFIRM)),
            extend: ScriptCall::extend(&WRITE_EXTEND),
            release: ScriptCall::release_of_redissons(&WRITE_RELEASE),
            leave: None,
            commands: COMMANDS,
            owner: |label, random| owner_text_with_thread(label, random) + WRITES,
            redissons_channel: Some(redisson_rwlock_channel),
            #[cfg(all(test, feature = "embedded"))]
            holders: holders::of_writes,
        },
    )
};

/// The kind of read holds: several at a time.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading;

/// The kind of write holds: one at a time, and nobody reads.
#[derive(Debug)]
#[non_exhaustive]
pub struct Writing;

impl LockKind for Reading {
    type Guard = ReadGuard;
}

impl LockKind for Writing {
    type Guard = WriteGuard;
}

impl OneName for Reading {}

impl OneName for Writing {}

impl sealed::Kind for Reading {
    const HANDLE: &'static str = "Reading";

    fn kind() -> &'static Kind {
        &READING
    }
}

impl sealed::Kind for Writing {
    const HANDLE: &'static str = "Writing";

    fn kind() -> &'static Kind {
        &WRITING
    }
}

macro_rules! guard {
    ($guard:ident, $kind:ident) => {
        impl Deref for $guard {
            type Target = Guard;

            fn deref(&self) -> &Guard {
                &self.guard
            }
        }

        impl LockGuard for $guard {}

        impl of_guards::Guard for $guard {
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

        impl fmt::Display for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_with_names(f, <$kind as LockKind>::label(), self.names())
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($guard)).field(&self.guard).finish()
            }
        }
    };
}

/// A read hold of a [`RwLock`](crate::RwLock). Others may read as well, and nobody writes.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. It dereferences to [`Guard`], whose documentation
/// applies, except where there are several holds:
///
/// - the threads of one client may share one lease: its renewal, its end and its [`owner`](Guard::owner). Each guard has a
///   [`token`](Guard::token) of its own, and reports a loss by its own [`lost`](Guard::lost) and
///   [`on_lost`](Guard::on_lost);
/// - an [`extend`](Guard::extend) for less cuts [`remaining`](Guard::remaining) only if there is no other guard;
/// - a token is larger than that of every earlier write, and smaller than that of every later write. The tokens of two reads
///   cannot be compared.
///
/// ```compile_fail,E0277
/// fn goes_to_another_thread<T: Send>() {}
/// goes_to_another_thread::<quorlock::ReadGuard>();
/// ```
#[must_use = "the lock is given back as soon as its last guard is dropped"]
pub struct ReadGuard {
    guard: Guard,
    stays: StaysOnItsThread,
}

guard!(ReadGuard, Reading);

impl ReadGuard {
    /// Gives this guard back. If it is the last one of a lease, the call gives the lease back to the nodes, and waits
    /// as [`Guard::unlock`] does. Otherwise it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. Each guard of a lost lock returns [`Lost`](crate::ErrorKind::Lost).
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}

/// A write hold of a [`RwLock`](crate::RwLock): nobody else reads or writes.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. It dereferences to [`Guard`], whose documentation
/// applies, except where one thread has several guards: see [`ReentrantGuard`](crate::ReentrantGuard).
///
/// ```compile_fail,E0277
/// fn goes_to_another_thread<T: Send>() {}
/// goes_to_another_thread::<quorlock::WriteGuard>();
/// ```
#[must_use = "the lock is given back as soon as its last guard is dropped"]
pub struct WriteGuard {
    guard: Guard,
    stays: StaysOnItsThread,
}

guard!(WriteGuard, Writing);

impl WriteGuard {
    /// Gives this guard back. If it is the last one of its thread, the call gives the lock back, and waits as
    /// [`Guard::unlock`] does. Otherwise it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. Each guard of a lost lock returns [`Lost`](crate::ErrorKind::Lost).
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }

    /// Turns this write guard into a read guard: nobody else can write in between. It waits for nothing, and cannot
    /// fail. A lock that is lost is lost for the new guard, too.
    ///
    /// The downgrade of the last [`WriteGuard`] of a thread lets others read. The nodes are told at once, and again
    /// with each renewal; until then nobody else reads. Dropping the last [`WriteGuard`] while the thread has a
    /// [`ReadGuard`] does the same.
    ///
    /// The new guard has the same [`token`](Guard::token). Its [`owner`](Guard::owner) is another one from then on,
    /// without the `:write` at its end.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn write_configuration() {}
    /// # fn start_to_use_it() {}
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let configuration = locks.rw_lock("configuration");
    /// let guard = configuration.write()?;
    /// write_configuration();
    /// let guard = guard.downgrade(); // others read it from here on, and nobody writes another one
    /// start_to_use_it();
    /// guard.unlock()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn downgrade(self) -> ReadGuard {
        ReadGuard { guard: self.guard.downgrade(), stays: PhantomData }
    }
}
