//! The known admission state of the nodes, and the messages about it.

use std::sync::Arc;

use super::disagreement;
use super::job::Undelivered;
use crate::core::admission::old_master::OLD_MASTER_WRITES;
use crate::core::admission::{Admission, Configuration, Forgot, Grants, NodeState};
use crate::core::base::exact;
use crate::core::vote::Failure;
use crate::error::{Cause, NodeFault};
use crate::ident;
use crate::terms::{ANOTHER_CONFIGURATION, MASTERS_WITH_REPLICAS, MAX_TTL, REPLACING_A_MASTER};

pub(super) struct AdmissionView {
    pub(super) admission: Admission,
    /// The last reported state of each node.
    told: Vec<NodeState>,
    /// The refusal of each node that refused a probe, or a change of its mark.
    pub(super) refusals: Vec<Option<NodeFault>>,
    /// The key of the mark on each node.
    key: Vec<u8>,
    names: Arc<[Arc<str>]>,
}

impl AdmissionView {
    pub(super) fn new(
        key: Vec<u8>,
        names: &Arc<[Arc<str>]>,
        configuration: &Configuration,
        ordered: bool,
    ) -> Self {
        Self {
            admission: Admission::new(configuration, ordered),
            told: vec![NodeState::Unknown; names.len()],
            refusals: vec![None; names.len()],
            key,
            names: names.clone(),
        }
    }

    /// Applies `seen`, which hands in an observation of the node. Returns true if that changes anything for callers of other nodes.
    pub(super) fn seen(&mut self, node: usize, seen: impl FnOnce(&mut Admission)) -> bool {
        self.refusals[node] = None;
        let before = self.admission.known_to_all();
        seen(&mut self.admission);
        self.admission.known_to_all() != before
    }

    /// The nodes whose state was not reported yet, with that state and its meaning. A node that cannot be
    /// reached is reported as such elsewhere.
    pub(super) fn news(&mut self) -> Vec<(NodeState, NodeFault)> {
        let mut news = Vec::new();
        for node in 0..self.names.len() {
            let node_state = self.admission.node_state(node);
            if node_state != NodeState::Unknown && node_state != self.told[node] {
                self.told[node] = node_state.clone();
                news.push((node_state, self.fault_of(node)));
            }
        }
        news
    }

    /// The fault of a node that is no master, by its last probe.
    pub(super) fn no_master(&self, node: usize) -> Option<NodeFault> {
        let node_state = self.admission.node_state(node);
        let cause = match node_state {
            NodeState::Replica => Cause::Way,
            NodeState::Cluster => Cause::Unfit,
            _ => return None,
        };
        Some(NodeFault::caused_by(cause, &self.names[node], self.what(node, &node_state)))
    }

    /// The mark under which the node grants locks to us now; empty if no mark is compared.
    pub(super) fn mark(&self, node: usize) -> Result<String, Undelivered> {
        match self.admission.grants(node) {
            Grants::Always => return Ok(String::new()),
            Grants::Under(mark) => return Ok(mark.to_owned()),
            Grants::Nothing => {}
        }
        // Then the refusal is the reason, and not the node's past.
        if let Some(fault) = &self.refusals[node] {
            return Err(Undelivered::new(Failure::Error, fault.clone(), true));
        }
        let fault = self.fault_of(node);
        // This state does not end by itself, as a quarantine does.
        let failure = match self.admission.node_state(node) {
            NodeState::SeveralServers => Failure::Error,
            _ => Failure::NotAdmitted,
        };
        Err(Undelivered { failure, fault })
    }

    /// The reason why the node's answers do not count for held locks, if they do not.
    pub(super) fn not_serving(&self, node: usize) -> Option<NodeFault> {
        if self.admission.serves_holders(node) {
            return None;
        }
        if self.admission.waits_for_old_master(node) {
            let what = format!(
                "it was promoted, and does not count for held locks in its first {}, since its old master may grant them to \
                 others; a majority of the other nodes must be up: see {MASTERS_WITH_REPLICAS}",
                exact(OLD_MASTER_WRITES)
            );
            return Some(NodeFault::new(&self.names[node], what));
        }
        Some(self.refusals[node].clone().unwrap_or_else(|| self.fault_of(node)))
    }

    /// The fault that makes the node unusable. A quarantine is no such fault, nor is a node that is not known well enough yet.
    pub(super) fn problem(&self, node: usize) -> Option<NodeFault> {
        match self.admission.node_state(node) {
            NodeState::Admitted | NodeState::Quarantined(_) => None,
            NodeState::Unknown => self.refusals[node].clone(),
            NodeState::Foreign(_)
            | NodeState::Twin(_)
            | NodeState::SeveralServers
            | NodeState::Replica
            | NodeState::Cluster => Some(self.fault_of(node)),
        }
    }

    /// The faults of the nodes because of which no lock may be taken on any node, if there are such nodes.
    pub(super) fn conflict(&self) -> Option<Vec<NodeFault>> {
        self.admission.conflict()?;
        let faults = (0..self.names.len()).filter_map(|node| {
            let node_state = self.admission.node_state(node);
            matches!(node_state, NodeState::Foreign(_) | NodeState::Twin(_))
                .then(|| NodeFault::new(&self.names[node], self.what(node, &node_state)))
        });
        Some(faults.collect())
    }

    /// The reasons why the nodes in quarantine do not grant.
    pub(super) fn quarantined(&self) -> Vec<NodeFault> {
        let quarantined = (0..self.names.len())
            .filter(|node| matches!(self.admission.node_state(*node), NodeState::Quarantined(_)));
        quarantined.map(|node| self.fault_of(node)).collect()
    }

    pub(super) fn fault_of(&self, node: usize) -> NodeFault {
        let node_state = self.admission.node_state(node);
        NodeFault::new(&self.names[node], self.what(node, &node_state))
    }

    fn others_are_admitted(&self, node: usize) -> bool {
        let mut others = (0..self.names.len()).filter(|other| *other != node);
        others.any(|other| self.admission.is_marked_admitted(other))
    }

    /// The meaning of a node's state, and what to do about it.
    pub(super) fn what(&self, node: usize, node_state: &NodeState) -> String {
        let key = ident::text(&self.key);
        match node_state {
            NodeState::Unknown if self.names.len() == 1 => {
                "it answers, and grants locks again as soon as its clock has been read once more; that \
                 takes a moment"
                    .to_owned()
            }
            NodeState::Unknown => {
                "it answers, but grants locks only once its clock and mark have been compared with those \
                 of a majority that grants; the nodes to repair are those that do not answer, and those in \
                 quarantine grant again by themselves"
                    .to_owned()
            }
            NodeState::Admitted => {
                "it grants no locks, because other nodes of the set have a problem".to_owned()
            }
            NodeState::Quarantined(why) => {
                let hint = match why {
                    Some(Forgot::Mark) if self.others_are_admitted(node) => format!(
                        "; if it has taken the place of another master, see {REPLACING_A_MASTER}"
                    ),
                    Some(Forgot::Promotion) => {
                        format!("; its old master must be gone, or stop: see {MASTERS_WITH_REPLICAS}")
                    }
                    _ => String::new(),
                };
                // Also for a client that found the quarantine, and does not know its reason.
                let longer = match self.admission.was_promoted(node) {
                    true => format!(
                        "; the quarantine of a promoted server lasts {} longer than {MAX_TTL}, since its old master may go on \
                         for a while",
                        exact(OLD_MASTER_WRITES)
                    ),
                    false => String::new(),
                };
                let why = match why {
                    Some(Forgot::Mark) => "it is new, or was emptied or restarted: it has no mark",
                    Some(Forgot::Flush) => "it was emptied (FLUSHALL), or its mark was deleted",
                    Some(Forgot::Run) => "it was restarted",
                    Some(Forgot::Clock) => "its clock was set forward",
                    Some(Forgot::Promotion) => {
                        "it was a replica, and was promoted, or a master with replicas, and was restarted"
                    }
                    None => "its mark says so",
                };
                format!("it is in quarantine, because it may have forgotten locks ({why}{longer}{hint})")
            }
            NodeState::Foreign(Some(theirs)) => {
                disagreement::told(self.admission.configuration(node), theirs, &key.to_string())
            }
            NodeState::Foreign(None) => format!(
                "this version of quorlock cannot read its key \"{key}\" as a mark, so clients \
                 of another version may hold locks there; run the same version in all clients. To change the \
                 version, stop all of them and delete the key on all nodes: {ANOTHER_CONFIGURATION}"
            ),
            NodeState::Twin(other) => format!(
                "it is the same server as {}; one server has one vote, so name it once",
                self.names[*other]
            ),
            NodeState::SeveralServers => disagreement::SEVERAL_SERVERS.to_owned(),
            NodeState::Replica => {
                "the server is a replica, not a master; name independent masters".to_owned()
            }
            NodeState::Cluster => "the server is part of a Redis Cluster, where a lock and the \
                                  node's mark would be on different servers; name independent masters"
                .to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;
    use crate::core::admission::{Identity, Offset, Probe, Role};

    /// The reason of a node's quarantine, as its clients tell it, once by the client that finds it and once by another client.
    fn told(promoted: bool) -> String {
        let configuration = Configuration {
            set_name: "default".to_owned(),
            nodes: 1,
            max_ttl: Duration::from_secs(10),
            clock_tolerance: Duration::from_millis(100),
            quarantine: true,
            index: None,
        };
        let names: Arc<[Arc<str>]> = Arc::new(["redis://a".into()]);
        let mut view = AdmissionView::new(b"mark".to_vec(), &names, &configuration, false);
        let now = clock::now();
        let probe = Probe {
            changed: false,
            role: Role::Master,
            identity: Identity::new(&"a".repeat(40), &"b".repeat(40)).expect("ids"),
            promoted,
            clock: Offset::new(1_795_238_850_000_000, now, now),
            mark: None,
        };
        view.seen(0, |admission| admission.probed(0, probe, now));
        let found = view.fault_of(0).what().to_owned();
        let by_mark = view.what(0, &NodeState::Quarantined(None));
        format!("{found}\n{by_mark}")
    }

    /// Users would wonder why it takes longer than `max_ttl`.
    #[test]
    fn the_longer_quarantine_of_a_promoted_node_is_explained() {
        let longer = "lasts 13 s longer than";
        assert_eq!(told(true).matches(longer).count(), 2, "{}", told(true));
        assert_eq!(told(false).matches(longer).count(), 0, "{}", told(false));
    }
}
