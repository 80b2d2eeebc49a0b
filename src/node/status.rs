//! The reachability of a node, as its worker last saw it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::clock;
use crate::core::base::rounded;
use crate::error::{Cause, NodeFault};
use crate::observe;

/// The status of a node, shared by the worker, which sets it, and the callers, which need not ask a node that is down.
#[derive(Debug)]
pub(super) struct Status {
    node: Arc<str>,
    reach: RwLock<Reach>,
    /// Time since which the worker has been waiting for the node, in microseconds of the lease clock; 0
    /// while it is not waiting.
    busy_since_us: AtomicU64,
    /// The number of connections that came up. If there were any, the node has let us use it before.
    connections: AtomicU64,
    /// True if the node has answered a script of ours before.
    has_served: AtomicBool,
    /// True while a look at its servers goes on.
    pub(super) looks: AtomicBool,
    /// True if it was reported that the server may drop keys.
    told_evicts: AtomicBool,
    /// Time limit of an answer of the node.
    timeout: Duration,
}

#[derive(Debug)]
enum Reach {
    /// The first connection is being made; requests wait for it.
    Connecting,
    Up,
    /// The last try failed, for that reason; requests fail at once.
    Down(NodeFault),
}

impl Status {
    pub(super) fn new(node: Arc<str>, timeout: Duration) -> Self {
        Self {
            node,
            reach: RwLock::new(Reach::Connecting),
            busy_since_us: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            has_served: AtomicBool::new(false),
            looks: AtomicBool::new(false),
            told_evicts: AtomicBool::new(false),
            timeout,
        }
    }

    pub(super) fn node(&self) -> &Arc<str> {
        &self.node
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(*self.reach.read(), Reach::Up)
    }

    /// The number of connections that came up.
    pub(super) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn is_not_down(&self) -> bool {
        !matches!(*self.reach.read(), Reach::Down(_))
    }

    /// The fault of the node, if it is down.
    pub(super) fn fault(&self) -> Option<NodeFault> {
        match &*self.reach.read() {
            Reach::Down(fault) => Some(fault.clone()),
            Reach::Connecting | Reach::Up => None,
        }
    }

    /// Notes that the worker begins to wait for the node, until [`idle`](Self::idle).
    pub(super) fn busy(&self) {
        self.busy_since_us.store(clock::now().in_us().max(1), Ordering::Relaxed);
    }

    pub(super) fn idle(&self) {
        self.busy_since_us.store(0, Ordering::Relaxed);
    }

    /// Reports, once, that the server may drop keys of locks by that policy.
    pub(super) fn evicts(&self, policy: &str) {
        if !self.told_evicts.swap(true, Ordering::Relaxed) {
            observe::evicts(&self.node, policy);
        }
    }

    /// Time for which the worker has been waiting for the node; `None` if it is not waiting.
    fn waiting_for(&self) -> Option<Duration> {
        let since = self.busy_since_us.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_micros(clock::now().in_us().saturating_sub(since)))
    }

    /// The reason why the node has not answered for as long as `waited`; `None` if it is up and the wait
    /// ended early, as the others had settled the matter (not `late`). If the caller had less time than a
    /// node has, the text does not blame the node.
    pub(super) fn silence(&self, waited: Duration, late: bool) -> Option<NodeFault> {
        // `waited` is counted from a moment after the call's own beginning.
        let its_time = self.timeout.mul_f64(0.9);
        let had_its_time = waited >= its_time;
        let waiting_for = self.waiting_for();
        let (waited_for, waited) = (waited, rounded(waited));
        let what = match &*self.reach.read() {
            Reach::Down(fault) => return Some(fault.clone()),
            _ if !late => return None,
            // The call had spent its time on other nodes before it came to ask this one.
            Reach::Up if waiting_for.is_none() => format!(
                "it answers, but the time of this call was over before it could be asked, after {waited}"
            ),
            // The node was free when the call began, and is asked something just now.
            Reach::Up if waiting_for.is_some_and(|busy| busy < waited_for / 2) => format!(
                "it answers, but did not answer this call within the time left, after {waited}"
            ),
            Reach::Up if waiting_for.is_some_and(|busy| busy >= its_time) => format!(
                "no answer after {waited}; the server hangs, is paused or is overloaded, or the network is cut"
            ),
            Reach::Connecting if had_its_time => format!(
                "no connection after {waited}; is its name resolved in time, is the host reachable, does the server hang or \
                 is it paused, and do the URL and the port agree on TLS?"
            ),
            Reach::Up => {
                format!("no answer before the time of this call was over, after {waited}")
            }
            Reach::Connecting => {
                format!("no connection before the time of this call was over, after {waited}")
            }
        };
        Some(NodeFault::new(&self.node, what))
    }

    /// The fault of a try to connect. A rejection for good must be repaired by hand, normally in the settings. If the node has let us
    /// use it before, the settings were right. Then somebody is changing the node's password or certificate, and the rejection
    /// passes.
    pub(super) fn not_connected(&self, fault: NodeFault) -> NodeFault {
        if !fault.is_for_good() || self.connections() == 0 {
            return fault;
        }
        let what = format!("{}; it let this client in before, and is tried again", fault.what());
        NodeFault::caused_by(Cause::Changing, &self.node, what)
    }

    /// Notes that the node has answered a script of ours, named by its hash, with something other than an error. A user may have the
    /// right to send sources, and not this one.
    pub(super) fn serves(&self) {
        // Only the first answer writes.
        if !self.has_served.load(Ordering::Relaxed) {
            self.has_served.store(true, Ordering::Relaxed);
        }
    }

    /// The fault of a request that was refused. A user who may run no scripts must be given that right. If the user had it before,
    /// somebody is changing it, and the refusal passes. A right that only some scripts or names need is another matter.
    pub(super) fn refused(&self, fault: NodeFault) -> NodeFault {
        if fault.cause() != Cause::NoScripts || !self.has_served.load(Ordering::Relaxed) {
            return fault;
        }
        let what = format!("{}; the user had it before, and the node is asked again", fault.what());
        NodeFault::caused_by(Cause::Changing, &self.node, what)
    }

    pub(super) fn set_up(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.reach.write(), Reach::Up);
        if !matches!(before, Reach::Up) {
            observe::node_up(&self.node);
        }
    }

    pub(super) fn set_down(&self, fault: NodeFault) {
        let before = std::mem::replace(&mut *self.reach.write(), Reach::Down(fault.clone()));
        if !matches!(before, Reach::Down(_)) {
            observe::node_down(&fault);
        }
    }
}
