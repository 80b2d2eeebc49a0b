//! The semaphore that users hold: a handle of its permits, for one of them or several.

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

/// A semaphore by name, from [`Quorlock::semaphore`](crate::Quorlock::semaphore): at most a given number of holders have one of its
/// permits at a time, across threads, processes and machines.
///
/// - **Each permit is an exclusive lock** over the quorum, a slot with a number; the promises of a [`Mutex`](crate::Mutex) hold for each.
///   Masters that counted permits, each for itself, would let too many in: with three masters and two permits, three callers
///   can have two masters each.
/// - **Finding a free one**: an attempt asks for a slot at random. A master that refuses it names the free ones, and the next attempt
///   goes there. So a single caller finds the last free one of 100, or of 1,000, with its second attempt. Each further attempt
///   means that another caller has got a permit meanwhile; after eight of them in a row the caller waits, as for any lock that
///   is held.
/// - **Cost**: a master that is asked for a permit looks at all holds, some 2 µs for each: 2 ms with 1,000 holders. Renewals and
///   releases take no longer with many holds.
/// - **Changing the number of permits**: the masters keep the number with the holds, until the last hold ends. A caller with another
///   number waits until then, and reserves the semaphore meanwhile. So a rolling deployment may change the number: old and new
///   processes take turns, and permits of both numbers are never held at the same time. An event reports a difference
///   that lasts for 10 s, with both numbers.
/// - **Holds** are renewed, lost, and end by themselves, as those of a mutex: the permits of a process that dies are free after its TTL.
/// - **No tokens**: [`Guard::token`] is `None`. A storage that keeps the largest token would refuse the other holders.
/// - **Waiting**: waiters are woken by each permit that is given back, and served in no order, except for those that wait for long: a
///   call for several permits reserves the semaphore after 100 ms, any other after a second. Callers whose calls began later
///   get no permit then, and those that try once are told that there is none. A caller that holds permits and wants more
///   waits like others, until the reservation pauses. Threads of one client do not hand permits to each other. Of those that
///   want the same number of permits, 16 ask the masters at a time; the others wait until one of these has got its permits,
///   or has given up.
///
/// It excludes, as a whole, all locks of other kinds with its name.
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
    /// For one permit, or for several.
    handle: Handle<Permits>,
    permits: u32,
}

impl Semaphore {
    pub(crate) fn new(handle: Handle<Permits>, permits: u32) -> Self {
        let handle = handle.permits(PermitsWanted { count: 1, of: permits });
        Self { handle, permits }
    }

    /// The name of the semaphore, without the key prefix: as it was given, also if it cannot be used.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.handle.name()
    }

    /// The name of the semaphore as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.handle.name_str()
    }

    /// How many permits it has.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// How long a hold lives without being extended, in the range that [`Builder::ttl`](crate::Builder::ttl) states. Defaults
    /// to what is set there.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { handle: self.handle.ttl(ttl), ..self }
    }

    /// Whether holds are renewed, as [`Builder::renewal`](crate::Builder::renewal) describes. Defaults to what is set there.
    pub fn renewal(self, renewal: Renewal) -> Self {
        Self { handle: self.handle.renewal(renewal), ..self }
    }

    /// The longest time for a hold in all, as [`Builder::max_hold`](crate::Builder::max_hold) describes. Defaults to what is
    /// set there; [`Duration::MAX`] lifts that limit.
    pub fn max_hold(self, max_hold: Duration) -> Self {
        Self { handle: self.handle.max_hold(max_hold), ..self }
    }

    /// How long permits are kept at least, although they are given back earlier, as
    /// [`Builder::min_hold`](crate::Builder::min_hold) describes: so many calls at most in that time. Defaults to what is set
    /// there; [`Duration::ZERO`] lifts that minimum.
    pub fn min_hold(self, min_hold: Duration) -> Self {
        Self { handle: self.handle.min_hold(min_hold), ..self }
    }

    /// How long before the end of its validity a hold is at risk, as [`Builder::risk_margin`](crate::Builder::risk_margin)
    /// describes. Defaults to what is set there.
    pub fn risk_margin(self, margin: Duration) -> Self {
        Self { handle: self.handle.risk_margin(margin), ..self }
    }

    /// The same semaphore; each call takes `count` permits in place of one: all of them or none, under one guard.
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

    /// Takes a permit, or as many as [`many`](Self::many) says; waits until so many are free at once. All else is as with
    /// [`Quorlock::lock`](crate::Quorlock::lock).
    ///
    /// A thread may take several, one after the other. A thread that holds all permits and asks for one more waits for itself.
    /// Two callers that each hold some permits and wait for more may wait for each other. So take all at once, with
    /// [`many`](Self::many).
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock); [`Config`](crate::ErrorKind::Config), too, if the semaphore has 0 permits
    /// or more than 1,000, or if 0 are wanted or more than it has.
    pub fn acquire(&self) -> Result<Guard, Error> {
        self.handle.lock()
    }

    /// Takes a permit, or as many as [`many`](Self::many) says, if they are free, as [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_acquire(&self) -> Result<Guard, Error> {
        self.handle.try_lock()
    }

    /// Takes a permit, or as many as [`many`](Self::many) says, if they become free within `timeout`, as
    /// [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<Guard, Error> {
        self.handle.try_lock_for(timeout)
    }

    /// Takes a permit, or as many as [`many`](Self::many) says, if they become free by `deadline`, as
    /// [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Guard, Error> {
        self.handle.try_lock_until(deadline)
    }

    /// Takes a permit, or as many as [`many`](Self::many) says, if they become free within the time that `wait` says, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn acquire_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<Guard, Error> {
        self.handle.lock_within(wait)
    }

    /// Runs `critical` while holding a permit, or as many as [`many`](Self::many) says, as [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
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

    /// Runs `critical`, which returns a `Result`, while holding a permit, or as many as [`many`](Self::many) says, as
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

    /// Who holds permits, as [`Handle::holder`] says: each owner once, whether it has one permit or several. A hundred owners
    /// are named at most.
    ///
    /// # Errors
    ///
    /// Those of [`Handle::holder`].
    pub fn holder(&self) -> Result<HolderReport, Error> {
        self.handle.holder()
    }

    /// Takes the permits from all who hold some, a hundred owners at most, as [`Handle::force_unlock`] does. **It breaks the
    /// exclusion, on purpose.**
    ///
    /// # Errors
    ///
    /// Those of [`Handle::force_unlock`].
    pub fn force_unlock(&self) -> Result<bool, Error> {
        self.handle.force_unlock()
    }
}

/// The kind and the name, in quotes: for messages.
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
