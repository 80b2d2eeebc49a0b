//! What the witness is told, what it answers, and a line of the history: JSON, one value a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time since the witness began, by its monotonic clock. No two events have the same.
pub(crate) type Stamp = Duration;

/// Something that a contender, or the program that makes the faults, tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A call that wants a lock with these names begins. A contender that does not tell the kind has no wait judged
    /// that ends without a lock.
    Wants {
        names: Vec<String>,
        call: String,
        #[serde(default)]
        kind: Option<Kind>,
    },
    /// That call has ended without a lock.
    Without { why: String },
    /// A call has returned this guard, or the guard is still there. It proves nothing without `Valid`.
    Inside { guard: u64, kind: Kind, names: Vec<String>, token: Option<u64> },
    /// The guard was valid after the stamp `at`, and was to be so for `r` more.
    Valid { guard: u64, at: Stamp, r: Duration },
    /// The holder is about to ask for less than it was promised.
    Shortens { guard: u64 },
    /// The holder is about to give the lock back.
    Leaving { guard: u64 },
    /// The guard says that its lock is lost: at the end of its promised time, or before that.
    Lost { guard: u64, in_time: bool, why: String },
    /// Reads what `name`, which is one of the guard's, protects in a store. The outcome is the version that was read.
    Read { guard: u64, name: String, store: Store, token: Option<u64> },
    /// Writes what was read as `base` with one element more. The outcome is the new version.
    Write { guard: u64, name: String, store: Store, token: Option<u64>, base: u64 },
    /// The guard was valid after the answer to the write that made this version.
    Confirms { name: String, store: Store, version: u64 },
    /// A fault begins. If `forgets`, a master may forget locks by it, and grants none for a quarantine afterwards.
    Fault {
        id: u64,
        kind: String,
        target: String,
        #[serde(default)]
        forgets: bool,
    },
    /// The cause of the fault is gone.
    Healed { id: u64 },
    /// That master took so long for an answer just now, asked over no link.
    Slow { master: usize, took: Duration },
    /// What is to be done from now on.
    Enter { phase: Phase },
    /// The connection has ended. The witness notes this itself.
    Gone,
}

/// A kind of lock, as far as it matters to who may be inside with whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kind {
    pub(crate) label: String,
    pub(crate) class: Class,
}

/// How many holders a lock of a kind has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Class {
    /// One holder at a time.
    Exclusive,
    /// Any number of holders of the same kind.
    Shared,
    /// Holders of a semaphore that has `of` permits: this one has `count` of them. They have no tokens.
    Permits { count: u32, of: u32 },
}

impl Class {
    /// Whether nobody else may be inside. Only such a holder writes.
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

/// What protects a store from late writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Store {
    /// A set in memory. Nothing but the lock protects it.
    Set,
    /// A set in memory that refuses a token smaller than the largest that it has seen.
    GuardedSet,
    /// The number of items sold, in an SQLite database that compares tokens.
    Database,
}

/// What the contenders are to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Contend, with work of all lengths.
    #[default]
    Contend,
    /// Contend with short work: the last fault is healed, and everybody has to get a lock again.
    Recover,
    /// Give back what is held, and end.
    End,
}

/// What a store has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// It was not asked.
    #[default]
    None,
    Version(u64),
    /// A larger token has been there before.
    Refused,
}

/// The answer to each event.
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
    /// The worker of the contender, over all its restarts.
    pub(crate) fn worker(&self) -> &str {
        worker_of(&self.who)
    }
}

/// The worker of the contender of that name.
pub(crate) fn worker_of(who: &str) -> &str {
    who.split('/').next().unwrap_or(who)
}
