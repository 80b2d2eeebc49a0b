//! No client asks the nodes again and again without a pause.

use std::collections::BTreeMap;
use std::time::Duration;

use super::who;
use crate::simulation::claim::short;

/// Largest number of extensions of one lock that a node gets at once, and in each TTL. Failing renewals are tried
/// twenty times, and those that contenders disturb have a few repairs each.
const AT_ONCE: f64 = 20.0;
const EACH_TTL: f64 = 40.0;

#[derive(Default)]
pub(super) struct Load {
    /// Number of extensions of each owner on each node, and the time of the first one.
    extensions: BTreeMap<(usize, Vec<u8>), (u32, Duration)>,
}

impl Load {
    /// Checks an extension of that owner's lock on a node.
    pub(super) fn extended(
        &mut self,
        node: usize,
        owner: &[u8],
        ttl: Duration,
        now: Duration,
    ) -> Option<String> {
        let entry = self.extensions.entry((node, who(owner).to_vec())).or_insert((0, now));
        entry.0 += 1;
        let (count, since) = *entry;
        let ttls = (now - since).div_duration_f64(ttl);
        (f64::from(count) > AT_ONCE + EACH_TTL * ttls).then(|| {
            let short = short(owner);
            format!("node {node} ran {count} extensions of {short} in {:?}", now - since)
        })
    }
}

/// Checks a call that has made so many attempts in that time. It must wait for `pause` between them, except once,
/// when nodes are found to be ready.
pub(super) fn spins(
    client: usize,
    attempts: u32,
    took: Duration,
    pause: Duration,
) -> Option<String> {
    let pauses = pause * attempts.saturating_sub(2);
    // The client's clock may be fast.
    (took < pauses.mul_f64(0.9))
        .then(|| format!("a call of client {client} made {attempts} attempts in {took:?}"))
}
