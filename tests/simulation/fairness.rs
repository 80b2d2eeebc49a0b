//! News of other processes that want a client's locks, handled as `src/runtime/subscriptions.rs` does.

use std::rc::Rc;

use super::client::Note;
use super::fan_out::Asker;
use super::queue::QueueId;
use super::shared::Shared;
use crate::core::base::Time;
use crate::core::link::Via;
use crate::core::vote::Failure;
use crate::kinds::contract::reply;
use crate::node::Value;

/// Notes contention from the answers to a release, and passes them on to the asker that waits for them, if there is one.
pub(super) struct ContentionSink {
    pub(super) shared: Rc<Shared>,
    pub(super) queue: QueueId,
    pub(super) inner: Option<Rc<dyn Asker>>,
}

impl Asker for ContentionSink {
    fn sending(&self, node: usize, via: Via, now: Time) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.sending(node, via, now))
    }

    fn unsent(&self, node: usize) {
        if let Some(inner) = &self.inner {
            inner.unsent(node);
        }
    }

    fn answer(&self, node: usize, answer: Result<Value, Failure>, now: Time) -> Option<Note> {
        let told = answer.as_ref().map_or(0, reply::told);
        let others =
            self.shared.channels.borrow().others_told(node, &self.queue.lock.channels(), told);
        if others > 0 {
            self.shared.queues.borrow_mut().heard(&self.queue, others, now);
        }
        self.inner.as_ref().and_then(|inner| inner.answer(node, answer, now))
    }
}
