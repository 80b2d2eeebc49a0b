//! What goes into a node's mailbox, and what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::request::{Request, Value};
use crate::core::base::Time;
use crate::core::link::{Repetition, Via};
use crate::core::vote::Failure;
use crate::error::{Cause, NodeFault};

/// A node's answer, or why there is none.
pub(crate) type Answer = Result<Value, Undelivered>;

/// A request without an answer.
#[derive(Clone, Debug)]
pub(crate) struct Undelivered {
    pub(crate) failure: Failure,
    pub(crate) fault: NodeFault,
}

impl Undelivered {
    /// A request for a lock that nobody holds (`takes`) is lost for good where the node rejects us for good. Where it does so
    /// for now, it can be reached, and others may have their locks there.
    pub(super) fn new(failure: Failure, fault: NodeFault, takes: bool) -> Self {
        let failure = match fault.cause() {
            Cause::Changing if takes => Failure::Error,
            _ if takes && fault.is_for_good() => Failure::Rejected,
            _ => failure,
        };
        Self { failure, fault }
    }
}

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
    /// This, for a lock that nobody holds: under the mark under which the node grants at the moment at
    /// which it is written. So a copy that is sent again after a restart never comes with the mark
    /// of before.
    Taking(Arc<Request>),
}

/// One request in a mailbox.
pub(super) enum Job {
    /// A question; worth nothing to anybody once its asker has gone.
    Ask {
        ask: Ask,
        sink: Arc<dyn Sink>,
        /// A copy was written before.
        written: bool,
    },
    /// A release; must reach the node as long as the key can be there, asker or not.
    Release(Release),
}

pub(super) struct Release {
    pub(super) request: Arc<Request>,
    pub(super) sink: Option<Arc<dyn Sink>>,
    /// When the key is gone by itself; `None` if that cannot be told.
    pub(super) until: Option<Time>,
    /// Of one that may not be done when it is answered.
    pub(super) repetition: Option<Box<Repetition>>,
    /// Present until the release is answered, or the node turns out to be down. That it is written
    /// is not enough: the server may have closed the connection, or have forgotten the script.
    pub(super) unanswered: Option<Counted>,
    /// Present until the node has answered the release, be it with a refusal, however long it is down; or until the key is gone.
    pub(super) untold: Option<Counted>,
    /// How often the node has refused it. `None`: what it is told is no release of a key, and is not told again.
    pub(super) refusals: Option<u32>,
}

impl Release {
    /// Nobody waits for its answer any more.
    pub(super) fn is_unheard(&mut self) {
        self.sink = None;
        self.unanswered = None;
    }
}

impl Job {
    pub(super) fn sink(&self) -> Option<&Arc<dyn Sink>> {
        match self {
            Self::Ask { sink, .. } => Some(sink),
            Self::Release(Release { sink, .. }) => sink.as_ref(),
        }
    }

    pub(super) fn request(&self) -> &Request {
        match self {
            Self::Ask {
                ask: Ask::Anyway(request) | Ask::Holding(request) | Ask::Taking(request),
                ..
            }
            | Self::Release(Release { request, .. }) => request,
        }
    }

    /// Whether it wants a lock that nobody holds.
    pub(super) fn is_taking(&self) -> bool {
        matches!(self, Self::Ask { ask: Ask::Taking(_), .. })
    }

    /// Whether it is asked for a lock that is held.
    pub(super) fn is_holding(&self) -> bool {
        matches!(self, Self::Ask { ask: Ask::Holding(_), .. })
    }

    /// The node's clock was seen not to be where it had to be, at that time; the answer comes next.
    pub(super) fn clock_moved(&self, node: usize, seen_at: Time) {
        if let Some(sink) = self.sink() {
            sink.clock_moved(node, seen_at);
        }
    }

    /// Whether to write it now.
    pub(super) fn sending(&self, node: usize, via: Via) -> bool {
        self.sink().is_none_or(|sink| sink.sending(node, via))
    }

    /// The copy that was written last has certainly not run, nor will it.
    pub(super) fn is_unsent(&self, node: usize) {
        if let Some(sink) = self.sink() {
            sink.unsent(node);
        }
    }

    /// A copy is being written.
    pub(super) fn is_written(&mut self) {
        if let Self::Ask { written, .. } = self {
            *written = true;
        }
    }

    pub(super) fn answer(&self, node: usize, answer: Answer) {
        if let Some(sink) = self.sink() {
            sink.answer(node, answer);
        }
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
