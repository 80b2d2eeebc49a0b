//! Asking one node before the others.

use super::super::super::base::Time;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Asks only `node` at first. If all contenders begin with the same node, it decides among them. Otherwise they
    /// would share the nodes among them, so that nobody gets a majority.
    pub(crate) fn prefer(&mut self, node: usize) {
        self.preferred = Some(node);
    }

    /// Returns true if the other nodes are to be asked now, until `answer_by`. The preferred node has answered, or
    /// its time is over. The others are not asked if it refused. If its answer does not count, they are asked as if
    /// it had not been asked.
    pub(crate) fn goes_on(&mut self, answer_by: Time) -> bool {
        let refused = |node: usize| self.slots[node].answer.refusal().is_some();
        let goes_on = !self.closed && self.preferred.is_some_and(|node| !refused(node));
        if goes_on {
            self.preferred = None;
            self.answer_by = answer_by;
        }
        goes_on
    }

    /// The preferred node, if only that node was asked: the attempt waits for it, or ended with its answer.
    pub(crate) const fn preferred(&self) -> Option<usize> {
        self.preferred
    }

    /// Returns true if the node has granted the lock.
    pub(crate) fn is_granted_by(&self, node: usize) -> bool {
        self.slots[node].ours
    }

    /// The nodes that have granted the lock.
    pub(crate) fn granted_by(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|node| self.slots[*node].ours).collect()
    }

    /// Returns true if the node has said that the lock is held.
    pub(crate) fn is_refused_by(&self, node: usize) -> bool {
        self.slots[node].answer.refusal().is_some()
    }

    /// Returns true if the node has neither answered nor failed.
    pub(crate) fn is_silent(&self, node: usize) -> bool {
        self.slots[node].answer == Answer::Open
    }

    /// Returns true if the node has voted, so that it can be expected to vote again.
    pub(crate) fn has_vote_of(&self, node: usize) -> bool {
        matches!(self.slots[node].answer, Answer::Voted(vote) if vote != Vote::NotAdmitted)
    }

    /// Returns true if some node granted an attempt that failed.
    pub(crate) fn is_split(&self) -> bool {
        self.slots.iter().any(|slot| slot.ours)
    }
}
