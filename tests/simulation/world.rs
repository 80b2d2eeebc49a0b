//! One run from beginning to end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::checkers::{Grant, Order, Turns, Violation, fence_left, kept_back, leaked};
use super::claim::MARK;
use super::client::{Client, Phase};
use super::faults;
use super::lock_id::LockId;
use super::network::{Event, LATEST, Network};
use super::plan::Plan;
use super::setup::LONGEST_KEPT;
use super::switches::Switches;
use crate::core::base::{Mechanism, majority, without};
use crate::core::vote::fence_outlives_ms;

/// Limit of events: far more than a run needs if no thread spins.
const MOST_EVENTS: u64 = 3_000_000;

/// Interval at which the checkers look for keys that nobody wants any more.
const AUDIT: Duration = Duration::from_millis(500);

pub(super) struct World {
    pub(super) net: Network,
    pub(super) clients: Vec<Client>,
    pub(super) plan: Plan,
}

/// The result of a run.
pub(super) struct Run {
    pub(super) violation: Option<Violation>,
    pub(super) story: Vec<String>,
    pub(super) events: u64,
    /// Numbers of batches that were run, of writes that followed an unanswered one, and of calls that named a script
    /// unknown to the node.
    pub(super) batches: usize,
    pub(super) followed: usize,
    pub(super) unknown: usize,
    pub(super) grants: Vec<Grant>,
    /// Longest wait of each client for a lock.
    pub(super) longest_waits: BTreeMap<usize, Duration>,
}

/// Runs `plan`, with a story of the events if `told`.
pub(super) fn run(plan: &Plan, switches: Switches, told: bool) -> Run {
    // Clocks with wrong rates are doubted all the time, and rightly so. Everything else must do no harm.
    let unwatched: &[_] = &[Mechanism::ClocksAreWatched, Mechanism::ClocksAreNoted];
    let off = [switches.off, if plan.wrong_rates { unwatched } else { &[] }].concat();
    without(&off, || run_now(plan, switches, told))
}

fn run_now(plan: &Plan, switches: Switches, told: bool) -> Run {
    let mut world = World::new(plan, switches, told);
    world.all();
    world.ends()
}

impl World {
    pub(super) fn new(plan: &Plan, switches: Switches, told: bool) -> Self {
        let mut net = Network::new(plan, switches, told);
        for (i, scheduled) in plan.faults.iter().enumerate() {
            net.schedule(scheduled.at, Event::Begin(i));
            net.schedule(scheduled.at + scheduled.lasts, Event::End(i));
        }
        net.schedule(AUDIT, Event::Audit);
        if !plan.new_set {
            net.admit_all(plan);
        }
        let clients = (0..plan.callers.len()).map(|i| Client::new(i, plan, &mut net)).collect();
        let mut world = World { net, clients, plan: plan.clone() };
        world.net.checks.rolling = plan.rolling;
        world.net.checks.blips = plan.blips;
        world.net.checks.ttl = plan.ttl;
        world.net.checks.longest_wait = plan.longest_wait;
        world.net.checks.turns = Turns::new(plan.callers.len(), plan.turns);
        world.net.checks.order = Order::new(plan.order);
        world.net.checks.only = switches.checkers;
        world.net.checks.one_configuration = plan.one_configuration();
        // With wrong rates, keys end at wrong times.
        world.net.checks.forgotten = plan.wrong_rates;
        world.net.checks.unguarded = plan.wrong_rates;
        world.net.checks.promise_exclusion = !plan.wrong_rates && !plan.deleting;
        world.net.checks.promise_tokens = plan.promises_tokens();
        world.net.checks.promise_jobs = plan.promises_jobs();
        world.net.checks.promise_admission = plan.explored;
        world.net.checks.promise_final = plan.explored && !plan.relayed && !plan.unnoticed_proxy;
        world
    }

    /// Returns the result of the run.
    pub(super) fn ends(mut self) -> Run {
        let world = &mut self;
        let violation = world.net.checks.violation().cloned();
        if let Some(violation) = &violation {
            world.net.tell(|| format!("VIOLATION: {violation}"));
        }
        Run {
            violation,
            story: world.net.story(),
            events: world.net.events,
            batches: world.net.batches,
            followed: world.net.followed,
            unknown: world.net.unknown,
            grants: std::mem::take(&mut world.net.checks.grants),
            longest_waits: std::mem::take(&mut world.net.checks.longest_waits),
        }
    }

    fn all(&mut self) {
        let ends = self.plan.faults.iter().map(|scheduled| scheduled.at + scheduled.lasts);
        let healed = ends.max().unwrap_or_default().max(self.plan.lasts);
        self.until(healed);
        self.drain(healed);
        if self.plan.outlasts_fences {
            self.outlast_fences();
        }
        self.phase(Phase::Probing);
        let each = self.plan.enough() + Duration::from_secs(1);
        let locks = LockId::probes(self.plan.names).count();
        self.idle_within(each * locks as u32, "progress");
    }

    /// Lets all callers finish their work, once everything is `healed`, and checks that nothing is left behind.
    pub(super) fn drain(&mut self, healed: Duration) {
        self.net.calm = true;
        // The last paused process goes on, and late messages arrive.
        self.until(healed + LATEST + Duration::from_secs(1));

        self.phase(Phase::Draining);
        // Keys of killed processes and of late requests must end first. Every caller then has a turn. The nodes may
        // keep the lock after each of these turns (`Caller::min_hold`), one after the other. If clients may fall
        // back, the first node's extra time for keys is added.
        let longest = self.plan.longest_ttl().mul_f64(1.02);
        let quarantine = self.plan.longest_ttl();
        let kept = longest.mul_f64(LONGEST_KEPT) * self.plan.callers.iter().sum::<usize>() as u32;
        let kept = kept + self.plan.first_keeps();
        self.idle_within(longest * 2 + quarantine + kept + Duration::from_secs(10), "waits");

        // Clients connect to nodes again, and tell them what they have missed.
        self.until(self.net.now + Duration::from_secs(3));
        if let Some(what) = leaked(&mut self.net, self.plan.names) {
            let now = self.net.now;
            self.net.checks.report(now, "leaks", what);
        }
        let now = self.net.now;
        self.net.checks.all_told(now);
    }

    /// Ends all processes, and starts others once the nodes keep no fence any more.
    fn outlast_fences(&mut self) {
        let (clients, net) = (&mut self.clients, &mut self.net);
        net.tell(|| "== nobody is there until all fences have expired".to_owned());
        clients.iter_mut().for_each(|client| client.crash(net));
        let outlives = Duration::from_millis(fence_outlives_ms().unsigned_abs());
        // The factor covers the slowest clock.
        self.until(self.net.now + (outlives + self.plan.longest_ttl()).mul_f64(1.06));
        if let Some(what) = fence_left(&mut self.net, self.plan.names) {
            let now = self.net.now;
            self.net.checks.report(now, "leaks", what);
        }
        let (clients, net) = (&mut self.clients, &mut self.net);
        clients.iter_mut().for_each(|client| client.start(net));
    }

    /// Checks that each client has given back all that it had to, on nodes that it has been in touch with for a while.
    fn audit(&mut self) {
        for client in 0..self.clients.len() {
            let runs = self.clients[client].runs();
            self.net.note_touch(client, runs);
        }
        let found = kept_back(&mut self.net, self.plan.names);
        let now = self.net.now;
        found.into_iter().for_each(|what| self.net.checks.report(now, "leaks", what));
    }

    /// Notes that a node is about to forget locks, and is kept away for as long as they could live.
    pub(super) fn forgets(&mut self, node: usize) {
        let until = self.net.now + self.plan.away();
        let away_until = &mut self.net.nodes[node].away_until;
        *away_until = until.max(*away_until);
        self.net.checks.forgotten = true;
        // The set's time goes on through the marks of the others.
        let now = self.net.now;
        let others = self.net.nodes.iter_mut().enumerate().filter(|(other, _)| *other != node);
        let marks = others.filter_map(|(_, other)| other.value(MARK, now)).count();
        let steps = self.plan.faults.iter().any(|scheduled| scheduled.fault.steps());
        let goes_on = self.plan.quarantine && !steps && marks >= majority(self.plan.nodes);
        let goes_on = goes_on || self.plan.time_goes_on;
        self.net.checks.promise_tokens &= goes_on || self.plan.clocks_agree();
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.net.tell(|| format!("== {phase:?}"));
        for client in &mut self.clients {
            client.enter(phase, &mut self.net);
        }
    }

    /// Runs until no caller has anything to do.
    pub(super) fn idle_within(&mut self, most: Duration, checker: &'static str) {
        const STEP: Duration = Duration::from_millis(50);
        let end = self.net.now + most;
        while self.net.checks.violation().is_none() && !self.clients.iter().all(Client::is_idle) {
            if self.net.now >= end {
                let now = self.net.now;
                let what = format!("a caller is still at it {most:?} after everything was healed");
                return self.net.checks.report(now, checker, what);
            }
            self.until(self.net.now + STEP);
        }
    }

    /// Runs until `end`, or until a checker finds something.
    pub(super) fn until(&mut self, end: Duration) {
        while self.net.checks.violation().is_none() {
            match self.net.next(end) {
                Some(event) => self.happen(event),
                None => {
                    self.net.now = end;
                    return;
                }
            }
            if self.net.events > MOST_EVENTS {
                let now = self.net.now;
                self.net.checks.report(now, "waits", "somebody spins".to_owned());
            }
        }
    }

    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Audit => {
                self.net.schedule(self.net.now + AUDIT, Event::Audit);
                self.audit();
            }
            Event::Begin(i) => {
                let fault = self.plan.faults[i].fault.clone();
                self.net.checks.last_fault = self.net.now;
                faults::begin(self, &fault);
            }
            Event::End(i) => {
                let fault = self.plan.faults[i].fault.clone();
                faults::end(self, &fault);
            }
            Event::Pause { client, lasts } => {
                self.net.tell(|| format!("-- client {client} is paused for {lasts:?}"));
                self.clients[client].pause();
                let at = self.net.now + lasts;
                self.net.schedule(at, Event::Resume { client });
            }
            Event::LetGo { conn } => self.net.let_go_one(conn),
            Event::Waits { .. } => self.net.waits(event),
            Event::Resume { client } => self.clients[client].resume(&mut self.net),
            Event::Listen { client, node, session } => self.net.listens(client, node, session),
            Event::Subscribe { client, node, session, channel, on } => {
                self.net.subscribe(client, node, session, channel, on);
            }
            Event::AtNode { conn, late } => self.net.at_node(conn, late),
            Event::AtClient { conn } => {
                let client = self.net.client_of(conn);
                if self.clients[client].defers(event).is_none() {
                    return;
                }
                if let Some((node, reply, wall)) = self.net.at_client(conn) {
                    self.clients[client].replied(node, conn, &reply, wall, &mut self.net);
                }
            }
            Event::ForClient { client, note } => {
                if self.clients[client].defers(event).is_some() {
                    self.clients[client].notify(note, &mut self.net);
                }
            }
        }
    }
}
