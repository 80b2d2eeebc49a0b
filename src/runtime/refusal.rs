//! What a caller is told that did not get the lock.

use std::fmt;
use std::time::Duration;

use crate::clock;
use crate::core::acquire::{Obstacle, Outcome};
use crate::core::base::{exact, majority, rounded};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::ident::{self, Names, fence_key};
use crate::observe;
use crate::runtime::claim::Wanted;
use crate::runtime::client_state::ClientState;
use crate::terms::{ADMIT, FIRST_SECONDS, KEY_PREFIX, MAX_TTL, NO_QUARANTINE};

impl ClientState {
    fn rejected(&self) -> String {
        let who = match (self.nodes.len(), self.settings.fall_back_after()) {
            (1, _) => "the node rejects this client".to_owned(),
            (nodes, None) => {
                format!("so many of the {nodes} nodes reject this client that no majority is left")
            }
            (nodes, Some(_)) => format!(
                "the first node, to which clients may fall back, or a majority of the {nodes} nodes \
                 rejects this client"
            ),
        };
        format!("{who}; trying again does not help until that is changed")
    }

    /// Something other than an ordinary holder is in the way of a call: tells that.
    pub(crate) fn tell_obstacle(&self, wanted: &Wanted, obstacle: &Obstacle) {
        self.obstacles.tell(&wanted.names, wanted.permits, obstacle, &self.names);
    }

    /// A call waits until nodes grant locks, which is in `ready_in` as far as is known.
    pub(crate) fn tell_wait(&self, names: &Names, ready_in: Duration, faults: &[NodeFault]) {
        observe::waits_for_nodes(names, &self.not_admitted(ready_in), faults);
    }

    /// Why no lock is granted although the nodes answer, how long that lasts, and what ends it.
    fn not_admitted(&self, ready_in: Duration) -> String {
        let (nodes, are) = match (self.nodes.len(), self.settings.fall_back_after()) {
            (1, _) => ("the node", "is"),
            (_, Some(_)) => {
                ("the first node, to which clients may fall back, or too many of the others", "are")
            }
            (_, None) => ("too many nodes", "are"),
        };
        let (ready_in, max_ttl) = (rounded(ready_in), exact(self.settings.max_ttl));
        if self.set.quarantined().is_empty() {
            return format!(
                "{nodes} may have forgotten locks that are held; locks are granted again in \
                 {ready_in}"
            );
        }
        format!(
            "{nodes} may have forgotten locks that are held, and {are} in quarantine. That ends by itself, \
             in {ready_in} ({MAX_TTL} is {max_ttl}). Where nothing can be held, as before the first \
             start of a new set, {ADMIT} ends it at once. For development and CI with a throw-away \
             server there is {NO_QUARANTINE}: without quarantine, a restart can give a held lock \
             to a second client. See {FIRST_SECONDS}"
        )
    }

    /// The error of a call that ended so. `faults`: what was wrong with which node in its last attempt.
    pub(crate) fn refusal(
        &self,
        outcome: Outcome,
        wanted: &Wanted,
        faults: impl FnOnce() -> Vec<NodeFault>,
    ) -> Error {
        let Wanted { names, terms, .. } = wanted;
        let (kind, message, faults) = match outcome {
            Outcome::Held { until } => {
                let left = until.map(|until| until.since(clock::now()));
                return Error::held(names.shared_text(), left.filter(|left| !left.is_zero()));
            }
            Outcome::NodesDisagree => {
                let message =
                    format!("{names} cannot be locked: the nodes are not one set of ours");
                (ErrorKind::Config, message, self.set.conflict().unwrap_or_default())
            }
            Outcome::Cancelled => {
                (ErrorKind::Cancelled, format!("waiting for {names} was cancelled"), Vec::new())
            }
            Outcome::Closed => {
                let message = format!("{names} cannot be locked: this client was closed");
                (ErrorKind::Closed, message, Vec::new())
            }
            Outcome::Lost(reason) => {
                let message = format!(
                    "{names} cannot be taken again by the thread that holds it: it is lost ({reason}); stop what \
                     it protects, and drop its guards"
                );
                (ErrorKind::Lost, message, Vec::new())
            }
            Outcome::WaitsForItself => {
                let message = format!(
                    "this thread holds {names} for reading, and would wait for itself to write; drop the read \
                     guards first, or begin with the write lock and downgrade it"
                );
                (ErrorKind::WouldDeadlock, message, Vec::new())
            }
            Outcome::WrongKind => (ErrorKind::WrongKind, no_lock(names), faults()),
            Outcome::Spent => (ErrorKind::WrongKind, no_further_number(names), faults()),
            Outcome::NoNumber => (ErrorKind::WrongKind, no_number(names), faults()),
            Outcome::Rejected => {
                let message = format!("{names} cannot be locked: {}", self.rejected());
                (ErrorKind::Config, message, faults())
            }
            Outcome::NotAdmitted => {
                let ready_in = self.set.ready_in(clock::now()).unwrap_or(self.settings.max_ttl);
                let nodes = if self.nodes.len() == 1 { "node" } else { "nodes" };
                let why = self.not_admitted(ready_in);
                let message = format!("{names} was not granted: {why}. The {nodes}");
                (ErrorKind::Quarantined { ready_in }, message, faults())
            }
            Outcome::NoQuorum => (ErrorKind::NoQuorum, self.no_quorum(names), faults()),
            Outcome::Unconfirmed => {
                let message = format!(
                    "no quorum for {names}: {} granted it, and too few of them confirmed its fencing \
                     token in time",
                    self.so_many()
                );
                (ErrorKind::NoQuorum, message, faults())
            }
            Outcome::TooLate => {
                let message = format!(
                    "no quorum in time for {names}: {} granted it, but so late that its TTL of {} was \
                     used up",
                    self.so_many(),
                    exact(terms.ttl)
                );
                (ErrorKind::NoQuorum, message, faults())
            }
        };
        Error::new(kind, message).with_faults(faults)
    }

    /// What a caller is told that asked the nodes `what` is so, where too few have answered.
    pub(crate) fn unheard(&self, what: impl fmt::Display, faults: Vec<NodeFault>) -> Error {
        let rejecting = faults.iter().filter(|fault| fault.is_for_good()).count();
        let (kind, message) = match self.nodes.len() - rejecting < majority(self.nodes.len()) {
            true => {
                let why = self.rejected();
                (ErrorKind::Config, format!("nobody can say {what}: {why}"))
            }
            false => {
                let so_many = self.so_many();
                let message = format!("no quorum to say {what}: {so_many} must answer");
                (ErrorKind::NoQuorum, message)
            }
        };
        Error::new(kind, message).with_faults(faults)
    }

    fn no_quorum(&self, names: &Names) -> String {
        let but = match self.settings.fall_back_after() {
            Some(_) => {
                ", and the first one must not answer with an error, since clients may fall back to it"
            }
            None => "",
        };
        format!("no quorum for {names}: {} must answer{but}", self.so_many())
    }

    /// A majority of the nodes.
    fn so_many(&self) -> String {
        match self.nodes.len() {
            1 => "the one node".to_owned(),
            nodes => format!("{} of {nodes} nodes", majority(nodes)),
        }
    }
}

fn no_lock(names: &Names) -> String {
    let keys = names.keys().map(<[u8]>::to_vec);
    format!(
        "{names} cannot be locked: {} on the nodes is not a lock; \
         use another name or {KEY_PREFIX}",
        one_of(keys)
    )
}

fn no_further_number(names: &Names) -> String {
    format!(
        "{names} cannot be locked with a fencing token: {} on the nodes is the \
         largest number there is, so no larger token is left. quorlock needs centuries \
         to reach it: find out who wrote it, and use another name",
        one_of(names.keys().map(fence_key))
    )
}

fn no_number(names: &Names) -> String {
    format!(
        "{names} cannot be locked with a fencing token: the value of {} on the nodes \
         is no number; find out who wrote it, and delete it (DEL) while nobody holds \
         the lock: tokens then go on from the nodes' time",
        one_of(names.keys().map(fence_key))
    )
}

/// Names the one that it is, or those of which it is one.
fn one_of(keys: impl Iterator<Item = Vec<u8>>) -> String {
    let keys: Vec<_> = keys.map(|key| format!("\"{}\"", ident::text(&key))).collect();
    match keys.as_slice() {
        [key] => format!("the key {key}"),
        keys => format!("one of the keys {}", keys.join(", ")),
    }
}
