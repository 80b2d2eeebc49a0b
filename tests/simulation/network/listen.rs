//! Messages that nodes publish, on their way to the listeners: they are delayed, and some get lost.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Event, Link, Network, SimNode, Way};
use crate::core::base::majority;
use crate::simulation::checkers::Grant;
use crate::simulation::claim::short;
use crate::simulation::client::Note;
use crate::simulation::lock_id::LockId;
use crate::simulation::subscriptions::News;

/// A connection over which a client listens to a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    session: u64,
    /// True if the node knows of it.
    open: bool,
    /// The channels that it has subscribed to.
    channels: BTreeSet<usize>,
    incarnation: u64,
    /// Arrival time of the last request.
    last_request: Duration,
    /// Arrival time of the last message at the client.
    last_message: Duration,
}

impl Network {
    /// Makes a client listen to a node, if it gets through. Returns the number of the connection.
    pub(in super::super) fn listen(&mut self, client: usize, node: usize) -> u64 {
        self.stop_listening(client, node);
        let session = self.fresh();
        let incarnation = self.nodes[node].incarnation;
        self.listeners[client][node] = Listener { session, incarnation, ..Listener::default() };
        if self.nodes[node].down > 0 || self.nodes[node].loading > 0 {
            self.tell_listener(client, node, News::Closed);
        } else {
            let at = self.now + self.delay(client, node, Way::ToNode);
            self.schedule(at, Event::Listen { client, node, session });
        }
        session
    }

    /// Handles the arrival of the connection at the node.
    pub(in super::super) fn listens(&mut self, client: usize, node: usize, session: u64) {
        if self.reaches(client, node, session) {
            self.listeners[client][node].open = true;
            self.tell_listener(client, node, News::Open);
        }
    }

    /// Returns true if a request over that connection reaches the node.
    fn reaches(&self, client: usize, node: usize, session: u64) -> bool {
        let SimNode { hung, incarnation, .. } = self.nodes[node];
        let known = &self.listeners[client][node];
        let same = known.session == session && known.incarnation == incarnation;
        same && self.links[client][node].cut == 0 && hung == 0
    }

    /// Returns true if a message over that connection arrives at the node.
    pub(in super::super) fn arrives(&self, client: usize, node: usize, session: u64) -> bool {
        self.reaches(client, node, session)
    }

    /// The number of a channel.
    pub(in super::super) fn channel(&mut self, name: &[u8]) -> usize {
        let known = self.channels.iter().position(|channel| channel == name);
        known.unwrap_or_else(|| {
            self.channels.push(name.to_vec());
            self.channels.len() - 1
        })
    }

    /// The channel with that number.
    pub(in super::super) fn channel_name(&self, channel: usize) -> &[u8] {
        &self.channels[channel]
    }

    /// The owner that was published as the `nth` message.
    pub(in super::super) fn published(&self, nth: usize) -> &[u8] {
        &self.published[nth]
    }

    /// Sends a client's request to subscribe to that channel, or to unsubscribe. Requests arrive in order.
    pub(in super::super) fn ask_to_tell(
        &mut self,
        client: usize,
        node: usize,
        channel: usize,
        on: bool,
    ) {
        let at = self.now + self.delay(client, node, Way::ToNode);
        let known = &mut self.listeners[client][node];
        known.last_request = at.max(known.last_request);
        let (at, session) = (known.last_request, known.session);
        self.schedule(at, Event::Subscribe { client, node, session, channel, on });
    }

    /// Wakes the client's own subscriber by a message on a channel of its own, over another connection.
    pub(in super::super) fn wake_subscriber(&mut self, client: usize, node: usize) {
        let session = self.listeners[client][node].session;
        let told = self.is_listening(client, node, session) && self.reaches(client, node, session);
        if told && !self.happens(self.flaky) {
            let there = self.delay(client, node, Way::ToNode);
            let at = self.now + there + self.delay(client, node, Way::ToClient);
            let note = Note::Heard { node, session, news: News::Wake };
            self.schedule(at, Event::ForClient { client, note });
        }
    }

    /// Handles the arrival of such a request at the node.
    pub(in super::super) fn subscribe(
        &mut self,
        client: usize,
        node: usize,
        session: u64,
        channel: usize,
        on: bool,
    ) {
        if !self.is_listening(client, node, session) || !self.reaches(client, node, session) {
            return;
        }
        if on && self.nodes[node].refuses_listeners > 0 {
            return self.tell_listener(client, node, News::Refused);
        }
        let channels = &mut self.listeners[client][node].channels;
        let name = &self.channels[channel];
        if on {
            if channels.insert(channel) {
                self.nodes[node].subscribe(name);
            }
            self.tell_listener(client, node, News::Listening);
        } else if channels.remove(&channel) {
            self.nodes[node].unsubscribe(name);
        }
    }

    /// Returns true if the connection is as good as the client believes.
    pub(in super::super) fn is_listening(&self, client: usize, node: usize, session: u64) -> bool {
        let known = &self.listeners[client][node];
        let same = known.incarnation == self.nodes[node].incarnation;
        known.session == session && known.open && same
    }

    /// Checks such a connection, as TCP does. Returns true if the other side has it, and false if that side says that there is no
    /// such connection any more. `None`: no answer comes.
    pub(in super::super) fn checked(
        &self,
        client: usize,
        node: usize,
        session: u64,
    ) -> Option<bool> {
        let link = &self.links[client][node];
        // The system answers for a process that hangs or is gone.
        (link.cut == 0 && link.deaf == 0).then(|| self.is_listening(client, node, session))
    }

    /// Ends the connection. The node's channels have one subscriber less.
    pub(in super::super) fn stop_listening(&mut self, client: usize, node: usize) {
        let known = &mut self.listeners[client][node];
        known.open = false;
        let channels = std::mem::take(&mut known.channels);
        let at = &mut self.nodes[node];
        if known.incarnation == at.incarnation {
            channels.iter().for_each(|channel| at.unsubscribe(&self.channels[*channel]));
        }
    }

    /// Ends the connection over which the client listens to the node. The client sees it.
    pub(in super::super) fn end_listening(&mut self, client: usize, node: usize) {
        if self.listeners[client][node].session > 0 {
            self.stop_listening(client, node);
            self.tell_listener(client, node, News::Closed);
        }
    }

    /// Delivers the messages that the node has just published to all listeners.
    pub(super) fn deliver_published(&mut self, node: usize) {
        for (published_on, owner) in self.nodes[node].take_published() {
            let channel = self.channel(&published_on);
            self.published.push(owner);
            let owner = self.published.len() - 1;
            for client in 0..self.links.len() {
                let Listener { session, ref channels, .. } = self.listeners[client][node];
                let told = channels.contains(&channel) && self.is_listening(client, node, session);
                if told && !self.happens(self.flaky) {
                    self.tell_listener(client, node, News::Released(channel, owner));
                }
            }
        }
    }

    /// Checks the wake-up of a waiter that was told that enough nodes are free. Between two clients that is true,
    /// with four exceptions. The message was about the previous lock, which was given back just now. One message was
    /// about the previous lock and came after the last attempt had begun, and that attempt found the lock held again.
    /// A node that had granted the waiter for a while has got the holder's key again. The keys belong to a failed
    /// attempt that is being given back at this moment.
    pub(in super::super) fn woken(&mut self, client: usize, lock: LockId) {
        let slowest = self.links.iter().flatten().map(Link::slow_both_ways).max();
        let slowest = slowest.unwrap_or_default();
        let on_its_way = Duration::from_millis(self.latency_ms) * 3 + slowest;
        let of_before = |grant: &Grant| self.now < grant.at + on_its_way;
        if !self.pair || self.checks.grants.last().is_some_and(of_before) {
            return;
        }
        let (now, keys) = (self.now, lock.keys().collect::<Vec<_>>());
        let owners = |node: &mut SimNode| {
            keys.iter().flat_map(|key| node.owners(key, now)).collect::<Vec<_>>()
        };
        let owners: Vec<_> = self.nodes.iter_mut().flat_map(owners).collect();
        let needed = majority(self.nodes.len());
        let holds =
            |owner: &&String| owners.iter().filter(|other| other == owner).count() >= needed;
        if let Some(owner) = owners.iter().find(holds)
            && self.checks.given_up(owner).is_some()
            && self.checks.was_granted(owner)
            && !self.checks.is_repaired(owner)
            && self.told_since[client].iter().all(|told| told == owner.as_bytes())
        {
            let short = short(owner);
            let what = format!("client {client} was woken while a majority still has {short}");
            self.checks.report(now, "load", what);
        }
    }

    fn tell_listener(&mut self, client: usize, node: usize, news: News) {
        let link = &self.links[client][node];
        if link.cut > 0 || link.deaf > 0 {
            return;
        }
        let at = self.now + self.delay(client, node, Way::ToClient);
        // Messages over one connection arrive in order.
        let known = &mut self.listeners[client][node];
        known.last_message = at.max(known.last_message);
        let (at, session) = (known.last_message, known.session);
        let note = Note::Heard { node, session, news };
        self.schedule(at, Event::ForClient { client, note });
    }
}
