//! A lock is valid for as long as its holder agreed to, and no longer. News of the lock never shortens that time.

use crate::core::base::Time;
use crate::core::hold::Terms;
use crate::simulation::claim::Claim;
use crate::simulation::network::{LATEST, Network};

/// Agreement with one holder of a lock.
pub(in super::super) struct Agreed {
    pub(in super::super) terms: Terms,
    /// Beginning of its hold.
    pub(in super::super) since: Time,
    /// End of the time that it has asked for.
    pub(in super::super) wanted: Time,
    /// End of the validity that the lock claimed before.
    pub(in super::super) promised: Time,
}

/// Returns a violation in a lock that claims to be valid until then, if there is one.
pub(super) fn broken(name: &str, valid_until: Time, agreed: &Agreed) -> Option<String> {
    let Agreed { terms, since, wanted, promised } = *agreed;
    let longest = terms.max_hold.map(|max_hold| since.after(max_hold));
    if longest.is_some_and(|longest| longest < valid_until) {
        let max_hold = terms.max_hold.unwrap_or_default();
        Some(format!("{name} is valid for longer than the {max_hold:?} that it may be held"))
    } else if !terms.renewed && wanted < valid_until {
        let beyond = valid_until.since(wanted);
        Some(format!("{name} is not renewed, and is valid {beyond:?} longer than was asked for"))
    } else if valid_until < promised {
        Some(format!("{name} was valid {:?} longer before", promised.since(valid_until)))
    } else {
        None
    }
}

/// Checks the keys of a lock that was handed to a caller on those terms. That caller would have asked the nodes for
/// keys that live for `terms.ttl`. If it crashes, longer keys keep everybody out until they end.
pub(in super::super) fn outlives(net: &mut Network, claim: &Claim, terms: Terms) -> Option<String> {
    if !net.checks.promise_exclusion {
        return None;
    }
    // Requests of the previous holder may have run as late as that.
    let most = net.now + terms.ttl.mul_f64(1.02) + LATEST;
    let (now, owner) = (net.now, claim.owner().as_bytes());
    for (node, at) in net.nodes.iter_mut().enumerate().filter(|(_, node)| !node.was_set_back) {
        let ends = claim.keys.iter().filter_map(|key| at.key_until(key, owner, now));
        let Some(until) = ends.max() else { continue };
        if until > most {
            let (short, left) = (claim.short(), until - now);
            return Some(format!(
                "{short} is handed to somebody who asks for {:?}, and lives on node {node} for {left:?}",
                terms.ttl
            ));
        }
    }
    None
}
