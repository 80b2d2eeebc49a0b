//! The figures of clients, as a recorder of the crate `metrics` gets them.

#![cfg(feature = "metrics")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use parking_lot::Mutex;
use quorlock::OptionalGuard as _;
use support::clients::patient;
use support::{Servers, wait_until};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Long enough for a busy machine to keep every lock of a test alive. A lock is renewed after a quarter of it.
const TTL: Duration = Duration::from_secs(12);

/// One series: its value, or the sum of its durations in seconds, and the number of reports.
#[derive(Debug, Default)]
struct Series(Mutex<(f64, u64)>);

impl Series {
    fn change(&self, f: impl FnOnce(f64) -> f64, reports: u64) {
        let mut series = self.0.lock();
        *series = (f(series.0), series.1 + reports);
    }
}

#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
impl CounterFn for Series {
    fn increment(&self, by: u64) {
        self.change(|value| value + by as f64, 1);
    }

    fn absolute(&self, value: u64) {
        self.change(|_| value as f64, 1);
    }
}

impl GaugeFn for Series {
    fn increment(&self, by: f64) {
        self.change(|value| value + by, 1);
    }

    fn decrement(&self, by: f64) {
        self.change(|value| value - by, 1);
    }

    fn set(&self, to: f64) {
        self.change(|_| to, 1);
    }
}

#[allow(clippy::cast_precision_loss, reason = "the numbers are small")]
impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.change(|sum| sum + value, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.change(|sum| value.mul_add(count as f64, sum), count as u64);
    }
}

/// Remembers every series by its name and labels.
#[derive(Clone, Debug, Default)]
struct Remembering {
    series: Arc<Mutex<BTreeMap<String, Arc<Series>>>>,
    described: Arc<Mutex<BTreeMap<String, Option<Unit>>>>,
}

impl Remembering {
    fn of(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(","));
        self.series.lock().entry(name.trim().to_owned()).or_default().clone()
    }

    /// The value and the number of reports of the series with that name and those labels.
    fn get(&self, series: &str) -> Option<(f64, u64)> {
        self.series.lock().get(series).map(|series| *series.0.lock())
    }

    fn value(&self, series: &str) -> f64 {
        self.get(series).unwrap_or_else(|| panic!("{series} is in {:?}", self.names())).0
    }

    fn names(&self) -> Vec<String> {
        self.series.lock().keys().cloned().collect()
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>) {
        self.described.lock().insert(name.as_str().to_owned(), unit);
    }
}

impl Recorder for Remembering {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.of(key))
    }
}

const ACQUIRED: &str = "quorlock_calls_total kind=mutex,outcome=acquired";
const HELD: &str = "quorlock_calls_total kind=mutex,outcome=held";

/// One test, since a process has one recorder.
#[test]
fn a_recorder_gets_the_figures_of_all_clients_and_no_series_for_a_name() {
    const NAMES: u32 = 10_000;
    let recorder = Remembering::default();
    let servers = Servers::start(3);
    // A program may build its clients before it sets its recorder.
    let clients = [(); 2].map(|()| patient(&servers, TTL));
    metrics::set_global_recorder(recorder.clone()).expect("the only one");

    wait_until("all series, with zeros", LIMIT, || {
        let nodes = servers.urls().len();
        let up = |name: &String| name.starts_with("quorlock_node_kept_releases");
        recorder.names().iter().filter(|name| up(name)).count() == nodes
    });
    let names = recorder.names();
    assert!(names.len() > 60, "{names:?}");
    assert_eq!((recorder.value(ACQUIRED), recorder.value(HELD)), (0.0, 0.0));
    for name in &names {
        let (name, _) = name.split_once(' ').unwrap_or((name, ""));
        let unit = recorder.described.lock().get(name).copied();
        let unit = unit.unwrap_or_else(|| panic!("{name} is described"));
        let expected = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        assert_eq!(unit, Some(expected), "{name}");
    }

    let held = clients[0].lock("held").expect("it is free");
    for i in 0..NAMES {
        drop(clients[i as usize % 2].lock(format!("orders/{i}")).expect("it is free"));
    }
    assert!(clients[1].try_lock("held").optional().expect("three nodes").is_none(), "it is held");
    let all = f64::from(NAMES) + 1.0;
    wait_until("the calls of both clients", LIMIT, || {
        recorder.value(ACQUIRED) >= all && recorder.value(HELD) >= 1.0
    });
    assert_eq!((recorder.value(ACQUIRED), recorder.value(HELD)), (all, 1.0));
    let waits = || recorder.get("quorlock_wait_seconds").map_or(0, |(_, reports)| reports);
    wait_until("a wait for each of them", LIMIT, || waits() == u64::from(NAMES) + 1);
    wait_until("the one that is held", LIMIT, || recorder.value("quorlock_holding") == 1.0);
    assert_eq!(recorder.names(), names, "no series more");
    let node = |name: &str| format!("{name} node=127.0.0.1:{}", servers[0].port());
    assert_eq!(recorder.value(&node("quorlock_node_up")), 1.0);
    let admitted = format!("{},condition=admitted", node("quorlock_node_condition"));
    let quarantined = format!("{},condition=quarantined", node("quorlock_node_condition"));
    assert_eq!((recorder.value(&admitted), recorder.value(&quarantined)), (1.0, 0.0));
    let quorum = (recorder.value("quorlock_granting_nodes"), recorder.value("quorlock_majority"));
    assert_eq!(quorum, (3.0, 2.0));

    // Seconds are the unit of times, and a renewal leaves some of them.
    wait_until("a renewal", LIMIT, || {
        recorder.value("quorlock_renewals_total outcome=confirmed") >= 1.0
    });
    let left = || recorder.get("quorlock_renewal_validity_left_seconds").expect("it is there");
    wait_until("its validity", LIMIT, || left().1 >= 1);
    let (sum, reports) = left();
    #[allow(clippy::cast_precision_loss, reason = "there are few")]
    let mean = sum / reports as f64;
    assert!(mean > 1.0 && mean < TTL.as_secs_f64() * 1.125, "{mean} of {TTL:?}");

    let labelled = clients[0].mutex("labelled").metrics_label("orders");
    drop(labelled.lock().expect("it is free"));
    let of_label = "quorlock_labelled_calls_total label=orders,outcome=acquired";
    wait_until("the calls of the label", LIMIT, || {
        recorder.get(of_label).is_some_and(|(calls, _)| calls == 1.0)
    });
    let all = all + 1.0;

    let short = clients[0].mutex("short").max_hold(Duration::from_secs(5));
    let guard = short.lock().expect("it is free");
    guard.lost().recv_timeout(LIMIT).expect("it ends");
    drop(guard);
    let lost = "quorlock_losses_total reason=max_hold";
    wait_until("the loss", LIMIT, || recorder.value(lost) == 1.0);
    let all = all + 1.0;

    // The last figures of a client are reported after its end.
    drop(held);
    drop((clients, labelled, short));
    wait_until("the end of the clients", LIMIT, || recorder.value("quorlock_holding") == 0.0);
    let holds = || recorder.get("quorlock_hold_seconds").map_or(0, |(_, reports)| reports);
    wait_until("the last hold", LIMIT, || holds() == u64::from(NAMES) + 3);
    assert_eq!(recorder.value(ACQUIRED), all);
    let up = node("quorlock_node_up");
    wait_until("no client that knows the nodes", LIMIT, || recorder.value(&up).is_nan());
}
