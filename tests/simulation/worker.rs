//! A client's side of one node, as `src/node/worker.rs` does it: batches, timeouts, last words,
//! reconnects, releases that are kept. Transport only.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::client::{Cx, Note};
use super::network::{ConnId, Message};
use super::round::Asker;
use crate::embedded::Reply;
use crate::node::GRACE;
use crate::quorum::{Backoff, Failure, Offset, Time};

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// What is to be sent: a message, as often as it takes.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) command: Rc<Vec<Vec<u8>>>,
    pub(super) key: Rc<Vec<u8>>,
    pub(super) owner: Rc<Vec<u8>>,
    pub(super) what: &'static str,
}

impl Outgoing {
    fn message(&self) -> Message {
        Message {
            command: self.command.to_vec(),
            key: self.key.to_vec(),
            owner: self.owner.to_vec(),
            what: self.what,
        }
    }
}

struct Job {
    outgoing: Outgoing,
    asker: Option<Rc<dyn Asker>>,
    /// A release, and until when it is needed (`None`: nobody knows).
    release: Option<Option<Time>>,
}

enum State {
    /// The first connection is being made; jobs wait.
    Connecting,
    Up(ConnId),
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
    /// Sent, and not answered.
    in_flight: VecDeque<Job>,
    reopened: bool,
    kept: VecDeque<Job>,
    tries: u32,
    /// When it began to connect, or wrote what is not answered.
    asked_at: Time,
    /// The node's clock, once it is known.
    pub(super) clock: Option<Offset>,
}

impl Worker {
    pub(super) fn start(node: usize, cx: &mut Cx<'_>) -> Self {
        let mut worker = Self {
            node,
            state: State::Connecting,
            epoch: 0,
            mailbox: VecDeque::new(),
            in_flight: VecDeque::new(),
            reopened: false,
            kept: VecDeque::new(),
            tries: 0,
            asked_at: Time::default(),
            clock: None,
        };
        worker.open(cx);
        worker
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down)
    }

    pub(super) fn ask(&mut self, cx: &mut Cx<'_>, outgoing: Outgoing, asker: Rc<dyn Asker>) {
        let job = Job { outgoing, asker: Some(asker), release: None };
        if self.is_down() {
            self.undeliverable(cx, job, Failure::NotSent);
        } else {
            self.mailbox.push_back(job);
            self.work(cx);
        }
    }

    pub(super) fn release(
        &mut self,
        cx: &mut Cx<'_>,
        outgoing: Outgoing,
        asker: Option<Rc<dyn Asker>>,
        until: Option<Time>,
    ) {
        let job = Job { outgoing, asker, release: Some(until) };
        if self.is_down() {
            self.undeliverable(cx, job, Failure::NotSent);
        } else {
            self.mailbox.push_back(job);
            self.work(cx);
        }
    }

    /// That time in milliseconds of the node's own clock, or somewhat before; 0 if it is not known.
    pub(super) fn clock_ms(&self, time: Time) -> i64 {
        self.clock.map_or(0, |clock| clock.at_least_ms(time))
    }

    pub(super) fn connected(
        &mut self,
        cx: &mut Cx<'_>,
        epoch: u64,
        conn: Option<ConnId>,
        wall: Duration,
    ) {
        if epoch != self.epoch {
            return;
        }
        match conn.filter(|conn| cx.net.is_alive(*conn)) {
            Some(conn) => {
                self.saw_clock(cx, wall);
                self.tries = 0;
                let reopened = matches!(self.state, State::Reopening);
                self.state = State::Up(conn);
                if reopened {
                    let jobs = std::mem::take(&mut self.in_flight);
                    self.reopened = true;
                    self.exchange(cx, jobs);
                } else {
                    self.work(cx);
                }
            }
            None => self.give_up(cx),
        }
    }

    /// A reply came.
    pub(super) fn replied(&mut self, cx: &mut Cx<'_>, conn: ConnId, reply: &Reply, wall: Duration) {
        if !matches!(self.state, State::Up(current) if current == conn) {
            return;
        }
        let Some(job) = self.in_flight.pop_front() else { return };
        self.answer(cx, &job, Ok(reply));
        if self.in_flight.is_empty() {
            self.saw_clock(cx, wall);
            self.work(cx);
        }
    }

    fn saw_clock(&mut self, cx: &Cx<'_>, wall: Duration) {
        self.clock = Some(Offset::new(wall.as_micros() as i64, self.asked_at, cx.now()));
    }

    /// The connection was closed by the other side.
    pub(super) fn closed(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        // Who waits for nothing does not notice before it writes.
        if matches!(self.state, State::Up(current) if current == conn) && !self.in_flight.is_empty()
        {
            cx.net.close(conn);
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
            State::Down => self.open(cx),
            State::Up(conn) => {
                // Behind the requests, on the same connection: what runs later is undone at once.
                let releases = self.mailbox.iter().filter(|job| job.release.is_some());
                let last_words: Vec<_> = releases.map(|job| job.outgoing.message()).collect();
                last_words.into_iter().for_each(|message| cx.net.send(conn, message));
                cx.net.close(conn);
                self.give_up(cx);
            }
            State::Connecting | State::Reopening => {}
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        self.epoch = cx.net.fresh();
        self.asked_at = cx.now();
        cx.net.connect(cx.client, self.node, cx.settings.node_timeout, self.epoch);
    }

    /// Sends what waits, if nothing else is under way.
    fn work(&mut self, cx: &mut Cx<'_>) {
        if !matches!(self.state, State::Up(_)) || !self.in_flight.is_empty() {
            return;
        }
        let now = cx.now();
        self.kept.retain(|job| !matches!(job.release, Some(Some(until)) if until <= now));
        let jobs: VecDeque<_> = self.kept.drain(..).chain(self.mailbox.drain(..)).collect();
        self.reopened = false;
        self.exchange(cx, jobs);
    }

    fn exchange(&mut self, cx: &mut Cx<'_>, mut jobs: VecDeque<Job>) {
        let State::Up(conn) = self.state else { return };
        let (node, now) = (self.node, cx.now());
        jobs.retain(|job| job.asker.as_ref().is_none_or(|asker| asker.sending(node, now)));
        self.in_flight = jobs;
        self.epoch = cx.net.fresh();
        if self.in_flight.is_empty() {
            return;
        }
        if !cx.net.is_alive(conn) {
            // It was closed while nobody looked.
            return self.closed(cx, conn);
        }
        self.asked_at = now;
        for job in &self.in_flight {
            cx.net.send(conn, job.outgoing.message());
        }
        let note = Note::Worker { node, epoch: self.epoch };
        cx.remind(now.after(cx.settings.node_timeout + GRACE), note);
    }

    /// The node is down from now on; tells everybody, keeps the releases, and tries again later.
    fn give_up(&mut self, cx: &mut Cx<'_>) {
        self.state = State::Down;
        for job in std::mem::take(&mut self.in_flight) {
            self.undeliverable(cx, job, Failure::Unknown);
        }
        for job in std::mem::take(&mut self.mailbox) {
            self.undeliverable(cx, job, Failure::NotSent);
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
            self.kept.push_back(job);
        }
    }

    fn answer(&self, cx: &mut Cx<'_>, job: &Job, answer: Result<&Reply, Failure>) {
        if let Some(waiter) = job.asker.as_ref().and_then(|asker| asker.answer(self.node, answer)) {
            cx.wake(waiter);
        }
    }
}
