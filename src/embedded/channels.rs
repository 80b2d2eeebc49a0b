//! Pub/sub channels of a node: their listeners and undelivered messages.

use std::collections::BTreeMap;

use super::keyspace::Bytes;

/// The channels with listeners, and the published messages that are not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Channels {
    listeners: BTreeMap<Bytes, usize>,
    published: Vec<Message>,
}

/// One message, for all connections that listen to its channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) channel: Bytes,
    pub(crate) text: Bytes,
}

impl Channels {
    pub(super) fn subscribe(&mut self, channel: &[u8]) {
        *self.listeners.entry(channel.to_vec()).or_default() += 1;
    }

    pub(super) fn unsubscribe(&mut self, channel: &[u8]) {
        if let Some(listeners) = self.listeners.get_mut(channel) {
            *listeners = listeners.saturating_sub(1);
            if *listeners == 0 {
                self.listeners.remove(channel);
            }
        }
    }

    /// Returns the number of connections that will get the message.
    pub(super) fn publish(&mut self, channel: &[u8], text: &[u8]) -> usize {
        let listeners = self.listeners.get(channel).copied().unwrap_or(0);
        if listeners > 0 {
            self.published.push(Message { channel: channel.to_vec(), text: text.to_vec() });
        }
        listeners
    }

    pub(super) fn take_published(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.published)
    }
}
