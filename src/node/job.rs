//! What goes into a node's mailbox, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::{Request, Script, Value};
use crate::core::base::Time;
use crate::core::link::{self, Fault, Meaning, Purpose, Rejection, Via};
use crate::error::{Cause, NodeFault};

/// A node's answer, or why there is none.
pub(crate) type Answer = Result<Value, Undelivered>;

/// A request without an answer.
pub(crate) type Undelivered = link::Undelivered<NodeFault>;

/// One request to a node, as its connection carries it.
pub(super) type Job = link::Job<Asked>;

/// The caller that asked a node something. Called on the worker threads (on the caller's own when the node
/// is known to be down), so it must be quick and never block.
pub(crate) trait Sink: Send + Sync {
    /// A copy is about to be written to the node, over that connection. `false`: it is not wanted any
    /// more; it is dropped without an answer.
    fn sending(&self, node: usize, via: Via) -> bool;

    /// That copy has certainly not run, nor will it.
    fn unsent(&self, node: usize);

    /// The node's clock was seen not to be where it had to be, at that time; the answer comes next.
    fn clock_moved(&self, _node: usize, _seen_at: Time) {}

    /// The one answer of the node.
    fn answer(&self, node: usize, answer: Answer);
}

/// What to ask a node.
#[derive(Clone)]
pub(crate) enum Ask {
    /// This, whatever is known of the node.
    Anyway(Arc<Request>),
    /// This, for a lock that is held: where the node serves holders.
    Holding(Arc<Request>),
    /// This, for a lock that nobody holds: under the mark under which the node grants when it is written.
    Taking(Arc<Request>),
}

impl Ask {
    pub(super) fn into_job(self, node: usize, sink: Arc<dyn Sink>) -> Job {
        let (request, purpose) = match self {
            Self::Anyway(request) => (request, Purpose::Anyway),
            Self::Holding(request) => (request, Purpose::Holding),
            Self::Taking(request) => (request, Purpose::Taking),
        };
        let (sink, unanswered, untold) = (Some(sink), None, None);
        Job::new(Asked { node, request, sink, unanswered, untold }, purpose)
    }
}

/// A call of a script, and its caller.
pub(super) struct Asked {
    pub(super) node: usize,
    pub(super) request: Arc<Request>,
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// Of a release: present until it is answered, or the node turns out to be down. That it is written
    /// is not enough: the server may have closed the connection, or have forgotten the script.
    pub(super) unanswered: Option<Counted>,
    /// Of a release: present until the node has answered it, be it with a refusal, however long it is down; or until the key is
    /// gone.
    pub(super) untold: Option<Counted>,
}

impl link::Request for Asked {
    type Script = &'static Script;
    type Value = Value;
    type Fault = NodeFault;
    type Caller = Arc<dyn Sink>;

    fn script(&self) -> &'static Script {
        self.request.script()
    }

    fn batch(&self) -> Option<&'static Script> {
        self.request.script().batch().map(|(_, batch)| batch)
    }

    fn goes_last(&self) -> bool {
        self.request.script().goes_last()
    }

    fn meaning(&self, answer: &Value) -> Meaning {
        self.request.meaning(answer)
    }

    fn sending(&self, via: Via, _now: Time) -> bool {
        self.sink.as_ref().is_none_or(|sink| sink.sending(self.node, via))
    }

    fn unsent(&self) {
        if let Some(sink) = &self.sink {
            sink.unsent(self.node);
        }
    }

    fn take_caller(&mut self) -> Option<Arc<dyn Sink>> {
        self.unanswered = None;
        self.sink.take()
    }

    fn is_told(&mut self) {
        self.untold = None;
    }
}

impl Fault for NodeFault {
    fn rejection(&self) -> Rejection {
        match self.cause() {
            Cause::Changing => Rejection::ForNow,
            _ if self.is_for_good() => Rejection::ForGood,
            _ => Rejection::Not,
        }
    }

    fn lacks_permission(&self) -> bool {
        matches!(self.cause(), Cause::NoPermission | Cause::NoScripts)
    }
}

/// Counts itself while it lives: how many releases are not answered yet.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Counted {
    pub(super) fn by(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
