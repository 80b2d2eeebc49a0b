//! What nodes publish, on its way to those who listen: it is delayed, and it gets lost.

use std::time::Duration;

use super::{Event, Network, SimNode};
use crate::ident::release_channel;
use crate::quorum::majority;
use crate::simulation::checkers::Grant;
use crate::simulation::client::Note;
use crate::simulation::wake::News;

/// A connection over which a client listens to a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Listener {
    session: u64,
    /// The node knows of it.
    subscribed: bool,
    incarnation: u64,
}

impl Network {
    /// A client begins to listen to a node, if it gets through; which connection that is.
    pub(in super::super) fn listen(&mut self, client: usize, node: usize) -> u64 {
        let session = self.fresh();
        let incarnation = self.nodes[node].incarnation;
        self.listeners[client][node] = Listener { session, subscribed: false, incarnation };
        if self.nodes[node].down > 0 {
            self.tell_listener(client, node, News::Closed);
        } else {
            let at = self.now + self.delay(client, node);
            self.schedule(at, Event::Subscribe { client, node, session });
        }
        session
    }

    /// The subscription reaches the node.
    pub(in super::super) fn subscribe(&mut self, client: usize, node: usize, session: u64) {
        let SimNode { hung, incarnation, .. } = self.nodes[node];
        let known = &mut self.listeners[client][node];
        let link = &self.links[client][node];
        let arrives = link.cut == 0 && hung == 0 && incarnation == known.incarnation;
        if known.session != session || !arrives {
            return;
        }
        known.subscribed = true;
        for name in 0..self.names {
            self.nodes[node].subscribe(&release_channel(format!("name-{name}").as_bytes()));
        }
        self.tell_listener(client, node, News::Confirmed);
    }

    /// Whether the connection is as good as the client believes.
    pub(in super::super) fn is_listening(&self, client: usize, node: usize, session: u64) -> bool {
        let known = &self.listeners[client][node];
        let same = known.incarnation == self.nodes[node].incarnation;
        known.session == session && known.subscribed && same
    }

    pub(in super::super) fn stop_listening(&mut self, client: usize, node: usize) {
        self.listeners[client][node].subscribed = false;
    }

    /// Those who listened to the node over that link see the connection end.
    pub(super) fn end_listening(&mut self, client: usize, node: usize) {
        if self.listeners[client][node].session > 0 {
            self.listeners[client][node].subscribed = false;
            self.tell_listener(client, node, News::Closed);
        }
    }

    /// What the node has just published goes to all who listen.
    pub(super) fn deliver_published(&mut self, node: usize) {
        for channel in self.nodes[node].take_published() {
            let is_of =
                |name: &usize| release_channel(format!("name-{name}").as_bytes()) == channel;
            let Some(name) = (0..self.names).find(is_of) else { continue };
            for client in 0..self.links.len() {
                let session = self.listeners[client][node].session;
                if self.is_listening(client, node, session) && !self.happens(self.flaky) {
                    self.tell_listener(client, node, News::Released(name));
                }
            }
        }
    }

    /// A waiter was told that enough nodes are free. Between two clients that is true, unless it was told
    /// of the lock before this one, which was given back just now.
    pub(in super::super) fn woken(&mut self, client: usize, name: usize) {
        let on_its_way = Duration::from_millis(self.latency_ms) * 3;
        let of_before = |grant: &Grant| self.now < grant.at + on_its_way;
        if !self.pair || self.checks.grants.last().is_some_and(of_before) {
            return;
        }
        let (now, key) = (self.now, format!("name-{name}").into_bytes());
        let owners = self.nodes.iter_mut().filter_map(|node| node.value(&key, now));
        let owners: Vec<_> =
            owners.map(|owner| String::from_utf8_lossy(&owner).into_owned()).collect();
        let needed = majority(self.nodes.len());
        let holds =
            |owner: &&String| owners.iter().filter(|other| other == owner).count() >= needed;
        if let Some(owner) = owners.iter().find(holds)
            && self.checks.given_up(owner).is_some()
        {
            let short = &owner[..4];
            let what = format!("client {client} was woken while a majority still has {short}");
            self.checks.report(now, "load", what);
        }
    }

    fn tell_listener(&mut self, client: usize, node: usize, news: News) {
        let link = &self.links[client][node];
        if link.cut > 0 || link.deaf > 0 {
            return;
        }
        let session = self.listeners[client][node].session;
        let at = self.now + self.delay(client, node);
        let note = Note::Heard { node, session, news };
        self.schedule(at, Event::ForClient { client, note });
    }
}
