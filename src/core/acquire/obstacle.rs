//! Something other than an ordinary holder that is in the way of a call.

use super::super::vote::Attempt;

/// An obstacle that operators need to know of. The call waits as for any lock that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A key without an expiry, on those nodes: no lock of ours.
    EndlessKeys(Vec<usize>),
    /// Holders that gave the semaphore so many permits, while the caller gives it another number.
    OtherPermits(u64),
}

impl Obstacle {
    /// The obstacle that `attempt` has met.
    pub(super) fn of(attempt: &Attempt) -> Option<Self> {
        let endless: Vec<_> = attempt.held_for_ever().collect();
        if endless.is_empty() {
            attempt.other_permits().map(Self::OtherPermits)
        } else {
            Some(Self::EndlessKeys(endless))
        }
    }
}
