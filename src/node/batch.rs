//! The bytes of a call that makes one request, or several in one step; and the answers of a batch.

use super::job::Job;
use super::request::{Request, Script, Taking, Value, write_bytes, write_number};
use crate::core::link::{Answers, Form};

/// Arguments before those of a run's requests: its script, and its numbers of keys, arguments and calls.
const RUN_HEAD: usize = 4;

/// Arguments behind these, if the requests take locks: the lifetimes of the locks and of their fences, or two empty ones if each
/// request comes with its own.
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

/// Returns true if both requests fit into one run. Calls that take locks may have different lifetimes, and one of them may lack
/// the arguments at the end that the other has.
fn are_alike(a: &Request, b: &Request) -> bool {
    let counts = |request: &Request| {
        let (keys, arguments) = request.counts();
        (keys, request.as_taking().is_none().then_some(arguments))
    };
    a.script() == b.script() && counts(a) == counts(b)
}

/// Several requests of one script, one after the other.
struct Run<'a> {
    requests: &'a [&'a Request],
    /// The numbers of keys and of other arguments of each request, without its lifetimes if it takes a lock.
    counts: (usize, usize),
    /// Given if the requests take locks.
    lifetimes: Option<Lifetimes<'a>>,
}

/// The lifetimes of the locks that the requests of a run take, and of the fences of these locks.
enum Lifetimes<'a> {
    Equal(Taking<'a>),
    OfEach,
}

impl<'a> Run<'a> {
    fn of(requests: &'a [&'a Request]) -> Self {
        let takings = || requests.iter().filter_map(|request| request.as_taking());
        let Some(first) = takings().next() else {
            return Self { requests, counts: requests[0].counts(), lifetimes: None };
        };
        let arguments = takings().map(|taking| taking.counts().1).max().unwrap_or_default();
        let are_equal = takings().all(|taking| taking.lifetimes().eq(first.lifetimes()));
        let lifetimes = if are_equal { Lifetimes::Equal(first) } else { Lifetimes::OfEach };
        Self { requests, counts: (first.counts().0, arguments), lifetimes: Some(lifetimes) }
    }

    /// The numbers of KEYS and of ARGV of the run.
    fn size(&self) -> (usize, usize) {
        let ((keys, arguments), requests) = (self.counts, self.requests.len());
        let lifetimes = match self.lifetimes {
            None => 0,
            Some(Lifetimes::Equal(_)) => 1,
            Some(Lifetimes::OfEach) => 1 + requests,
        };
        (keys * requests, RUN_HEAD + LIFETIMES * lifetimes + arguments * requests)
    }

    fn write_keys(&self, buffer: &mut Vec<u8>) {
        if self.lifetimes.is_none() {
            return self.requests.iter().for_each(|request| request.write_keys(buffer));
        }
        self.requests.iter().for_each(|request| buffer.extend_from_slice(request.first_key()));
        let takings = self.requests.iter().filter_map(|request| request.as_taking());
        takings.for_each(|taking| buffer.extend_from_slice(taking.other_keys()));
    }

    fn write_arguments(&self, buffer: &mut Vec<u8>) {
        let name = self.requests[0].script().batch().map_or("", |(name, _)| name);
        let (keys, arguments) = self.counts;
        write_bytes(buffer, name.as_bytes());
        let counts = [keys, arguments, self.requests.len()];
        counts.into_iter().for_each(|count| write_number(buffer, count));
        match &self.lifetimes {
            Some(Lifetimes::Equal(taking)) => taking.write_lifetimes(buffer),
            Some(Lifetimes::OfEach) => (0..LIFETIMES).for_each(|_| write_bytes(buffer, b"")),
            None => {}
        }
        for request in self.requests {
            let Some(taking) = request.as_taking() else {
                request.write_arguments(buffer, "");
                continue;
            };
            if let Some(Lifetimes::OfEach) = self.lifetimes {
                taking.write_lifetimes(buffer);
            }
            taking.write_arguments(buffer);
            (taking.counts().1..arguments).for_each(|_| write_bytes(buffer, b""));
        }
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
    let runs: Vec<_> = requests.chunk_by(|a, b| are_alike(a, b)).map(Run::of).collect();
    let sizes = runs.iter().map(Run::size);
    let (keys, arguments) = sizes.fold((1, 1), |all, run| (all.0 + run.0, all.1 + run.1));
    batch.write_to(buffer, form, keys, arguments);
    write_bytes(buffer, mark_key);
    runs.iter().for_each(|run| run.write_keys(buffer));
    write_bytes(buffer, mark.as_bytes());
    runs.iter().for_each(|run| run.write_arguments(buffer));
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
