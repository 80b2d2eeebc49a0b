//! A look at the servers that answer under a node's name, by connections besides the worker's.
//!
//! The worker keeps its connection for as long as it can, and comes back to the address that has answered, so by itself it sees one
//! server only.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::address::Address;
use super::admit;
use super::connection::Connection;
use super::driver::Driver;
use super::set::NodeSet;
use crate::clock;
use crate::core::base::Time;
use crate::error::NodeFault;
use crate::random::random;

/// The most addresses of a name that one look goes to. They are picked by chance.
const AT_ONCE: usize = 8;

/// One look makes so many connections at least, one right after the other. A balancer that leads each new connection to the next
/// server leads them to different ones. A single connection could meet the same server each time: that of a client whose looks
/// take turns with those of another client.
const IN_A_ROW: usize = 2;

impl Driver {
    /// Has a thread look which server answers, if that is due. Returns when it is due next.
    pub(super) fn look(&self) -> Time {
        let (is_due, next) = self.set.looks(self.node, clock::now());
        if is_due && !self.shared.status.looks.swap(true, Ordering::Relaxed) {
            let (node, timeout) = (self.node, self.timeout);
            let (address, set) = (self.address.clone(), self.set.clone());
            let shared = self.shared.clone();
            let look = move || {
                // The worker tells what is wrong with the node.
                let mut addresses = address.each(timeout).unwrap_or_default();
                addresses.sort_by_cached_key(|_| random::<u64>());
                let connections = addresses.len().clamp(IN_A_ROW, AT_ONCE);
                for address in addresses.iter().cycle().take(connections) {
                    let _ = look_by(Connection::open_at(address, timeout), timeout, &set, node);
                }
                shared.status.looks.store(false, Ordering::Relaxed);
            };
            // Without a thread, the next look comes.
            if clock::spawn(format!("quorlock-look-{node}"), look).is_err() {
                self.shared.status.looks.store(false, Ordering::Relaxed);
            }
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
    look_by(Connection::open(address, timeout), timeout, set, node)
}

fn look_by(
    opened: Result<Connection, NodeFault>,
    timeout: Duration,
    set: &Arc<NodeSet>,
    node: usize,
) -> Result<Connection, NodeFault> {
    let mut connection = opened?;
    let probe = admit::ask(&mut connection, set.mark_key(), timeout);
    // A server that does not answer that cannot be told from another one.
    if let Ok(probe) = probe.map_err(|broken| broken.fault)? {
        set.sighted(node, &probe, clock::now());
    }
    Ok(connection)
}
