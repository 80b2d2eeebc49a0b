//! Ending the quarantine of nodes of which somebody who must know says that nothing can be held there.

use std::time::Duration;

use crate::clock;
use crate::core::majority;
use crate::error::{Error, ErrorKind, NodeFault};
use crate::runtime::client_state::ClientState;

/// How long after the first probes the rest may take at least, on a busy machine.
const SHORTEST: Duration = Duration::from_secs(2);

/// Ends the quarantine of all nodes that can be reached, and waits until they grant locks.
pub(crate) fn admit(client: &ClientState) -> Result<(), Error> {
    let (nodes, set) = (client.nodes(), client.set());
    let timeout = client.settings().node_timeout;
    let until = clock::now().after(timeout.saturating_mul(4).max(SHORTEST));
    // Once each: what a node forgets after that is not what the operator has spoken of.
    let admitted: Vec<_> = nodes.iter().map(|_| std::cell::Cell::new(false)).collect();
    let fault = |node: usize| nodes[node].fault().or_else(|| set.refusal(node));
    clock::poll(until, || {
        for (node, admitted) in admitted.iter().enumerate() {
            if !admitted.get() && !set.grants(node) {
                admitted.set(set.admit(node));
            }
        }
        let ready = (0..nodes.len()).all(|node| set.grants(node) || fault(node).is_some());
        ready || set.conflict().is_some()
    });
    if let Some(faults) = set.conflict() {
        let message = "the nodes cannot be admitted: they are not one set of ours";
        return Err(Error::config(message).with_faults(faults));
    }
    let granting = (0..nodes.len()).filter(|node| set.grants(*node)).count();
    let needed = majority(nodes.len());
    if granting >= needed {
        return Ok(());
    }
    let message = format!(
        "the nodes could not be admitted: {granting} of {} are, and it takes {needed}",
        nodes.len()
    );
    let mut faults: Vec<NodeFault> = (0..nodes.len()).filter_map(fault).collect();
    let rejecting = faults.iter().filter(|fault| fault.is_for_good()).count();
    let kind = match nodes.len() - rejecting < needed {
        true => ErrorKind::Config,
        false => ErrorKind::NoQuorum,
    };
    faults.extend(set.quarantined());
    Err(Error::new(kind, message).with_faults(faults))
}
