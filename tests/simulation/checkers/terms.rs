//! A lock is valid for as long as its holder agreed to: no longer, and no shorter because of
//! something that was heard of it.

use crate::core::base::Time;
use crate::core::hold::Terms;
use crate::simulation::claim::Claim;
use crate::simulation::network::{LATEST, Network};

/// What one holder of a lock agreed to.
pub(in super::super) struct Agreed {
    pub(in super::super) terms: Terms,
    /// When it began.
    pub(in super::super) since: Time,
    /// It has asked for nothing beyond that.
    pub(in super::super) wanted: Time,
    /// The lock was valid until then before.
    pub(in super::super) promised: Time,
}

/// What is wrong with a lock that says that it is valid until then.
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

/// A lock was handed to somebody on those terms, who would have asked the nodes for keys of that life. What is
/// wrong with the keys that it got: should it crash, they are in everybody's way until they end.
pub(in super::super) fn outlives(net: &mut Network, claim: &Claim, terms: Terms) -> Option<String> {
    if !net.checks.promise_exclusion {
        return None;
    }
    // What the one before has asked for may have run as late as that.
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
