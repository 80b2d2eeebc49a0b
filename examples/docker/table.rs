//! The verdict as a table: the violations of each promise, and their number.

use std::fmt;

use crate::judge::{Verdict, Violation};

/// A table with a line for each promise that the judge checks.
pub(crate) struct Table<'a>(pub(crate) &'a Verdict);

const PROMISES: [&str; 8] = [
    "two holders of a lock at once",
    "more permits of a semaphore taken than there are",
    "a token that is not larger than an earlier one",
    "a write lost, although its lock was valid",
    "a stale write taken by a store that compares tokens",
    "a store that changed under a shared lock",
    "a contender that got no lock after the last fault",
    "a figure of a client that the witness did not see",
];

/// The index of the broken promise. A run in containers has no rule for the wait of a call.
fn promise(violation: &Violation) -> Option<usize> {
    Some(match violation {
        Violation::TwoInside { .. } => 0,
        Violation::TooManyPermits { .. } => 1,
        Violation::TokenNotLarger { .. } => 2,
        Violation::ElementLost { .. } => 3,
        Violation::StaleWriteAccepted { .. } => 4,
        Violation::ChangedUnderSharedHold { .. } => 5,
        Violation::NotRecovered { .. } => 6,
        Violation::Miscounted { .. } => 7,
        Violation::WaitedTooLong(_) => return None,
    })
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut broken = [0; PROMISES.len()];
        for promise in self.0.violations.iter().filter_map(promise) {
            broken[promise] += 1;
        }
        let too_little = ("a run that shows too little", self.0.too_little.len());
        writeln!(f, "{:<52} | found | verdict", "what must not happen")?;
        for (what, found) in PROMISES.into_iter().zip(broken).chain([too_little]) {
            let verdict = if found == 0 { "ok" } else { "FAILED" };
            writeln!(f, "{what:<52} | {found:>5} | {verdict}")?;
        }
        Ok(())
    }
}
