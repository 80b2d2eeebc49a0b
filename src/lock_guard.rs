//! The calls that the guards of all kinds of locks have in common.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crossbeam_channel::Receiver;

use crate::core::hold::LossReason;
use crate::core::vote::FencingToken;
use crate::error::Error;
use crate::guard::{Guard, Mode};
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;
use crate::runtime::hold::Hold;

/// The calls that the guards of all kinds of locks have in common, for code that is generic over kinds.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Error, Handle, LockGuard, LockKind};
///
/// /// Does one step after the other, as long as the lock is ours.
/// fn protected<K: LockKind>(lock: &Handle<K>, steps: &[fn()]) -> Result<(), Error> {
///     let guard = lock.lock()?;
///     for step in steps {
///         guard.check()?;
///         step();
///     }
///     guard.unlock()
/// }
/// ```
#[allow(private_bounds, reason = "how a guard is made is nobody else's")]
pub trait LockGuard: sealed::Guard + fmt::Debug + fmt::Display {
    /// Returns the names of the lock, without the key prefix: sorted, and each of them once.
    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.guard().names()
    }

    /// Returns the owner of the lock's keys on the nodes, as [`Guard::owner`] does.
    #[must_use]
    fn owner(&self) -> &str {
        self.guard().owner()
    }

    /// Returns the basis of the lock, as [`Guard::mode`] does.
    #[must_use]
    fn mode(&self) -> Mode {
        self.guard().mode()
    }

    /// Returns the fencing token, as [`Guard::token`] does.
    #[must_use]
    fn token(&self) -> Option<FencingToken> {
        self.guard().token()
    }

    /// Returns the time for which the lock is certainly ours, as [`Guard::remaining`] does.
    #[must_use]
    fn remaining(&self) -> Duration {
        self.guard().remaining()
    }

    /// Checks that the lock is still ours, as [`Guard::check`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::check`].
    fn check(&self) -> Result<(), Error> {
        self.guard().check()
    }

    /// Returns the channel that gets one message when the lock is lost, as [`Guard::lost`] does.
    #[must_use]
    fn lost(&self) -> &Receiver<LossReason> {
        self.guard().lost()
    }

    /// Calls `callback` when the lock is lost, as [`Guard::on_lost`] does.
    fn on_lost(&self, callback: impl FnOnce(LossReason) + Send + 'static) {
        self.guard().on_lost(callback);
    }

    /// Returns the channel that gets the latest message about the risk to the lock, as [`Guard::at_risk`] does.
    #[must_use]
    fn at_risk(&self) -> &Receiver<Risk> {
        self.guard().at_risk()
    }

    /// Calls `callback` with each message about the risk to the lock, as [`Guard::on_at_risk`] does.
    fn on_at_risk(&self, callback: impl FnMut(Risk) + Send + 'static) {
        self.guard().on_at_risk(callback);
    }

    /// Returns the channel that gets the latest request to give the lock up, as [`Guard::asked`] does.
    #[must_use]
    fn asked(&self) -> &Receiver<ReleaseRequest> {
        self.guard().asked()
    }

    /// Calls `callback` with each request to give the lock up, as [`Guard::on_asked`] does.
    fn on_asked(&self, callback: impl FnMut(ReleaseRequest) + Send + 'static) {
        self.guard().on_asked(callback);
    }

    /// Extends the lock, so that it lives for at least `ttl` from now, as [`Guard::extend`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::extend`].
    fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.guard().extend(ttl)
    }

    /// Returns true if the lock is valid until the end of its `max_hold`, as [`Guard::ends_by_max_hold`] does.
    #[doc(hidden)]
    #[must_use]
    fn ends_by_max_hold(&self) -> bool {
        self.guard().ends_by_max_hold()
    }

    /// Frees the lock as soon as it is given back, as [`Guard::waive_min_hold`] does.
    fn waive_min_hold(&self) {
        self.guard().waive_min_hold();
    }

    /// Gives the lock back, as [`Guard::unlock`] does.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::unlock`].
    fn unlock(self) -> Result<(), Error> {
        self.into_guard().unlock()
    }
}

/// The name in the compiler's message if such a guard is sent to another thread.
pub(crate) trait GuardStaysOnItsThread {}

/// A guard with this marker is neither `Send` nor `Sync`.
pub(crate) type StaysOnItsThread =
    PhantomData<dyn GuardStaysOnItsThread + Unpin + UnwindSafe + RefUnwindSafe>;

pub(crate) mod sealed {
    use crate::error::{Error, ErrorKind};
    use crate::guard::Guard as Shared;
    use crate::runtime::hold::Hold;

    /// The making of guards. A kind whose guards stay on their thread wraps [`Shared`].
    pub(crate) trait Guard: Sized {
        fn new(hold: Hold) -> Self;

        fn guard(&self) -> &Shared;

        fn into_guard(self) -> Shared;

        /// Ends a critical section; fails if the section was not protected to its end. A sent release that was not confirmed
        /// does not matter for that.
        fn finish(self) -> Result<(), Error> {
            match self.into_guard().unlock() {
                Err(error) if error.kind() == ErrorKind::NoQuorum => Ok(()),
                result => result,
            }
        }
    }
}

impl LockGuard for Guard {}

impl sealed::Guard for Guard {
    fn new(hold: Hold) -> Self {
        Self::of(hold)
    }

    fn guard(&self) -> &Self {
        self
    }

    fn into_guard(self) -> Self {
        self
    }
}
