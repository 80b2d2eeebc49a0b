//! Asking one node before the others.

use super::super::super::base::Time;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Only `node` is asked at first. Contenders that all begin with the same one are sorted out there,
    /// instead of sharing the nodes among them so that nobody gets a majority.
    pub(crate) fn prefer(&mut self, node: usize) {
        self.preferred = Some(node);
    }

    /// The node that was asked alone has answered, or has had its time: whether to ask the others now,
    /// which have until `answer_by`. Not if it refused. If it said nothing that counts, they are asked
    /// as if it had not been.
    pub(crate) fn goes_on(&mut self, answer_by: Time) -> bool {
        let refused = |node: usize| self.slots[node].answer.refusal().is_some();
        let goes_on = !self.closed && self.preferred.is_some_and(|node| !refused(node));
        if goes_on {
            self.preferred = None;
            self.answer_by = answer_by;
        }
        goes_on
    }

    /// The one node that was asked, if it ended with that, or waits for it.
    pub(crate) const fn preferred(&self) -> Option<usize> {
        self.preferred
    }

    /// Whether the node has granted it.
    pub(crate) fn is_granted_by(&self, node: usize) -> bool {
        self.slots[node].ours
    }

    /// The nodes that have granted it.
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

    /// Whether the node has voted, so that it can be expected to do so again.
    pub(crate) fn has_vote_of(&self, node: usize) -> bool {
        matches!(self.slots[node].answer, Answer::Voted(vote) if vote != Vote::NotAdmitted)
    }

    /// Whether some node granted it, all the same.
    pub(crate) fn is_split(&self) -> bool {
        self.slots.iter().any(|slot| slot.ours)
    }
}
