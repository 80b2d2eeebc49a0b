//! The connection to one master: its requests and their order, and the reaction when it breaks.
//!
//! This module decides what is written next and what waits. It decides what goes out again over a new connection or in another
//! form, and how a caller learns of a failure. It knows which requests may still run behind a node's answer, and for how long a
//! release is repeated because of that. It chooses the old connections to be ended on the server. A driver moves the bytes.
//!
//! It knows nothing of locks, of the content of questions about a node, or of other nodes.
//!
//! ```text
//!                 Connect            End old ones       Ask about the node
//! Connecting ---> Ending ---------> Open <-----------> Asking
//!     ^                              |  ^
//!     |  closed, once                v  |  answered; perhaps again, in another manner
//!     +-------------------------- Exchanging
//!     |  when that is due             |  silent, or closed again
//!    Down <----- Closing <------------+  final releases
//! ```

mod driver;
mod events;
mod exchange;
mod in_flight;
mod job;
mod keepalive;
mod late;
mod old_connections;
mod order;
mod patience;
mod pending;
mod route;

use std::collections::VecDeque;
use std::time::Duration;

use super::base::{Backoff, Mechanism, Time, give_room_back};
pub(crate) use driver::{
    Answered, Answers, Awaited, Broken, ClockVerdict, Command, Event, Failure, Fault, Form,
    Meaning, NextQuestion, Opened, Rejection, Reply, Request, Step, Surroundings, Told,
    Undelivered,
};
use exchange::{Exchange, Known, Manner, Settled};
use in_flight::{InFlight, RoundTrip};
pub(crate) use job::{Job, Purpose, Release};
pub(crate) use keepalive::KEEPALIVE;
pub(crate) use late::{Copies, Late, Repetition, Via};
pub(crate) use old_connections::OldConnections;
#[cfg(test)]
#[allow(unused_imports, reason = "the tests that use it need embedded nodes")]
pub(crate) use order::{WORTH_IT, calls, put_in_order};
pub(crate) use patience::PATIENCE;
use pending::PendingReleases;
pub(crate) use route::Route;

/// The time by which a connection waits longer than callers. Callers give up at the node timeout and submit their releases then.
/// These go out behind the requests they belong to.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// The most requests that go into one write.
const MOST_WRITTEN: usize = 256;

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// The shortest time between the beginnings of two tries to connect, however many attempts wait for one. Without it, a host that
/// accepts connections and closes them would see thousands of tries a second, until ports run out.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The time for which a connection whose client has gone goes on for some releases: those that are repeated, that the node has
/// refused, or whose keys end at an unknown time.
const LINGER: Duration = Duration::from_secs(60);

/// The most questions about the node in a row. At most four are needed: probe, begin a quarantine, set its end, and once more if
/// another client was faster.
const QUESTIONS_IN_A_ROW: u32 = 8;

/// The most questions about a node within `WITHIN`. Otherwise a server that does not keep its mark, or whose clock is somewhere
/// else each time, would be probed as often as the network allows, and other nodes with it.
const MOST_QUESTIONS: u32 = 16;
const WITHIN: Duration = Duration::from_millis(100);

/// The pause before a node that has refused a question is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The connection to one node. `Q` is a question about it.
pub(crate) struct Link<R: Request, Q> {
    /// True if attempts to take a lock wait for a try to connect while the node is down.
    waits_for_a_try: bool,
    /// The time limit of the node's answers.
    timeout: Duration,
    phase: Phase<Q, R::Fault>,
    /// The requests without an answer that were written, or are about to be.
    in_flight: InFlight<R>,
    /// The present connection.
    connection: Option<Connection<R::Script>>,
    /// The requests that were submitted, in order.
    waiting: VecDeque<Job<R>>,
    /// The requests that were written before and are to be written once more, and their manner.
    again: Option<(Vec<Job<R>>, Manner)>,
    pending: PendingReleases<R>,
    /// The connections that were given up, but may still deliver requests that were written over them.
    old: OldConnections,
    /// The number of tries to connect in a row that have failed, and the beginning of the last one.
    tries: u32,
    tried_at: Time,
    /// True if the connection was closed in the middle of a write, and opened once more for that write.
    is_reopened: bool,
    /// True if nothing may follow the requests on their way before these are answered.
    drains: bool,
    /// True while a caller drives the connection, which is alone with it.
    is_driven: bool,
    /// The time from which the node is asked about itself again, found while there was nothing to write.
    asks_from: Option<Time>,
    /// Questions in a row; the beginning and the number of the recent ones; the time of the last refusal.
    in_a_row: u32,
    lately: (Time, u32),
    refused_at: Option<Time>,
    /// The time at which the client went: nothing is submitted any more.
    client_gone: Option<Time>,
    events: VecDeque<Event<R>>,
    /// A buffer for the requests that one answer settles.
    settled: Vec<(Job<R>, Settled<R>)>,
}

enum Phase<Q, F> {
    /// A connection is being made.
    Connecting,
    /// Old connections are ended on the server that answers over the new one; `left` are still to be ended.
    Ending {
        left: VecDeque<u64>,
        is_written: bool,
        deadline: Time,
    },
    /// The connection is there, and nothing is on its way.
    Open,
    /// A question about the node is asked.
    Asking {
        question: Q,
        form: Form,
        is_written: bool,
        sent: Time,
        deadline: Time,
    },
    /// Requests are on their way.
    Exchanging,
    /// The connection is given up. It is closed, behind the final releases if there are any.
    Closing {
        fault: F,
        has_final_releases: bool,
    },
    /// Requests fail at once, until that time.
    Down {
        fault: F,
        until: Time,
    },
    Ended,
}

/// An open connection.
struct Connection<S> {
    opened: Opened,
    via: Via,
    known: Known<S>,
    round_trip: RoundTrip,
    /// True once the node was asked about itself over this connection, and may be used.
    is_up: bool,
}

impl<R: Request, Q> Link<R, Q> {
    /// Returns the machine for a node that has `timeout` for an answer. With `waits_for_a_try`, attempts to take a lock wait for
    /// a try to connect while the node is down.
    pub(crate) const fn new(timeout: Duration, waits_for_a_try: bool) -> Self {
        Self {
            waits_for_a_try,
            timeout,
            phase: Phase::Connecting,
            in_flight: InFlight::new(),
            connection: None,
            waiting: VecDeque::new(),
            again: None,
            pending: PendingReleases::new(),
            old: OldConnections::new(),
            tries: 0,
            tried_at: Time::from_start(Duration::ZERO),
            is_reopened: false,
            drains: false,
            is_driven: false,
            asks_from: None,
            in_a_row: 0,
            lately: (Time::from_start(Duration::ZERO), 0),
            refused_at: None,
            client_gone: None,
            events: VecDeque::new(),
            settled: Vec::new(),
        }
    }

    /// Returns the number of further requests that it takes now; 0 while nothing may follow the requests on their way. Its answer
    /// changes with each event.
    pub(crate) fn room(&self) -> usize {
        let most = match &self.phase {
            _ if self.again.is_some() => 0,
            Phase::Open | Phase::Down { .. } | Phase::Closing { .. } => MOST_WRITTEN,
            Phase::Exchanging if self.is_far() && !self.drains => self.in_flight.room(MOST_WRITTEN),
            _ => 0,
        };
        most.saturating_sub(self.waiting.len())
    }

    /// Returns true if a write may follow another one that is not answered, because the node is far away.
    pub(crate) fn is_far(&self) -> bool {
        self.connection.as_ref().is_some_and(|it| it.round_trip.between_writes().is_some())
    }

    /// Notes that a caller begins to drive the connection, or that none does any more.
    ///
    /// A caller is alone, so nothing else comes that could share a write with its request. To a node nearby as well, its request
    /// follows those that are not answered. Otherwise the worker would have to be woken for it whenever that node is slower than
    /// the majority.
    pub(crate) const fn set_driven(&mut self, is_driven: bool) {
        self.is_driven = is_driven;
    }

    /// Returns true if, as a rule, no answer comes within `distance`.
    pub(crate) fn is_farther_than(&self, distance: Duration) -> bool {
        let shortest = self.connection.as_ref().and_then(|it| it.round_trip.shortest());
        shortest.is_some_and(|shortest| shortest > distance)
    }

    /// Returns the least time between two writes, if one may follow another that is not answered.
    fn between_writes(&self) -> Option<Duration> {
        let of_far = self.connection.as_ref()?.round_trip.between_writes();
        let follows_at_once = self.is_driven && Mechanism::WritesFollow.is_on();
        of_far.or_else(|| follows_at_once.then_some(Duration::ZERO))
    }

    /// Returns the time from which a write may follow those on their way; `None` if none may.
    pub(crate) fn takes_more_from(&self) -> Option<Time> {
        let between = self.between_writes()?;
        if self.drains || self.again.is_some() || self.in_flight.room(MOST_WRITTEN) == 0 {
            return None;
        }
        self.in_flight.last_sent().map(|sent| sent.after(between))
    }

    /// Returns the time at which the waiting requests may follow those on their way; `None` if none wait, or they may not.
    pub(crate) fn writes_at(&self) -> Option<Time> {
        self.takes_more_from().filter(|_| !self.waiting.is_empty())
    }

    /// Returns the beginning of the write whose answers come next.
    pub(crate) fn sent(&self) -> Option<Time> {
        match &self.phase {
            Phase::Asking { sent, .. } => Some(*sent),
            Phase::Exchanging => self.in_flight.first().map(|exchange| exchange.sent),
            _ => None,
        }
    }

    /// Returns the number of writes that are on their way, or are about to be.
    pub(crate) fn writes_on_their_way(&self) -> usize {
        self.in_flight.len()
    }

    /// Sets the shortest round trip to `took`.
    #[cfg(test)]
    pub(crate) fn measured(&mut self, took: Duration, now: Time) {
        if let Some(connection) = &mut self.connection {
            connection.round_trip = in_flight::RoundTrip::new(now);
            connection.round_trip.note(took, now);
        }
    }

    /// Returns the answer that comes next over the connection.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match &self.phase {
            Phase::Ending { .. } => Some(Awaited::Ended),
            Phase::Asking { .. } => Some(Awaited::Question),
            Phase::Exchanging => self.in_flight.first().map(Exchange::awaited),
            _ => None,
        }
    }

    /// Returns true if nothing is on its way, and nothing else must be done first.
    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns true if a request that is submitted now goes out at once, without a kept release. To a node that is not far away,
    /// it may also go out behind the answers to the requests on their way.
    pub(crate) fn can_be_driven(&self, now: Time) -> bool {
        let goes_out = self.is_calm() || self.takes_more_from().is_some_and(|from| from <= now);
        let is_fine = match &self.phase {
            Phase::Open => true,
            Phase::Asking { is_written, .. } => *is_written,
            Phase::Exchanging => self.in_flight.is_written(),
            _ => false,
        };
        let is_free = !self.has_unsent() && !self.pending.is_due(now);
        is_fine && is_free && (goes_out || !self.is_far()) && self.is_up()
    }

    /// Leaves the answers on their way for later, so that their time says nothing of the node.
    pub(crate) fn leave_answers(&mut self) {
        self.in_flight.leave_answers();
    }

    /// Returns true if a kept release goes out with the next write, which may be at once.
    pub(crate) fn is_release_due(&self, now: Time) -> bool {
        self.pending.is_due(now)
    }

    /// Returns true if a request waits for the answers to others, or for its moment behind them.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.waiting.is_empty() || self.again.is_some()
    }

    /// Takes in a request for the node.
    pub(crate) fn submit(&mut self, job: Job<R>) {
        self.waiting.push_back(job);
    }

    /// Keeps a release until the node has room, or can be reached. Its caller has been told.
    pub(crate) fn keep(&mut self, release: Job<R>, now: Time) {
        if self.pending.keep(release, now) {
            self.events.push_back(Event::ReleaseDropped);
        }
    }

    /// Handles the end of the client: nothing is submitted any more.
    pub(crate) fn handle_client_gone(&mut self, now: Time) {
        self.client_gone.get_or_insert(now);
    }

    /// Returns the next event to hand out. Its answer changes with each event, and with each call of [`poll`](Self::poll).
    pub(crate) fn poll_event(&mut self) -> Option<Event<R>> {
        self.events.pop_front()
    }

    /// Returns the next step. Its answer changes with each event, and when the time of the step comes.
    pub(crate) fn poll<S>(&mut self, now: Time, around: &mut S) -> Step
    where
        S: Surroundings<R, Question = Q>,
    {
        loop {
            let next = match &mut self.phase {
                Phase::Connecting => Some(Step::Connect),
                Phase::Ending { is_written: false, .. }
                | Phase::Asking { is_written: false, .. } => Some(Step::Write),
                Phase::Ending { deadline, .. } => Some(Step::Read(Awaited::Ended, *deadline)),
                Phase::Asking { .. } => Some(self.poll_asking(now, around)),
                Phase::Exchanging => self.poll_exchanging(now, around),
                Phase::Closing { .. } => Some(Step::Close),
                Phase::Ended => Some(Step::End),
                Phase::Down { .. } => self.poll_down(now, around),
                Phase::Open => self.poll_open(now, around),
            };
            if let Some(step) = next {
                return step;
            }
        }
    }

    /// Answers requests with the node's fault, and connects when that is due. `None` if the phase has changed.
    fn poll_down(&mut self, now: Time, around: &mut impl Surroundings<R>) -> Option<Step> {
        let Phase::Down { fault, until } = &self.phase else { return None };
        let (fault, mut until) = (fault.clone(), *until);
        let waits = self.waits_for_a_try;
        let jobs = std::mem::take(&mut self.waiting);
        let (waiting, others): (VecDeque<_>, VecDeque<_>) =
            jobs.into_iter().partition(|job| waits && job.is_taking());
        self.waiting = waiting;
        for job in others {
            self.undeliverable(job, Failure::NotSent, &fault, now);
        }
        if !self.waiting.is_empty() {
            until = until.min(self.tried_at.after(BETWEEN_TRIES));
        }
        if until <= now {
            self.connect(now, around);
            return None;
        }
        if self.is_over(now) {
            self.phase = Phase::Ended;
            return None;
        }
        Some(Step::Wait(until))
    }

    fn connect(&mut self, now: Time, around: &mut impl Surroundings<R>) {
        // Another server may answer, or the same one without what it knew.
        around.lost();
        self.refused_at = None;
        self.connection = None;
        self.tried_at = now;
        self.phase = Phase::Connecting;
    }

    /// Asks about the node, or writes the waiting requests. `None` if the phase has changed.
    fn poll_open<S>(&mut self, now: Time, around: &mut S) -> Option<Step>
    where
        S: Surroundings<R, Question = Q>,
    {
        let mut look_at = now;
        let is_settled = self.asks_from.take_if(|until| now < *until).is_some();
        // Requests that have come since go out at once: their mark is compared when they are written.
        let may_ask = !is_settled || self.waiting.is_empty();
        // More questions mean that a client changes the mark all the time. Requests get their turn in between.
        if may_ask && self.in_a_row < QUESTIONS_IN_A_ROW {
            match self.next_question(now, around) {
                NextQuestion::Ask(question) => {
                    let form = self.connection.as_mut()?.known.form(around.script(&question));
                    let (is_written, sent, deadline) = (false, now, now);
                    self.phase = Phase::Asking { question, form, is_written, sent, deadline };
                    return None;
                }
                NextQuestion::Wait(until) => look_at = until,
            }
        }
        self.in_a_row = 0;
        let connection = self.connection.as_mut()?;
        if !std::mem::replace(&mut connection.is_up, true) {
            self.tries = 0;
            around.set_up();
        }
        let (jobs, manner) = match self.again.take() {
            Some(again) => again,
            None => {
                self.is_reopened = false;
                let mut jobs = self.pending.take(MOST_WRITTEN, now);
                let room = MOST_WRITTEN.saturating_sub(jobs.len()).min(self.waiting.len());
                jobs.extend(self.waiting.drain(..room));
                (jobs, Manner::FIRST)
            }
        };
        if jobs.is_empty() {
            if self.is_over(now) {
                self.phase = Phase::Ended;
                return None;
            }
            self.asks_from = Some(look_at);
            return Some(Step::Wait(self.pending.next_due().map_or(look_at, |it| it.min(look_at))));
        }
        if self.begin(jobs, manner, now, around) {
            self.drains = false;
            self.phase = Phase::Exchanging;
        }
        None
    }

    /// Begins a write of those `jobs` that may be written now: see [`Exchange::begin`]. Returns false if there is none.
    fn begin(
        &mut self,
        jobs: Vec<Job<R>>,
        manner: Manner,
        now: Time,
        around: &mut impl Surroundings<R>,
    ) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let (via, known) = (connection.via, &mut connection.known);
        let begun = Exchange::begin(jobs, manner, via, known, around, (&mut self.events, now));
        let Some(mut exchange) = begun else { return false };
        // A write behind others may have to judge their grants. And the server's run is compared along with the clock, since a proxy
        // may have led the write to another server.
        exchange.is_relayed = connection.opened.is_relayed;
        exchange.reads_clock |= !self.in_flight.is_empty() || exchange.is_relayed;
        self.in_flight.push(exchange);
        true
    }

    /// Writes the waiting requests if they may follow those on their way, otherwise reads. `None` if the phase or the waiting
    /// requests have changed.
    fn poll_exchanging(&mut self, now: Time, around: &mut impl Surroundings<R>) -> Option<Step> {
        if !self.waiting.is_empty() && self.between_writes().is_some() {
            // Three things wait until all is answered: releases that are due, requests that go behind all others, and questions
            // about the node.
            self.drains |= self.pending.is_due(now)
                || self.waiting.iter().any(|job| job.request.goes_last())
                || around.settled_until().is_none_or(|until| until <= now);
        }
        let follows = self.writes_at().is_some_and(|at| at <= now);
        if !self.in_flight.is_written() {
            return Some(Step::Write);
        }
        if follows {
            let room = self.in_flight.room(MOST_WRITTEN).min(self.waiting.len());
            let jobs = self.waiting.drain(..room).collect();
            self.begin(jobs, Manner::FIRST, now, around);
            return None;
        }
        self.in_flight.first().map(|first| Step::Read(first.awaited(), first.deadline))
    }

    fn next_question<S>(&mut self, now: Time, around: &mut S) -> NextQuestion<Q>
    where
        S: Surroundings<R, Question = Q>,
    {
        if let Some(until) = around.settled_until().filter(|until| now < *until) {
            return NextQuestion::Wait(until);
        }
        let (since, asked) = self.lately;
        if since.after(WITHIN) <= now {
            self.lately = (now, 0);
        } else if asked >= MOST_QUESTIONS && Mechanism::ProbesAreBounded.is_on() {
            return NextQuestion::Wait(since.after(WITHIN));
        }
        if let Some(again) = self.refused_at.map(|at| at.after(ASK_AGAIN)).filter(|at| now < *at) {
            return NextQuestion::Wait(again);
        }
        let next = around.next_question(now);
        if let NextQuestion::Ask(_) = next {
            self.lately.1 += 1;
            self.in_a_row += 1;
        }
        next
    }

    /// Returns true if the client has gone, no request waits, and the node needs no kept release.
    fn is_over(&self, now: Time) -> bool {
        let Some(gone) = self.client_gone else { return false };
        let needed = self.pending.needed_until(gone.after(LINGER));
        self.waiting.is_empty() && needed.is_none_or(|needed| needed <= now)
    }

    /// Shows the commands to be written, in order.
    pub(crate) fn show_write(&mut self, mut show: impl FnMut(Command<'_, R, Q>)) {
        match &mut self.phase {
            Phase::Ending { left, .. } => left.iter().for_each(|id| show(Command::End(*id))),
            Phase::Asking { question, form, .. } => show(Command::Question(question, *form)),
            Phase::Exchanging => {
                let Some(exchange) = self.in_flight.unwritten() else { return };
                exchange.show(|jobs, batch, form, mark| {
                    show(Command::Call { jobs, batch, form, mark });
                });
                if exchange.reads_clock {
                    // In the same write and, as a rule, in the same read: it costs the server a microsecond.
                    show(Command::Clock);
                }
            }
            _ => {}
        }
    }

    /// Shows the releases that are written behind the requests that a silent server has not answered, on the very same
    /// connection. If the server wakes up later and runs those requests, it runs the releases right after them, and no key stays
    /// behind. The releases are kept for the reconnect as well, since nobody knows whether they arrived.
    pub(crate) fn final_releases(&mut self, mut show: impl FnMut(&R, Form)) {
        let (Phase::Closing { has_final_releases: true, .. }, Some(connection)) =
            (&self.phase, &mut self.connection)
        else {
            return;
        };
        for job in self.waiting.iter().filter(|job| job.release().is_some()) {
            show(&job.request, connection.known.form(job.request.script()));
        }
    }

    /// Notes whether the present connection may lead through a proxy that keeps it open when another server takes over, as the
    /// node's answer has shown.
    pub(crate) fn handle_relayed(&mut self, is_relayed: bool) {
        if let Some(connection) = &mut self.connection {
            connection.opened.is_relayed = is_relayed;
        }
    }

    /// Returns true if the present connection leads to that run of the server, which a probe over it has shown. Otherwise a proxy
    /// has kept it open, and it has come to its end.
    pub(crate) fn leads_to(&self, run: &str) -> bool {
        let is_same = self.connection.as_ref().is_some_and(|it| it.opened.run == run);
        is_same || !Mechanism::AnotherRunEndsConnections.is_on()
    }

    /// Returns true if the node may be used over the present connection.
    pub(crate) fn is_up(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_up)
    }

    /// Returns true if any release is kept, or is to be repeated.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns the number of releases that have not been delivered.
    pub(crate) fn kept_releases(&self) -> usize {
        self.pending.len()
    }

    /// Drops the releases that are of no use any more, and gives unused room back. Returns true if any release is left.
    pub(crate) fn tidy(&mut self, now: Time) -> bool {
        give_room_back(&mut self.waiting);
        give_room_back(&mut self.events);
        give_room_back(&mut self.settled);
        self.pending.tidy(now)
    }
}

#[cfg(test)]
mod tests;
