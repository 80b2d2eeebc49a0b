//! What an attempt knows of one node.

use super::super::{Copies, Failure, LARGEST_NUMBER, Late, Mechanism};
use super::Vote;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Open,
    Voted(Vote),
    Failed(Failure),
}

impl Answer {
    /// The node says nothing of the lock: it cannot, or need not any more.
    pub(super) const fn is_failure(self) -> bool {
        matches!(self, Self::Failed(failure) if !matches!(failure, Failure::NotAdmitted))
    }

    /// The node rejects us for good.
    pub(super) const fn is_rejected(self) -> bool {
        matches!(self, Self::Failed(Failure::Rejected))
    }

    /// The node grants nothing to newcomers, by its own word or by what is known of it.
    pub(super) const fn is_not_admitted(self) -> bool {
        matches!(self, Self::Voted(Vote::NotAdmitted) | Self::Failed(Failure::NotAdmitted))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) answer: Answer,
    pub(super) copies: Copies,
    /// The node said that our key is there, and has not said otherwise since.
    pub(super) ours: bool,
    /// Nobody knows whether an earlier copy was granted: a node that does not admit us does not look for our
    /// key, so its answer to a later copy does not tell.
    pub(super) earlier_copy_unknown: bool,
    /// Repairs of the lock, once it was held, that the node has not answered.
    pub(super) repairs: u32,
    /// The oldest connection over which an extension of the lock was written that may still run, and the
    /// largest fence under which one sets the key again.
    pub(super) extensions: Option<u64>,
    pub(super) repair_up_to: u64,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            answer: Answer::Open,
            copies: Copies::default(),
            ours: false,
            earlier_copy_unknown: false,
            repairs: 0,
            extensions: None,
            repair_up_to: 0,
        }
    }

    /// What may still run on the node, once nothing more is sent for the lock of that number.
    pub(super) fn late(&self, number: u64) -> Late {
        let raised = number.max(self.repair_up_to) + 1;
        let raises =
            Mechanism::ReleasesRaiseTheFence.is_on() && number > 0 && raised <= LARGEST_NUMBER;
        Late {
            acquires: self.copies.unanswered(),
            extensions: self.extensions,
            raises_to: self.extensions.filter(|_| raises).map(|_| raised),
        }
    }
}
