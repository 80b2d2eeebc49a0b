//! The next step of the worker, or of the caller that drives the connection to a node.

use crate::core::base::Time;

/// The worker's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing to do until this time, or until something is asked.
    Rest(Time),
    /// A wait for an answer until `until`. If `takes_more`, also a wait for requests: they may go out before the answer.
    Read { until: Time, takes_more: bool },
    /// Nothing to do, ever again.
    End,
}

/// The point that a caller that drives the connection has reached without waiting for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// An answer is on its way. The time is its deadline, or the earlier time from which waiting requests may be written.
    Reads(Time),
    /// Nothing to do before the worker wakes up by itself.
    Rests,
    /// Something to do that takes a thread of its own.
    Other,
}
