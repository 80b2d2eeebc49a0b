//! The time for which a call waits for a lock that is held.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::clock;
use crate::core::acquire::Patience;
use crate::core::base::Time;

/// The limits of a call's wait for a lock: a time, a channel that cancels the wait, or both.
///
/// [`Quorlock::lock_within`](crate::Quorlock::lock_within) and all calls like it take a `Wait`. A [`Duration`], an
/// [`Instant`] and a reference to a [`Receiver`] convert into one.
///
/// - When the time is over, the call fails with [`Held`](crate::ErrorKind::Held), or with the obstacle that it met, such as
///   [`NoQuorum`](crate::ErrorKind::NoQuorum) or [`Quarantined`](crate::ErrorKind::Quarantined). A time of zero, or in the
///   past, means one try.
/// - When the channel fires, the call fails with [`Cancelled`](crate::ErrorKind::Cancelled). **To stop all calls, drop the
///   last sender.** A message stops only one of them, since that call takes it from the channel. A sender that is dropped by
///   mistake cancels every later call.
/// - The channel is one of [`quorlock::crossbeam_channel`](crate::crossbeam_channel), the version that this crate uses.
/// - A reference to a channel alone sets no time limit.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use quorlock::crossbeam_channel::{Receiver, bounded};
/// use quorlock::{Error, Guard, Quorlock, Wait};
///
/// /// Waits for five seconds at most, and not after the service is told to stop.
/// fn lock(locks: &Quorlock, stopped: &Receiver<()>) -> Result<Guard, Error> {
///     locks.lock_within("orders/42", Wait::up_to(Duration::from_secs(5)).cancelled_by(stopped))
/// }
///
/// let locks = Quorlock::builder().nodes(["redis://127.0.0.1:1"]).build()?;
/// let (stop, stopped) = bounded(0);
/// drop(stop); // in a signal handler, for example
/// assert_eq!(lock(&locks, &stopped).unwrap_err().kind(), quorlock::ErrorKind::Cancelled);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a wait does nothing until a call takes it"]
pub struct Wait<'a> {
    limit: Limit,
    cancel: Option<&'a Receiver<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    For(Duration),
    Until(Instant),
    /// A limit that has already begun to count.
    At(Time),
}

impl Wait<'static> {
    /// Waits for as long as it takes, as [`Quorlock::lock`](crate::Quorlock::lock) does.
    pub const fn forever() -> Self {
        Self { limit: Limit::None, cancel: None }
    }

    /// Waits for at most that time, which begins with the call that takes this value.
    pub const fn up_to(time: Duration) -> Self {
        Self { limit: Limit::For(time), cancel: None }
    }

    /// Waits at most until `deadline`.
    pub const fn until(deadline: Instant) -> Self {
        Self { limit: Limit::Until(deadline), cancel: None }
    }
}

impl<'a> Wait<'a> {
    /// Adds a channel: the wait ends early if `cancel` fires. It replaces a channel that was given before.
    pub fn cancelled_by<'b>(self, cancel: &'b Receiver<()>) -> Wait<'b> {
        Wait { limit: self.limit, cancel: Some(cancel) }
    }

    pub(crate) const fn cancel(&self) -> Option<&'a Receiver<()>> {
        self.cancel
    }

    /// The same wait, whose time begins now.
    pub(crate) fn pinned(self) -> Self {
        let limit = match self.patience() {
            Patience::Forever => Limit::None,
            Patience::Once => Limit::For(Duration::ZERO),
            Patience::Until(until) => Limit::At(until),
        };
        Self { limit, ..self }
    }

    /// The patience of a call that begins now.
    pub(crate) fn patience(&self) -> Patience {
        let time = match self.limit {
            Limit::None => return Patience::Forever,
            Limit::For(time) => time,
            Limit::Until(deadline) => clock::until(deadline),
            Limit::At(until) => until.since(clock::now()),
        };
        if time.is_zero() { Patience::Once } else { Patience::Until(clock::now().after(time)) }
    }
}

impl From<Duration> for Wait<'static> {
    fn from(time: Duration) -> Self {
        Self::up_to(time)
    }
}

impl From<Instant> for Wait<'static> {
    fn from(deadline: Instant) -> Self {
        Self::until(deadline)
    }
}

impl<'a> From<&'a Receiver<()>> for Wait<'a> {
    fn from(cancel: &'a Receiver<()>) -> Self {
        Wait::forever().cancelled_by(cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_one_try_and_any_other_limit_a_deadline() {
        let now = clock::now();
        let second = Duration::from_secs(1);
        assert_eq!(Wait::forever().patience(), Patience::Forever);
        assert_eq!(Wait::up_to(Duration::ZERO).patience(), Patience::Once);
        let Patience::Until(deadline) = Wait::from(second).patience() else { panic!("it ends") };
        assert!(deadline.since(now) >= second, "it begins with the call");
        assert!(matches!(Wait::up_to(Duration::MAX).patience(), Patience::Until(_)));
        let pinned = Wait::from(second).pinned();
        assert!(clock::poll(now.after(second * 10), || pinned.patience() == Patience::Once));
        assert_eq!(Wait::forever().pinned().patience(), Patience::Forever);
    }

    #[test]
    fn a_channel_goes_with_a_limit() {
        let (_cancel, cancelled) = crossbeam_channel::bounded(0);
        let wait = Wait::up_to(Duration::ZERO).cancelled_by(&cancelled);
        assert_eq!(wait.patience(), Patience::Once);
        assert!(wait.cancel().is_some_and(|it| it.same_channel(&cancelled)));
        assert_eq!(Wait::from(&cancelled).patience(), Patience::Forever);
        assert!(Wait::forever().cancel().is_none());
    }
}
