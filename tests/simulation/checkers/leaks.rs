//! Nothing leaks: no key is set behind its release, and once everything is healed and given back,
//! no node has a key of a living client.

use std::collections::{BTreeMap, BTreeSet};

use crate::simulation::network::Network;

/// What a request did on a node.
pub(in super::super) struct Ran<'a> {
    pub(in super::super) node: usize,
    pub(in super::super) key: &'a [u8],
    pub(in super::super) owner: &'a [u8],
    pub(in super::super) what: &'static str,
    /// The client had closed the connection before it ran.
    pub(in super::super) ghost: bool,
    /// The owner has the key now.
    pub(in super::super) ours: bool,
}

#[derive(Default)]
pub(super) struct Leaks {
    /// Which owners have been released on which node.
    released: BTreeSet<(usize, Vec<u8>)>,
    /// Whether the last to set a key on a node was a ghost.
    ghosts: BTreeMap<(usize, Vec<u8>), bool>,
}

impl Leaks {
    pub(super) fn ran(&mut self, ran: &Ran<'_>) -> Option<String> {
        let owner = (ran.node, ran.owner.to_vec());
        if ran.what == "release" {
            self.released.insert(owner);
            return None;
        }
        if !ran.ours {
            return None;
        }
        self.ghosts.insert((ran.node, ran.key.to_vec()), ran.ghost);
        let behind = ran.what == "extend" && !ran.ghost && self.released.contains(&owner);
        behind.then(|| {
            let short = String::from_utf8_lossy(&ran.owner[..4]).into_owned();
            format!("node {} ran an extension of {short} behind its release", ran.node)
        })
    }

    /// Whether nobody but a dead connection set that key, behind everything else: it goes by its TTL.
    fn is_ghost(&self, node: usize, key: &[u8]) -> bool {
        self.ghosts.get(&(node, key.to_vec())).is_none_or(|ghost| *ghost)
    }
}

/// What is left on the nodes, and should not be.
pub(in super::super) fn leaked(net: &mut Network, names: usize) -> Option<String> {
    let now = net.now;
    for node in 0..net.nodes.len() {
        // There keys outlive, by as much, the releases that were kept while it was cut off.
        if net.nodes[node].was_set_back {
            continue;
        }
        for name in 0..names {
            let key = format!("name-{name}").into_bytes();
            let Some(owner) = net.nodes[node].value(&key, now) else { continue };
            let owner = String::from_utf8_lossy(&owner).into_owned();
            if !net.checks.leaks.is_ghost(node, &key) && !net.checks.is_orphan(&owner) {
                return Some(format!("node {node} still has name {name}, as {}", &owner[..4]));
            }
        }
    }
    None
}
