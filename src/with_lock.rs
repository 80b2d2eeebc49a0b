//! The error of `with_lock`: no lock, or a result that came with a lost lock.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, ErrorKind};

/// The reason why [`Quorlock::with_lock`](crate::Quorlock::with_lock) failed. Either the closure has not run, or it has, and
/// the error contains its result.
///
/// It converts into an [`Error`], which drops the result, so `?` works in a function that returns an [`Error`]. `?` also
/// converts it into a `Box<dyn std::error::Error>` or an error of `anyhow`, which keep the result. The result must then own
/// its data, and be `Send` and `Sync` for `anyhow`. Anywhere else, write `.map_err(quorlock::Error::from)?`.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Quorlock, WithLockError};
/// # struct Receipt;
/// # fn charge() -> Receipt { Receipt }
/// # fn refund(_: &Receipt) {}
///
/// fn pay(locks: &Quorlock) -> Result<Receipt, quorlock::Error> {
///     match locks.with_lock("orders/42", |_guard| charge()) {
///         Ok(receipt) => Ok(receipt),
///         Err(WithLockError::Lost { error, result: receipt }) => {
///             refund(&receipt); // somebody else may have charged for the same order
///             Err(error)
///         }
///         Err(WithLockError::NotLocked(error)) => Err(error),
///     }
/// }
/// ```
#[allow(
    clippy::exhaustive_enums,
    reason = "the closure has run or it has not: callers tell the two apart, and there is no third case"
)]
pub enum WithLockError<R> {
    /// The lock was not taken, and the closure has not run.
    NotLocked(Error),
    /// The closure has run, but perhaps not alone, since the lock was lost meanwhile.
    Lost {
        /// The loss: its kind is [`Lost`](ErrorKind::Lost), or [`Closed`](ErrorKind::Closed) in a process that the closure
        /// made by `fork`.
        error: Error,
        /// The closure's result.
        result: R,
    },
}

impl<R> WithLockError<R> {
    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error().kind()
    }

    /// Returns the error without the closure's result.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Self::NotLocked(error) | Self::Lost { error, .. } => error,
        }
    }

    /// Returns the closure's result; `None` if the closure has not run.
    #[must_use]
    pub fn into_result(self) -> Option<R> {
        match self {
            Self::NotLocked(_) => None,
            Self::Lost { result, .. } => Some(result),
        }
    }
}

/// Drops the closure's result.
impl<R> From<WithLockError<R>> for Error {
    fn from(error: WithLockError<R>) -> Self {
        match error {
            WithLockError::NotLocked(error) | WithLockError::Lost { error, .. } => error,
        }
    }
}

impl<R> fmt::Display for WithLockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

/// Leaves out the closure's result, so that `unwrap` and `expect` work for any type of result.
impl<R> fmt::Debug for WithLockError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLocked(error) => f.debug_tuple("NotLocked").field(error).finish(),
            Self::Lost { error, .. } => {
                f.debug_struct("Lost").field("error", error).finish_non_exhaustive()
            }
        }
    }
}

/// It reads like the [`Error`] and, like that, has no source: a report shows nothing twice.
impl<R> StdError for WithLockError<R> {}
