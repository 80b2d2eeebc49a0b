//! Breaches of the locks' promises.

use std::fmt;
use std::time::Duration;

use crate::witness::{Stamp, Store};

use super::calls::CallResult;
use super::count::Both;
use super::holds::Hold;
use super::waits::Wait;

/// One breach of a lock's promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// Two guards that exclude each other were valid at once. `names` are the names that both have.
    TwoInside { names: Vec<String>, first: Inside, second: Inside },
    /// The holders of a semaphore had more permits at once than it has. The last holder came when too few were left.
    TooManyPermits { name: String, of: u32, taken: u32, inside: Vec<Inside> },
    /// The second holder's token is not larger than that of the first, which excludes it and had left before.
    TokenNotLarger { names: Vec<String>, first: Inside, second: Inside },
    /// Two valid holders of one name wrote to the set, and one of them did not see the other's element.
    ElementLost { name: String, lost: u64, by: String, at: Stamp },
    /// A store that compares tokens has taken a write that did not know the last one.
    StaleWriteAccepted { name: String, store: Store, by: String, at: Stamp },
    /// The holder of a shared lock, which was valid all the time, has read two different versions.
    ChangedUnderSharedHold {
        name: String,
        store: Store,
        who: String,
        first: (Stamp, u64),
        second: (Stamp, u64),
    },
    /// A contender got no lock within the limit after the last fault was healed.
    NotRecovered { who: String, healed: Stamp, limit: Duration },
    /// The clients of a process have counted more or fewer than the witness saw.
    Miscounted { process: String, what: String, both: Both<u64> },
    /// A call has waited for longer than the rules allow.
    WaitedTooLong(Box<Wait>),
}

/// The part of a hold that a message needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) who: String,
    /// The label of its kind.
    pub(crate) kind: String,
    pub(crate) token: Option<u64>,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

impl From<&Hold> for Inside {
    fn from(hold: &Hold) -> Self {
        let Hold { who, kind, token, begin, end, .. } = hold;
        let (who, kind) = (who.clone(), kind.label.clone());
        Self { who, kind, token: *token, begin: *begin, end: *end }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (begin, end) = (self.begin.as_secs_f64(), self.end.as_secs_f64());
        write!(f, "{} ({}) from {begin:.4} s to {end:.4} s", self.who, self.kind)?;
        self.token.map_or(Ok(()), |token| write!(f, " with token {token}"))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoInside { names, first, second } => {
                write!(f, "two were inside {} at once: {first}, and {second}", quoted(names))
            }
            Self::TooManyPermits { name, of, taken, inside } => {
                write!(f, "{taken} permits of \"{name}\" were held at once, which has {of}: by ")?;
                let inside: Vec<_> = inside.iter().map(Inside::to_string).collect();
                f.write_str(&inside.join(", and "))
            }
            Self::TokenNotLarger { names, first, second } => {
                write!(f, "the token of {} did not rise: {first}, and then {second}", quoted(names))
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
            Self::ChangedUnderSharedHold { name, store, who, first, second } => write!(
                f,
                "{who} held \"{name}\" shared, and read version {} in the {} at {:.4} s, and {} at {:.4} s",
                first.1,
                store.describe(),
                first.0.as_secs_f64(),
                second.1,
                second.0.as_secs_f64()
            ),
            Self::NotRecovered { who, healed, limit } => write!(
                f,
                "{who} got no lock within {limit:?} after the last fault was healed, at {:.4} s",
                healed.as_secs_f64()
            ),
            Self::Miscounted { process, what, both: Both { seen, counted } } => {
                write!(
                    f,
                    "the clients of {process} counted {counted} {what}; the witness saw {seen}"
                )
            }
            Self::WaitedTooLong(wait) => wait.fmt(f),
        }
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, kind, names, begin, took, result, bound, absent, meanwhile } = self;
        write!(
            f,
            "{who} waited {:.3} s for {kind} of {} from {:.4} s on, and {}; the rules allow {:.3} s, {:.3} s of them \
             without a majority; meanwhile ",
            took.as_secs_f64(),
            quoted(names),
            begin.as_secs_f64(),
            match result {
                CallResult::Granted => "got it".to_owned(),
                CallResult::Without(why) => format!("ended without it ({why})"),
                CallResult::Unknown => "that did not end".to_owned(),
            },
            bound.as_secs_f64(),
            absent.as_secs_f64(),
        )?;
        let told =
            meanwhile.iter().map(|((who, kind), times)| format!("{times} x {kind} to {who}"));
        let told: Vec<_> = told.collect();
        let nobody = "nobody was granted any of that".to_owned();
        f.write_str(&if told.is_empty() { nobody } else { told.join(", ") })
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" and ")
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
