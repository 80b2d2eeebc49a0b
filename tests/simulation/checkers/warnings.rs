//! A holder is warned before its lock is lost. It hears of a warning and of the end of that warning in turn.

use std::collections::BTreeSet;

use crate::core::hold::RiskNews;

#[derive(Default)]
pub(super) struct Warnings {
    /// The locks whose holders are warned.
    warned: BTreeSet<u64>,
    /// The locks whose loss was told.
    lost: BTreeSet<u64>,
}

impl Warnings {
    /// Checks the news for the holders of that lock: it is at risk, or not any more. Returns a violation, if there is one.
    pub(super) fn told(&mut self, lock: u64, news: RiskNews) -> Option<&'static str> {
        let is_wrong = match news {
            RiskNews::AtRisk { .. } => !self.warned.insert(lock),
            RiskNews::Recovered { .. } => !self.warned.remove(&lock),
        };
        let (RiskNews::AtRisk { remaining, .. } | RiskNews::Recovered { remaining }) = news;
        if self.lost.contains(&lock) || remaining.is_zero() {
            Some("is said to be at risk, or valid again, after its loss")
        } else if is_wrong {
            Some("is warned of twice, or recovers without a warning")
        } else {
            None
        }
    }

    /// Notes that another holder has it, and has heard nothing.
    pub(super) fn handed_over(&mut self, lock: u64) {
        self.warned.remove(&lock);
    }

    /// Checks a loss that the holders are told of. They `had_time` to be warned before. Returns a violation, if there is one.
    pub(super) fn lost(&mut self, lock: u64, had_time: bool) -> Option<&'static str> {
        self.lost.insert(lock);
        let is_wrong = had_time && !self.warned.contains(&lock);
        is_wrong.then_some("is lost without a warning")
    }
}
