//! The driver of the connection to one node: carries out what its machine says, for the worker or for a caller.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Sender;

use super::address::Address;
use super::batch;
use super::connection::{Broken, Connection, Reply, write_end};
use super::job::{Asked, Job, Undelivered};
use super::mailbox::Mailbox;
use super::question::{self, Answer, Answers, Question};
use super::replicas::Unreplicated;
use super::request::Value;
use super::set::NodeSet;
use super::shared::Shared;
use super::steps::{Next, Progress};
use super::surroundings::Around;
use super::wire::Socket;
use crate::clock;
use crate::core::base::Time;
use crate::core::link::{
    self, Answered, Awaited, Command, Event, Failure, Link, Meaning, Step, Told,
};
use crate::error::NodeFault;
use crate::observe;

/// Time for which answers that a caller no longer needs are left to the next caller. No thread is woken for them meanwhile.
pub(super) const LEFT: Duration = Duration::from_millis(5);

/// Limits of a caller's write: requests that have waited for the worker and go along, bytes in all, and bytes behind a write that is
/// not answered. A socket with room takes so many bytes at once, also if the server hangs.
const MOST_TAKEN_ALONG: usize = 8;
const MOST_AT_ONCE: usize = 6 * 1024;
const MOST_BEHIND: usize = 2 * 1024;

/// Typical size of a call in bytes.
const A_CALL: usize = 400;

/// The connection to one node, with its machine. The node's [worker](super::worker) holds it most of the time; a caller that
/// [drives it](super::driven) holds it for one request.
pub(super) struct Driver {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    /// The client's knowledge of all nodes.
    pub(super) set: Arc<NodeSet>,
    /// Takes the grants that count only once they are replicated.
    confirmer: Option<Sender<Unreplicated>>,
    pub(super) link: Link<Asked, Question>,
    connection: Option<Connection>,
    /// True if the node is usable over the connection.
    pub(super) is_up: bool,
    /// True if connections may lead through a proxy that keeps them open when another server takes over: see [`Answer`].
    is_relayed: bool,
    /// Time when a caller last drove it.
    driven_at: Option<Time>,
    /// Set if a caller has left outstanding answers. Until this time they are normally the next caller's, then the worker's.
    left_until: Option<Time>,
    /// True if others than the caller that drives it wait for outstanding answers.
    others_wait: bool,
    /// The failure that a caller has found on the connection. The worker handles it.
    failed: Option<Broken>,
}

impl Driver {
    /// Returns the driver of node number `node`, which has `timeout` for an answer. There is no connection yet.
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
            is_relayed: false,
            driven_at: None,
            left_until: None,
            others_wait: false,
            failed: None,
        }
    }

    /// Works until nothing is left to do at once. While callers meet, that includes the wait for answers, since no other thread may
    /// have the connection then.
    pub(super) fn work(&mut self) -> Next {
        self.link.set_driven(false);
        if let Some(until) = self.left_until {
            let hurries = self.shared.hurries.load(Ordering::Relaxed);
            let is_asked = self.mailbox.len() > 0 || self.link.has_unsent();
            if clock::now() < until && !is_asked && !hurries {
                return Next::Rest(until);
            }
            self.left_until = None;
            // The socket may not have been checked for long. Answers that are there count as in time.
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
                // The write cannot be answered yet, and no earlier write is unanswered.
                Step::Read(_, deadline)
                    if just_written && self.is_shared() && self.link.writes_on_their_way() == 1 =>
                {
                    return self.waits(deadline);
                }
                Step::Read(_, deadline) if self.is_shared() => match self.has_answer() {
                    Ok(false) if clock::now() < deadline => return self.waits(deadline),
                    // The time for an answer is over, unless the machine gives the node more time.
                    Ok(false) if self.poll() != step => self.poll(),
                    Ok(_) => self.follow(step),
                    Err(broken) => self.is_broken(broken),
                },
                step => self.follow(step),
            }
        }
    }

    /// Carries out a step, and returns the next one.
    fn follow(&mut self, step: Step) -> Step {
        match self.carry_out(step) {
            Ok(()) => self.poll(),
            Err(broken) => self.is_broken(broken),
        }
    }

    /// Returns true if others may use the connection while an answer is on its way: a caller that takes it, or requests that go out
    /// before the answer. While a question about the node is on its way, no request's answer is.
    fn is_shared(&self) -> bool {
        let may_be_taken = self.confirmer.is_none() && !self.set.is_crowded();
        let may_wait = may_be_taken || self.link.is_far() || self.link.is_asking();
        self.mailbox.has_waker() && self.is_up && may_wait
    }

    /// Waits for an answer until `deadline`, or until something may be written before that.
    fn waits(&mut self, deadline: Time) -> Next {
        if self.link.is_far() {
            // A far connection may never come to rest, and `rest` does this otherwise.
            self.tidy();
            self.look();
        }
        let Some(from) = self.link.takes_more_from() else {
            return Next::Read { until: deadline, takes_more: false };
        };
        // While callers meet, something comes by then. Being woken for it costs more than a check.
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

    /// Handles a connection that cannot be used any more. Returns the next step.
    fn is_broken(&mut self, mut broken: Broken) -> Step {
        if !self.is_up {
            broken.fault = self.shared.status.not_connected(broken.fault);
        }
        self.tell(|link, around| link.handle_broken(broken, clock::now(), around));
        self.poll()
    }

    /// Asks the machine for the next step, and hands out its events.
    fn poll(&mut self) -> Step {
        if self.link.keeps_any() && self.link.is_release_due(clock::now()) {
            // Otherwise waiting requests would have to wait until no more releases are due.
            self.submit_what_waits();
        }
        let mut around = Around { node: self.node, set: &self.set, status: &self.shared.status };
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

    /// Hands out an answer. If it counts only once it is replicated, the confirmer waits for that first.
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

    /// Handles a connection that was opened, or could not be.
    pub(super) fn connected(&mut self, opened: Result<Connection, NodeFault>) {
        self.is_up = false;
        match opened {
            Ok(connection) => {
                if let Some(policy) = connection.evicts() {
                    self.shared.status.evicts(policy);
                }
                let opened = connection.opened(self.is_relayed);
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

    /// Notes that the node is usable over the new connection.
    fn came_up(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        connection.has_come_up();
        connection.address.has_answered();
        // For a server that does not let us probe it. Otherwise its clock is known by now, and those to compare it with.
        if let Some(clock) = connection.clock().filter(|_| self.set.clock(self.node).is_none()) {
            self.set.set_clock(self.node, clock);
        }
    }

    /// The bytes of the next write, and the numbers of its commands and of the requests in them.
    fn encoded(&mut self) -> (Vec<u8>, usize, usize) {
        let (mut buffer, mut commands, mut scripts) = (Vec::with_capacity(A_CALL), 0, 0);
        let (mark_key, is_relayed) = (self.set.mark_key(), self.is_relayed);
        self.link.show_write(|command| {
            commands += 1;
            match command {
                Command::End(id) => write_end(id, &mut buffer),
                Command::Question(question, form) => {
                    commands += Question::COMMANDS - 1;
                    question.write_to(&mut buffer, form);
                }
                Command::Call { jobs, batch, form, mark } => {
                    scripts += jobs.len();
                    batch::write(jobs, batch, form, (mark_key, mark), &mut buffer);
                }
                Command::Clock => commands += question::write_clock(is_relayed, &mut buffer),
            }
        });
        (buffer, commands, scripts)
    }

    fn write(&mut self, (bytes, commands, scripts): (Vec<u8>, usize, usize)) -> Result<(), Broken> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if self.link.writes_on_their_way() <= 1 {
            self.shared.status.busy();
        }
        if scripts > 0 {
            // Counted before the write: a reader of the figures that sees the write's effect finds it counted.
            self.shared.writes.fetch_add(1, Ordering::Relaxed);
            self.shared.scripts.fetch_add(scripts as u64, Ordering::Relaxed);
        }
        let began = clock::now();
        connection.write_commands(&bytes, commands)?;
        self.link.handle_written(began, clock::now());
        Ok(())
    }

    fn read(&mut self, awaited: Awaited, deadline: Time) -> Result<(), Broken> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let on_their_way = self.link.writes_on_their_way();
        match awaited {
            Awaited::Ended => {
                // The answer is the number of ended connections: 0 if the old one is gone already. An error: we lack the permission.
                let over =
                    matches!(connection.read_any(deadline)?, Reply::Value(Value::Int(0 | 1)));
                self.tell(|link, _| link.handle_ended(over, clock::now()));
            }
            Awaited::Question => {
                let told = match question::read_answers(connection, deadline)? {
                    Answers::Values(values, answered) => {
                        self.found(values, answered).map(|()| Told::Answered)?
                    }
                    Answers::NoScript => Told::NoScript,
                    Answers::Refused(fault) => Told::Refused(fault),
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
                if self.is_relayed {
                    let is_still_there = |server: &_| self.set.is_still_there(self.node, server);
                    question::read_server(connection, deadline, is_still_there)?;
                }
                let sent = self.link.sent().unwrap_or_else(clock::now);
                let clock = connection.read_clock(sent, deadline)?;
                self.tell(|link, around| link.handle_clock(clock, clock::now(), around));
            }
        }
        if (1..on_their_way).contains(&self.link.writes_on_their_way()) {
            // The time for the next answer begins now, as no better time is known.
            self.shared.status.busy();
        }
        Ok(())
    }

    /// Handles the node's answer to a question about itself.
    ///
    /// The connection to a server that is no master ends, so that it gets no requests.
    fn found(&mut self, values: Vec<Value>, answered: Time) -> Result<(), Broken> {
        let sent = self.link.sent().unwrap_or(answered);
        let Some(Answer { probe, is_relayed }) = question::read(&values, sent, answered) else {
            return Err(question::strange(&self.address, values));
        };
        self.is_relayed = is_relayed;
        self.link.handle_relayed(is_relayed);
        // A proxy has kept the connection open.
        if !self.link.leads_to(probe.identity.run_id()) {
            return Err(question::another_server(&self.address));
        }
        self.set.probed(self.node, probe, clock::now());
        let broken = |fault| Err(Broken { fault, closed: false, in_step: true });
        self.set.no_master(self.node).map_or(Ok(()), broken)
    }

    /// Closes the connection, after writing the final releases if there are any, also those that wait in the mailbox.
    fn close(&mut self) {
        self.submit_what_waits();
        let mut buffer = Vec::new();
        self.link.final_releases(|release, form| release.request.write_to(&mut buffer, form, ""));
        if let Some(connection) = self.connection.take() {
            if !self.is_up {
                // The server is a replica, for instance. Another address may be the master's.
                connection.address.has_failed();
            }
            if !buffer.is_empty() {
                connection.final_releases(&buffer);
            }
        }
        self.is_up = false;
        self.tell(|link, around| link.handle_closed(clock::now(), around));
    }

    /// Returns true if a caller may drive it for one request. Requests that have waited for the worker go out before that.
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

    /// Returns true if something waits for the worker.
    pub(super) fn has_waiting(&self) -> bool {
        self.mailbox.len() > 0
    }

    /// Submits a request of the caller that drives the connection.
    pub(super) fn submit(&mut self, job: Job) -> Progress {
        self.left_until = None;
        self.link.set_driven(true);
        self.link.submit(job);
        // Earlier requests may be answered by now.
        self.advance().unwrap_or_else(|| {
            let step = self.poll();
            self.progress(step)
        })
    }

    /// Takes in the answers that have come, and goes on until it would have to wait for the node. `None`: no answer has come.
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

    /// Like [`advance`](Self::advance), but stops after a write. Also returns true if it came to a write.
    fn take_in(&mut self) -> Option<(Progress, bool)> {
        if self.link.is_calm() {
            return None;
        }
        // The step behind the answers that have come.
        let mut behind = None;
        while self.failed.is_none() && matches!(behind, None | Some(Step::Read(..))) {
            match self.has_answer() {
                Ok(true) => {}
                Ok(false) if behind.is_some() => break,
                Ok(false) => return None,
                Err(broken) => {
                    self.failed = Some(broken);
                    break;
                }
            }
            let step = behind.unwrap_or_else(|| self.poll());
            if matches!(step, Step::Read(..)) {
                self.failed = self.carry_out(step).err();
            }
            behind = Some(self.poll());
        }
        let step = behind.unwrap_or_else(|| self.poll());
        Some((self.progress(step), step == Step::Write))
    }

    /// Writes, if that is the next step and the socket takes it at once. Returns the progress. A failure is left to the worker.
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
                // From `at` on, the worker may write the waiting requests.
                Progress::Reads(self.link.writes_at().map_or(deadline, |at| at.min(deadline)))
            }
            Step::Wait(until) if self.shared.wakes_at() <= until => {
                self.shared.status.idle();
                Progress::Rests
            }
            _ => Progress::Other,
        }
    }

    /// Ends the driving by a caller that came to `progress`. Returns true if the worker must be woken.
    pub(super) fn leave(&mut self, progress: Progress) -> bool {
        let now = clock::now();
        self.driven_at = Some(now);
        let is_left =
            matches!(progress, Progress::Reads(_)) && !self.link.has_unsent() && !self.others_wait;
        // A clock that is read late is read inexactly.
        let left = LEFT.min(self.set.clock_tolerance() / 8);
        if is_left {
            self.link.leave_answers();
        }
        self.left_until = is_left.then(|| now.after(left));
        self.left_until.map_or(progress != Progress::Rests, |until| until < self.shared.wakes_at())
    }

    /// Returns true if the socket takes so many bytes of a caller at once.
    fn has_room(&self, bytes: usize) -> bool {
        if self.link.writes_on_their_way() <= 1 {
            return bytes <= MOST_AT_ONCE;
        }
        bytes <= MOST_BEHIND && self.socket().is_none_or(Socket::has_room)
    }

    /// Returns true if all has come that the next step reads.
    fn has_answer(&mut self) -> Result<bool, Broken> {
        let needed = question::answers_to(self.link.awaited(), self.is_relayed);
        self.connection.as_mut().map_or(Ok(true), |it| it.has_answers(needed))
    }

    /// The socket to wait on for an answer.
    pub(super) fn socket(&self) -> Option<&Socket> {
        self.connection.as_ref().map(|connection| connection.wire.socket())
    }

    /// Notes that there is nothing to do before `until`. Returns the time at which the worker must wake up by itself.
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
        // A caller that came a moment ago usually comes again. It need not wake a worker that wakes up by itself.
        until.min(now.after(LEFT))
    }

    /// Drops what is of no use any more, if `is_to_tidy` is set.
    fn tidy(&mut self) {
        if self.shared.is_to_tidy.swap(false, Ordering::Relaxed) {
            self.link.tidy(clock::now());
        }
    }

    /// Drops everything, since the worker has ended.
    pub(super) fn drop_all(&mut self) {
        self.connection = None;
        self.link = Link::new(self.timeout, false);
    }

    /// Handles the end of the client: nothing is submitted any more. Kept releases go out when they are due.
    pub(super) fn client_is_gone(&mut self) {
        self.left_until = None;
        self.link.handle_client_gone(clock::now());
        if let Step::Wait(until) = self.poll() {
            clock::sleep(clock::slice(until).unwrap_or_default());
        }
    }

    /// Hands the machine the jobs that wait in the mailbox, as far as it has room.
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
