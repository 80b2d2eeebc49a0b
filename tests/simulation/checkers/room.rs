//! While a lock is valid, enough nodes have its key that nobody else can be granted it, even if nobody tries just
//! then.

use std::time::Duration;

use super::who;
use crate::simulation::claim::short;
use crate::simulation::lock_id::LockId;
use crate::simulation::network::Network;

/// Returns a violation in the keys of `owner`, if there is one. Its `lock` claims to be valid until then.
pub(in super::super) fn open_to_others(
    net: &mut Network,
    lock: LockId,
    owner: &str,
    until: Duration,
) -> Option<String> {
    let owner = String::from_utf8_lossy(who(owner.as_bytes())).into_owned();
    // Nodes that some clients do not use are free, and grant nothing to the others.
    let excused = !net.checks.one_configuration || net.checks.is_forced(&owner);
    if !net.checks.promise_exclusion || excused {
        return None;
    }
    // A lock of the fallback rests on the first node alone.
    let deciding = if net.checks.rests_on_first(&owner) { 1 } else { net.nodes.len() };
    let (now, all) = (net.now, deciding);
    // Somebody may want any one of its names alone.
    lock.keys().find_map(|key| {
        let nodes = net.nodes.iter_mut().take(deciding);
        let ends = nodes.map(|node| node.closed_until(&key, owner.as_bytes(), now));
        let mut ends: Vec<_> = ends.collect();
        let free = ends.iter().filter(|end| **end < until).count();
        ends.sort_unstable();
        (free > all / 2).then(|| {
            format!(
                "{lock} is held as {}, valid for another {:?}, and within {:?} {free} of {all} \
             nodes are free for somebody else",
                short(&owner),
                until - now,
                ends[all / 2].saturating_sub(now),
            )
        })
    })
}
