//! `docs/observability`, tried with a real Prometheus: it scrapes a service whose masters die. Each query of the dashboard has an
//! answer, the rules pass their own tests, and the alert of the outage comes.
//!
//! Without the programs `prometheus` and `promtool` it does nothing, and says so.

#![allow(clippy::print_stderr, reason = "the reason why nothing was tried")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fs, thread};

use quorlock::{OptionalGuard as _, Quorlock};
use serde_json::Value;
use server::reaper::{Folder, Process};
use server::{Server, Servers, wait_until};

mod page;
#[path = "../../tests/support/server.rs"]
mod server;

/// The reason for which the page cannot be made.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// The folder with the rules and the dashboard.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/observability");

/// A Prometheus that scrapes one service each second.
struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _home: Folder,
}

impl Prometheus {
    fn start(service: SocketAddr) -> Self {
        let home = Folder::create("quorlock-prometheus").expect("a folder for temporary files");
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             rule_files: ['{PAGES}/alerts.yml']\n\
             scrape_configs: [{{ job_name: service, static_configs: [{{ targets: ['{service}'] }}] }}]\n"
        );
        let file = home.join("prometheus.yml");
        fs::write(&file, config).expect("a writable folder");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = free.local_addr().expect("it has a port");
        drop(free);
        let process = Process::spawn(
            Command::new("prometheus")
                .arg(format!("--config.file={}", file.display()))
                .arg(format!("--storage.tsdb.path={}", home.join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let started = Self { address, _process: process.expect("it can be run"), _home: home };
        wait_until("Prometheus", LIMIT, || started.try_get("/-/ready").is_some());
        started
    }

    /// The body of the answer; `None` if there is none, or it is an error.
    fn try_get(&self, path: &str) -> Option<String> {
        let mut connection = TcpStream::connect(self.address).ok()?;
        connection.set_read_timeout(Some(LIMIT)).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        connection.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.contains(" 200 ").then(|| body.to_owned())
    }

    /// The series that answer the query, each with its value.
    fn query(&self, query: &str) -> Vec<(String, f64)> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let body = self.try_get(&format!("/api/v1/query?query={encoded}"));
        let body = body.unwrap_or_else(|| panic!("{query} is a query"));
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        let series = answer["data"]["result"].as_array().expect("a list").iter();
        let value = |it: &Value| it["value"][1].as_str().and_then(|text| text.parse().ok());
        let found = series.filter_map(|it| Some((it["metric"].to_string(), value(it)?)));
        // A quantile of nothing is no answer.
        found.filter(|(_, value): &(String, f64)| !value.is_nan()).collect()
    }

    /// The sum of the values that answer the query.
    fn sum(&self, query: &str) -> f64 {
        self.query(query).iter().map(|(_, value)| value).sum()
    }

    /// Returns true if that alert is pending or firing.
    fn has_alert(&self, name: &str) -> bool {
        let body = self.try_get("/api/v1/alerts").expect("a list of alerts");
        body.contains(&format!("\"alertname\":\"{name}\""))
    }
}

/// Returns true if the program can be run.
fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

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

/// Takes locks one after the other until it is told to stop, and counts them.
fn work(locks: &Quorlock, taken: &AtomicU64, stops: &AtomicBool) {
    while !stops.load(Ordering::Relaxed) {
        let found = locks.try_lock_for("orders/42", Duration::from_millis(5)).optional();
        if let Ok(Some(guard)) = found {
            taken.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(10));
            drop(guard);
        }
    }
}

fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(PAGES).output();
    let output = output.expect("it can be run");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
}

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
    let (taken, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| page::serve(&web, &page));
        // A panic of this thread must not leave the others at work.
        let ends = Ends { web: &web, stops: &stops };
        let prometheus = Prometheus::start(service);
        let guard = locks.lock("held").expect("three masters");
        let workers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| work(&locks, &taken, &stops))).collect();

        for (title, query) in queries() {
            let answered = || !prometheus.query(&query).is_empty();
            wait_until(&format!("an answer to {query} ({title})"), LIMIT, answered);
        }
        assert!(!prometheus.has_alert("QuorlockNoQuorum"), "all masters are up");

        servers.iter_mut().take(2).for_each(Server::kill);
        wait_until("the alert", LIMIT, || prometheus.has_alert("QuorlockNoQuorum"));
        wait_until("the other alert", LIMIT, || prometheus.has_alert("QuorlockNodeDown"));
        guard.lost().recv_timeout(LIMIT).expect("no majority renews it");
        wait_until("the loss", LIMIT, || prometheus.sum("sum(quorlock_losses_total)") == 1.0);

        stops.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().expect("no panic");
        }
        #[allow(clippy::cast_precision_loss, reason = "there are not so many")]
        let all = (taken.load(Ordering::Relaxed) + 1) as f64;
        let acquired = "sum(quorlock_calls_total{outcome=\"acquired\"})";
        wait_until("all grants", LIMIT, || prometheus.sum(acquired) == all);
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
