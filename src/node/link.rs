//! Whether a node can be reached, as its worker last saw it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::error::NodeFault;
use crate::observe;

/// Shared by the worker, which sets it, and the callers, who need not ask a node that is down.
#[derive(Debug)]
pub(super) struct Link {
    node: Arc<str>,
    state: RwLock<State>,
}

#[derive(Debug)]
enum State {
    /// The first connection is being made; requests wait for it.
    Connecting,
    Up,
    /// The last try failed, for that reason; requests fail at once.
    Down(NodeFault),
}

impl Link {
    pub(super) fn new(node: Arc<str>) -> Self {
        Self { node, state: RwLock::new(State::Connecting) }
    }

    pub(super) fn node(&self) -> &Arc<str> {
        &self.node
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(*self.state.read(), State::Up)
    }

    /// What is wrong, if the node is down.
    pub(super) fn fault(&self) -> Option<NodeFault> {
        match &*self.state.read() {
            State::Down(fault) => Some(fault.clone()),
            State::Connecting | State::Up => None,
        }
    }

    /// Why the node has not answered for as long as `waited`.
    pub(super) fn silence(&self, waited: Duration) -> NodeFault {
        let what = match &*self.state.read() {
            State::Down(fault) => return fault.clone(),
            State::Connecting => format!(
                "no connection yet, after {waited:.1?}; is the host reachable, and the server not \
                 hung?"
            ),
            State::Up => format!(
                "no answer yet, after {waited:.1?}; the server hangs or is overloaded, or the \
                 network is cut"
            ),
        };
        NodeFault::new(&self.node, what)
    }

    pub(super) fn set_up(&self) {
        let before = std::mem::replace(&mut *self.state.write(), State::Up);
        if !matches!(before, State::Up) {
            observe::node_up(&self.node);
        }
    }

    pub(super) fn set_down(&self, fault: NodeFault) {
        let before = std::mem::replace(&mut *self.state.write(), State::Down(fault.clone()));
        if !matches!(before, State::Down(_)) {
            observe::node_down(&fault);
        }
    }
}
