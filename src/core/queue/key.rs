//! The local queue of a caller.

use super::super::base::{Mechanism, Rule};
use super::super::vote::PermitsWanted;

/// The name of a local queue: the lock that its callers want, as `L` names it by its kind and its names, and their permits.
///
/// A lease passes only to callers of its kind, and each kind has its own rule for holders that exclude each other. So kinds
/// have queues of their own, even if they share a key on the nodes. Fairness is counted per kind, too: the callers that
/// would take a lock again at once are of the kind that gives it back.
///
/// A caller that wants one permit of a semaphore does not wait behind those that want several: it may hold a permit that
/// these wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey<L> {
    pub(crate) lock: L,
    permits: Option<PermitsWanted>,
}

impl<L> QueueKey<L> {
    /// Returns the key of callers that want that lock, and those permits if it is a semaphore.
    pub(crate) fn new(lock: L, permits: Option<PermitsWanted>) -> Self {
        let permits = permits.if_off(Mechanism::PermitsQueueApart, None);
        Self { lock, permits }
    }

    /// Returns the key of the same callers for another `lock`.
    pub(crate) fn with_lock(&self, lock: L) -> Self {
        Self { lock, permits: self.permits }
    }
}
