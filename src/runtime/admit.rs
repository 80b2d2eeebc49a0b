//! Ending the quarantine of nodes: if the caller asserts that no lock can be held, or if the nodes show it.

use std::cell::Cell;
use std::time::Duration;

use crate::clock;
use crate::core::admission::{MayHaveForgotten, Past, may_have_forgotten};
use crate::core::base::{Time, exact, majority, rounded};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::runtime::client_state::ClientState;
use crate::runtime::held_locks::{ScanWanted, Scanned, scan_nodes};
use crate::terms::{ADMIT, MAX_TTL};

/// The longest time of the call beyond `max_ttl`. If clocks contradict each other, the call takes until they no longer
/// count. A node takes several probes, one second apart if an answer came too late to read its clock. The call waits for a
/// node only while it neither grants nor has a fault.
const BEYOND: Duration = Duration::from_secs(2);
/// The time limit for scanning the nodes for locks.
const SCANNED_WITHIN: Duration = Duration::from_secs(10);

/// Ends the quarantine of all nodes that can be reached, and waits until they grant locks. Returns these nodes.
pub(crate) fn admit(client: &ClientState) -> Result<Vec<String>, Error> {
    end(client, |node| client.set().quarantine(node).map(|(id, _)| id))
}

/// Does the same, if the nodes show that no lock can be held.
pub(crate) fn admit_if_unused(client: &ClientState) -> Result<Vec<String>, Error> {
    let set = client.set();
    let nodes = 0..client.nodes().len();
    clock::poll(until(client), || {
        let is_known = |node| {
            set.remembers(node) || set.quarantine(node).is_some() || fault(client, node).is_some()
        };
        nodes.clone().all(is_known) || set.conflict().is_some()
    });
    // Before the scan: a node that forgets anything from now on gets another quarantine.
    let mut seen: Vec<_> = nodes.clone().map(|node| set.quarantine(node)).collect();
    if let Some(faults) = set.conflict() {
        return Err(not_one_set(faults));
    }
    if nodes.clone().any(|node| !set.grants(node) && seen[node].is_some()) {
        is_unused(client, &seen)?;
    } else {
        // Nothing is proven, so nothing may be ordered if a node grants no more from now on.
        seen.fill(None);
    }
    end(client, |node| seen[node].map(|(id, _)| id))
}

/// Returns an error if a lock may be held. `seen`: the quarantines that were seen before.
fn is_unused(client: &ClientState, seen: &[Option<(u64, Past)>]) -> Result<(), Error> {
    let wanted = ScanWanted { pattern: b"", most: 0, within: SCANNED_WITHIN };
    let Scanned { scan, names, mut faults } = scan_nodes(client, &wanted)?;
    let (set, max_ttl) = (client.set(), client.settings().max_ttl);
    // After the scan: a node that was restarted meanwhile no longer remembers.
    let past = |node: usize| match seen[node] {
        _ if set.remembers(node) => Past::Remembers,
        Some((_, past)) => past,
        None => Past::Unknown,
    };
    for (node, name) in client.names().iter().enumerate() {
        let Some(why) = may_have_forgotten(past(node), scan.whole_for(node), max_ttl) else {
            continue;
        };
        let what = match why {
            // The scan has ended with the first lock, or has already reported the fault.
            MayHaveForgotten::Unread => continue,
            MayHaveForgotten::Unknown => {
                "it was in quarantine before this client came, for an unknown reason".to_owned()
            }
            MayHaveForgotten::JustNow => {
                "it was started just now, or has lost keys since its start (by FLUSHALL, FLUSHDB, SWAPDB or eviction, in any \
                 database)"
                    .to_owned()
            }
            MayHaveForgotten::Started { ago, needed } => format!(
                "it was started {} ago, and may have had locks before; once it has run for {}, all of them have ended",
                rounded(ago),
                exact(needed)
            ),
        };
        faults.push(NodeFault::new(name, what));
    }
    let is_read = (0..seen.len()).all(|node| scan.whole_for(node).is_some());
    let why = match names.first() {
        Some(name) => format!("a node has a key of {name}"),
        None if is_read && faults.is_empty() => return Ok(()),
        None => "a node may have forgotten a held lock".to_owned(),
    };
    let ready_in = set.ready_in(clock::now()).unwrap_or(max_ttl);
    let when = match ready_in {
        Duration::ZERO => {
            "Enough others grant locks already; these will once their quarantine is over".to_owned()
        }
        _ => format!("They grant locks by themselves in {}", rounded(ready_in)),
    };
    let message = format!(
        "the nodes were not admitted: {why}. {when} ({MAX_TTL} is {}). If no client anywhere holds a lock, {ADMIT} ends the \
         wait at once",
        exact(max_ttl)
    );
    Err(Error::new(ErrorKind::Quarantined { ready_in }, message).with_faults(faults))
}

/// Ends the quarantine that `order` names for each node, and waits until all reachable nodes grant locks.
fn end(client: &ClientState, order: impl Fn(usize) -> Option<u64>) -> Result<Vec<String>, Error> {
    let set = client.set();
    let count = client.nodes().len();
    // Once each: the order does not cover anything that a node forgets after that.
    let ordered: Vec<_> = (0..count).map(|_| Cell::new(false)).collect();
    let fault = |node| fault(client, node);
    let conflict = Cell::new(None);
    clock::poll(until(client), || {
        if let Some(faults) = set.conflict() {
            conflict.set(Some(faults));
            return true;
        }
        for (node, ordered) in ordered.iter().enumerate() {
            if !ordered.get()
                && !set.grants(node)
                && let Some(id) = order(node)
            {
                set.admit(node, id);
                ordered.set(true);
            }
        }
        (0..count).all(|node| set.grants(node) || fault(node).is_some())
    });
    if let Some(faults) = conflict.into_inner() {
        // An order would outlast the conflict.
        (0..count).for_each(|node| set.withdraw_order(node));
        return Err(not_one_set(faults));
    }
    let granting = (0..count).filter(|node| set.grants(*node)).count();
    let needed = majority(count);
    if granting >= needed {
        let admitted = (0..count).filter(|node| ordered[*node].get() && set.grants(*node));
        return Ok(admitted.map(|node| client.names()[node].to_string()).collect());
    }
    let message =
        format!("too few nodes could be admitted: {granting} of {count}, and {needed} are needed");
    let mut faults: Vec<NodeFault> = (0..count).filter_map(fault).collect();
    let rejecting = faults.iter().filter(|fault| fault.is_for_good()).count();
    let kind = match count - rejecting < needed {
        true => ErrorKind::Config,
        false => ErrorKind::NoQuorum,
    };
    faults.extend(set.quarantined());
    Err(Error::new(kind, message).with_faults(faults))
}

fn not_one_set(faults: Vec<NodeFault>) -> Error {
    let message = "the nodes cannot be admitted: they are not one set of ours";
    Error::config(message).with_faults(faults)
}

fn until(client: &ClientState) -> Time {
    let settings = client.settings();
    clock::now().after(settings.node_timeout.saturating_mul(4).max(settings.max_ttl + BEYOND))
}

fn fault(client: &ClientState, node: usize) -> Option<NodeFault> {
    client.nodes()[node].fault().or_else(|| client.set().refusal(node))
}
