//! Admission: a node may grant locks only if it cannot have forgotten one.
//!
//! A node that restarted, was flushed or promoted may have forgotten locks that are still held. It grants nothing to newcomers
//! until the longest of them has ended: it is in quarantine. Each node says in its **mark** whether it is in quarantine. All
//! clients read and write the mark by the same rules. Every change names the value that it replaces, so that no client undoes the
//! change of another one.
//!
//! This module decides which nodes' grants count, and what follows from the nodes' clocks. It knows nothing of locks and callers.

use std::time::Duration;

use super::base::{Mechanism, Rule, Time, majority};
use mark::{Mark, MarkState};
use set_time::SetTime;
pub(crate) use unused::{MayHaveForgotten, Past};

mod admit_call;
#[cfg(test)]
#[path = "tests/admit_call.rs"]
mod admit_call_tests;
#[cfg(test)]
#[path = "tests/begins.rs"]
mod begins_tests;
mod clock;
#[cfg(test)]
#[path = "tests/clock.rs"]
mod clock_tests;
mod clock_tracker;
pub(crate) mod clocks;
mod comparison;
#[cfg(test)]
#[path = "tests/fallen_behind.rs"]
mod fallen_behind_tests;
#[cfg(test)]
#[path = "tests/lies.rs"]
mod lies_tests;
pub(crate) mod mark;
#[cfg(test)]
#[path = "tests/model.rs"]
mod model;
#[cfg(test)]
#[path = "tests/mutations.rs"]
mod mutations;
mod node;
mod node_clock;
pub(crate) mod old_master;
mod probe;
mod quarantine;
#[cfg(test)]
#[path = "tests/search.rs"]
mod search;
mod servers;
pub(crate) mod set_time;
#[cfg(test)]
#[path = "tests/machine.rs"]
mod tests;
mod unused;
#[cfg(test)]
#[path = "tests/witnesses.rs"]
mod witnesses_tests;

pub(crate) use admit_call::{AdmitCall, AdmitStep, AdmitTerms};
pub(crate) use clock_tracker::ClockStep;
pub(crate) use clocks::{Offset, worth_waiting};
pub(crate) use mark::{Configuration, Difference, Identity, Setting};
use node::{Knowledge, Seen};
pub(crate) use node_clock::ClockNews;
use probe::ProbeJudgement;
pub(crate) use probe::{Change, Forgot, NextProbe, Probe, Role};

/// Random values for one call of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    /// The id of a quarantine that begins; any number.
    pub(crate) id: u64,
    /// In `0.0..1.0`.
    pub(crate) jitter: f64,
}

/// The requests of this client that a node grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grants<'a> {
    /// None: nothing that would take a lock may be sent to the node.
    Nothing,
    /// Those that come with this mark.
    Under(&'a str),
    /// All of them: there is no quarantine in this set.
    Always,
}

/// The state of a node, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// It has not been probed since it was last reached, or must be probed again.
    Unknown,
    Admitted,
    /// It may have forgotten locks; with the reason, if this client has seen it.
    Quarantined(Option<Forgot>),
    /// Clients with another configuration use it; `None` if not even their mark can be read.
    Foreign(Option<Configuration>),
    /// It is the same server as that node.
    Twin(usize),
    /// Several servers answer under its address.
    SeveralServers,
    Replica,
    Cluster,
}

/// One client's knowledge of a set of nodes, and the probes that it must make.
#[derive(Debug)]
pub(crate) struct Admission {
    nodes: Vec<Knowledge>,
    max_ttl: Duration,
    quarantine: bool,
    /// The step by which a clock may be set forward without harm: every validity allows for it.
    clock_tolerance: Duration,
    /// The time at which a clock was last not where it was expected. Earlier readings of the other clocks say nothing.
    doubt: Option<Time>,
    /// True once this doubt was reported as a suspension of our own machine.
    suspended: bool,
    clock_news: Vec<ClockNews>,
}

impl Admission {
    /// Returns a machine that knows no node yet. Where clients may fall back to the first node (`ordered`), the nodes are told
    /// apart by their places.
    pub(crate) fn new(configuration: &Configuration, ordered: bool) -> Self {
        let at = |node| {
            let index = ordered.then_some(node);
            Knowledge::new(Configuration { index, ..configuration.clone() })
        };
        Self {
            nodes: (0..configuration.nodes).map(at).collect(),
            max_ttl: configuration.max_ttl,
            quarantine: configuration.quarantine,
            clock_tolerance: configuration.clock_tolerance,
            doubt: None,
            suspended: false,
            clock_news: Vec::new(),
        }
    }

    /// Handles a node's answer to a probe.
    pub(crate) fn probed(&mut self, node: usize, probe: Probe, now: Time) {
        let clock = probe.clock;
        self.nodes[node].probed(probe, now);
        self.read(node, clock);
        self.note_drift(node, now);
        self.find_wrong_marks(now);
        self.drop_orders_in_conflict();
    }

    /// Returns true if `server`, which has just answered over the connection to `node`, is the one that the last probe has shown.
    /// Otherwise the connection is at its end: a proxy has kept it open, and the other server may have forgotten locks.
    pub(crate) fn is_still_there(&self, node: usize, server: &Identity) -> bool {
        let seen = self.nodes[node].seen.as_ref();
        let is_same = seen.is_some_and(|seen| seen.probe.identity == *server);
        is_same.if_off(Mechanism::RelayedConnectionsEnd, true)
    }

    /// Returns true if the last probe of `node` has shown another server than that, to which a connection for messages leads. That
    /// one does not announce the releases of this node.
    pub(crate) fn is_another_server(&self, node: usize, run_id: &str) -> bool {
        let seen = self.nodes[node].seen.as_ref();
        let is_another = seen.is_some_and(|seen| seen.probe.identity.run_id() != run_id);
        is_another.if_off(Mechanism::OtherServersAreLeft, false)
    }

    /// Handles the answer over another connection to the node, which shows the server to which that connection leads.
    pub(crate) fn sighted(&mut self, node: usize, probe: &Probe) {
        self.nodes[node].servers.sighted(probe);
    }

    /// Returns true if another connection must now check which server answers at `node`, and the time of the next such check.
    /// `random` is in `0.0..1.0`.
    pub(crate) fn looks(&mut self, node: usize, now: Time, random: f64) -> (bool, Time) {
        self.nodes[node].servers.looks(now, random)
    }

    /// Handles the loss of a node, which cannot be reached any more. Another server may come back in its place.
    pub(crate) fn lost(&mut self, node: usize) {
        self.nodes[node].seen = None;
        self.nodes[node].clock.note_sent = None;
        self.nodes[node].servers.lost();
    }

    /// Handles a sign that the node does not take `mark` for its own any more. `None`: the node has said that it is no master, or
    /// has forgotten what it must know. The node must be probed, unless a later probe has shown another mark.
    pub(crate) fn doubt(&mut self, node: usize, mark: Option<&str>) {
        let known = self.nodes[node].seen.as_ref().and_then(|seen| seen.probe.mark.as_deref());
        if mark.is_none_or(|mark| known == Some(mark)) {
            self.nodes[node].doubted = true;
        }
    }

    /// Returns the quarantine in which the node was seen, if any, and what is known of the node's past.
    pub(crate) fn quarantine(&self, node: usize) -> Option<(u64, Past)> {
        self.nodes[node].quarantine()
    }

    /// Ends the quarantine `id` now, since no lock can be held that this node has forgotten. A later quarantine is not ended, nor
    /// any while the nodes are not one set.
    pub(crate) fn admit(&mut self, node: usize, id: u64) {
        self.nodes[node].by_order = Some(id);
        self.drop_orders_in_conflict();
    }

    /// An order would outlast the conflict, and what it rests on may be wrong.
    fn drop_orders_in_conflict(&mut self) {
        if self.conflict().is_some() && Mechanism::ConflictsEndOrders.is_on() {
            self.nodes.iter_mut().for_each(|known| known.by_order = None);
        }
    }

    /// Returns each node's state, whether it grants locks, and whether its mark says where its clock is. One node's answer may
    /// change these for users of the other nodes.
    pub(crate) fn known_to_all(&self) -> Vec<(NodeState, bool, bool)> {
        let known = |node: usize| {
            let grants = self.grants(node) != Grants::Nothing;
            (self.node_state(node), grants, self.nodes[node].clock.noted.is_some())
        };
        (0..self.nodes.len()).map(known).collect()
    }

    /// Returns the time until which `node` needs nothing, if it does not change. It must be probed again then.
    pub(crate) fn settled_until(&self, node: usize) -> Option<Time> {
        let known = &self.nodes[node];
        let admitted = ProbeJudgement::Ours(MarkState::Admitted);
        let is_admitted = known.seen.as_ref().is_some_and(|seen| seen.judgement == admitted);
        let is_certain = !known.doubted && known.clock.steady && !known.is_another_server_there();
        (is_admitted && is_certain && self.is_fresh(node)).then(|| self.probe_due(node))
    }

    /// Returns the configuration that the mark of `node` must state for this client to use it.
    pub(crate) fn configuration(&self, node: usize) -> &Configuration {
        &self.nodes[node].configuration
    }

    /// Returns the next step for `node` at `now`. Its answer changes when anything is handed in for any node, and when `set_time`
    /// becomes known.
    pub(crate) fn next(
        &mut self,
        node: usize,
        now: Time,
        set_time: Option<SetTime>,
        chance: Chance,
    ) -> NextProbe {
        let known = &self.nodes[node];
        let certain = !known.doubted && self.is_fresh(node);
        let Some(seen) = known.seen.as_ref().filter(|_| certain) else {
            return NextProbe::Ask(None);
        };
        if !Mechanism::ChangesNameTheOldValue.is_on()
            && let Some(new) = known.asked_for.clone().filter(|_| !seen.probe.changed)
        {
            return self.change(node, new);
        }
        let (change, due) = match &seen.judgement {
            ProbeJudgement::Ours(MarkState::Admitted) if known.clock.steady => {
                let is_due = known.is_another_server_there();
                let due = if is_due { now } else { self.probe_due(node) };
                return if due <= now { NextProbe::Ask(None) } else { NextProbe::Wait(due) };
            }
            ProbeJudgement::Ours(MarkState::Admitted) => {
                let due = [self.in_doubt_until(node), self.reading_due(node)];
                (None, due.into_iter().flatten().min())
            }
            ProbeJudgement::Replica | ProbeJudgement::Cluster | ProbeJudgement::Foreign(_) => {
                (None, None)
            }
            ProbeJudgement::Forgetful(_) => (Some(self.begun(chance.id)), None),
            ProbeJudgement::Renamed(state) | ProbeJudgement::Moved(state) => (Some(*state), None),
            ProbeJudgement::Ours(MarkState::Quarantined { until_ms, id }) => {
                self.next_of_quarantine(known, *until_ms, *id, now, set_time, chance)
            }
        };
        match change.filter(|_| self.may_write() && !self.has_several_servers(node)) {
            Some(state) => {
                let anew = matches!(
                    seen.judgement,
                    ProbeJudgement::Forgetful(_) | ProbeJudgement::Moved(_)
                );
                let noted = known.clock.noted.filter(|_| !anew);
                match noted.or_else(|| self.new_note(node, now)) {
                    Some(noted) => {
                        let mark = known.mark(&seen.probe, noted, state);
                        // Only the first time counts: the others wait once for a node that takes no mark, however often it is
                        // asked.
                        self.nodes[node].clock.note_sent.get_or_insert(now);
                        self.change(node, mark.to_string())
                    }
                    None => seen.again(None, now),
                }
            }
            None => seen.again(due, now),
        }
    }

    /// Returns the requests of this client that `node` grants.
    pub(crate) fn grants(&self, node: usize) -> Grants<'_> {
        let known = &self.nodes[node];
        let Some(seen) = &known.seen else { return Grants::Nothing };
        if self.conflict_for(node).is_some() || self.has_several_servers(node) {
            return Grants::Nothing;
        }
        match &seen.judgement {
            judgement if !self.quarantine && judgement.is_readable() => Grants::Always,
            ProbeJudgement::Ours(MarkState::Admitted) => {
                let is_certain = !known.doubted && known.clock.steady;
                let mark = seen.probe.mark.as_deref().filter(|_| is_certain);
                let grants = mark.map_or(Grants::Nothing, Grants::Under);
                grants.if_off(Mechanism::MarkIsCompared, Grants::Always)
            }
            _ => Grants::Nothing,
        }
    }

    /// Returns true if held locks may be extended and repaired on `node`, and its answers count for them.
    ///
    /// A node in quarantine serves holders, too: while a lease is valid, the node cannot have forgotten a later lock of that
    /// name. Otherwise a holder would lose its lock to the very restarts that must not break it. But one server has one vote, one
    /// name has one server, and a replica has no vote.
    ///
    /// A promoted server does not serve holders while its old master may take writes. In a partition, the keys of a holder on the
    /// other side end, and the old master grants the lock there.
    pub(crate) fn serves_holders(&self, node: usize) -> bool {
        if self.waits_for_old_master(node) {
            return false;
        }
        match self.node_state(node) {
            NodeState::Admitted | NodeState::Foreign(_) => true,
            NodeState::Quarantined(_) => true.if_off(Mechanism::HoldersInQuarantine, false),
            NodeState::Unknown => self.nodes[node].seen.is_some(),
            NodeState::Twin(_)
            | NodeState::SeveralServers
            | NodeState::Replica
            | NodeState::Cluster => false,
        }
    }

    /// Returns true if the mark of `node` says that it grants locks, whether or not its clock is certain enough for that.
    pub(crate) fn is_marked_admitted(&self, node: usize) -> bool {
        let judgement = self.nodes[node].seen.as_ref().map(|seen| &seen.judgement);
        matches!(
            judgement,
            Some(
                ProbeJudgement::Ours(MarkState::Admitted)
                    | ProbeJudgement::Renamed(MarkState::Admitted)
                    | ProbeJudgement::Moved(MarkState::Admitted)
            )
        )
    }

    /// Returns true if the server of `node` was promoted: then its quarantine is longer than `max_ttl`.
    pub(crate) fn was_promoted(&self, node: usize) -> bool {
        self.nodes[node].was_promoted.if_off(Mechanism::PromotionsOutlastOldMasters, false)
    }

    /// Returns true if `node` has no vote yet for holders either: its server was promoted, and its old master may take writes.
    pub(crate) fn waits_for_old_master(&self, node: usize) -> bool {
        let waits = self.nodes[node].old_master_may_write && !self.is_marked_admitted(node);
        (waits && self.quarantine).if_off(Mechanism::HoldersOutlastOldMasters, false)
    }

    /// Returns the state of `node`.
    pub(crate) fn node_state(&self, node: usize) -> NodeState {
        let known = &self.nodes[node];
        let Some(seen) = &known.seen else { return NodeState::Unknown };
        if let Some(twin) = self.twin(node) {
            return NodeState::Twin(twin);
        }
        match &seen.judgement {
            ProbeJudgement::Replica => NodeState::Replica,
            ProbeJudgement::Cluster => NodeState::Cluster,
            ProbeJudgement::Foreign(theirs) => NodeState::Foreign(theirs.clone()),
            _ if self.has_several_servers(node) => NodeState::SeveralServers,
            _ if known.doubted => NodeState::Unknown,
            ProbeJudgement::Ours(MarkState::Admitted) if self.quarantine && !known.clock.steady => {
                NodeState::Unknown
            }
            ProbeJudgement::Forgetful(_) if !self.quarantine => NodeState::Admitted,
            ProbeJudgement::Forgetful(why) => NodeState::Quarantined(Some(*why)),
            ProbeJudgement::Renamed(state)
            | ProbeJudgement::Moved(state)
            | ProbeJudgement::Ours(state) => match state {
                MarkState::Admitted => NodeState::Admitted,
                MarkState::Quarantined { .. } => NodeState::Quarantined(known.forgot),
            },
        }
    }

    /// Returns a node whose state forbids taking locks anywhere: two configurations side by side, or one server with two votes,
    /// could make two holders of one lock.
    pub(crate) fn conflict(&self) -> Option<usize> {
        let forbids = |node: &usize| {
            matches!(self.node_state(*node), NodeState::Foreign(_) | NodeState::Twin(_))
        };
        (0..self.nodes.len()).find(forbids).if_off(Mechanism::ConfigurationIsOfTheSet, None)
    }

    /// Returns the time until a majority of the nodes grants locks. `None` if the nodes that grant, or that wait for nothing but
    /// the end of their quarantine, are too few. Where clients may fall back, the first node must grant as well, unless it cannot
    /// be reached.
    pub(crate) fn ready_in(&self, now: Time, set_time: Option<SetTime>) -> Option<Duration> {
        let wait_for = |node: usize| self.grants_in(node, now, set_time);
        let mut waits: Vec<_> = (0..self.nodes.len()).filter_map(wait_for).collect();
        waits.sort_unstable();
        let majority = waits.get(majority(self.nodes.len()) - 1).copied()?;
        let falls_back = self.nodes[0].configuration.index.is_some();
        Some(majority.max(wait_for(0).filter(|_| falls_back).unwrap_or_default()))
    }

    /// The time until `node` grants locks, if it waits for nothing but the end of its quarantine, or of a doubt about its clock.
    pub(crate) fn grants_in(
        &self,
        node: usize,
        now: Time,
        set_time: Option<SetTime>,
    ) -> Option<Duration> {
        if self.conflict().is_some() {
            return None;
        }
        let known = &self.nodes[node];
        let seen = known.seen.as_ref().filter(|_| !self.has_several_servers(node))?;
        let state = match &seen.judgement {
            ProbeJudgement::Renamed(state)
            | ProbeJudgement::Moved(state)
            | ProbeJudgement::Ours(state) => *state,
            ProbeJudgement::Forgetful(_) if self.quarantine => {
                return Some(self.quarantine_time(known));
            }
            judgement => return judgement.is_readable().then_some(Duration::ZERO),
        };
        match state {
            MarkState::Admitted => {
                Some(self.in_doubt_until(node).map_or(Duration::ZERO, |until| until.since(now)))
            }
            MarkState::Quarantined { until_ms, id } => {
                Some(self.left(known, until_ms, id, now, set_time))
            }
        }
    }

    /// Returns true if any mark may be written: the marks of a majority have been read, and no node is known to have another mark
    /// (of another configuration, or one that cannot be read), or to be a twin. Otherwise one node that comes back empty would
    /// let two configurations live side by side.
    fn may_write(&self) -> bool {
        let readable = |known: &Knowledge| {
            known.seen.as_ref().is_some_and(|seen| seen.judgement.is_readable())
        };
        let read = self.nodes.iter().filter(|known| readable(known)).count();
        let is_ours = read >= majority(self.nodes.len()) && self.conflict().is_none();
        is_ours.if_off(Mechanism::ConfigurationIsOfTheSet, true)
    }

    /// Returns the node whose conflict forbids `node` to grant.
    fn conflict_for(&self, node: usize) -> Option<usize> {
        let foreign = matches!(self.node_state(node), NodeState::Foreign(_));
        self.conflict().or_else(|| foreign.then_some(node))
    }

    /// Returns true if several servers answer at `node`: none of them knows the locks that another one grants.
    fn has_several_servers(&self, node: usize) -> bool {
        self.nodes[node].servers.are_several() && Mechanism::OneServerAnswers.is_on()
    }

    /// Returns the first other node that is the same run of a server, or was when it was last reached.
    fn twin(&self, node: usize) -> Option<usize> {
        let run_id = self.nodes[node].run_id.as_deref()?;
        (0..self.nodes.len())
            .find(|other| *other != node && self.nodes[*other].run_id.as_deref() == Some(run_id))
    }

    fn change(&mut self, node: usize, new: String) -> NextProbe {
        let known = &mut self.nodes[node];
        let Some(Seen { probe, .. }) = &known.seen else { return NextProbe::Ask(None) };
        known.asked_for = Some(new.clone());
        if let Some(MarkState::Quarantined { until_ms: None, id }) =
            Mark::parse(&new).map(|mark| mark.state)
        {
            known.begun = Some(id);
        }
        NextProbe::Ask(Some(Change { replaces: probe.mark.clone(), new }))
    }
}
