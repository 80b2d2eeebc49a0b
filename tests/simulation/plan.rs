//! The plan of a run, made from a seed: its participants, and its faults with their times.

use std::time::Duration;

use super::chance::Chance;
use super::faults::{Fault, Scheduled};
use super::lock_id::LockId;
use super::setup::{BACKOFF, Habit, NO_QUORUM, Setup};
use super::shared::configuration;
use crate::core::admission::old_master::OLD_MASTER_WRITES;
use crate::core::base::Mechanism;

/// Duration of the faults before everything is healed.
pub(super) const FAULTS_END: Duration = Duration::from_secs(20);

/// One run, without the random events of the network and of the callers, which come from `seed`, too.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    /// For each client: number of its threads that want locks.
    pub(super) callers: Vec<usize>,
    pub(super) names: usize,
    pub(super) ttl: Duration,
    pub(super) clock_tolerance: Duration,
    pub(super) node_timeout: Duration,
    /// Rates of the clocks in millionths too fast, first of the clients, then of the nodes.
    pub(super) rates_ppm: Vec<i64>,
    /// Lead of each node's wall clock over true time, decades aside, in milliseconds.
    pub(super) wall_offsets: Vec<u64>,
    /// True if the wall clocks agree to within the life of a lock.
    pub(super) walls_agree: bool,
    pub(super) fencing: bool,
    /// For each client: true if it works without fencing, although others have it. None does if this is empty.
    pub(super) unfenced: Vec<bool>,
    /// True if nodes that may have forgotten locks are quarantined; else they are kept away.
    pub(super) quarantine: bool,
    /// True if the nodes were never used before.
    pub(super) new_set: bool,
    /// True if the clocks differ by more than is allowed for, so that exclusion cannot be promised.
    pub(super) wrong_rates: bool,
    /// True if the first caller holds one lock all the time, and nothing happens that could cost it.
    pub(super) rolling: bool,
    /// True if, besides `rolling`, there are many troubles for everybody, each shorter than the time in which renewals are tried.
    pub(super) blips: bool,
    /// True if a proxy keeps the connections of clients open when a node is restarted.
    pub(super) relayed: bool,
    /// True if a proxy does so, and clients cannot know that there is one.
    pub(super) unnoticed_proxy: bool,
    /// True if two clients want one lock, and there are no faults at all.
    pub(super) pair: bool,
    /// True if the only faults are deletions of keys.
    pub(super) deleting: bool,
    /// Usual limit of a message's delay, in milliseconds.
    pub(super) latency_ms: u64,
    /// One out of so many messages, and one out of so many wake-ups of a thread, takes much longer; 0: none does.
    pub(super) stragglers: usize,
    /// One out of so many messages resets its connection, and arrives late or never; 0: none does.
    pub(super) flaky: usize,
    /// One out of so many times, a process stops when it is about to do something; 0: it never does.
    pub(super) sleepy: usize,
    /// True if callers of one client that want the same lock wait in a local queue.
    pub(super) local_queues: bool,
    /// True if callers of one client hold a lock together, whatever its kind. All their leases are then shared ones.
    pub(super) together: bool,
    /// The kind of locks for callers with the habit [`Habit::Anything`]; `None`: all kinds.
    pub(super) kind: Option<&'static str>,
    /// Number of permits of each semaphore.
    pub(super) permits: u32,
    pub(super) faults: Vec<Scheduled>,
    /// Shortest time before everything is healed.
    pub(super) lasts: Duration,
    /// True if all processes then end, and others take the locks once all fences have expired.
    pub(super) outlasts_fences: bool,
    /// True if nodes forget one at a time, and only a minority of clocks is set. The set's time then goes on, so
    /// numbers must still rise.
    pub(super) time_goes_on: bool,
    /// Largest number of other holders while a caller waits. Every caller wants the same lock all the time.
    pub(super) turns: Option<u32>,
    /// Longest wait of any caller for a lock, if that is promised.
    pub(super) longest_wait: Option<Duration>,
    /// A waiter for a fair lock comes before callers whose calls begin that much later, or more.
    pub(super) order: Option<Duration>,
    /// For each client: true if its user may end connections on the servers.
    pub(super) may_end: Vec<bool>,
    /// Time without a majority after which clients fall back to the first node; `None`: they never do.
    pub(super) fall_back_after: Option<Duration>,
    /// Settings of each client, if they are not the same for all.
    pub(super) setups: Vec<Setup>,
    /// True for a run of the explorer: nothing in it is random.
    pub(super) explored: bool,
    /// True if the clients let their grants count only once a node's replica has them (`wait_replicas`).
    pub(super) replicated: bool,
}

impl Plan {
    pub(super) fn from_seed(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        // Every eighth run: single nodes fail one after the other, which must cost nobody a lock.
        let rolling = chance.one_in(8);
        let blips = rolling && chance.one_in(2);
        let deleting = !rolling && chance.one_in(16);
        let quiet = rolling || deleting;
        let nodes =
            if rolling { chance.pick(&[3, 5]) } else { chance.pick(&[1, 3, 3, 3, 4, 5, 5]) };
        let callers: Vec<_> =
            (0..chance.pick(&[2, 2, 3, 4])).map(|_| chance.pick(&[1, 1, 2])).collect();
        let ttl_ms = if blips {
            3_000
        } else if quiet {
            1_000
        } else {
            chance.pick(&[500, 500, 1_000, 1_000, 2_000, 5_000, 15_000])
        };
        let ttl = Duration::from_millis(ttl_ms);
        // Any two clocks differ by less than the one per cent that is allowed for, except in some runs.
        let wrong_rates = !quiet && chance.one_in(10);
        let most = if wrong_rates { 50_000 } else { 4_500 };
        let rates_ppm =
            (0..callers.len() + nodes).map(|_| chance.number(-most..most + 1)).collect();
        let walls_agree = chance.one_in(2);
        let apart = if walls_agree { ttl_ms as i64 } else { 100_000_000_000 };
        let wall_offsets = (0..nodes).map(|_| chance.number(0..apart) as u64).collect();
        let fencing = !chance.one_in(6);
        let mut plan = Self {
            seed,
            nodes,
            callers,
            names: chance.pick(&[1, 1, 2]),
            ttl,
            clock_tolerance: Duration::from_millis(100),
            node_timeout: Duration::from_millis(200),
            rates_ppm,
            wall_offsets,
            walls_agree,
            fencing,
            unfenced: Vec::new(),
            quarantine: true,
            new_set: ttl_ms <= 1_000 && chance.one_in(8),
            wrong_rates,
            rolling,
            blips,
            relayed: false,
            unnoticed_proxy: false,
            pair: false,
            deleting,
            latency_ms: if quiet { 2 } else { chance.pick(&[2, 2, 2, 20]) },
            stragglers: 50,
            flaky: if quiet { 0 } else { chance.pick(&[0, 300, 30, 30]) },
            sleepy: if quiet { 0 } else { chance.pick(&[0, 0, 1_000, 100]) },
            local_queues: true,
            // Not drawn at random, so that the other runs stay as they were.
            together: seed % 4 == 3,
            kind: None,
            permits: 1 + (seed % 3) as u32,
            faults: Vec::new(),
            lasts: FAULTS_END,
            outlasts_fences: false,
            time_goes_on: false,
            turns: None,
            longest_wait: None,
            order: None,
            may_end: Vec::new(),
            fall_back_after: None,
            setups: Vec::new(),
            explored: false,
            replicated: false,
        };
        if !quiet && chance.one_in(8) {
            // A crowd that wants one lock, whose requests cross on their way.
            plan.names = 1;
            plan.latency_ms = 30;
            plan.callers.iter_mut().for_each(|callers| *callers = 3);
        }
        plan.faults = if blips {
            plan.short_troubles(&mut chance)
        } else if rolling {
            plan.one_by_one()
        } else if deleting {
            plan.deletions(&mut chance)
        } else {
            plan.anything(&mut chance)
        };
        plan.keep_away_long_enough();
        plan.hold_up(!quiet);
        plan.local_queues = !chance.one_in(4);
        if !quiet && chance.one_in(12) {
            plan.become_a_pair();
        } else if !quiet && !plan.new_set {
            if chance.one_in(3) {
                plan.mix_lengths(&mut chance);
            }
            if nodes >= 3 && chance.one_in(3) {
                plan.step_a_clock(&mut chance);
            }
            plan.begin_late(&mut chance);
        }
        // A random source of its own, so that all other plans stay as they would be without this.
        let mut chance = Chance::new(seed ^ 0xfa11_bac4);
        // Nor in a crowd: clients that may fall back do not ask the preferred node first.
        let may = !quiet && !plan.pair && !plan.new_set && plan.nodes >= 3 && plan.latency_ms < 30;
        if may && chance.one_in(6) {
            plan.may_fall_back(&mut chance);
        }
        let mut chance = Chance::new(seed ^ 0x3a_4e5);
        // Not in a crowd: a caller of several names waits longer there than the time that all callers are given in the end.
        if !quiet && !plan.pair && plan.latency_ms < 30 && chance.one_in(3) {
            // Locks with several of these names overlap each other.
            plan.names = chance.pick(&[3, 4, 6]);
        }
        plan.tilt_paths(quiet);
        plan.load(quiet);
        plan.force(quiet);
        plan.admit(quiet);
        plan.ask_for(quiet);
        plan.forget_scripts(quiet);
        plan.relayed = !quiet && Chance::new(seed ^ 0x0e1a_07ed).one_in(5);
        if plan.relayed {
            // Nobody knows to which run of a node a connection leads.
            plan.may_end.fill(false);
        }
        plan.outlasts_fences = Chance::new(seed ^ 0xfe_4ce5).one_in(6);
        let mut chance = Chance::new(seed ^ 0x5eb5_c21b);
        if !quiet && !plan.pair && chance.one_in(6) {
            let (node, at) = (chance.below(plan.nodes), chance.ms(0..10_000));
            let fault = Fault::SubscribersRefused { node };
            plan.faults.push(Scheduled { at, lasts: chance.ms(0..10_000), fault });
        }
        // Clients with and without fencing use the same locks, ask for them, and force them open.
        let mut chance = Chance::new(seed ^ 0x0fe_4c1e);
        if !quiet && !plan.pair && chance.one_in(4) {
            plan.unfenced = plan.callers.iter().map(|_| chance.one_in(2)).collect();
        }
        plan.take_over(quiet);
        plan
    }

    /// Promotes a replica in the place of a node, while some clients still reach the old master. That one takes no writes any more
    /// once it has missed its replica for 12 s, at the latest.
    fn take_over(&mut self, quiet: bool) {
        let mut chance = Chance::new(self.seed ^ 0x07a_ce04);
        let steps = self.faults.iter().any(|scheduled| scheduled.fault.steps());
        let is_new = self.pair || self.new_set || self.relayed;
        let parts = self.nodes >= 3 && self.callers.len() >= 2;
        if quiet || steps || is_new || !parts || !chance.one_in(4) {
            return;
        }
        let (node, clients) = (chance.below(self.nodes), 1 + chance.below(self.callers.len() - 1));
        // The simulator has no state for troubles of both servers.
        self.faults.retain(|scheduled| scheduled.fault.server() != Some(node));
        let (at, lasts) = (chance.ms(500..8_000), chance.ms(500..30_000));
        let fault = Fault::TakenOver { node, clients };
        self.faults.push(Scheduled { at, lasts, fault });
        let stops = at + chance.ms(1_000..12_100);
        if stops < at + lasts {
            let (lasts, fault) = (Duration::ZERO, Fault::OldMasterStops);
            self.faults.push(Scheduled { at: stops, lasts, fault });
        }
    }

    /// Returns true if that client works with fencing.
    pub(super) fn fences(&self, client: usize) -> bool {
        self.fencing && !self.unfenced.get(client).copied().unwrap_or_default()
    }

    /// Gives requests and answers different delays on some paths, all the time.
    fn tilt_paths(&mut self, quiet: bool) {
        let mut chance = Chance::new(self.seed ^ 0x071_17ed);
        if quiet || self.pair || !chance.one_in(4) {
            return;
        }
        for client in 0..self.callers.len() {
            for node in 0..self.nodes {
                let by = chance.ms(1..40);
                let fault = match chance.below(4) {
                    0 => Fault::SlowRequests { client, node, by },
                    1 => Fault::SlowAnswers { client, node, by },
                    _ => continue,
                };
                self.faults.push(Scheduled { at: Duration::ZERO, lasts: FAULTS_END, fault });
            }
        }
    }

    /// Makes nodes load their data, at any time; above all the first one, if clients may fall back to it.
    fn load(&mut self, quiet: bool) {
        let mut chance = Chance::new(self.seed ^ 0x10_ad5);
        if quiet || self.pair || !(self.falls_back() || chance.one_in(8)) {
            return;
        }
        for _ in 0..chance.pick(&[0, 1, 3, 6]) {
            let at = chance.ms(0..FAULTS_END.as_millis() as u64);
            let is_first = self.falls_back() && chance.one_in(2);
            let node = if is_first { 0 } else { chance.below(self.nodes) };
            let (lasts, fault) = (chance.ms(10..3_000), Fault::Loading { node });
            self.faults.push(Scheduled { at, lasts, fault });
        }
    }

    /// Lets operators force locks open, at any time.
    fn force(&mut self, quiet: bool) {
        let chance = Chance::new(self.seed ^ 0xf0_4ced);
        self.meet_names(quiet, chance, &[1, 5, 20], |client, name| Fault::Forced { client, name });
    }

    /// Lets operators have nodes admitted if no lock is held, at any time.
    fn admit(&mut self, quiet: bool) {
        let chance = Chance::new(self.seed ^ 0x00ad_317d);
        let fault = |client, _| Fault::AdmittedIfUnused { client };
        self.meet_names(quiet, chance, &[1, 5, 20], fault);
    }

    /// Lets somebody ask for locks, at any time.
    fn ask_for(&mut self, quiet: bool) {
        let chance = Chance::new(self.seed ^ 0x00a5_4ed5);
        let fault = |client, name| Fault::AskedFor { client, name };
        self.meet_names(quiet, chance, &[1, 10, 100], fault);
    }

    /// Adds such faults for random clients and names in some runs, as many as one of `times` says.
    fn meet_names(
        &mut self,
        quiet: bool,
        mut chance: Chance,
        times: &[usize],
        fault: impl Fn(usize, usize) -> Fault,
    ) {
        if quiet || self.pair || !chance.one_in(6) {
            return;
        }
        for _ in 0..chance.pick(times) {
            let at = chance.ms(0..FAULTS_END.as_millis() as u64);
            let (client, name) = (chance.below(self.callers.len()), chance.below(self.names));
            let (fault, lasts) = (fault(client, name), Duration::ZERO);
            self.faults.push(Scheduled { at, lasts, fault });
        }
    }

    /// Makes nodes forget scripts, at any time.
    fn forget_scripts(&mut self, quiet: bool) {
        let mut chance = Chance::new(self.seed ^ 0x5c_1975);
        if quiet || self.pair || !chance.one_in(4) {
            return;
        }
        for _ in 0..chance.pick(&[1, 10, 100]) {
            let at = chance.ms(0..FAULTS_END.as_millis() as u64);
            let fault = Fault::ScriptsForgotten { node: chance.below(self.nodes) };
            self.faults.push(Scheduled { at, lasts: Duration::ZERO, fault });
        }
    }

    /// Mixes locks of very different lengths, up to the longest that is allowed.
    fn mix_lengths(&mut self, chance: &mut Chance) {
        let usual = self.setup(0);
        let max_ttl = Duration::from_secs(chance.pick(&[4, 8, 20]));
        let shortest = self.clock_tolerance.max(self.node_timeout / 2) * 4;
        let lengths = [shortest, Duration::from_secs(1), Duration::from_secs(3), max_ttl];
        let setup = |_| Setup { ttl: chance.pick(&lengths), max_ttl, ..usual };
        self.setups = (0..self.callers.len()).map(setup).collect();
        self.ttl = self.setups.iter().map(|setup| setup.ttl).min().unwrap_or(self.ttl);
        self.keep_away_long_enough();
    }

    /// Sets the wall clock of one node forward while clients reach it as before, by about the clock tolerance or by
    /// much. Nothing else makes nodes forget locks.
    fn step_a_clock(&mut self, chance: &mut Chance) {
        self.faults.retain(|it| !it.fault.forgets(false) && !it.fault.steps());
        let node = chance.below((self.nodes - 1) / 2);
        let tolerance_ms = self.clock_tolerance.as_millis() as u64;
        let around = chance.ms(tolerance_ms * 4 / 5..tolerance_ms * 3 / 2);
        let much = chance.ms(1..20_000);
        let by = if chance.one_in(2) { around } else { much };
        let at = chance.ms(1_000..FAULTS_END.as_millis() as u64);
        let lasts = Duration::from_millis(1);
        self.faults.push(Scheduled { at, lasts, fault: Fault::ClockJumps { node, by } });
        // Then by several steps that are each below the tolerance. They have a random source of their own, so that
        // all else stays as it would be without them.
        let mut chance = Chance::new(self.seed ^ 0x57e9);
        let mut at = chance.ms(1_000..FAULTS_END.as_millis() as u64);
        for _ in 0..chance.pick(&[0, 0, 2, 5, 10]) {
            let by = chance.ms(tolerance_ms / 5..tolerance_ms);
            self.faults.push(Scheduled { at, lasts, fault: Fault::ClockJumps { node, by } });
            at += chance.ms(50..2_000);
        }
        self.fall_behind(node);
    }

    /// Lets the wall clock of `node` fall behind by several steps that are each below the tolerance. One step then
    /// sets it right, or a little too far.
    fn fall_behind(&mut self, node: usize) {
        let mut chance = Chance::new(self.seed ^ 0xbac4);
        if chance.one_in(2) {
            return;
        }
        let tolerance_ms = self.clock_tolerance.as_millis() as u64;
        let mut step = |at, fault| {
            self.faults.push(Scheduled { at, lasts: Duration::from_millis(1), fault });
        };
        let mut at = chance.ms(500..4_000);
        while at < FAULTS_END {
            let by = chance.ms(tolerance_ms / 2..tolerance_ms);
            let mut behind = Duration::ZERO;
            for _ in 0..chance.pick(&[1, 2, 3]) {
                step(at, Fault::WallClockBack { node, by });
                behind += by;
                at += chance.ms(50..1_500);
            }
            at += chance.ms(50..3_000);
            let right = chance.pick(&[behind, behind, behind + by / 2]);
            step(at, Fault::ClockJumps { node, by: right });
            at += chance.ms(1_000..6_000);
        }
    }

    /// Starts some processes later than others.
    fn begin_late(&mut self, chance: &mut Chance) {
        for client in 0..self.callers.len() {
            if chance.one_in(6) {
                let lasts = chance.ms(1..FAULTS_END.as_millis() as u64);
                let fault = Fault::Crashed { client };
                self.faults.push(Scheduled { at: Duration::ZERO, lasts, fault });
            }
        }
    }

    /// Keeps nodes that forget without a quarantine away for longer than any lock lives.
    fn keep_away_long_enough(&mut self) {
        let (away, quarantine) = (self.away(), self.quarantine);
        for scheduled in &mut self.faults {
            if scheduled.fault.forgets(quarantine) {
                scheduled.lasts = scheduled.lasts.max(away);
            }
        }
    }

    /// Lets some clients end connections, and holds up some of the clients' writes on their way, also for longer than
    /// a lock lives.
    fn hold_up(&mut self, often: bool) {
        // A random source of its own leaves the rest of the plan as it is.
        let mut chance = Chance::new(self.seed ^ 0x01d);
        self.may_end = self.callers.iter().map(|_| chance.one_in(2)).collect();
        let times = if often { chance.pick(&[0, 0, 2, 8]) } else { 0 };
        for _ in 0..times {
            let at = chance.ms(0..FAULTS_END.as_millis() as u64);
            let most = chance.pick(&[400, 1_000, 3_000, 8_000]);
            let client = chance.below(self.callers.len());
            let split = chance.below(self.nodes);
            let fault = Fault::Held { client, split };
            self.faults.push(Scheduled { at, lasts: chance.ms(200..most), fault });
        }
    }

    /// Lets all clients fall back to the first node. Some reach no other node for a while. Meanwhile the first node
    /// restarts empty, fills up, is flushed, has its clock set, and comes and goes.
    pub(super) fn may_fall_back(&mut self, chance: &mut Chance) {
        self.fall_back_after = Some(chance.ms(1..600));
        let end = FAULTS_END.as_millis() as u64;
        for _ in 0..chance.pick(&[2, 4, 8]) {
            let at = chance.ms(0..end);
            let lasts = chance.ms(500..8_000);
            for client in 0..self.callers.len() {
                if chance.one_in(2) {
                    let lasts = lasts.mul_f64(0.5 + chance.share() / 2.0);
                    let fault = Fault::Isolated { client, split: 1 };
                    self.faults.push(Scheduled { at, lasts, fault });
                }
            }
            let fault = match chance.below(6) {
                0 => Fault::Amnesia { node: 0 },
                1 => Fault::Flushed { node: 0 },
                2 => Fault::Down { node: 0 },
                3 => Fault::ClockJumps { node: 0, by: chance.ms(100..100_000) },
                _ => Fault::Full { node: 0 },
            };
            let at = at + chance.ms(300..3_000);
            let lasts = chance.ms(10..3_000);
            self.faults.push(Scheduled { at, lasts, fault });
        }
    }

    /// Returns the settings of a client.
    pub(super) fn setup(&self, client: usize) -> Setup {
        let Self { nodes, ttl, clock_tolerance, node_timeout, fall_back_after, .. } = *self;
        let usual = Setup {
            nodes,
            ttl,
            max_ttl: ttl * 4,
            clock_tolerance,
            node_timeout,
            no_quorum_timeout: NO_QUORUM,
            fall_back_after,
            backoff: BACKOFF,
            // In some runs, every other client is configured with one permit more.
            permits: self.permits + u32::from(self.seed % 5 == 4 && client % 2 == 1 && !self.pair),
            habit: Habit::Anything,
        };
        self.setups.get(client).copied().unwrap_or(usual)
    }

    /// Turns the plan into one of two clients that want one lock, without faults. Delays are long, so that messages
    /// come in any order. Locks live so long that only releases end them.
    pub(super) fn become_a_pair(&mut self) {
        self.pair = true;
        self.permits = 1;
        self.setups.clear();
        self.fall_back_after = None;
        self.callers = vec![1, 1];
        self.may_end.resize(2, true);
        self.names = 1;
        self.ttl = Duration::from_secs(5);
        self.latency_ms = 30;
        (self.flaky, self.sleepy) = (0, 0);
        (self.wrong_rates, self.new_set) = (false, false);
        (self.rolling, self.blips, self.deleting) = (false, false, false);
        self.rates_ppm.fill(0);
        self.faults.clear();
    }

    /// Time within which every caller gets each lock, once nothing is wrong: kept locks have ended, nodes are out of
    /// quarantine, and all other callers have had their turn.
    pub(super) fn enough(&self) -> Duration {
        let turns = self.callers.iter().sum::<usize>() * LockId::probes(self.names).count();
        let turn = Duration::from_millis(100);
        let kept = self.longest_ttl().mul_f64(2.02) + self.first_keeps();
        kept + Duration::from_secs(5) + turn * turns as u32
    }

    /// Returns true if some client may fall back to the first node.
    fn falls_back(&self) -> bool {
        (0..self.callers.len()).any(|client| self.setup(client).fall_back_after.is_some())
    }

    /// Extra time for which the first node may keep a key after its clock was set back. If clients may fall back to
    /// it, no majority outvotes that.
    pub(super) fn first_keeps(&self) -> Duration {
        let set_back = self.faults.iter().filter_map(|scheduled| match scheduled.fault {
            Fault::WallClockBack { node: 0, by } if self.falls_back() => Some(by),
            _ => None,
        });
        set_back.sum()
    }

    /// Longest life of any key: the longest time that callers ask `extend` for.
    pub(super) fn longest_ttl(&self) -> Duration {
        let clients = 0..self.callers.len();
        clients.map(|client| self.setup(client).max_ttl).max().unwrap_or_default()
    }

    /// Returns true if the clients are configured alike, as they must be.
    pub(super) fn one_configuration(&self) -> bool {
        let of = |client| configuration(self.setup(client), self.quarantine);
        (1..self.callers.len()).all(|client| of(client) == of(0))
    }

    /// Returns true if all clients do jobs that are done once in a time. The faults of scenarios allow that promise.
    pub(super) fn promises_jobs(&self) -> bool {
        let does_jobs = |setup: &Setup| setup.habit.min_hold().is_some();
        !self.setups.is_empty() && self.setups.iter().all(does_jobs)
    }

    /// Returns true if numbers must rise, whatever nodes forget. This holds while no clock is set and a majority
    /// keeps its marks (checked when a node forgets), or while the masters' clocks agree.
    pub(super) fn promises_tokens(&self) -> bool {
        // After a fallback, no majority knows the first node's number.
        self.fencing && !self.falls_back() && !self.wrong_rates
    }

    /// Returns true if the masters' clocks agree to within the life of a lock.
    pub(super) fn clocks_agree(&self) -> bool {
        self.walls_agree && !self.faults.iter().any(|scheduled| scheduled.fault.steps())
    }

    /// Time for which a node that lost its data is kept away, so that no lock it has forgotten is still valid: the
    /// longest TTL, and the drift of clocks.
    pub(super) fn away(&self) -> Duration {
        self.longest_ttl() + self.longest_ttl() / 50 + Duration::from_millis(10)
    }

    /// The time until which the old master takes writes once a replica was promoted in its place.
    pub(super) fn old_master_writes_until(&self) -> Duration {
        let ends = self.faults.iter().filter_map(|scheduled| match scheduled.fault {
            Fault::TakenOver { .. } => Some(scheduled.at + scheduled.lasts),
            Fault::OldMasterStops => Some(scheduled.at),
            _ => None,
        });
        ends.min().unwrap_or(Duration::MAX)
    }

    /// The least time for which a promoted replica grants nothing, by the fastest clock: its quarantine.
    pub(super) fn promoted_grants_nothing_for(&self) -> Duration {
        let quarantine = (self.longest_ttl() + OLD_MASTER_WRITES).mul_f64(0.99);
        let is_on = self.quarantine && Mechanism::Quarantine.is_on();
        if is_on { quarantine } else { Duration::ZERO }
    }

    /// Takes each node in turn away for long. It comes back without its data.
    fn one_by_one(&self) -> Vec<Scheduled> {
        // Long enough to connect again, and for two renewals.
        let (away, calm) = (self.away(), Duration::from_secs(2));
        let mut faults = Vec::new();
        let mut at = calm;
        for node in 0..self.nodes {
            if at + away + calm > FAULTS_END {
                break;
            }
            faults.push(Scheduled { at, lasts: away, fault: Fault::Amnesia { node } });
            at += away + calm;
        }
        faults
    }

    /// Cuts all clients off or pauses them for a while. All is then well for as long as a lock needs to recover.
    fn short_troubles(&self, chance: &mut Chance) -> Vec<Scheduled> {
        let mut faults = Vec::new();
        let mut at = chance.ms(1_000..2_000);
        while at + Duration::from_secs(2) < FAULTS_END {
            let lasts = chance.ms(300..600);
            for client in 0..self.callers.len() {
                let fault = match chance.below(4) {
                    0 => Fault::Paused { client },
                    1 => Fault::AllRepliesLost { client },
                    _ => Fault::Isolated { client, split: 0 },
                };
                faults.push(Scheduled { at, lasts, fault });
            }
            at += chance.ms(2_500..4_000);
        }
        faults
    }

    fn deletions(&self, chance: &mut Chance) -> Vec<Scheduled> {
        let mut at = Duration::ZERO;
        let deletion = |_| {
            at += chance.ms(500..3_000);
            let fault = Fault::Deleted { name: chance.below(self.names) };
            Scheduled { at, lasts: Duration::ZERO, fault }
        };
        (0..10).map(deletion).collect()
    }

    fn anything(&self, chance: &mut Chance) -> Vec<Scheduled> {
        let end = FAULTS_END.as_millis() as u64;
        let many = chance.pick(&[3, 8, 20, 40]);
        let one = |_| {
            let at = chance.ms(0..end);
            let most = chance.pick(&[50, 500, 3_000, 3_000, 8_000]);
            let lasts = chance.ms(1..most);
            Scheduled { at, lasts, fault: self.fault(chance) }
        };
        (0..many).map(one).collect()
    }

    fn fault(&self, chance: &mut Chance) -> Fault {
        let node = chance.below(self.nodes);
        let client = chance.below(self.callers.len());
        match chance.below(20) {
            0..2 => Fault::Hung { node },
            2..4 => Fault::Down { node },
            4 if chance.one_in(2) => Fault::Amnesia { node },
            4 if chance.one_in(2) => Fault::Flushed { node },
            4 => Fault::WallClockForward { node, by: chance.ms(1..100_000) },
            5 => Fault::Cut { client, node },
            6..9 => Fault::Isolated { client, split: chance.below(self.nodes + 1) },
            9..11 => Fault::RepliesLost { client, node },
            11..13 => Fault::AllRepliesLost { client },
            13 => Fault::Slow { client, node, by: chance.ms(1..400) },
            14 => Fault::Reset { client, node },
            15 => Fault::ResetAll { client },
            16..18 => Fault::Paused { client },
            // Only for a minority of nodes: keys then outlive any reasonable wait of a caller.
            18 if node < (self.nodes - 1) / 2 => {
                Fault::WallClockBack { node, by: chance.ms(1..60_000) }
            }
            _ if chance.one_in(3) => Fault::Crashed { client },
            _ if chance.one_in(2) => Fault::Dropped { client },
            _ => Fault::Paused { client },
        }
    }
}
