//! A look at the server that answers under a node's address, by a connection besides the worker's.
//!
//! The worker keeps its connection for as long as it can, so by itself it sees one server only.

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::admit;
use super::connection::Connection;
use super::set::NodeSet;
use super::worker::Worker;
use crate::clock;
use crate::core::Time;
use crate::error::NodeFault;

impl Worker {
    /// Has a thread look which server answers, if that is due. Returns when it is due next.
    pub(super) fn look(&self) -> Time {
        let (is_due, next) = self.set.looks(self.node, clock::now());
        if is_due {
            let (node, timeout) = (self.node, self.timeout);
            let (address, set) = (self.address.clone(), self.set.clone());
            let look = move || {
                // The worker tells what is wrong with the node.
                let _ = look(&address, timeout, &set, node);
            };
            // Without a thread, the next look comes.
            let _ = clock::spawn(format!("quorlock-look-{node}"), look);
        }
        next
    }
}

/// Opens a connection, and notes which master it leads to. It asks as the worker does: what is in between may answer other questions
/// by itself.
pub(super) fn look(
    address: &Address,
    timeout: Duration,
    set: &Arc<NodeSet>,
    node: usize,
) -> Result<Connection, NodeFault> {
    let mut connection = Connection::open(address, timeout)?;
    let probe = admit::ask(&mut connection, set.mark_key(), timeout);
    // A server that does not answer that cannot be told from another one.
    if let Ok(probe) = probe.map_err(|broken| broken.fault)? {
        set.sighted(node, &probe, clock::now());
    }
    Ok(connection)
}
