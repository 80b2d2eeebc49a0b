//! What must not happen.

use std::fmt;
use std::time::Duration;

use crate::witness::{Stamp, Store};

use super::holds::Hold;

/// One breach of what the locks promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two guards of one name were valid at once.
    TwoInside { name: String, first: Inside, second: Inside },
    /// A holder's token is not larger than that of one that had left before it began.
    TokenNotLarger { name: String, first: Inside, second: Inside },
    /// Two valid holders of one name wrote to the set, and one of them did not see the other's element.
    ElementLost { name: String, lost: u64, by: String, at: Stamp },
    /// A store that compares tokens has taken a write that did not know the last one.
    StaleWriteAccepted { name: String, store: Store, by: String, at: Stamp },
    /// A contender got no lock in time after the last fault was healed.
    NotRecovered { who: String, healed: Stamp, limit: Duration },
}

/// A hold, as far as a message needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) who: String,
    pub(crate) token: Option<u64>,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

impl From<&Hold> for Inside {
    fn from(hold: &Hold) -> Self {
        Self { who: hold.who.clone(), token: hold.token, begin: hold.begin, end: hold.end }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = (self.begin.as_secs_f64(), self.end.as_secs_f64());
        write!(f, "{} from {begin:.4} s to {end:.4} s", self.who)?;
        self.token.map_or(Ok(()), |token| write!(f, " with token {token}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoInside { name, first, second } => {
                write!(f, "two were inside \"{name}\" at once: {first}, and {second}")
            }
            Self::TokenNotLarger { name, first, second } => {
                write!(f, "the token of \"{name}\" did not rise: {first}, and then {second}")
            }
            Self::ElementLost { name, lost, by, at } => write!(
                f,
                "{by} held \"{name}\" at {:.4} s, and overwrote element {lost} of another holder unread",
                at.as_secs_f64()
            ),
            Self::StaleWriteAccepted { name, store, by, at } => write!(
                f,
                "the {} took a stale write for \"{name}\" from {by} at {:.4} s",
                store.describe(),
                at.as_secs_f64()
            ),
            Self::NotRecovered { who, healed, limit } => write!(
                f,
                "{who} got no lock within {limit:?} after the last fault was healed, at {:.4} s",
                healed.as_secs_f64()
            ),
        }
    }
}

impl Store {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::GuardedSet => "set that compares tokens",
            Self::Database => "database",
        }
    }
}
