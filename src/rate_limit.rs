//! A limit on the rate of calls, across threads, processes and machines.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::semaphore::Semaphore;
use crate::wait::Wait;

/// A limit on calls to something else, such as a partner's API: a number of calls in any period of a given length, a
/// **sliding window**, across threads, processes and machines. From [`Quorlock::rate_limit`](crate::Quorlock::rate_limit).
///
/// There is no guard to keep: [`acquire`](Self::acquire) returns when the call may be made, and the call counts from then
/// on.
///
/// It is a [`Semaphore`] whose permits the masters keep for one window from their grant on. So the promises for permits hold
/// for each call: a majority of the masters knows about it, and no failover forgets it. **A window has at most 1,000
/// calls**: each call is an entry that a master keeps, and checks at each request at about 2 µs per entry. For more calls,
/// give each process a part of the limit, or use a limiter that counts, which costs less and promises less.
///
/// [`acquire`](Self::acquire) returns as soon as a majority of the masters keeps the permit for the window. A process that
/// dies before that leaves its permit for its TTL, which may be shorter than the window: one more call is then possible.
///
/// All users of a name must agree on the number of calls: see [`Semaphore`] for changing the number. Windows may differ:
/// each permit is kept for the window of the client that took it. **The name is that of a semaphore**: to limit the number
/// of concurrent calls as well, use a semaphore with another name.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorlock::Quorlock;
/// # fn call_partner() {}
///
/// # #[cfg(feature = "embedded")] {
/// # let (locks, _nodes) = Quorlock::embedded(3)?;
/// // The partner allows two calls a minute, from all our machines together.
/// let partner = locks.rate_limit("partner-api/per-minute", 2, Duration::from_secs(60));
/// for _ in 0..2 {
///     partner.acquire()?;
///     call_partner();
/// }
/// assert!(partner.try_acquire().is_err_and(|error| error.is_held()));
/// # }
/// # Ok::<(), quorlock::Error>(())
/// ```
#[must_use = "a limit does nothing until one of its calls is made"]
#[derive(Clone)]
pub struct RateLimit {
    permits: Semaphore,
    window: Duration,
}

impl RateLimit {
    pub(crate) fn new(semaphore: Semaphore, window: Duration) -> Self {
        Self { permits: semaphore.min_hold(window), window }
    }

    /// Counts the calls of this limit under that label as well, as [`Handle::metrics_label`](crate::Handle::metrics_label) does.
    /// Defaults to none.
    pub fn metrics_label(self, label: &str) -> Self {
        Self { permits: self.permits.metrics_label(label), ..self }
    }

    /// Returns the name of the limit, without the key prefix: as it was given, also if it cannot be used.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.permits.name()
    }

    /// Returns the name of the limit as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        self.permits.name_str()
    }

    /// Returns the number of calls that are allowed in a window.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.permits.permits()
    }

    /// Returns the length of the window.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// The same limit, for `count` calls at a time instead of one: all of them are allowed, or none.
    pub fn many(&self, count: u32) -> Self {
        Self { permits: self.permits.many(count), ..*self }
    }

    /// Waits until one more call is allowed.
    ///
    /// # Errors
    ///
    /// Those of [`Semaphore::acquire`]. [`Config`](ErrorKind::Config) also for a window of zero, or of more than 24 hours.
    pub fn acquire(&self) -> Result<(), Error> {
        self.acquire_within(Wait::forever())
    }

    /// Counts one more call if it is allowed now.
    ///
    /// # Errors
    ///
    /// [`Held`](ErrorKind::Held) if the call is not allowed, with the time until it may be. Those of
    /// [`acquire`](Self::acquire).
    pub fn try_acquire(&self) -> Result<(), Error> {
        self.acquire_within(Duration::ZERO)
    }

    /// Waits until one more call is allowed, for at most `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_for(&self, timeout: Duration) -> Result<(), Error> {
        self.acquire_within(timeout)
    }

    /// Waits until one more call is allowed, within the limits of `wait`, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire), and of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn acquire_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<(), Error> {
        if self.window.is_zero() {
            return Err(Error::config(format!(
                "{self} has a window of no time; it limits nothing"
            )));
        }
        self.permits.acquire_within(wait).and_then(keep)
    }
}

/// Gives the permit back, and the masters keep it for the window. The permit was granted, so the call is allowed even if the
/// masters cannot be told.
fn keep(permit: Guard) -> Result<(), Error> {
    match permit.unlock() {
        Err(error) if error.kind() != ErrorKind::NoQuorum => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The kind and the quoted name, for messages.
impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::ident::write_with_names(f, "rate limit", std::iter::once(self.name()))
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("permits", &self.permits)
            .field("window", &self.window)
            .finish()
    }
}
