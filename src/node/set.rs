//! What a client knows of which nodes may grant locks: the machine of admission, shared by the nodes'
//! workers, which probe, and the callers, who want to know.

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
    Admission, Chance, Checked, ClockNews, Configuration, Grants, NextProbe, NodeState, Offset,
    Past, Probe,
};
use crate::core::base::Time;
use crate::core::link::ClockVerdict;
use crate::core::vote::waits_for_a_try;
use crate::error::NodeFault;
use crate::observe;
use crate::random::random;

/// Once callers have met, they leave the connections to the workers for so long: one write for whatever waits is faster then.
const CROWDED_FOR_US: u64 = 2_000;

/// All nodes of a client.
pub(crate) struct NodeSet {
    /// Where each node keeps its mark.
    key: Vec<u8>,
    known: Mutex<AdmissionView>,
    /// The nodes' clocks, as they were when they were last heard of.
    clocks: Vec<Mutex<Option<Offset>>>,
    /// Notified under the mutex when a clock is heard of for the first time, and when a node is found to be down.
    first_heard: (Mutex<()>, Condvar),
    mailboxes: Vec<Arc<Mailbox>>,
    names: Arc<[Arc<str>]>,
    max_ttl: Duration,
    clock_tolerance: Duration,
    /// Clients may fall back to the first node.
    ordered: bool,
    /// The callers that wait for the nodes; and when, in microseconds of the lease clock, there were last several.
    callers: AtomicUsize,
    crowded_at_us: AtomicU64,
    pub(super) looks: Looks,
    /// For the caller that drives connections.
    pub(super) recall: Arc<Recall>,
    /// The callers that drive connections, and the events that nobody was told meanwhile.
    drivers: AtomicUsize,
    events: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
    /// How often this machine was suspended; and a message when it did.
    suspensions: AtomicU64,
    suspended: (Sender<()>, Receiver<()>),
}

impl NodeSet {
    /// Where clients may fall back to the first node, places count (`ordered`).
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

    /// The node's clock, as it was when it was last heard of; `None` if it never was.
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

    /// Returns the condition, with its mutex, that is notified when a node's clock is heard of for the first time, and when a
    /// node is found to be down.
    pub(crate) fn first_heard(&self) -> &(Mutex<()>, Condvar) {
        &self.first_heard
    }

    /// The node's clock was read, with the answers to a batch. Whether the locks count that it has granted
    /// in these.
    pub(super) fn read_clock(&self, node: usize, clock: Offset) -> ClockVerdict {
        self.set_clock(node, clock);
        let mut known = self.known.lock();
        let verdict = known.admission.read(node, clock);
        let news = known.admission.take_clock_news();
        drop(known);
        self.tell_of_clocks(&news);
        verdict
    }

    /// When the node's clock was last found to be set forward.
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
                    // Full: it is about to be taken.
                    let _ = self.suspended.0.try_send(());
                }
            }
        }
        self.mailboxes.iter().for_each(|mailbox| mailbox.wake());
    }

    /// How often this machine was suspended, so that no lease of before is worth anything.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions.load(Ordering::SeqCst)
    }

    /// Gets a message when that has become more.
    pub(crate) fn suspended(&self) -> Receiver<()> {
        self.suspended.1.clone()
    }

    /// By how much a node's clock may be set forward without harm.
    pub(super) fn clock_tolerance(&self) -> Duration {
        self.clock_tolerance
    }

    /// What waits for the node's worker.
    pub(super) fn mailbox(&self, node: usize) -> &Arc<Mailbox> {
        &self.mailboxes[node]
    }

    /// Tells an event; later, by a worker, while a caller drives connections: a subscriber may take locks itself, or be slow.
    pub(super) fn tell(&self, event: impl FnOnce() + Send + 'static) {
        let mut events = self.events.lock();
        if self.drivers.load(Ordering::SeqCst) == 0 && events.is_empty() {
            drop(events);
            event();
        } else {
            events.push_back(Box::new(event));
        }
    }

    /// Tells the events that wait for that, on a thread that drives no connection.
    pub(super) fn tell_events(&self) {
        while let Some(event) = { self.events.lock().pop_front() } {
            event();
        }
    }

    /// A caller drives connections.
    pub(super) fn driver_comes(&self) {
        self.drivers.fetch_add(1, Ordering::SeqCst);
    }

    /// It does so no longer. A worker tells the events of meanwhile.
    pub(super) fn driver_leaves(&self) {
        self.drivers.fetch_sub(1, Ordering::SeqCst);
        if !self.events.lock().is_empty() {
            self.mailboxes.iter().take(1).for_each(|mailbox| mailbox.wake());
        }
    }

    /// A caller begins to ask the nodes, and to wait for them. Returns true if it is alone, and was a moment ago.
    pub(super) fn caller_comes(&self) -> bool {
        if self.callers.fetch_add(1, Ordering::AcqRel) > 0 {
            self.crowded_at_us.store(clock::now().in_us(), Ordering::Relaxed);
            return false;
        }
        !self.is_crowded()
    }

    /// It waits no longer.
    pub(super) fn caller_leaves(&self) {
        self.callers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns true if several callers wait for the nodes at once, or did a moment ago.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded_at = self.crowded_at_us.load(Ordering::Relaxed);
        clock::now().in_us().saturating_sub(crowded_at) < CROWDED_FOR_US
    }

    /// Whether attempts to take a lock wait for a try to connect while the node is down.
    pub(super) fn waits_for_a_try(&self, node: usize) -> bool {
        waits_for_a_try(node, self.ordered)
    }

    /// The connection to the node is gone.
    pub(super) fn lost(&self, node: usize) {
        let mut known = self.known.lock();
        known.admission.lost(node);
        known.refusals[node] = None;
    }

    /// What is known of the node does not hold any more: see `Admission::doubt`.
    pub(super) fn doubt(&self, node: usize, mark: Option<&str>) {
        self.known.lock().admission.doubt(node, mark);
    }

    /// The node has forgotten what it knew, whatever is known of it here.
    pub(super) fn has_forgotten(&self, node: usize) {
        let mut known = self.known.lock();
        if known.admission.settled_until(node).is_some() {
            known.admission.doubt(node, None);
        }
    }

    /// Returns the time until which nothing has to be asked about the node: see `Admission::settled_until`.
    pub(super) fn settled_until(&self, node: usize) -> Option<Time> {
        self.known.lock().admission.settled_until(node)
    }

    /// What to do about the node now.
    pub(super) fn next(&self, node: usize, now: Time) -> NextProbe {
        let mut known = self.known.lock();
        let chance = Chance { id: random(), jitter: random() };
        let set_time = known.admission.set_time(now);
        known.admission.next(node, now, set_time, chance)
    }

    /// The node has answered a probe.
    pub(super) fn probed(&self, node: usize, probe: Probe, now: Time) {
        let clock = probe.clock;
        self.seen(node, clock, now, |admission| admission.probed(node, probe, now));
    }

    /// The node has answered a check: see `Admission::checked`.
    pub(super) fn checked(&self, node: usize, checked: Checked, now: Time) {
        let hand_in = |admission: &mut Admission| admission.checked(node, checked, now);
        match checked {
            Checked::AsSeen(clock) => self.seen(node, clock, now, hand_in),
            Checked::Differs => hand_in(&mut self.known.lock().admission),
        }
    }

    /// `seen` hands in what was seen of the node, and of its clock along with that.
    fn seen(&self, node: usize, clock: Offset, now: Time, seen: impl FnOnce(&mut Admission)) {
        let mut known = self.known.lock();
        let changed = known.seen(node, seen);
        // Only now: a caller that waits for the nodes' clocks asks for the set's time next.
        self.set_clock(node, clock);
        let set_time = known.admission.set_time(now);
        let clock_news = known.admission.take_clock_news();
        let news = known.news();
        let ready_in = known.admission.ready_in(now, set_time);
        drop(known);
        self.tell_of_clocks(&clock_news);
        self.tell_of_nodes(news, ready_in);
        if changed {
            // The others may have been waiting for the last answer.
            let others = self.mailboxes.iter().enumerate().filter(|(other, _)| *other != node);
            others.for_each(|(_, mailbox)| mailbox.wake());
        }
    }

    /// Another connection to the node has shown that.
    pub(super) fn sighted(&self, node: usize, probe: &Probe, now: Time) {
        let mut known = self.known.lock();
        known.admission.sighted(node, probe);
        let set_time = known.admission.set_time(now);
        let (news, ready_in) = (known.news(), known.admission.ready_in(now, set_time));
        drop(known);
        // If it is another server, the worker asks whether its own one is still there.
        self.mailboxes[node].wake();
        self.tell_of_nodes(news, ready_in);
    }

    /// Returns true if another connection is to look now which server answers, and when that is due next: see `Admission::looks`.
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
                // Its connection ends for that, which is told.
                NodeState::Unknown | NodeState::Replica | NodeState::Cluster => {}
            }
        }
    }

    /// The node refuses to be probed, or to have its mark changed.
    pub(super) fn refused(&self, node: usize, fault: NodeFault) {
        self.known.lock().refusals[node] = Some(fault);
    }

    /// What is wrong with a node that is no master, as its last probe shows.
    pub(super) fn no_master(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().no_master(node)
    }

    /// The mark under which the node grants locks to us now; empty if no mark is compared.
    pub(super) fn mark(&self, node: usize) -> Result<String, Undelivered> {
        self.known.lock().mark(node)
    }

    /// Why the node's word does not count for locks that are held, if it does not.
    pub(super) fn not_serving(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().not_serving(node)
    }

    /// The fault for which the node cannot be used. Quarantine is none, nor is a node that is not known well enough yet.
    pub(super) fn problem(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().problem(node)
    }

    /// What is wrong with the nodes for whose sake no lock may be taken anywhere, if there are any.
    pub(crate) fn conflict(&self) -> Option<Vec<NodeFault>> {
        self.known.lock().conflict()
    }

    /// In how much time a majority will grant locks: see `Admission::ready_in`.
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

    /// Whether the node grants locks to us.
    pub(crate) fn grants(&self, node: usize) -> bool {
        self.known.lock().admission.grants(node) != Grants::Nothing
    }

    /// Returns true if the node has forgotten no lock: see `Admission::remembers`.
    pub(crate) fn remembers(&self, node: usize) -> bool {
        self.known.lock().admission.remembers(node, clock::now())
    }

    /// What keeps those nodes from granting that are in quarantine.
    pub(crate) fn quarantined(&self) -> Vec<NodeFault> {
        self.known.lock().quarantined()
    }

    /// Why the node refuses to be probed, if it does.
    pub(crate) fn refusal(&self, node: usize) -> Option<NodeFault> {
        self.known.lock().refusals[node].clone()
    }

    /// The quarantine that was seen of the node, if it is in one: see `Admission::quarantine`.
    pub(crate) fn quarantine(&self, node: usize) -> Option<(u64, Past)> {
        self.known.lock().admission.quarantine(node)
    }

    /// Ends that quarantine of the node: see `Admission::admit`.
    pub(crate) fn admit(&self, node: usize, id: u64) {
        self.known.lock().admission.admit(node, id);
        self.mailboxes[node].wake();
    }
}
