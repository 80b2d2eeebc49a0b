//! Counting the nodes that have received a message about the owners of a lock.

use super::super::base::{Tally, Time, Verdict, majority};
use super::super::link::Via;
use super::super::vote::{Ballot, Failure};

/// The count of the nodes that have received a message about the owners of one name of a lock.
#[derive(Debug)]
pub(crate) struct Telling {
    told: Tally,
    /// The nodes that have neither answered nor failed.
    silent: usize,
    /// True if the message is of use only on a node where an owner has the lock.
    wants_owners: bool,
    has_owners: bool,
}

impl Telling {
    /// The count for an order, which is of use on every node.
    pub(crate) const fn new(nodes: usize) -> Self {
        let told = Tally::new(nodes, majority(nodes));
        Self { told, silent: nodes, wants_owners: false, has_owners: false }
    }

    /// The count for a request to the owners, which is of use on a node where one of them has the lock. Every
    /// majority has a node that knows a majority's holder. A holder that only the first node has granted may be on
    /// that node alone.
    pub(crate) const fn to_owners(nodes: usize) -> Self {
        Self { wants_owners: true, ..Self::new(nodes) }
    }

    /// Returns true if one of the owners has the lock on a node that was told.
    pub(crate) const fn has_owners(&self) -> bool {
        self.has_owners
    }

    /// Returns true if a majority was told. Owners that a majority was told to forget have no majority any more, and
    /// get none back.
    pub(crate) fn is_told(&self) -> bool {
        self.told.verdict() == Verdict::Won
    }
}

impl Ballot for Telling {
    /// The number of the owners that had the lock on the node.
    type Vote = u64;

    fn sending(&mut self, _node: usize, _via: Via, _now: Time) -> bool {
        // It is sent even if nobody waits for it: an order is kept for nodes that are down.
        true
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, _node: usize, owners: u64) {
        self.told.yes();
        self.silent -= 1;
        self.has_owners |= owners > 0;
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.told.no();
        self.silent -= 1;
    }

    fn decided(&self) -> bool {
        match self.told.verdict() {
            Verdict::Pending => false,
            Verdict::Won => !self.wants_owners || self.has_owners || self.silent == 0,
            Verdict::Lost => true,
        }
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

    #[test]
    fn a_request_is_waited_for_until_an_owner_is_told_or_all_nodes_have_been_heard() {
        let mut telling = Telling::to_owners(3);
        telling.vote(1, 0);
        telling.vote(2, 0);
        assert!(telling.is_told() && !telling.decided() && !telling.has_owners());
        telling.vote(0, 1);
        assert!(telling.decided() && telling.has_owners());
        let mut nobody = Telling::to_owners(3);
        (1..3).for_each(|node| nobody.vote(node, 0));
        nobody.fail(0, Failure::Error);
        assert!(nobody.decided() && nobody.is_told() && !nobody.has_owners());
    }
}
