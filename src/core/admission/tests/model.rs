//! A small world for the admission machines: servers that restart, are flushed, promoted and have their clocks set, and clients
//! whose requests are held up for as long as a test wants.

use super::super::link::ClockVerdict;
use super::clocks::{Offset, milliseconds};
use super::mark::Identity;
use super::old_master::OLD_MASTER_WRITES;
use super::*;

pub(super) const MAX_TTL: Duration = Duration::from_millis(10_000);
pub(super) const TOLERANCE: Duration = Duration::from_millis(100);

pub(super) fn configuration(nodes: usize) -> Configuration {
    Configuration {
        set_name: "default".to_owned(),
        nodes,
        max_ttl: MAX_TTL,
        clock_tolerance: TOLERANCE,
        quarantine: true,
        index: None,
    }
}

/// One server, and the time at which it last may have forgotten something.
pub(super) struct Server {
    run: u64,
    repl: u64,
    promoted: bool,
    /// False if it has forgotten its earlier replication id.
    shows_promotion: bool,
    pub(super) role: Role,
    pub(super) mark: Option<String>,
    /// False if it answers as always, but leaves its mark as it is.
    pub(super) takes_marks: bool,
    /// Lead of its clock over true time, in milliseconds.
    pub(super) clock_ms: i64,
    pub(super) forgot_at: Time,
    /// The time at which its clock was last set forward, so that keys may have ended too early.
    set_at: Time,
}

impl Server {
    /// Does the work of `lua/node/admit.lua`.
    fn admit(&mut self, change: Option<&Change>, now: Time) -> Marked {
        let changed = change.is_some_and(|change| {
            self.role == Role::Master && self.takes_marks && change.replaces == self.mark
        });
        if let Some(change) = change.filter(|_| changed) {
            self.mark = Some(change.new.clone());
        }
        Marked { changed, mark: self.mark.clone(), clock: self.read(now, now, now) }
    }

    fn identity(&self) -> Identity {
        let identity = Identity::new(&format!("run{}", self.run), &format!("repl{}", self.repl));
        identity.expect("letters and digits")
    }

    /// Does the work of `INFO`.
    fn info(&self) -> Info {
        let promoted = self.promoted && self.shows_promotion;
        Info { role: self.role, identity: self.identity(), promoted }
    }

    /// Returns a reading of its clock by a client that asked and was answered at those times of its own clock.
    fn read(&self, now: Time, sent: Time, received: Time) -> Offset {
        let time_ms = clock(now).saturating_add_signed(self.clock_ms);
        Offset::new(time_ms.cast_signed() * 1_000, sent, received)
    }

    /// Returns the time after which all that it has forgotten has ended. The old master of a promoted server may grant for a while.
    fn forgets_for(&self) -> Duration {
        MAX_TTL + if self.promoted { OLD_MASTER_WRITES } else { Duration::ZERO }
    }

    /// Returns true if its mark says so, and was made for this very server.
    pub(super) fn is_admitted(&self) -> bool {
        let mark = self.mark.as_deref().and_then(Mark::parse);
        mark.is_some_and(|mark| {
            mark.state == MarkState::Admitted && mark.identity == self.identity()
        })
    }
}

/// A request of a client on its way to a server, or its answer on the way back.
struct Sent {
    change: Option<Change>,
    at: Time,
    marked: Option<Marked>,
    info: Option<Info>,
}

/// The answer of the script.
struct Marked {
    changed: bool,
    mark: Option<String>,
    clock: Offset,
}

/// The answer to `INFO`.
struct Info {
    role: Role,
    identity: Identity,
    promoted: bool,
}

pub(super) struct Client {
    pub(super) admission: Admission,
    /// Lead of its own clock over true time, in milliseconds.
    clock_ms: u64,
    on_the_way: Vec<Option<Sent>>,
    pub(super) reachable: Vec<bool>,
}

impl Client {
    pub(super) fn now(&self, now: Time) -> Time {
        now.after(Duration::from_millis(self.clock_ms))
    }

    pub(super) fn set_time(&self, now: Time) -> Option<SetTime> {
        self.admission.set_time(self.now(now))
    }

    pub(super) fn ready_in(&self, now: Time) -> Option<Duration> {
        self.admission.ready_in(self.now(now), self.set_time(now))
    }
}

pub(super) struct World {
    pub(super) now: Time,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    /// Changes that a client has sent and does not wait for any more; they may arrive at any time.
    in_flight: Vec<(usize, u64, Change)>,
    /// Nodes that were admitted too early.
    pub(super) early: Vec<String>,
    /// The next run id, replication id or name of a quarantine.
    next_id: u64,
}

fn clock(time: Time) -> u64 {
    milliseconds(time.since(Time::default()))
}

impl World {
    /// Returns new servers, a true time far from zero, and a client for each configuration, each with a clock of its own.
    pub(super) fn new(nodes: usize, clients: &[Configuration]) -> Self {
        let now = Time::default().after(Duration::from_secs(1_000_000));
        let server = |node| Server {
            run: node,
            repl: node,
            promoted: false,
            shows_promotion: true,
            role: Role::Master,
            mark: None,
            takes_marks: true,
            clock_ms: 0,
            forgot_at: now,
            set_at: now,
        };
        let client = |(i, configuration): (usize, &Configuration)| Client {
            admission: Admission::new(configuration, false),
            clock_ms: 77_777_777 * i as u64,
            on_the_way: (0..nodes).map(|_| None).collect(),
            reachable: vec![true; nodes],
        };
        Self {
            now,
            servers: (0..nodes as u64).map(server).collect(),
            clients: clients.iter().enumerate().map(client).collect(),
            in_flight: Vec::new(),
            early: Vec::new(),
            next_id: nodes as u64,
        }
    }

    /// Returns a world of one configuration in which all nodes have been admitted for long.
    pub(super) fn settled(nodes: usize, clients: usize) -> Self {
        let mut world = Self::new(nodes, &vec![configuration(nodes); clients]);
        world.run(MAX_TTL * 3);
        assert!((0..nodes).all(|node| world.takes(0, node)), "a new set is admitted at last");
        world
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.now = self.now.after(by);
    }

    /// Lets time pass while all clients do what is due.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.visit_all();
            self.advance(Duration::from_millis(200));
        }
        self.visit_all();
    }

    pub(super) fn visit_all(&mut self) {
        (0..self.clients.len()).for_each(|client| self.visit(client));
    }

    /// Lets `client` do all that is due now, without delays.
    pub(super) fn visit(&mut self, client: usize) {
        // Twice, since the first nodes may have waited for an answer of the last ones.
        for node in (0..self.servers.len()).chain(0..self.servers.len()) {
            let mut steps = 0;
            while self.ask(client, node) {
                self.arrive(client, node);
                self.answer(client, node);
                steps += 1;
                assert!(steps < 20, "a client and a node that do not come to an end");
            }
        }
    }

    /// Sends a request if one is due, and returns true then.
    pub(super) fn ask(&mut self, client: usize, node: usize) -> bool {
        let (now, id) = (self.now, self.id());
        let client = &mut self.clients[client];
        if !client.reachable[node] || client.on_the_way[node].is_some() {
            return false;
        }
        let (at, set_time) = (client.now(now), client.set_time(now));
        let change = match client.admission.next(node, at, set_time, Chance { id, jitter: 0.5 }) {
            NextProbe::Wait(until) => {
                assert!(until > at, "a wait for what has been");
                return false;
            }
            NextProbe::Ask(change) => change,
        };
        client.on_the_way[node] = Some(Sent { change, at, marked: None, info: None });
        true
    }

    /// Runs the next command of the question that is on its way to `node`: the script, and then `INFO`.
    pub(super) fn arrive(&mut self, client: usize, node: usize) {
        if let Some(sent) = &mut self.clients[client].on_the_way[node] {
            let (server, now) = (&mut self.servers[node], self.now);
            if sent.marked.is_some() {
                sent.info.get_or_insert_with(|| server.info());
            } else {
                let admitted = server.is_admitted();
                sent.marked = Some(server.admit(sent.change.as_ref(), now));
                self.check(node, admitted);
            }
        }
    }

    /// Delivers the answer to the client, once the first command has arrived.
    pub(super) fn answer(&mut self, client: usize, node: usize) {
        let is_begun = |sent: &Sent| sent.marked.is_some();
        if self.clients[client].on_the_way[node].as_ref().is_some_and(is_begun) {
            self.arrive(client, node);
        }
        let now = self.now;
        let client = &mut self.clients[client];
        let received = client.now(now);
        if let Some(Sent { at, marked: Some(marked), info: Some(info), .. }) =
            client.on_the_way[node].take_if(|sent| sent.info.is_some())
        {
            let Marked { changed, mark, clock } = marked;
            let Info { role, identity, promoted } = info;
            let clock = Offset::new(clock.read_ms().cast_signed() * 1_000, at, received);
            let probe = Probe { changed, role, identity, promoted, clock, mark };
            client.admission.probed(node, probe, received);
        }
    }

    /// Breaks the connection. A request on its way may still arrive.
    pub(super) fn cut(&mut self, client: usize, node: usize) {
        let client = &mut self.clients[client];
        client.admission.lost(node);
        if let Some(Sent { change: Some(change), marked: None, .. }) =
            client.on_the_way[node].take()
        {
            self.in_flight.push((node, self.servers[node].run, change));
        }
    }

    /// Cuts `client` off from `node` until further notice, or ends that.
    pub(super) fn reach(&mut self, client: usize, node: usize, reachable: bool) {
        self.cut(client, node);
        self.clients[client].reachable[node] = reachable;
    }

    /// Delivers a request whose client does not wait for it any more.
    pub(super) fn haunt(&mut self, which: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let (node, run, change) = self.in_flight.swap_remove(which % self.in_flight.len());
        // Requests that were sent to a process end with it.
        if self.servers[node].run == run {
            let admitted = self.servers[node].is_admitted();
            self.servers[node].admit(Some(&change), self.now);
            self.check(node, admitted);
        }
    }

    pub(super) fn restart(&mut self, node: usize, with_data: bool) {
        let (run, repl) = (self.id(), self.id());
        let server = &mut self.servers[node];
        (server.run, server.repl, server.promoted) = (run, repl, false);
        if !with_data {
            server.mark = None;
        }
        server.forgot_at = self.now;
        (0..self.clients.len()).for_each(|client| self.cut(client, node));
    }

    pub(super) fn flush(&mut self, node: usize) {
        self.servers[node].mark = None;
        self.servers[node].forgot_at = self.now;
    }

    /// Sets the node's clock so far ahead of true time. A step forward ends keys too early.
    ///
    /// Before that, all clients have seen where the clock was, and no doubt about it is left. Two known limits are no part of the
    /// model: a clock that is set forward, and back again before it is probed; and one that is set back and forward while nobody
    /// can tell whose clock it was.
    pub(super) fn set_clock(&mut self, node: usize, ahead_ms: i64) {
        (0..self.clients.len()).for_each(|client| self.cut(client, node));
        self.visit_all();
        if self.clients.iter().any(|it| it.admission.nodes[node].clock.stepped.is_some()) {
            return;
        }
        self.advance(Duration::from_millis(1));
        let before = self.servers[node].clock_ms;
        // With one clock or two, nobody knows which one is wrong.
        let matters = i64::try_from(TOLERANCE.as_millis()).expect("short");
        if ahead_ms - before > matters && self.servers.len() > 2 {
            self.servers[node].set_at = self.now;
        }
        self.servers[node].clock_ms = ahead_ms;
    }

    /// Returns true if each client that knows the node's mark finds it as wrong, within 100 ms, as those of a majority.
    pub(super) fn is_noted(&self, node: usize) -> bool {
        self.clients.iter().all(|client| {
            let noted = client
                .admission
                .nodes
                .iter()
                .map(|known| known.clock.noted.map(|noted| noted.ahead_ms));
            let off: Vec<_> =
                noted.zip(&self.servers).map(|(noted, it)| Some(noted? - it.clock_ms)).collect();
            let Some(here) = off[node] else { return true };
            let same = off.iter().flatten().filter(|there| (**there - here).abs() <= 100);
            same.count() >= majority(off.len())
        })
    }

    /// The server was a replica for a while, and is a master again, with the data of another server. Clients have noticed, since
    /// it refused to write. (A client that did not ask it anything has not; that is a known limit, and no part of the model.)
    pub(super) fn promote(&mut self, node: usize) {
        let repl = self.id();
        let server = &mut self.servers[node];
        (server.repl, server.promoted, server.forgot_at) = (repl, true, self.now);
        server.shows_promotion = true;
        (0..self.clients.len()).for_each(|client| self.cut(client, node));
    }

    /// The server forgets its earlier replication id, as with its backlog while it has no replica.
    pub(super) fn forget_backlog(&mut self, node: usize) {
        self.servers[node].shows_promotion = false;
    }

    /// Adds a first replica. After a promotion, that changes nothing.
    pub(super) fn replica_comes(&mut self, node: usize) {
        if !self.servers[node].promoted {
            self.servers[node].repl = self.id();
        }
    }

    /// Returns true if `node` grants a lock to `client` now; a refusal is noted.
    pub(super) fn takes(&mut self, client: usize, node: usize) -> bool {
        let client = &mut self.clients[client];
        let server = &self.servers[node];
        let mark = match client.admission.grants(node) {
            Grants::Nothing => return false,
            Grants::Always => return client.reachable[node],
            Grants::Under(mark) => mark.to_owned(),
        };
        if !client.reachable[node] || server.mark.as_ref() != Some(&mark) {
            client.admission.doubt(node, Some(&mark));
            return false;
        }
        // The time comes with the answer.
        let own = client.now(self.now);
        let verdict = client.admission.read(node, server.read(self.now, own, own));
        verdict == ClockVerdict::Fits
    }

    /// Returns true if a majority grants to `client` now.
    pub(super) fn locks(&mut self, client: usize) -> bool {
        let nodes = self.servers.len();
        (0..nodes).filter(|node| self.takes(client, *node)).count() >= majority(nodes)
    }

    /// Returns the time for which a lock may still be held that `node` has forgotten.
    fn forgets_for(&self, node: usize) -> Duration {
        let server = &self.servers[node];
        server.forgets_for().saturating_sub(self.now.since(server.forgot_at))
    }

    /// Returns the time for which a lock may still be held that it has forgotten, or has let end too early.
    pub(super) fn lets_go_for(&self, node: usize) -> Duration {
        let set_ago = self.now.since(self.servers[node].set_at);
        self.forgets_for(node).max(MAX_TTL.saturating_sub(set_ago))
    }

    /// Returns the longest time for which any of the nodes is in quarantine.
    pub(super) fn longest_quarantine(&self) -> Duration {
        self.servers.iter().map(Server::forgets_for).max().unwrap_or_default()
    }

    /// Checks the one rule: a node is admitted only when all that it may have forgotten has ended.
    fn check(&mut self, node: usize, before: bool) {
        let left = self.forgets_for(node);
        if !before && self.servers[node].is_admitted() && !left.is_zero() {
            self.early.push(format!(
                "node {node}, {left:?} before all that it may have forgotten has ended"
            ));
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}
