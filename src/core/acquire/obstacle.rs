//! Obstacles in the way of a call that are no ordinary holders.

use super::super::vote::Attempt;

/// An obstacle that operators need to know of. The call waits as for any lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Keys without an expiry, on those nodes. They are no locks of ours.
    EndlessKeys(Vec<usize>),
    /// Holders of the semaphore that use this number of permits, while the caller uses another one.
    OtherPermits(u64),
}

impl Obstacle {
    /// Returns the obstacle that `attempt` has met.
    pub(super) fn of(attempt: &Attempt) -> Option<Self> {
        let endless: Vec<_> = attempt.held_for_ever().collect();
        if endless.is_empty() {
            attempt.other_permits().map(Self::OtherPermits)
        } else {
            Some(Self::EndlessKeys(endless))
        }
    }
}
