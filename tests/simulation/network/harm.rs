//! Faults between clients and nodes, and of nodes, and how they end.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::{Conn, ConnId, Event, LATEST, Network, OldMaster, SimNode, Way, info};
use crate::core::admission::mark::{Mark, MarkState, Noted};
use crate::core::base::Time;
use crate::node::{Question, read_probe};
use crate::simulation::claim::MARK;
use crate::simulation::client::Note;
use crate::simulation::fan_out::value;
use crate::simulation::lock_id::key;
use crate::simulation::plan::Plan;
use crate::simulation::shared::configuration;
use crate::simulation::subscriptions::News;

impl Network {
    /// Returns true if a message or a wake-up takes much longer than usual.
    pub(in super::super) fn straggles(&mut self) -> bool {
        self.stragglers > 0 && self.chance.one_in(self.stragglers)
    }

    pub(super) fn happens(&mut self, one_in: usize) -> bool {
        one_in > 0 && !self.calm && self.chance.one_in(one_in)
    }

    /// Perhaps stops a process that is about to do something.
    pub(in super::super) fn perhaps_pause(&mut self, client: usize) {
        if self.happens(self.sleepy) {
            let lasts = self.longest_nap.mul_f64(self.chance.share());
            self.schedule(self.now, Event::Pause { client, lasts });
        }
    }

    /// Removes one reason for the cut between the two.
    pub(in super::super) fn mend(&mut self, client: usize, node: usize) {
        self.links[client][node].cut -= 1;
        if self.links[client][node].cut > 0 {
            return;
        }
        for id in self.conns_between(client, node) {
            let requests = std::mem::take(&mut self.conns[id].stalled_requests);
            // A closed connection may go on to send its undelivered requests for a while, or not.
            if self.conns[id].open || self.chance.one_in(2) {
                let at = self.now + self.delay(client, node, Way::ToNode);
                (0..requests).for_each(|_| {
                    self.schedule(at, Event::AtNode { conn: id, late: true });
                });
            } else {
                self.conns[id].requests.clear();
            }
        }
        self.deliver_stalled_replies(client, node);
    }

    /// Removes one reason for the loss of replies.
    pub(in super::super) fn hear_again(&mut self, client: usize, node: usize) {
        self.links[client][node].deaf -= 1;
        self.deliver_stalled_replies(client, node);
    }

    fn deliver_stalled_replies(&mut self, client: usize, node: usize) {
        let link = &self.links[client][node];
        if link.deaf > 0 || link.cut > 0 {
            return;
        }
        for id in self.conns_between(client, node) {
            let replies = std::mem::take(&mut self.conns[id].stalled_replies);
            let at = self.now + self.delay(client, node, Way::ToClient);
            (0..replies).for_each(|_| self.schedule(at, Event::AtClient { conn: id }));
        }
    }

    /// Holds up the client's requests over its present connections to those nodes. New connections work.
    pub(in super::super) fn hold(&mut self, client: usize, from: usize) {
        let theirs = self.conns.iter_mut().filter(|conn| conn.client == client && conn.open);
        theirs.filter(|conn| conn.node >= from).for_each(|conn| conn.held = true);
    }

    /// Delivers those requests, even if the connections were closed meanwhile.
    pub(in super::super) fn let_go(&mut self, client: usize, from: usize) {
        for id in 0..self.conns.len() {
            let conn = &mut self.conns[id];
            let concerned = conn.client == client && conn.node >= from;
            if !concerned || !std::mem::take(&mut conn.held) {
                continue;
            }
            let (node, requests) = (conn.node, std::mem::take(&mut conn.stalled_requests));
            let at = self.now + self.delay(client, node, Way::ToNode);
            (0..requests).for_each(|_| self.schedule(at, Event::AtNode { conn: id, late: true }));
        }
    }

    /// Holds up the requests on one connection.
    pub(in super::super) fn hold_one(&mut self, id: ConnId) {
        self.conns[id].held = true;
    }

    /// Delivers those requests, even if the connection was closed meanwhile.
    pub(in super::super) fn let_go_one(&mut self, id: ConnId) {
        let conn = &mut self.conns[id];
        if std::mem::take(&mut conn.held) {
            let requests = std::mem::take(&mut conn.stalled_requests);
            let now = self.now;
            (0..requests).for_each(|_| self.schedule(now, Event::AtNode { conn: id, late: true }));
        }
    }

    /// Loses all further replies on one connection.
    pub(in super::super) fn mute(&mut self, id: ConnId) {
        self.conns[id].mute = true;
    }

    /// Returns the client, the node and the purpose of the next request on a connection that works.
    pub(in super::super) fn next_request(
        &self,
        id: ConnId,
    ) -> Option<(usize, usize, &'static str)> {
        let conn = &self.conns[id];
        let works = conn.open && !conn.held && !conn.ended && self.is_alive(id);
        let what = conn.requests.front()?.what();
        works.then_some((conn.client, conn.node, what))
    }

    /// Returns the client, the node and the purpose of the request of the next reply on a connection that works.
    pub(in super::super) fn next_answer(&self, id: ConnId) -> Option<(usize, usize, &'static str)> {
        let conn = &self.conns[id];
        let works = conn.open && !conn.mute && conn.reset.is_none();
        let (_, _, what) = conn.replies.front()?;
        works.then_some((conn.client, conn.node, *what))
    }

    /// Feeds `hasher` with all that the participant sees of a message that arrives. Returns the participant: a client, or
    /// behind all clients a node.
    pub(in super::super) fn hash_message(
        &self,
        event: Event,
        hasher: &mut impl Hasher,
    ) -> Option<usize> {
        let clients = self.links.len();
        match event {
            Event::AtNode { conn, .. } => {
                let Conn { node, requests, ended, held, .. } = &self.conns[conn];
                let request = requests.front().filter(|_| !ended && !held)?;
                // The source of a script says no more than the purposes of its parts.
                let words = request.command.iter().enumerate().filter(|(place, _)| *place != 1);
                words.for_each(|(_, word)| word.hash(hasher));
                request.parts.iter().for_each(|part| part.what.hash(hasher));
                Some(clients + node)
            }
            Event::AtClient { conn } => {
                let Conn { client, node, replies, open, mute, .. } = &self.conns[conn];
                let (reply, wall, _) = replies.front().filter(|_| *open && !mute)?;
                (node, format!("{reply:?}"), wall).hash(hasher);
                Some(*client)
            }
            _ => None,
        }
    }

    /// Feeds `hasher` with all that a client sees of an event inside of it.
    pub(in super::super) fn hash_note(&self, note: Note, hasher: &mut impl Hasher) {
        std::mem::discriminant(&note).hash(hasher);
        match note {
            Note::Worker { node, .. } | Note::Probe { node, .. } | Note::Closed { node, .. } => {
                node.hash(hasher);
            }
            Note::Connected { node, conn, .. } => (node, conn.is_ok()).hash(hasher),
            Note::Heard { node, news, .. } => {
                (node, std::mem::discriminant(&news)).hash(hasher);
                if let News::Released(channel, owner) = news {
                    (&self.channels[channel], &self.published[owner]).hash(hasher);
                }
            }
            Note::Replicated { node, answer, .. } => (node, answer).hash(hasher),
            Note::Caller { .. }
            | Note::Held { .. }
            | Note::Renewal { .. }
            | Note::Order { .. }
            | Note::Admitting { .. } => {}
        }
    }

    fn conns_between(&self, client: usize, node: usize) -> Vec<ConnId> {
        let between = |id: &ConnId| {
            let conn = &self.conns[*id];
            conn.client == client && conn.node == node
        };
        (0..self.conns.len()).filter(between).collect()
    }

    /// Breaks the connections between them; the client sees it at once.
    pub(in super::super) fn reset(&mut self, client: usize, node: usize) {
        for id in self.conns_between(client, node) {
            self.break_off(id);
        }
        self.end_listening(client, node);
    }

    /// Breaks one connection. Requests on their way run later, or never.
    pub(super) fn break_off(&mut self, id: ConnId) {
        if self.conns[id].open && self.conns[id].reset.is_none() {
            let late = self.chance.one_in(2).then(|| LATEST.mul_f64(self.chance.share()));
            self.conns[id].reset = Some(late);
            self.tell_closed(id);
        }
    }

    pub(super) fn tell_closed(&mut self, id: ConnId) {
        let Conn { client, node, .. } = self.conns[id];
        let at = self.now + self.delay(client, node, Way::ToClient);
        let note = Note::Closed { node, conn: id };
        self.schedule(at, Event::ForClient { client, note });
    }

    /// Ends the process of a node.
    pub(in super::super) fn stop(&mut self, node: usize, keep_data: bool) {
        let waiting = std::mem::take(&mut self.nodes[node].waiting);
        self.nodes[node].stop(keep_data);
        if self.keeps_connections {
            self.nodes[node].waiting = waiting;
            let incarnation = self.nodes[node].incarnation;
            let conns = self.conns.iter_mut().filter(|conn| conn.node == node);
            conns.for_each(|conn| conn.incarnation = incarnation);
        }
        for id in 0..self.conns.len() {
            let conn = &self.conns[id];
            if self.keeps_connections {
                continue;
            }
            let link = &self.links[conn.client][conn.node];
            if conn.node == node && conn.open && link.cut == 0 && link.deaf == 0 {
                self.tell_closed(id);
            }
        }
        (0..self.links.len()).for_each(|client| self.end_listening(client, node));
    }

    /// Promotes a replica in the place of that node. The old master lives on, and takes writes until `writes_until`. The first
    /// `clients` still reach it. The replica grants nothing until `successor_away_until`.
    pub(in super::super) fn take_over(
        &mut self,
        node: usize,
        clients: usize,
        (writes_until, successor_away_until): (Duration, Duration),
    ) {
        let mut successor = self.nodes[node].successor(MARK, self.now);
        // Its keys do not show which locks are free.
        successor.away_until = Duration::MAX;
        (clients..self.links.len()).for_each(|client| self.reset(client, node));
        let mut server = std::mem::replace(&mut self.nodes[node], successor);
        (server.away_until, server.writes_until) = (Duration::ZERO, writes_until);
        self.old_master = Some(OldMaster { server, node, clients, successor_away_until });
    }

    /// Lets the replica of that node take over.
    pub(in super::super) fn fail_over(&mut self, node: usize) {
        self.stop(node, true);
        self.nodes[node].becomes_its_replica();
        // Whatever the replica lacks is neither there nor given back.
        self.checks.forgotten = true;
        self.checks.unguarded = true;
    }

    /// Has the node's replica confirm all that the node has written so far, within that time.
    pub(in super::super) fn wait_for_replica(
        &mut self,
        client: usize,
        node: usize,
        id: u64,
        within: Duration,
    ) {
        let at = self.now + self.delay(client, node, Way::ToNode);
        let until = at + within;
        self.schedule(at, Event::Waits { client, node, id, until, incarnation: None });
    }

    /// Goes on with a `WAIT` at a node.
    pub(in super::super) fn waits(&mut self, event: Event) {
        /// Interval at which it looks at the replica.
        const LOOKS: Duration = Duration::from_millis(2);
        let Event::Waits { client, node, id, until, incarnation } = event else { return };
        let at = &self.nodes[node];
        let present = at.incarnation;
        let is_broken = at.down > 0 || incarnation.is_some_and(|before| before != present);
        let answer = if is_broken {
            None
        } else if at.is_replicated() {
            Some((1, present))
        } else if self.now >= until {
            Some((0, present))
        } else {
            let at = (self.now + LOOKS).min(until);
            let incarnation = Some(present);
            return self.schedule(at, Event::Waits { client, node, id, until, incarnation });
        };
        let at = self.now + self.delay(client, node, Way::ToClient);
        let note = Note::Replicated { node, id, answer };
        self.schedule(at, Event::ForClient { client, note });
    }

    /// Lets the old master take no writes any more, if there is one.
    pub(in super::super) fn stop_old_master(&mut self) {
        self.old_master.iter_mut().for_each(|old| old.server.lose_replicas());
    }

    /// Ends the old master.
    pub(in super::super) fn end_old_master(&mut self) {
        let old = self.old_master.take().expect("it lives on");
        let OldMaster { node, clients, successor_away_until, .. } = old;
        self.nodes[node].away_until = successor_away_until.max(self.now);
        (0..clients).for_each(|client| self.reset(client, node));
    }

    /// Returns true if the client reaches the old master of that node.
    fn reaches_old_master(&self, client: usize, node: usize) -> bool {
        self.old_master.as_ref().is_some_and(|old| node == old.node && client < old.clients)
    }

    /// Returns the server that the client reaches as that node.
    pub(super) fn server(&self, client: usize, node: usize) -> &SimNode {
        match &self.old_master {
            Some(old) if self.reaches_old_master(client, node) => &old.server,
            _ => &self.nodes[node],
        }
    }

    /// Does something at the server that the client reaches as that node.
    pub(super) fn at_server(&mut self, client: usize, node: usize, act: impl FnOnce(&mut Self)) {
        let is_old = self.reaches_old_master(client, node);
        let swap = |net: &mut Self| {
            if let Some(old) = net.old_master.as_mut().filter(|_| is_old) {
                std::mem::swap(&mut old.server, &mut net.nodes[node]);
            }
        };
        swap(self);
        act(self);
        swap(self);
    }

    /// Sets the marks of the first client's nodes, which were in use before, and have forgotten nothing.
    pub(in super::super) fn admit_all(&mut self, plan: &Plan) {
        let now = self.now;
        let setup = plan.setup(0);
        let mut offsets: Vec<_> =
            plan.wall_offsets[..setup.nodes].iter().map(|ms| ms.cast_signed()).collect();
        let ahead = offsets.clone();
        offsets.sort_unstable();
        let median = offsets[(setup.nodes - 1) / 2];
        for (place, (node, ahead)) in self.nodes.iter_mut().zip(ahead).enumerate() {
            let script = Question::new(MARK, None).request.eval("");
            let commands = [script].into_iter().chain(info());
            let answers: Vec<_> = commands.map(|it| value(&node.call(&it, now))).collect();
            let anytime = Time::default();
            let probe = read_probe(&answers, anytime, anytime).expect("a probe").probe;
            let mut configuration = configuration(setup, plan.quarantine);
            configuration.index = configuration.index.map(|_| place);
            let (identity, state) = (probe.identity, MarkState::Admitted);
            let noted = Noted { ahead_ms: ahead - median, at_ms: 0 };
            let mark = Mark { configuration, identity, noted, state };
            node.call(&[b"SET".to_vec(), MARK.to_vec(), mark.to_string().into_bytes()], now);
        }
    }

    /// Somebody deletes the keys of a lock on all nodes.
    pub(in super::super) fn delete(&mut self, name: usize) {
        let now = self.now;
        let key = key(name);
        for node in &mut self.nodes {
            node.call(&[b"DEL".to_vec(), key.clone()], now);
        }
        self.checks.deleted(name, now);
    }

    pub(in super::super) fn flush(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].call(&[b"FLUSHALL".to_vec()], now);
    }

    pub(in super::super) fn start(&mut self, node: usize) {
        self.nodes[node].down -= 1;
        self.run_waiting(node);
    }

    /// Removes one reason for the node to hang. Once there is none, the node runs all that it has received.
    pub(in super::super) fn resume(&mut self, node: usize) {
        self.nodes[node].hung -= 1;
        self.run_waiting(node);
    }

    /// Runs the requests that wait for the node, if it runs.
    fn run_waiting(&mut self, node: usize) {
        if self.nodes[node].hung == 0 && self.nodes[node].down == 0 {
            let waiting = std::mem::take(&mut self.nodes[node].waiting);
            waiting.into_iter().for_each(|conn| self.run(conn));
        }
    }
}
