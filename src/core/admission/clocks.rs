//! Readings of the masters' clocks, and the set's time that follows from them, whatever our own clock
//! says.

use std::time::Duration;

use super::super::base::{Time, majority};
use super::set_time::ClockRange;

/// The lead of a node's clock over the lease clock, in microseconds. The node read its clock at some
/// moment between our request and its answer. There is no other uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) least_us: i64,
    pub(crate) most_us: i64,
    pub(super) sent: Time,
    pub(crate) received: Time,
}

/// Two clocks drift apart by at most one part in so many.
pub(super) const DRIFT: u32 = 100;

impl Offset {
    /// The offset of a node whose clock said `server_us`. It was asked at `sent`, and had answered by
    /// `received`.
    pub(crate) fn new(server_us: i64, sent: Time, received: Time) -> Self {
        Self {
            least_us: server_us.saturating_sub(microseconds(received)),
            most_us: server_us.saturating_sub(microseconds(sent)),
            sent,
            received,
        }
    }

    /// Returns the time that it took to read the clock, which is the accuracy of the reading.
    pub(crate) fn round_trip(self) -> std::time::Duration {
        self.received.since(self.sent)
    }

    /// Returns how far the node's clock is ahead at `now`, at least and at most, in microseconds. The
    /// older the reading, the wider the range.
    pub(super) fn spread(self, now: Time) -> (i64, i64) {
        let drift = microseconds(Time::from_start(now.since(self.received) / DRIFT));
        (self.least_us.saturating_sub(drift), self.most_us.saturating_add(drift))
    }

    /// Returns the range in which the node's clock is at `now`.
    pub(super) fn range(self, now: Time) -> ClockRange {
        let (least_us, most_us) = self.spread(now);
        let at = |offset: i64| microseconds(now).saturating_add(offset);
        let ms = |us: i64| u64::try_from(us.div_euclid(1_000)).unwrap_or(0);
        ClockRange { least_ms: ms(at(least_us)), most_ms: ms(at(most_us).saturating_add(999)) }
    }

    /// Returns `time` by the node's clock, or somewhat before, in milliseconds.
    pub(crate) fn at_least_ms(self, time: Time) -> i64 {
        microseconds(time).saturating_add(self.least_us).div_euclid(1_000)
    }

    /// Returns `time` by the node's clock, or somewhat later, in milliseconds.
    pub(crate) fn at_most_ms(self, time: Time) -> i64 {
        microseconds(time).saturating_add(self.most_us).saturating_add(999).div_euclid(1_000)
    }

    pub(super) fn middle_us(self) -> i64 {
        self.least_us.midpoint(self.most_us)
    }

    /// Returns the time of the node's clock when it was read, or somewhat before, in milliseconds since
    /// 1970.
    pub(super) fn read_ms(self) -> u64 {
        u64::try_from(self.at_least_ms(self.received)).unwrap_or(0)
    }
}

/// Returns the value in the middle; of an even number of values, the lower one. A clock that is behind
/// costs nothing, since the nodes know numbers of their own. A clock that is far ahead would use up the
/// numbers.
pub(crate) fn median(values: impl Iterator<Item = i64>) -> Option<i64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// Returns true if the masters' time is worth waiting for: the clocks of `known` nodes are known, and
/// those of `coming` others are on their way. No lock can be granted before a majority is connected, and
/// each connection begins with the node's clock. So the wait costs nothing, unless no lock can be
/// granted anyway.
pub(crate) const fn worth_waiting(known: usize, coming: usize, nodes: usize) -> bool {
    known < majority(nodes) && known + coming >= majority(nodes)
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn microseconds(time: Time) -> i64 {
    i64::try_from(time.since(Time::default()).as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn a_nodes_clock_is_known_as_well_as_the_round_trip_allows() {
        let offset = Offset::new(5_000_000, at(1_000), at(1_200));
        assert_eq!(offset.at_least_ms(at(1_200)), 5_000, "it was read before the answer came");
        assert_eq!(offset.at_most_ms(at(1_200)), 5_200, "or when it was asked");
        assert_eq!(offset.middle_us() + microseconds(at(1_200)), 5_100_000);
        assert_eq!(offset.round_trip(), Duration::from_millis(200));
    }

    #[test]
    fn a_clock_that_was_heard_of_long_ago_is_known_less_exactly() {
        let offset = Offset::new(5_000_500, at(1_000), at(1_200));
        let range = |now_ms| offset.range(at(now_ms));
        assert_eq!(range(1_200), ClockRange { least_ms: 5_000, most_ms: 5_201 });
        assert_eq!(range(11_200), ClockRange { least_ms: 14_900, most_ms: 15_301 });
    }

    #[test]
    fn the_median_of_an_even_number_is_the_lower_one_in_the_middle() {
        let median = |values: &[i64]| median(values.iter().copied());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[50]), Some(50));
        assert_eq!(median(&[90, 50]), Some(50));
        assert_eq!(median(&[90, -50, 70]), Some(70));
    }

    #[test]
    fn clocks_are_waited_for_only_while_a_majority_can_still_be_known() {
        assert!(worth_waiting(0, 3, 3));
        assert!(worth_waiting(1, 1, 3));
        assert!(!worth_waiting(2, 1, 3), "a majority is known");
        assert!(!worth_waiting(1, 0, 3), "the others are down");
        assert!(!worth_waiting(0, 1, 3));
    }
}
