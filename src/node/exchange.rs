//! One write to a node, and the answers to it.

use std::sync::atomic::Ordering;

use super::answers::lacks_permission;
use super::batch::{self, Answers, Call};
use super::connection::{Broken, Connection, GRACE, Reply, TIME};
use super::job::{Job, Undelivered};
use super::request::{Form, Meaning, Script, Value};
use super::send_permit::SendPermit;
use super::worker::Worker;
use crate::clock;
use crate::core::admission::{ClockVerdict, Offset};
use crate::core::base::Time;
use crate::core::vote::Failure;
use crate::error::NodeFault;
use crate::observe;

/// How often a clock is read once more whose answer took so long that it says too little.
const READ_AGAIN: usize = 2;

/// About as many bytes as a call has.
const A_CALL: usize = 400;

/// What became of jobs that were written.
#[derive(Default)]
struct Written {
    /// What depends on whether the node's clock took a step: grants, and what is said against holders.
    by_the_clock: Vec<(Job, Value)>,
    /// What has to go out again, since it was not executed or not answered.
    again: Vec<Job>,
    /// The server does not know its scripts any more.
    forgotten: bool,
    /// Scripts whose source the server refused: it may not know them behind that.
    refused: Vec<&'static Script>,
    /// One of those was called behind that, in vain.
    without_source: bool,
    /// A batch did not do all of its calls, and each goes out by itself.
    apart: bool,
}

impl Written {
    /// The server does not know the script, and did nothing.
    fn is_unknown(&mut self, script: &'static Script) {
        if self.refused.iter().any(|refused| std::ptr::eq(*refused, script)) {
            self.without_source = true;
        } else {
            self.forgotten = true;
        }
    }

    /// How jobs that were written in that manner go out again.
    fn manner_after(&self, manner: Manner) -> Manner {
        Manner {
            together: manner.together && !self.apart,
            forgotten_before: manner.forgotten_before || self.forgotten,
            with_source: self.without_source || manner.forgotten_before && self.forgotten,
        }
    }
}

/// How jobs are written. What goes out again goes out another way each time, so it ends after a few.
#[derive(Clone, Copy)]
struct Manner {
    /// Calls are made in batches.
    together: bool,
    forgotten_before: bool,
    /// Each call has its source, since the server forgets it at once, or refuses it to some.
    with_source: bool,
}

/// What a round of writing leaves to be done.
enum Left {
    Nothing,
    /// The jobs that are left go out once more, in that manner.
    Again(Manner),
}

impl Worker {
    /// Sends `jobs` and hands out the answers. Gives a good connection back; if there is none, the
    /// link is marked as down and every job has been told so.
    pub(super) fn exchange(
        &self,
        mut connection: Connection,
        mut jobs: Vec<Job>,
    ) -> Result<Connection, NodeFault> {
        let mut reconnected = false;
        let mut manner = Manner { together: true, forgotten_before: false, with_source: false };
        loop {
            match self.exchange_once(&mut connection, &mut jobs, manner) {
                Ok(Left::Nothing) => return Ok(connection),
                // Not executed, or not for certain. It goes out again, with the sources where need be, when it
                // is known what else the server has forgotten.
                Ok(Left::Again(next)) => {
                    manner = next;
                    if let Err(broken) = self.admit(&mut connection) {
                        return Err(self.broken(connection, jobs, broken));
                    }
                }
                // A server that was restarted, or that closes idle connections, is no reason to
                // fail: each request may be sent again, since it sets and never increments.
                Err(broken) if broken.closed && !reconnected => {
                    reconnected = true;
                    self.leaves(&connection, &jobs);
                    match self.open() {
                        Ok(new) => connection = new,
                        Err(fault) => return Err(self.give_up(jobs, fault)),
                    }
                }
                Err(broken) => return Err(self.broken(connection, jobs, broken)),
            }
        }
    }

    /// Writes all of `jobs` at once and reads the answers in order, and the node's clock behind them: what
    /// is granted counts by that. What is left in `jobs` has not been answered: the rest, on a failure;
    /// what has to go out again, if all went well.
    fn exchange_once(
        &self,
        connection: &mut Connection,
        jobs: &mut Vec<Job>,
        manner: Manner,
    ) -> Result<Left, Broken> {
        let permit = SendPermit::of(&self.set, self.node);
        self.keep_what_may_go(connection, jobs, &permit);
        if jobs.is_empty() {
            return Ok(Left::Nothing);
        }
        batch::put_in_order(jobs, Job::request);
        let (calls, sent) = self.write(connection, jobs, manner, &permit)?;

        let deadline = clock::now().after(self.timeout + GRACE);
        let mut unanswered = std::mem::take(jobs).into_iter();
        let mut outcome = Written::default();
        let read =
            self.read_answers(connection, &calls, deadline, &mut unanswered, &mut outcome, &permit);
        if outcome.forgotten {
            connection.forget_scripts();
            self.set.doubt(self.node, None);
        }
        for script in &outcome.refused {
            connection.forget(script);
        }
        let manner = outcome.manner_after(manner);
        *jobs = outcome.again;
        jobs.extend(unanswered);
        let clock = read.and_then(|()| connection.read_clock(sent, deadline));
        let takes = outcome.by_the_clock.iter().any(|(job, _)| job.is_taking());
        match clock.and_then(|clock| self.judge_clock(connection, clock, takes, deadline)) {
            Ok((clock, verdict)) => {
                for (job, value) in outcome.by_the_clock {
                    self.deliver_by_the_clock(job, value, clock, verdict, connection);
                }
                Ok(if jobs.is_empty() { Left::Nothing } else { Left::Again(manner) })
            }
            Err(broken) => {
                jobs.extend(outcome.by_the_clock.into_iter().map(|(job, _)| job));
                Err(broken)
            }
        }
    }

    /// Answers the jobs that may not be written now, and drops those that are not wanted any more.
    fn keep_what_may_go(
        &self,
        connection: &Connection,
        jobs: &mut Vec<Job>,
        permit: &SendPermit<'_>,
    ) {
        jobs.retain_mut(|job| match permit.allows(job) {
            Ok(()) if job.sending(self.node, connection.count.via) => {
                job.is_written();
                true
            }
            Ok(()) => false,
            Err(refused) => {
                job.answer(self.node, Err(refused));
                false
            }
        });
    }

    /// Writes `jobs` and a question for the clock; returns the calls made of them, and when that began.
    fn write(
        &self,
        connection: &mut Connection,
        jobs: &[Job],
        manner: Manner,
        permit: &SendPermit<'_>,
    ) -> Result<(Vec<Call>, Time), Broken> {
        let mut buffer = Vec::with_capacity(jobs.len() * A_CALL);
        let requests: Vec<_> = jobs.iter().map(|job| permit.to_write(job)).collect();
        let form = |script| match connection.form(script) {
            Form::Sha if !manner.with_source => Form::Sha,
            _ => Form::Source,
        };
        let mark_key = self.set.mark_key();
        let calls = batch::write(&requests, mark_key, manner.together, form, &mut buffer);
        // In the same write and, as a rule, in the same read: it costs the server a microsecond.
        buffer.extend_from_slice(TIME);
        let sent = clock::now();
        // Before it is written: a reader of the figures that sees its effect finds it counted.
        self.shared.writes.fetch_add(1, Ordering::Relaxed);
        self.shared.scripts.fetch_add(jobs.len() as u64, Ordering::Relaxed);
        connection.write(&buffer)?;
        Ok((calls, sent))
    }

    /// Reads the answers to `calls`, and settles the jobs that these were made of.
    fn read_answers(
        &self,
        connection: &mut Connection,
        calls: &[Call],
        deadline: Time,
        unanswered: &mut impl Iterator<Item = Job>,
        outcome: &mut Written,
        permit: &SendPermit<'_>,
    ) -> Result<(), Broken> {
        for call in calls {
            let reply = connection.read(deadline)?;
            if call.is_batch() {
                self.take_apart(call, reply, unanswered, outcome, permit, connection)?;
            } else if let Some(job) = unanswered.next() {
                self.settle(job, reply, call.form, outcome, permit, connection);
            }
        }
        Ok(())
    }

    /// Hands out an answer that counts only if the clock was where it has to be.
    fn deliver_by_the_clock(
        &self,
        job: Job,
        value: Value,
        clock: Offset,
        verdict: ClockVerdict,
        connection: &Connection,
    ) {
        let refused = match verdict {
            ClockVerdict::Fits => None,
            ClockVerdict::Moved => Some(self.clock_was_set()),
            ClockVerdict::Doubtful => Some(self.clock_is_in_doubt(clock)),
        };
        if let Some(refused) = refused.filter(|_| job.is_taking()) {
            return job.answer(self.node, Err(refused));
        }
        let seen_at = match verdict {
            ClockVerdict::Moved => Some(clock::now()),
            // Grants, of which there are many, need not know.
            _ if job.is_holding() => self.set.ahead_at(self.node),
            _ => None,
        };
        if let Some(seen_at) = seen_at {
            job.clock_moved(self.node, seen_at);
        }
        self.deliver(&job, value, connection);
    }

    /// What the clock says, as it was read along with a write. If it leaves a doubt about what was granted,
    /// since the answer took long, it is read again: what it has not gained by then, it had not gained
    /// before.
    fn judge_clock(
        &self,
        connection: &mut Connection,
        mut clock: Offset,
        grants: bool,
        deadline: Time,
    ) -> Result<(Offset, ClockVerdict), Broken> {
        let mut verdict = self.set.read_clock(self.node, clock);
        for _ in 0..READ_AGAIN {
            if verdict != ClockVerdict::Doubtful || !grants {
                break;
            }
            let sent = clock::now();
            connection.write(TIME)?;
            clock = connection.read_clock(sent, deadline)?;
            verdict = self.set.read_clock(self.node, clock);
        }
        Ok((clock, verdict))
    }

    /// Settles the jobs of a batch, which are the next that are `unanswered`.
    fn take_apart(
        &self,
        call: &Call,
        reply: Reply,
        unanswered: &mut impl Iterator<Item = Job>,
        outcome: &mut Written,
        permit: &SendPermit<'_>,
        connection: &Connection,
    ) -> Result<(), Broken> {
        let answers = match reply {
            Reply::Value(value) => {
                call.answers(value).map_err(|strange| connection.strange(&strange))?
            }
            Reply::NoScript => {
                outcome.forgotten = true;
                Answers::NothingDone
            }
            Reply::Error(fault) => {
                // The user may not touch one of the keys; no script of ours says so of itself.
                let answers = match lacks_permission(&fault) {
                    true => Answers::NothingDone,
                    false => Answers::Each(vec![None; call.requests]),
                };
                if call.form == Form::Source {
                    outcome.refused.push(call.script);
                }
                answers
            }
        };
        let jobs = unanswered.take(call.requests);
        match answers {
            Answers::NothingDone => {
                outcome.apart = true;
                outcome.again.extend(jobs.inspect(|job| job.is_unsent(self.node)));
            }
            Answers::Each(answers) => {
                for (job, answer) in jobs.zip(answers) {
                    if let Some(value) = answer {
                        let reply = Reply::Value(value);
                        self.settle(job, reply, call.form, outcome, permit, connection);
                    } else {
                        outcome.apart = true;
                        outcome.again.push(job);
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands out what was answered to `job`, or notes what is still to be done about it.
    fn settle(
        &self,
        job: Job,
        reply: Reply,
        form: Form,
        outcome: &mut Written,
        permit: &SendPermit<'_>,
        connection: &Connection,
    ) {
        match reply {
            Reply::Value(value) => {
                if form == Form::Sha {
                    self.shared.link.serves();
                }
                let meaning = job.request().meaning(&value);
                match meaning {
                    Meaning::NotAdmitted => self.set.doubt(self.node, permit.mark()),
                    Meaning::RepairedInQuarantine => self.set.has_forgotten(self.node),
                    Meaning::Granted | Meaning::Kept | Meaning::Confirmed | Meaning::Other => {}
                }
                let is_kept = matches!(meaning, Meaning::Kept | Meaning::Confirmed);
                if meaning == Meaning::Granted || job.is_holding() && !is_kept {
                    outcome.by_the_clock.push((job, value));
                } else {
                    self.deliver(&job, value, connection);
                    if let Job::Release(release) = job {
                        self.answered(release, connection);
                    }
                }
            }
            Reply::NoScript if form == Form::Sha => {
                job.is_unsent(self.node);
                outcome.is_unknown(job.request().script());
                outcome.again.push(job);
            }
            Reply::NoScript => job.answer(self.node, Err(self.strange_server())),
            Reply::Error(fault) => {
                if form == Form::Source {
                    outcome.refused.push(job.request().script());
                }
                if matches!(&job, Job::Release(release) if release.refusals == Some(0)) {
                    observe::release_refused(&fault);
                }
                let fault = self.shared.link.refused(fault);
                let undelivered = Undelivered::new(Failure::Error, fault, job.is_taking());
                job.answer(self.node, Err(undelivered));
                if let Job::Release(release) = job {
                    self.refused(release);
                }
            }
        }
    }
}
