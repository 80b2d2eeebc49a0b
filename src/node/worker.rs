//! The thread of one node: it does what the machine of the connection says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::Sender;

use super::address::Address;
use super::batch;
use super::connection::{Broken, Connection, Reply, TIME, write_end};
use super::job::{Asked, Undelivered};
use super::mailbox::{self, Mailbox};
use super::replicas::Unreplicated;
use super::request::Value;
use super::set::NodeSet;
use super::status::Status;
use super::surroundings::{Around, Asks, Found, Question};
use crate::clock;
use crate::core::base::Time;
use crate::core::link::{
    self, Answered, Awaited, Command, Event, Failure, Link, Meaning, Step, Told,
};
use crate::error::NodeFault;
use crate::observe;

/// About as many bytes as a call has.
const A_CALL: usize = 400;

/// What a worker shares with the handle of its node.
pub(super) struct Shared {
    pub(super) status: Status,
    /// How many releases the node has not answered: in the mailbox, written or kept.
    pub(super) untold: Arc<AtomicUsize>,
    /// The number of releases that are kept, since the node could not be told or has refused them.
    pub(super) kept: AtomicUsize,
    /// Any release is kept, or is told again.
    pub(super) keeps_any: AtomicBool,
    /// The worker is to drop releases that are of no use any more, and to give room back.
    pub(super) is_to_tidy: AtomicBool,
    pub(super) writes: AtomicU64,
    pub(super) scripts: AtomicU64,
}

impl Shared {
    pub(super) fn new(status: Status) -> Self {
        Self {
            status,
            untold: Arc::default(),
            kept: AtomicUsize::new(0),
            keeps_any: AtomicBool::new(false),
            is_to_tidy: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            scripts: AtomicU64::new(0),
        }
    }
}

pub(super) struct Worker {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    /// What is known of all nodes.
    pub(super) set: Arc<NodeSet>,
    /// Takes the grants that count once they are replicated.
    pub(super) confirmer: Option<Sender<Unreplicated>>,
    pub(super) link: Link<Asked, Question>,
    pub(super) connection: Option<Connection>,
    /// The node is usable over that connection.
    pub(super) is_up: bool,
    /// The beginning of the last write.
    pub(super) sent: Time,
    /// The last question about the node.
    pub(super) asks: Asks,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}

impl Worker {
    /// Works until the mailbox is closed, and all that was in it is done; for releases that a node which is down has to get, as
    /// long as the machine says.
    pub(super) fn run(mut self) {
        let mut step = self.poll();
        while step != Step::End {
            step = self.carry_out(step);
        }
    }

    /// Does what comes next, and returns what follows.
    pub(super) fn carry_out(&mut self, step: Step) -> Step {
        let done = match step {
            Step::Connect => {
                self.shared.status.busy();
                let opened = Connection::open(&self.address, self.timeout);
                self.connected(opened);
                Ok(())
            }
            Step::Write => self.write(),
            Step::Read(awaited, deadline) => self.read(awaited, deadline),
            Step::Close => {
                self.close();
                Ok(())
            }
            Step::Wait(until) => {
                self.wait(until);
                Ok(())
            }
            Step::End => Ok(()),
        };
        if let Err(mut broken) = done {
            if !self.is_up {
                broken.fault = self.shared.status.not_connected(broken.fault);
            }
            self.tell(|link, around| link.handle_broken(broken, clock::now(), around));
        }
        self.poll()
    }

    /// Asks the machine what comes next, and hands out what it has for others.
    pub(super) fn poll(&mut self) -> Step {
        let (set, status) = (&self.set, &self.shared.status);
        let mut around = Around { node: self.node, set, status };
        let step = self.link.poll(clock::now(), &mut around);
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
                Event::ReleaseRefused(fault) => observe::release_refused(&fault),
                Event::ReleaseDropped => observe::release_dropped(self.shared.status.node()),
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

    fn write(&mut self) -> Result<(), Broken> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        self.shared.status.busy();
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
        if scripts > 0 {
            // Before it is written: a reader of the figures that sees its effect finds it counted.
            self.shared.writes.fetch_add(1, Ordering::Relaxed);
            self.shared.scripts.fetch_add(scripts as u64, Ordering::Relaxed);
        }
        self.sent = clock::now();
        connection.write(&buffer)?;
        self.link.handle_written(clock::now());
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
                let clock = connection.read_clock(self.sent, deadline)?;
                self.tell(|link, around| link.handle_clock(clock, clock::now(), around));
            }
        }
        Ok(())
    }

    /// The node has answered what it was asked about itself.
    ///
    /// A server that is no master ends its connection: nothing is carried there.
    fn found(&self, value: &Value) -> Result<(), Broken> {
        let answered = clock::now();
        match self.asks.read(value, self.sent, answered) {
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

    /// Waits until there is something to do, until then at most.
    fn wait(&mut self, until: Time) {
        self.shared.status.idle();
        if self.shared.is_to_tidy.swap(false, Ordering::Relaxed) {
            self.link.tidy(clock::now());
        }
        let until = if self.is_up { until.min(self.look()) } else { until };
        let pause = clock::slice(until).unwrap_or_default();
        match self.mailbox.wait(pause) {
            mailbox::Found::Something => {
                // Other callers run first, and the one that just asked gets to ask all nodes. Twice as much goes
                // into a write then, for a third less processor time in all. Where nobody else wants to run it
                // costs next to nothing.
                clock::yield_now();
                self.submit_what_waits();
            }
            mailbox::Found::Nothing => {}
            mailbox::Found::Closed => {
                self.link.handle_client_gone(clock::now());
                if let Step::Wait(until) = self.poll() {
                    clock::sleep(clock::slice(until).unwrap_or_default());
                }
            }
        }
    }

    /// Hands the machine what waits in the mailbox, as far as it takes it.
    fn submit_what_waits(&mut self) {
        let mut jobs = Vec::new();
        self.mailbox.take(&mut jobs, self.link.room());
        jobs.into_iter().for_each(|job| self.link.submit(job));
    }
}
