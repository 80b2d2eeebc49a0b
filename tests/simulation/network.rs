//! What is between clients and nodes: delays, losses, and requests that run on dead connections.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::chance::Chance;
use super::checkers::{Checks, Ran};
use super::claim::MARK;
use super::client::Note;
use super::node::SimNode;
use super::plan::Plan;
use super::round::value;
use super::shared::configuration;
use super::switches::Switches;
use crate::embedded::Reply;
use crate::node::{look_request, read_look};
use crate::quorum::mark::{Mark, State};

/// How late things can be that nobody waits for.
pub(super) const LATEST: Duration = Duration::from_secs(3);

pub(super) type ConnId = usize;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The next request on the connection reaches the node; `late`, if the connection was reset
    /// before.
    AtNode {
        conn: ConnId,
        late: bool,
    },
    /// The next reply reaches the client.
    AtClient {
        conn: ConnId,
    },
    /// Something for a client alone.
    ForClient {
        client: usize,
        note: Note,
    },
    Begin(usize),
    End(usize),
    /// A process stops, and goes on later.
    Pause {
        client: usize,
        lasts: Duration,
    },
    Resume {
        client: usize,
    },
}

/// A call of a script, as it goes over the network.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) command: Vec<Vec<u8>>,
    pub(super) key: Vec<u8>,
    pub(super) owner: Vec<u8>,
    pub(super) what: &'static str,
}

/// What is wrong between a client and a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) cut: u32,
    pub(super) deaf: u32,
    pub(super) slow: Duration,
}

#[derive(Debug)]
struct Conn {
    client: usize,
    node: usize,
    incarnation: u64,
    /// The client has not closed it.
    open: bool,
    /// It was reset; what was on its way runs that much later, or never.
    reset: Option<Option<Duration>>,
    requests: VecDeque<Message>,
    /// Each with what the node's wall clock showed.
    replies: VecDeque<(Reply, Duration)>,
    /// When the last request, and the last reply, arrives.
    last_request: Duration,
    last_reply: Duration,
    stalled_requests: usize,
    stalled_replies: usize,
}

pub(super) struct Network {
    /// True time, which nobody sees.
    pub(super) now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    last: u64,
    pub(super) chance: Chance,
    pub(super) nodes: Vec<SimNode>,
    links: Vec<Vec<Link>>,
    conns: Vec<Conn>,
    pub(super) checks: Checks,
    pub(super) switches: Switches,
    pub(super) events: u64,
    latency_ms: u64,
    flaky: usize,
    sleepy: usize,
    longest_nap: Duration,
    /// Faults are over.
    pub(super) calm: bool,
    story: Option<Vec<String>>,
}

impl Network {
    pub(super) fn new(plan: &Plan, switches: Switches, told: bool) -> Self {
        let clients = plan.callers.len();
        let nodes = (0..plan.nodes).map(|node| {
            SimNode::new(node, plan.wall_offsets[node], plan.rates_ppm[clients + node])
        });
        Self {
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            last: 0,
            chance: Chance::new(plan.seed ^ 0x5eed),
            nodes: nodes.collect(),
            links: vec![vec![Link::default(); plan.nodes]; clients],
            conns: Vec::new(),
            checks: Checks::default(),
            switches,
            events: 0,
            latency_ms: plan.latency_ms,
            flaky: plan.flaky,
            sleepy: plan.sleepy,
            // Half as long again as a lease, so that each part of it is slept through.
            longest_nap: (plan.ttl * 3 / 2).min(LATEST),
            calm: false,
            story: told.then(Vec::new),
        }
    }

    /// A number that was not given out before.
    pub(super) fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn schedule(&mut self, at: Duration, event: Event) {
        let last = self.fresh();
        self.queue.insert((at.max(self.now), last), event);
    }

    /// Goes on to the next event, if there is one until `end`.
    pub(super) fn next(&mut self, end: Duration) -> Option<Event> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= end)?;
        self.now = entry.key().0;
        self.events += 1;
        Some(entry.remove())
    }

    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(story) = &mut self.story {
            story.push(format!("{:10.4} s  {}", now.as_secs_f64(), line()));
        }
    }

    pub(super) fn story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }

    pub(super) fn link(&mut self, client: usize, node: usize) -> &mut Link {
        &mut self.links[client][node]
    }

    fn delay(&mut self, client: usize, node: usize) -> Duration {
        let delay = if self.chance.one_in(50) {
            self.chance.ms(1..60)
        } else {
            self.chance.ms(0..self.latency_ms)
        };
        delay + self.links[client][node].slow
    }

    /// Opens a connection, which is good for nothing before [`Note::Connected`] comes back.
    pub(super) fn connect(&mut self, client: usize, node: usize, timeout: Duration, epoch: u64) {
        let link = self.links[client][node].clone();
        let SimNode { hung, down, incarnation, .. } = self.nodes[node];
        let there = self.delay(client, node);
        let (after, conn) = if link.cut > 0 || link.deaf > 0 || (hung > 0 && down == 0) {
            (timeout, None)
        } else if down > 0 {
            (there, None)
        } else {
            self.conns.push(Conn {
                client,
                node,
                incarnation,
                open: true,
                reset: None,
                requests: VecDeque::new(),
                replies: VecDeque::new(),
                last_request: Duration::ZERO,
                last_reply: Duration::ZERO,
                stalled_requests: 0,
                stalled_replies: 0,
            });
            (there + self.delay(client, node), Some(self.conns.len() - 1))
        };
        let wall = self.nodes[node].wall(self.now + there.min(timeout));
        let note = Note::Connected { node, epoch, conn, wall };
        self.schedule(self.now + after, Event::ForClient { client, note });
    }

    /// Whether the connection still leads to a process.
    pub(super) fn is_alive(&self, conn: ConnId) -> bool {
        let conn = &self.conns[conn];
        conn.reset.is_none() && self.nodes[conn.node].incarnation == conn.incarnation
    }

    pub(super) fn send(&mut self, id: ConnId, message: Message) {
        let (client, node) = (self.conns[id].client, self.conns[id].node);
        let at = (self.now + self.delay(client, node)).max(self.conns[id].last_request);
        let conn = &mut self.conns[id];
        conn.last_request = at;
        conn.requests.push_back(message);
        self.schedule(at, Event::AtNode { conn: id, late: false });
        if self.happens(self.flaky) {
            self.break_off(id);
        }
    }

    fn happens(&mut self, one_in: usize) -> bool {
        one_in > 0 && !self.calm && self.chance.one_in(one_in)
    }

    /// A process is about to do something: perhaps it is stopped right now.
    pub(super) fn perhaps_pause(&mut self, client: usize) {
        if self.happens(self.sleepy) {
            let lasts = self.longest_nap.mul_f64(self.chance.share());
            self.schedule(self.now, Event::Pause { client, lasts });
        }
    }

    pub(super) fn client_of(&self, conn: ConnId) -> usize {
        self.conns[conn].client
    }

    /// The client closes it. What it has sent may still arrive.
    pub(super) fn close(&mut self, id: ConnId) {
        self.conns[id].open = false;
    }

    pub(super) fn close_all(&mut self, client: usize) {
        self.conns.iter_mut().filter(|conn| conn.client == client).for_each(|c| c.open = false);
    }

    /// A request arrives.
    pub(super) fn at_node(&mut self, id: ConnId, late: bool) {
        let conn = &mut self.conns[id];
        if let (Some(fate), false) = (conn.reset, late) {
            match fate {
                None => conn.requests.clear(),
                Some(by) => {
                    let at = (self.now + by).max(conn.last_request);
                    conn.last_request = at;
                    self.schedule(at, Event::AtNode { conn: id, late: true });
                }
            }
            return;
        }
        let (client, node) = (conn.client, conn.node);
        if self.links[client][node].cut > 0 {
            conn.stalled_requests += 1;
        } else if self.nodes[node].incarnation != conn.incarnation {
            conn.requests.clear();
            self.tell_closed(id);
        } else if self.nodes[node].hung > 0 {
            self.nodes[node].waiting.push(id);
        } else {
            self.run(id);
        }
    }

    fn run(&mut self, id: ConnId) {
        let conn = &mut self.conns[id];
        let Some(Message { command, key, owner, what }) = conn.requests.pop_front() else { return };
        let (client, node, open) = (conn.client, conn.node, conn.open && conn.reset.is_none());
        let now = self.now;
        let wall = self.nodes[node].wall(now);
        let reply = self.nodes[node].call(&command, now);
        let ours = self.nodes[node].value(&key, now).as_deref() == Some(&*owner);
        let ran = Ran { node, key: &key, owner: &owner, what, ghost: !open, ours };
        self.checks.ran(&ran, now);
        self.tell(|| {
            let ghost = if open { "" } else { " (a ghost)" };
            let owner = String::from_utf8_lossy(&owner[..4]).into_owned();
            // Looks say much, and what they change is seen by what follows.
            let answer = if what == "look" || what == "change" {
                String::new()
            } else {
                format!(" as {owner}: {reply:?}")
            };
            format!("node {node}: {what} of client {client}{answer}{ghost}")
        });
        if open {
            let at = (now + self.delay(client, node)).max(self.conns[id].last_reply);
            let conn = &mut self.conns[id];
            conn.last_reply = at;
            conn.replies.push_back((reply, wall));
            self.schedule(at, Event::AtClient { conn: id });
        }
    }

    /// A reply arrives: from which node, and what it says.
    pub(super) fn at_client(&mut self, id: ConnId) -> Option<(usize, Reply, Duration)> {
        let conn = &mut self.conns[id];
        let link = &self.links[conn.client][conn.node];
        if !conn.open || conn.reset.is_some() {
            return None;
        }
        if link.cut > 0 || link.deaf > 0 {
            conn.stalled_replies += 1;
            return None;
        }
        let (reply, wall) = conn.replies.pop_front()?;
        Some((conn.node, reply, wall))
    }

    /// One reason less for them to be cut off.
    pub(super) fn mend(&mut self, client: usize, node: usize) {
        self.links[client][node].cut -= 1;
        if self.links[client][node].cut > 0 {
            return;
        }
        for id in self.conns_between(client, node) {
            let requests = std::mem::take(&mut self.conns[id].stalled_requests);
            // What a closed connection has not delivered may be sent again for a while, or not.
            if self.conns[id].open || self.chance.one_in(2) {
                let at = self.now + self.delay(client, node);
                (0..requests).for_each(|_| {
                    self.schedule(at, Event::AtNode { conn: id, late: true });
                });
            } else {
                self.conns[id].requests.clear();
            }
        }
        self.deliver_stalled_replies(client, node);
    }

    /// One reason less for replies to get lost.
    pub(super) fn hear_again(&mut self, client: usize, node: usize) {
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
            let at = self.now + self.delay(client, node);
            (0..replies).for_each(|_| self.schedule(at, Event::AtClient { conn: id }));
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
    pub(super) fn reset(&mut self, client: usize, node: usize) {
        for id in self.conns_between(client, node) {
            self.break_off(id);
        }
    }

    /// Breaks one connection. What was on its way runs later, or never.
    fn break_off(&mut self, id: ConnId) {
        if self.conns[id].open && self.conns[id].reset.is_none() {
            let late = self.chance.one_in(2).then(|| LATEST.mul_f64(self.chance.share()));
            self.conns[id].reset = Some(late);
            self.tell_closed(id);
        }
    }

    fn tell_closed(&mut self, id: ConnId) {
        let Conn { client, node, .. } = self.conns[id];
        let at = self.now + self.delay(client, node);
        let note = Note::Closed { node, conn: id };
        self.schedule(at, Event::ForClient { client, note });
    }

    /// Ends the process of a node.
    pub(super) fn stop(&mut self, node: usize, keep_data: bool) {
        self.nodes[node].stop(keep_data);
        for id in 0..self.conns.len() {
            let conn = &self.conns[id];
            let link = &self.links[conn.client][conn.node];
            if conn.node == node && conn.open && link.cut == 0 && link.deaf == 0 {
                self.tell_closed(id);
            }
        }
    }

    /// Sets the marks of nodes that were in use before, and have forgotten nothing.
    pub(super) fn admit_all(&mut self, plan: &Plan) {
        let now = self.now;
        for node in &mut self.nodes {
            let reply = node.call(&look_request(MARK, None).eval(), now);
            let (look, _) = read_look(&value(&reply)).expect("a look");
            let configuration = configuration(plan);
            let mark = Mark { configuration, identity: look.identity, state: State::Admitted };
            node.call(&[b"SET".to_vec(), MARK.to_vec(), mark.to_string().into_bytes()], now);
        }
    }

    pub(super) fn flush(&mut self, node: usize) {
        let now = self.now;
        self.nodes[node].call(&[b"FLUSHALL".to_vec()], now);
    }

    pub(super) fn start(&mut self, node: usize) {
        self.nodes[node].down -= 1;
    }

    /// The node does not hang any more, for one reason less, and does what it has received.
    pub(super) fn resume(&mut self, node: usize) {
        self.nodes[node].hung -= 1;
        if self.nodes[node].hung == 0 {
            let waiting = std::mem::take(&mut self.nodes[node].waiting);
            waiting.into_iter().for_each(|conn| self.run(conn));
        }
    }
}
