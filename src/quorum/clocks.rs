//! The masters' time: what it is by the word of most of them, whatever our own clock says.

use super::set_time::{ClockRange, SetTime};
use super::{Time, majority};

/// How far a node's clock is ahead of the lease clock, in microseconds. The node read its clock at
/// some moment between our request and its answer, which is all the uncertainty there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(super) least_us: i64,
    pub(super) most_us: i64,
    pub(super) sent: Time,
    pub(super) received: Time,
}

/// Two clocks drift apart by no more than a part in so many.
pub(super) const DRIFT: u32 = 100;

impl Offset {
    /// A node whose clock said `server_us` was asked at `sent`, and had answered by `received`.
    pub(crate) fn new(server_us: i64, sent: Time, received: Time) -> Self {
        Self {
            least_us: server_us.saturating_sub(microseconds(received)),
            most_us: server_us.saturating_sub(microseconds(sent)),
            sent,
            received,
        }
    }

    /// How far the node's clock is ahead at `now`, at least and at most, in microseconds: known less and
    /// less exactly, the longer ago it was heard of.
    pub(super) fn spread(self, now: Time) -> (i64, i64) {
        let drift = microseconds(Time::from_start(now.since(self.received) / DRIFT));
        (self.least_us.saturating_sub(drift), self.most_us.saturating_add(drift))
    }

    /// What the node's clock says at `now`.
    fn range(self, now: Time) -> ClockRange {
        let (least_us, most_us) = self.spread(now);
        let at = |offset: i64| microseconds(now).saturating_add(offset);
        let ms = |us: i64| u64::try_from(us.div_euclid(1_000)).unwrap_or(0);
        ClockRange { least_ms: ms(at(least_us)), most_ms: ms(at(most_us).saturating_add(999)) }
    }

    /// `time` by the node's clock, or somewhat before, in milliseconds.
    pub(crate) fn at_least_ms(self, time: Time) -> i64 {
        microseconds(time).saturating_add(self.least_us).div_euclid(1_000)
    }

    pub(super) fn middle_us(self) -> i64 {
        self.least_us.midpoint(self.most_us)
    }

    /// What the node's clock said when it was read, in milliseconds since 1970, or somewhat before.
    pub(super) fn read_ms(self) -> u64 {
        u64::try_from(self.at_least_ms(self.received)).unwrap_or(0)
    }
}

/// What time it is for the set, by the clocks of all its nodes.
pub(crate) fn set_time(offsets: &[Option<Offset>], now: Time) -> Option<SetTime> {
    let ranges: Vec<_> = offsets.iter().map(|offset| offset.map(|it| it.range(now))).collect();
    SetTime::of(&ranges)
}

/// The masters' time in microseconds: the median over the last known offsets of all nodes, those
/// included that cannot be reached or do not vote now. A set that changes would let the time jump back
/// with it. `None` as long as no node's clock is known.
///
/// With an even number it is the lower one in the middle: a clock that is behind costs nothing, as the
/// nodes know numbers of their own, and one that is far ahead would use up theirs.
pub(super) fn masters_time_us(offsets: &[Option<Offset>], now: Time) -> Option<i64> {
    let mut known: Vec<_> = offsets.iter().flatten().map(|offset| offset.middle_us()).collect();
    known.sort_unstable();
    let median = known.get(known.len().checked_sub(1)? / 2)?;
    Some(microseconds(now).saturating_add(*median))
}

/// Whether the masters' time is worth waiting for, with the clocks of so many nodes `known`, and those
/// of so many others on their way. No lock can be granted before a majority is connected, and each
/// connection begins with the node's clock; so this costs nothing, unless no lock is to be had anyway.
pub(crate) const fn worth_waiting(known: usize, coming: usize, nodes: usize) -> bool {
    known < majority(nodes) && known + coming >= majority(nodes)
}

pub(super) fn microseconds(time: Time) -> i64 {
    i64::try_from(time.since(Time::default()).as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn offset(us: i64) -> Option<Offset> {
        let (sent, received) = (Time::default(), Time::default());
        Some(Offset { least_us: us, most_us: us, sent, received })
    }

    #[test]
    fn a_nodes_clock_is_known_as_well_as_the_round_trip_allows() {
        let offset = Offset::new(5_000_000, at(1_000), at(1_200));
        assert_eq!(offset.at_least_ms(at(1_200)), 5_000, "it was read before the answer came");
        assert_eq!(masters_time_us(&[Some(offset)], at(1_200)), Some(5_100_000));
    }

    #[test]
    fn a_clock_that_was_heard_of_long_ago_is_known_less_exactly() {
        let offset = Offset::new(5_000_500, at(1_000), at(1_200));
        let range = |now_ms| offset.range(at(now_ms));
        assert_eq!(range(1_200), ClockRange { least_ms: 5_000, most_ms: 5_201 });
        assert_eq!(range(11_200), ClockRange { least_ms: 14_900, most_ms: 15_301 });
        let time = |offsets: &[_]| set_time(offsets, at(1_200));
        assert_eq!(time(&[None, None, Some(offset)]), None, "it takes a majority");
        assert_eq!(time(&[Some(offset)]).map(|time| time.most_ms), Some(5_201));
    }

    #[test]
    fn the_median_is_over_all_nodes_whose_clock_was_ever_known() {
        let time = |offsets: &[_]| masters_time_us(offsets, at(1));
        assert_eq!(time(&[None, None, None]), None);
        assert_eq!(time(&[None, offset(50), None]), Some(1_050));
        assert_eq!(time(&[offset(90), offset(50), None]), Some(1_050));
        assert_eq!(time(&[offset(90), offset(-50), offset(70)]), Some(1_070));
        assert_eq!(time(&[]), None);
    }

    #[test]
    fn clocks_are_waited_for_only_while_a_majority_can_still_be_known() {
        assert!(worth_waiting(0, 3, 3));
        assert!(worth_waiting(1, 1, 3));
        assert!(!worth_waiting(2, 1, 3), "a majority is known");
        assert!(!worth_waiting(1, 0, 3), "the others are down");
        assert!(!worth_waiting(0, 1, 3));
    }

    proptest! {
        /// A minority of wrong clocks moves the time no further than the right ones are apart.
        #[test]
        fn a_minority_of_wrong_clocks_does_no_harm(
            right in prop::collection::vec(0_i64..1_000, 3), wrong in prop::collection::vec(any::<i64>(), 2),
            now_ms in 0_u64..1_000_000,
        ) {
            let all: Vec<_> = right.iter().chain(&wrong).map(|us| offset(*us)).collect();
            let time = masters_time_us(&all, at(now_ms)).expect("all are known");
            let now = microseconds(at(now_ms));
            prop_assert!((now..now + 1_000).contains(&time));
        }

        /// Two processes whose own clocks have nothing in common see the same time.
        #[test]
        fn the_own_clock_does_not_matter(
            server_us in 0_i64..i64::MAX / 2, one in 0_u64..1 << 40, other in 0_u64..1 << 40,
        ) {
            let seen = |own_ms| {
                let offset = Offset::new(server_us, at(own_ms), at(own_ms));
                masters_time_us(&[Some(offset)], at(own_ms + 7))
            };
            prop_assert_eq!(seen(one), Some(server_us + 7_000));
            prop_assert_eq!(seen(one), seen(other));
        }
    }
}
