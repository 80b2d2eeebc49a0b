//! Carries the connection to one node: it does what the machine of the connection says, for whoever holds it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::address::Address;
use super::batch;
use super::connection::{Broken, Connection, Reply, TIME, write_end};
use super::job::{Asked, Job, Undelivered};
use super::mailbox::Mailbox;
use super::replicas::Unreplicated;
use super::request::Value;
use super::set::NodeSet;
use super::shared::Shared;
use super::steps::{Next, Progress};
use super::surroundings::{Around, Asks, Found, Question};
use super::wire::Socket;
use crate::clock;
use crate::core::base::Time;
use crate::core::link::{
    self, Answered, Awaited, Command, Event, Failure, Link, Meaning, Step, Told,
};
use crate::error::NodeFault;
use crate::observe;

/// The time for which answers that a caller does not need any more are left to the next one. Nobody is woken for them meanwhile.
pub(super) const LEFT: Duration = Duration::from_millis(5);

/// A caller writes so many requests along with its own that have waited for the worker, and so many bytes in all: fewer behind a write
/// that is not answered. A socket that has room takes them at once, also if the server hangs.
const MOST_TAKEN_ALONG: usize = 8;
const MOST_AT_ONCE: usize = 6 * 1024;
const MOST_BEHIND: usize = 2 * 1024;

/// About as many bytes as a call has.
const A_CALL: usize = 400;

/// The connection to one node, with its machine. The node's [worker](super::worker) has it as a rule, or a caller that
/// [drives it](super::driven) for one request.
pub(super) struct Driver {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    /// The client's knowledge of all nodes.
    pub(super) set: Arc<NodeSet>,
    /// Takes the grants that count once they are replicated.
    confirmer: Option<Sender<Unreplicated>>,
    pub(super) link: Link<Asked, Question>,
    connection: Option<Connection>,
    /// The node is usable over that connection.
    pub(super) is_up: bool,
    /// The last question about the node.
    asks: Asks,
    /// When a caller last drove it.
    driven_at: Option<Time>,
    /// Answers are on their way that a caller has left: until then to the next caller, as a rule, and then to the worker.
    left_until: Option<Time>,
    /// Others wait for the answers that are on their way, besides the caller that drives it.
    others_wait: bool,
    /// A caller has found that the connection is of no use any more. What follows is for the worker.
    failed: Option<Broken>,
}

impl Driver {
    /// Returns the driver of the node at that place, which has `timeout` for an answer. There is no connection yet.
    pub(super) fn new(
        node: usize,
        (address, timeout): (Address, Duration),
        shared: Arc<Shared>,
        set: Arc<NodeSet>,
        confirmer: Option<Sender<Unreplicated>>,
    ) -> Self {
        Self {
            node,
            address,
            timeout,
            mailbox: set.mailbox(node).clone(),
            link: Link::new(timeout, set.waits_for_a_try(node)),
            shared,
            set,
            confirmer,
            connection: None,
            is_up: false,
            asks: Asks::Probe,
            driven_at: None,
            left_until: None,
            others_wait: false,
            failed: None,
        }
    }

    /// Works until there is nothing to do at once. While callers meet, that includes the wait for answers: nobody else is to have
    /// the connection then.
    pub(super) fn work(&mut self) -> Next {
        if let Some(until) = self.left_until {
            let hurries = self.shared.hurries.load(Ordering::Relaxed);
            let is_asked = self.mailbox.len() > 0 || self.link.has_unsent();
            if clock::now() < until && !is_asked && !hurries {
                return Next::Rest(until);
            }
            self.left_until = None;
            // Nobody may have looked for long. What is there has come in time, for all we know.
            self.failed = self.failed.take().or_else(|| self.has_answer().err());
        }
        let mut step = match self.failed.take() {
            Some(broken) => self.is_broken(broken),
            None => self.poll(),
        };
        let mut was_write = false;
        loop {
            let just_written = std::mem::replace(&mut was_write, step == Step::Write);
            step = match step {
                Step::Wait(until) => return Next::Rest(until),
                Step::End => return Next::End,
                // It cannot be answered yet, nor is there an answer to an earlier one.
                Step::Read(_, deadline)
                    if just_written && self.is_shared() && self.link.writes_on_their_way() == 1 =>
                {
                    return self.waits(deadline);
                }
                Step::Read(_, deadline) if self.is_shared() => match self.has_answer() {
                    Ok(false) if clock::now() < deadline => return self.waits(deadline),
                    Ok(_) => self.follow(step),
                    Err(broken) => self.is_broken(broken),
                },
                step => self.follow(step),
            }
        }
    }

    /// Does what comes next, and returns what follows.
    fn follow(&mut self, step: Step) -> Step {
        match self.carry_out(step) {
            Ok(()) => self.poll(),
            Err(broken) => self.is_broken(broken),
        }
    }

    /// Returns true if others may use the connection while an answer is on its way: a caller that takes it, or requests that go out
    /// before that.
    fn is_shared(&self) -> bool {
        let may_be_taken = self.confirmer.is_none() && !self.set.is_crowded();
        self.mailbox.has_waker() && self.is_up && (may_be_taken || self.link.is_far())
    }

    /// It waits for an answer until then, or until something may be written before that.
    fn waits(&mut self, deadline: Time) -> Next {
        if self.link.is_far() {
            // It may never rest.
            self.tidy();
            self.look();
        }
        let Some(from) = self.link.takes_more_from() else {
            return Next::Read { until: deadline, takes_more: false };
        };
        // While callers meet, something comes by then. To be woken for it costs more than to look.
        if self.link.has_unsent() || self.set.is_crowded() && clock::now() < from {
            Next::Read { until: from.min(deadline), takes_more: false }
        } else {
            Next::Read { until: deadline, takes_more: true }
        }
    }

    fn carry_out(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Connect => {
                self.shared.status.busy();
                let opened = Connection::open(&self.address, self.timeout);
                self.connected(opened);
            }
            Step::Write => {
                let encoded = self.encoded();
                self.write(encoded)?;
            }
            Step::Read(awaited, deadline) => self.read(awaited, deadline)?,
            Step::Close => self.close(),
            Step::Wait(_) | Step::End => {}
        }
        Ok(())
    }

    /// The connection cannot be used any more. Returns what follows.
    fn is_broken(&mut self, mut broken: Broken) -> Step {
        if !self.is_up {
            broken.fault = self.shared.status.not_connected(broken.fault);
        }
        self.tell(|link, around| link.handle_broken(broken, clock::now(), around));
        self.poll()
    }

    /// Asks the machine what comes next, and hands out what it has for others.
    fn poll(&mut self) -> Step {
        if self.link.keeps_any() && self.link.is_release_due(clock::now()) {
            // Else what waits would wait for as long as releases are due, one after the other.
            self.submit_what_waits();
        }
        let (set, status) = (&self.set, &self.shared.status);
        let mut around = Around { node: self.node, set, status };
        let step = self.link.poll(clock::now(), &mut around);
        self.others_wait &= !matches!(step, Step::Wait(_));
        self.hand_out();
        if self.link.is_up() && !std::mem::replace(&mut self.is_up, true) {
            self.came_up();
        }
        self.shared.kept.store(self.link.kept_releases(), Ordering::Relaxed);
        self.shared.keeps_any.store(self.link.keeps_any(), Ordering::Relaxed);
        step
    }

    fn tell(&mut self, tell: impl FnOnce(&mut Link<Asked, Question>, &mut Around<'_>)) {
        let (set, status) = (&self.set, &self.shared.status);
        tell(&mut self.link, &mut Around { node: self.node, set, status });
        self.hand_out();
    }

    fn hand_out(&mut self) {
        while let Some(event) = self.link.poll_event() {
            match event {
                Event::Answered(answered) => self.deliver(answered),
                Event::Unwanted(_) => {}
                Event::ReleaseRefused(fault) => {
                    self.set.tell(move || observe::release_refused(&fault));
                }
                Event::ReleaseDropped => {
                    let node = self.shared.status.node().clone();
                    self.set.tell(move || observe::release_dropped(&node));
                }
            }
        }
    }

    /// Hands out an answer; behind the node's replicas, where it counts only with them.
    fn deliver(&self, answered: Answered<Asked>) {
        let Answered { caller, meaning, clock_moved, mut answer } = answered;
        if let Some(seen_at) = clock_moved {
            caller.clock_moved(self.node, seen_at);
        }
        let waits = matches!(meaning, Meaning::Granted | Meaning::Confirmed);
        if let (Some(confirmer), true, Ok(value)) = (&self.confirmer, waits, &answer) {
            let run_id = self.connection.as_ref().map_or("", Connection::run_id).to_owned();
            let grant = Unreplicated { sink: caller.clone(), value: value.clone(), run_id };
            if confirmer.try_send(grant).is_ok() {
                return;
            }
            let what = "too many locks wait for this node's replicas already";
            let fault = NodeFault::new(self.shared.status.node(), what);
            answer = Err(Undelivered { failure: Failure::Unknown, fault });
        }
        caller.answer(self.node, answer);
    }

    /// A connection was opened, or could not be.
    pub(super) fn connected(&mut self, opened: Result<Connection, NodeFault>) {
        self.is_up = false;
        match opened {
            Ok(connection) => {
                if let Some(policy) = connection.evicts() {
                    self.shared.status.evicts(policy);
                }
                let opened = connection.opened();
                self.connection = Some(connection);
                self.tell(|link, _| link.handle_opened(opened, clock::now()));
            }
            Err(fault) => {
                self.connection = None;
                let fault = self.shared.status.not_connected(fault);
                self.tell(|link, around| link.handle_not_opened(fault, clock::now(), around));
            }
        }
    }

    /// The node may be used over the new connection.
    fn came_up(&self) {
        let Some(connection) = &self.connection else { return };
        connection.address.has_answered();
        // For a server that does not let us probe it. Else its clock is known by now, along with what there is
        // to compare it with, and a caller that waits for it need not wait again.
        if let Some(clock) = connection.clock().filter(|_| self.set.clock(self.node).is_none()) {
            self.set.set_clock(self.node, clock);
        }
    }

    /// The bytes of the next write, and the number of scripts that they call.
    fn encoded(&mut self) -> (Vec<u8>, usize) {
        let (mut buffer, mut scripts) = (Vec::with_capacity(A_CALL), 0);
        let (asks, mark_key) = (&mut self.asks, self.set.mark_key());
        self.link.show_write(|command| match command {
            Command::End(id) => write_end(id, &mut buffer),
            Command::Question(question, form) => {
                *asks = question.asks;
                question.request.write_to(&mut buffer, form, "");
            }
            Command::Call { jobs, batch, form, mark } => {
                scripts += jobs.len();
                batch::write(jobs, batch, form, (mark_key, mark), &mut buffer);
            }
            Command::Clock => buffer.extend_from_slice(TIME),
        });
        (buffer, scripts)
    }

    fn write(&mut self, (bytes, scripts): (Vec<u8>, usize)) -> Result<(), Broken> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if self.link.writes_on_their_way() <= 1 {
            self.shared.status.busy();
        }
        if scripts > 0 {
            // Before it is written: a reader of the figures that sees its effect finds it counted.
            self.shared.writes.fetch_add(1, Ordering::Relaxed);
            self.shared.scripts.fetch_add(scripts as u64, Ordering::Relaxed);
        }
        let began = clock::now();
        connection.write(&bytes)?;
        self.link.handle_written(began, clock::now());
        Ok(())
    }

    fn read(&mut self, awaited: Awaited, deadline: Time) -> Result<(), Broken> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        match awaited {
            Awaited::Ended => {
                // The number of connections that it has ended: 0, if that one is not there any more. An error: we may not.
                let reply = connection.read_any(deadline)?;
                let over = matches!(reply, Reply::Value(Value::Int(0 | 1)));
                self.tell(|link, _| link.handle_ended(over, clock::now()));
            }
            Awaited::Question => {
                let told = match connection.read(deadline)? {
                    Reply::Value(value) => self.found(&value).map(|()| Told::Answered)?,
                    Reply::NoScript => Told::NoScript,
                    Reply::Error(fault) => Told::Refused(fault),
                };
                self.tell(|link, around| link.handle_question(told, clock::now(), around));
            }
            Awaited::Call { requests } => {
                let reply = match connection.read(deadline)? {
                    Reply::Value(value) if requests > 1 => {
                        let answers = batch::answers(value, requests);
                        link::Reply::Batch(answers.map_err(|it| connection.strange(&it))?)
                    }
                    Reply::Value(value) => link::Reply::Value(value),
                    Reply::NoScript => link::Reply::NoScript,
                    Reply::Error(fault) => link::Reply::Error(fault),
                };
                self.tell(|link, around| link.handle_answer(reply, clock::now(), around));
            }
            Awaited::Clock => {
                let sent = self.link.sent().unwrap_or_else(clock::now);
                let clock = connection.read_clock(sent, deadline)?;
                self.tell(|link, around| link.handle_clock(clock, clock::now(), around));
                if self.link.writes_on_their_way() > 0 {
                    // It has the time for the next one from now on, as far as anybody can tell.
                    self.shared.status.busy();
                }
            }
        }
        Ok(())
    }

    /// The node has answered what it was asked about itself.
    ///
    /// A server that is no master ends its connection: nothing is carried there.
    fn found(&self, value: &Value) -> Result<(), Broken> {
        let answered = clock::now();
        let sent = self.link.sent().unwrap_or(answered);
        match self.asks.read(value, sent, answered) {
            Some(Found::Probe(probe)) => self.set.probed(self.node, probe, answered),
            Some(Found::Checked(checked)) => self.set.checked(self.node, checked, answered),
            None => {
                let what = format!(
                    "the server has answered {} with {value}; is it a proxy, or something other than \
                     Redis?",
                    self.asks.in_words()
                );
                let fault = NodeFault::new(self.address.shown(), what);
                return Err(Broken { fault, closed: false, in_step: false });
            }
        }
        match self.set.no_master(self.node) {
            Some(fault) if self.asks == Asks::Probe => {
                Err(Broken { fault, closed: false, in_step: true })
            }
            _ => Ok(()),
        }
    }

    /// Closes the connection, behind the final releases if there are to be any: those that wait in the mailbox as well.
    fn close(&mut self) {
        self.submit_what_waits();
        let mut buffer = Vec::new();
        self.link.final_releases(|release, form| release.request.write_to(&mut buffer, form, ""));
        if let Some(connection) = self.connection.take() {
            if !self.is_up {
                // A replica, for instance. Another address may be the master's.
                connection.address.has_failed();
            }
            if !buffer.is_empty() {
                connection.final_releases(&buffer);
            }
        }
        self.is_up = false;
        self.tell(|link, around| link.handle_closed(clock::now(), around));
    }

    /// Returns true if a caller may drive it for one request. What has waited for the worker goes out before that.
    pub(super) fn can_be_driven(&mut self) -> bool {
        let is_fine = self.confirmer.is_none()
            && self.failed.is_none()
            && !self.mailbox.is_abandoned()
            && self.link.can_be_driven(clock::now())
            && self.mailbox.len() <= MOST_TAKEN_ALONG;
        if is_fine {
            self.submit_what_waits();
        }
        is_fine && self.mailbox.len() == 0
    }

    /// Something waits for the worker.
    pub(super) fn has_waiting(&self) -> bool {
        self.mailbox.len() > 0
    }

    /// The caller that drives it asks this.
    pub(super) fn submit(&mut self, job: Job) -> Progress {
        self.left_until = None;
        self.link.submit(job);
        // Earlier requests may be answered by now.
        self.advance().unwrap_or_else(|| {
            let step = self.poll();
            self.progress(step)
        })
    }

    /// Takes in the answers that have come, and goes on as far as that goes without waiting for the node. `None`: none has come.
    pub(super) fn advance(&mut self) -> Option<Progress> {
        let mut last = None;
        while let Some((progress, has_written)) = self.take_in() {
            last = Some(progress);
            // Answers to earlier writes may have been read along with those that were taken in.
            let may_have_more = has_written && self.link.writes_on_their_way() > 1;
            if !may_have_more || progress == Progress::Other {
                break;
            }
        }
        last
    }

    /// The same, until it writes. Returns whether it has come to that.
    fn take_in(&mut self) -> Option<(Progress, bool)> {
        if self.link.is_calm() {
            return None;
        }
        let mut has_come = false;
        while self.failed.is_none() {
            let step = match self.has_answer() {
                Ok(true) => self.poll(),
                Ok(false) if has_come => break,
                Ok(false) => return None,
                Err(broken) => {
                    self.failed = Some(broken);
                    break;
                }
            };
            has_come = true;
            if !matches!(step, Step::Read(..)) {
                break;
            }
            self.failed = self.carry_out(step).err();
            if !matches!(self.poll(), Step::Read(..)) {
                break;
            }
        }
        let step = self.poll();
        Some((self.progress(step), step == Step::Write))
    }

    /// Writes, if that comes next and the socket takes it at once. Returns where that ends. A failure is left to the worker.
    fn progress(&mut self, step: Step) -> Progress {
        let mut step = step;
        if step == Step::Write && self.failed.is_none() {
            let encoded = self.encoded();
            if !self.has_room(encoded.0.len()) {
                return Progress::Other;
            }
            self.failed = self.write(encoded).err();
            step = self.poll();
        }
        match step {
            _ if self.failed.is_some() => Progress::Other,
            Step::Read(_, deadline) => {
                // From then on the worker may write what waits.
                Progress::Reads(self.link.writes_at().map_or(deadline, |at| at.min(deadline)))
            }
            Step::Wait(until) if self.shared.wakes_at() <= until => {
                self.shared.status.idle();
                Progress::Rests
            }
            _ => Progress::Other,
        }
    }

    /// The caller that drove it, so far, leaves it. Returns true if the worker has to be woken.
    pub(super) fn leave(&mut self, progress: Progress) -> bool {
        let now = clock::now();
        self.driven_at = Some(now);
        let is_left =
            matches!(progress, Progress::Reads(_)) && !self.link.has_unsent() && !self.others_wait;
        // A late reading of a clock is a vague one.
        let left = LEFT.min(self.set.clock_tolerance() / 8);
        if is_left {
            self.link.leave_answers();
        }
        self.left_until = is_left.then(|| now.after(left));
        match self.left_until {
            Some(until) => until < self.shared.wakes_at(),
            None => progress != Progress::Rests,
        }
    }

    /// The socket takes so many bytes of a caller at once.
    fn has_room(&self, bytes: usize) -> bool {
        if self.link.writes_on_their_way() <= 1 {
            return bytes <= MOST_AT_ONCE;
        }
        bytes <= MOST_BEHIND && self.socket().is_none_or(Socket::has_room)
    }

    fn has_answer(&mut self) -> Result<bool, Broken> {
        self.connection.as_mut().map_or(Ok(true), Connection::has_answer)
    }

    /// The socket, to wait for an answer.
    pub(super) fn socket(&self) -> Option<&Socket> {
        self.connection.as_ref().map(|connection| connection.wire.socket())
    }

    /// Nothing is to be done before `until`. Returns when the worker is to wake up by itself.
    pub(super) fn rest(&mut self, until: Time) -> Time {
        if self.link.is_calm() {
            self.shared.status.idle();
        }
        self.tidy();
        let until = if self.is_up { until.min(self.look()) } else { until };
        let Some(driven_at) = self.driven_at else { return until };
        let now = clock::now();
        if driven_at.after(LEFT) <= now {
            self.driven_at = None;
            return until;
        }
        // A caller that has come a moment ago comes again, as a rule. It need not wake the worker if that wakes up by itself.
        until.min(now.after(LEFT))
    }

    /// Drops what is of no use any more, if that was asked for.
    fn tidy(&mut self) {
        if self.shared.is_to_tidy.swap(false, Ordering::Relaxed) {
            self.link.tidy(clock::now());
        }
    }

    /// The worker has ended: nothing is done any more.
    pub(super) fn drop_all(&mut self) {
        self.connection = None;
        self.link = Link::new(self.timeout, false);
    }

    /// Nothing is submitted any more. What is kept goes out when it is due.
    pub(super) fn client_is_gone(&mut self) {
        self.left_until = None;
        self.link.handle_client_gone(clock::now());
        if let Step::Wait(until) = self.poll() {
            clock::sleep(clock::slice(until).unwrap_or_default());
        }
    }

    /// Hands the machine what waits in the mailbox, as far as it takes it.
    pub(super) fn submit_what_waits(&mut self) {
        let room = self.link.room();
        if room == 0 {
            return;
        }
        let mut jobs = Vec::new();
        self.mailbox.take(&mut jobs, room);
        self.others_wait |= jobs.iter().any(|job| job.release().is_none());
        jobs.into_iter().for_each(|job| self.link.submit(job));
    }
}

#[cfg(all(test, unix))]
#[path = "driver_tests.rs"]
mod tests;
