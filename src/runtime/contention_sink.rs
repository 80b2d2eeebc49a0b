//! Hearing from the answers to a release whether others wait for the lock.

use std::sync::Arc;

use crate::core::link::Via;
use crate::node::{Answer, Sink, Value};
use crate::runtime::subscriptions::Subscriptions;

/// Passes the answers to a release on to whoever waits for them, if anybody does.
///
/// It does not own the client: releases are kept for nodes that are down, and that must keep
/// nothing else alive.
pub(crate) struct ContentionSink {
    /// Called with how many others wait for the lock in other processes.
    pub(crate) heard: Box<dyn Fn(u32) + Send + Sync>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// On which the nodes tell of the lock's releases.
    pub(crate) channels: Vec<Vec<u8>>,
    /// How many connections a node has told, by its answer.
    pub(crate) told: fn(&Value) -> u64,
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

    fn answer(&self, node: usize, answer: Answer) {
        let told = answer.as_ref().map_or(0, self.told);
        let others = self.subscriptions.others_told(node, &self.channels, told);
        if others > 0 {
            (self.heard)(others);
        }
        if let Some(inner) = &self.inner {
            inner.answer(node, answer);
        }
    }
}
