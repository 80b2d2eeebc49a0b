//! A program without a `tracing` subscriber finds the events in its log: with any logger for the crate
//! `log`, at the level that loggers show by default.

mod support;

use std::thread;
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;
use quorlock::Quorlock;
use support::{Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(20);

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// The program's logger, such as `env_logger`.
struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            LINES.lock().push((record.level(), record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

fn told(words: &[&str]) -> bool {
    let lines = LINES.lock();
    let is_it = |line: &str| words.iter().all(|word| line.contains(word));
    lines.iter().any(|(level, line)| *level == Level::Warn && is_it(line))
}

/// An event explains the wait for the first lock of new masters when the wait begins: its duration, its
/// end, and the ways to shorten it, with their places.
#[test]
fn the_wait_for_new_masters_is_told_when_it_begins() {
    const MAX_TTL: Duration = Duration::from_secs(3_600);
    log::set_logger(&Logger).expect("the only one");
    log::set_max_level(LevelFilter::Warn);
    let servers = Servers::start(3);
    let builder = Quorlock::builder().nodes(servers.urls()).max_ttl(MAX_TTL);
    let locks = builder.node_timeout(Duration::from_secs(5)).build().expect("valid settings");
    thread::scope(|scope| {
        // With a limit, in case the test fails.
        let waiting = scope.spawn(|| locks.try_lock_for("orders/42", LIMIT));
        wait_until("the wait to be told", LIMIT, || {
            told(&[
                "a lock is waited for",
                "orders/42",
                "in quarantine",
                "max_ttl is 1 h",
                "If nothing can be held",
                "Quorlock::admit",
                "For development and CI",
                "restart_quarantine(false)",
                "\"The first seconds\"",
                "it is new, or was emptied or restarted",
            ])
        });
        for url in servers.urls() {
            wait_until("each master to be told", LIMIT, || {
                told(&["node is in quarantine", &url, "it is new", "max_ttl=1 h"])
            });
        }
        assert!(!waiting.is_finished(), "it waits");
        locks.admit().expect("nothing is held there");
        let guard = waiting.join().expect("no panic").expect("admitted, and it is free");
        guard.unlock().expect("healthy nodes");
    });
    // A known server without its mark has been emptied.
    servers[0].command(&["FLUSHALL"]);
    wait_until("the flush to be told", LIMIT, || {
        let _ = locks.try_lock("orders/42");
        told(&["node is in quarantine", &servers[0].url(), "it was emptied (FLUSHALL)"])
    });
    assert!(!told(&["node is in quarantine", &servers[1].url(), "emptied (FLUSHALL)"]));
}
