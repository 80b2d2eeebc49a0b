//! `docs/observability`, tried with a real Prometheus: it scrapes a service whose masters die. Each query of the dashboard has an
//! answer, the rules pass their own tests, the alert of the outage comes, and the figures are those of the service's own account.
//!
//! Without the programs `prometheus` and `promtool` it does nothing, and says so.

#![allow(clippy::print_stderr, reason = "the table, or the reason why nothing was tried")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use prometheus::{Prometheus, is_there, promtool};
use quorlock::{Error, ErrorKind, Guard, Quorlock};
use serde_json::Value;
use server::{Server, Servers, holds_within, wait_until};

mod page;
mod picture;
mod prometheus;
#[path = "../../tests/support/server.rs"]
mod server;
#[allow(dead_code, reason = "pictures of other kinds need the rest")]
#[path = "../../benches/compare/src/svg.rs"]
mod svg;

/// The reason for which the page cannot be made.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// The environment variable that names the file for a picture of the run.
const PICTURE: &str = "QUORLOCK_PICTURE";

/// The folder with the rules and the dashboard.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability");

/// The queries of the dashboard, each with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(PAGES).join("dashboard.json")).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("a list") {
        for target in panel["targets"].as_array().expect("a list") {
            let query = target["expr"].as_str().expect("a text").replace("$__rate_interval", "10s");
            queries.push((panel["title"].as_str().expect("a text").to_owned(), query));
        }
    }
    queries
}

/// The service's own account of its calls and losses.
#[derive(Debug, Default)]
struct Account {
    /// The number of ended calls, by the label `outcome`.
    calls: BTreeMap<&'static str, u64>,
    /// The duration of the calls that got a lock.
    waited: Duration,
    lost: u64,
}

impl Account {
    /// Makes the call, and notes how it ended.
    fn note(&mut self, call: impl FnOnce() -> Result<Guard, Error>) -> Option<Guard> {
        let began = Instant::now();
        let result = call();
        let took = began.elapsed();
        let outcome = match &result {
            Ok(_) => "acquired",
            Err(error) => match error.kind() {
                ErrorKind::Held { .. } => "held",
                ErrorKind::NoQuorum => "no_quorum",
                ErrorKind::Quarantined { .. } => "quarantined",
                _ => panic!("no fault explains it: {error}"),
            },
        };
        *self.calls.entry(outcome).or_default() += 1;
        let guard = result.ok()?;
        self.waited += took;
        Some(guard)
    }

    fn add(&mut self, other: Self) {
        for (outcome, n) in other.calls {
            *self.calls.entry(outcome).or_default() += n;
        }
        self.waited += other.waited;
        self.lost += other.lost;
    }

    /// Writes the account beside Prometheus's figures. Returns true if they agree.
    #[allow(clippy::cast_precision_loss, reason = "there are not so many")]
    fn agrees_with(&self, prometheus: &Prometheus, table: &mut String) -> bool {
        let of = |outcome: &str| format!("sum(quorlock_calls_total{{outcome=\"{outcome}\"}})");
        let calls =
            ["acquired", "held", "no_quorum", "quarantined", "cancelled", "closed", "error"];
        let mut rows: Vec<_> = calls
            .map(|outcome| {
                let own = self.calls.get(outcome).copied().unwrap_or_default() as f64;
                (format!("calls: {outcome}"), own, prometheus.sum(&of(outcome)))
            })
            .into();
        let losses = prometheus.sum("sum(quorlock_losses_total)");
        rows.push(("losses".to_owned(), self.lost as f64, losses));
        let agree = rows.iter().all(|(_, own, told)| own == told);
        // The library's times lie within the service's. Each is reported with an error of up to an eighth, or a microsecond.
        let waited = prometheus.sum("sum(quorlock_wait_seconds_sum)");
        let own = self.waited.as_secs_f64();
        *table = format!("{:<20} | {:>10} | {:>10}\n", "figure", "service", "Prometheus");
        for (what, own, told) in rows {
            *table += &format!("{what:<20} | {own:>10} | {told:>10}\n");
        }
        *table += &format!("{:<20} | {own:>8.3} s | {waited:>8.3} s", "waits");
        agree && waited <= own * 1.125 + 1e-3 && waited >= own / 2.0
    }
}

/// Takes locks one after the other until it is told to stop.
fn work(locks: &Quorlock, stops: &AtomicBool) -> Account {
    let mut account = Account::default();
    while !stops.load(Ordering::Relaxed) {
        let call = || locks.try_lock_for("orders/42", Duration::from_millis(5));
        if let Some(guard) = account.note(call) {
            thread::sleep(Duration::from_millis(10));
            drop(guard);
        }
    }
    account
}

/// Masters that fail one after the other, and together, and come back.
fn trouble(servers: &mut Servers) {
    for master in 0..3 {
        servers[master].pause();
        thread::sleep(FAULT);
        servers[master].resume();
        servers[master].kill();
        thread::sleep(FAULT);
        servers[master].restart_empty();
    }
    servers.iter_mut().for_each(Server::pause);
    thread::sleep(FAULT);
    servers.iter_mut().for_each(Server::resume);
}

/// Duration of a fault.
const FAULT: Duration = Duration::from_millis(500);

#[test]
fn a_real_prometheus_answers_each_query_and_tells_of_an_outage() {
    if !is_there("prometheus") || !is_there("promtool") {
        eprintln!("left out: no prometheus and promtool to run");
        return;
    }
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts_test.yml"]);

    let page = page::install().expect("the only recorder");
    let mut servers = Servers::start(3);
    let ttl = Duration::from_secs(4);
    let builder = Quorlock::builder().nodes(servers.urls()).ttl(ttl).max_ttl(ttl);
    let locks = builder.restart_quarantine(false).build().expect("valid settings");
    let web = tiny_http::Server::http("127.0.0.1:0").expect("a free port");
    let service = web.server_addr().to_ip().expect("it has a port");
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| page::serve(&web, &page));
        // A panic of this thread must not leave the others at work.
        let ends = Ends { web: &web, stops: &stops };
        let prometheus = Prometheus::start(service);
        let began = Instant::now();
        let mut account = Account::default();
        let guard = account.note(|| locks.lock("held")).expect("three masters");
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| work(&locks, &stops))).collect();

        for (title, query) in queries() {
            let answered = || !prometheus.query(&query).is_empty();
            wait_until(&format!("an answer to {query} ({title})"), LIMIT, answered);
        }
        assert!(!prometheus.has_alert("QuorlockNoQuorum"), "all masters are up");
        trouble(&mut servers);

        servers.iter_mut().take(2).for_each(Server::kill);
        wait_until("the alert", LIMIT, || prometheus.has_alert("QuorlockNoQuorum"));
        wait_until("the other alert", LIMIT, || prometheus.has_alert("QuorlockNodeDown"));
        guard.lost().recv_timeout(LIMIT).expect("no majority renews it");
        account.lost += 1;
        servers.iter_mut().take(2).for_each(Server::restart_empty);
        let again = || prometheus.sum("sum(rate(quorlock_calls_total{outcome=\"acquired\"}[3s]))");
        wait_until("grants as before", LIMIT, || again() > 1.0);

        stops.store(true, Ordering::Relaxed);
        for worker in workers {
            account.add(worker.join().expect("no panic"));
        }
        let mut table = String::new();
        let agree = holds_within(LIMIT, || account.agrees_with(&prometheus, &mut table));
        eprintln!("{table}");
        assert!(agree, "the figures differ");
        if let Some(file) = env::var_os(PICTURE) {
            // The first figures come some seconds after the first scrape.
            let seconds = began.elapsed().as_secs().saturating_sub(5).max(1);
            fs::write(file, picture::picture(&prometheus, seconds)).expect("it can be written");
        }
        drop(ends);
    });
}

/// Ends the threads of the test, also if that panics.
struct Ends<'a> {
    web: &'a tiny_http::Server,
    stops: &'a AtomicBool,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        self.web.unblock();
    }
}
