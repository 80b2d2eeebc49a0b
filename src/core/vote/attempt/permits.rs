//! What the nodes say of a semaphore's permits.

use super::super::super::base::votes_needed;
use super::super::Slots;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Returns the slots that each node has said to be free; `None`: it has said nothing of them.
    pub(crate) fn free_slots(&self) -> Vec<Option<Slots>> {
        let said = |slot: &super::NodeVote| match slot.answer {
            Answer::Voted(Vote::Taken { free, .. }) => Some(free),
            // Nothing is free there until the last of those holds has ended.
            Answer::Voted(Vote::OtherPermits { .. }) => Some(Slots::default()),
            _ => None,
        };
        self.slots.iter().map(said).collect()
    }

    /// Returns whether the node has refused the slots that were asked for, and has so many `permits` free in others.
    pub(crate) fn has_room(&self, node: usize, permits: u32) -> bool {
        match self.slots[node].answer {
            Answer::Voted(Vote::Taken { free, .. }) => free.len() >= permits as usize,
            _ => false,
        }
    }

    /// Returns another number of permits than the caller's, if so many nodes have holds with another one that no majority
    /// is left: the number that the first of them has said.
    pub(crate) fn other_permits(&self) -> Option<u64> {
        let mut said = self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::OtherPermits { permits, .. }) => Some(permits),
            _ => None,
        });
        let is_enough = self.slots.len() - said.clone().count() < votes_needed(self.slots.len());
        said.next().filter(|_| is_enough)
    }
}
