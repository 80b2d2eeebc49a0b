//! Writing back the number of a lock that was won to the nodes, if too few of them know it.

use super::super::base::{Mechanism, Time};
use super::super::base::{Tally, Verdict, votes_needed};
use super::super::link::Via;
use super::{Ballot, Failure};

/// A node's answer to `confirm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmVote {
    /// Our key is there, and the node knows the number, or a larger one.
    Confirmed,
    /// Our key is not there, and the node's number is unchanged.
    NotOurs,
}

/// The write-back of a number to all nodes.
///
/// Only nodes that still hold our key count. A node that another owner holds may have answered that owner
/// before, with a smaller number, and would be one of the majority that its lock rests on.
#[derive(Debug)]
pub(crate) struct Confirmation {
    answer_by: Time,
    tally: Tally,
}

impl Confirmation {
    pub(crate) fn new(nodes: usize, answer_by: Time) -> Self {
        let tally = Tally::new(nodes, votes_needed(nodes));
        Self { answer_by, tally }
    }

    /// Returns true if a majority has confirmed.
    pub(crate) fn confirmed(&self) -> bool {
        self.tally.verdict() == Verdict::Won
    }
}

impl Ballot for Confirmation {
    type Vote = ConfirmVote;

    fn sending(&mut self, _node: usize, _via: Via, now: Time) -> bool {
        // A copy that runs later does no harm: after the release, the key is not ours.
        now < self.answer_by
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, _node: usize, vote: ConfirmVote) {
        match vote {
            ConfirmVote::NotOurs if Mechanism::FenceOnlyWhereOurs.is_on() => self.tally.no(),
            ConfirmVote::NotOurs | ConfirmVote::Confirmed => self.tally.yes(),
        }
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.tally.no();
    }

    fn decided(&self) -> bool {
        self.tally.verdict() != Verdict::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn confirmation() -> Confirmation {
        let answer_by = Time::from_start(Duration::from_millis(200));
        Confirmation::new(5, answer_by)
    }

    #[test]
    fn a_majority_that_is_ours_confirms() {
        let mut confirmation = confirmation();
        confirmation.vote(0, ConfirmVote::Confirmed);
        confirmation.vote(1, ConfirmVote::NotOurs);
        confirmation.vote(2, ConfirmVote::Confirmed);
        confirmation.fail(3, Failure::Unknown);
        assert!(!confirmation.decided());
        confirmation.vote(4, ConfirmVote::Confirmed);
        assert!(confirmation.decided() && confirmation.confirmed());
    }

    #[test]
    fn a_majority_out_of_reach_settles_it() {
        let mut confirmation = confirmation();
        confirmation.fail(0, Failure::NotSent);
        confirmation.fail(1, Failure::Unknown);
        assert!(!confirmation.decided());
        confirmation.vote(2, ConfirmVote::NotOurs);
        assert!(confirmation.decided() && !confirmation.confirmed());
    }

    #[test]
    fn nothing_is_sent_after_its_time() {
        let mut confirmation = confirmation();
        assert!(confirmation.sending(
            0,
            Via::unfenced(1),
            Time::from_start(Duration::from_millis(199))
        ));
        assert!(!confirmation.sending(
            0,
            Via::unfenced(1),
            Time::from_start(Duration::from_millis(200))
        ));
    }
}
