//! A Prometheus that scrapes one service each second.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::server::reaper::{Folder, Process};
use crate::server::wait_until;
use crate::{LIMIT, PAGES};

pub(crate) struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _home: Folder,
}

impl Prometheus {
    pub(crate) fn start(service: SocketAddr) -> Self {
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

    /// The series in the answer to a query, at that path and with those further parameters.
    fn ask(&self, path: &str, query: &str, more: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let body = self.try_get(&format!("/api/v1/{path}?query={encoded}{more}"));
        let body = body.unwrap_or_else(|| panic!("{query} is a query"));
        let mut answer: Value = serde_json::from_str(&body).expect("JSON");
        let Value::Array(series) = answer["data"]["result"].take() else {
            panic!("no list: {body}")
        };
        series
    }

    /// The series that answer the query, each with its value.
    pub(crate) fn query(&self, query: &str) -> Vec<(String, f64)> {
        let series = self.ask("query", query, "").into_iter();
        let found = series.filter_map(|it| Some((it["metric"].to_string(), value(&it["value"])?)));
        // A quantile of nothing is no answer.
        found.filter(|(_, value): &(String, f64)| !value.is_nan()).collect()
    }

    /// The sum of the values that answer the query.
    pub(crate) fn sum(&self, query: &str) -> f64 {
        self.query(query).iter().map(|(_, value)| value).sum()
    }

    /// The values of a query for one series, one for each of the last seconds. Zero where there is none.
    pub(crate) fn last(&self, seconds: u64, query: &str) -> Vec<f64> {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = time.as_ref().map_or(0, Duration::as_secs);
        let from = now - seconds;
        let series = self.ask("query_range", query, &format!("&start={from}&end={now}&step=1"));
        let empty = Vec::new();
        let points = series.first().and_then(|it| it["values"].as_array()).unwrap_or(&empty);
        let at = |second: u64| {
            let point = points.iter().find(|point| point[0].as_f64() == Some(second as f64));
            point.and_then(value).filter(|value| value.is_finite()).unwrap_or_default()
        };
        (from..=now).map(at).collect()
    }

    /// Returns true if that alert is pending or firing.
    pub(crate) fn has_alert(&self, name: &str) -> bool {
        let body = self.try_get("/api/v1/alerts").expect("a list of alerts");
        body.contains(&format!("\"alertname\":\"{name}\""))
    }
}

/// The value of a point: a time, and a text.
fn value(point: &Value) -> Option<f64> {
    point[1].as_str().and_then(|text| text.parse().ok())
}

/// Returns true if the program can be run.
pub(crate) fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

pub(crate) fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).current_dir(PAGES).output();
    let output = output.expect("it can be run");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
}
