//! What nodes may know of a caller that waits.

use std::time::Duration;

use super::reservation::Reservation;

/// What nodes that refuse a lock may know of the caller, who waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// For how long it stands in the queue that they keep for a fair lock: long enough for the next attempt. Zero: it does
    /// not wait.
    pub(crate) lasts: Duration,
    /// Its ticket in that queue, once it has one.
    pub(crate) ticket: Option<u64>,
    /// Its priority, once it has one, and for how long it reserves the lock.
    pub(crate) reservation: Option<Reservation>,
}
