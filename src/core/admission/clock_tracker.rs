//! Tracks one node's clock against our own, and finds out when it was set.

use std::time::Duration;

use super::super::base::{Mechanism, Time};
use super::clocks::{DRIFT, Offset};

/// A clock was set, by that much at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockStep {
    /// The keys of locks end early, by that much.
    Forward(Duration),
    /// They live longer, which is in nobody's way for long.
    Back(Duration),
}

/// What one more reading says of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// It cannot have been set forward by more than the tolerance.
    Fits,
    /// It may have been: the answer took too long, or the last reading is too long ago.
    Doubtful,
    /// It certainly was set.
    Stepped(ClockStep),
}

/// Bounds of a node's clock, by all of its readings: how far it is ahead of the lease clock. They are in
/// nanoseconds, so that many readings lose nothing by rounding.
///
/// The bounds move apart by one per cent of the time that passes, since no clock is wronger than that:
/// what validity allows for. A reading narrows them.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockTracker {
    least_ns: i64,
    most_ns: i64,
    /// The lowest of all earlier `least_ns`, and of all earlier `most_ns`, each raised by the drift since.
    /// Small steps, and a clock that is slewed fast, add up against these.
    lowest_least_ns: i64,
    lowest_most_ns: i64,
    at: Time,
    /// A reading after the first one has fitted.
    has_fitted: bool,
}

impl ClockTracker {
    pub(super) fn new(first: Offset) -> Self {
        // The clock was read at any time on the way, and has been drifting since.
        let drift = nanoseconds(first.received.since(first.sent) / DRIFT);
        let least_ns = first.least_us.saturating_mul(1_000).saturating_sub(drift);
        let most_ns = first.most_us.saturating_mul(1_000).saturating_add(drift);
        let (lowest_least_ns, lowest_most_ns) = (least_ns, most_ns);
        let at = first.received;
        Self { least_ns, most_ns, lowest_least_ns, lowest_most_ns, at, has_fitted: false }
    }

    /// The clock was read once more: whether it can have been set forward by more than `tolerance` since
    /// any earlier reading.
    ///
    /// After a step it is tracked from where it is now. A reading in doubt changes nothing, so the next
    /// one is compared with what was known before.
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

    /// How far the clock is ahead at `now`, at least and at most, in microseconds.
    pub(super) fn bounds_us(&self, now: Time) -> (i64, i64) {
        let Self { least_ns, most_ns, .. } = self.drifted(now);
        (least_ns.div_euclid(1_000), most_ns.saturating_neg().div_euclid(1_000).saturating_neg())
    }

    /// Returns true if a doubtful reading says nothing of the clock, and the tracking has to begin anew: the last reading that
    /// fitted is too old, or the first reading took too long and none has fitted since.
    pub(super) fn has_to_restart(&self, now: Time, tolerance: Duration) -> bool {
        self.is_old(now, tolerance) || self.is_vague(tolerance)
    }

    /// Returns true if nothing is known but a first reading that took long. Once a reading has fitted, the bounds stay: a doubt
    /// protects locks that were granted before.
    pub(super) fn is_vague(&self, tolerance: Duration) -> bool {
        let is_wide = self.most_ns.saturating_sub(self.least_ns) > nanoseconds(tolerance / 2);
        is_wide && !self.has_fitted && Mechanism::VagueBoundsAreReplaced.is_on()
    }

    /// Returns true if drift alone makes the next readings doubtful.
    fn is_old(&self, now: Time, tolerance: Duration) -> bool {
        now.since(self.at) / DRIFT > tolerance / 4
    }

    /// Counts gains from that offset, in microseconds ahead of our clock, if it is below all that were read:
    /// the node's mark says that the clock may have been there.
    pub(super) fn count_gains_from(&mut self, least_us: i64, now: Time) {
        let drift = nanoseconds(now.since(self.at) / DRIFT);
        let least_ns = least_us.saturating_mul(1_000).saturating_sub(drift);
        self.lowest_least_ns = self.lowest_least_ns.min(least_ns);
    }

    /// What is known at `now`, with the drift since the last reading.
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
