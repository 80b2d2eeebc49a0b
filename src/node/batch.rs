//! Group commit on the server: calls of scripts that go out in one write are made by one call, as far as
//! their scripts allow. To start a script costs a server about as much as two commands in it, and what
//! all of them need is read once.
//!
//! What is not made may be made again: so there is one batch of each kind of lock in a write, and nothing behind
//! them that would run before what has to come first. Whatever has to come first is of the same kind: no two kinds
//! share an owner.

use super::request::{Form, Request, Script, Value, write_bytes, write_number};
use crate::core::base::Mechanism;

/// Fewer calls are made one by one: it would cost more to take them apart than it saves.
const WORTH_IT: usize = 3;

/// A run's script, and how many keys, arguments and calls there are.
const RUN_HEAD: usize = 4;

/// One call in a write, and how many of the requests it makes.
pub(crate) struct Call {
    pub(crate) requests: usize,
    pub(super) script: &'static Script,
    pub(super) form: Form,
}

/// What a batch has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// No call was made, for the node's mark is another one.
    NothingDone,
    /// To each call; `None`: it failed, in whatever state, and has to go out by itself.
    Each(Vec<Option<Value>>),
}

impl Call {
    pub(crate) fn is_batch(&self) -> bool {
        self.requests > 1
    }

    /// What was answered, if that is an answer of a batch of ours.
    pub(crate) fn answers(&self, value: Value) -> Result<Answers, Value> {
        let alone = |answer: &Value| matches!(answer, Value::Text(text) if text == "alone");
        let ours = |answer: &Value| matches!(answer, Value::Int(_) | Value::List(_));
        match value {
            Value::Int(0) => Ok(Answers::NothingDone),
            Value::List(answers)
                if answers.len() == self.requests
                    && answers.iter().all(|answer| ours(answer) || alone(answer)) =>
            {
                Ok(Answers::Each(answers.into_iter().map(|it| Some(it).filter(ours)).collect()))
            }
            strange => Err(strange),
        }
    }
}

/// Puts batchable calls last, so that a retried batch cannot be overtaken by a call that came behind a
/// release in it; each kind's calls together, in the order in which the first of each has come. Calls of scripts that
/// [go last](Script::last) are behind these.
pub(crate) fn put_in_order<T>(jobs: &mut [T], request: impl Fn(&T) -> &Request) {
    let mut batches: Vec<&Script> = Vec::new();
    for (_, batch) in jobs.iter().filter_map(|job| request(job).script().batch()) {
        if !batches.iter().any(|known| std::ptr::eq(*known, batch)) {
            batches.push(batch);
        }
    }
    jobs.sort_by_key(|job| {
        let script = request(job).script();
        if script.goes_last() && Mechanism::WithdrawalsGoLast.is_on() {
            return usize::MAX;
        }
        let Some((_, batch)) = script.batch() else { return 0 };
        let place = batches.iter().position(|known| std::ptr::eq(*known, batch));
        place.map_or(0, |place| 1 + place)
    });
}

/// Appends the calls of `requests`, in order, to what will be written to a node that keeps its mark at
/// `mark_key`. Each request comes with the mark under which it is to be granted. If not `together`, each is
/// a call of its own. `form` says how a script is named.
pub(super) fn write(
    requests: &[(&Request, &str)],
    mark_key: &[u8],
    together: bool,
    mut form: impl FnMut(&'static Script) -> Form,
    buffer: &mut Vec<u8>,
) -> Vec<Call> {
    let mut calls = Vec::new();
    for run in requests.chunk_by(|(a, _), (b, _)| have_one_batch(a, b)) {
        match run[0].0.script().batch() {
            Some((_, batch)) if together && run.len() >= WORTH_IT => {
                let form = form(batch);
                write_batch(run, batch, mark_key, form, buffer);
                calls.push(Call { requests: run.len(), script: batch, form });
            }
            _ => calls.extend(run.iter().map(|(request, mark)| {
                let script = request.script();
                let form = form(script);
                request.write_to(buffer, form, mark);
                Call { requests: 1, script, form }
            })),
        }
    }
    calls
}

fn have_one_batch(a: &Request, b: &Request) -> bool {
    match (a.script().batch(), b.script().batch()) {
        (Some((_, a)), Some((_, b))) => std::ptr::eq(a, b),
        _ => false,
    }
}

/// Whether one head does for both.
fn are_alike(a: &Request, b: &Request) -> bool {
    std::ptr::eq(a.script(), b.script()) && a.counts() == b.counts()
}

/// One call that makes all of `requests`, as `lua/mutex/batch.lua` takes it.
fn write_batch(
    requests: &[(&Request, &str)],
    batch: &Script,
    mark_key: &[u8],
    form: Form,
    buffer: &mut Vec<u8>,
) {
    // They are written at one moment, so there is one mark.
    let mark = requests.iter().map(|(_, mark)| *mark).find(|mark| !mark.is_empty());
    let runs = || requests.chunk_by(|(a, _), (b, _)| are_alike(a, b));
    let (mut keys, mut arguments) = (1, 1 + runs().count() * RUN_HEAD);
    for (request, _) in requests {
        let (its_keys, its_arguments) = request.counts();
        keys += its_keys;
        arguments += its_arguments;
    }
    batch.write_to(buffer, form, keys, arguments);
    write_bytes(buffer, mark_key);
    requests.iter().for_each(|(request, _)| request.write_keys(buffer));
    write_bytes(buffer, mark.unwrap_or_default().as_bytes());
    for run in runs() {
        let request = run[0].0;
        let (keys, arguments) = request.counts();
        let name = request.script().batch().map_or("", |(name, _)| name);
        write_bytes(buffer, name.as_bytes());
        [keys, arguments, run.len()].into_iter().for_each(|count| write_number(buffer, count));
        run.iter().for_each(|(request, _)| request.write_arguments(buffer, ""));
    }
}

/// What is written for `requests`, as [`write`] does it, as commands with the scripts' sources; and which
/// calls they are.
#[cfg(all(test, feature = "embedded"))]
pub(crate) fn evals(
    requests: &[(&Request, &str)],
    mark_key: &[u8],
    together: bool,
) -> Vec<(Call, Vec<Vec<u8>>)> {
    let mut buffer = Vec::new();
    let calls = write(requests, mark_key, together, |_| Form::Source, &mut buffer);
    let (mut parser, mut left) = (redis::Parser::new(), buffer.as_slice());
    let command = |call| {
        let command = parser.parse_value(&mut left).expect("a command");
        (call, redis::from_redis_value(command).expect("a list of strings"))
    };
    calls.into_iter().map(command).collect()
}

#[cfg(all(test, feature = "embedded"))]
#[path = "batch_tests.rs"]
mod tests;
