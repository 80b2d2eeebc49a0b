//! The reaction of the machine of a connection to each event.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, Time};
use super::driver::{
    Answered, Broken, Event, Failure, Form, Opened, Reply, Request, Surroundings, Told, Undelivered,
};
use super::exchange::{Known, Left, Manner, Settled};
use super::in_flight::{RoundTrip, put_behind};
use super::job::Job;
use super::late::{LATEST, Via};
use super::{Connection, GRACE, Link, Phase, RECONNECT};

/// The pauses before a refused release is sent again.
const REFUSED: Backoff =
    Backoff { min: Duration::from_millis(500), max: Duration::from_millis(10_000) };

impl<R: Request, Q> Link<R, Q> {
    /// Handles an open connection: the login is over.
    pub(crate) fn handle_opened(&mut self, opened: Opened, now: Time) {
        if !matches!(self.phase, Phase::Connecting) {
            return;
        }
        let left = self.old.that_have_to_end(opened.run_of_requests(), opened.id, now);
        let via = Via { connection: 0, fenced: false };
        let (known, round_trip) = (Known::new(), RoundTrip::new(now));
        self.connection = Some(Connection { opened, via, known, round_trip, is_up: false });
        if left.is_empty() {
            self.fenced_off(now);
        } else {
            self.phase = Phase::Ending { left: left.into(), is_written: false, deadline: now };
        }
    }

    /// Handles a try to connect that has failed.
    pub(crate) fn handle_not_opened(
        &mut self,
        fault: R::Fault,
        now: Time,
        around: &mut impl Surroundings<R>,
    ) {
        if !matches!(self.phase, Phase::Connecting) {
            return;
        }
        self.give_up(&fault, now, around);
        self.turn_away(&fault, now);
        self.go_down(fault, now, around);
    }

    /// Answers all waiting requests with that fault.
    fn turn_away(&mut self, fault: &R::Fault, now: Time) {
        for job in std::mem::take(&mut self.waiting) {
            self.undeliverable(job, Failure::NotSent, fault, now);
        }
    }

    /// Begins to use the connection: the old ones are ended, as far as that is permitted.
    fn fenced_off(&mut self, now: Time) {
        if let Some(connection) = &mut self.connection {
            connection.via = self.old.opened(connection.opened.run_of_requests(), now);
            if connection.via.fenced {
                self.pending.repeat_now(now);
            }
        }
        (self.in_a_row, self.asks_from) = (0, None);
        self.phase = Phase::Open;
    }

    /// Notes that all shown commands were written, from `began` on.
    pub(crate) fn handle_written(&mut self, began: Time, now: Time) {
        let (of_call, of_question) =
            (now.after(self.timeout + GRACE), now.after(self.limit_of_question()));
        match &mut self.phase {
            Phase::Ending { is_written, deadline, .. } => {
                (*is_written, *deadline) = (true, of_question)
            }
            Phase::Asking { is_written, sent, deadline, .. } => {
                (*is_written, *sent, *deadline) = (true, began, of_question)
            }
            Phase::Exchanging => {
                let written = self.in_flight.unwritten().into_iter();
                written.for_each(|exchange| exchange.handle_written(began, of_call));
            }
            _ => {}
        }
    }

    /// Handles the answer to the end of an old connection, which is `over` for certain or not.
    pub(crate) fn handle_ended(&mut self, over: bool, now: Time) {
        let (Phase::Ending { left, .. }, Some(connection)) = (&mut self.phase, &self.connection)
        else {
            return;
        };
        let run = connection.opened.run_of_requests();
        if let Some(id) = left.pop_front() {
            match over {
                true => self.old.ended(run, id),
                false => self.old.cannot_be_ended(run, id),
            }
        }
        if left.is_empty() {
            self.fenced_off(now);
        }
    }

    /// Handles the answer to a question about the node.
    pub(crate) fn handle_question<S>(&mut self, told: Told<R::Fault>, now: Time, around: &mut S)
    where
        S: Surroundings<R, Question = Q>,
    {
        let (Phase::Asking { question, form, sent, .. }, Some(connection)) =
            (&self.phase, &mut self.connection)
        else {
            return;
        };
        connection.round_trip.note(now.since(*sent), now);
        match told {
            Told::Answered => {
                if *form == Form::Sha {
                    around.serves();
                }
                self.refused_at = None;
            }
            Told::NoScript => connection.known.forget_all(),
            Told::Refused(fault) => {
                connection.known.forget(around.script(question));
                // The node is up, and may serve holders as well as before.
                let fault = around.refusal(fault);
                around.question_refused(&fault);
                self.refused_at = Some(now);
            }
        }
        self.phase = Phase::Open;
    }

    /// Handles the answer to a call.
    pub(crate) fn handle_answer(
        &mut self,
        reply: Reply<R::Value, R::Fault>,
        now: Time,
        around: &mut impl Surroundings<R>,
    ) {
        let Some(connection) = &mut self.connection else { return };
        let Some((exchange, later)) = self.in_flight.first_and_later() else { return };
        if exchange.is_timed {
            connection.round_trip.note(now.since(exchange.sent), now);
        }
        let mut settled = std::mem::take(&mut self.settled);
        exchange.handle_answer(reply, around, &mut settled);
        if exchange.has_all_answers() {
            exchange.forgets(&mut connection.known, later, around);
        }
        for (job, answer) in settled.drain(..) {
            self.settle(job, answer, now, around);
        }
        self.settled = settled;
        let left = self.in_flight.end_without_clock();
        self.has_ended(left);
    }

    /// Handles the reading of the node's clock behind the answers to a write.
    pub(crate) fn handle_clock<S>(&mut self, clock: S::Clock, now: Time, around: &mut S)
    where
        S: Surroundings<R, Question = Q>,
    {
        let left = self.in_flight.handle_clock(clock, around, (&mut self.events, now));
        self.has_ended(left);
    }

    /// Notes the work that is left after a write, if it has ended.
    fn has_ended(&mut self, left: Option<Left<R>>) {
        if left.is_some() && self.in_flight.is_empty() {
            self.phase = Phase::Open;
        }
        if let Some(Left::Again(jobs, manner)) = left {
            self.goes_again((jobs, manner));
        }
    }

    /// Has those requests go out again, behind others that do already.
    fn goes_again(&mut self, more: (Vec<Job<R>>, Manner)) {
        self.again = Some(match self.again.take() {
            Some(before) => put_behind(before, more),
            None => more,
        });
    }

    /// Hands out an answer, or the reason why there is none.
    fn settle(
        &mut self,
        mut job: Job<R>,
        answer: Settled<R>,
        now: Time,
        around: &mut impl Surroundings<R>,
    ) {
        match answer {
            Settled::Answered(value, meaning) => {
                let (answer, clock_moved) = (Ok(value), None);
                self.events.extend(job.request.take_caller().map(|caller| {
                    Event::Answered(Answered { caller, meaning, clock_moved, answer })
                }));
                self.answered(job, now, around);
            }
            Settled::Failed(undelivered) => {
                self.events.extend(Answered::failed(&mut job, undelivered));
            }
            Settled::Refused(fault) => {
                if job.release().is_some_and(|release| release.refusals == Some(0)) {
                    self.events.push_back(Event::ReleaseRefused(fault.clone()));
                }
                let fault = around.refusal(fault);
                let undelivered = Undelivered::new(Failure::Error, fault, job.is_taking());
                self.events.extend(Answered::failed(&mut job, undelivered));
                self.refused(job, now, around);
            }
        }
    }

    /// Handles the node's answer to a request: a release is repeated if an earlier request may still run behind it.
    fn answered(&mut self, mut job: Job<R>, now: Time, around: &mut impl Surroundings<R>) {
        let Some(via) = self.connection.as_ref().map(|connection| connection.via) else { return };
        let repetition = job.release_mut().and_then(|release| release.repetition.as_mut());
        let due = repetition.and_then(|it| it.answered(via, now, || around.random()));
        if due.is_some_and(|due| self.pending.repeat(job, due)) {
            self.events.push_back(Event::ReleaseDropped);
        }
    }

    /// Handles the node's refusal of a request. A release is sent again while the key can be there: a right that is taken away
    /// comes back, as a rule, and a server whose memory is full gets room. If nobody knows when the key ends, this goes on for a
    /// while.
    fn refused(&mut self, mut job: Job<R>, now: Time, around: &mut impl Surroundings<R>) {
        let Some(release) = job.release_mut() else { return };
        let Some(refusals) = &mut release.refusals else { return };
        *refusals = refusals.saturating_add(1);
        let due = now.after(REFUSED.pause(*refusals, around.random()));
        release.until.get_or_insert(now.after(LATEST));
        if Mechanism::RefusedReleasesAreKept.is_on() {
            self.pending.keep_refused(job, due, now);
        }
    }

    /// Handles a connection that cannot be used any more.
    pub(crate) fn handle_broken(
        &mut self,
        broken: Broken<R::Fault>,
        now: Time,
        around: &mut impl Surroundings<R>,
    ) {
        let Broken { fault, closed, in_step } = broken;
        match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::Exchanging => {
                let left = self.in_flight.take_unanswered();
                left.into_iter().for_each(|more| self.goes_again(more));
            }
            Phase::Ending { .. } | Phase::Asking { .. } | Phase::Open => {}
            phase => return self.phase = phase,
        }
        let Some(connection) = &self.connection else { return };
        let is_up = connection.is_up;
        // Only unanswered requests matter: a question about the node may run late.
        if is_up && self.again.is_some() {
            let opened = &connection.opened;
            self.old.given_up(opened.run_of_requests(), opened.id, now);
        }
        // A server that was restarted, or that closes idle connections, is no reason to fail. Each request may be sent again,
        // since it sets and never increments.
        if is_up && closed && !self.is_reopened && Mechanism::ReconnectsOnce.is_on() {
            self.is_reopened = true;
            return self.connect(now, around);
        }
        self.give_up(&fault, now, around);
        if !is_up {
            self.turn_away(&fault, now);
        }
        let has_final_releases = is_up && in_step && Mechanism::FinalReleases.is_on();
        self.phase = Phase::Closing { fault, has_final_releases };
    }

    /// Gives the connection up, if there is one: the callers whose requests were written are told.
    fn give_up(&mut self, fault: &R::Fault, now: Time, around: &mut impl Surroundings<R>) {
        around.lost();
        // Before any caller is told: one that asks again at once must not be queued here once more.
        around.set_down(fault);
        for job in self.again.take().into_iter().flat_map(|(jobs, _)| jobs) {
            self.undeliverable(job, Failure::Unknown, fault, now);
        }
    }

    /// Handles a closed connection. Callers are told only now: one that has been told may end the process.
    pub(crate) fn handle_closed(&mut self, now: Time, around: &mut impl Surroundings<R>) {
        match std::mem::replace(&mut self.phase, Phase::Open) {
            Phase::Closing { fault, .. } => self.go_down(fault, now, around),
            phase => self.phase = phase,
        }
    }

    fn go_down(&mut self, fault: R::Fault, now: Time, around: &mut impl Surroundings<R>) {
        let until = now.after(RECONNECT.pause(self.tries, around.random()));
        self.tries = self.tries.saturating_add(1);
        self.connection = None;
        self.is_reopened = false;
        self.phase = Phase::Down { fault, until };
    }

    pub(super) fn undeliverable(
        &mut self,
        mut job: Job<R>,
        failure: Failure,
        fault: &R::Fault,
        now: Time,
    ) {
        let undelivered = Undelivered::new(failure, fault.clone(), job.is_taking());
        self.events.extend(Answered::failed(&mut job, undelivered));
        if job.release().is_some() {
            self.keep(job, now);
        }
    }
}
