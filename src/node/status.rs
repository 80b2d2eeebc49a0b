//! Whether a node can be reached, as its worker last saw it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use crate::clock;
use crate::core::base::rounded;
use crate::error::{Cause, NodeFault};
use crate::observe;

/// Shared by the worker, which sets it, and the callers, who need not ask a node that is down.
#[derive(Debug)]
pub(super) struct Status {
    node: Arc<str>,
    reach: RwLock<Reach>,
    /// Since when the worker has been waiting for the node, in microseconds of the lease clock; 0
    /// while it is not.
    busy_since_us: AtomicU64,
    /// The node has let us use it before.
    was_up: AtomicBool,
    /// It has answered a script of ours before.
    has_served: AtomicBool,
    /// A look at its servers goes on.
    pub(super) looks: AtomicBool,
    /// It was told that the server may drop keys.
    told_evicts: AtomicBool,
    /// How long a node has for an answer.
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
            was_up: AtomicBool::new(false),
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

    /// The server may drop keys of locks, by that policy. Told once.
    pub(super) fn evicts(&self, policy: &str) {
        if !self.told_evicts.swap(true, Ordering::Relaxed) {
            observe::evicts(&self.node, policy);
        }
    }

    /// For how long the worker has been waiting for the node; `None` if it is not.
    fn waiting_for(&self) -> Option<Duration> {
        let since = self.busy_since_us.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_micros(clock::now().in_us().saturating_sub(since)))
    }

    /// Why the node has not answered for as long as `waited`. That is no fault of the node if it was only
    /// as long as the others took to settle the matter (not `late`). Nor is it if the caller had less time
    /// than a node has.
    pub(super) fn silence(&self, waited: Duration, late: bool) -> Option<NodeFault> {
        // It is counted from a moment after the call's own beginning.
        let its_time = self.timeout.mul_f64(0.9);
        let had_its_time = waited >= its_time;
        let waiting_for = self.waiting_for();
        let (waited_for, waited) = (waited, rounded(waited));
        let what = match &*self.reach.read() {
            Reach::Down(fault) => return Some(fault.clone()),
            _ if !late => return None,
            // The call has spent its time on other nodes, before it came to ask this one.
            Reach::Up if waiting_for.is_none() => format!(
                "it answers, but the time of this call was over before it could be asked, after {waited}"
            ),
            // It was free when the call began, and is asked something just now.
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

    /// The fault of a try to connect. A rejection for good has to be put right by somebody, as a rule in the settings. If
    /// the node has let us use it before, the settings were right, and somebody is changing the node: a password or a
    /// certificate. That passes.
    pub(super) fn not_connected(&self, fault: NodeFault) -> NodeFault {
        if !fault.is_for_good() || !self.was_up.load(Ordering::Relaxed) {
            return fault;
        }
        let what = format!("{}; it let this client in before, and is tried again", fault.what());
        NodeFault::caused_by(Cause::Changing, &self.node, what)
    }

    /// It has answered a script of ours, named by its hash, with something other than an error. A user may have the right to send
    /// sources, and not this one.
    pub(super) fn serves(&self) {
        // Of all answers only the first one writes.
        if !self.has_served.load(Ordering::Relaxed) {
            self.has_served.store(true, Ordering::Relaxed);
        }
    }

    /// The fault of a request that was refused. A user who may run no scripts has to be given that right, unless he had it
    /// before: then somebody is changing it, and that passes. A right that only some scripts need, or some names, is another matter.
    pub(super) fn refused(&self, fault: NodeFault) -> NodeFault {
        if fault.cause() != Cause::NoScripts || !self.has_served.load(Ordering::Relaxed) {
            return fault;
        }
        let what = format!("{}; the user had it before, and the node is asked again", fault.what());
        NodeFault::caused_by(Cause::Changing, &self.node, what)
    }

    pub(super) fn set_up(&self) {
        self.was_up.store(true, Ordering::Relaxed);
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
