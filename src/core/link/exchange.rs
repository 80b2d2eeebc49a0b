//! One write of requests, and the answers to it.

use std::collections::VecDeque;

use super::super::base::{Mechanism, Time};
use super::driver::{
    Answered, Answers, Awaited, ClockVerdict, Event, Failure, Fault, Form, Meaning, Reply, Request,
    Surroundings, Undelivered,
};
use super::job::Job;
use super::late::Via;
use super::order::{Call, calls, put_in_order};

/// The most times that a clock is read again because its answer took too long to be exact.
const READ_AGAIN: usize = 2;

/// The manner in which requests are written. Requests that go out again do so in another manner each time, so this ends after a
/// few times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// True if calls are made in batches.
    together: bool,
    forgotten_before: bool,
    /// True if each call has its source, since the server forgets sources at once, or refuses them to some calls.
    with_source: bool,
}

impl Manner {
    pub(super) const FIRST: Self =
        Self { together: true, forgotten_before: false, with_source: false };

    /// Returns the manner for requests that were written in either of two manners.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            together: self.together && other.together,
            forgotten_before: self.forgotten_before || other.forgotten_before,
            with_source: self.with_source || other.with_source,
        }
    }
}

/// The scripts whose source was sent over a connection, so that the server knows them by their hash.
#[derive(Debug)]
pub(super) struct Known<S>(Vec<S>);

impl<S: Copy + PartialEq> Known<S> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the form in which `script` is named in the next call of it.
    ///
    /// Naming it by its hash first, and sending the source after NOSCRIPT, would change the order. A release whose script is
    /// unknown would run after the acquire of the next attempt.
    pub(super) fn form(&mut self, script: S) -> Form {
        if self.0.contains(&script) {
            return Form::Sha;
        }
        self.0.push(script);
        Form::Source
    }

    /// Forgets all scripts, since the server does not know them any more (SCRIPT FLUSH).
    pub(super) fn forget_all(&mut self) {
        self.0.clear();
    }

    /// Forgets a script whose source the server refused, since the server may not know it.
    pub(super) fn forget(&mut self, script: S) {
        self.0.retain(|known| *known != script);
    }
}

/// The work that is left after the answers to one write.
pub(super) enum Left<R> {
    Nothing,
    /// These requests go out once more, in that manner.
    Again(Vec<Job<R>>, Manner),
}

/// One write on its way.
pub(super) struct Exchange<R: Request> {
    /// The requests that are not answered, in order, and the calls that make them.
    jobs: VecDeque<Job<R>>,
    calls: VecDeque<Call<R::Script>>,
    /// The mark under which locks are taken, if any are.
    mark: Option<String>,
    manner: Manner,
    pub(super) is_written: bool,
    /// The beginning of the write.
    pub(super) sent: Time,
    pub(super) deadline: Time,
    /// True if the time of its first answer, which is still to come, is that of a round trip.
    pub(super) is_timed: bool,
    /// True if the node's clock is read behind its answers. Nothing in a write of releases depends on the clock.
    pub(super) reads_clock: bool,
    /// True if no answer of a holder counts before it is known which server has answered: see `Opened::is_relayed`.
    pub(super) is_relayed: bool,
    /// True if the clock is read once more, by a write of its own.
    is_read_again: bool,
    /// The number of doubtful readings of the clock, for its answers and for those of earlier writes that wait with them.
    doubts: usize,
    /// True if a reading after its beginning has shown that the clock moved. It may have moved before these requests ran.
    has_moved: bool,
    /// Answers that depend on whether the node's clock took a step: grants, and refusals of holders.
    by_the_clock: Vec<(Job<R>, R::Value, Meaning)>,
    /// Requests that must go out again, since they were not executed or not answered.
    again: Vec<Job<R>>,
    /// True if the server does not know its scripts any more.
    forgotten: bool,
    /// Scripts whose source the server refused: afterwards the server may not know them.
    refused: Vec<R::Script>,
    /// True if one of those was called without its source afterwards, in vain.
    without_source: bool,
    /// True if a batch did not make all of its calls, so that each goes out by itself.
    apart: bool,
}

impl<R: Request> Exchange<R> {
    /// Begins a write of those `jobs` that may be written now. Callers of the other jobs are told; requests that are not wanted
    /// any more are dropped. `None` if no request is left.
    pub(super) fn begin(
        jobs: Vec<Job<R>>,
        manner: Manner,
        via: Via,
        known: &mut Known<R::Script>,
        around: &mut impl Surroundings<R>,
        (events, now): (&mut VecDeque<Event<R>>, Time),
    ) -> Option<Self> {
        // Looked up when it is first needed, and once for all requests of the write.
        let (mut mark, mut not_serving) = (None, None);
        let mut allowed = Vec::with_capacity(jobs.len());
        for mut job in jobs {
            let refused = if job.is_taking() {
                mark.get_or_insert_with(|| around.mark()).as_ref().err().cloned()
            } else if job.is_holding() {
                let fault = not_serving.get_or_insert_with(|| around.not_serving()).clone();
                let failure = if job.written { Failure::Unknown } else { Failure::NotSent };
                fault.map(|fault| Undelivered { failure, fault })
            } else {
                None
            };
            if let Some(refused) = refused {
                events.extend(Answered::failed(&mut job, refused));
            } else if job.request.sending(via, now) {
                job.written = true;
                allowed.push(job);
            } else {
                events.extend(job.request.take_caller().map(Event::Unwanted));
            }
        }
        if allowed.is_empty() {
            return None;
        }
        put_in_order(&mut allowed);
        let form = |script| match known.form(script) {
            Form::Sha if !manner.with_source => Form::Sha,
            _ => Form::Source,
        };
        let calls = calls(&allowed, manner.together, form);
        let reads_clock = allowed.iter().any(|job| job.release().is_none());
        Some(Self {
            jobs: allowed.into(),
            calls,
            mark: mark.and_then(Result::ok),
            manner,
            is_written: false,
            sent: now,
            deadline: now,
            is_timed: true,
            reads_clock,
            is_relayed: false,
            is_read_again: false,
            doubts: 0,
            has_moved: false,
            by_the_clock: Vec::new(),
            again: Vec::new(),
            forgotten: false,
            refused: Vec::new(),
            without_source: false,
            apart: false,
        })
    }

    /// Returns true if all calls were answered. Then only the clock is missing, if it is read.
    pub(super) fn has_all_answers(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the answer that comes next.
    pub(super) fn awaited(&self) -> Awaited {
        match self.calls.front() {
            Some(call) => Awaited::Call { requests: call.requests },
            None => Awaited::Clock,
        }
    }

    /// Returns true if none of it goes out again, or has done so, and its clock is not read again. Only then may another write
    /// follow it.
    pub(super) fn is_plain(&self) -> bool {
        self.manner == Manner::FIRST && self.again.is_empty() && !self.is_read_again
    }

    /// Returns the number of requests that are not answered for certain.
    pub(super) fn requests(&self) -> usize {
        self.jobs.len() + self.by_the_clock.len() + self.again.len()
    }

    /// Notes that all of it was written, from `sent` on. The node has until `deadline` for the answers, including the answer to a
    /// clock that is read once more.
    pub(super) fn handle_written(&mut self, sent: Time, deadline: Time) {
        (self.is_written, self.sent) = (true, sent);
        if !self.is_read_again {
            self.deadline = deadline;
        }
    }

    /// Shows the calls to be written, each with its requests and their mark. A repeated reading of the clock has no calls.
    pub(super) fn show(&mut self, mut show: impl FnMut(&[Job<R>], Option<R::Script>, Form, &str)) {
        let mark = self.mark.as_deref().unwrap_or_default();
        let mut jobs: &[Job<R>] = self.jobs.make_contiguous();
        for call in &self.calls {
            let (of_call, others) = jobs.split_at(call.requests);
            show(of_call, call.is_batch().then_some(call.script), call.form, mark);
            jobs = others;
        }
    }

    /// Handles the answer to the next call.
    pub(super) fn handle_answer(
        &mut self,
        reply: Reply<R::Value, R::Fault>,
        around: &mut impl Surroundings<R>,
        settled: &mut Vec<(Job<R>, Settled<R>)>,
    ) {
        let Some(call) = self.calls.pop_front() else { return };
        self.is_timed = false;
        let form = call.form;
        if let (Reply::Error(_), Form::Source) = (&reply, form) {
            self.refused.push(call.script);
        }
        if !call.is_batch() {
            let Some(job) = self.jobs.pop_front() else { return };
            return match reply {
                Reply::Value(value) => self.settle(job, value, form, around, settled),
                Reply::Error(fault) => settled.push((job, Settled::Refused(fault))),
                // A single call is not answered as a batch.
                Reply::NoScript | Reply::Batch(_) => self.unknown(job, form, around, settled),
            };
        }
        let jobs: Vec<_> = self.jobs.drain(..call.requests.min(self.jobs.len())).collect();
        let answers = match reply {
            Reply::Batch(answers) => answers,
            // A missing permission for one of the keys is reported before any call is made; no script of ours reports it by
            // itself.
            Reply::Error(fault) if !fault.lacks_permission() => {
                Answers::Each(jobs.iter().map(|_| None).collect())
            }
            Reply::Error(_) => Answers::NothingDone,
            Reply::NoScript | Reply::Value(_) => {
                self.forgotten = true;
                Answers::NothingDone
            }
        };
        match answers {
            Answers::NothingDone => {
                self.apart = true;
                self.again.extend(jobs.into_iter().inspect(|job| job.request.unsent()));
            }
            Answers::Each(answers) => {
                for (job, answer) in jobs.into_iter().zip(answers) {
                    match answer {
                        Some(value) => self.settle(job, value, form, around, settled),
                        None => {
                            self.apart = true;
                            self.again.push(job);
                        }
                    }
                }
            }
        }
    }

    fn settle(
        &mut self,
        job: Job<R>,
        value: R::Value,
        form: Form,
        around: &mut impl Surroundings<R>,
        settled: &mut Vec<(Job<R>, Settled<R>)>,
    ) {
        if form == Form::Sha {
            around.serves();
        }
        let meaning = job.request.meaning(&value);
        match meaning {
            Meaning::NotAdmitted => around.doubt(self.mark.as_deref()),
            Meaning::RepairedInQuarantine => around.has_forgotten(),
            Meaning::Granted | Meaning::Kept | Meaning::Confirmed | Meaning::Other => {}
        }
        let is_kept = matches!(meaning, Meaning::Kept | Meaning::Confirmed) && !self.is_relayed;
        if meaning == Meaning::Granted || job.is_holding() && !is_kept {
            self.by_the_clock.push((job, value, meaning));
        } else {
            settled.push((job, Settled::Answered(value, meaning)));
        }
    }

    /// Handles a server that does not know the script of that request.
    fn unknown(
        &mut self,
        job: Job<R>,
        form: Form,
        around: &mut impl Surroundings<R>,
        settled: &mut Vec<(Job<R>, Settled<R>)>,
    ) {
        if form == Form::Source {
            let fault = around.forgets_sources();
            let undelivered = Undelivered { failure: Failure::Unknown, fault };
            return settled.push((job, Settled::Failed(undelivered)));
        }
        job.request.unsent();
        match self.refused.contains(&job.request.script()) {
            true => self.without_source = true,
            false => self.forgotten = true,
        }
        self.again.push(job);
    }

    /// Takes scripts that the server does not know any more out of `known`, once all calls were answered. The refused sources
    /// count for `later` writes as well.
    pub(super) fn forgets(
        &self,
        known: &mut Known<R::Script>,
        later: &mut [Self],
        around: &mut impl Surroundings<R>,
    ) {
        if self.forgotten {
            known.forget_all();
            around.doubt(None);
        }
        self.refused.iter().for_each(|script| known.forget(*script));
        later.iter_mut().for_each(|exchange| exchange.refused.extend(&self.refused));
    }

    /// Handles the reading of the node's clock behind the answers. Grants count by that reading. If it leaves a doubt about them,
    /// since the answer took long, the clock is read again: a gain that is not there by then was not there before. The first of
    /// the `later` writes reads it, or a write for that alone. `None` if it is to be read again for this write.
    pub(super) fn handle_clock<S: Surroundings<R>>(
        &mut self,
        clock: S::Clock,
        around: &mut S,
        later: &mut [Self],
        (events, now): (&mut VecDeque<Event<R>>, Time),
    ) -> Option<Left<R>> {
        let mut verdict = around.read_clock(clock);
        if verdict == ClockVerdict::Moved {
            later.iter_mut().for_each(|exchange| exchange.has_moved = true);
        }
        if self.has_moved && Mechanism::DoubtsReachBack.is_on() {
            verdict = ClockVerdict::Moved;
        }
        let takes = self.by_the_clock.iter().any(|(job, ..)| job.is_taking());
        if verdict == ClockVerdict::Doubtful && takes && self.doubts < READ_AGAIN {
            let doubts = self.doubts + 1;
            let Some(next) = later.first_mut() else {
                (self.doubts, self.is_read_again, self.is_written) = (doubts, true, false);
                return None;
            };
            next.doubts = next.doubts.max(doubts);
            next.by_the_clock.splice(0..0, self.by_the_clock.drain(..));
        }
        for (mut job, value, meaning) in std::mem::take(&mut self.by_the_clock) {
            let refused = match verdict {
                ClockVerdict::Moved if job.is_taking() => {
                    Some((Failure::NotAdmitted, around.clock_was_set()))
                }
                // The node has answered, and nothing is wrong with its memory.
                ClockVerdict::Doubtful if job.is_taking() => {
                    Some((Failure::Error, around.clock_in_doubt(clock)))
                }
                _ => None,
            };
            if let Some((failure, fault)) = refused {
                events.extend(Answered::failed(&mut job, Undelivered { failure, fault }));
                continue;
            }
            let clock_moved = match verdict {
                ClockVerdict::Moved => Some(now),
                // Grants, of which there are many, need not know the time.
                _ if job.is_holding() => around.ahead_at(),
                _ => None,
            };
            events.extend(job.request.take_caller().map(|caller| {
                Event::Answered(Answered { caller, meaning, clock_moved, answer: Ok(value) })
            }));
        }
        Some(self.left())
    }

    /// Returns the work that is left, once all calls were answered.
    pub(super) fn left(&mut self) -> Left<R> {
        let manner = self.manner_after();
        match self.again.is_empty() {
            true => Left::Nothing,
            false => Left::Again(std::mem::take(&mut self.again), manner),
        }
    }

    /// Returns the manner in which requests go out again.
    fn manner_after(&self) -> Manner {
        let Manner { together, forgotten_before, with_source: _ } = self.manner;
        Manner {
            together: together && !self.apart,
            forgotten_before: forgotten_before || self.forgotten,
            with_source: self.without_source || forgotten_before && self.forgotten,
        }
    }

    /// Ends the write, since the connection is of no use any more. Returns the requests that were not answered, or do not count
    /// without the clock, and the manner in which they were written.
    pub(super) fn unanswered(self) -> (Vec<Job<R>>, Manner) {
        let mut jobs = self.again;
        jobs.extend(self.jobs);
        jobs.extend(self.by_the_clock.into_iter().map(|(job, ..)| job));
        (jobs, self.manner)
    }
}

/// An answer to a request that counts whatever the node's clock says.
pub(super) enum Settled<R: Request> {
    Answered(R::Value, Meaning),
    /// The server has refused the request.
    Refused(R::Fault),
    Failed(Undelivered<R::Fault>),
}
