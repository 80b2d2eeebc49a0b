//! A lock that was taken from its holder by force does not come back to it.

use super::who;
use crate::core::base::majority;
use crate::simulation::claim::short;
use crate::simulation::network::Network;

/// Checks a node that has run an extension of `owner` and has its key. No majority of the nodes may have the key
/// again. If nodes have forgotten data, nothing is checked: they have forgotten the force, too.
pub(in super::super) fn is_back(net: &mut Network, key: &[u8], owner: &[u8]) {
    let Some(since) = net.checks.forced_since(key, owner).filter(|_| !net.checks.forgotten) else {
        return;
    };
    let (now, all, owner) = (net.now, net.nodes.len(), who(owner));
    let has = net.nodes.iter_mut().map(|node| node.has(key, owner, now)).filter(|has| *has).count();
    if has >= majority(all) {
        let what = format!(
            "{} was forced out {:?} ago, and has {has} of {all} nodes again",
            short(owner),
            now - since
        );
        net.checks.report(now, "forced", what);
    }
}
