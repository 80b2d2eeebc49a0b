//! Calls that return `None` instead of an error if the lock is held.

use crate::error::Error;
use crate::with_lock::WithLockError;

/// Makes an `Option` of the result of a call that takes a lock: `Ok(None)` if another caller holds it.
///
/// Bring it into scope with `use quorlock::OptionalGuard as _`.
///
/// # Examples
///
/// ```no_run
/// use quorlock::{Error, OptionalGuard as _, Quorlock};
///
/// fn report(locks: &Quorlock) -> Result<(), Error> {
///     let Some(guard) = locks.try_lock("nightly-report").optional()? else {
///         return Ok(()); // another host makes it
///     };
///     // .. make it ..
///     guard.unlock()
/// }
/// ```
pub trait OptionalGuard<T, E> {
    /// Returns `Ok(None)` if the error is that the lock is [held](crate::ErrorKind::Held).
    ///
    /// # Errors
    ///
    /// All other errors of the call.
    fn optional(self) -> Result<Option<T>, E>;
}

impl<T> OptionalGuard<T, Error> for Result<T, Error> {
    fn optional(self) -> Result<Option<T>, Error> {
        match self {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_held() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// For [`try_with_lock`](crate::Quorlock::try_with_lock): `None` if the lock is held, so that the closure has not run.
impl<R> OptionalGuard<R, WithLockError<R>> for Result<R, WithLockError<R>> {
    fn optional(self) -> Result<Option<R>, WithLockError<R>> {
        match self {
            Ok(result) => Ok(Some(result)),
            Err(WithLockError::NotLocked(error)) if error.is_held() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
