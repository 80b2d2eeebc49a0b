//! A look at the servers that answer under a node's name, through connections besides the worker's.
//!
//! The worker keeps its connection for as long as it can, and comes back to the address that has answered. So by itself it sees only
//! one server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::address::Address;
use super::connection::Connection;
use super::driver::Driver;
use super::question;
use super::set::NodeSet;
use crate::clock;
use crate::core::base::Time;
use crate::core::link::PATIENCE;
use crate::error::NodeFault;
use crate::random::random;

/// Most addresses of a name that one look visits. They are picked at random.
const AT_ONCE: usize = 8;

/// Least number of connections of one look, made one right after the other. A balancer that leads each new connection to the next
/// server leads them to different ones. A single connection could meet the same server each time, if the looks of this client
/// alternate with those of another client.
const IN_A_ROW: usize = 2;

impl Driver {
    /// Starts a thread that looks which server answers, if that is due. Returns the time when the next look is due.
    pub(super) fn look(&self) -> Time {
        let (is_due, next) = self.set.looks(self.node, clock::now());
        if is_due && !self.shared.status.looks.swap(true, Ordering::Relaxed) {
            let (node, timeout) = (self.node, self.timeout);
            let (address, set) = (self.address.clone(), self.set.clone());
            let shared = self.shared.clone();
            let look = move || {
                // The worker reports the faults of the node.
                let mut addresses = address.each(timeout).unwrap_or_default();
                addresses.sort_by_cached_key(|_| random::<u64>());
                let connections = addresses.len().clamp(IN_A_ROW, AT_ONCE);
                for address in addresses.iter().cycle().take(connections) {
                    let _ = look_by(Connection::open_at(address, timeout), timeout, &set, node);
                }
                shared.status.looks.store(false, Ordering::Relaxed);
            };
            // If no thread can start, the next look takes its place.
            if clock::spawn(format!("quorlock-look-{node}"), look).is_err() {
                self.shared.status.looks.store(false, Ordering::Relaxed);
            }
        }
        next
    }
}

/// Opens a connection, and notes the master to which it leads. It asks as the worker does: an intermediary may answer other
/// questions by itself.
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
    let answer = question::probe(&mut connection, set.mark_key(), timeout.max(PATIENCE));
    // A server that does not answer the probe cannot be told from another one.
    if let Ok(answer) = answer.map_err(|broken| broken.fault)? {
        set.sighted(node, &answer.probe, clock::now());
    }
    Ok(connection)
}
