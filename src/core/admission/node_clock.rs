//! One client's knowledge of one node's clock, and the news about clocks.

use std::time::Duration;

use super::super::base::Time;
use super::clock_tracker::{ClockStep, ClockTracker};
use super::clocks::Offset;
use super::mark::Noted;

/// News about clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockNews {
    /// A clock is not where it was expected. All nodes must be probed.
    Doubt,
    /// This node's clock was set, by that step.
    Set(usize, ClockStep),
    /// Most of the nodes' clocks went on by so much more than our own: this machine was suspended, and all leases are over.
    Suspended(Duration),
}

/// The knowledge of a node's clock.
#[derive(Debug, Default)]
pub(super) struct NodeClock {
    /// The tracker is kept while the node cannot be reached: the clock may be set meanwhile.
    pub(super) tracker: Option<ClockTracker>,
    pub(super) reading: Option<Offset>,
    /// True if the last reading did not fit for certain, so that the tracker did not take it in.
    pub(super) doubtful: bool,
    /// The number of times that the tracking has begun anew since a reading fitted.
    pub(super) vague_readings: u32,
    /// The least by which the clock is ahead of the set, as the node's mark says.
    pub(super) noted: Option<Noted>,
    /// The same, as the last mark says, even one of an earlier run. A node that forgets its mark, or restarts, goes on with
    /// the same clock.
    pub(super) last_noted_ms: Option<i64>,
    /// The time at which a mark with a note was first sent to the node since one was last seen there.
    pub(super) note_sent: Option<Time>,
    /// True if the clock is where the mark says, and has gone on from there at our rate.
    pub(super) steady: bool,
    /// The time at which the clock last came into doubt: it was new to us, had not been tracked for a while, or took a step.
    pub(super) since: Time,
    /// The step by which the clock was not where we expected it, while nobody knows whose clock was set.
    pub(super) stepped: Option<ClockStep>,
    /// The last time at which the clock was where we expected it, and the note in its mark at that time.
    pub(super) fitted: Option<(Time, Noted)>,
    /// The last time at which the clock was ahead of our expectation, or of its mark.
    pub(super) ahead_at: Option<Time>,
    /// True if it was reported that the clock is not where its mark says.
    pub(super) told: bool,
}

impl NodeClock {
    /// Returns how far the clock is ahead of our own at `now`, at least and at most, in microseconds.
    pub(super) fn bounds_us(&self, now: Time) -> Option<(i64, i64)> {
        match (&self.tracker, self.doubtful) {
            (Some(tracker), false) => Some(tracker.bounds_us(now)),
            _ => Some(self.reading?.spread(now)),
        }
    }
}
