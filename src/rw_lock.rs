//! The read-write lock that users hold.

use std::fmt;
use std::time::{Duration, Instant};

use crate::config::settings::Renewal;
use crate::error::Error;
use crate::handle::Handle;
use crate::holders::HolderReport;
use crate::ident::write_with_names;
use crate::kinds::{ReadGuard, Reading, WriteGuard, Writing};
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// A lock by name, held by any number of readers or by one writer; from [`Quorlock::rw_lock`](crate::Quorlock::rw_lock),
/// with settings of its own.
///
/// Its holds belong to the thread that took them: to a thread of one client, which is a [`Quorlock`](crate::Quorlock) and
/// its clones.
///
/// - A reader may read again, and a writer may read and write again, at once and without asking a node.
/// - A thread that only reads cannot write, since it would wait for itself. [`write`](Self::write) fails with
///   [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) at once, and [`try_write`](Self::try_write) with
///   [`Held`](crate::ErrorKind::Held). Take the lock for writing first, and [`downgrade`](WriteGuard::downgrade) it.
/// - Reading threads of one client share one hold on the nodes if their TTLs are the same, the lock is renewed, and there is
///   no [`max_hold`](Self::max_hold).
/// - Each hold on the nodes ends by itself if its client does not renew it: a reader that crashes keeps writers out for its
///   TTL, however many others read.
/// - Readers and writers take turns while both wait, in the order in which their calls began. A reader that comes while a
///   writer waits goes behind it, and a writer that comes while a reader waits goes behind that reader. A caller that gives
///   up blocks nobody. A caller that dies keeps others out for at most 2 s, or for one second and two [node
///   timeouts](crate::Builder::node_timeout) if that is longer. A thread that reads already is not held up by waiting
///   writers. So it must not wait for another thread that is about to read: that thread may wait for a writer, and the
///   writer for the first thread.
///
/// [`Token`](crate::Guard::token)s of reads are ordered against those of writes only: a storage that keeps the largest token
/// refuses writes of a writer that has lost the lock, and may be read under any token.
///
/// On the nodes it equals Redisson's `RReadWriteLock` of the same key. With an empty
/// [`key_prefix`](crate::Builder::key_prefix) and one node that both use, the two exclude and wake each other. Redisson does
/// not support quorums, quarantine, clock checks or turns, so a lock that is shared with it depends on that one node alone.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Error, Quorlock, RwLock};
///
/// # struct Configuration;
/// # fn load() -> Configuration { Configuration }
/// # fn store(_: &Configuration) {}
/// fn current(lock: &RwLock) -> Result<Configuration, Error> {
///     lock.with_read_fallible(|_guard| Ok(load()))
/// }
///
/// fn replace(lock: &RwLock, new: &Configuration) -> Result<(), Error> {
///     lock.with_write_fallible(|guard| {
///         guard.check()?;
///         store(new);
///         Ok(())
///     })
/// }
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let configuration = locks.rw_lock("configuration");
/// replace(&configuration, &Configuration)?;
/// current(&configuration)?;
/// # Ok::<(), quorlock::Error>(())
/// ```
#[must_use = "a handle does nothing until one of its calls is made"]
#[derive(Clone)]
pub struct RwLock {
    reading: Handle<Reading>,
    writing: Handle<Writing>,
}

impl RwLock {
    pub(crate) fn new(reading: Handle<Reading>, writing: Handle<Writing>) -> Self {
        Self { reading, writing }
    }

    /// Returns the name of the lock, without the key prefix: as it was given, also if it cannot be locked.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.writing.name()
    }

    /// Returns the name of the lock as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.writing.name_str()
    }

    /// Sets the time for which a hold lives without being extended, in the range that [`Builder::ttl`](crate::Builder::ttl)
    /// states. Defaults to the client's setting.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { reading: self.reading.ttl(ttl), writing: self.writing.ttl(ttl) }
    }

    /// Sets the renewal of holds, as [`Builder::renewal`](crate::Builder::renewal) describes. Defaults to the client's
    /// setting.
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self { reading: self.reading.renewal(renewal), writing: self.writing.renewal(renewal) }
    }

    /// Sets the longest time for a hold in all, as [`Builder::max_hold`](crate::Builder::max_hold) describes. Defaults to
    /// the client's setting; [`Duration::MAX`] removes the limit. Threads that read with a limit do not share a hold on the
    /// nodes.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self { reading: self.reading.max_hold(max_hold), writing: self.writing.max_hold(max_hold) }
    }

    /// Sets the shortest time for which the lock is kept from the start of a write, even if it is given back earlier, as
    /// [`Builder::min_hold`](crate::Builder::min_hold) describes. Defaults to the client's setting; [`Duration::ZERO`]
    /// removes the minimum. The minimum does not apply to reads, nor to a write that was
    /// [downgraded](WriteGuard::downgrade).
    pub fn min_hold(self, min_hold: Duration) -> Self {
        Self { writing: self.writing.min_hold(min_hold), ..self }
    }

    /// Sets the time before the end of its validity from which a hold is at risk, as
    /// [`Builder::risk_margin`](crate::Builder::risk_margin) describes. Defaults to the client's setting. Threads that read
    /// with different margins do not share a hold on the nodes.
    pub fn risk_margin(self, margin: Duration) -> Self {
        let Self { reading, writing } = self;
        Self { reading: reading.risk_margin(margin), writing: writing.risk_margin(margin) }
    }

    /// Counts the calls and holds of this handle under that label as well, as
    /// [`Handle::metrics_label`](crate::Handle::metrics_label) does. Defaults to none.
    pub fn metrics_label(self, label: &str) -> Self {
        let Self { reading, writing } = self;
        Self { reading: reading.metrics_label(label), writing: writing.metrics_label(label) }
    }

    /// Takes the lock for reading; waits while another thread writes, or waits to write. Otherwise it works like
    /// [`Quorlock::lock`](crate::Quorlock::lock).
    ///
    /// A thread that reads the lock, or writes it, gets one more guard at once.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock).
    pub fn read(&self) -> Result<ReadGuard, Error> {
        self.reading.lock()
    }

    /// Takes the lock for reading if that is possible now, as [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_read(&self) -> Result<ReadGuard, Error> {
        self.reading.try_lock()
    }

    /// Takes the lock for reading if that is possible within `timeout`, as
    /// [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_read`](Self::try_read).
    pub fn try_read_for(&self, timeout: Duration) -> Result<ReadGuard, Error> {
        self.reading.try_lock_for(timeout)
    }

    /// Takes the lock for reading if that is possible by `deadline`, as
    /// [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_read`](Self::try_read).
    pub fn try_read_until(&self, deadline: Instant) -> Result<ReadGuard, Error> {
        self.reading.try_lock_until(deadline)
    }

    /// Takes the lock for reading if that is possible within the limits of `wait`, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn read_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<ReadGuard, Error> {
        self.reading.lock_within(wait)
    }

    /// Runs `critical` while holding the lock for reading, as [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock`](crate::Quorlock::with_lock).
    pub fn with_read<R>(
        &self,
        critical: impl FnOnce(&ReadGuard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.reading.with_lock(critical)
    }

    /// Runs `critical`, which returns a `Result`, while holding the lock for reading, as
    /// [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible).
    pub fn with_read_fallible<T, E: From<Error>>(
        &self,
        critical: impl FnOnce(&ReadGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.reading.with_lock_fallible(critical)
    }

    /// Takes the lock for writing; waits while others read or write it. Otherwise it works like
    /// [`Quorlock::lock`](crate::Quorlock::lock).
    ///
    /// A thread that writes the lock gets one more guard at once.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock). [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) if the calling
    /// thread has a [`ReadGuard`] of this lock, and no [`WriteGuard`].
    pub fn write(&self) -> Result<WriteGuard, Error> {
        self.writing.lock()
    }

    /// Takes the lock for writing if that is possible now, as [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock). A thread that reads the lock gets
    /// [`Held`](crate::ErrorKind::Held).
    pub fn try_write(&self) -> Result<WriteGuard, Error> {
        self.writing.try_lock()
    }

    /// Takes the lock for writing if that is possible within `timeout`, as
    /// [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_write`](Self::try_write).
    pub fn try_write_for(&self, timeout: Duration) -> Result<WriteGuard, Error> {
        self.writing.try_lock_for(timeout)
    }

    /// Takes the lock for writing if that is possible by `deadline`, as
    /// [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_write`](Self::try_write).
    pub fn try_write_until(&self, deadline: Instant) -> Result<WriteGuard, Error> {
        self.writing.try_lock_until(deadline)
    }

    /// Takes the lock for writing if that is possible within the limits of `wait`, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock_within`](crate::Quorlock::lock_within). [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock)
    /// if `wait` has no time limit, and the calling thread has a [`ReadGuard`] of this lock and no [`WriteGuard`].
    pub fn write_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<WriteGuard, Error> {
        self.writing.lock_within(wait)
    }

    /// Runs `critical` while holding the lock for writing, as [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock`](crate::Quorlock::with_lock). [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) if
    /// the calling thread has a [`ReadGuard`] of this lock, and no [`WriteGuard`].
    pub fn with_write<R>(
        &self,
        critical: impl FnOnce(&WriteGuard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.writing.with_lock(critical)
    }

    /// Runs `critical`, which returns a `Result`, while holding the lock for writing, as
    /// [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible).
    /// [`WouldDeadlock`](crate::ErrorKind::WouldDeadlock) if the calling thread has a [`ReadGuard`] of this lock, and no
    /// [`WriteGuard`].
    pub fn with_write_fallible<T, E: From<Error>>(
        &self,
        critical: impl FnOnce(&WriteGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.writing.with_lock_fallible(critical)
    }

    /// Returns the number of [`ReadGuard`]s of this lock that the calling thread has; 0 if it has none. Asks no node.
    ///
    /// Guards of a lost lock count until they are dropped. A guard that was leaked counts for ever.
    #[must_use]
    pub fn read_hold_count(&self) -> usize {
        self.reading.hold_count_of_this_thread()
    }

    /// Returns the number of [`WriteGuard`]s of this lock that the calling thread has, as
    /// [`read_hold_count`](Self::read_hold_count) does.
    #[must_use]
    pub fn write_hold_count(&self) -> usize {
        self.writing.hold_count_of_this_thread()
    }

    /// Returns true if the calling thread has a [`WriteGuard`] of this lock, and the lock is certainly not lost. Asks no
    /// node.
    ///
    /// Like the answer of [`Guard::check`](crate::Guard::check), this one may be out of date the next moment.
    #[must_use]
    pub fn is_write_locked_by_current_thread(&self) -> bool {
        self.writing.is_held_by_this_thread()
    }

    /// Returns the nodes' report on the readers or the writer of the lock, as [`Handle::holder`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`].
    pub fn holder(&self) -> Result<HolderReport, Error> {
        self.writing.holder()
    }

    /// Returns true if the lock may be held for reading or writing, as [`Handle::is_locked`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`].
    pub fn is_locked(&self) -> Result<bool, Error> {
        self.writing.is_locked()
    }

    /// Returns the time after which the lock may be free, as [`Handle::remaining_ttl`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`].
    pub fn remaining_ttl(&self) -> Result<Option<Duration>, Error> {
        self.writing.remaining_ttl()
    }

    /// Asks all readers, at most a hundred, or the writer to give the lock up, as [`Handle::ask_to_release`] does. Returns true if
    /// a holder was asked.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::ask_to_release`].
    pub fn ask_to_release(&self, reason: impl AsRef<str>) -> Result<bool, Error> {
        self.writing.ask_to_release(reason)
    }

    /// Takes the lock away from all readers, or from the writer, as [`Handle::force_unlock`] does. **It breaks mutual
    /// exclusion, on purpose.**
    ///
    /// # Errors
    ///
    /// Those of [`Handle::force_unlock`].
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.writing.force_unlock()
    }
}

/// The kind and the quoted name, for messages.
impl fmt::Display for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_names(f, "rw_lock", self.writing.names())
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock")
            .field("reading", &self.reading)
            .field("writing", &self.writing)
            .finish()
    }
}
