//! The state that the driver of a connection shares with the handle of its node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::status::Status;
use crate::core::base::Time;

/// The state that a driver shares with the handle of its node.
pub(super) struct Shared {
    pub(super) status: Status,
    /// Number of releases that the node has not answered: in the mailbox, written or kept.
    pub(super) untold: Arc<AtomicUsize>,
    /// Number of releases that are kept, since the node could not be told or has refused them.
    pub(super) kept: AtomicUsize,
    /// True if any release is kept, or is repeated.
    pub(super) keeps_any: AtomicBool,
    /// True if the worker must drop releases that are of no use any more, and give room back.
    pub(super) is_to_tidy: AtomicBool,
    /// True if the client ends, and waits for the answers that its callers have left.
    pub(super) hurries: AtomicBool,
    pub(super) writes: AtomicU64,
    pub(super) scripts: AtomicU64,
    /// Time when the worker wakes up by itself, in microseconds of the lease clock.
    wakes_at_us: AtomicU64,
}

impl Shared {
    pub(super) fn new(status: Status) -> Self {
        Self {
            status,
            untold: Arc::default(),
            kept: AtomicUsize::new(0),
            keeps_any: AtomicBool::new(false),
            is_to_tidy: AtomicBool::new(false),
            hurries: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            scripts: AtomicU64::new(0),
            wakes_at_us: AtomicU64::new(0),
        }
    }

    /// Returns the time when the worker wakes up by itself.
    pub(super) fn wakes_at(&self) -> Time {
        Time::from_start(Duration::from_micros(self.wakes_at_us.load(Ordering::SeqCst)))
    }

    /// Notes that the worker sleeps until `until`.
    pub(super) fn sleeps_until(&self, until: Time) {
        self.wakes_at_us.store(until.in_us(), Ordering::SeqCst);
    }
}
