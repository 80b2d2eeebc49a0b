//! The errors of calls that got no lock or too few answers, in words.

use std::fmt;
use std::time::Duration;

use super::{Error, ErrorKind, NodeFault};
use crate::core::acquire::Outcome;
use crate::core::base::{Time, exact, majority, rounded};
use crate::ident::{self, Names, fence_key};
use crate::terms::{ADMIT, FIRST_SECONDS, KEY_PREFIX, MAX_TTL, NO_QUARANTINE};

/// The facts about a client that its errors name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    pub(crate) nodes: usize,
    /// Clients may fall back to the first node.
    pub(crate) falls_back: bool,
    pub(crate) max_ttl: Duration,
}

/// The knowledge of a client at the end of a call that got no lock.
pub(crate) trait Known {
    /// Returns the time left until `time`.
    fn left_until(&self, time: Time) -> Duration;

    /// Returns the time at which the nodes that grant no locks now will grant them.
    fn ready(&self) -> Ready;

    /// Returns the faults of the nodes in the last attempt of the call.
    fn faults(&self) -> Vec<NodeFault>;

    /// Returns the faults because of which no lock may be taken from any node.
    fn conflict(&self) -> Vec<NodeFault>;
}

/// The time at which the nodes that grant no locks now will grant them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) within: Duration,
    /// True if a quarantine has to end first.
    pub(crate) in_quarantine: bool,
}

impl Refusals {
    /// The error of a call for the lock with these names and that TTL, which ended with `outcome`.
    pub(crate) fn error(
        self,
        outcome: Outcome,
        names: &Names,
        ttl: Duration,
        known: &impl Known,
    ) -> Error {
        let (kind, message, faults) = match outcome {
            Outcome::Held { until } => {
                let left = until.map(|until| known.left_until(until));
                return Error::held(names.shared_text(), left.filter(|left| !left.is_zero()));
            }
            Outcome::NodesDisagree => {
                let message =
                    format!("{names} cannot be locked: the nodes are not one set of ours");
                (ErrorKind::Config, message, known.conflict())
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
            Outcome::WrongKind => (ErrorKind::WrongKind, no_lock(names), known.faults()),
            Outcome::Spent => (ErrorKind::WrongKind, no_further_number(names), known.faults()),
            Outcome::NoNumber => (ErrorKind::WrongKind, no_number(names), known.faults()),
            Outcome::Rejected => {
                let message = format!("{names} cannot be locked: {}", self.rejected());
                (ErrorKind::Config, message, known.faults())
            }
            Outcome::NotAdmitted => {
                let (ready, nodes) =
                    (known.ready(), if self.nodes == 1 { "node" } else { "nodes" });
                let why = self.not_admitted(ready);
                let message = format!("{names} was not granted: {why}. The {nodes}");
                (ErrorKind::Quarantined { ready_in: ready.within }, message, known.faults())
            }
            Outcome::NoQuorum => (ErrorKind::NoQuorum, self.no_quorum(names), known.faults()),
            Outcome::Unconfirmed => {
                let message = format!(
                    "no quorum for {names}: {} granted it, and too few of them confirmed its fencing \
                     token in time",
                    self.so_many()
                );
                (ErrorKind::NoQuorum, message, known.faults())
            }
            Outcome::TooLate => {
                let message = format!(
                    "no quorum in time for {names}: {} granted it, but so late that its TTL of {} was \
                     used up",
                    self.so_many(),
                    exact(ttl)
                );
                (ErrorKind::NoQuorum, message, known.faults())
            }
        };
        Error::new(kind, message).with_faults(faults)
    }

    /// The error of a caller that asked the nodes about `what` and got too few answers.
    pub(crate) fn unheard(self, what: impl fmt::Display, faults: Vec<NodeFault>) -> Error {
        let rejecting = faults.iter().filter(|fault| fault.is_for_good()).count();
        let (kind, message) = match self.nodes - rejecting < majority(self.nodes) {
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

    /// Explains why no lock is granted although the nodes answer, how long that lasts, and what ends it.
    pub(crate) fn not_admitted(self, ready: Ready) -> String {
        let (nodes, are) = match (self.nodes, self.falls_back) {
            (1, _) => ("the node", "is"),
            (_, true) => {
                ("the first node, to which clients may fall back, or too many of the others", "are")
            }
            (_, false) => ("too many nodes", "are"),
        };
        let (ready_in, max_ttl) = (rounded(ready.within), exact(self.max_ttl));
        if !ready.in_quarantine {
            return format!(
                "{nodes} may have forgotten locks that are held; locks are granted again in \
                 {ready_in}"
            );
        }
        format!(
            "{nodes} may have forgotten locks that are held, and {are} in quarantine. That ends by itself, \
             in {ready_in} ({MAX_TTL} is {max_ttl}). If nothing can be held, as before the first \
             start of a new set, {ADMIT} ends it at once. For development and CI with a throw-away \
             server there is {NO_QUARANTINE}: without quarantine, a restart can give a held lock \
             to a second client. See {FIRST_SECONDS}"
        )
    }

    fn rejected(self) -> String {
        let who = match (self.nodes, self.falls_back) {
            (1, _) => "the node rejects this client".to_owned(),
            (nodes, false) => {
                format!("so many of the {nodes} nodes reject this client that no majority is left")
            }
            (nodes, true) => format!(
                "the first node, to which clients may fall back, or a majority of the {nodes} nodes \
                 rejects this client"
            ),
        };
        format!("{who}; trying again does not help until that is changed")
    }

    fn no_quorum(self, names: &Names) -> String {
        let but = match self.falls_back {
            true => {
                ", and the first one must not answer with an error, since clients may fall back to it"
            }
            false => "",
        };
        format!("no quorum for {names}: {} must answer{but}", self.so_many())
    }

    /// The majority of the nodes, in words.
    fn so_many(self) -> String {
        match self.nodes {
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

/// Names the key, or all keys if it may be any of several.
fn one_of(keys: impl Iterator<Item = Vec<u8>>) -> String {
    let keys: Vec<_> = keys.map(|key| format!("\"{}\"", ident::text(&key))).collect();
    match keys.as_slice() {
        [key] => format!("the key {key}"),
        keys => format!("one of the keys {}", keys.join(", ")),
    }
}
