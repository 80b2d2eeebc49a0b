//! A client's side of one node, as `src/node/` does it: shared writes, timeouts, final releases, reconnects,
//! pending releases. Transport only. What goes into one write is up to `writing.rs`.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::claim::MARK;
use super::client::{Cx, Note};
use super::fan_out::{Asker, value};
use super::network::{ConnId, Message, Part};
use super::writing;
use crate::core::admission::{Chance, Grants, NextProbe};
use crate::core::admission::{Checked, ClockVerdict, Offset};
use crate::core::base::{Backoff, Time};
use crate::core::link::{OldConnections, Repetition, Via};
use crate::core::vote::{Failure, ReleasePlan, waits_for_a_try};
use crate::embedded::Reply;
use crate::node::{
    Call, GRACE, Meaning, Request, check_request, probe_request, put_in_order, read_check,
    read_probe,
};

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// How often a clock is read again that was read too slowly, as `src/node/exchange.rs` does it.
const READ_AGAIN: usize = 2;

/// How long a worker takes until it looks into its mailbox.
const WAKES_UP: Duration = Duration::from_micros(20);

/// What is to be sent, as often as it takes.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) request: Rc<Request>,
    pub(super) part: Part,
}

pub(super) struct Job {
    pub(super) outgoing: Outgoing,
    asker: Option<Rc<dyn Asker>>,
    /// A release, and until when it is needed (`None`: nobody knows).
    release: Option<Option<Time>>,
    /// Whether it is done when it is answered.
    repetition: Option<Repetition>,
    /// An acquisition, and the mark that it comes with.
    pub(super) under: Option<Rc<str>>,
    /// It is asked for a lock that is held.
    holding: bool,
    /// It waits for a try to connect while the node is down; and whether one has begun since it came.
    waits: bool,
    tried: bool,
}

impl Job {
    fn asks(outgoing: Outgoing, asker: Rc<dyn Asker>, under: Option<Rc<str>>) -> Self {
        let asker = Some(asker);
        let (release, repetition) = (None, None);
        let (holding, waits, tried) = (false, false, false);
        Self { outgoing, asker, release, repetition, under, holding, waits, tried }
    }
}

enum State {
    /// A connection is being made. The first one: jobs wait.
    Connecting,
    Up(ConnId),
    /// The connection is there, and ends those of before.
    FencingOff(ConnId, Vec<u64>),
    /// The connection is there, and the node is probed before it is asked anything.
    Probing(ConnId),
    /// The connection was closed in an exchange; it is opened once more.
    Reopening,
    /// Jobs fail at once.
    Down,
}

pub(super) struct Worker {
    node: usize,
    state: State,
    /// Invalidates what was scheduled before.
    epoch: u64,
    mailbox: VecDeque<Job>,
    /// Sent, and not answered; and the calls that make them.
    in_flight: VecDeque<Job>,
    calls: VecDeque<Call>,
    /// Answered, but not done: they go out again, one by one.
    again: Vec<Job>,
    together: bool,
    /// What the node has granted, or says against holders, while its clock is not read.
    by_the_clock: Vec<(Job, Reply)>,
    reopened: bool,
    pending: VecDeque<Job>,
    /// Releases that are delivered again, and when.
    repeated: Vec<(Time, Job)>,
    old: OldConnections,
    via: Via,
    tries: u32,
    /// When it began to connect, or wrote what is not answered.
    asked_at: Time,
    /// Jobs fail at once.
    down: bool,
    /// How often the clock was read again, since what was granted was in doubt.
    rereads: usize,
    /// The probes that were made one after the other.
    probes: usize,
    /// The last question about the node was a check.
    checks: bool,
    probe_epoch: u64,
}

impl Worker {
    pub(super) fn start(node: usize, cx: &mut Cx<'_>) -> Self {
        let mut worker = Self {
            node,
            state: State::Connecting,
            epoch: 0,
            mailbox: VecDeque::new(),
            in_flight: VecDeque::new(),
            calls: VecDeque::new(),
            again: Vec::new(),
            together: true,
            by_the_clock: Vec::new(),
            reopened: false,
            pending: VecDeque::new(),
            repeated: Vec::new(),
            old: OldConnections::new(),
            via: Via { connection: 0, fenced: false },
            tries: 0,
            asked_at: Time::default(),
            down: false,
            rereads: 0,
            probes: 0,
            checks: false,
            probe_epoch: 0,
        };
        worker.open(cx);
        worker
    }

    pub(super) fn is_down(&self) -> bool {
        self.down
    }

    pub(super) fn ask(&mut self, cx: &mut Cx<'_>, outgoing: Outgoing, asker: Rc<dyn Asker>) {
        self.take(cx, Job::asks(outgoing, asker, None));
    }

    /// Asks for a grant under a mark; `None`: the node grants nothing to us.
    pub(super) fn ask_for_grant(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Rc<dyn Asker>,
        under: Option<Rc<str>>,
    ) {
        let nothing = under.is_none();
        let may_fall_back = cx.settings.fall_back_after.is_some();
        let waits = waits_for_a_try(self.node, may_fall_back);
        let job = Job { waits, ..Job::asks(outgoing, asker, under) };
        if nothing && !self.is_down() {
            self.answer(cx, &job, Err(Failure::NotAdmitted));
        } else {
            self.take(cx, job);
        }
    }

    /// Asks for somebody who holds a lock.
    pub(super) fn ask_for_holder(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Rc<dyn Asker>,
    ) {
        let job = Job { holding: true, ..Job::asks(outgoing, asker, None) };
        if cx.shared.admission.borrow().serves_holders(self.node) {
            self.take(cx, job);
        } else {
            self.undeliverable(cx, job, Failure::NotSent);
        }
    }

    fn take(&mut self, cx: &mut Cx<'_>, job: Job) {
        if self.is_down() && !job.waits {
            self.undeliverable(cx, job, Failure::NotSent);
        } else if self.is_down() {
            self.mailbox.push_back(job);
            if matches!(self.state, State::Down) {
                self.try_again(cx);
            }
        } else {
            if self.mailbox.is_empty() {
                // It lets those run first who woke it, and writes all that waits by then at once: a
                // release, and the request of whoever wants the lock again.
                let at = cx.now().after(WAKES_UP);
                cx.remind(at, Note::Probe { node: self.node, epoch: 0 });
            }
            self.mailbox.push_back(job);
        }
    }

    pub(super) fn release(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Option<Rc<dyn Asker>>,
        plan: ReleasePlan,
    ) {
        let (release, repetition) = (Some(plan.until), plan.repetition);
        let (under, holding, waits, tried) = (None, false, false, false);
        let job = Job { outgoing, asker, release, repetition, under, holding, waits, tried };
        self.take(cx, job);
    }

    /// That time in milliseconds of the node's own clock, or somewhat before; 0 if it is not known.
    pub(super) fn clock_ms(&self, cx: &Cx<'_>, time: Time) -> i64 {
        cx.shared.offset(self.node).map_or(0, |offset| offset.at_least_ms(time))
    }

    pub(super) fn connected(&mut self, cx: &mut Cx<'_>, epoch: u64, conn: Option<ConnId>) {
        if epoch != self.epoch {
            return;
        }
        match conn.filter(|conn| cx.net.is_alive(*conn)) {
            Some(conn) => {
                self.tries = 0;
                self.probes = 0;
                self.reopened = matches!(self.state, State::Reopening);
                let ids =
                    self.old.that_have_to_end(&cx.net.run_of(conn), Some(conn as u64), cx.now());
                if ids.is_empty() {
                    return self.fenced_off(cx, conn);
                }
                let mut command = vec![b"CLIENT".to_vec()];
                command.extend(ids.iter().map(|id| id.to_string().into_bytes()));
                cx.net.send(conn, Message { command, parts: Vec::new() });
                self.state = State::FencingOff(conn, ids);
                self.epoch = cx.net.fresh();
                let note = Note::Worker { node: self.node, epoch: self.epoch };
                cx.remind(cx.now().after(cx.settings.node_timeout), note);
            }
            None => self.give_up(cx),
        }
    }

    /// The old connections are ended, as far as that is permitted.
    fn fenced_off(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let now = cx.now();
        self.via = self.old.opened(&cx.net.run_of(conn), now);
        if self.via.fenced {
            self.repeated.iter_mut().for_each(|(due, _)| *due = now);
        }
        self.state = State::Probing(conn);
        self.probe(cx);
    }

    /// The connection is given up; what is in flight was written over it.
    fn leaves(&mut self, cx: &Cx<'_>, conn: ConnId) {
        if !(self.in_flight.is_empty() && self.again.is_empty() && self.by_the_clock.is_empty()) {
            let id = cx.settings.may_end.then_some(conn as u64);
            self.old.given_up(&cx.net.run_of(conn), id, cx.now());
        }
    }

    /// A reply came.
    pub(super) fn replied(&mut self, cx: &mut Cx<'_>, conn: ConnId, reply: &Reply, wall: Duration) {
        match &self.state {
            State::Probing(current) if *current == conn => return self.probed(cx, reply),
            State::FencingOff(current, ids) if *current == conn => {
                let run = cx.net.run_of(conn);
                ids.iter().for_each(|id| self.old.ended(&run, *id));
                return self.fenced_off(cx, conn);
            }
            State::Up(current) if *current == conn => {}
            _ => return,
        }
        let Some(call) = self.calls.pop_front() else {
            if !self.by_the_clock.is_empty() && self.saw_clock(cx, conn, wall) {
                self.done(cx, conn);
            }
            return;
        };
        let jobs: Vec<_> = self.in_flight.drain(..call.requests).collect();
        match writing::answers(&call, reply) {
            None => {
                jobs.iter().filter_map(|job| job.asker.as_ref()).for_each(|a| a.unsent(self.node));
                self.again.extend(jobs);
            }
            Some(answers) => {
                for (job, answer) in jobs.into_iter().zip(answers) {
                    match answer {
                        Some(reply) => self.settle(cx, job, reply),
                        None => self.again.push(job),
                    }
                }
            }
        }
        if self.calls.is_empty() && self.saw_clock(cx, conn, wall) {
            self.done(cx, conn);
        }
    }

    /// All that was written has been answered; what has to go out again does so.
    fn done(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        self.rereads = 0;
        self.in_flight.extend(std::mem::take(&mut self.again));
        if self.in_flight.is_empty() {
            self.work(cx);
        } else {
            self.together = false;
            self.state = State::Probing(conn);
            self.probe(cx);
        }
    }

    /// Hands out what was answered to `job`.
    fn settle(&mut self, cx: &mut Cx<'_>, job: Job, reply: &Reply) {
        let meaning = job.outgoing.request.meaning(&value(reply));
        match meaning {
            Meaning::NotAdmitted => {
                cx.shared.admission.borrow_mut().doubt(self.node, job.under.as_deref());
            }
            // A node has forgotten the key that it repaired.
            Meaning::RepairedInQuarantine => {
                let mut admission = cx.shared.admission.borrow_mut();
                if admission.settled_until(self.node).is_some() {
                    admission.doubt(self.node, None);
                }
            }
            Meaning::Granted | Meaning::Kept | Meaning::Confirmed | Meaning::Other => {}
        }
        let is_kept = matches!(meaning, Meaning::Kept | Meaning::Confirmed);
        let denies = job.holding && !is_kept && !matches!(reply, Reply::Error(_));
        if meaning == Meaning::Granted || denies {
            self.by_the_clock.push((job, reply.clone()));
        } else {
            self.answer(cx, &job, Ok(reply));
            self.repeat(cx, job);
        }
    }

    /// A release was answered; it is repeated, if something may still run behind it.
    fn repeat(&mut self, cx: &mut Cx<'_>, mut job: Job) {
        let (via, now) = (self.via, cx.now());
        let mut random = || cx.net.chance.share();
        let due = job.repetition.as_mut().and_then(|it| it.answered(via, now, &mut random));
        if let Some(due) = due {
            job.asker = None;
            self.repeated.push((due, job));
            cx.remind(due, Note::Probe { node: self.node, epoch: 0 });
        }
    }

    /// The node's clock came behind the answers; what was granted counts by that, and what is said against
    /// holders. `false`: it is read once more first.
    fn saw_clock(&mut self, cx: &mut Cx<'_>, conn: ConnId, wall: Duration) -> bool {
        let offset = Offset::new(wall.as_micros() as i64, self.asked_at, cx.now());
        cx.shared.saw_clock(self.node, offset);
        let verdict = cx.shared.admission.borrow_mut().read(self.node, offset);
        if cx.shared.hear_of_clocks() {
            for node in 0..cx.settings.nodes {
                cx.remind(cx.now(), Note::Probe { node, epoch: 0 });
            }
        }
        let takes = self.by_the_clock.iter().any(|(job, _)| job.under.is_some());
        if verdict == ClockVerdict::Doubtful && takes && self.rereads < READ_AGAIN {
            self.rereads += 1;
            self.asked_at = cx.now();
            cx.net.send(conn, Message { command: vec![b"TIME".to_vec()], parts: Vec::new() });
            return false;
        }
        for (job, reply) in std::mem::take(&mut self.by_the_clock) {
            let seen_at = match verdict {
                ClockVerdict::Moved => Some(cx.now()),
                _ => cx.shared.admission.borrow().ahead_at(self.node),
            };
            if let Some((asker, seen_at)) = job.asker.as_ref().zip(seen_at) {
                asker.clock_moved(self.node, seen_at);
            }
            let answer = match verdict {
                ClockVerdict::Moved if !job.holding => Err(Failure::NotAdmitted),
                ClockVerdict::Doubtful if !job.holding => Err(Failure::Error),
                _ => Ok(&reply),
            };
            self.answer(cx, &job, answer);
        }
        true
    }

    /// It may be time to probe the node.
    pub(super) fn probe_due(&mut self, cx: &mut Cx<'_>, epoch: u64) {
        if epoch == 0 || epoch == self.probe_epoch {
            self.work(cx);
        }
    }

    /// Probes the node, if that is due; then goes on.
    fn probe(&mut self, cx: &mut Cx<'_>) {
        /// In a row, while something is changed each time.
        const MOST_PROBES: usize = 8;
        let State::Probing(conn) = self.state else { return };
        match self.next_probe(cx) {
            NextProbe::Ask(change) if self.probes < MOST_PROBES => {
                self.probes += 1;
                let what = if change.is_some() { "change" } else { "probe" };
                self.checks = false;
                self.ask_at_once(cx, conn, &probe_request(MARK, change.as_ref()), what);
            }
            NextProbe::Check(as_seen) if self.probes < MOST_PROBES => {
                self.probes += 1;
                self.checks = true;
                self.ask_at_once(cx, conn, &check_request(MARK, &as_seen), "check");
            }
            next => {
                if let NextProbe::Wait(at) = next {
                    self.probe_epoch = cx.net.fresh();
                    cx.remind(at, Note::Probe { node: self.node, epoch: self.probe_epoch });
                }
                self.probes = 0;
                self.down = false;
                self.state = State::Up(conn);
                let jobs = std::mem::take(&mut self.in_flight);
                if jobs.is_empty() {
                    self.send_waiting(cx);
                } else {
                    self.exchange(cx, jobs);
                }
            }
        }
    }

    /// Asks about the node, in a write of its own.
    fn ask_at_once(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        request: &Request,
        what: &'static str,
    ) {
        self.asked_at = cx.now();
        let nobody = b"none".to_vec();
        let part = Part { keys: [MARK.to_vec()].into(), owner: Rc::new(nobody), what };
        let command = cx.net.switches.applied(request.eval(""));
        cx.net.send(conn, Message { command, parts: vec![part] });
        self.epoch = cx.net.fresh();
        let note = Note::Worker { node: self.node, epoch: self.epoch };
        cx.remind(cx.now().after(cx.settings.node_timeout + GRACE), note);
    }

    fn next_probe(&self, cx: &mut Cx<'_>) -> NextProbe {
        let now = cx.now();
        let set_time = cx.shared.set_time(now);
        let random = &mut cx.net.chance;
        let chance = Chance { id: random.owner() as u64, jitter: random.share() };
        cx.shared.admission.borrow_mut().next(self.node, now, set_time, chance)
    }

    /// The node has answered a probe or a check.
    fn probed(&mut self, cx: &mut Cx<'_>, reply: &Reply) {
        let now = cx.now();
        let value = value(reply);
        if self.checks {
            let Some(checked) = read_check(&value, self.asked_at, now) else {
                return self.give_up(cx);
            };
            if let Checked::AsSeen(clock) = checked {
                cx.shared.saw_clock(self.node, clock);
            }
            cx.shared.admission.borrow_mut().checked(self.node, checked, now);
        } else {
            let Some(probe) = read_probe(&value, self.asked_at, now) else {
                return self.give_up(cx);
            };
            cx.shared.saw_clock(self.node, probe.clock);
            cx.shared.admission.borrow_mut().probed(self.node, probe, now);
        }
        cx.shared.hear_of_clocks();
        // Others may be able to go on, now that more is known of the set.
        for node in (0..cx.settings.nodes).filter(|node| *node != self.node) {
            cx.remind(now, Note::Probe { node, epoch: 0 });
        }
        self.probe(cx);
    }

    /// What is not done goes out again: and what was granted, since nobody knows the node's clock.
    fn take_back(&mut self) {
        self.calls.clear();
        self.rereads = 0;
        self.in_flight.extend(std::mem::take(&mut self.again));
        let jobs = std::mem::take(&mut self.by_the_clock).into_iter().map(|(job, _)| job);
        self.in_flight.extend(jobs);
    }

    /// The connection was closed by the other side.
    pub(super) fn closed(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        let is_up = match self.state {
            State::Up(current) if current == conn => true,
            State::Probing(current) | State::FencingOff(current, _) if current == conn => false,
            _ => return,
        };
        self.take_back();
        self.leaves(cx, conn);
        if !is_up {
            cx.net.close(conn);
            self.give_up(cx);
        } else if !self.in_flight.is_empty() {
            // Who waits for nothing does not notice before it writes.
            cx.net.close(conn);
            cx.shared.admission.borrow_mut().lost(self.node);
            if self.reopened {
                self.give_up(cx);
            } else {
                self.state = State::Reopening;
                self.open(cx);
            }
        }
    }

    /// The time for the answers is over, or for another try to connect has come.
    pub(super) fn timer(&mut self, cx: &mut Cx<'_>, epoch: u64) {
        if epoch != self.epoch {
            return;
        }
        match self.state {
            State::Down => self.try_again(cx),
            State::FencingOff(conn, _) => {
                cx.net.close(conn);
                self.give_up(cx);
            }
            State::Up(conn) | State::Probing(conn) => {
                self.leaves(cx, conn);
                // Behind the requests, on the same connection: what runs later is undone at once.
                let releases = self.mailbox.iter().filter(|job| job.release.is_some());
                let final_releases: Vec<_> = releases.collect();
                for (_, message) in writing::messages(&final_releases, false, cx.net.switches) {
                    cx.net.send(conn, message);
                }
                cx.net.close(conn);
                self.give_up(cx);
            }
            State::Connecting | State::Reopening => {}
        }
    }

    fn try_again(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Connecting;
        self.open(cx);
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        self.mailbox.iter_mut().for_each(|job| job.tried = true);
        self.epoch = cx.net.fresh();
        self.asked_at = cx.now();
        cx.net.connect(cx.client, self.node, cx.settings.node_timeout, self.epoch);
    }

    /// Probes the node, or sends what waits, if nothing else is under way.
    fn work(&mut self, cx: &mut Cx<'_>) {
        let State::Up(conn) = self.state else { return };
        if !self.in_flight.is_empty() || !self.by_the_clock.is_empty() {
            return;
        }
        if cx.net.is_alive(conn) {
            self.state = State::Probing(conn);
            self.probe(cx);
        } else {
            // It was closed while nobody checked.
            cx.net.close(conn);
            cx.shared.admission.borrow_mut().lost(self.node);
            self.state = State::Reopening;
            self.open(cx);
        }
    }

    fn send_waiting(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.pending.retain(|job| !matches!(job.release, Some(Some(until)) if until <= now));
        let due = self.repeated.extract_if(.., |(due, _)| *due <= now).map(|(_, job)| job);
        let mut jobs: VecDeque<_> = self.pending.drain(..).chain(due).collect();
        jobs.extend(self.mailbox.drain(..));
        self.reopened = false;
        self.together = true;
        self.exchange(cx, jobs);
    }

    fn exchange(&mut self, cx: &mut Cx<'_>, mut jobs: VecDeque<Job>) {
        let State::Up(conn) = self.state else { return };
        let (node, via, now) = (self.node, self.via, cx.now());
        jobs.retain_mut(|job| {
            if job.waits && job.under.is_none() {
                // Nothing could be known of the node when this was asked for.
                job.under = match cx.shared.admission.borrow().grants(node) {
                    Grants::Nothing => None,
                    Grants::Always => Some("".into()),
                    Grants::Under(mark) => Some(mark.into()),
                };
                if job.under.is_none() {
                    self.answer(cx, job, Err(Failure::NotAdmitted));
                    return false;
                }
            }
            // A node may have forgotten its locks since this was asked for.
            let admitted = job.under.as_deref().is_none_or(|mark| {
                match cx.shared.admission.borrow().grants(node) {
                    Grants::Nothing => false,
                    Grants::Always => true,
                    Grants::Under(now) => now == mark,
                }
            });
            if !admitted {
                // No word of the node: a copy that was sent before may have been granted.
                self.answer(cx, job, Err(Failure::NotAdmitted));
            }
            admitted && job.asker.as_ref().is_none_or(|asker| asker.sending(node, via, now))
        });
        self.in_flight = jobs;
        self.epoch = cx.net.fresh();
        if self.in_flight.is_empty() {
            // What has come meanwhile is no repetition, and is wanted.
            if !self.mailbox.is_empty() {
                self.work(cx);
            }
            return;
        }
        if !cx.net.is_alive(conn) {
            // It was closed while nobody checked.
            return self.closed(cx, conn);
        }
        self.asked_at = now;
        let jobs = self.in_flight.make_contiguous();
        put_in_order(jobs, |job| &job.outgoing.request);
        let jobs: Vec<_> = jobs.iter().collect();
        for (call, message) in writing::messages(&jobs, self.together, cx.net.switches) {
            self.calls.push_back(call);
            cx.net.send(conn, message);
        }
        let note = Note::Worker { node, epoch: self.epoch };
        cx.remind(now.after(cx.settings.node_timeout + GRACE), note);
    }

    /// The node is down from now on; tells everybody, keeps the releases, and tries again later; or now, if
    /// somebody waits for that.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Down;
        self.down = true;
        cx.net.link(cx.client, self.node).failed_at = cx.net.now;
        cx.shared.admission.borrow_mut().lost(self.node);
        self.take_back();
        for job in std::mem::take(&mut self.in_flight) {
            self.undeliverable(cx, job, Failure::Unknown);
        }
        let (waiting, others): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.mailbox).into_iter().partition(|job| job.waits && !job.tried);
        self.mailbox = waiting;
        for job in others {
            self.undeliverable(cx, job, Failure::NotSent);
        }
        if !self.mailbox.is_empty() {
            self.tries += 1;
            return self.try_again(cx);
        }
        let pause = RECONNECT.pause(self.tries, cx.net.chance.share());
        self.tries += 1;
        self.epoch = cx.net.fresh();
        let note = Note::Worker { node: self.node, epoch: self.epoch };
        cx.remind(cx.now().after(pause), note);
    }

    fn undeliverable(&mut self, cx: &mut Cx<'_>, mut job: Job, failure: Failure) {
        self.answer(cx, &job, Err(failure));
        if job.release.is_some() {
            job.asker = None;
            self.pending.push_back(job);
        }
    }

    fn answer(&self, cx: &mut Cx<'_>, job: &Job, answer: Result<&Reply, Failure>) {
        let (node, now) = (self.node, cx.now());
        let waiter = job.asker.as_ref().and_then(|asker| asker.answer(node, answer, now));
        if let Some(waiter) = waiter {
            cx.wake(waiter);
        }
    }
}
