//! Waits until a node's replicas have a grant, without delaying any other request.
//!
//! `WAIT` blocks its connection, and reports on the last write of *that* connection. So it has a connection
//! and a thread of its own. A tiny write there comes after the grants in the node's replication stream. A
//! replica that has the write has the grants. All waiting grants share one such write and one `WAIT`.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;

use super::address::Address;
use super::connection::{Broken, Connection, Reply};
use super::fitness::field;
use super::job::{Sink, Undelivered};
use super::request::Value;
use crate::clock;
use crate::core::base::exact;
use crate::core::link::GRACE;
use crate::core::vote::{Failure, enough_replicas, is_of_grantor};
use crate::error::NodeFault;

/// Number of replicas that must acknowledge a grant, and their time limit.
#[derive(Clone, Debug)]
pub(crate) struct Replicas {
    pub(crate) needed: u32,
    pub(crate) timeout: Duration,
    /// The key of the write after the grants, which expires after 1 ms.
    pub(crate) key: Vec<u8>,
}

/// A grant that counts only once it is replicated.
pub(super) struct Unreplicated {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) value: Value,
    /// The run id of the server that granted.
    pub(super) run_id: String,
}

pub(super) struct Confirmer {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    pub(super) replicas: Replicas,
    pub(super) grants: Receiver<Unreplicated>,
}

impl Confirmer {
    /// Works until the node's worker has ended.
    pub(super) fn run(self) {
        let mut connection = None;
        while let Ok(first) = self.grants.recv() {
            // All grants that have come during the last wait.
            let grants: Vec<_> = std::iter::once(first).chain(self.grants.try_iter()).collect();
            let confirmed = match connection.take().map(|open| self.confirm(open)) {
                Some(Ok(open)) => Ok(open),
                Some(Err(Unconfirmed::TooFew(fault))) => Err(fault),
                // There is no connection yet, or it was closed while it was idle.
                None | Some(Err(Unconfirmed::Broken(_))) => {
                    let opened =
                        Connection::open(&self.address, self.timeout + self.replicas.timeout);
                    opened.and_then(|mut open| {
                        open.has_come_up();
                        self.confirm(open).map_err(Unconfirmed::fault)
                    })
                }
            };
            // A connection to another server than the worker's is of no use for the next grants either.
            let mut same_server = true;
            for grant in grants {
                let answer = match &confirmed {
                    Ok(open) if is_of_grantor(open.run_id(), &grant.run_id) => Ok(grant.value),
                    Ok(_) => {
                        same_server = false;
                        Err(self.another_server())
                    }
                    // The key is there, but not on the replicas that must have it: it will be released.
                    Err(fault) => Err(fault.clone()),
                };
                let answer =
                    answer.map_err(|fault| Undelivered { failure: Failure::Unknown, fault });
                grant.sink.answer(self.node, answer);
            }
            connection = confirmed.ok().filter(|_| same_server);
        }
    }

    /// The fault of a server that is not the one that granted: its replicas say nothing about the grant.
    fn another_server(&self) -> NodeFault {
        let what = "the server was restarted or replaced between the grant and its replication";
        NodeFault::new(self.address.shown(), what)
    }

    /// Returns the connection if enough replicas have everything that was granted before.
    fn confirm(&self, mut connection: Connection) -> Result<Connection, Unconfirmed> {
        let Replicas { needed, timeout, key } = &self.replicas;
        let wait_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let mut commands = redis::cmd("SET").arg(key).arg("").arg("PX").arg(1).get_packed_command();
        redis::cmd("WAIT").arg(needed).arg(wait_ms).write_packed_command(&mut commands);
        // A proxy may keep the connection open when another server takes over.
        redis::cmd("INFO").arg("server").write_packed_command(&mut commands);
        let broken = |broken: Broken| Unconfirmed::Broken(broken.fault);
        connection.write_commands(&commands, 3).map_err(broken)?;
        let deadline = clock::now().after(self.timeout + *timeout + GRACE);
        connection.read_text(deadline).map_err(Unconfirmed::Broken)?;
        let acknowledged = connection.read(deadline).map_err(broken)?;
        let server = connection.read_text(deadline).map_err(Unconfirmed::Broken)?;
        if field(&server, "run_id") != Some(connection.run_id()) {
            return Err(Unconfirmed::Broken(self.another_server()));
        }
        match acknowledged {
            Reply::Value(Value::Int(acknowledged)) if enough_replicas(acknowledged, *needed) => {
                Ok(connection)
            }
            Reply::Value(acknowledged) => Err(Unconfirmed::TooFew(NodeFault::new(
                self.address.shown(),
                format!(
                    "{acknowledged} of {needed} replicas acknowledged the lock within {}; \
                     are they up and connected?",
                    exact(*timeout)
                ),
            ))),
            Reply::Error(fault) => Err(Unconfirmed::Broken(fault)),
            Reply::NoScript => {
                let fault = NodeFault::new(self.address.shown(), "no answer to WAIT");
                Err(Unconfirmed::Broken(fault))
            }
        }
    }
}

/// The reason why grants are not confirmed.
enum Unconfirmed {
    /// Too few replicas have acknowledged. Another try would only take as long again.
    TooFew(NodeFault),
    /// Something was wrong with the connection; another one may do better.
    Broken(NodeFault),
}

impl Unconfirmed {
    fn fault(self) -> NodeFault {
        match self {
            Self::TooFew(fault) | Self::Broken(fault) => fault,
        }
    }
}
