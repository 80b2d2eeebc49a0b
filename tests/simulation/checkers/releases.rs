//! Results that a holder gets when it gives a lock back.

use super::who;
use crate::core::base::{Basis, majority};
use crate::core::vote::ReleaseResult;
use crate::simulation::claim::{Claim, short};
use crate::simulation::network::Network;

/// Checks a late request that has given `owner` the key on a node. If the lock was said to be given back, no majority
/// may have its key again.
pub(in super::super) fn comes_back(net: &mut Network, key: &[u8], owner: &[u8]) {
    if !net.checks.is_given_back(owner) || net.checks.forgotten {
        return;
    }
    let (now, all, owner) = (net.now, net.nodes.len(), who(owner));
    let back =
        net.nodes.iter_mut().map(|node| node.has(key, owner, now)).filter(|has| *has).count();
    if back >= majority(all) {
        let short = short(owner);
        let what = format!("{short} was given back, and has {back} of {all} nodes again");
        net.checks.report(now, "late", what);
    }
}

/// Checks the result with which a lock was given back. `valid`: the lock claims that it would still be valid. `gone`:
/// somebody had deleted its keys. `calm`: nothing is wrong with the nodes, or the way to them.
pub(in super::super) fn unlocked(
    net: &mut Network,
    claim: &Claim,
    basis: Basis,
    result: ReleaseResult,
    valid: bool,
    gone: bool,
    calm: bool,
) -> Option<String> {
    let deciding = if basis == Basis::FirstNode { 1 } else { net.nodes.len() };
    let (now, all) = (net.now, deciding);
    let owner = claim.owner().as_bytes();
    let mut theirs = 0;
    for node in &mut net.nodes[..all] {
        let ours = claim.keys.iter().any(|key| node.has(key, owner, now));
        theirs += usize::from(!ours);
    }
    if result == ReleaseResult::Released {
        net.checks.says_given_back(claim.owner().as_bytes());
    }
    let name = claim.short();
    match result {
        ReleaseResult::Unconfirmed if calm => {
            Some(format!("{name} could not be given back, though nothing is wrong"))
        }
        ReleaseResult::Unconfirmed => None,
        _ if theirs <= all / 2 => {
            Some(format!("{name} is said to be given back, and {theirs} of {all} nodes are free"))
        }
        ReleaseResult::Released if gone => {
            Some(format!("{name} is said to be given back, and its keys had been deleted"))
        }
        ReleaseResult::WasLost
            if valid && !net.checks.forgotten && !net.checks.is_forced(claim.owner()) =>
        {
            Some(format!("{name} is said to have been lost, and no node has forgotten anything"))
        }
        ReleaseResult::Released | ReleaseResult::WasLost => None,
    }
}
