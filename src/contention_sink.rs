//! Hearing from the answers to a release whether others wait for the lock.

use std::sync::Arc;

use crate::core::Via;
use crate::ident::release_channel;
use crate::kinds::reply;
use crate::node::{Answer, Sink, Value};
use crate::queue::Queues;
use crate::subscriptions::Subscriptions;

/// Passes the answers to a release on to whoever waits for them, if anybody does.
///
/// It does not own the coordinator: releases are kept for nodes that are down, and that must keep
/// nothing else alive.
pub(crate) struct ContentionSink {
    pub(crate) queues: Arc<Queues>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) key: Box<[u8]>,
    pub(crate) inner: Option<Arc<dyn Sink>>,
}

impl Sink for ContentionSink {
    fn sending(&self, node: usize, via: Via) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.sending(node, via))
    }

    fn unsent(&self, node: usize) {
        if let Some(inner) = &self.inner {
            inner.unsent(node);
        }
    }

    fn to_be_replicated(&self, answer: &Value) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.to_be_replicated(answer))
    }

    fn answer(&self, node: usize, answer: Answer) {
        let told = answer.as_ref().map_or(0, reply::told);
        if told > 0 {
            let (ours, waiters) = self.subscriptions.listens(node, &release_channel(&self.key));
            let others = told.saturating_sub(ours.into()) + waiters;
            if others > 0 {
                self.queues.heard(&self.key, u32::try_from(others).unwrap_or(u32::MAX));
            }
        }
        if let Some(inner) = &self.inner {
            inner.answer(node, answer);
        }
    }
}
