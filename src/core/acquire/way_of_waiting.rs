//! The ways to wait for a lock that others have. Each kind of lock has one way. It decides which callers ask, when they reserve the
//! lock, and whether they stand in a queue.

use super::super::queue::Askers;
use super::super::vote::PermitsWanted;
use super::reservation::Reserves;

/// Maximum number of threads of a process that ask for permits of one semaphore at a time. A permit that is given back wakes
/// all of them, and each grant takes longer the more of them run.
pub(crate) const MOST_ASKERS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WayOfWaiting {
    /// In no order, for a lock with that many names. The first caller to ask while the lock is free gets it, until a caller has
    /// waited long enough to reserve it.
    Unordered { names: usize },
    /// Some callers share the lock, and others want it exclusively: the two groups take turns.
    InTurns,
    /// The nodes keep a queue, in which each caller has a ticket. The lock passes from caller to caller in that order alone: the
    /// threads of a process do not hand it to each other.
    InQueue,
    /// Each caller asks for its own slots of a semaphore. The threads do not hand slots to each other.
    ForSlots(PermitsWanted),
}

impl WayOfWaiting {
    /// Returns the wanted permits of a semaphore; `None` for a lock that is no semaphore.
    pub(crate) const fn permits(self) -> Option<PermitsWanted> {
        match self {
            Self::ForSlots(wanted) => Some(wanted),
            Self::Unordered { .. } | Self::InTurns | Self::InQueue => None,
        }
    }

    pub(crate) const fn is_in_queue(self) -> bool {
        matches!(self, Self::InQueue)
    }

    /// Returns the callers of a process that ask the nodes.
    pub(crate) const fn askers(self) -> Askers {
        match self {
            Self::ForSlots(_) => Askers::AtMost(MOST_ASKERS),
            Self::InQueue => Askers::All,
            Self::Unordered { .. } | Self::InTurns => Askers::First,
        }
    }

    /// Returns the rule for reserving the lock.
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
