//! One call that ends the quarantines of a set early: on the word of its caller that no lock can be held, or if the nodes show it.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time};
use super::unused::{MayHaveForgotten, Past, may_have_forgotten};
use super::{Admission, Grants};

/// The call, step by step. A driver carries the steps out.
#[derive(Debug)]
pub(crate) struct AdmitCall {
    stage: Stage,
    /// True if the caller asserts that no lock is held: then any quarantine may end.
    on_word: bool,
    /// The longest time for the nodes to become known, and then for them to grant.
    patience: Duration,
    max_ttl: Duration,
    /// End of the present stage.
    until: Time,
    nodes: Vec<Node>,
}

/// The set's longest TTL, and the time for a stage of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmitTerms {
    pub(crate) max_ttl: Duration,
    pub(crate) patience: Duration,
}

impl AdmitTerms {
    /// The longest time of a stage beyond `max_ttl`. If clocks contradict each other, it takes until they no longer count. A
    /// node takes several probes, one second apart if an answer came too late to read its clock. The call waits for a node
    /// only while it neither grants nor has a fault.
    const BEYOND: Duration = Duration::from_secs(2);

    pub(crate) fn new(max_ttl: Duration, node_timeout: Duration) -> Self {
        let patience = node_timeout.saturating_mul(4).max(max_ttl + Self::BEYOND);
        Self { max_ttl, patience }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The nodes are to be known, for a proof by the nodes.
    Knowing,
    /// The nodes are to be scanned for locks.
    Scanning,
    /// Nodes that remember their locks are to be probed once more: one may have forgotten them before its scan.
    Confirming,
    /// Quarantines are ended, each once, and the nodes come to grant.
    Ending,
    /// The call has failed: the nodes are not one set of ours.
    NotOneSet,
    /// The call has failed: a lock may be held.
    InUse,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The quarantine that the proof is about, and the node's past.
    seen: Option<(u64, Past)>,
    /// The time for which it has kept all its keys, as it says itself; `None` if it was not scanned to its end.
    whole_for: Option<Duration>,
    /// True if it must be probed once more.
    is_doubted: bool,
    /// True once the call has ended its quarantine. That does not cover what the node forgets later.
    is_ordered: bool,
}

/// The next thing to do for an [`AdmitCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmitStep {
    /// Nothing before that time, unless the state of a node changes.
    Wait(Time),
    /// Scan all nodes for locks, and hand in the result: see [`AdmitCall::scanned`].
    Scan,
    /// Probe that node once more: see [`Admission::doubt`].
    Probe { node: usize },
    /// End that quarantine of that node: see [`Admission::admit`].
    End { node: usize, id: u64 },
    /// The call has failed: the nodes are not one set of ours.
    NotOneSet,
    /// The call has failed: a lock may be held, as [`AdmitCall::reasons`] says.
    InUse,
    /// The call is over: see [`AdmitCall::admitted`].
    Over,
}

impl AdmitCall {
    /// A call whose caller asserts that no lock is held.
    pub(crate) fn on_word(nodes: usize, terms: AdmitTerms, now: Time) -> Self {
        Self::new(true, nodes, terms, now)
    }

    /// A call that admits only if the nodes show that no lock can be held.
    pub(crate) fn if_unused(nodes: usize, terms: AdmitTerms, now: Time) -> Self {
        Self::new(false.if_off(Mechanism::AdmissionIsProven, true), nodes, terms, now)
    }

    fn new(on_word: bool, nodes: usize, terms: AdmitTerms, now: Time) -> Self {
        let stage = if on_word { Stage::Ending } else { Stage::Knowing };
        let AdmitTerms { max_ttl, patience } = terms;
        let (until, nodes) = (now.after(patience), vec![Node::default(); nodes]);
        Self { stage, on_word, patience, max_ttl, until, nodes }
    }

    /// Returns the next step. `is_down`: the node cannot be reached, or refuses to be probed, so it is not waited for.
    pub(crate) fn poll(
        &mut self,
        admission: &Admission,
        is_down: impl Fn(usize) -> bool,
        now: Time,
    ) -> AdmitStep {
        if admission.conflict().is_some() {
            self.stage = Stage::NotOneSet;
        }
        let count = self.nodes.len();
        let is_known = |node: usize| {
            let is_seen = admission.remembers(node, now) || admission.quarantine(node).is_some();
            is_seen || is_down(node)
        };
        loop {
            match self.stage {
                Stage::Knowing if now < self.until && !(0..count).all(is_known) => {
                    return AdmitStep::Wait(self.until);
                }
                Stage::Knowing => self.plan_proof(admission, now),
                Stage::Scanning => return AdmitStep::Scan,
                Stage::Confirming => {
                    let doubted = self.nodes.iter_mut();
                    let doubted = doubted.map(|node| &mut node.is_doubted).position(std::mem::take);
                    if let Some(node) = doubted {
                        return AdmitStep::Probe { node };
                    }
                    if now < self.until && !(0..count).all(is_known) {
                        return AdmitStep::Wait(self.until);
                    }
                    match self.reasons(admission, now).is_empty() {
                        true => self.begin(Stage::Ending, now),
                        false => self.stage = Stage::InUse,
                    }
                }
                Stage::Ending => return self.end(admission, is_down, now),
                Stage::NotOneSet => return AdmitStep::NotOneSet,
                Stage::InUse => return AdmitStep::InUse,
            }
        }
    }

    fn begin(&mut self, stage: Stage, now: Time) {
        (self.stage, self.until) = (stage, now.after(self.patience));
    }

    /// The nodes are known. Notes their quarantines before the scan: a node that forgets anything from now on gets another one.
    fn plan_proof(&mut self, admission: &Admission, now: Time) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            node.seen = admission.quarantine(i);
        }
        let grants = |node: usize| admission.grants(node) != Grants::Nothing;
        if self.nodes.iter().enumerate().any(|(i, node)| !grants(i) && node.seen.is_some()) {
            self.stage = Stage::Scanning;
        } else {
            // Nothing is proven, so nothing may be ended if a node grants no more from now on.
            self.nodes.iter_mut().for_each(|node| node.seen = None);
            self.begin(Stage::Ending, now);
        }
    }

    fn end(
        &mut self,
        admission: &Admission,
        is_down: impl Fn(usize) -> bool,
        now: Time,
    ) -> AdmitStep {
        let grants = |node: usize| admission.grants(node) != Grants::Nothing;
        let any = self.on_word.if_off(Mechanism::ProofsCoverSeenQuarantines, true);
        for (i, node) in self.nodes.iter_mut().enumerate() {
            let present = admission.quarantine(i).map(|(id, _)| id);
            let is_meant = any || node.seen.is_some_and(|(id, _)| present == Some(id));
            let is_due = is_meant && !node.is_ordered && !grants(i);
            if let Some(id) = present.filter(|_| is_due) {
                node.is_ordered = true;
                return AdmitStep::End { node: i, id };
            }
        }
        let is_over = now >= self.until || (0..self.nodes.len()).all(|i| grants(i) || is_down(i));
        if is_over { AdmitStep::Over } else { AdmitStep::Wait(self.until) }
    }

    /// The nodes were scanned. `whole_for`: the time for which a node has kept all its keys, as it says itself; `None` if it was
    /// not scanned to its end. `has_lock`: some node has a key of a lock.
    pub(crate) fn scanned(
        &mut self,
        admission: &Admission,
        whole_for: impl Fn(usize) -> Option<Duration>,
        has_lock: bool,
        now: Time,
    ) {
        for (i, node) in self.nodes.iter_mut().enumerate() {
            node.whole_for = whole_for(i);
            let is_doubted = admission.remembers(i, now);
            node.is_doubted = is_doubted.if_off(Mechanism::NodesAreProbedAfterScans, false);
        }
        self.begin(if has_lock { Stage::InUse } else { Stage::Confirming }, now);
    }

    /// Returns the nodes that may have forgotten a lock that is still held, by their scans and by what is known of them now.
    pub(crate) fn reasons(
        &self,
        admission: &Admission,
        now: Time,
    ) -> Vec<(usize, MayHaveForgotten)> {
        let reason = |(i, node): (usize, &Node)| {
            let past = match node.seen {
                _ if admission.remembers(i, now) => Past::Remembers,
                Some((_, past)) => past,
                None => Past::Unknown,
            };
            Some((i, may_have_forgotten(past, node.whole_for, self.max_ttl)?))
        };
        self.nodes.iter().enumerate().filter_map(reason).collect()
    }

    /// Returns the nodes whose quarantines the call has ended.
    pub(crate) fn admitted(&self, admission: &Admission) -> Vec<usize> {
        let grants = |node: &usize| admission.grants(*node) != Grants::Nothing;
        (0..self.nodes.len()).filter(|node| self.nodes[*node].is_ordered && grants(node)).collect()
    }
}
