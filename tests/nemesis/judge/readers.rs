//! A store does not change under a lock that admits other holders, while the lock is held.

use std::collections::{HashMap, HashSet};

use crate::witness::{Event, History, Outcome, Stamp, Store};

use super::holds::Hold;
use super::stores::confirmed;
use super::violation::Violation;

/// The readings of holders that may not be alone: of shared locks, and of some permits of a semaphore.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// The readings that were compared with an earlier one under the same lock.
    pub(crate) compared: usize,
    /// The compared readings of the set without tokens that changed although no writer was known to hold the lock.
    /// Such a writer was stopped between its last question and its write. That is no violation.
    pub(crate) changed_by_late_writes: usize,
    pub(crate) violations: Vec<Violation>,
}

/// Compares the readings of a store under each such lock while it was valid.
pub(crate) fn reads(history: &History, holds: &[Hold]) -> Reads {
    let shared = holds.iter().filter(|hold| !hold.kind.class.is_alone());
    let shared: HashMap<_, _> =
        shared.map(|hold| ((hold.who.as_str(), hold.guard), (hold.begin, hold.end))).collect();
    let confirmed: HashSet<_> = history.0.iter().filter_map(confirmed).collect();
    let mut found = Reads::default();
    // The last write that excludes other holders, and the readings of each guard.
    let mut written: HashMap<(&str, Store), Stamp> = HashMap::new();
    let mut known: HashMap<(&str, u64, &str, Store), (Stamp, u64)> = HashMap::new();
    for record in &history.0 {
        let (who, at) = (record.who.as_str(), record.stamp);
        let Outcome::Version(version) = record.outcome else { continue };
        match &record.event {
            // A store that compares tokens refuses late writes.
            Event::Write { name, store, .. }
                if *store != Store::Set || confirmed.contains(&(name, *store, version)) =>
            {
                written.insert((name, *store), at);
            }
            Event::Read { guard, name, store, .. } => {
                let valid = shared.get(&(who, *guard));
                if !valid.is_some_and(|(begin, end)| *begin <= at && at <= *end) {
                    continue;
                }
                let before = known.insert((who, *guard, name, *store), (at, version));
                let Some((first_at, first)) = before else { continue };
                found.compared += 1;
                if first == version {
                    continue;
                }
                if written.get(&(name, *store)).is_some_and(|written| *written > first_at) {
                    found.violations.push(Violation::ChangedUnderSharedHold {
                        name: name.clone(),
                        store: *store,
                        who: who.to_owned(),
                        first: (first_at, first),
                        second: (at, version),
                    });
                } else {
                    found.changed_by_late_writes += 1;
                }
            }
            _ => {}
        }
    }
    found
}
