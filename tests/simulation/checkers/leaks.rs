//! Nothing leaks: no key is set after its release, and once everything is healed and given back, no node has a key of
//! a living client.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::who;
use crate::ident::fence_key;
use crate::simulation::claim::short;
use crate::simulation::lock_id::key;
use crate::simulation::network::Network;

/// A node, a key on it, and an owner of it.
type KeyOfOwner = (usize, Vec<u8>, Vec<u8>);

/// Time that a client may need, after everything is well, to connect again and deliver the releases that it had to
/// keep.
const SOON: Duration = Duration::from_secs(4);
/// The longest pause between two repetitions of a release.
const REPEATED: Duration = Duration::from_secs(10);
/// Largest error of a client about the clock of a node that it has not heard of for a while.
const LATE: Duration = Duration::from_millis(200);

/// Effect of a request on a node.
pub(in super::super) struct Ran<'a> {
    pub(in super::super) node: usize,
    pub(in super::super) key: &'a [u8],
    pub(in super::super) owner: &'a [u8],
    pub(in super::super) what: &'static str,
    /// True if the client had closed the connection before the request ran.
    pub(in super::super) in_flight: bool,
    /// End of the owner's key before the request, and after it, by the node's clock; `None`: it has none.
    pub(in super::super) ended: Option<i64>,
    pub(in super::super) ends: Option<i64>,
    /// True time until which the node grants the lock to nobody else.
    pub(in super::super) closed_until: Duration,
    /// True if the node's clock was set back at some time.
    pub(in super::super) set_back: bool,
}

#[derive(Default)]
pub(super) struct Leaks {
    /// Owners that were released on a node, and those of them for which the client has heard so.
    released: BTreeSet<(usize, Vec<u8>)>,
    answered: BTreeSet<(usize, Vec<u8>)>,
    /// True if the last of an owner's requests to set a key on a node was a late one, and the time of that request.
    last_writes: BTreeMap<KeyOfOwner, (bool, Duration)>,
}

impl Leaks {
    /// Checks a request that a node ran, for a lock that was valid until `ended` at most, and no longer is.
    pub(super) fn ran(
        &mut self,
        ran: &Ran<'_>,
        ended: Option<Duration>,
        now: Duration,
    ) -> Option<String> {
        let short = || short(ran.owner);
        if ran.ends.is_some_and(|ends| ends < 0) {
            return Some(format!("node {} keeps the key of {} for ever", ran.node, short()));
        }
        let anew = ran.ends.is_some() && ran.ended.is_none();
        if ran.what == "extend" && anew && ended.is_some_and(|ended| ended + LATE < now) {
            return Some(format!("node {} was given to {} behind its end", ran.node, short()));
        }
        let owner = (ran.node, who(ran.owner).to_vec());
        if ran.what == "release" {
            if !ran.in_flight {
                self.answered.insert(owner.clone());
            }
            self.released.insert(owner);
            return None;
        }
        ran.ends?;
        let written = (ran.node, ran.key.to_vec(), who(ran.owner).to_vec());
        self.last_writes.insert(written, (ran.in_flight, now));
        let behind = ran.what == "extend" && !ran.in_flight && self.released.contains(&owner);
        behind.then(|| {
            format!("node {} ran an extension of {} behind its release", ran.node, short())
        })
    }

    /// Returns a violation if a request over an abandoned connection has set a key after a release.
    pub(super) fn came_late(&self, ran: &Ran<'_>, may_end: bool, fencing: bool) -> Option<String> {
        if !ran.in_flight || ran.ends.is_none() || ran.ended.is_some() {
            return None;
        }
        let owner = (ran.node, who(ran.owner).to_vec());
        let never = ran.what == "extend" && fencing && self.released.contains(&owner)
            || may_end && self.answered.contains(&owner);
        let short = short(ran.owner);
        never.then(|| {
            format!(
                "node {} was given to {short} by a late {} behind its release",
                ran.node, ran.what
            )
        })
    }

    /// Returns the time since which the owner has that key only through a late request, after everything else: one
    /// over a dead connection.
    pub(super) fn was_set_late(&self, node: usize, key: &[u8], owner: &str) -> Option<Duration> {
        let written = (node, key.to_vec(), who(owner.as_bytes()).to_vec());
        let (in_flight, at) = self.last_writes.get(&written)?;
        in_flight.then_some(*at)
    }
}

/// Returns a key that its client has given up, and should have given back.
pub(in super::super) fn kept_back(net: &mut Network, names: usize) -> Option<String> {
    let now = net.now;
    for node in 0..net.nodes.len() {
        if net.nodes[node].was_set_back {
            continue;
        }
        for name in 0..names {
            let key = key(name);
            for owner in net.nodes[node].owners(&key, now) {
                let Some((client, since)) = net.checks.given_up(&owner) else { continue };
                let mut since = since.max(net.troubled_at(client, node));
                if !net.checks.may_end(owner.as_bytes()) {
                    // Releases are repeated, so that a key that was set late is given back again.
                    let in_flight = net.checks.leaks.was_set_late(node, &key, &owner);
                    since = in_flight.map_or(since, |at| since.max(at + REPEATED));
                }
                if since + SOON < now {
                    let short = short(owner);
                    return Some(format!(
                        "node {node} has name {name} as {short}, for {:?}",
                        now - since
                    ));
                }
            }
        }
    }
    None
}

/// Returns a key that is left on a node, and should not be.
pub(in super::super) fn leaked(net: &mut Network, names: usize) -> Option<String> {
    let now = net.now;
    for node in 0..net.nodes.len() {
        // Keys on such a node live longer by that step. They outlive the releases that were kept while the node was cut off.
        if net.nodes[node].was_set_back {
            continue;
        }
        for name in 0..names {
            let key = key(name);
            for owner in net.nodes[node].owners(&key, now) {
                let in_flight = net.checks.leaks.was_set_late(node, &key, &owner);
                let excused =
                    |at| !net.checks.may_end(owner.as_bytes()) && now < at + REPEATED + SOON;
                if !in_flight.is_some_and(excused) && !net.checks.is_orphan(&owner) {
                    return Some(format!("node {node} still has name {name}, as {}", short(owner)));
                }
            }
        }
    }
    None
}

/// Returns a key that was set just now by a late request, although its client had given its owner up before it gave the
/// connection up at that time. No request is left on that connection.
pub(in super::super) fn left_behind(
    net: &mut Network,
    node: usize,
    given_up_at: Duration,
) -> Option<String> {
    let (now, key) = (net.now, key(0));
    let owners = net.nodes[node].owners(&key, now);
    let is_left = |owner: &&String| {
        let wanted = net.checks.given_up.get(who(owner.as_bytes()));
        wanted.is_some_and(|(_, since)| *since <= given_up_at)
            && net.checks.leaks.was_set_late(node, &key, owner) == Some(now)
    };
    let left = owners.iter().find(is_left).filter(|_| net.checks.promise_final)?;
    let short = short(left);
    Some(format!(
        "node {node} has run all that was written before {short} was given up, and keeps it"
    ))
}

/// Returns a fence that has not expired.
pub(in super::super) fn fence_left(net: &mut Network, names: usize) -> Option<String> {
    let now = net.now;
    let nodes = net.nodes.iter_mut().enumerate();
    nodes.filter(|(_, node)| !node.was_set_back).find_map(|(i, node)| {
        let left = (0..names).find(|name| node.value(&fence_key(&key(*name)), now).is_some());
        left.map(|name| format!("node {i} still has a fence of name {name}"))
    })
}
