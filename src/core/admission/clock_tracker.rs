//! The tracking of one node's clock against our own, which finds out when it was set.

use std::time::Duration;

use super::super::base::{Mechanism, Time};
use super::clocks::{DRIFT, Offset};

/// A clock was set, by at least so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockStep {
    /// The keys of locks end early, by that much.
    Forward(Duration),
    /// The keys live longer, which blocks nobody for long.
    Back(Duration),
}

/// The verdict on a clock that follows from one more reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It cannot have been set forward by more than the tolerance.
    Fits,
    /// It may have been set forward: the answer took too long, or the last reading is too long ago.
    Doubtful,
    /// It certainly was set.
    Stepped(ClockStep),
}

/// The bounds of a node's clock, by all of its readings: how far it is ahead of the lease clock. They are in nanoseconds, so that
/// many readings lose nothing by rounding.
///
/// The bounds move apart by one per cent of the time that passes. No clock is more wrong than that, and validity allows for it. A
/// reading narrows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockTracker {
    least_ns: i64,
    most_ns: i64,
    /// The lowest of all earlier `least_ns`, and of all earlier `most_ns`, each raised by the drift since.
    /// Small steps, and a clock that is slewed fast, add up against these.
    lowest_least_ns: i64,
    lowest_most_ns: i64,
    at: Time,
    /// True if a reading after the first one has fitted.
    has_fitted: bool,
}

impl ClockTracker {
    pub(super) fn new(first: Offset) -> Self {
        // The clock was read at some moment on the way, and has been drifting since.
        let drift = nanoseconds(first.received.since(first.sent) / DRIFT);
        let least_ns = first.least_us.saturating_mul(1_000).saturating_sub(drift);
        let most_ns = first.most_us.saturating_mul(1_000).saturating_add(drift);
        let (lowest_least_ns, lowest_most_ns) = (least_ns, most_ns);
        let at = first.received;
        Self { least_ns, most_ns, lowest_least_ns, lowest_most_ns, at, has_fitted: false }
    }

    /// Takes in one more reading. Returns whether the clock can have been set forward by more than `tolerance` since any earlier
    /// reading.
    ///
    /// After a step, the clock is tracked from its present place on. A doubtful reading changes nothing, so the next one is
    /// compared with the earlier bounds.
    pub(super) fn read(&mut self, offset: Offset, tolerance: Duration) -> Reading {
        let read = Self::new(offset);
        let before = self.drifted(read.at);
        let tolerance = nanoseconds(tolerance);
        let gained_at_least = read.least_ns.saturating_sub(before.lowest_most_ns);
        let lost_at_least = before.least_ns.saturating_sub(read.most_ns);
        let known_least = before.least_ns.min(before.lowest_least_ns);
        let gained_at_most = read.most_ns.saturating_sub(known_least);
        if gained_at_least > tolerance {
            *self = read;
            return Reading::Stepped(ClockStep::Forward(duration(gained_at_least)));
        }
        if lost_at_least > tolerance {
            *self = read;
            return Reading::Stepped(ClockStep::Back(duration(lost_at_least)));
        }
        if gained_at_most > tolerance {
            return Reading::Doubtful;
        }
        // A clock that was set by less than the tolerance is outside the old bounds.
        let least_ns = match lost_at_least > 0 {
            true => read.least_ns,
            false => before.least_ns.max(read.least_ns),
        };
        let most_ns = match read.least_ns > before.most_ns {
            true => read.most_ns,
            false => before.most_ns.min(read.most_ns),
        };
        *self = Self {
            least_ns,
            most_ns,
            lowest_least_ns: before.lowest_least_ns.min(least_ns),
            lowest_most_ns: before.lowest_most_ns.min(most_ns),
            at: read.at,
            has_fitted: true,
        };
        Reading::Fits
    }

    /// Returns how far the clock is ahead at `now`, at least and at most, in microseconds.
    pub(super) fn bounds_us(&self, now: Time) -> (i64, i64) {
        let Self { least_ns, most_ns, .. } = self.drifted(now);
        (least_ns.div_euclid(1_000), most_ns.saturating_neg().div_euclid(1_000).saturating_neg())
    }

    /// Returns true if a doubtful reading says nothing of the clock, so that the tracking must begin anew: the last reading that
    /// fitted is too old, or the first reading took too long and none has fitted since.
    pub(super) fn has_to_restart(&self, now: Time, tolerance: Duration) -> bool {
        self.is_old(now, tolerance) || self.is_vague(tolerance)
    }

    /// Returns true if only a first reading is known, which took long. Once a reading has fitted, the bounds stay: a doubt
    /// protects locks that were granted before.
    pub(super) fn is_vague(&self, tolerance: Duration) -> bool {
        let is_wide = self.most_ns.saturating_sub(self.least_ns) > nanoseconds(tolerance / 2);
        is_wide && !self.has_fitted && Mechanism::VagueBoundsAreReplaced.is_on()
    }

    /// Returns true if drift alone makes the next readings doubtful.
    fn is_old(&self, now: Time, tolerance: Duration) -> bool {
        now.since(self.at) / DRIFT > tolerance / 4
    }

    /// Counts gains from `least_us` on, a lead over our clock in microseconds, if it is below all that were read: the node's mark
    /// says that the clock may have been there.
    pub(super) fn count_gains_from(&mut self, least_us: i64, now: Time) {
        let drift = nanoseconds(now.since(self.at) / DRIFT);
        let least_ns = least_us.saturating_mul(1_000).saturating_sub(drift);
        self.lowest_least_ns = self.lowest_least_ns.min(least_ns);
    }

    /// Returns the bounds at `now`, with the drift since the last reading.
    fn drifted(&self, now: Time) -> Self {
        let drift = nanoseconds(now.since(self.at) / DRIFT);
        Self {
            least_ns: self.least_ns.saturating_sub(drift),
            most_ns: self.most_ns.saturating_add(drift),
            lowest_least_ns: self.lowest_least_ns.saturating_add(drift),
            lowest_most_ns: self.lowest_most_ns.saturating_add(drift),
            ..*self
        }
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

fn duration(nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
}

#[cfg(test)]
#[path = "tests/clock_tracker.rs"]
mod tests;
