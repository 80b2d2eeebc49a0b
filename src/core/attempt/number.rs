//! The number of the lock, as the nodes that grant it have answered.

use super::super::Mechanism;
use super::super::fencing::number_of;
use super::super::tally::{Verdict, votes_needed};
use super::{Answer, Attempt, Vote};

/// A number that is so far above the proposed one needs more than one node's word: ten seconds of the set's
/// time, of which numbers are made. Proposals of other clients are not that far apart.
const FAR_ABOVE: u64 = 1_000_000;

impl Attempt {
    /// That number is proposed to the nodes.
    pub(crate) const fn proposes(&mut self, number: u64) {
        self.proposed = Some(number);
    }

    /// The number that has to be written back before the lock may be used: it was won, and too few nodes
    /// know its number.
    pub(crate) fn number_to_write_back(&mut self) -> Option<u64> {
        if self.tally.verdict() != Verdict::Won || self.known() || self.is_far_above() {
            return None;
        }
        let number = self.number();
        self.chosen = Some(number);
        Some(number)
    }

    /// A majority has confirmed what [`number_to_write_back`](Self::number_to_write_back) named.
    pub(crate) const fn written_back(&mut self) {
        self.confirmed = true;
    }

    /// The largest number that so many nodes have answered, or a larger one, that a majority is not
    /// without one of them; 0 if they are too few. What fewer of them say may be of a single server that is
    /// out of its mind: proposed from then on, it would use up the numbers that there are.
    pub(crate) fn number_of_several(&self) -> u64 {
        let mut numbers: Vec<_> = self.numbers().collect();
        numbers.sort_unstable();
        let others = self.slots.len() - votes_needed(self.slots.len());
        numbers.into_iter().rev().nth(others).unwrap_or(0)
    }

    /// The lock's number. Once it is being written back it stays what it is.
    pub(super) fn number(&self) -> u64 {
        let needed = votes_needed(self.slots.len());
        self.chosen.unwrap_or_else(|| number_of(self.numbers(), needed))
    }

    /// Whether a majority of the nodes knows the lock's number while our keys are there.
    pub(super) fn known(&self) -> bool {
        let number = self.number();
        let known_by = self.numbers().filter(|known| *known >= number).count();
        self.confirmed
            || known_by >= votes_needed(self.slots.len())
            || !Mechanism::FenceWriteBack.is_on()
    }

    /// Whether the lock's number would be so far above what was proposed, or several have said, by the word of one,
    /// that the other nodes are to be heard first. It is never written back: that would raise the
    /// numbers of nodes that know better.
    pub(super) fn is_far_above(&self) -> bool {
        let Some(proposed) = self.proposed else { return false };
        let highest = proposed.max(self.number_of_several()).saturating_add(FAR_ABOVE);
        self.number() > highest && !self.known() && Mechanism::FarNumbersNeedSeveral.is_on()
    }

    /// What the nodes that granted have answered.
    fn numbers(&self) -> impl Iterator<Item = u64> + Clone {
        self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::Granted(number)) => Some(number),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::{
        Allowance, Ballot, Conclusion, Failure, LARGEST_NUMBER, Time, Via, without,
    };
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn attempt(nodes: usize, proposed: u64) -> Attempt {
        let ttl = Duration::from_secs(10);
        let mut attempt = Attempt::new(nodes, at(0), at(200), ttl, Allowance::FOR_DRIFT);
        attempt.proposes(proposed);
        (0..nodes).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(0))));
        attempt
    }

    fn number(attempt: &Attempt) -> Option<u64> {
        match attempt.conclude(at(1)) {
            Conclusion::Won { number, .. } => Some(number),
            _ => None,
        }
    }

    #[test]
    fn one_node_that_is_far_ahead_waits_for_the_others() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        assert!(!attempt.decided(), "the third one may know better");
        assert_eq!((attempt.number_to_write_back(), number(&attempt)), (None, None));
        attempt.vote(2, Vote::Granted(500));
        assert!(attempt.decided());
        assert_eq!((attempt.number_to_write_back(), number(&attempt)), (None, Some(500)));
        assert_eq!(attempt.number_of_several(), 500);
    }

    /// Two of three nodes grant, and one of them says the last number that there is: what the other one is told.
    fn written_back_by_the_word_of_one() -> Option<u64> {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        attempt.number_to_write_back()
    }

    #[test]
    fn without_the_rule_one_node_uses_up_the_numbers_of_all() {
        assert_eq!(written_back_by_the_word_of_one(), None);
        let without = without(&[Mechanism::FarNumbersNeedSeveral], written_back_by_the_word_of_one);
        assert_eq!(without, Some(LARGEST_NUMBER));
    }

    #[test]
    fn without_the_others_nobody_is_told_its_number() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        attempt.fail(2, Failure::Unknown);
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), None);
        assert_eq!(attempt.conclude(at(1)), Conclusion::Unconfirmed);
    }

    #[test]
    fn the_word_of_a_majority_counts_however_far_ahead_it_is() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900_000_000));
        attempt.vote(1, Vote::Granted(900_000_000));
        assert!(attempt.decided());
        assert_eq!(number(&attempt), Some(900_000_000));
        assert_eq!(attempt.number_of_several(), 900_000_000);
    }

    #[test]
    fn nodes_that_are_both_far_ahead_need_not_say_the_same() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900_000_000));
        attempt.vote(1, Vote::Granted(900_000_500));
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), Some(900_000_500));
    }

    #[test]
    fn a_number_that_is_not_far_ahead_is_written_back_at_once() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900));
        attempt.vote(1, Vote::Granted(500));
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), Some(900));
    }
}
