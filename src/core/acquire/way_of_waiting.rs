//! How callers wait for a lock that others have. Each kind has one way. It follows from it which callers ask, when they reserve the
//! lock, and whether they stand in a queue.

use super::super::queue::Askers;
use super::super::vote::PermitsWanted;
use super::reservation::Reserves;

/// So many threads of a process ask for permits of one semaphore at a time. A permit that is given back wakes all that have
/// asked, and each grant takes the longer, the more of them run.
pub(crate) const MOST_ASKERS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayOfWaiting {
    /// In no order: the lock, which has so many names, is for whoever asks when it is free, until a caller has waited long enough to
    /// reserve it.
    Unordered { names: usize },
    /// Some share the lock, and others want it for themselves alone: they take turns.
    InTurns,
    /// The nodes keep a queue, in which each caller has a ticket. The lock passes from caller to caller in that order alone: the
    /// threads of a process do not hand it to each other.
    InQueue,
    /// Each caller asks for slots of a semaphore, which are its own alone. The threads do not hand them to each other.
    ForSlots(PermitsWanted),
}

impl WayOfWaiting {
    /// The part of a semaphore that is wanted; `None`: the lock is none.
    pub(crate) const fn permits(self) -> Option<PermitsWanted> {
        match self {
            Self::ForSlots(wanted) => Some(wanted),
            Self::Unordered { .. } | Self::InTurns | Self::InQueue => None,
        }
    }

    pub(crate) const fn is_in_queue(self) -> bool {
        matches!(self, Self::InQueue)
    }

    /// Which callers of a process ask the nodes.
    pub(crate) const fn askers(self) -> Askers {
        match self {
            Self::ForSlots(_) => Askers::AtMost(MOST_ASKERS),
            Self::InQueue => Askers::All,
            Self::Unordered { .. } | Self::InTurns => Askers::First,
        }
    }

    /// When a caller reserves the lock.
    pub(super) const fn reserves(self) -> Reserves {
        match self {
            Self::InTurns => Reserves::IN_TURN,
            Self::Unordered { names: 2.. } => Reserves::SEVERAL_NAMES,
            Self::ForSlots(PermitsWanted { count: 2.., .. }) => Reserves::SEVERAL_PERMITS,
            Self::Unordered { .. } | Self::ForSlots(_) | Self::InQueue => Reserves::AS_OTHERS,
        }
    }

    /// Returns true if a refusal shows that others want the lock, and are likely to want it again. For a
    /// fair lock it does not, since the nodes keep the queue; nor for a semaphore, since only one slot was refused.
    pub(super) const fn refusals_tell_of_others(self) -> bool {
        matches!(self, Self::Unordered { .. } | Self::InTurns)
    }
}
