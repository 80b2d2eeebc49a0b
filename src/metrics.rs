//! Gives the figures of a client to the recorder of the crate `metrics`, once a second.
//!
//! A recorder may be slow, so it is never called by a thread that takes or holds a lock. One thread for each client reads
//! the client's own figures and reports the difference from the last time. So a value is up to a second old, and no call pays for it.

mod samples;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use ::metrics::{Key, Label, Level, Metadata, with_recorder};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use parking_lot::Mutex;

use crate::clock;
use crate::error::Error;
use crate::runtime::client_state::ClientState;
use crate::stats::{Recorder, Stats};
use samples::{Sample, Value};

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

static METADATA: Metadata<'static> = Metadata::new("quorlock", Level::INFO, Some("quorlock"));

/// The values of this process: those of all its clients, added up. A recorder that is set late gets them as well.
static PROCESS: LazyLock<Mutex<Process>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Process {
    totals: HashMap<Key, u64>,
    sums: HashMap<Key, f64>,
}

/// Starts the thread that reports the figures of that client, and ends with it.
pub(crate) fn start(client: &Arc<ClientState>) -> Result<(), Error> {
    let exporter = Exporter {
        client: Arc::downgrade(client),
        recorder: client.recorder().clone(),
        ended: client.ended().clone(),
        before: Vec::new(),
    };
    clock::spawn("quorlock-metrics".to_owned(), move || exporter.run()).map_err(|error| {
        Error::config(format!(
            "no thread could be started for metrics ({error}); raise the limit of threads"
        ))
    })?;
    Ok(())
}

struct Exporter {
    client: Weak<ClientState>,
    /// Outlives the client, so that its last figures are reported.
    recorder: Arc<Recorder>,
    /// Ends with the client.
    ended: Receiver<()>,
    /// The samples that were reported last, in the same order as all others.
    before: Vec<Sample>,
}

impl Exporter {
    fn run(mut self) {
        loop {
            let stats = match self.client.upgrade() {
                Some(client) => client.stats(),
                None => self.recorder.snapshot(),
            };
            self.report(&stats);
            if self.ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        let last = self.recorder.snapshot();
        self.report(&last);
    }

    /// Reports the difference from the last report. The last one of a client has no nodes, whose values stay as they were.
    ///
    /// The series are described and looked up each time: a program may set its recorder after it has built the client.
    fn report(&mut self, stats: &Stats) {
        let samples = samples::of(stats);
        let mut described = HashSet::new();
        for (i, sample) in samples.iter().enumerate() {
            if described.insert(sample.name) {
                describe(sample);
            }
            sample.report(self.before.get(i).map(|before| &before.value));
        }
        self.before.splice(..samples.len().min(self.before.len()), samples);
    }
}

fn describe(sample: &Sample) {
    let Sample { name, unit, text, .. } = *sample;
    match sample.value {
        Value::Total(_) => ::metrics::describe_counter!(name, unit, text),
        Value::Shared(_) | Value::State(_) => ::metrics::describe_gauge!(name, unit, text),
        Value::Times(_) => ::metrics::describe_histogram!(name, unit, text),
    }
}

impl Sample {
    /// Reports the value; `before` is the client's value in the last report.
    #[allow(
        clippy::significant_drop_tightening,
        reason = "clients report one after the other, so that no older sum follows a newer one"
    )]
    fn report(&self, before: Option<&Value>) {
        let labels = self.labels.iter().map(|(key, value)| Label::new(*key, value.clone()));
        let key = Key::from_parts(self.name, labels.collect::<Vec<_>>());
        match &self.value {
            Value::Total(now) => {
                let then = if let Some(Value::Total(then)) = before { *then } else { 0 };
                let mut process = PROCESS.lock();
                let total = process.totals.entry(key.clone()).or_default();
                *total += now.saturating_sub(then);
                with_recorder(|it| it.register_counter(&key, &METADATA)).absolute(*total);
            }
            Value::Shared(now) => {
                let then = if let Some(Value::Shared(then)) = before { *then } else { 0.0 };
                let mut process = PROCESS.lock();
                let sum = process.sums.entry(key.clone()).or_default();
                *sum += now - then;
                with_recorder(|it| it.register_gauge(&key, &METADATA)).set(*sum);
            }
            Value::State(now) => {
                with_recorder(|it| it.register_gauge(&key, &METADATA)).set(*now);
            }
            Value::Times(now) => {
                let histogram = with_recorder(|it| it.register_histogram(&key, &METADATA));
                let new = match before {
                    Some(Value::Times(then)) => now.since(then),
                    _ => now.clone(),
                };
                for (end, count) in new.buckets() {
                    let count = usize::try_from(count).unwrap_or(usize::MAX);
                    histogram.record_many(end.as_secs_f64(), count);
                }
            }
        }
    }
}
