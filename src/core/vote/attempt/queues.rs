//! The nodes' answers about the queue that they keep for a fair lock.

use super::super::super::base::votes_needed;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Asks the nodes for their queues as well. A majority must report its queue.
    pub(crate) const fn asks_for_queues(&mut self) {
        self.asks_for_queues = true;
    }

    /// Returns true if the caller blocks nobody by waiting: a majority has it in the queue, so that it can win, or so
    /// many nodes grant nothing to anybody for now that nobody can win.
    pub(crate) fn is_queued(&self) -> bool {
        let has_it = |answer: &Answer| {
            matches!(answer, Answer::Voted(Vote::Queued { .. } | Vote::Granted(_)))
        };
        let needed = votes_needed(self.slots.len());
        let not_admitted = self.count(|answer| answer.is_not_admitted());
        self.count(has_it) >= needed || not_admitted > self.slots.len() - needed
    }

    /// Returns the largest ticket in the queues of a majority; `None`: too few nodes have reported their queues. On a
    /// node that grants the lock, nobody is ahead of the caller.
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
