//! The verdict as a table: what must not happen, and how often it did.

use std::fmt;

use crate::judge::{Verdict, Violation};

/// A line for each promise that the judge looks at.
pub(crate) struct Table<'a>(pub(crate) &'a Verdict);

const PROMISES: [&str; 6] = [
    "two holders of a lock at once",
    "a token that is not larger than an earlier one",
    "a write lost, although its lock was valid",
    "a stale write taken by a store that compares tokens",
    "a store that changed under a shared lock",
    "a contender that got no lock after the last fault",
];

/// Which of the promises was broken.
fn promise(violation: &Violation) -> usize {
    match violation {
        Violation::TwoInside { .. } | Violation::TooManyPermits { .. } => 0,
        Violation::TokenNotLarger { .. } => 1,
        Violation::ElementLost { .. } => 2,
        Violation::StaleWriteAccepted { .. } => 3,
        Violation::ChangedUnderSharedHold { .. } => 4,
        Violation::NotRecovered { .. } => 5,
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut broken = [0; PROMISES.len()];
        for violation in &self.0.violations {
            broken[promise(violation)] += 1;
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
