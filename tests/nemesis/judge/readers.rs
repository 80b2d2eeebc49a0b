//! What a lock protects beside whose holder others may be stays as it is while the lock is held.

use std::collections::{HashMap, HashSet};

use crate::witness::{Event, History, Outcome, Stamp, Store};

use super::holds::Hold;
use super::stores::confirmed;
use super::violation::Violation;

/// What holders read that are not alone: of shared locks, and of some permits of a semaphore.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Readings that were compared with an earlier one under the same lock.
    pub(crate) compared: usize,
    /// Of those, the ones of the set without tokens that found it changed by nobody who was known to be inside.
    /// Writers had stopped between their last question and their write. That is no violation.
    pub(crate) changed_by_late_writes: usize,
    pub(crate) violations: Vec<Violation>,
}

/// Compares what each such holder has read of a store while the lock was valid.
pub(crate) fn reads(history: &History, holds: &[Hold]) -> Reads {
    let shared = holds.iter().filter(|hold| !hold.kind.class.is_alone());
    let shared: HashMap<_, _> =
        shared.map(|hold| ((hold.who.as_str(), hold.guard), (hold.begin, hold.end))).collect();
    let confirmed: HashSet<_> = history.0.iter().filter_map(confirmed).collect();
    let mut found = Reads::default();
    // The last write that must not be while another one is inside, and what each guard has read.
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
