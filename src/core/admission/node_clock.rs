//! What one client knows of one node's clock, and what there is to tell about clocks.

use std::time::Duration;

use super::super::base::Time;
use super::clock_tracker::{ClockStep, ClockTracker};
use super::clocks::Offset;
use super::mark::Noted;

/// What there is to tell about clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockNews {
    /// A clock is not where it was expected. All nodes have to be probed.
    Doubt,
    /// It was this node's, which was set.
    Set(usize, ClockStep),
    /// Most of the nodes' clocks went on by so much more than our own: this machine was suspended, and
    /// all leases are over.
    Suspended(Duration),
}

/// What is known of a node's clock.
#[derive(Debug, Default)]
pub(super) struct NodeClock {
    /// Kept while the node cannot be reached: it may be set meanwhile.
    pub(super) tracker: Option<ClockTracker>,
    pub(super) reading: Option<Offset>,
    /// The last reading did not fit for certain, so the tracker has not taken it in.
    pub(super) doubtful: bool,
    /// How often its tracking has begun anew since a reading fitted.
    pub(super) vague_readings: u32,
    /// How far it is ahead of the set at least, as the node's mark says.
    pub(super) noted: Option<Noted>,
    /// The same of the last mark that there was, of an earlier run too: a node that forgets it, or restarts,
    /// goes on with the same clock.
    pub(super) last_noted_ms: Option<i64>,
    /// When the first mark was sent there that says how far it is ahead, since one was seen there.
    pub(super) note_sent: Option<Time>,
    /// It is where the mark says, and has gone on from there at our rate.
    pub(super) steady: bool,
    /// Since when it is in doubt: it is new to us, or was not tracked for a while, or took a step.
    pub(super) since: Time,
    /// It was not where we expected it, and nobody knows yet whose clock that was.
    pub(super) stepped: Option<ClockStep>,
    /// When it was last where we expected it, and what its mark said then.
    pub(super) fitted: Option<(Time, Noted)>,
    /// When it was last found ahead of where it had to be, by us or by its mark.
    pub(super) ahead_at: Option<Time>,
    /// It was told that it is not where its mark says.
    pub(super) told: bool,
}

impl NodeClock {
    /// How far it is ahead of our own at `now`, at least and at most, in microseconds.
    pub(super) fn bounds_us(&self, now: Time) -> Option<(i64, i64)> {
        match (&self.tracker, self.doubtful) {
            (Some(tracker), false) => Some(tracker.bounds_us(now)),
            _ => Some(self.reading?.spread(now)),
        }
    }
}
