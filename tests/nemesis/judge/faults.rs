//! The faults of a run, and those of them that met contenders at work.

use std::collections::BTreeMap;

use crate::witness::{Event, History, Stamp, event::worker_of};

use super::calls::Call;
use super::holds::Hold;

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) id: u64,
    pub(crate) kind: String,
    /// `master 2`, `worker w1`, `worker w1 and masters 0 2`, ..
    pub(crate) target: String,
    pub(crate) forgets: bool,
    pub(crate) begin: Stamp,
    /// The end of the fault, or of the history if the fault was never healed.
    pub(crate) healed: Stamp,
    /// True if a lock was held, or an acquisition was under way, when the fault began.
    pub(crate) hit: bool,
}

impl Fault {
    /// The worker that the fault concerns, if any.
    pub(crate) fn worker(&self) -> Option<&str> {
        let mut words = self.target.split(' ');
        words.find(|word| *word == "worker").and_then(|_| words.next())
    }

    /// The masters that the fault concerns.
    pub(crate) fn masters(&self) -> impl Iterator<Item = usize> {
        self.target.split(' ').filter_map(|word| word.parse().ok())
    }
}

/// A time in which a master was slow by itself, on a busy machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    pub(crate) master: usize,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

/// Slow masters, and contenders that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noticed {
    /// The slow times, by their ends.
    pub(crate) slow: Vec<Slow>,
    /// The end of each contender. A restarted contender has another name.
    pub(crate) gone: BTreeMap<String, Stamp>,
}

impl Noticed {
    pub(crate) fn of(history: &History) -> Self {
        let mut noticed = Self::default();
        for record in &history.0 {
            let end = record.stamp;
            match record.event {
                Event::Slow { master, took } => {
                    noticed.slow.push(Slow { master, begin: end.saturating_sub(took), end });
                }
                Event::Gone => _ = noticed.gone.insert(record.who.clone(), end),
                _ => {}
            }
        }
        noticed
    }
}

/// All faults, by beginning.
pub(crate) fn faults(history: &History, holds: &[Hold], calls: &[Call]) -> Vec<Fault> {
    let last = history.0.last().map_or(Stamp::ZERO, |record| record.stamp);
    let mut faults: Vec<Fault> = Vec::new();
    for record in &history.0 {
        match &record.event {
            Event::Fault { id, kind, target, forgets } => faults.push(Fault {
                id: *id,
                kind: kind.clone(),
                target: target.clone(),
                forgets: *forgets,
                begin: record.stamp,
                healed: last,
                hit: hits(target, record.stamp, holds, calls),
            }),
            Event::Healed { id } => {
                if let Some(fault) = faults.iter_mut().rfind(|fault| fault.id == *id) {
                    fault.healed = record.stamp;
                }
            }
            _ => {}
        }
    }
    faults
}

/// Returns true if a contender that the fault concerns held or wanted a lock then. A fault of a master concerns all.
fn hits(target: &str, at: Stamp, holds: &[Hold], calls: &[Call]) -> bool {
    let mut words = target.split(' ');
    let worker = words.find(|word| *word == "worker").and_then(|_| words.next());
    let concerns = |who: &str| worker.is_none_or(|worker| worker_of(who) == worker);
    let within = |begin, end| begin <= at && at <= end;
    holds.iter().any(|hold| within(hold.begin, hold.end) && concerns(&hold.who))
        || calls.iter().any(|call| within(call.begin, call.end) && concerns(&call.who))
}
