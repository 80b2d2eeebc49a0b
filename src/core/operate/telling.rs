//! The nodes that were told something about the owners of a lock.

use super::super::base::{Tally, Time, Verdict, majority};
use super::super::link::Via;
use super::super::vote::{Ballot, Failure};

/// The count of the nodes that were told something about the owners of one name of a lock.
#[derive(Debug)]
pub(crate) struct Telling {
    told: Tally,
}

impl Telling {
    pub(crate) const fn new(nodes: usize) -> Self {
        Self { told: Tally::new(nodes, majority(nodes)) }
    }

    /// Returns whether a majority was told. If it was to forget the owners, they have no majority any more, and get none back.
    pub(crate) fn is_told(&self) -> bool {
        self.told.verdict() == Verdict::Won
    }
}

impl Ballot for Telling {
    /// How many of the owners had the lock on the node.
    type Vote = u64;

    fn sending(&mut self, _node: usize, _via: Via, _now: Time) -> bool {
        // Also if nobody waits for it: an order is kept for nodes that are down.
        true
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, _node: usize, _owners: u64) {
        self.told.yes();
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.told.no();
    }

    fn decided(&self) -> bool {
        self.told.verdict() != Verdict::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_that_was_told_is_enough_and_less_is_not() {
        let mut telling = Telling::new(5);
        telling.vote(0, 1);
        telling.fail(1, Failure::NotSent);
        telling.vote(2, 0);
        assert!(!telling.decided());
        telling.vote(4, 1);
        assert!(telling.decided() && telling.is_told());
        let mut telling = Telling::new(3);
        telling.fail(0, Failure::Unknown);
        telling.fail(1, Failure::Error);
        assert!(telling.decided() && !telling.is_told());
    }
}
