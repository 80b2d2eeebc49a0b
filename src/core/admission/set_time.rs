//! The set's time: the median of the nodes' clocks, as far as it is known.

use super::super::base::majority;

/// The time of one node's clock now, as exactly as its last answer and the round trip tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockRange {
    pub(crate) least_ms: u64,
    pub(crate) most_ms: u64,
}

impl ClockRange {
    /// Returns the range less a lead of `ahead_ms`.
    pub(super) fn set_back(self, ahead_ms: i64) -> Self {
        let back = |ms: u64| {
            let back = i128::from(ms) - i128::from(ahead_ms);
            u64::try_from(back.max(0)).unwrap_or(u64::MAX)
        };
        Self { least_ms: back(self.least_ms), most_ms: back(self.most_ms) }
    }
}

/// Two times between which the set's time certainly is, in milliseconds since 1970.
///
/// The set's time is the median over the clocks of **all** nodes. Of an even number it is the earlier of the two in the middle. A
/// minority of wrong clocks moves it no further than the others are apart. Nodes that we do not reach may have any clock. A
/// client that knows three clocks of five does not take the median of these three, which could be any of the five clocks. It
/// computes two bounds. The lower one holds if the other two clocks are far behind, the upper one if they are far ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetTime {
    pub(crate) least_ms: u64,
    pub(crate) most_ms: u64,
}

impl SetTime {
    /// Returns the bounds if either this or `other` is right.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            least_ms: self.least_ms.min(other.least_ms),
            most_ms: self.most_ms.max(other.most_ms),
        }
    }

    /// Returns the bounds by `clocks`, which has an entry for each node of the set. `None` if the clocks of fewer than a majority
    /// are known.
    pub(crate) fn of(clocks: &[Option<ClockRange>]) -> Option<Self> {
        let mut least: Vec<_> = clocks.iter().flatten().map(|clock| clock.least_ms).collect();
        let mut most: Vec<_> = clocks.iter().flatten().map(|clock| clock.most_ms).collect();
        if least.len() < majority(clocks.len()) {
            return None;
        }
        least.sort_unstable();
        most.sort_unstable();
        let unknown = clocks.len() - least.len();
        let middle = clocks.len().checked_sub(1)? / 2;
        // The unknown clocks stand in front of the others, or behind them.
        let least_ms = *least.get(middle.checked_sub(unknown)?)?;
        Some(Self { least_ms, most_ms: *most.get(middle)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(ms: u64) -> Option<ClockRange> {
        Some(ClockRange { least_ms: ms, most_ms: ms })
    }

    fn range(least_ms: u64, most_ms: u64) -> Option<SetTime> {
        Some(SetTime { least_ms, most_ms })
    }

    #[test]
    fn with_all_clocks_known_it_is_their_median() {
        assert_eq!(SetTime::of(&[exact(7)]), range(7, 7));
        assert_eq!(SetTime::of(&[exact(5), exact(9)]), range(5, 5));
        assert_eq!(SetTime::of(&[exact(900), exact(5), exact(6)]), range(6, 6));
        assert_eq!(SetTime::of(&[exact(1), exact(5), exact(6), exact(900)]), range(5, 5));
    }

    #[test]
    fn what_is_not_known_may_be_anything() {
        assert_eq!(SetTime::of(&[None, exact(5), exact(9)]), range(5, 9));
        assert_eq!(
            SetTime::of(&[exact(0), None, exact(3_600), exact(3_600), None]),
            range(0, 3_600)
        );
        let early = Some(ClockRange { least_ms: 5, most_ms: 8 });
        assert_eq!(SetTime::of(&[early, exact(9), None]), range(5, 9));
    }

    #[test]
    fn it_takes_the_clocks_of_a_majority() {
        for clocks in [
            &[][..],
            &[None],
            &[None, exact(5)],
            &[None, None, exact(5)],
            &[None, None, exact(5), exact(6)],
            &[None, None, None, exact(5), exact(6)],
        ] {
            assert_eq!(SetTime::of(clocks), None, "{clocks:?}");
        }
    }

    proptest! {
        /// A client that knows any part of the clocks has the true median between its bounds.
        #[test]
        fn the_median_of_all_is_always_between(
            clocks in prop::collection::vec((0_u64..1_000, 0_u64..9, 0_u64..9, any::<bool>()), 1..8),
        ) {
            let mut all: Vec<_> = clocks.iter().map(|(ms, ..)| ms + 9).collect();
            all.sort_unstable();
            let median = all[(all.len() - 1) / 2];
            let known: Vec<_> = clocks
                .iter()
                .map(|&(ms, before, after, known)| {
                    let (least_ms, most_ms) = (ms + 9 - before, ms + 9 + after);
                    known.then_some(ClockRange { least_ms, most_ms })
                })
                .collect();
            if let Some(time) = SetTime::of(&known) {
                prop_assert!((time.least_ms..=time.most_ms).contains(&median), "{time:?} {median}");
            } else {
                prop_assert!(known.iter().flatten().count() < majority(known.len()));
            }
        }
    }
}
