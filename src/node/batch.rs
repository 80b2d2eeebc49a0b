//! The bytes of a call that makes one request, or several in one step; and the answers of a batch.

use super::job::Job;
use super::request::{Request, Script, Taking, Value, write_bytes, write_number};
use crate::core::link::{Answers, Form};

/// Arguments before those of a run's requests: its script, and its numbers of keys, arguments and calls.
const RUN_HEAD: usize = 4;

/// Arguments behind these, if the requests take locks: the lifetimes of the locks and of their fences.
const LIFETIMES: usize = 2;

/// Returns the answers of a batch of `requests` requests; as an error, a value that no batch of ours answers.
pub(crate) fn answers(value: Value, requests: usize) -> Result<Answers<Value>, Value> {
    let alone = |answer: &Value| matches!(answer, Value::Text(text) if text == "alone");
    let is_known = |answer: &Value| answer.is_of_script() || alone(answer);
    match value {
        Value::Int(0) => Ok(Answers::NothingDone),
        Value::List(answers) if answers.len() == requests && answers.iter().all(is_known) => {
            Ok(Answers::Each(
                answers.into_iter().map(|it| Some(it).filter(Value::is_of_script)).collect(),
            ))
        }
        strange => Err(strange),
    }
}

/// Appends the call that makes `jobs` on a node with its mark at `mark_key`: one job, or several by `batch`.
/// Locks are granted under `mark`.
pub(super) fn write(
    jobs: &[Job],
    batch: Option<&Script>,
    form: Form,
    (mark_key, mark): (&[u8], &str),
    buffer: &mut Vec<u8>,
) {
    let mark_of = |job: &Job| if job.is_taking() { mark } else { "" };
    match batch {
        Some(batch) => {
            let mark = jobs.iter().map(mark_of).find(|mark| !mark.is_empty());
            let requests: Vec<_> = jobs.iter().map(|job| &*job.request.request).collect();
            let mark = mark.unwrap_or_default();
            write_batch(&requests, batch, form, (mark_key, mark), buffer);
        }
        None => {
            jobs.iter().for_each(|job| job.request.request.write_to(buffer, form, mark_of(job)))
        }
    }
}

/// Returns true if both requests fit into one run.
fn are_alike(a: &Request, b: &Request) -> bool {
    a.script() == b.script()
        && a.counts() == b.counts()
        && match (a.as_taking(), b.as_taking()) {
            (Some(a), Some(b)) => a.lifetimes().eq(b.lifetimes()),
            _ => true,
        }
}

/// One call that makes all of `requests`, as `lua/mutex/batch.lua` takes it.
fn write_batch(
    requests: &[&Request],
    batch: &Script,
    form: Form,
    (mark_key, mark): (&[u8], &str),
    buffer: &mut Vec<u8>,
) {
    let runs = || requests.chunk_by(|a, b| are_alike(a, b));
    let counts = |request: &Request| match request.as_taking() {
        Some(taking) => taking.counts(),
        None => request.counts(),
    };
    let (mut keys, mut arguments) = (1, 1);
    for run in runs() {
        let (its_keys, its_arguments) = counts(run[0]);
        let lifetimes = if run[0].as_taking().is_some() { LIFETIMES } else { 0 };
        keys += its_keys * run.len();
        arguments += RUN_HEAD + lifetimes + its_arguments * run.len();
    }
    batch.write_to(buffer, form, keys, arguments);
    write_bytes(buffer, mark_key);
    for run in runs() {
        if run[0].as_taking().is_some() {
            run.iter().for_each(|request| buffer.extend_from_slice(request.first_key()));
            let takings = run.iter().filter_map(|request| request.as_taking());
            takings.for_each(|taking| buffer.extend_from_slice(taking.other_keys()));
        } else {
            run.iter().for_each(|request| request.write_keys(buffer));
        }
    }
    write_bytes(buffer, mark.as_bytes());
    for run in runs() {
        let name = run[0].script().batch().map_or("", |(name, _)| name);
        let (keys, arguments) = counts(run[0]);
        write_bytes(buffer, name.as_bytes());
        [keys, arguments, run.len()].into_iter().for_each(|count| write_number(buffer, count));
        for lifetime in run[0].as_taking().into_iter().flat_map(Taking::lifetimes) {
            if lifetime.is_empty() {
                write_bytes(buffer, b"");
            }
            buffer.extend_from_slice(lifetime);
        }
        for request in run {
            match request.as_taking() {
                Some(taking) => taking.write_arguments(buffer),
                None => request.write_arguments(buffer, ""),
            }
        }
    }
}

/// The call that makes `requests`, one or several by `batch`, as a command with the script's source.
#[cfg(all(test, feature = "embedded"))]
pub(crate) fn eval(
    requests: &[&Request],
    batch: Option<&Script>,
    (mark_key, mark): (&[u8], &str),
) -> Vec<Vec<u8>> {
    let Some(batch) = batch else { return requests[0].eval(mark) };
    let mut buffer = Vec::new();
    write_batch(requests, batch, Form::Source, (mark_key, mark), &mut buffer);
    let command = redis::parse_redis_value(&buffer).expect("a command");
    redis::from_redis_value(command).expect("a list of strings")
}

#[cfg(all(test, feature = "embedded"))]
#[path = "batch_tests.rs"]
mod tests;
