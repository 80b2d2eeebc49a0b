//! The stores lose no element that a lock protects.

use std::collections::{HashMap, HashSet};

use crate::witness::{Event, History, Outcome, Record, Store};

use super::violation::Violation;

/// The accesses to the stores.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// The number of accepted writes, of all stores.
    pub(crate) taken: usize,
    /// The number of reads and writes that were refused because their token was too small.
    pub(crate) refused: usize,
    /// The number of elements in the set without tokens that were lost by or to a holder whose lock was lost by then.
    /// That holder was stopped between its last question and its write. Tokens prevent that, so it is no violation.
    pub(crate) lost_to_late_writes: usize,
    pub(crate) violations: Vec<Violation>,
}

/// The set of one name after its last write.
#[derive(Default)]
struct Set {
    /// The versions in the present one, in order.
    versions: Vec<u64>,
    /// The base of each version.
    bases: HashMap<u64, u64>,
}

/// Judges all writes.
pub(crate) fn writes(history: &History) -> Writes {
    let confirmed: HashSet<_> = history.0.iter().filter_map(confirmed).collect();
    let mut found = Writes::default();
    let mut sets: HashMap<&str, Set> = HashMap::new();
    let mut versions: HashMap<(&str, Store), u64> = HashMap::new();
    for record in &history.0 {
        if record.outcome == Outcome::Refused {
            found.refused += 1;
        }
        let (Event::Write { name, store, base, .. }, Outcome::Version(version)) =
            (&record.event, record.outcome)
        else {
            continue;
        };
        found.taken += 1;
        if *store == Store::Set {
            let is_confirmed = |version| confirmed.contains(&(name.as_str(), *store, version));
            for lost in sets.entry(name).or_default().write(*base, version) {
                // Both locks were valid when the lost element was written: that of its writer, and that of the other one,
                // which had read before that and wrote after it.
                if is_confirmed(version) && is_confirmed(lost) {
                    found.violations.push(Violation::ElementLost {
                        name: name.clone(),
                        lost,
                        by: record.who.clone(),
                        at: record.stamp,
                    });
                } else {
                    found.lost_to_late_writes += 1;
                }
            }
        } else if versions.insert((name, *store), version).unwrap_or(0) != *base {
            found.violations.push(Violation::StaleWriteAccepted {
                name: name.clone(),
                store: *store,
                by: record.who.clone(),
                at: record.stamp,
            });
        }
    }
    found
}

/// The version that the record confirms, if any.
pub(super) fn confirmed(record: &Record) -> Option<(&str, Store, u64)> {
    match &record.event {
        Event::Confirms { name, store, version } => Some((name, *store, *version)),
        _ => None,
    }
}

impl Set {
    /// Writes `version`, which is `base` with one more element. Returns the lost elements.
    fn write(&mut self, base: u64, version: u64) -> Vec<u64> {
        // The versions of the base, back to the first one that the present version has as well.
        let mut back = Vec::new();
        let mut common = base;
        while common != 0 && !self.versions.contains(&common) {
            back.push(common);
            common = self.bases.get(&common).copied().unwrap_or(0);
        }
        let kept =
            self.versions.iter().rposition(|version| *version == common).map_or(0, |at| at + 1);
        let lost = self.versions.split_off(kept);
        self.versions.extend(back.into_iter().rev());
        self.versions.push(version);
        self.bases.insert(version, base);
        lost
    }
}
