//! The nodes' answers about a semaphore's permits.

use super::super::super::base::votes_needed;
use super::super::Slots;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Returns the slots that each node has reported as free; `None`: the node has not reported which are free.
    pub(crate) fn free_slots(&self) -> Vec<Option<Slots>> {
        let said = |slot: &super::NodeVote| match slot.answer {
            Answer::Voted(Vote::Taken { free, .. }) => Some(free),
            // Nothing is free on that node until the last of its holds has ended.
            Answer::Voted(Vote::OtherPermits { .. }) => Some(Slots::default()),
            _ => None,
        };
        self.slots.iter().map(said).collect()
    }

    /// Returns true if the node has refused the slots that were asked for, and has at least `permits` others free.
    pub(crate) fn has_room(&self, node: usize, permits: u32) -> bool {
        match self.slots[node].answer {
            Answer::Voted(Vote::Taken { free, .. }) => free.len() >= permits as usize,
            _ => false,
        }
    }

    /// Returns another number of permits than the caller's, if so many nodes have holds with another number that no
    /// majority is left. It is the number that the first of these nodes reported.
    pub(crate) fn other_permits(&self) -> Option<u64> {
        let mut said = self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::OtherPermits { permits, .. }) => Some(permits),
            _ => None,
        });
        let is_enough = self.slots.len() - said.clone().count() < votes_needed(self.slots.len());
        said.next().filter(|_| is_enough)
    }
}
