//! The network between clients and nodes: delays, losses, and requests that run on dead connections.

mod harm;
mod listen;
mod running;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::chance::Chance;
use super::checkers::Checks;
use super::client::Note;
use super::node::{SimNode, run_id};
use super::plan::Plan;
use super::switches::Switches;
use super::worker::NoAnswer;
use crate::core::admission::Identity;
use crate::core::link::PATIENCE;
use crate::embedded::Reply;
use crate::node::OF_SERVER;

/// Longest delay of late messages and pauses.
pub(super) const LATEST: Duration = Duration::from_secs(3);

pub(super) type ConnId = usize;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The next request on the connection reaches the node; `late`, if the connection was reset before.
    AtNode {
        conn: ConnId,
        late: bool,
    },
    /// The next reply reaches the client.
    AtClient {
        conn: ConnId,
    },
    /// A connection for subscriptions reaches the node.
    Listen {
        client: usize,
        node: usize,
        session: u64,
    },
    /// A request over such a connection reaches the node: to subscribe to that channel (`on`), or to unsubscribe.
    Subscribe {
        client: usize,
        node: usize,
        session: u64,
        channel: usize,
        on: bool,
    },
    /// Requests that were held up on that connection go on.
    LetGo {
        conn: ConnId,
    },
    /// A `WAIT` behind a grant is at the node, and waits until then for its replica. It has come to the process with that number,
    /// once it has come.
    Waits {
        client: usize,
        node: usize,
        id: u64,
        until: Duration,
        incarnation: Option<u64>,
    },
    /// An event inside one client.
    ForClient {
        client: usize,
        note: Note,
    },
    /// The checkers check the state.
    Audit,
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

/// A call of a script, as it goes over the network: for one request, or for all of a batch.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) command: Vec<Vec<u8>>,
    pub(super) parts: Vec<Part>,
    /// True if the script is named by its hash, which the node may not know.
    pub(super) by_hash: bool,
}

impl Message {
    /// A command that calls no script.
    pub(super) const fn of(command: Vec<Vec<u8>>) -> Self {
        Self { command, parts: Vec::new(), by_hash: false }
    }

    /// Its purpose.
    pub(super) fn what(&self) -> &'static str {
        let of_command = || match self.command[0].as_slice() {
            b"INFO" => "info",
            b"TIME" => "clock",
            b"CLIENT" => "end",
            _ => "",
        };
        self.parts.first().map_or_else(of_command, |part| part.what)
    }
}

/// The commands that show which server answers.
pub(super) fn info() -> impl Iterator<Item = Vec<Vec<u8>>> {
    OF_SERVER.iter().map(|section| vec![b"INFO".to_vec(), section.as_bytes().to_vec()])
}

/// Keys, owner and purpose of one request.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) keys: Rc<[Vec<u8>]>,
    pub(super) owner: Rc<Vec<u8>>,
    pub(super) what: &'static str,
}

/// The direction of a message between a client and a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToNode,
    ToClient,
}

/// Troubles between a client and a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) cut: u32,
    pub(super) deaf: u32,
    slow_to_node: Duration,
    slow_to_client: Duration,
    troubled_at: Duration,
    /// Last time at which the client found that it cannot reach the node.
    pub(super) failed_at: Duration,
    /// The server on which the mark was read that the client has of the node.
    probed: Option<Identity>,
}

impl Link {
    /// Extra delay of messages that way.
    pub(super) fn slow(&mut self, way: Way) -> &mut Duration {
        match way {
            Way::ToNode => &mut self.slow_to_node,
            Way::ToClient => &mut self.slow_to_client,
        }
    }

    /// Extra delay of a request and its answer together.
    fn slow_both_ways(&self) -> Duration {
        self.slow_to_node + self.slow_to_client
    }
}

#[derive(Debug)]
struct Conn {
    client: usize,
    node: usize,
    incarnation: u64,
    /// True until the client closes it.
    open: bool,
    /// Time at which the client gave it up, since the node was silent.
    given_up_at: Option<Duration>,
    /// Set once it was reset: requests on their way run that much later, or never (inner `None`).
    reset: Option<Option<Duration>>,
    requests: VecDeque<Message>,
    /// Each reply, with the node's wall clock at that time, and the purpose of the request.
    replies: VecDeque<(Reply, Duration, &'static str)>,
    /// Arrival times of the last request and of the last reply.
    last_request: Duration,
    last_reply: Duration,
    stalled_requests: usize,
    stalled_replies: usize,
    /// True while requests that were written over it are held up on their way.
    held: bool,
    /// True if no further reply arrives.
    mute: bool,
    /// The server that has run the last script of a probe.
    probed: Option<Identity>,
    /// True once the node has ended it. Nothing that was written over it runs any more.
    ended: bool,
}

/// A master that lives on beside the replica that was promoted in its place.
struct OldMaster {
    server: SimNode,
    node: usize,
    /// The number of clients that still reach it: the first ones.
    clients: usize,
    /// The time until which the promoted replica grants nothing.
    successor_away_until: Duration,
}

pub(super) struct Network {
    /// True time, which no client and no node sees.
    pub(super) now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    last: u64,
    pub(super) chance: Chance,
    pub(super) nodes: Vec<SimNode>,
    /// The old master of a node that was replaced, if it lives on.
    old_master: Option<OldMaster>,
    links: Vec<Vec<Link>>,
    conns: Vec<Conn>,
    /// The channels that were ever subscribed to, or published on.
    channels: Vec<Vec<u8>>,
    /// The owners whose releases were announced.
    published: Vec<Vec<u8>>,
    /// For each client: the owners whose releases it was told of since its last attempt began.
    pub(super) told_since: Vec<Vec<Vec<u8>>>,
    listeners: Vec<Vec<listen::Listener>>,
    pub(super) checks: Checks,
    pub(super) switches: Switches,
    pub(super) events: u64,
    /// Number of batches that were run.
    pub(super) batches: usize,
    /// Number of writes that followed an unanswered one.
    pub(super) followed: usize,
    /// Number of calls that named a script unknown to the node.
    pub(super) unknown: usize,
    latency_ms: u64,
    stragglers: usize,
    flaky: usize,
    sleepy: usize,
    pub(super) pair: bool,
    /// True if a proxy keeps connections open when a node is restarted, and the node refuses `INFO` in scripts.
    pub(super) relayed: bool,
    /// True if a proxy keeps connections open when a node is restarted.
    keeps_connections: bool,
    longest_nap: Duration,
    /// True once faults are over.
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
            chance: if plan.explored { Chance::fixed() } else { Chance::new(plan.seed ^ 0x5eed) },
            nodes: nodes.collect(),
            old_master: None,
            links: vec![vec![Link::default(); plan.nodes]; clients],
            conns: Vec::new(),
            channels: Vec::new(),
            published: Vec::new(),
            told_since: vec![Vec::new(); clients],
            listeners: vec![vec![listen::Listener::default(); plan.nodes]; clients],
            checks: Checks::default(),
            switches,
            events: 0,
            batches: 0,
            followed: 0,
            unknown: 0,
            latency_ms: plan.latency_ms,
            stragglers: plan.stragglers,
            flaky: plan.flaky,
            sleepy: plan.sleepy,
            pair: plan.pair,
            relayed: plan.relayed,
            keeps_connections: plan.relayed || plan.unnoticed_proxy,
            // Half as long again as a lease, so that pauses cover each part of a lease.
            longest_nap: (plan.ttl * 3 / 2).min(LATEST),
            calm: false,
            story: told.then(Vec::new),
        }
    }

    /// A new number, which was not given out before.
    pub(super) fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn schedule(&mut self, at: Duration, event: Event) {
        let last = self.fresh();
        self.queue.insert((at.max(self.now), last), event);
    }

    /// Advances to the next event, if there is one until `end`.
    pub(super) fn next(&mut self, end: Duration) -> Option<Event> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 <= end)?;
        self.now = entry.key().0;
        self.events += 1;
        Some(entry.remove())
    }

    /// Returns true if nothing more happens now.
    pub(super) fn is_over_for_now(&self) -> bool {
        self.queue.first_key_value().is_none_or(|((at, _), _)| *at > self.now)
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

    fn delay(&mut self, client: usize, node: usize, way: Way) -> Duration {
        let delay = if self.straggles() {
            self.chance.ms(1..60)
        } else {
            self.chance.ms(0..self.latency_ms)
        };
        delay + *self.link(client, node).slow(way)
    }

    /// Opens a connection. It cannot be used before [`Note::Connected`] comes back.
    pub(super) fn connect(&mut self, client: usize, node: usize, timeout: Duration, epoch: u64) {
        let link = self.links[client][node].clone();
        let SimNode { hung, down, loading, incarnation, .. } = *self.server(client, node);
        let there = self.delay(client, node, Way::ToNode);
        let (after, conn) = if link.cut > 0 || link.deaf > 0 {
            (timeout, Err(NoAnswer::Way))
        } else if hung > 0 && down == 0 {
            // Its system accepts the connection, and it does not answer the login.
            (timeout.max(PATIENCE), Err(NoAnswer::Way))
        } else if down > 0 {
            (there, Err(NoAnswer::Way))
        } else if loading > 0 {
            (there + self.delay(client, node, Way::ToClient), Err(NoAnswer::SaysNo))
        } else {
            self.conns.push(Conn {
                client,
                node,
                incarnation,
                open: true,
                given_up_at: None,
                reset: None,
                requests: VecDeque::new(),
                replies: VecDeque::new(),
                last_request: Duration::ZERO,
                last_reply: Duration::ZERO,
                stalled_requests: 0,
                stalled_replies: 0,
                held: false,
                mute: false,
                probed: None,
                ended: false,
            });
            (there + self.delay(client, node, Way::ToClient), Ok(self.conns.len() - 1))
        };
        let note = Note::Connected { node, epoch, conn };
        self.schedule(self.now + after, Event::ForClient { client, note });
    }

    /// Notes the present time for each node that the client has trouble to reach, or for all if it does not run (`runs`).
    pub(super) fn note_touch(&mut self, client: usize, runs: bool) {
        for (node, link) in self.links[client].iter_mut().enumerate() {
            let SimNode { hung, down, loading, .. } = self.nodes[node];
            let free = link.cut == 0 && link.deaf == 0 && link.slow_both_ways().is_zero();
            if !(runs && free && hung == 0 && down == 0 && loading == 0) {
                link.troubled_at = self.now;
            }
        }
    }

    /// Returns the last noted time of trouble between them.
    pub(super) fn troubled_at(&self, client: usize, node: usize) -> Duration {
        self.links[client][node].troubled_at
    }

    /// Returns true if the connection still leads to a process.
    pub(super) fn is_alive(&self, conn: ConnId) -> bool {
        let conn = &self.conns[conn];
        conn.reset.is_none() && self.server(conn.client, conn.node).incarnation == conn.incarnation
    }

    pub(super) fn send(&mut self, id: ConnId, message: Message) {
        let (client, node) = (self.conns[id].client, self.conns[id].node);
        let at = self.now + self.delay(client, node, Way::ToNode);
        let at = at.max(self.conns[id].last_request);
        let conn = &mut self.conns[id];
        conn.last_request = at;
        conn.requests.push_back(message);
        self.schedule(at, Event::AtNode { conn: id, late: false });
        if self.happens(self.flaky) {
            self.break_off(id);
        }
    }

    pub(super) fn client_of(&self, conn: ConnId) -> usize {
        self.conns[conn].client
    }

    /// Closes it on the client's side. Requests that were sent may still arrive.
    pub(super) fn close(&mut self, id: ConnId) {
        self.conns[id].open = false;
    }

    /// As `close`, because the node is silent, although the connection may work.
    pub(super) fn give_up(&mut self, id: ConnId) {
        let is_alive = self.is_alive(id);
        let conn = &mut self.conns[id];
        conn.given_up_at = Some(self.now).filter(|_| conn.open && is_alive);
        conn.open = false;
    }

    pub(super) fn close_all(&mut self, client: usize) {
        self.conns.iter_mut().filter(|conn| conn.client == client).for_each(|c| c.open = false);
        (0..self.nodes.len()).for_each(|node| self.stop_listening(client, node));
    }

    /// Names the process of the node to which the connection leads.
    pub(super) fn run_of(&self, conn: ConnId) -> String {
        let Conn { node, incarnation, .. } = self.conns[conn];
        run_id(node, incarnation)
    }

    /// Handles a request that arrives.
    pub(super) fn at_node(&mut self, id: ConnId, late: bool) {
        let Conn { client, node, .. } = self.conns[id];
        self.at_server(client, node, |net| net.arrive(id, late));
    }

    fn arrive(&mut self, id: ConnId, late: bool) {
        let conn = &mut self.conns[id];
        if conn.ended {
            return;
        } else if conn.held {
            conn.stalled_requests += 1;
            return;
        }
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
        } else if self.nodes[node].hung > 0 || self.nodes[node].down > 0 {
            self.nodes[node].waiting.push(id);
        } else {
            self.run(id);
        }
    }

    /// Handles a reply that arrives. Returns its node, the reply, and the node's wall clock.
    pub(super) fn at_client(&mut self, id: ConnId) -> Option<(usize, Reply, Duration)> {
        let conn = &mut self.conns[id];
        let link = &self.links[conn.client][conn.node];
        if !conn.open || conn.reset.is_some() || conn.mute {
            return None;
        }
        if link.cut > 0 || link.deaf > 0 {
            conn.stalled_replies += 1;
            return None;
        }
        let (reply, wall, _) = conn.replies.pop_front()?;
        Some((conn.node, reply, wall))
    }
}
