//! The facts that nodes may know of a waiting caller.

use std::time::Duration;

use super::reservation::Reservation;

/// The facts that nodes which refuse a lock may know of the caller, which waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Lifetime of its entry in the queue that they keep for a fair lock: long enough for the next attempt. Zero: it does
    /// not wait.
    pub(crate) lasts: Duration,
    /// Its ticket in that queue, once it has one.
    pub(crate) ticket: Option<u64>,
    /// Its priority, once it has one, and the time for which it reserves the lock.
    pub(crate) reservation: Option<Reservation>,
}
