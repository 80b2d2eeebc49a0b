//! What nodes may know of a caller that waits.

use std::time::Duration;

/// What nodes that refuse a lock may know of the caller, who waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// For how long: long enough for the next attempt. Zero: it does not wait.
    pub(crate) lasts: Duration,
    /// Its ticket in the queue that they keep for a fair lock, once it has one.
    pub(crate) ticket: Option<u64>,
}
