//! Gives the figures of a client to the recorder of the crate `metrics`, once a second.
//!
//! A recorder may be slow, so it is never called by a thread that takes or holds a lock. One thread for each client reads
//! the client's own figures and reports the difference from the last time. So a value is up to a second old, and no call pays for it.

mod samples;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use ::metrics::{Key, Level, Metadata, with_recorder};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use parking_lot::Mutex;

use crate::clock;
use crate::error::Error;
use crate::observe;
use crate::runtime::client_state::ClientState;
use crate::stats::{Recorder, Stats};
use samples::{Sample, Value};

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

static METADATA: Metadata<'static> = Metadata::new("quorlock", Level::INFO, Some("quorlock"));

/// The totals and sums of this process: those of all its clients, added up. A recorder that is set late gets them as well; of
/// durations it gets those from then on.
static PROCESS: LazyLock<Mutex<Process>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Process {
    totals: HashMap<Key, u64>,
    sums: HashMap<Key, f64>,
    /// The number of clients that report each state.
    reporters: HashMap<Key, usize>,
}

/// Starts the thread that reports the figures of that client, and ends with it.
pub(crate) fn start(client: &Arc<ClientState>) -> Result<(), Error> {
    let exporter = Exporter {
        client: Arc::downgrade(client),
        recorder: client.recorder().clone(),
        ended: client.ended().clone(),
        before: HashMap::new(),
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
    /// The values that were reported last.
    before: HashMap<Key, Value>,
}

impl Exporter {
    fn run(mut self) {
        self.report_or_withdraw(Self::report_until_the_end);
    }

    fn report_or_withdraw(&mut self, report: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| report(self))).is_err() {
            self.withdraw();
            observe::metrics_failed();
        }
    }

    fn report_until_the_end(&mut self) {
        loop {
            let stats = match self.client.upgrade() {
                Some(client) => client.stats(),
                None => break,
            };
            self.report(&stats);
            if self.ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                break;
            }
        }
        let last = self.recorder.snapshot();
        self.report(&last);
        self.forget_the_nodes(&last);
    }

    /// Reports the difference from the last report.
    ///
    /// The series are described and looked up each time: a program may set its recorder after it has built the client.
    fn report(&mut self, stats: &Stats) {
        let mut described = HashSet::new();
        for sample in samples::of(stats) {
            if described.insert(sample.name) {
                describe(&sample);
            }
            // First of all: if the recorder panics, what is withdrawn is what the process counts.
            let before = self.before.insert(sample.key.clone(), sample.value);
            report(&sample.key, &self.before[&sample.key], before.as_ref());
        }
    }

    /// The client has ended: it keeps no release on its nodes any more, and their states are unknown if no other client reports them.
    fn forget_the_nodes(&mut self, last: &Stats) {
        let reported: HashSet<_> = samples::of(last).into_iter().map(|sample| sample.key).collect();
        let gone = self.before.keys().filter(|key| !reported.contains(*key)).cloned();
        // One after the other: if the recorder panics, the others are withdrawn.
        for key in gone.collect::<Vec<_>>() {
            let Some(before) = self.before.remove(&key) else { continue };
            match before {
                Value::State(_) if PROCESS.lock().leaves(&key) => {
                    report(&key, &Value::State(f64::NAN), Some(&before));
                }
                Value::Shared(_) => report(&key, &Value::Shared(0.0), Some(&before)),
                Value::State(_) | Value::Total(_) | Value::Times(_) => {}
            }
        }
    }

    /// Takes the client's share out of what the other clients of the process report.
    fn withdraw(&mut self) {
        let mut process = PROCESS.lock();
        for (key, before) in self.before.drain() {
            match before {
                Value::Shared(share) => {
                    process.sums.entry(key).and_modify(|sum| *sum -= share);
                }
                Value::State(_) => _ = process.leaves(&key),
                Value::Total(_) | Value::Times(_) => {}
            }
        }
    }
}

impl Process {
    /// One client less reports that state. Returns true if it was the last one.
    fn leaves(&mut self, key: &Key) -> bool {
        let reporters = self.reporters.entry(key.clone()).or_default();
        *reporters = reporters.saturating_sub(1);
        *reporters == 0
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

/// Reports the value of a series; `before` is the client's value in the last report.
#[allow(
    clippy::significant_drop_tightening,
    reason = "clients report one after the other, so that no older sum follows a newer one"
)]
fn report(key: &Key, value: &Value, before: Option<&Value>) {
    match value {
        Value::Total(now) => {
            let then = if let Some(Value::Total(then)) = before { *then } else { 0 };
            let mut process = PROCESS.lock();
            let total = process.totals.entry(key.clone()).or_default();
            *total += now.saturating_sub(then);
            with_recorder(|it| it.register_counter(key, &METADATA)).absolute(*total);
        }
        Value::Shared(now) => {
            let then = if let Some(Value::Shared(then)) = before { *then } else { 0.0 };
            let mut process = PROCESS.lock();
            let sum = process.sums.entry(key.clone()).or_default();
            *sum += now - then;
            with_recorder(|it| it.register_gauge(key, &METADATA)).set(*sum);
        }
        Value::State(now) => {
            if before.is_none() {
                *PROCESS.lock().reporters.entry(key.clone()).or_default() += 1;
            }
            with_recorder(|it| it.register_gauge(key, &METADATA)).set(*now);
        }
        Value::Times(now) => {
            let histogram = with_recorder(|it| it.register_histogram(key, &METADATA));
            let new = match before {
                Some(Value::Times(then)) => now.since(then),
                _ => now.clone(),
            };
            for (value, count) in new.values() {
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                histogram.record_many(value, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::metrics::{
        Counter, Gauge, GaugeFn, Histogram, KeyName, Recorder as Target, SharedString, Unit,
    };
    use crossbeam_channel::never;

    use super::*;
    use crate::stats::NodeStats;

    const NODE: &str = "only-in-this-test:6379";

    /// Notes the states and sums of that node.
    #[derive(Clone, Default)]
    struct Noting {
        values: Arc<Mutex<HashMap<String, f64>>>,
        panics: bool,
    }

    struct Series(Noting, String);

    impl GaugeFn for Series {
        fn increment(&self, _: f64) {}

        fn decrement(&self, _: f64) {}

        fn set(&self, value: f64) {
            let Self(Noting { values, panics }, name) = self;
            assert!(!panics || name != "quorlock_node_kept_releases", "as a recorder may");
            values.lock().insert(name.clone(), value);
        }
    }

    impl Target for Noting {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            match key.labels().any(|label| label.value() == NODE) {
                true => Gauge::from_arc(Arc::new(Series(self.clone(), key.name().to_owned()))),
                false => Gauge::noop(),
            }
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    fn exporter() -> Exporter {
        Exporter {
            client: Weak::new(),
            recorder: Arc::new(Recorder::new(&[])),
            ended: never(),
            before: HashMap::new(),
        }
    }

    /// The recorder panics at a sum of the first client. The second client reports what is left, and its node ends with it.
    #[test]
    fn a_client_whose_recorder_panics_leaves_nothing_in_the_sums_of_the_process() {
        let figures = |kept_releases| {
            let node =
                NodeStats { kept_releases, ..NodeStats::unknown(&format!("redis://{NODE}")) };
            Stats { nodes: vec![node], ..Recorder::new(&[]).snapshot() }
        };
        let (mut one, mut two) = (exporter(), exporter());
        let noting = Noting::default();
        let panicking = Noting { panics: true, ..noting.clone() };
        ::metrics::with_local_recorder(&panicking, || {
            one.report_or_withdraw(|one| one.report(&figures(5)));
        });
        ::metrics::with_local_recorder(&noting, || {
            two.report(&figures(2));
            let value = |name: &str| noting.values.lock()[name];
            assert_eq!(value("quorlock_node_kept_releases"), 2.0);
            assert_eq!(value("quorlock_node_up"), 0.0);
            two.forget_the_nodes(&Recorder::new(&[]).snapshot());
            assert_eq!(value("quorlock_node_kept_releases"), 0.0);
            assert!(value("quorlock_node_up").is_nan(), "nobody knows any more");
        });
    }
}
