//! A client's knowledge of the nodes that may grant locks: the machine of admission. The nodes' workers,
//! which probe, share it with the callers, which ask it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};

use super::admission_view::AdmissionView;
use super::job::Undelivered;
use super::looks::Looks;
use super::mailbox::Mailbox;
use super::recall::Recall;
use crate::clock;
use crate::core::admission::{
    Admission, AdmitCall, AdmitStep, Chance, ClockNews, Configuration, Grants, Identity, NextProbe,
    NodeState, Offset, Probe,
};
use crate::core::base::Time;
use crate::core::link::ClockVerdict;
use crate::core::vote::waits_for_a_try;
use crate::error::NodeFault;
use crate::observe;
use crate::random::random;
use crate::stats::NodeCondition;

/// Microseconds for which callers that have met leave the connections to the workers: one write for all requests is faster then.
const CROWDED_FOR_US: u64 = 2_000;

/// A client's view of a node, for figures.
pub(super) struct SeenNode {
    pub(super) condition: NodeCondition,
    pub(super) grants_in: Option<Duration>,
    pub(super) clock_ahead_us: Option<i64>,
}

/// All nodes of a client.
pub(crate) struct NodeSet {
    /// The key of the mark on each node.
    key: Vec<u8>,
    known: Mutex<AdmissionView>,
    /// The nodes' clocks at their last readings.
    clocks: Vec<Mutex<Option<Offset>>>,
    /// Notified under the mutex when a clock is read for the first time, and when a node is found to be down.
    first_heard: (Mutex<()>, Condvar),
    mailboxes: Vec<Arc<Mailbox>>,
    names: Arc<[Arc<str>]>,
    max_ttl: Duration,
    clock_tolerance: Duration,
    /// True if clients may fall back to the first node.
    ordered: bool,
    /// Number of callers that wait for the nodes; and the last time at which there were several, in microseconds of the lease clock.
    callers: AtomicUsize,
    crowded_at_us: AtomicU64,
    pub(super) looks: Looks,
    /// The recall for the caller that drives connections.
    pub(super) recall: Arc<Recall>,
    /// Number of callers that drive connections, and the events that wait meanwhile.
    drivers: AtomicUsize,
    events: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
    /// Number of suspensions of this machine; and a message when that grows.
    suspensions: AtomicU64,
    suspended: (Sender<()>, Receiver<()>),
}

impl NodeSet {
    /// Creates the set. If clients may fall back to the first node, places count (`ordered`).
    pub(crate) fn new(
        key: Vec<u8>,
        names: &Arc<[Arc<str>]>,
        configuration: &Configuration,
        ordered: bool,
    ) -> Arc<Self> {
        let known = AdmissionView::new(key.clone(), names, configuration, ordered);
        let recall = Arc::new(Recall::new());
        Arc::new(Self {
            key,
            known: Mutex::new(known),
            clocks: names.iter().map(|_| Mutex::default()).collect(),
            first_heard: (Mutex::new(()), Condvar::new()),
            mailboxes: names.iter().map(|_| Arc::new(Mailbox::new(&recall))).collect(),
            names: names.clone(),
            max_ttl: configuration.max_ttl,
            clock_tolerance: configuration.clock_tolerance,
            ordered,
            callers: AtomicUsize::new(0),
            crowded_at_us: AtomicU64::new(0),
            looks: Looks::new(),
            recall,
            drivers: AtomicUsize::new(0),
            events: Mutex::default(),
            suspensions: AtomicU64::new(0),
            suspended: bounded(1),
        })
    }

    pub(crate) fn mark_key(&self) -> &[u8] {
        &self.key
    }

    /// The node's clock at its last reading; `None` if it was never read.
    pub(super) fn clock(&self, node: usize) -> Option<Offset> {
        *self.clocks[node].lock()
    }

    pub(super) fn set_clock(&self, node: usize, clock: Offset) {
        let before = self.clocks[node].lock().replace(clock);
        if before.is_none() {
            self.tell_first_heard();
        }
    }

    /// Wakes the callers that wait for the nodes' clocks: see [`first_heard`](Self::first_heard).
    pub(super) fn tell_first_heard(&self) {
        let (mutex, changed) = &self.first_heard;
        drop(mutex.lock());
        changed.notify_all();
    }

    /// Returns the condition, with its mutex, that is notified when a node's clock is read for the first time, and when a
    /// node is found to be down.
    pub(crate) fn first_heard(&self) -> &(Mutex<()>, Condvar) {
        &self.first_heard
    }

    /// Hands in the node's clock, which was read with the answers to a batch. Returns the verdict on the locks
    /// that the node has granted in these answers.
    pub(super) fn read_clock(&self, node: usize, clock: Offset) -> ClockVerdict {
        self.set_clock(node, clock);
        let mut known = self.known.lock();
        let verdict = known.admission.read(node, clock);
        let news = known.admission.take_clock_news();
        drop(known);
        self.tell_of_clocks(&news);
        verdict
    }

    /// The time when the node's clock was last found to be set forward.
    pub(super) fn ahead_at(&self, node: usize) -> Option<Time> {
        self.known.lock().admission.ahead_at(node)
    }

    fn tell_of_clocks(&self, news: &[ClockNews]) {
        if news.is_empty() {
            return;
        }
        for one in news {
            match *one {
                ClockNews::Doubt => {}
                ClockNews::Set(node, step) => {
                    let (name, max_ttl) = (self.names[node].clone(), self.max_ttl);
                    self.tell(move || observe::clock_was_set(&name, step, max_ttl));
                }
                ClockNews::Suspended(by) => {
                    self.suspensions.fetch_add(1, Ordering::SeqCst);
                    self.tell(move || observe::suspended(by));
                    // If the channel is full, a message is about to be taken.
                    let _ = self.suspended.0.try_send(());
                }
            }
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
    }

    /// Number of suspensions of this machine. A lease from before a suspension is worth nothing.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions.load(Ordering::SeqCst)
    }

    /// Returns a channel that gets a message when that number grows.
    pub(crate) fn suspended(&self) -> Receiver<()> {
        self.suspended.1.clone()
    }

    /// Largest step by which a node's clock may be set forward without harm.
    pub(super) fn clock_tolerance(&self) -> Duration {
        self.clock_tolerance
    }

    /// The mailbox of the node's worker.
    pub(super) fn mailbox(&self, node: usize) -> &Arc<Mailbox> {
        &self.mailboxes[node]
    }

    /// Reports an event. While a caller drives connections, a worker does so later: a subscriber may take locks itself, or be slow.
    pub(super) fn tell(&self, event: impl FnOnce() + Send + 'static) {
        let mut events = self.events.lock();
        if self.drivers.load(Ordering::SeqCst) == 0 && events.is_empty() {
            drop(events);
            event();
        } else {
            events.push_back(Box::new(event));
        }
    }

    /// Reports the waiting events, on a thread that drives no connection.
    pub(super) fn tell_events(&self) {
        while let Some(event) = { self.events.lock().pop_front() } {
            event();
        }
    }

    /// Notes that a caller begins to drive connections.
    pub(super) fn driver_comes(&self) {
        self.drivers.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that a caller drives connections no longer. A worker reports the events that have waited.
    pub(super) fn driver_leaves(&self) {
        self.drivers.fetch_sub(1, Ordering::SeqCst);
        if !self.events.lock().is_empty() {
            self.mailboxes.iter().take(1).for_each(|mailbox| mailbox.wake());
        }
    }

    /// Notes that a caller begins to ask the nodes, and to wait for them. Returns true if it is alone, and was a moment ago.
    pub(super) fn caller_comes(&self) -> bool {
        if self.callers.fetch_add(1, Ordering::AcqRel) > 0 {
            self.crowded_at_us.store(clock::now().in_us(), Ordering::Relaxed);
            return false;
        }
        !self.is_crowded()
    }

    /// Notes that a caller waits for the nodes no longer.
    pub(super) fn caller_leaves(&self) {
        self.callers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if several callers wait for the nodes at once, or did a moment ago.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded_at = self.crowded_at_us.load(Ordering::Relaxed);
        clock::now().in_us().saturating_sub(crowded_at) < CROWDED_FOR_US
    }

    /// Returns true if attempts to take a lock wait for a try to connect while the node is down.
    pub(super) fn waits_for_a_try(&self, node: usize) -> bool {
        waits_for_a_try(node, self.ordered)
    }

    /// Notes that the connection to the node is gone.
    pub(super) fn lost(&self, node: usize) {
        let mut known = self.known.lock();
        known.admission.lost(node);
        known.refusals[node] = None;
    }

    /// Notes that the knowledge of the node does not hold any more: see `Admission::doubt`.
    pub(super) fn doubt(&self, node: usize, mark: Option<&str>) {
        self.known.lock().admission.doubt(node, mark);
    }

    /// Notes that the node has forgotten its data: if it counts as settled, that is in doubt now.
    pub(super) fn has_forgotten(&self, node: usize) {
        let mut known = self.known.lock();
        if known.admission.settled_until(node).is_some() {
            known.admission.doubt(node, None);
        }
    }

    /// Returns the time until which nothing must be asked about the node: see `Admission::settled_until`.
    pub(super) fn settled_until(&self, node: usize) -> Option<Time> {
        self.known.lock().admission.settled_until(node)
    }

    /// The next step about the node.
    pub(super) fn next(&self, node: usize, now: Time) -> NextProbe {
        let mut known = self.known.lock();
        let chance = Chance { id: random(), jitter: random() };
        let set_time = known.admission.set_time(now);
        known.admission.next(node, now, set_time, chance)
    }

    /// Hands in the node's answer to a probe.
    pub(super) fn probed(&self, node: usize, probe: Probe, now: Time) {
        let clock = probe.clock;
        self.seen(node, clock, now, |admission| admission.probed(node, probe, now));
    }

    /// Applies `seen`, which hands in an observation of the node. `clock` was read along with that.
    fn seen(&self, node: usize, clock: Offset, now: Time, seen: impl FnOnce(&mut Admission)) {
        let mut known = self.known.lock();
        let changed = known.seen(node, seen);
        // The clock is set only now: a caller that waits for the nodes' clocks asks for the set's time next.
        self.set_clock(node, clock);
        let set_time = known.admission.set_time(now);
        let clock_news = known.admission.take_clock_news();
        let news = known.news();
        let ready_in = known.admission.ready_in(now, set_time);
        drop(known);
        self.tell_of_clocks(&clock_news);
        self.tell_of_nodes(news, ready_in);
        if changed {
            // The other nodes may have been waiting for the last answer.
            let others = self.mailboxes.iter().enumerate().filter(|(other, _)| *other != node);
            others.for_each(|(_, mailbox)| mailbox.wake());
        }
    }

    /// Returns true if that server is the one that the last probe has shown: see `Admission::is_still_there`.
    pub(super) fn is_still_there(&self, node: usize, server: &Identity) -> bool {
        self.known.lock().admission.is_still_there(node, server)
    }

    /// Returns true if that server is not the one that the last probe has shown: see `Admission::is_another_server`.
    pub(super) fn is_another_server(&self, node: usize, run_id: &str) -> bool {
        self.known.lock().admission.is_another_server(node, run_id)
    }

    /// Hands in a probe over another connection to the node.
    pub(super) fn sighted(&self, node: usize, probe: &Probe, now: Time) {
        let mut known = self.known.lock();
        known.admission.sighted(node, probe);
        let set_time = known.admission.set_time(now);
        let (news, ready_in) = (known.news(), known.admission.ready_in(now, set_time));
        drop(known);
        // If it is another server, the worker checks if its own one is still there.
        self.mailboxes[node].wake();
        self.tell_of_nodes(news, ready_in);
    }

    /// Returns true if another connection must look now which server answers, and the time of the next look: see `Admission::looks`.
    pub(super) fn looks(&self, node: usize, now: Time) -> (bool, Time) {
        self.known.lock().admission.looks(node, now, random())
    }

    fn tell_of_nodes(&self, news: Vec<(NodeState, NodeFault)>, ready_in: Option<Duration>) {
        for (node_state, fault) in news {
            match node_state {
                NodeState::Admitted => self.tell(move || observe::admitted(fault.node())),
                NodeState::Quarantined(_) => {
                    let max_ttl = self.max_ttl;
                    self.tell(move || observe::quarantined(&fault, ready_in, max_ttl));
                }
                NodeState::Foreign(_) | NodeState::Twin(_) => {
                    self.tell(move || observe::conflict(&fault));
                }
                NodeState::SeveralServers => self.tell(move || observe::several_servers(&fault)),
                // The connection to such a node ends, which is reported.
                NodeState::Unknown | NodeState::Replica | NodeState::Cluster => {}
            }
        }
    }

    /// Notes that the node refuses to be probed, or to have its mark changed.
    pub(super) fn refused(&self, node: usize, fault: NodeFault) {
        self.known.lock().refusals[node] = Some(fault);
    }

    /// The fault of a node that is no master, by its last probe.
    pub(super) fn no_master(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().no_master(node)
    }

    /// The mark under which the node grants locks to us now; empty if no mark is compared.
    pub(super) fn mark(&self, node: usize) -> Result<String, Undelivered> {
        self.known.lock().mark(node)
    }

    /// The reason why the node's answers do not count for held locks, if they do not.
    pub(super) fn not_serving(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().not_serving(node)
    }

    /// The fault that makes the node unusable. A quarantine is no such fault, nor is a node that is not known well enough yet.
    pub(super) fn problem(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().problem(node)
    }

    /// The faults of the nodes because of which no lock may be taken on any node, if there are such nodes.
    pub(crate) fn conflict(&self) -> Option<Vec<NodeFault>> {
        self.known.lock().conflict()
    }

    /// Time until a majority will grant locks: see `Admission::ready_in`.
    pub(crate) fn ready_in(&self, now: Time) -> Option<Duration> {
        let known = self.known.lock();
        known.admission.ready_in(now, known.admission.set_time(now))
    }

    /// The set's time and the time that several clocks have reached, for the numbers of locks: see
    /// `Admission::time_us` and `Admission::time_of_several_us`.
    pub(crate) fn times_us(&self, now: Time) -> (Option<i64>, Option<i64>) {
        let admission = &self.known.lock().admission;
        (admission.time_us(now, self.ordered), admission.time_of_several_us(now))
    }

    /// The client's view of the node, for figures.
    pub(super) fn seen_of(&self, node: usize, now: Time) -> SeenNode {
        let known = self.known.lock();
        let admission = &known.admission;
        let state = admission.node_state(node);
        let grants_in = match admission.grants(node) {
            Grants::Always | Grants::Under(_) => Some(Duration::ZERO),
            Grants::Nothing => {
                let set_time = admission.set_time(now);
                admission.grants_in(node, now, set_time).filter(|left| !left.is_zero())
            }
        };
        let clock_ahead_us = admission.clock_ahead_us(node, now);
        drop(known);
        let condition = match state {
            NodeState::Unknown => NodeCondition::Unknown,
            NodeState::Admitted => NodeCondition::Admitted,
            NodeState::Quarantined(_) => NodeCondition::Quarantined,
            NodeState::Foreign(_) => NodeCondition::OtherSettings,
            NodeState::Twin(_) => NodeCondition::SameServer,
            NodeState::SeveralServers => NodeCondition::SeveralServers,
            NodeState::Replica => NodeCondition::Replica,
            NodeState::Cluster => NodeCondition::Cluster,
        };
        SeenNode { condition, grants_in, clock_ahead_us }
    }

    /// Returns true if the node grants locks to us.
    pub(crate) fn grants(&self, node: usize) -> bool {
        self.known.lock().admission.grants(node) != Grants::Nothing
    }

    /// The reasons why the nodes in quarantine do not grant.
    pub(crate) fn quarantined(&self) -> Vec<NodeFault> {
        self.known.lock().quarantined()
    }

    /// The fault with which the node refuses to be probed, if it does.
    pub(crate) fn refusal(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().refusals[node].clone()
    }

    /// Returns the next step of a call that ends quarantines: see `AdmitCall::poll`; and the faults because of which the nodes are
    /// not one set, if they are not.
    pub(crate) fn poll_admit_call(
        &self,
        call: &mut AdmitCall,
        is_down: impl Fn(usize) -> bool,
        now: Time,
    ) -> (AdmitStep, Vec<NodeFault>) {
        // Both need the mutex of the set.
        let is_down: Vec<_> = (0..self.mailboxes.len()).map(is_down).collect();
        let known = self.known.lock();
        let step = call.poll(&known.admission, |node| is_down[node], now);
        (step, known.conflict().unwrap_or_default())
    }

    pub(crate) fn with_admission<R>(&self, of: impl FnOnce(&Admission) -> R) -> R {
        of(&self.known.lock().admission)
    }

    /// Ends the quarantine `id` of the node: see `Admission::admit`.
    pub(crate) fn admit(&self, node: usize, id: u64) {
        self.known.lock().admission.admit(node, id);
        self.mailboxes[node].wake();
    }

    /// Has the node probed once more. Until then it grants nothing.
    pub(crate) fn probe_again(&self, node: usize) {
        self.known.lock().admission.doubt(node, None);
        self.mailboxes[node].wake();
    }
}
