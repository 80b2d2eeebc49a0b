//! The next step of the worker, or of the caller that drives the connection to a node.

use crate::core::base::Time;

/// The worker's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing, until then or until something is asked.
    Rest(Time),
    /// It waits for an answer, until then. If `takes_more`, for requests as well: they may go out before the answer.
    Read { until: Time, takes_more: bool },
    /// Nothing, ever again.
    End,
}

/// The end of what a caller that drives the connection can do without waiting for the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// An answer is on its way, for which the node has time until then; or what waits may be written from then on.
    Reads(Time),
    /// Nothing is to be done before the worker wakes up by itself.
    Rests,
    /// Something that takes a thread of its own.
    Other,
}
