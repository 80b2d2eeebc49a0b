//! What a node's answers mean to its worker, before it hands them out.

use super::connection::Connection;
use super::job::{Job, Undelivered};
use super::replicas::Unreplicated;
use super::request::{Meaning, Value};
use super::worker::Worker;
use crate::core::admission::Offset;
use crate::core::base::{exact, rounded};
use crate::core::vote::Failure;
use crate::error::{Cause, NodeFault};
use crate::terms::CLOCK_TOLERANCE;

impl Worker {
    /// Hands out an answer; behind the node's replicas, where it counts only with them.
    pub(super) fn deliver(&self, job: &Job, value: Value, connection: &Connection) {
        let confirmer = self.confirmer.as_ref().filter(|_| {
            matches!(job.request().meaning(&value), Meaning::Granted | Meaning::Confirmed)
        });
        let answer = match (confirmer, job.sink()) {
            (Some(confirmer), Some(sink)) => {
                let run_id = connection.run_id().to_owned();
                let grant = Unreplicated { sink: sink.clone(), value, run_id };
                match confirmer.try_send(grant) {
                    Ok(()) => return,
                    Err(_) => Err(self.too_many_grants()),
                }
            }
            _ => Ok(value),
        };
        job.answer(self.node, answer);
    }

    pub(super) fn too_many_grants(&self) -> Undelivered {
        let what = "too many locks wait for this node's replicas already";
        let fault = NodeFault::new(self.shared.link.node(), what);
        Undelivered { failure: Failure::Unknown, fault }
    }

    pub(super) fn clock_was_set(&self) -> Undelivered {
        let what = "its clock shows an unexpected time, so locks may have ended too early on it";
        let fault = NodeFault::new(self.shared.link.node(), what);
        Undelivered { failure: Failure::NotAdmitted, fault }
    }

    pub(super) fn clock_is_in_doubt(&self, clock: Offset) -> Undelivered {
        let (took, tolerance) = (clock.round_trip(), self.set.clock_tolerance());
        let what = format!(
            "it granted the lock, but its clock may have been set forward by more than the \
             {CLOCK_TOLERANCE} of {}: reading it took {}; find out why the server or the network is \
             slow, or raise {CLOCK_TOLERANCE} for all clients of the set",
            exact(tolerance),
            rounded(took)
        );
        // It has answered, and nothing is wrong with what it remembers.
        let fault = NodeFault::new(self.shared.link.node(), what);
        Undelivered { failure: Failure::Error, fault }
    }

    pub(super) fn strange_server(&self) -> Undelivered {
        let what = "the server does not know a script that was sent with its source";
        let fault = NodeFault::new(self.shared.link.node(), what);
        Undelivered { failure: Failure::Unknown, fault }
    }
}

/// Whether that is a server's own word, and not what became of the way to it.
pub(super) fn is_servers_word(fault: &NodeFault) -> bool {
    fault.cause() != Cause::Way
}

/// Whether a server refused a command for its user's permissions, before it did anything.
pub(super) fn lacks_permission(fault: &NodeFault) -> bool {
    matches!(fault.cause(), Cause::NoPermission | Cause::NoScripts)
}
