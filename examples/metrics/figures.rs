//! A service whose figures Prometheus can scrape: `GET /metrics`.
//!
//! ```text
//! cargo run --package examples-metrics --example figures              # works for some seconds, and checks what the page says
//! cargo run --package examples-metrics --example figures -- --serve   # works and serves until it is killed
//! ```
//!
//! The feature `metrics` of quorlock gives the figures of each client to the recorder of the crate `metrics`. Here that is the
//! one of Prometheus. `docs/observability` has alert rules and a dashboard. With `--serve`, name the masters in `QUORLOCK_NODES`: a
//! `kill` of this program would leave its own ones behind.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a demonstration talks to whoever runs it"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use masters::{Failure, Masters};
use quorlock::{ErrorKind, OptionalGuard as _, Quorlock};
use tiny_http::Server;

#[path = "../common/masters.rs"]
mod masters;
mod page;

/// Number of threads that take orders.
const WORKERS: u64 = 4;

/// Number of items. Few, so that workers have to wait for each other.
const ITEMS: u64 = 3;

/// Duration of the demonstration.
const SHOWN_FOR: Duration = Duration::from_secs(2);

/// Limit for figures to be on the page: a client reports them once a second.
const REPORTED_WITHIN: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    // Not `process::exit`, which would leave our masters running.
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("figures: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let for_ever = env::args_os().nth(1).is_some_and(|arg| arg == "--serve");
    let page = page::install()?;
    let masters = Masters::find(3)?;
    let locks = masters.builder()?.build()?;
    let server = Server::http("127.0.0.1:0")?;
    println!("{}\nGET http://{}/metrics\n", masters.describe(), server.server_addr());

    let (taken, stops) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| page::serve(&server, &page));
        let works = |worker| {
            let (locks, taken, stops) = (&locks, &taken, &stops);
            scope.spawn(move || work(locks, worker, taken, stops))
        };
        let workers: Vec<_> = (0..WORKERS).map(works).collect();
        if !for_ever {
            thread::sleep(SHOWN_FOR);
            stops.store(true, Ordering::Relaxed);
        }
        let ended: Result<Vec<_>, _> = workers.into_iter().map(|worker| worker.join()).collect();
        let result = ended
            .map_err(|_| Failure::from("a worker panicked"))
            .and_then(|results| {
                results.into_iter().collect::<Result<(), quorlock::Error>>().map_err(Failure::from)
            })
            .and_then(|()| check(|| page.render(), taken.load(Ordering::Relaxed)));
        server.unblock();
        result
    })
}

/// Takes one order after the other, each under the lock of its item.
fn work(
    locks: &Quorlock,
    worker: u64,
    taken: &AtomicU64,
    stops: &AtomicBool,
) -> Result<(), quorlock::Error> {
    for order in worker.. {
        if stops.load(Ordering::Relaxed) {
            break;
        }
        let item = format!("orders/{}", order % ITEMS);
        match locks.try_lock_for(item, Duration::from_millis(200)).optional() {
            Ok(Some(guard)) => {
                taken.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
                guard.unlock()?;
            }
            Ok(None) => {}
            // An outage shows in the figures, and passes.
            Err(error) => match error.kind() {
                ErrorKind::NoQuorum | ErrorKind::Quarantined { .. } => {
                    thread::sleep(Duration::from_millis(100));
                }
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

/// Waits until the page has as many locks as the workers took.
fn check(page: impl Fn() -> String, taken: u64) -> Result<(), Failure> {
    let wanted = format!("quorlock_calls_total{{kind=\"mutex\",outcome=\"acquired\"}} {taken}");
    let deadline = Instant::now() + REPORTED_WITHIN;
    loop {
        let text = page();
        if text.lines().any(|line| line == wanted) {
            let shown = |line: &&str| line.starts_with("quorlock_") && !line.ends_with(" 0");
            text.lines()
                .filter(shown)
                .filter(|line| !line.contains("_bucket"))
                .for_each(|line| println!("  {line}"));
            println!("\nThe workers took {taken} locks, and the page says so.");
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("{wanted:?} is not on the page:\n{text}").into());
        }
        thread::sleep(Duration::from_millis(50));
    }
}
