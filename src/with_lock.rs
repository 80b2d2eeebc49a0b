//! What `with_lock` answers where it cannot answer the closure's result alone.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, ErrorKind};

/// Why [`Quorlock::with_lock`](crate::Quorlock::with_lock) failed: the closure has not run, or it has, and
/// here is its result.
///
/// It turns into an [`Error`], so `?` works in a function that returns one; then the result is dropped. `?` makes a
/// `Box<dyn std::error::Error>` of it, and an error of `anyhow`, with the result in it: that has to own
/// what it consists of then, and for `anyhow` be `Send` and `Sync`. Anywhere else, write
/// `.map_err(quorlock::Error::from)?`.
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
    /// The closure has run, but perhaps not alone: the lock was lost meanwhile.
    Lost {
        /// Says how: its kind is [`Lost`](ErrorKind::Lost). In a process that the closure made by `fork` it is
        /// [`Closed`](ErrorKind::Closed).
        error: Error,
        /// What the closure returned.
        result: R,
    },
}

impl<R> WithLockError<R> {
    /// What sort of failure it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error().kind()
    }

    /// The error without the closure's result.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Self::NotLocked(error) | Self::Lost { error, .. } => error,
        }
    }

    /// The closure's result; `None` if it has not run.
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

/// Without the closure's result, so that `unwrap` and `expect` work whatever that is.
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

/// It reads as the [`Error`] does and, as that one, has no source: a report shows nothing twice.
impl<R> StdError for WithLockError<R> {}
