//! The jobs in a node's mailbox, and their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::{Request, Script, Value};
use crate::core::base::Time;
use crate::core::link::{self, Fault, Meaning, Purpose, Rejection, Via};
use crate::error::{Cause, NodeFault};

/// A node's answer, or the reason why there is none.
pub(crate) type Answer = Result<Value, Undelivered>;

/// A request without an answer.
pub(crate) type Undelivered = link::Undelivered<NodeFault>;

/// One request to a node, as its connection carries it.
pub(super) type Job = link::Job<Asked>;

/// The caller that asked a node something. Called on the worker threads (on the caller's own when the node
/// is known to be down), so it must be quick and never block.
pub(crate) trait Sink: Send + Sync {
    /// Announces that a copy is about to be written to the node over the connection `via`. `false`: the
    /// request is not wanted any more, and is dropped without an answer.
    fn sending(&self, node: usize, via: Via) -> bool;

    /// Reports that the copy has certainly not run, and never will.
    fn unsent(&self, node: usize);

    /// Reports that the node's clock was wrong at `_seen_at`. The answer comes next.
    fn clock_moved(&self, _node: usize, _seen_at: Time) {}

    /// Takes the one answer of the node.
    fn answer(&self, node: usize, answer: Answer);
}

/// A request to a node, and the condition for it.
#[derive(Clone)]
pub(crate) enum Ask {
    /// A request that is sent whatever is known of the node.
    Anyway(Arc<Request>),
    /// A request for a lock that is held: it is sent if the node serves holders.
    Holding(Arc<Request>),
    /// A request for a lock that nobody holds: it is sent under the mark under which the node then grants.
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
    /// For a release: present until it is answered, or the node turns out to be down. A write is not
    /// enough: the server may have closed the connection, or have forgotten the script.
    pub(super) unanswered: Option<Counted>,
    /// For a release: present until the node has answered it, even with a refusal and however long it is down, or until the key
    /// is gone.
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

    fn lock(&self) -> &[u8] {
        self.request.first_key()
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

/// A release that counts as unanswered while this value lives.
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
