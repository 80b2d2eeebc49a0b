//! The order of requests in one write, and the calls that make them.
//!
//! Starting a script costs a server about as much as two commands in it, and the data that all calls need is read once per
//! script. So calls of scripts that go out in one write are made by one call, as far as their scripts allow.
//!
//! A batch reads the keys of all calls of one script at once that come one after the other. So calls that take locks are put
//! together, as far as the calls for each lock stay in order: a thread that drops its guard and takes a lock again would
//! otherwise have its two calls between those of other threads.
//!
//! Calls of a batch that were not made may be made again. So a write has one batch of each kind of lock, and nothing goes behind
//! a batch that would then overtake a request that must come first. A request that must come first is of the same kind: no two
//! kinds share an owner.

use std::collections::{HashMap, VecDeque};

use super::super::base::{Mechanism, Rule};
use super::driver::{Form, Request};
use super::job::Job;

/// The fewest calls of a batch: for fewer, taking the batch apart would cost more than it saves.
pub(crate) const WORTH_IT: usize = 3;

/// One call in a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call<S> {
    /// The number of requests that it makes.
    pub(crate) requests: usize,
    pub(crate) script: S,
    pub(crate) form: Form,
}

impl<S> Call<S> {
    pub(crate) const fn is_batch(&self) -> bool {
        self.requests > 1
    }
}

/// Puts batchable requests last, so that a retried batch cannot be overtaken by a call that came behind a release in it. The
/// requests of each kind are together, in the order of the first request of each kind.
/// Requests that [go last](Request::goes_last) are behind these. In each batch, requests of one sort are together, as far as
/// those about one lock stay in order.
pub(crate) fn put_in_order<R: Request>(jobs: &mut [Job<R>]) {
    let mut batches: Vec<R::Script> = Vec::new();
    for batch in jobs.iter().filter_map(|job| job.request.batch()) {
        if !batches.contains(&batch) {
            batches.push(batch);
        }
    }
    jobs.sort_by_key(|job| {
        if job.request.goes_last() && Mechanism::WithdrawalsGoLast.is_on() {
            return usize::MAX;
        }
        let batch = job.request.batch().if_off(Mechanism::BatchesGoLast, None);
        batch.and_then(|batch| batches.iter().position(|it| *it == batch)).map_or(0, |at| 1 + at)
    });
    // Fewer requests have no batch.
    let batches = jobs.chunk_by_mut(|a, b| have_one_batch(&a.request, &b.request));
    batches.filter(|batch| batch.len() >= WORTH_IT).for_each(gather);
}

/// Puts requests of one sort together: in turns, the requests that take no lock, and those that take one. Each request gets
/// the first turn of its sort that is not before that of an earlier request about the same lock. Leaves them as they came
/// if that makes no fewer turns.
fn gather<R: Request>(jobs: &mut [Job<R>]) {
    let turns_as_they_came = jobs.chunk_by(|a, b| a.is_taking() == b.is_taking()).count();
    // Two sorts have a turn each at best.
    if turns_as_they_came <= 2 {
        return;
    }
    let mut latest: HashMap<&[u8], usize> = HashMap::with_capacity(jobs.len());
    let turn = |job| {
        let job: &Job<R> = job;
        let latest = latest.entry(job.request.lock()).or_default();
        *latest += usize::from((*latest % 2 == 1) != job.is_taking());
        *latest
    };
    let turns: Vec<_> = jobs.iter().map(turn).collect();
    if turns.iter().max().is_none_or(|last| last + 1 >= turns_as_they_came) {
        return;
    }
    let mut order: Vec<_> = (0..jobs.len()).collect();
    order.sort_by_key(|place| turns[*place]);
    for place in 0..jobs.len() {
        // A job whose place has been taken is where the job went that took it.
        let mut from = order[place];
        while from < place {
            from = order[from];
        }
        jobs.swap(place, from);
    }
}

/// Returns the calls that make `jobs`, in order. Unless `together`, each job has a call of its own. `form` says how a script is
/// named.
pub(crate) fn calls<R: Request>(
    jobs: &[Job<R>],
    together: bool,
    mut form: impl FnMut(R::Script) -> Form,
) -> VecDeque<Call<R::Script>> {
    let mut calls = VecDeque::new();
    for run in jobs.chunk_by(|a, b| have_one_batch(&a.request, &b.request)) {
        match run[0].request.batch() {
            Some(script) if together && run.len() >= WORTH_IT => {
                calls.push_back(Call { requests: run.len(), script, form: form(script) });
            }
            _ => calls.extend(run.iter().map(|job| {
                let script = job.request.script();
                Call { requests: 1, script, form: form(script) }
            })),
        }
    }
    calls
}

fn have_one_batch<R: Request>(a: &R, b: &R) -> bool {
    a.batch().is_some() && a.batch() == b.batch()
}
