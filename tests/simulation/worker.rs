//! A client's connection to one node: it carries out the steps of the machine in `core/link` over the simulated network.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use super::claim::MARK;
use super::client::{Cx, Note};
use super::fan_out::{Asker, value};
use super::network::{ConnId, Message, Part, info};
use super::node::run_id as run_id_of;
use crate::core::admission::{Chance, Grants, NextProbe, Offset};
use crate::core::base::Time;
use crate::core::link::{
    self, Awaited, Broken, ClockVerdict, Command, Event, Failure, Fault, Form, Job, Link, Meaning,
    NextQuestion, Opened, Purpose, Rejection, Release, Route, Step, Surroundings, Told,
    Undelivered, Via,
};
use crate::core::vote::{enough_replicas, is_of_grantor, waits_for_a_try};
use crate::embedded::Reply;
use crate::node::{self, Request, Script, Value, eval, read_answers, read_probe};

/// Delay before a worker looks into its mailbox.
const WAKES_UP: Duration = Duration::from_micros(20);

/// A request that is sent as often as necessary.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) request: Rc<Request>,
    pub(super) part: Part,
}

/// A request and its asker.
pub(super) struct Asked {
    node: usize,
    outgoing: Outgoing,
    asker: Option<Rc<dyn Asker>>,
}

/// Reason for a missing answer of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The way to the node, or anything else.
    Way,
    /// The node answers that it cannot serve for now.
    SaysNo,
}

impl Fault for NoAnswer {
    fn rejection(&self) -> Rejection {
        Rejection::Not
    }

    fn lacks_permission(&self) -> bool {
        false
    }
}

impl link::Request for Asked {
    type Script = &'static Script;
    type Value = Value;
    type Fault = NoAnswer;
    type Caller = Rc<dyn Asker>;

    fn script(&self) -> &'static Script {
        self.outgoing.request.script()
    }

    fn batch(&self) -> Option<&'static Script> {
        self.outgoing.request.script().batch().map(|(_, batch)| batch)
    }

    fn goes_last(&self) -> bool {
        self.outgoing.request.script().goes_last()
    }

    fn lock(&self) -> &[u8] {
        self.outgoing.request.first_key()
    }

    fn meaning(&self, answer: &Value) -> Meaning {
        self.outgoing.request.meaning(answer)
    }

    fn sending(&self, via: Via, now: Time) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.sending(self.node, via, now))
    }

    fn unsent(&self) {
        self.asker.iter().for_each(|asker| asker.unsent(self.node));
    }

    fn take_caller(&mut self) -> Option<Rc<dyn Asker>> {
        self.asker.take()
    }

    fn is_told(&mut self) {}
}

/// A question about a node.
struct Question {
    question: node::Question,
    what: &'static str,
}

/// The surroundings of a client's connection to one node.
struct Around<'a, 'b> {
    cx: &'a mut Cx<'b>,
    node: usize,
    down: &'a mut Option<NoAnswer>,
    has_waiting: bool,
}

impl Surroundings<Asked> for Around<'_, '_> {
    type Question = Question;
    type Clock = Offset;

    fn random(&mut self) -> f64 {
        self.cx.net.chance.share()
    }

    fn has_waiting(&mut self) -> bool {
        self.has_waiting
    }

    fn settled_until(&mut self) -> Option<Time> {
        self.cx.shared.admission.borrow().settled_until(self.node)
    }

    fn next_question(&mut self, now: Time) -> NextQuestion<Question> {
        let set_time = self.cx.shared.set_time(now);
        let random = &mut self.cx.net.chance;
        let chance = Chance { id: random.owner() as u64, jitter: random.share() };
        let mut admission = self.cx.shared.admission.borrow_mut();
        match admission.next(self.node, now, set_time, chance) {
            NextProbe::Wait(until) => NextQuestion::Wait(until),
            NextProbe::Ask(change) => {
                let what = if change.is_some() { "change" } else { "probe" };
                let question = node::Question::new(MARK, change.as_ref());
                NextQuestion::Ask(Question { question, what })
            }
        }
    }

    fn script(&self, question: &Question) -> &'static Script {
        question.question.request.script()
    }

    fn question_refused(&mut self, _fault: &NoAnswer) {}

    fn mark(&mut self) -> Result<String, Undelivered<NoAnswer>> {
        match self.cx.shared.admission.borrow().grants(self.node) {
            Grants::Nothing => {
                Err(Undelivered { failure: Failure::NotAdmitted, fault: NoAnswer::Way })
            }
            Grants::Always => Ok(String::new()),
            Grants::Under(mark) => Ok(mark.to_owned()),
        }
    }

    fn not_serving(&mut self) -> Option<NoAnswer> {
        let serves = self.cx.shared.admission.borrow().serves_holders(self.node);
        (!serves).then_some(NoAnswer::Way)
    }

    fn read_clock(&mut self, clock: Offset) -> ClockVerdict {
        self.cx.shared.saw_clock(self.node, clock);
        let verdict = self.cx.shared.admission.borrow_mut().read(self.node, clock);
        if self.cx.shared.hear_of_clocks() {
            hurry(self.cx, |_| true);
        }
        verdict
    }

    fn ahead_at(&mut self) -> Option<Time> {
        self.cx.shared.admission.borrow().ahead_at(self.node)
    }

    fn doubt(&mut self, mark: Option<&str>) {
        self.cx.shared.admission.borrow_mut().doubt(self.node, mark);
    }

    fn has_forgotten(&mut self) {
        let mut admission = self.cx.shared.admission.borrow_mut();
        if admission.settled_until(self.node).is_some() {
            admission.doubt(self.node, None);
        }
    }

    fn lost(&mut self) {
        self.cx.shared.admission.borrow_mut().lost(self.node);
    }

    fn set_up(&mut self) {
        *self.down = None;
    }

    fn set_down(&mut self, fault: &NoAnswer) {
        *self.down = Some(*fault);
        if *fault == NoAnswer::Way {
            self.cx.net.link(self.cx.client, self.node).failed_at = self.cx.net.now;
        }
    }

    fn serves(&mut self) {}

    fn refusal(&mut self, fault: NoAnswer) -> NoAnswer {
        fault
    }

    fn clock_was_set(&mut self) -> NoAnswer {
        NoAnswer::Way
    }

    fn clock_in_doubt(&mut self, _clock: Offset) -> NoAnswer {
        NoAnswer::Way
    }

    fn forgets_sources(&mut self) -> NoAnswer {
        NoAnswer::Way
    }
}

/// Makes the workers of those nodes look for work.
pub(super) fn hurry(cx: &mut Cx<'_>, of: impl Fn(usize) -> bool) {
    for node in (0..cx.settings.nodes).filter(|node| of(*node)) {
        cx.remind(cx.now(), Note::Probe { node, epoch: 0 });
    }
}

pub(super) struct Worker {
    node: usize,
    link: Link<Asked, Question>,
    /// The reason why requests fail at once, if they do.
    down: Option<NoAnswer>,
    conn: Option<ConnId>,
    mailbox: VecDeque<Job<Asked>>,
    /// The step under way.
    step: Step,
    /// Outdate what was scheduled before: `epoch` an awaited answer or a connection, `look_epoch` the next look.
    epoch: u64,
    look_epoch: u64,
    /// The time at which the first answer to the present question came.
    answered: Time,
    /// The first answers to the present question about the node, or of those that show which server answers.
    answers: Vec<Value>,
    /// The grants that count only once the node's replica has them.
    unreplicated: BTreeMap<u64, Unreplicated>,
}

/// A grant that counts only once it is replicated.
struct Unreplicated {
    asker: Rc<dyn Asker>,
    value: Value,
    /// The run id of the server that granted.
    run_id: String,
}

/// Number of replicas that must have a grant.
const REPLICAS: u32 = 1;

impl Worker {
    pub(super) fn start(node: usize, cx: &mut Cx<'_>) -> Self {
        let waits = waits_for_a_try(node, cx.settings.fall_back_after.is_some());
        let mut worker = Self {
            node,
            link: Link::new(cx.settings.node_timeout, waits),
            down: None,
            conn: None,
            mailbox: VecDeque::new(),
            step: Step::End,
            epoch: 0,
            look_epoch: 0,
            answered: Time::default(),
            answers: Vec::new(),
            unreplicated: BTreeMap::new(),
        };
        worker.carry_on(cx);
        worker
    }

    pub(super) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    /// Returns true if the node is down by its own answer.
    pub(super) fn says_no(&self) -> bool {
        self.down == Some(NoAnswer::SaysNo)
    }

    pub(super) fn ask(&mut self, cx: &mut Cx<'_>, outgoing: Outgoing, asker: Rc<dyn Asker>) {
        self.take(cx, outgoing, Some(asker), Purpose::Anyway);
    }

    /// Asks for a grant.
    pub(super) fn ask_for_grant(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Rc<dyn Asker>,
    ) {
        self.take(cx, outgoing, Some(asker), Purpose::Taking);
    }

    /// Asks on behalf of a lock's holder.
    pub(super) fn ask_for_holder(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Rc<dyn Asker>,
    ) {
        self.take(cx, outgoing, Some(asker), Purpose::Holding);
    }

    pub(super) fn release(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Option<Rc<dyn Asker>>,
        release: Release,
    ) {
        self.take(cx, outgoing, asker, Purpose::Release(release));
    }

    /// Puts a request into the mailbox, as `src/node/handle.rs` does.
    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        mut asker: Option<Rc<dyn Asker>>,
        purpose: Purpose,
    ) {
        let waits = waits_for_a_try(self.node, cx.settings.fall_back_after.is_some());
        let route = Route::of(&purpose, self.is_down(), waits);
        if let Some(asker) = asker.take_if(|_| route.tells_at_once()) {
            let waiter = asker.answer(self.node, Err(Failure::NotSent), cx.now());
            waiter.into_iter().for_each(|waiter| cx.wake(waiter));
        }
        if !route.is_submitted() {
            return;
        }
        if self.mailbox.is_empty() {
            // The threads that woke the worker run first. It then writes all that waits at once: a release, and the
            // next request for the same lock.
            let at = cx.now().after(WAKES_UP);
            cx.remind(at, Note::Probe { node: self.node, epoch: 0 });
        }
        let asked = Asked { node: self.node, outgoing, asker };
        self.mailbox.push_back(Job::new(asked, purpose));
    }

    /// Returns that time in milliseconds of the node's own clock, or somewhat before; 0 if that clock is not known.
    pub(super) fn clock_ms(&self, cx: &Cx<'_>, time: Time) -> i64 {
        cx.shared.offset(self.node).map_or(0, |offset| offset.at_least_ms(time))
    }

    fn tell(
        &mut self,
        cx: &mut Cx<'_>,
        tell: impl FnOnce(&mut Link<Asked, Question>, &mut Around<'_, '_>),
    ) {
        let Self { node, link, down, mailbox, .. } = self;
        tell(link, &mut Around { cx, node: *node, down, has_waiting: !mailbox.is_empty() });
        while let Some(event) = self.link.poll_event() {
            let Event::Answered(answered) = event else { continue };
            if let Some(seen_at) = answered.clock_moved {
                answered.caller.clock_moved(self.node, seen_at);
            }
            let waits = matches!(answered.meaning, Meaning::Granted | Meaning::Confirmed);
            let answer = answered.answer.map_err(|undelivered| undelivered.failure);
            if let (true, Ok(value)) = (waits && cx.settings.replicated, &answer) {
                let run_id = self.conn.map(|conn| cx.net.run_of(conn)).unwrap_or_default();
                let (asker, value) = (answered.caller, value.clone());
                let id = cx.net.fresh();
                self.unreplicated.insert(id, Unreplicated { asker, value, run_id });
                let within = cx.settings.node_timeout / 2;
                cx.net.wait_for_replica(cx.client, self.node, id, within);
                continue;
            }
            let waiter = answered.caller.answer(self.node, answer, cx.now());
            waiter.into_iter().for_each(|waiter| cx.wake(waiter));
        }
    }

    /// Carries out the machine's steps until there is something to wait for.
    fn carry_on(&mut self, cx: &mut Cx<'_>) {
        loop {
            let now = cx.now();
            let mut next = Step::End;
            if self.link.is_release_due(now) || self.link.is_far() {
                self.submit();
            }
            self.tell(cx, |link, around| next = link.poll(now, around));
            let before = std::mem::replace(&mut self.step, next);
            match next {
                Step::Connect if before == Step::Connect => return,
                Step::Connect => {
                    self.conn = None;
                    self.epoch = cx.net.fresh();
                    let timeout = cx.settings.node_timeout;
                    return cx.net.connect(cx.client, self.node, timeout, self.epoch);
                }
                Step::Write => self.write(cx),
                Step::Read(_, deadline) => {
                    if !matches!(before, Step::Read(_, it) if it == deadline) {
                        self.epoch = cx.net.fresh();
                        let note = Note::Worker { node: self.node, epoch: self.epoch };
                        cx.remind(deadline, note);
                    }
                    // A new request may follow the unanswered ones, but not yet.
                    if let Some(at) = self.link.writes_at() {
                        cx.remind(at, Note::Probe { node: self.node, epoch: 0 });
                    }
                    return;
                }
                Step::Close => self.close(cx),
                // No note was scheduled for that time.
                Step::Wait(_) if self.submit() => self.step = Step::End,
                Step::Wait(until) => {
                    if before != next {
                        self.look_epoch = cx.net.fresh();
                        let note = Note::Probe { node: self.node, epoch: self.look_epoch };
                        cx.remind(until, note);
                    }
                    return;
                }
                Step::End => return,
            }
        }
    }

    /// Hands the machine the jobs in the mailbox, as far as it has room. Returns true if there were any.
    fn submit(&mut self) -> bool {
        let room = self.link.room().min(self.mailbox.len());
        self.mailbox.drain(..room).for_each(|job| self.link.submit(job));
        room > 0
    }

    fn write(&mut self, cx: &mut Cx<'_>) {
        let conn = self.conn.filter(|conn| cx.net.is_alive(*conn));
        // The connection was closed unnoticed.
        let Some(conn) = conn else { return self.broken(cx, true) };
        let (began, mut has_calls, is_relayed) = (cx.now(), false, cx.net.relayed);
        let mut messages = Vec::new();
        self.link.show_write(|command| match command {
            Command::End(id) => {
                messages.push(Message::of(vec![b"CLIENT".to_vec(), id.to_string().into_bytes()]));
            }
            Command::Question(Question { question, what }, form) => {
                let owner = Rc::new(b"none".to_vec());
                let part = Part { keys: [MARK.to_vec()].into(), owner, what };
                let (command, by_hash) = (question.request.eval(""), form == Form::Sha);
                let script = Message { command, parts: vec![part], by_hash };
                let info = info().map(Message::of);
                if cx.net.switches.info_first {
                    messages.extend(info.chain([script]));
                } else {
                    messages.extend([script].into_iter().chain(info));
                }
            }
            Command::Call { jobs, batch, mark, form } => {
                has_calls = true;
                messages.push(call(jobs, batch, mark, form));
            }
            Command::Clock if is_relayed => {
                messages.extend(info().map(Message::of));
            }
            // Each answer comes with the node's clock.
            Command::Clock if has_calls => {}
            Command::Clock => {
                messages.push(Message::of(vec![b"TIME".to_vec()]));
            }
        });
        cx.net.followed += usize::from(self.link.writes_on_their_way() > 1);
        for mut message in messages {
            if !message.parts.is_empty() {
                message.command = cx.net.switches.applied(message.command);
            }
            cx.net.send(conn, message);
        }
        self.link.handle_written(began, cx.now());
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.submit();
        if let Some(conn) = self.conn.take() {
            let mut messages = Vec::new();
            self.link.final_releases(|asked, form| {
                let Outgoing { request, part } = &asked.outgoing;
                let (command, by_hash) = (request.eval(""), form == Form::Sha);
                messages.push(Message { command, parts: vec![part.clone()], by_hash });
            });
            for mut message in messages {
                message.command = cx.net.switches.applied(message.command);
                cx.net.send(conn, message);
            }
            cx.net.give_up(conn);
        }
        let now = cx.now();
        self.tell(cx, |link, around| link.handle_closed(now, around));
    }

    fn broken(&mut self, cx: &mut Cx<'_>, closed: bool) {
        if let Some(conn) = self.conn.filter(|_| closed) {
            cx.net.close(conn);
        }
        let (now, broken) = (cx.now(), Broken { fault: NoAnswer::Way, closed, in_step: !closed });
        self.tell(cx, |link, around| link.handle_broken(broken, now, around));
    }

    pub(super) fn connected(
        &mut self,
        cx: &mut Cx<'_>,
        epoch: u64,
        conn: Result<ConnId, NoAnswer>,
    ) {
        if epoch != self.epoch || self.step != Step::Connect {
            return;
        }
        // Another try may follow at once.
        self.step = Step::End;
        self.answers.clear();
        let now = cx.now();
        let fault = conn.err().unwrap_or(NoAnswer::Way);
        self.conn = conn.ok().filter(|conn| cx.net.is_alive(*conn));
        match self.conn {
            Some(conn) => {
                let id = cx.settings.may_end.then_some(conn as u64);
                let run = cx.net.run_of(conn);
                let opened = Opened { run, id, is_relayed: cx.net.relayed };
                self.tell(cx, |link, _| link.handle_opened(opened, now));
            }
            None => {
                self.tell(cx, |link, around| link.handle_not_opened(fault, now, around));
            }
        }
        self.carry_on(cx);
    }

    /// Handles a reply.
    pub(super) fn replied(&mut self, cx: &mut Cx<'_>, conn: ConnId, reply: &Reply, wall: Duration) {
        let Step::Read(awaited, _) = self.step else { return };
        if self.conn != Some(conn) {
            return;
        }
        let now = cx.now();
        let sent = self.link.sent().unwrap_or(now);
        let clock = Offset::new(wall.as_micros() as i64, sent, now);
        let is_unknown = matches!(reply, Reply::Error(text) if text.starts_with("NOSCRIPT"));
        match awaited {
            Awaited::Ended => self.tell(cx, |link, _| link.handle_ended(true, now)),
            Awaited::Question => {
                if self.answers.is_empty() {
                    self.answered = now;
                }
                self.answers.push(value(reply));
                if self.answers.len() < node::Question::COMMANDS {
                    return;
                }
                let mut answers = std::mem::take(&mut self.answers);
                if cx.net.switches.info_first {
                    answers.rotate_right(1);
                }
                let is_unknown = |answer: &Value| matches!(answer, Value::Strange(text) if text.contains("NOSCRIPT"));
                if answers.iter().any(is_unknown) {
                    self.tell(cx, |link, around| link.handle_question(Told::NoScript, now, around));
                } else {
                    match self.found(cx, &answers) {
                        Some(true) => self.tell(cx, |link, around| {
                            link.handle_question(Told::Answered, now, around);
                        }),
                        Some(false) => self.broken(cx, true),
                        None => self.broken(cx, false),
                    }
                }
            }
            Awaited::Call { requests } => {
                let answered = match (reply, requests) {
                    _ if is_unknown => link::Reply::NoScript,
                    (Reply::Error(text), _) if text.starts_with("NOREPLICAS") => {
                        // The node counts as one that is down.
                        self.broken(cx, false);
                        return self.carry_on(cx);
                    }
                    (Reply::Error(_), _) => link::Reply::Error(NoAnswer::Way),
                    (reply, 1) => link::Reply::Value(value(reply)),
                    (reply, _) => {
                        let answers = read_answers(value(reply), requests);
                        link::Reply::Batch(answers.expect("a batch of ours answers so"))
                    }
                };
                self.tell(cx, |link, around| link.handle_answer(answered, now, around));
                if let Some(Awaited::Clock) = self.link.awaited()
                    && !cx.net.relayed
                {
                    self.tell(cx, |link, around| link.handle_clock(clock, now, around));
                }
            }
            Awaited::Clock if cx.net.relayed => {
                self.answers.push(value(reply));
                let [server, replication] = &self.answers[..] else { return };
                let server = node::identity([server, replication]).expect("a master");
                self.answers.clear();
                if cx.shared.admission.borrow().is_still_there(self.node, &server) {
                    self.tell(cx, |link, around| link.handle_clock(clock, now, around));
                } else {
                    self.broken(cx, true);
                }
            }
            Awaited::Clock => {
                self.tell(cx, |link, around| link.handle_clock(clock, now, around));
            }
        }
        if let Step::Read(..) = self.step {
            // The next answer belongs to the same write, or there is none.
            self.carry_on(cx);
        }
    }

    /// Handles the node's answers to a question about itself. Returns false if another server answers than when it connected;
    /// `None` if no node of ours answers so.
    fn found(&self, cx: &mut Cx<'_>, answers: &[Value]) -> Option<bool> {
        let (node, now) = (self.node, cx.now());
        let sent = self.link.sent().unwrap_or(now);
        let probe = read_probe(answers, sent, self.answered)?.probe;
        if !self.link.leads_to(probe.identity.run_id()) {
            return Some(false);
        }
        cx.shared.saw_clock(node, probe.clock);
        let others_look = cx.shared.seen(|admission| admission.probed(node, probe, now));
        self.conn.into_iter().for_each(|conn| cx.net.is_probed(conn));
        for node in 0..cx.settings.nodes {
            if let Grants::Under(mark) = cx.shared.admission.borrow().grants(node) {
                cx.net.check_mark(cx.client, node, mark);
            }
        }
        if cx.shared.hear_of_clocks() {
            hurry(cx, |_| true);
        } else if others_look {
            hurry(cx, |other| other != node);
        }
        Some(true)
    }

    /// Handles the answer to a `WAIT` behind a grant, as `src/node/replicas.rs` does.
    pub(super) fn replicated(&mut self, cx: &mut Cx<'_>, id: u64, answer: Option<(i64, u64)>) {
        let Some(Unreplicated { asker, value, run_id }) = self.unreplicated.remove(&id) else {
            return;
        };
        let counts = answer.is_some_and(|(acknowledged, process)| {
            enough_replicas(acknowledged, REPLICAS)
                && is_of_grantor(&run_id_of(self.node, process), &run_id)
        });
        let answer = if counts { Ok(value) } else { Err(Failure::Unknown) };
        let waiter = asker.answer(self.node, answer, cx.now());
        waiter.into_iter().for_each(|waiter| cx.wake(waiter));
    }

    /// Looks for work, unless `epoch` is outdated.
    pub(super) fn probe_due(&mut self, cx: &mut Cx<'_>, epoch: u64) {
        if epoch == self.look_epoch && matches!(self.step, Step::Wait(_)) {
            // The note is used up, even if the client's clock has not quite reached its time.
            self.step = Step::End;
        } else if epoch != 0 {
            return;
        }
        self.carry_on(cx);
    }

    /// Handles the end of the connection by the other side.
    pub(super) fn closed(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        // A worker that awaits no answer does not notice it before it writes.
        if let (Step::Read(..), true) = (self.step, self.conn == Some(conn)) {
            self.broken(cx, true);
            self.carry_on(cx);
        }
    }

    /// Handles the end of the time for the answers.
    pub(super) fn timer(&mut self, cx: &mut Cx<'_>, epoch: u64) {
        if let (Step::Read(..), true) = (self.step, epoch == self.epoch) {
            let (now, mut next) = (cx.now(), self.step);
            self.tell(cx, |link, around| next = link.poll(now, around));
            // Otherwise the node gets more time.
            if next == self.step {
                self.broken(cx, false);
            }
            self.carry_on(cx);
        }
    }
}

/// Builds the call that makes those requests.
fn call(jobs: &[Job<Asked>], batch: Option<&'static Script>, mark: &str, form: Form) -> Message {
    let mark = if jobs.iter().any(Job::is_taking) { mark } else { "" };
    let requests: Vec<_> = jobs.iter().map(|job| &*job.request.outgoing.request).collect();
    let parts = jobs.iter().map(|job| job.request.outgoing.part.clone()).collect();
    let command = eval(&requests, batch, (MARK, mark));
    Message { command, parts, by_hash: form == Form::Sha }
}
