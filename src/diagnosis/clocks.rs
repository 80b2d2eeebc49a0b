//! The offsets and rates of clocks, from two readings of each.

use std::time::Duration;

use crate::core::admission::Offset;
use crate::core::admission::clocks::median;

/// With fewer clocks, a median is worth no more than the clock of this machine.
const ENOUGH: usize = 3;

/// The clock with which the nodes' clocks are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    clock: Offset,
    pub(super) name: &'static str,
}

/// A difference, as exact as round trips allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    least: i64,
    most: i64,
}

impl Reference {
    /// The median of the nodes' clocks, or `ours`, the clock of this machine, if there are too few.
    pub(super) fn of(nodes: &[Offset], ours: Offset) -> Self {
        let middle = |offset: Offset| offset.least_us.midpoint(offset.most_us);
        let median = median(nodes.iter().copied().map(middle));
        let clock = nodes.iter().copied().find(|node| Some(middle(*node)) == median);
        match clock.filter(|_| nodes.len() >= ENOUGH) {
            Some(clock) => Self { clock, name: "the median of the nodes' clocks" },
            None => Self { clock: ours, name: "the clock of this machine" },
        }
    }

    /// Returns the lead of that clock, in microseconds.
    pub(super) fn ahead(self, clock: Offset) -> Difference {
        let Self { clock: reference, .. } = self;
        Difference {
            least: clock.least_us.saturating_sub(reference.most_us),
            most: clock.most_us.saturating_sub(reference.least_us),
        }
    }
}

/// Returns the rate difference between a clock and that of this machine, in millionths, positive if the clock is faster.
/// `None` if it was not observed for long enough.
pub(super) fn rate([first, last]: [Offset; 2]) -> Option<Difference> {
    const SHORTEST: Duration = Duration::from_millis(100);
    let passed = last.received.since(first.received);
    if passed < SHORTEST {
        return None;
    }
    let passed_us = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
    let millionths = |us: i64| us.saturating_mul(1_000_000) / passed_us;
    Some(Difference {
        least: millionths(last.least_us.saturating_sub(first.most_us)),
        most: millionths(last.most_us.saturating_sub(first.least_us)),
    })
}

impl Difference {
    /// Returns the likeliest value.
    pub(super) const fn middle(self) -> i64 {
        self.least.midpoint(self.most)
    }

    /// Returns the size that is certain, regardless of the sign.
    pub(super) fn certain(self) -> u64 {
        u64::try_from(self.least.max(self.most.saturating_neg())).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::base::Time;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    /// A clock that is that many milliseconds ahead of the lease clock, read at that time within 2 ms.
    fn clock(ahead_ms: i64, read_at_ms: u64) -> Offset {
        let server_us = (i64::try_from(read_at_ms).expect("a time") + 1 + ahead_ms) * 1_000;
        Offset::new(server_us, at(read_at_ms), at(read_at_ms + 2))
    }

    #[test]
    fn one_clock_of_three_is_told_from_the_others_whatever_ours_says() {
        let nodes = [clock(50, 0), clock(3_050, 0), clock(52, 0)];
        let reference = Reference::of(&nodes, clock(9_000, 0));
        assert_eq!(reference.name, "the median of the nodes' clocks");
        let ahead = |node: usize| reference.ahead(nodes[node]);
        assert_eq!((ahead(1).middle(), ahead(1).certain()), (2_998_000, 2_996_000));
        assert_eq!((ahead(0).certain(), ahead(2).certain()), (0, 0));
        let behind = reference.ahead(clock(-948, 0));
        assert_eq!((behind.middle(), behind.certain()), (-1_000_000, 998_000));
    }

    #[test]
    fn of_fewer_nodes_the_clock_of_this_machine_is_the_reference() {
        let reference = Reference::of(&[clock(50, 0), clock(3_050, 0)], clock(50, 0));
        assert_eq!(reference.name, "the clock of this machine");
        assert_eq!(reference.ahead(clock(3_050, 0)).middle(), 3_000_000);
    }

    #[test]
    fn a_clock_that_goes_wrong_is_told_from_one_that_is_read_slowly() {
        let readings = |gained_ms: i64| [clock(0, 0), clock(gained_ms, 1_000)];
        let fast = rate(readings(50)).expect("long enough");
        assert_eq!((fast.middle(), fast.certain()), (50_000, 48_000));
        let slow = rate(readings(-50)).expect("long enough");
        assert_eq!((slow.middle(), slow.certain()), (-50_000, 48_000));
        assert_eq!(rate(readings(1)).expect("long enough").certain(), 0);
        assert_eq!(rate([clock(0, 0), clock(0, 50)]), None);
    }
}
