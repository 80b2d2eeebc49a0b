//! A client process: its threads, its connections, the locks it holds.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::admitting::Admitting;
use super::caller::Caller;
use super::checkers::open_to_others;
use super::claim::Claim;
use super::clock::Clock;
use super::fairness::ContentionSink;
use super::fan_out::{Asker, FanOut};
use super::held::Held;
use super::lock_id::LockId;
use super::network::{ConnId, Event, Network};
use super::operator::Order;
use super::plan::Plan;
use super::setup::Habit;
use super::shared::{Shared, configuration};
use super::subscriptions::{News, Session};
use super::worker::{NoAnswer, Worker};
use crate::core::admission::mark::Configuration;
use crate::core::admission::{Grants, worth_waiting};
use crate::core::base::{Backoff, HoldClass, Time};
use crate::core::hold::{Answers, Releases};
use crate::core::vote::{Cleanup, LastNumbers, Release, only_asked};
use crate::embedded::Reply;
use crate::kinds::contract::reply;

/// Time in which a client finds out that its clock has stood still. It has read the nodes' clocks by then.
const UNAWARE: Duration = Duration::from_secs(2);

/// An event that a client's thread waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Note {
    Worker {
        node: usize,
        epoch: u64,
    },
    /// A node may have to be probed. Epoch 0 is never outdated.
    Probe {
        node: usize,
        epoch: u64,
    },
    Connected {
        node: usize,
        epoch: u64,
        conn: Result<ConnId, NoAnswer>,
    },
    Closed {
        node: usize,
        conn: ConnId,
    },
    Caller {
        caller: usize,
        epoch: u64,
    },
    /// The timer must check a held lock.
    Held {
        lock: u64,
        epoch: u64,
    },
    /// The timer gets to a renewal that it has taken up, or can carry it on.
    Renewal {
        lock: u64,
        epoch: u64,
    },
    /// An operator's order to force a lock open.
    Order {
        order: usize,
    },
    /// An operator's call that admits nodes.
    Admitting {
        index: usize,
        epoch: u64,
    },
    /// News about releases.
    Heard {
        node: usize,
        session: u64,
        news: News,
    },
    /// The answer to a `WAIT` behind a grant: the number of replicas that have it, and the process of the node that answers.
    /// `None`: the connection broke.
    Replicated {
        node: usize,
        id: u64,
        answer: Option<(i64, u64)>,
    },
}

/// Configuration of a client, and the parts of the plan that it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) nodes: usize,
    pub(super) names: usize,
    pub(super) ttl: Duration,
    /// Time within which every caller gets each lock, once nothing is wrong.
    pub(super) enough: Duration,
    pub(super) clock_tolerance: Duration,
    pub(super) node_timeout: Duration,
    pub(super) no_quorum_timeout: Duration,
    /// True if the first caller of all keeps its lock.
    pub(super) rolling: bool,
    pub(super) fencing: bool,
    pub(super) quarantine: bool,
    pub(super) local_queues: bool,
    pub(super) together: bool,
    pub(super) kind: Option<&'static str>,
    /// Number of permits of each semaphore.
    pub(super) permits: u32,
    /// Number of permits on which all clients agree, once nothing is wrong.
    pub(super) permits_in_the_end: u32,
    /// Duration of a quarantine.
    pub(super) max_ttl: Duration,
    pub(super) fall_back_after: Option<Duration>,
    pub(super) backoff: Backoff,
    pub(super) habit: Habit,
    /// True if its user may end connections on the servers.
    pub(super) may_end: bool,
    /// True if a grant counts only once the node's replica has it.
    pub(super) replicated: bool,
}

impl Settings {
    /// Hold class of that lock: one holder at a time, or several.
    pub(super) fn class_of(&self, lock: LockId) -> HoldClass {
        if self.together { HoldClass::Shared } else { lock.kind().hold_class }
    }
}

/// Phase of a run, for the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// They take locks, and give them back.
    Working,
    /// They finish their work.
    Draining,
    /// Each caller must get each lock once more.
    Probing,
}

/// A client's surroundings while it acts.
pub(super) struct Cx<'a> {
    pub(super) net: &'a mut Network,
    pub(super) client: usize,
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    pub(super) shared: Rc<Shared>,
}

impl Cx<'_> {
    pub(super) fn now(&self) -> Time {
        self.clock.at(self.net.now)
    }

    /// Hands `note` to this client at that time.
    pub(super) fn remind(&mut self, at: Time, note: Note) {
        let at = self.clock.when(at);
        self.net.schedule(at, Event::ForClient { client: self.client, note });
    }

    /// Wakes a thread. This takes 50 µs, and sometimes up to 20 ms.
    pub(super) fn wake(&mut self, note: Note) {
        self.net.perhaps_pause(self.client);
        let late = self.net.straggles().then(|| self.net.chance.ms(0..20));
        let at = self.net.now + late.unwrap_or(Duration::from_micros(50));
        self.net.schedule(at, Event::ForClient { client: self.client, note });
    }
}

pub(super) struct Client {
    index: usize,
    clock: Clock,
    settings: Settings,
    how_many: usize,
    pub(super) phase: Phase,
    /// Number of the running process, unique among those of all clients.
    pub(super) process: u64,
    pub(super) running: bool,
    paused: u32,
    /// Time since which its machine is suspended, and its clock stands still.
    asleep_since: Option<Duration>,
    /// Time until which it need not know that its machine was suspended.
    unaware_until: Duration,
    /// Events that came while it was paused.
    deferred: VecDeque<Event>,
    pub(super) workers: Vec<Worker>,
    pub(super) callers: Vec<Caller>,
    /// Orders of operators at this client.
    pub(super) orders: Vec<Order>,
    /// Calls of operators at this client that admit nodes.
    pub(super) admitting: Vec<Option<Admitting>>,
    pub(super) sessions: Vec<Option<Session>>,
    /// The last fencing numbers that it has seen.
    pub(super) numbers: LastNumbers,
    configuration: Configuration,
    shared: Rc<Shared>,
    pub(super) held: BTreeMap<u64, Rc<Held>>,
    /// Locks whose end the timer has not noticed yet.
    pub(super) ending: BTreeMap<u64, Rc<Held>>,
}

fn shared(configuration: &Configuration, settings: Settings) -> Rc<Shared> {
    let Settings { fall_back_after, node_timeout, local_queues, .. } = settings;
    Rc::new(Shared::new(configuration, fall_back_after, node_timeout, !local_queues))
}

impl Client {
    pub(super) fn new(index: usize, plan: &Plan, net: &mut Network) -> Self {
        let setup = plan.setup(index);
        let settings = Settings {
            nodes: setup.nodes,
            names: plan.names,
            ttl: setup.ttl,
            enough: plan.enough(),
            clock_tolerance: setup.clock_tolerance,
            node_timeout: setup.node_timeout,
            no_quorum_timeout: setup.no_quorum_timeout,
            rolling: plan.rolling,
            fencing: plan.fences(index),
            quarantine: plan.quarantine,
            local_queues: plan.local_queues,
            together: plan.together,
            kind: plan.kind,
            permits: setup.permits,
            permits_in_the_end: plan.permits,
            max_ttl: plan.longest_ttl(),
            fall_back_after: setup.fall_back_after,
            backoff: setup.backoff,
            habit: setup.habit,
            may_end: plan.may_end[index],
            replicated: plan.replicated,
        };
        let configuration = configuration(setup, plan.quarantine);
        let started = Duration::from_secs(1_000 * (index as u64 + 1));
        let mut client = Self {
            index,
            clock: Clock { started, rate_ppm: plan.rates_ppm[index], has_stood_still: false },
            settings,
            how_many: plan.callers[index],
            phase: Phase::Working,
            process: 0,
            running: false,
            paused: 0,
            asleep_since: None,
            unaware_until: Duration::ZERO,
            deferred: VecDeque::new(),
            workers: Vec::new(),
            callers: Vec::new(),
            orders: Vec::new(),
            admitting: Vec::new(),
            sessions: Vec::new(),
            numbers: LastNumbers::default(),
            shared: shared(&configuration, settings),
            configuration,
            held: BTreeMap::new(),
            ending: BTreeMap::new(),
        };
        client.start(net);
        client
    }

    /// Starts a process, with fresh state.
    pub(super) fn start(&mut self, net: &mut Network) {
        if self.running {
            return;
        }
        self.running = true;
        self.process = net.fresh();
        self.numbers = LastNumbers::default();
        self.sessions = (0..self.settings.nodes).map(|_| None).collect();
        self.shared = shared(&self.configuration, self.settings);
        let how_many = self.how_many;
        self.with(net, |client, cx| {
            client.workers = (0..cx.settings.nodes).map(|node| Worker::start(node, cx)).collect();
            client.callers = (0..how_many).map(|caller| Caller::start(caller, cx)).collect();
        });
    }

    /// Kills the process.
    pub(super) fn crash(&mut self, net: &mut Network) {
        self.running = false;
        self.deferred.clear();
        self.workers.clear();
        self.callers.clear();
        self.orders.clear();
        self.admitting.clear();
        self.ending.clear();
        for id in std::mem::take(&mut self.held).into_keys() {
            net.checks.ended(id);
        }
        net.checks.crashed(self.index, self.process);
        net.close_all(self.index);
    }

    /// Lets an operator at this client force that name open, if the process runs.
    pub(super) fn force(&mut self, name: usize, net: &mut Network) {
        if self.runs() {
            self.with(net, |client, cx| Order::begin(client, cx, name));
        }
    }

    /// Lets an operator at this client have new nodes admitted if no lock is held, if the process runs.
    pub(super) fn admit_if_unused(&mut self, net: &mut Network) {
        if self.runs() {
            self.with(net, Admitting::begin);
        }
    }

    /// Tells the holders of that name that somebody asks for it, if the process runs.
    pub(super) fn hears_ask(&mut self, name: usize, net: &mut Network) {
        if self.runs() {
            self.with(net, |client, cx| {
                let asked = client.held.values().filter(|held| held.has_name(name));
                asked.for_each(|held| held.hears_ask(cx.now()));
            });
        }
    }

    /// Drops all guards and calls. Locks and keys that they leave on the nodes are given back.
    pub(super) fn drop_all(&mut self, net: &mut Network) {
        self.with(net, |client, cx| {
            for held in client.held.values().cloned().collect::<Vec<_>>() {
                for hold in held.holds() {
                    hold.drop_guard(client, cx);
                }
            }
            for caller in std::mem::take(&mut client.callers) {
                if let Some(call) = caller.into_call() {
                    call.close(client, cx);
                }
            }
        });
    }

    /// Starts new callers in place of those that were dropped.
    pub(super) fn begin_anew(&mut self, net: &mut Network) {
        if self.running && self.callers.is_empty() {
            let how_many = self.how_many;
            self.with(net, |client, cx| {
                client.callers = (0..how_many).map(|caller| Caller::start(caller, cx)).collect();
            });
        }
    }

    /// Returns true if the process runs and is not paused.
    pub(super) fn runs(&self) -> bool {
        self.running && self.paused == 0
    }

    pub(super) fn pause(&mut self) {
        self.paused += 1;
    }

    /// Resumes the process, with all events that came meanwhile.
    pub(super) fn resume(&mut self, net: &mut Network) {
        self.paused -= 1;
        if self.paused == 0 {
            net.checks.woke(self.index, net.now);
            for event in std::mem::take(&mut self.deferred) {
                net.schedule(net.now, event);
            }
        }
    }

    /// Suspends its machine. Its clock stands still until then.
    pub(super) fn falls_asleep(&mut self, now: Duration) {
        self.pause();
        self.asleep_since = Some(now);
    }

    /// Resumes its machine.
    pub(super) fn wakes_up(&mut self, net: &mut Network) {
        if let Some(since) = self.asleep_since.take() {
            self.clock.stood_still(net.now - since);
            self.unaware_until = net.now + UNAWARE;
        }
        self.resume(net);
    }

    /// Keeps `event` for later, if the process is paused.
    pub(super) fn defers(&mut self, event: Event) -> Option<Event> {
        if self.paused > 0 && self.running {
            self.deferred.push_back(event);
            return None;
        }
        Some(event)
    }

    pub(super) fn enter(&mut self, phase: Phase, net: &mut Network) {
        self.phase = phase;
        self.with(net, |client, cx| {
            for caller in 0..client.callers.len() {
                Caller::hurry(client, caller, cx);
            }
        });
    }

    /// Returns true if it is worth waiting for the nodes' clocks before the nodes are asked.
    pub(super) fn waits_for_clocks(&self, cx: &Cx<'_>) -> bool {
        let clocks: Vec<_> = (0..self.workers.len()).map(|node| cx.shared.offset(node)).collect();
        let known = clocks.iter().flatten().count();
        let unknown = self.workers.iter().zip(&clocks).filter(|(_, clock)| clock.is_none());
        let coming = unknown.filter(|(worker, _)| !worker.is_down()).count();
        worth_waiting(known, coming, clocks.len())
    }

    /// Returns true if no caller has anything to do.
    pub(super) fn is_idle(&self) -> bool {
        self.callers.iter().all(Caller::is_idle)
    }

    /// Returns true if one of its threads waits for that note.
    pub(super) fn heeds(&self, note: Note) -> bool {
        match note {
            Note::Caller { caller, epoch } => {
                self.callers.get(caller).is_some_and(|caller| caller.heeds(epoch))
            }
            Note::Renewal { lock, epoch } => {
                self.held_or_ending(lock).is_some_and(|held| held.heeds(epoch))
            }
            _ => false,
        }
    }

    /// Returns the times at which its calls go on by themselves, in true time.
    pub(super) fn due_times(&self) -> impl Iterator<Item = Duration> {
        self.callers.iter().filter_map(Caller::due).map(|due| self.clock.when(due))
    }

    /// Returns true if the node grants locks to it, as far as it knows.
    pub(super) fn is_granted_by(&self, node: usize) -> bool {
        self.shared.admission.borrow().grants(node) != Grants::Nothing
    }

    /// Returns true if one of its callers wants a lock.
    pub(super) fn calls(&self) -> bool {
        self.callers.iter().any(Caller::is_calling)
    }

    /// Ends all calls that want a lock, as if their deadlines had come.
    pub(super) fn call_ends(&mut self, net: &mut Network) {
        self.with(net, |client, cx| {
            for caller in 0..client.callers.len() {
                Caller::call_ends(client, caller, cx);
            }
        });
    }

    pub(super) fn notify(&mut self, note: Note, net: &mut Network) {
        if !self.running {
            return;
        }
        self.with(net, |client, cx| match note {
            Note::Worker { node, epoch } => client.workers[node].timer(cx, epoch),
            Note::Probe { node, epoch } => client.workers[node].probe_due(cx, epoch),
            Note::Connected { node, epoch, conn } => {
                client.workers[node].connected(cx, epoch, conn);
            }
            Note::Closed { node, conn } => client.workers[node].closed(cx, conn),
            Note::Caller { caller, epoch } => Caller::go_on(client, caller, epoch, cx),
            Note::Held { lock, epoch } => Held::check(client, lock, epoch, cx),
            Note::Renewal { lock, epoch } => Held::carry_on(client, lock, epoch, cx),
            Note::Order { order } => Order::go_on(client, order, cx),
            Note::Admitting { index, epoch } => Admitting::go_on(client, index, epoch, cx),
            Note::Heard { node, session, news } => client.heard(cx, node, session, news),
            Note::Replicated { node, id, answer } => {
                client.workers[node].replicated(cx, id, answer);
            }
        });
    }

    pub(super) fn replied(
        &mut self,
        node: usize,
        conn: ConnId,
        reply: &Reply,
        wall: Duration,
        net: &mut Network,
    ) {
        if self.running {
            self.with(net, |client, cx| client.workers[node].replied(cx, conn, reply, wall));
        }
    }

    /// Sends the releases of an attempt that failed.
    pub(super) fn release(&mut self, cx: &mut Cx<'_>, claim: &Claim) {
        let of_nobody = Releases::of_nobody(claim.lock.kind().hold_class, claim.terms, cx.now());
        self.give_back(cx, claim, &of_nobody, None);
    }

    /// Sends the releases that are due. Returns the release whose answers are counted for `waiter`.
    pub(super) fn give_back(
        &mut self,
        cx: &mut Cx<'_>,
        claim: &Claim,
        releases: &Releases,
        waiter: Option<Note>,
    ) -> Option<Rc<FanOut<Release>>> {
        let cleanups = Cleanup::with_kept(cx.settings.nodes, claim.close(), releases.kept);
        let sink = |cx: &Cx<'_>, inner| -> Rc<dyn Asker> {
            Rc::new(ContentionSink { shared: cx.shared.clone(), queue: claim.queue, inner })
        };
        let basis = match releases.answers {
            Answers::Unheard => {
                self.send_releases(cx, claim, &cleanups, releases, None);
                return None;
            }
            Answers::OfOthers => {
                let sink = sink(cx, None);
                self.send_releases(cx, claim, &cleanups, releases, Some(&sink));
                return None;
            }
            Answers::Counted(basis) => basis,
        };
        let release = Release::new(cx.settings.nodes, &cleanups, basis);
        let decoder = reply::release;
        let round = Rc::new(FanOut::new(release, decoder, waiter?));
        let sink = sink(cx, Some(round.clone()));
        self.send_releases(cx, claim, &cleanups, releases, Some(&sink));
        for node in only_asked(cx.settings.nodes, &cleanups) {
            let call = claim.release_call(cx, releases);
            self.workers[node].ask(cx, call, round.clone());
        }
        Some(round)
    }

    fn send_releases(
        &mut self,
        cx: &mut Cx<'_>,
        claim: &Claim,
        cleanups: &[Cleanup],
        releases: &Releases,
        sink: Option<&Rc<dyn Asker>>,
    ) {
        cx.net.checks.gives_up(cx.client, claim.owner(), cx.net.now);
        let now = cx.now();
        for cleanup in cleanups {
            let plan = cleanup.plan(releases.longest_ttl, releases.kept, now);
            let call = claim.release_by(cx, cleanup.node, releases, &plan);
            self.workers[cleanup.node].release(cx, call, sink.cloned(), plan.terms());
        }
    }

    /// The lock, unless the timer has noticed its end.
    pub(super) fn held_or_ending(&self, lock: u64) -> Option<Rc<Held>> {
        self.held.get(&lock).or_else(|| self.ending.get(&lock)).cloned()
    }

    /// Reports the present state of the locks to the checkers.
    fn report(&self, net: &mut Network) {
        if self.asleep_since.is_some() || net.now < self.unaware_until {
            return;
        }
        for (id, held) in &self.held {
            let until = self.clock.when(held.lock().valid_until());
            let valid = !held.lock().remaining(self.clock.at(net.now)).is_zero();
            let until = if valid { until } else { until.min(net.now) };
            let (claim, now) = (&held.claim, net.now);
            if net.checks.lease(*id, self.index, claim, held.lease_terms(), until, now)
                && let Some(what) = open_to_others(net, claim.lock, claim.owner(), until)
            {
                net.checks.report(now, "exclusion", what);
            }
            let valid_until = held.lock().valid_until();
            net.checks.terms(claim, valid_until, &held.agreed(), now);
            held.promised.set(valid_until);
        }
    }

    fn with(&mut self, net: &mut Network, f: impl FnOnce(&mut Self, &mut Cx<'_>)) {
        let Self { index, clock, settings, phase, .. } = *self;
        let shared = self.shared.clone();
        let mut cx = Cx { net, client: index, clock, settings, phase, shared };
        let before = cx.shared.suspensions.get();
        f(self, &mut cx);
        if cx.shared.suspensions.get() != before {
            // The timer looks at all locks.
            self.held.values().for_each(|held| held.enter(&mut cx));
        }
        self.report(net);
    }
}
