//! The semaphore that users hold: a handle for one or several of its permits.

use std::fmt;
use std::time::{Duration, Instant};

use crate::config::settings::Renewal;
use crate::core::vote::PermitsWanted;
use crate::error::Error;
use crate::guard::Guard;
use crate::handle::Handle;
use crate::holders::HolderReport;
use crate::kinds::Permits;
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// A semaphore by name, from [`Quorlock::semaphore`](crate::Quorlock::semaphore): at most a given number of holders have one
/// of its permits at a time, across threads, processes and machines.
///
/// - **Each permit is an exclusive lock** over the quorum, a numbered slot; the promises of a [`Mutex`](crate::Mutex) hold
///   for each. If each master only counted permits by itself, too many callers would get one: with three masters and two
///   permits, three callers can have two masters each.
/// - **Finding a free slot**: an attempt asks for a slot at random. A master that refuses the slot names the free ones, and
///   the next attempt asks for one of these. So a single caller finds the last free slot of 100, or of 1,000, with its
///   second attempt. Each further attempt means that another caller has got a permit meanwhile. After eight of them in a row
///   the caller waits, as for any lock that is held.
/// - **Cost**: a master that is asked for a permit checks all holds, at about 2 µs each: 2 ms with 1,000 holders. Renewals
///   and releases take no longer with many holds.
/// - **Changing the number of permits**: the masters keep the number with the holds, until the last hold ends. A caller with
///   another number waits until then, and reserves the semaphore meanwhile. So a rolling deployment may change the number:
///   old and new processes take turns, and permits of both numbers are never held at the same time. An event reports a
///   difference that lasts for 10 s, with both numbers.
/// - **Holds** are renewed, are lost, and end by themselves, like those of a mutex: the permits of a process that dies are
///   free after its TTL.
/// - **No tokens**: [`Guard::token`] is `None`. A storage that keeps the largest token would refuse the other holders.
/// - **Waiting**: each returned permit wakes waiters, which are served in no order, except for long waits. A call for
///   several permits reserves the semaphore after 100 ms, and any other call after one second. Callers whose calls began
///   later then get no permit, and calls that try once are told that there is none. A caller that holds permits and wants
///   more waits like others, until the reservation pauses. Threads of one client do not hand permits to each other. Of the
///   threads that want the same number of permits, 16 ask the masters at a time. The others wait until one of these has got
///   its permits, or has given up.
///
/// A semaphore excludes, as a whole, all locks of other kinds with its name.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Error, Quorlock};
/// # fn call_partner() {}
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// // The partner allows five calls at a time, from all our machines together.
/// let partner = locks.semaphore("partner-api", 5);
/// let permit = partner.acquire()?;
/// call_partner();
/// permit.unlock()?;
/// # Ok::<(), Error>(())
/// ```
#[must_use = "a handle does nothing until one of its calls is made"]
#[derive(Clone)]
pub struct Semaphore {
    /// The handle for one permit, or for several.
    handle: Handle<Permits>,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(handle: Handle<Permits>, permits: u32) -> Self {
        let handle = handle.permits(PermitsWanted { count: 1, of: permits });
        Self { handle, permits }
    }

    /// Returns the name of the semaphore, without the key prefix: as it was given, also if it cannot be used.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.handle.name()
    }

    /// Returns the name of the semaphore as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.handle.name_str()
    }

    /// Returns the number of permits of the semaphore.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// Sets the time for which a hold lives without being extended, in the range that [`Builder::ttl`](crate::Builder::ttl)
    /// states. Defaults to the client's setting.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { handle: self.handle.ttl(ttl), ..self }
    }

    /// Sets the renewal of holds, as [`Builder::renewal`](crate::Builder::renewal) describes. Defaults to the client's
    /// setting.
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self { handle: self.handle.renewal(renewal), ..self }
    }

    /// Sets the longest time for a hold in all, as [`Builder::max_hold`](crate::Builder::max_hold) describes. Defaults to
    /// the client's setting; [`Duration::MAX`] removes the limit.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self { handle: self.handle.max_hold(max_hold), ..self }
    }

    /// Sets the shortest time for which permits are kept, even if they are given back earlier, as
    /// [`Builder::min_hold`](crate::Builder::min_hold) describes: this limits the number of calls in that time. Defaults to
    /// the client's setting; [`Duration::ZERO`] removes the minimum.
    pub fn min_hold(self, min_hold: Duration) -> Self {
        Self { handle: self.handle.min_hold(min_hold), ..self }
    }

    /// Sets the time before the end of its validity from which a hold is at risk, as
    /// [`Builder::risk_margin`](crate::Builder::risk_margin) describes. Defaults to the client's setting.
    pub fn risk_margin(self, margin: Duration) -> Self {
        Self { handle: self.handle.risk_margin(margin), ..self }
    }

    /// Counts the calls and holds of this handle under that label as well, as
    /// [`Handle::metrics_label`](crate::Handle::metrics_label) does. Defaults to none.
    pub fn metrics_label(self, label: &str) -> Self {
        Self { handle: self.handle.metrics_label(label), ..self }
    }

    /// The same semaphore; each call takes `count` permits instead of one: all of them or none, under one guard.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorlock::{ErrorKind, Quorlock};
    ///
    /// # #[cfg(feature = "embedded")] {
    /// let (locks, _nodes) = Quorlock::embedded(3)?;
    /// let workers = locks.semaphore("workers", 4);
    /// let three = workers.many(3).acquire()?;
    /// assert!(workers.many(2).try_acquire().is_err_and(|error| error.is_held()));
    /// let last = workers.try_acquire()?;
    /// three.unlock()?;
    /// last.unlock()?;
    /// assert_eq!(workers.many(5).acquire().unwrap_err().kind(), ErrorKind::Config);
    /// # }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn many(&self, count: u32) -> Self {
        let wanted = PermitsWanted { count, of: self.permits };
        Self { handle: self.handle.clone().permits(wanted), ..*self }
    }

    /// Takes a permit, or the number set by [`many`](Self::many); waits until that many are free at once. Otherwise it works
    /// like [`Quorlock::lock`](crate::Quorlock::lock).
    ///
    /// A thread may take several permits, one after the other. A thread that holds all permits and asks for one more waits
    /// for itself. Two callers that each hold some permits and wait for more may wait for each other. To avoid this, take
    /// all of them at once, with [`many`](Self::many).
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock). [`Config`](crate::ErrorKind::Config) also if the semaphore has 0
    /// permits or more than 1,000, or if the call wants 0 permits or more than the semaphore has.
    pub fn acquire(&self) -> Result<Guard, Error> {
        self.handle.lock()
    }

    /// Takes a permit, or the number set by [`many`](Self::many), if they are free, as
    /// [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_acquire(&self) -> Result<Guard, Error> {
        self.handle.try_lock()
    }

    /// Takes a permit, or the number set by [`many`](Self::many), if they become free within `timeout`, as
    /// [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<Guard, Error> {
        self.handle.try_lock_for(timeout)
    }

    /// Takes a permit, or the number set by [`many`](Self::many), if they become free by `deadline`, as
    /// [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Guard, Error> {
        self.handle.try_lock_until(deadline)
    }

    /// Takes a permit, or the number set by [`many`](Self::many), if they become free within the limits of `wait`, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn acquire_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<Guard, Error> {
        self.handle.lock_within(wait)
    }

    /// Runs `critical` while holding a permit, or the number set by [`many`](Self::many), as
    /// [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::with_lock`](crate::Quorlock::with_lock).
    pub fn with_permit<R>(
        &self,
        critical: impl FnOnce(&Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.handle.with_lock(critical)
    }

    /// Runs `critical`, which returns a `Result`, while holding a permit, or the number set by [`many`](Self::many), as
    /// [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible).
    pub fn with_permit_fallible<T, E: From<Error>>(
        &self,
        critical: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.handle.with_lock_fallible(critical)
    }

    /// Returns the nodes' report on the holders of permits, as [`Handle::holder`] does: each owner once, whether it has one
    /// permit or several. At most a hundred owners are named.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`].
    pub fn holder(&self) -> Result<HolderReport, Error> {
        self.handle.holder()
    }

    /// Asks the holders of permits to give them up, at most a hundred owners, as [`Handle::ask_to_release`] does. Returns true if
    /// a holder was asked.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::ask_to_release`].
    pub fn ask_to_release(&self, reason: impl AsRef<str>) -> Result<bool, Error> {
        self.handle.ask_to_release(reason)
    }

    /// Takes the permits away from all their owners, at most a hundred, as [`Handle::force_unlock`] does. **It breaks mutual
    /// exclusion, on purpose.**
    ///
    /// # Errors
    ///
    /// Those of [`Handle::force_unlock`].
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.handle.force_unlock()
    }
}

/// The kind and the quoted name, for messages.
impl fmt::Display for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.handle, f)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.handle, f)
    }
}
