//! The outcomes of calls, and their numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::snapshot::CallStats;
use crate::error::ErrorKind;

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The outcome of a call for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Acquired,
    Held,
    NoQuorum,
    Quarantined,
    Cancelled,
    Closed,
    Error,
}

impl Outcome {
    const COUNT: usize = 7;

    /// The outcome of a call that ended with that error; `None`: with the lock.
    pub(super) const fn of(error: Option<ErrorKind>) -> Self {
        match error {
            None => Self::Acquired,
            Some(ErrorKind::Held { .. }) => Self::Held,
            Some(ErrorKind::NoQuorum) => Self::NoQuorum,
            Some(ErrorKind::Quarantined { .. }) => Self::Quarantined,
            Some(ErrorKind::Cancelled) => Self::Cancelled,
            Some(ErrorKind::Closed) => Self::Closed,
            Some(
                ErrorKind::Config
                | ErrorKind::InvalidName
                | ErrorKind::Lost
                | ErrorKind::WouldDeadlock
                | ErrorKind::WrongKind,
            ) => Self::Error,
        }
    }

    /// One word, for labels: the name of the field in [`CallStats`].
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Held => "held",
            Self::NoQuorum => "no_quorum",
            Self::Quarantined => "quarantined",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Error => "error",
        }
    }
}

/// The number of calls with each outcome.
#[derive(Debug, Default)]
pub(super) struct Outcomes([Counter; Outcome::COUNT]);

impl Outcomes {
    pub(super) fn count(&self, outcome: Outcome) {
        self.0[outcome as usize].add(1);
    }

    pub(super) fn snapshot(&self) -> CallStats {
        let of = |outcome: Outcome| self.0[outcome as usize].get();
        CallStats {
            acquired: of(Outcome::Acquired),
            held: of(Outcome::Held),
            no_quorum: of(Outcome::NoQuorum),
            quarantined: of(Outcome::Quarantined),
            cancelled: of(Outcome::Cancelled),
            closed: of(Outcome::Closed),
            error: of(Outcome::Error),
        }
    }
}

#[cfg(feature = "metrics")]
impl CallStats {
    /// Returns the word for each outcome, with the number of calls.
    pub(crate) const fn by_outcome(&self) -> [(&'static str, u64); Outcome::COUNT] {
        [
            (Outcome::Acquired.as_str(), self.acquired),
            (Outcome::Held.as_str(), self.held),
            (Outcome::NoQuorum.as_str(), self.no_quorum),
            (Outcome::Quarantined.as_str(), self.quarantined),
            (Outcome::Cancelled.as_str(), self.cancelled),
            (Outcome::Closed.as_str(), self.closed),
            (Outcome::Error.as_str(), self.error),
        ]
    }
}
