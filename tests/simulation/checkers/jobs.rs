//! A job that is to be done once in a time is not done twice in it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::simulation::claim::Claim;
use crate::simulation::lock_id::LockId;

#[derive(Default)]
pub(super) struct Jobs {
    /// Last grant of each lock to a caller that wanted the nodes to keep it.
    last: BTreeMap<LockId, Duration>,
}

impl Jobs {
    /// Checks a lock that was granted, or handed over.
    pub(super) fn granted(&mut self, claim: &Claim, now: Duration) -> Option<String> {
        let min_hold = claim.terms.min_hold?;
        let before = self.last.insert(claim.lock, now)?;
        // The nodes' clocks may be faster.
        let least = min_hold.mul_f64(0.98);
        (now - before < least).then(|| {
            let after = now - before;
            format!(
                "{} was granted {after:?} after it had been, and is kept for {min_hold:?}",
                claim.lock
            )
        })
    }
}
