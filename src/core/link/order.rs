//! The order of requests in one write, and the calls that make them.
//!
//! Starting a script costs a server about as much as two commands in it, and the data that all calls need is read once per
//! script. So calls of scripts that go out in one write are made by one call, as far as their scripts allow.
//!
//! Calls of a batch that were not made may be made again. So a write has one batch of each kind of lock, and nothing goes behind
//! a batch that would then overtake a request that must come first. A request that must come first is of the same kind: no two
//! kinds share an owner.

use std::collections::VecDeque;

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
/// Requests that [go last](Request::goes_last) are behind these.
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
