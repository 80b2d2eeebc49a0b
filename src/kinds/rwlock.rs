//! The read-write lock: a hash a node, with its mode and a field for each hold, as Redisson's `RReadWriteLock` has it. To
//! read and to write are two kinds of one family.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::time::Duration;

use crate::core::acquire::{Waits, WayOfWaiting};
use crate::core::base::HoldClass;
use crate::core::vote::{PermitsWanted, fence_outlives_ms};
use crate::error::Error;
use crate::guard::{Guard, LockGuard, StaysOnItsThread, sealed as of_guards};
use crate::handle::{LockKind, OneName, sealed};
use crate::ident::{
    Names, READ_TIMEOUT, WRITES, fence_key, owner_text_with_thread, read_timeout_key, reads_key,
    reads_prefix, redisson_rwlock_channel, release_channel, reserved_key, tombstone_key,
    waiting_channel, write_with_names,
};
use crate::kinds::contract::kind::{Claimant, Keep, Kind, Raise, Repair};
use crate::kinds::contract::one_key::{OneKey, fence_ttl};
use crate::kinds::contract::reply;
use crate::kinds::contract::reservations::reservation;
use crate::node::{Part, Request, Script};
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

/// All but `acquire` are as other kinds have them.
static WRITE: OneKey = OneKey {
    acquire: &WRITE_ACQUIRE,
    confirm: &WRITE_CONFIRM,
    extend: &WRITE_EXTEND,
    release: &WRITE_RELEASE,
};

/// What the two kinds are called together.
const FAMILY: &str = "rwlock";

const AUXILIARY: &[&str] = &[":fence", ":reads", READ_TIMEOUT];

/// Ours comes first, as in the scripts.
fn channels(names: &Names) -> Vec<Vec<u8>> {
    let key = names.first().key();
    vec![release_channel(key), redisson_rwlock_channel(key)]
}

/// The kind of holds to read: several at a time.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading;

/// The kind of holds to write: one at a time, and nobody reads.
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
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "Reading";
}

impl sealed::Kind for Writing {
    const KIND: &'static dyn Kind = &Self;
    const HANDLE: &'static str = "Writing";
}

impl Kind for Reading {
    fn label(&self) -> &'static str {
        "read"
    }

    fn family(&self) -> &'static str {
        FAMILY
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Shared
    }

    fn is_reentrant(&self) -> bool {
        true
    }

    fn waiting(&self, _: &Names, _: Option<PermitsWanted>) -> WayOfWaiting {
        WayOfWaiting::InTurns
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        AUXILIARY
    }

    fn commands(&self) -> &'static [&'static str] {
        &[
            "set", "get", "mget", "del", "hset", "hmget", "hgetall", "hexists", "hdel", "hlen",
            "type", "pttl", "pexpire", "time", "publish",
        ]
    }

    fn owner_text(&self, label: &str, random: u128) -> String {
        owner_text_with_thread(label, random)
    }

    fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        channels(names)
    }

    fn waiting_channel(&self, names: &Names) -> Option<Vec<u8>> {
        Some(waiting_channel(names.first().key()))
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
        let (timeout, reserved) = (read_timeout_key(key, owner.as_bytes()), reserved_key(key));
        let reservation = reservation(&waits);
        let fenced = proposal.map(|_| (fence_key(key), reads_key(key)));
        let mut parts =
            [key, mark_key, &reserved, &timeout].into_iter().map(Part::Bytes).collect::<Vec<_>>();
        parts.extend(
            fenced.iter().flat_map(|(fence, reads)| [fence, reads]).map(|it| Part::Bytes(it)),
        );
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        parts.push(Part::Bytes(reservation.as_bytes()));
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        Request::new(&READ_ACQUIRE, keys, &parts)
    }

    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request> {
        let key = names.first().key();
        let (fence, reads) = (fence_key(key), reads_key(key));
        let parts = [
            Part::Bytes(key),
            Part::Bytes(&fence),
            Part::Bytes(&reads),
            Part::Bytes(owner.as_bytes()),
            number.into(),
            Part::Number(fence_outlives_ms()),
        ];
        Some(Request::new(&READ_CONFIRM, 3, &parts))
    }

    fn extend(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        let key = names.first().key();
        let writer = format!("{owner}{WRITES}");
        let tombstones = [owner, &writer].map(|owner| tombstone_key(key, owner.as_bytes()));
        let timeout = read_timeout_key(key, owner.as_bytes());
        let fenced = repair.fence.map(|_| (fence_key(key), reads_key(key)));
        let channels = channels(names);
        let mut parts = vec![Part::Bytes(key), Part::Bytes(repair.mark_key)];
        parts.extend(tombstones.iter().map(|it| Part::Bytes(it)));
        parts.push(Part::Bytes(&timeout));
        parts.extend(
            fenced.iter().flat_map(|(fence, reads)| [fence, reads]).map(|it| Part::Bytes(it)),
        );
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), Part::Bytes(writer.as_bytes()), ttl.into()]);
        let quarantine = Part::Number(repair.quarantine.into());
        parts.extend([Part::Number(repair.until_ms), quarantine]);
        parts.push(Part::Number(fence_outlives_ms()));
        parts.extend(channels.iter().map(|channel| Part::Bytes(channel)));
        if let Some(fence) = repair.fence {
            parts.extend([Part::from(fence.number), Part::from(fence.up_to), fence_ttl(ttl)]);
        }
        Request::new(&READ_EXTEND, keys, &parts)
    }

    /// It is never kept: others may read meanwhile.
    fn release(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        _: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        let key = names.first().key();
        let writer = format!("{owner}{WRITES}");
        let tombstones = [owner, &writer].map(|owner| tombstone_key(key, owner.as_bytes()));
        let (timeout, prefix) = (read_timeout_key(key, owner.as_bytes()), reads_prefix(key));
        let channels = channels(names);
        let mut parts = vec![Part::Bytes(key), Part::Bytes(&timeout)];
        if raise.is_some() {
            parts.extend(tombstones.iter().map(|it| Part::Bytes(it)));
        }
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), Part::Bytes(writer.as_bytes())]);
        parts.extend(channels.iter().map(|channel| Part::Bytes(channel)));
        parts.push(Part::Bytes(&prefix));
        if let Some(Raise { lasts, .. }) = raise {
            parts.push(lasts.into());
        }
        Request::new(&READ_RELEASE, keys, &parts)
    }

    #[cfg(all(test, feature = "embedded"))]
    fn holders(
        &self,
        key: &[u8],
        call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
    ) -> Vec<(Vec<u8>, i64)> {
        let reads = owners(key, call).filter(|owner| !owner.ends_with(WRITES.as_bytes()));
        // A read ends with its string, whoever else reads.
        let end = |owner: Vec<u8>| Some((end_ms(&read_timeout_key(key, &owner), call)?, owner));
        reads.filter_map(end).map(|(end_ms, owner)| (owner, end_ms)).collect()
    }
}

impl Kind for Writing {
    fn label(&self) -> &'static str {
        "write"
    }

    fn family(&self) -> &'static str {
        FAMILY
    }

    fn downgraded(&self, owner: &str) -> Option<(&'static dyn Kind, String)> {
        Some((&Reading, owner.strip_suffix(WRITES).unwrap_or(owner).to_owned()))
    }

    fn hold_class(&self) -> HoldClass {
        HoldClass::Exclusive
    }

    fn is_reentrant(&self) -> bool {
        true
    }

    fn waiting(&self, _: &Names, _: Option<PermitsWanted>) -> WayOfWaiting {
        WayOfWaiting::InTurns
    }

    fn auxiliary(&self) -> &'static [&'static str] {
        AUXILIARY
    }

    /// Those to read are among them, for whoever writes may go on to read.
    fn commands(&self) -> &'static [&'static str] {
        &[
            "set", "get", "mget", "del", "hset", "hmget", "hgetall", "hexists", "hdel", "hlen",
            "type", "pttl", "pexpire", "time", "publish",
        ]
    }

    fn owner_text(&self, label: &str, random: u128) -> String {
        owner_text_with_thread(label, random) + WRITES
    }

    fn channels(&self, names: &Names) -> Vec<Vec<u8>> {
        channels(names)
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
        let (reserved, waiting) = (reserved_key(key), waiting_channel(key));
        let reservation = reservation(&waits);
        let fence = proposal.map(|_| fence_key(key));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(mark_key), Part::Bytes(&reserved)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        parts.extend([Part::Bytes(reservation.as_bytes()), Part::Bytes(&waiting)]);
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), fence_ttl(ttl)]);
        }
        Request::new(WRITE.acquire, keys, &parts)
    }

    fn confirm(&self, names: &Names, owner: &str, number: u64) -> Option<Request> {
        Some(WRITE.confirm(names.first().key(), owner, number))
    }

    fn extend(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        ttl: Duration,
        repair: Repair<'_>,
    ) -> Request {
        WRITE.extend(names.first().key(), owner, ttl, repair)
    }

    fn release(
        &self,
        names: &Names,
        Claimant { owner, .. }: Claimant<'_>,
        keep: Option<Keep>,
        raise: Option<Raise>,
    ) -> Request {
        WRITE.release(names.first().key(), owner, &channels(names), keep, raise)
    }

    #[cfg(all(test, feature = "embedded"))]
    fn holders(
        &self,
        key: &[u8],
        call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
    ) -> Vec<(Vec<u8>, i64)> {
        let writes = owners(key, call).filter(|owner| owner.ends_with(WRITES.as_bytes()));
        let end_ms = end_ms(key, call);
        writes.filter_map(|owner| Some((owner, end_ms?))).collect()
    }
}

/// The owners of a read-write lock on a node.
#[cfg(all(test, feature = "embedded"))]
fn owners(
    key: &[u8],
    call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply,
) -> impl Iterator<Item = Vec<u8>> + use<> {
    use crate::embedded::Reply;

    let Reply::List(fields) = call(&[b"HKEYS", key]) else { return Vec::new().into_iter() };
    let is_ours = fields.contains(&Reply::Bulk(b"mode".to_vec()));
    let owner = |field| match field {
        Reply::Bulk(owner) if is_ours && owner != b"mode" => Some(owner),
        _ => None,
    };
    fields.into_iter().filter_map(owner).collect::<Vec<_>>().into_iter()
}

/// The end of a key, in milliseconds of a node's clock; negative: it has none. `None`: there is no such key.
#[cfg(all(test, feature = "embedded"))]
fn end_ms(key: &[u8], call: &mut dyn FnMut(&[&[u8]]) -> crate::embedded::Reply) -> Option<i64> {
    match call(&[b"PEXPIRETIME", key]) {
        crate::embedded::Reply::Int(end_ms) => Some(end_ms).filter(|end_ms| *end_ms != -2),
        _ => None,
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

/// A hold to read of a [`RwLock`](crate::RwLock). Others may read as well, and nobody writes.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. All else is as [`Guard`] says, to which it dereferences, but for
/// what several holds mean:
///
/// - the threads of one client may share one lease: its renewal, its end and its [`owner`](Guard::owner). Each guard has a
///   [`token`](Guard::token) of its own, and hears of a loss by its own [`lost`](Guard::lost) and
///   [`on_lost`](Guard::on_lost);
/// - an [`extend`](Guard::extend) for less cuts [`remaining`](Guard::remaining) only if there is no other guard;
/// - a token is larger than that of every write before, and smaller than that of every write after. Tokens of
///   reads say nothing of each other.
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
    /// Gives this guard back. If it is the last one of a lease it gives that back to the nodes, and waits as
    /// [`Guard::unlock`] does; if not, it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. [`Lost`](crate::ErrorKind::Lost) comes from each guard of a lock that is lost.
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }
}

/// A hold to write of a [`RwLock`](crate::RwLock): nobody else reads or writes.
///
/// It stays on its thread: it is neither `Send` nor `Sync`. All else is as [`Guard`] says, to which it dereferences, but for
/// what several guards of one thread mean: see [`ReentrantGuard`](crate::ReentrantGuard).
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
    /// Gives this guard back. If it is the last one of its thread it gives the lock back, and waits as [`Guard::unlock`]
    /// does; if not, it returns at once.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`]. [`Lost`](crate::ErrorKind::Lost) comes from each guard of a lock that is lost.
    pub fn unlock(self) -> Result<(), Error> {
        self.guard.unlock()
    }

    /// Reads from now on what it wrote: nobody else can have written in between. It waits for nothing, and cannot fail; a lock
    /// that is lost is lost for the new guard, too.
    ///
    /// With the last [`WriteGuard`] of its thread, the lock lets others read: the nodes are told at once, and again with each
    /// renewal. Until then nobody else reads. To drop the last [`WriteGuard`] while the thread has a [`ReadGuard`] does the
    /// same.
    ///
    /// The new guard has the same [`token`](Guard::token). The [`owner`](Guard::owner) is another one from then on, without
    /// the `:write` at its end.
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
