//! The events, the answers of the witness, and the lines of the history: JSON, one value a line.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time since the witness began, by its monotonic clock. Each event has a different stamp.
pub(crate) type Stamp = Duration;

/// An event that a contender reports, or the program that makes the faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A call begins that wants a lock with these names. A wait that ends without a lock is judged only if its
    /// contender reports the kind here.
    Wants {
        names: Vec<String>,
        call: String,
        #[serde(default)]
        kind: Option<Kind>,
    },
    /// The call has ended without a lock.
    Without { why: String },
    /// A call has returned this guard, or the guard still exists. It proves nothing without `Valid`.
    Inside { guard: u64, kind: Kind, names: Vec<String>, token: Option<u64> },
    /// The guard was valid after the stamp `at`, and promised to stay so for `r` more.
    Valid { guard: u64, at: Stamp, r: Duration },
    /// The holder is about to ask for a shorter validity than it was promised.
    Shortens { guard: u64 },
    /// The holder is about to give the lock back.
    Leaving { guard: u64 },
    /// The guard says that its lock is lost: at the end of its promised time, or before that.
    Lost { guard: u64, in_time: bool, why: String },
    /// Reads the data that `name`, one of the guard's names, protects in a store. The outcome is the version.
    Read { guard: u64, name: String, store: Store, token: Option<u64> },
    /// Writes `base`, which was read before, with one more element. The outcome is the new version.
    Write { guard: u64, name: String, store: Store, token: Option<u64>, base: u64 },
    /// The guard was valid after the answer to the write of this version.
    Confirms { name: String, store: Store, version: u64 },
    /// A fault begins. If `forgets`, a master may forget locks, and grants none for a quarantine afterwards.
    Fault {
        id: u64,
        kind: String,
        target: String,
        #[serde(default)]
        forgets: bool,
    },
    /// The cause of the fault is gone.
    Healed { id: u64 },
    /// The master took so long for its last answer, over no link.
    Slow { master: usize, took: Duration },
    /// A new phase begins.
    Enter { phase: Phase },
    /// All contenders of the worker have ended. Its clients have counted these calls, by the label of the kind and by the way in
    /// which they ended, and these losses. The calls that got a lock took `waited` together.
    Counted { calls: BTreeMap<String, BTreeMap<String, u64>>, waited: Duration, losses: u64 },
    /// The connection has ended. The witness notes this itself.
    Gone,
}

/// A kind of lock, as far as it decides about exclusion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kind {
    pub(crate) label: String,
    pub(crate) class: Class,
}

/// The number of holders that a lock of a kind has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// One holder at a time.
    Exclusive,
    /// Any number of holders of the same kind.
    Shared,
    /// Holders of a semaphore with `of` permits: this one has `count` of them. They have no tokens.
    Permits { count: u32, of: u32 },
}

impl Class {
    /// Returns true if no other holder is allowed. Only such a holder writes.
    pub(crate) fn is_alone(self) -> bool {
        match self {
            Self::Exclusive => true,
            Self::Shared => false,
            Self::Permits { count, of } => count >= of,
        }
    }

    pub(crate) fn has_tokens(self) -> bool {
        !matches!(self, Self::Permits { .. })
    }
}

/// A store, by its protection against late writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Store {
    /// A set in memory, protected by the lock alone.
    Set,
    /// A set in memory that refuses tokens smaller than the largest one so far.
    GuardedSet,
    /// The number of items sold, in an SQLite database that compares tokens.
    Database,
}

/// The task of the contenders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Contend, with work of all lengths.
    #[default]
    Contend,
    /// Contend with short work: the last fault is healed, and every contender must get a lock again.
    Recover,
    /// Give all locks back, and end.
    End,
}

/// The answer of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The store was not asked.
    #[default]
    None,
    Version(u64),
    /// The store has seen a larger token.
    Refused,
}

/// The answer of the witness to an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) stamp: Stamp,
    pub(crate) phase: Phase,
    #[serde(default)]
    pub(crate) outcome: Outcome,
}

/// A line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) stamp: Stamp,
    /// `worker/start/thread` of a contender.
    pub(crate) who: String,
    #[serde(flatten)]
    pub(crate) event: Event,
    #[serde(default)]
    pub(crate) outcome: Outcome,
}

impl Record {
    /// The worker of the contender, the same over all its restarts.
    pub(crate) fn worker(&self) -> &str {
        worker_of(&self.who)
    }
}

/// The process of the contender of that name: its worker, and one start of it.
pub(crate) fn process_of(who: &str) -> &str {
    who.rsplit_once('/').map_or(who, |(process, _)| process)
}

/// The worker of the contender of that name.
pub(crate) fn worker_of(who: &str) -> &str {
    who.split('/').next().unwrap_or(who)
}
