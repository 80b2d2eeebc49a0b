//! Ending the quarantine of nodes: if the caller asserts that no lock can be held, or if the nodes show it.

use std::time::Duration;

use crate::clock;
use crate::core::admission::{AdmitCall, AdmitStep, AdmitTerms, MayHaveForgotten};
use crate::core::base::{exact, majority, rounded};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::ident::Name;
use crate::runtime::client_state::ClientState;
use crate::runtime::held_locks::{ScanWanted, Scanned, scan_nodes};
use crate::terms::{ADMIT, MAX_TTL};

/// The time limit for scanning the nodes for locks.
const SCANNED_WITHIN: Duration = Duration::from_secs(10);

/// Ends the quarantine of all nodes that can be reached, and waits until they grant locks. Returns these nodes.
pub(crate) fn admit(client: &ClientState) -> Result<Vec<String>, Error> {
    carry_out(client, AdmitCall::on_word(client.nodes().len(), terms(client), clock::now()))
}

/// Does the same, if the nodes show that no lock can be held.
pub(crate) fn admit_if_unused(client: &ClientState) -> Result<Vec<String>, Error> {
    carry_out(client, AdmitCall::if_unused(client.nodes().len(), terms(client), clock::now()))
}

fn terms(client: &ClientState) -> AdmitTerms {
    AdmitTerms::new(client.settings().max_ttl, client.settings().node_timeout)
}

fn carry_out(client: &ClientState, mut call: AdmitCall) -> Result<Vec<String>, Error> {
    let set = client.set();
    // An answer may end the conflict, so its faults are kept from the step that has met it.
    let mut conflict = Vec::new();
    let mut scanned = None;
    loop {
        let is_down = |node| fault(client, node).is_some();
        let (step, faults) = set.poll_admit_call(&mut call, is_down, clock::now());
        if !faults.is_empty() {
            conflict = faults;
        }
        match step {
            AdmitStep::Wait(until) => clock::pause(until),
            AdmitStep::Scan => {
                let wanted = ScanWanted { pattern: b"", most: 0, within: SCANNED_WITHIN };
                let Scanned { scan, names, faults } = scan_nodes(client, &wanted)?;
                let whole_for = |node| scan.whole_for(node);
                set.with_admission(|it| {
                    call.scanned(it, whole_for, !names.is_empty(), clock::now());
                });
                scanned = Some((names.into_iter().next(), faults));
            }
            AdmitStep::Probe { node } => set.probe_again(node),
            AdmitStep::End { node, id } => set.admit(node, id),
            AdmitStep::NotOneSet => {
                let message = "the nodes cannot be admitted: they are not one set of ours";
                return Err(Error::config(message).with_faults(conflict));
            }
            AdmitStep::InUse => {
                let (name, faults) = scanned.unwrap_or_default();
                return Err(in_use(client, &call, name.as_ref(), faults));
            }
            AdmitStep::Over => return result(client, &call),
        }
    }
}

/// The error of a call that cannot show that no lock is held. `name`: the first lock that was found; with the faults of the scan.
fn in_use(
    client: &ClientState,
    call: &AdmitCall,
    name: Option<&Name>,
    mut faults: Vec<NodeFault>,
) -> Error {
    let (set, max_ttl, now) = (client.set(), client.settings().max_ttl, clock::now());
    for (node, why) in set.with_admission(|it| call.reasons(it, now)) {
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
        faults.push(NodeFault::new(&client.names()[node], what));
    }
    let why = name.map_or_else(
        || "a node may have forgotten a held lock".to_owned(),
        |name| format!("a node has a key of {name}"),
    );
    let ready_in = set.ready_in(now).unwrap_or(max_ttl);
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
    Error::new(ErrorKind::Quarantined { ready_in }, message).with_faults(faults)
}

/// Returns the nodes that the call has admitted, or an error if too few nodes grant.
fn result(client: &ClientState, call: &AdmitCall) -> Result<Vec<String>, Error> {
    let (set, count) = (client.set(), client.nodes().len());
    let granting = (0..count).filter(|node| set.grants(*node)).count();
    let needed = majority(count);
    if granting >= needed {
        let admitted = set.with_admission(|it| call.admitted(it)).into_iter();
        return Ok(admitted.map(|node| client.names()[node].to_string()).collect());
    }
    let message =
        format!("too few nodes could be admitted: {granting} of {count}, and {needed} are needed");
    let mut faults: Vec<NodeFault> = (0..count).filter_map(|node| fault(client, node)).collect();
    let rejecting = faults.iter().filter(|fault| fault.is_for_good()).count();
    let kind = match count - rejecting < needed {
        true => ErrorKind::Config,
        false => ErrorKind::NoQuorum,
    };
    faults.extend(set.quarantined());
    Err(Error::new(kind, message).with_faults(faults))
}

fn fault(client: &ClientState, node: usize) -> Option<NodeFault> {
    client.nodes()[node].fault().or_else(|| client.set().refusal(node))
}
