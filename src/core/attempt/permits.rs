//! What the nodes say of a semaphore's permits.

use super::super::Slots;
use super::{Answer, Attempt, Vote};

impl Attempt {
    /// Returns the slots that each node has said to be free; `None`: it has said nothing of them.
    pub(in super::super) fn free_slots(&self) -> Vec<Option<Slots>> {
        let said = |slot: &super::Slot| match slot.answer {
            Answer::Voted(Vote::Taken { free, .. }) => Some(free),
            _ => None,
        };
        self.slots.iter().map(said).collect()
    }

    /// Returns whether the node has refused the slots that were asked for, and has so many `permits` free in others.
    pub(in super::super) fn has_room(&self, node: usize, permits: u32) -> bool {
        match self.slots[node].answer {
            Answer::Voted(Vote::Taken { free, .. }) => free.len() >= permits as usize,
            _ => false,
        }
    }

    /// Returns the numbers of permits that nodes have said, where they are other ones than the caller's.
    pub(super) fn other_permits(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::OtherPermits { permits, .. }) => Some(permits),
            _ => None,
        })
    }
}
