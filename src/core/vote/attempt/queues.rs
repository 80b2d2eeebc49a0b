//! What the nodes say of the queue that they keep for a fair lock.

use super::super::super::base::votes_needed;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// The nodes are asked for their queues as well. A majority has to say who is there.
    pub(crate) const fn asks_for_queues(&mut self) {
        self.asks_for_queues = true;
    }

    /// Returns whether the caller is in nobody's way: a majority has it in its queue, so that it can win, or so many nodes
    /// grant nothing to anybody for now that nobody can.
    pub(crate) fn is_queued(&self) -> bool {
        let has_it = |answer: &Answer| {
            matches!(answer, Answer::Voted(Vote::Queued { .. } | Vote::Granted(_)))
        };
        let needed = votes_needed(self.slots.len());
        let not_admitted = self.count(|answer| answer.is_not_admitted());
        self.count(has_it) >= needed || not_admitted > self.slots.len() - needed
    }

    /// Returns the largest ticket in the queues of a majority; `None`: too few nodes have said what is in theirs. A node
    /// that grants a lock has nobody ahead of the caller there.
    pub(crate) fn largest_ticket(&self) -> Option<u64> {
        let said = |slot: &super::NodeVote| match slot.answer {
            Answer::Voted(Vote::Queued { ticket, .. }) => Some(ticket),
            Answer::Voted(Vote::Granted(_)) => Some(0),
            _ => None,
        };
        let said: Vec<_> = self.slots.iter().filter_map(said).collect();
        said.iter().copied().max().filter(|_| said.len() >= votes_needed(self.slots.len()))
    }
}
