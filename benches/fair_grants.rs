//! Cost of a fair lock compared with a mutex: `cargo bench --bench fair_grants`, with `-- --seconds N` for longer turns than
//! two seconds, and `--turns N` for another number of turns than 3.
//!
//! Alone, one caller takes a free lock and gives it back. Contended, eight callers of four clients want one lock all the time
//! and hold it for 1 ms. Each client is like a process of its own. The two locks take turns.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::server::{Server, Servers};
use common::{argument, client};
use quorlock::{Guard, Quorlock};

mod common;

const NODES: usize = 3;
const CLIENTS: usize = 4;
const CALLERS: usize = 8;

/// Time for which a contended lock is held.
const HOLD: Duration = Duration::from_millis(1);

const NAME: &str = "bench/fair";

type Lock = fn(&Quorlock) -> Guard;

const LOCKS: [(&str, Lock); 2] = [
    ("mutex", |locks| locks.mutex(NAME).lock().expect("healthy nodes")),
    ("fair_mutex", |locks| locks.fair_mutex(NAME).lock().expect("healthy nodes")),
];

/// The result of one turn: the times from call to grant, and the number of script calls on all nodes.
struct Turn {
    waits: Vec<Duration>,
    span: Duration,
    calls: u64,
}

fn main() {
    let (span, turns) = (Duration::from_secs(argument("--seconds", 2)), argument("--turns", 3));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores; contended holds last {HOLD:?}");
    println!(
        "{:28} {:>10} {:>10} {:>10} {:>10} {:>14}",
        "", "grants/s", "p50", "p99", "longest", "scripts/grant"
    );
    let servers = Servers::start(NODES);
    let clients: Vec<_> = (0..CLIENTS).map(|_| client(&servers)).collect();
    for (what, callers, hold) in [("alone", 1, Duration::ZERO), ("contended", CALLERS, HOLD)] {
        for _ in 0..turns {
            for (name, lock) in LOCKS {
                show(
                    &format!("{name}, {what}"),
                    turn(&servers, &clients, callers, hold, lock, span),
                );
            }
        }
    }
}

fn turn(
    servers: &Servers,
    clients: &[Quorlock],
    callers: usize,
    hold: Duration,
    lock: Lock,
    span: Duration,
) -> Turn {
    let (over, waits) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let calls = || servers.iter().map(Server::script_calls).sum::<u64>();
    let (before, start) = (calls(), Instant::now());
    thread::scope(|scope| {
        for caller in 0..callers {
            let (over, waits, locks) = (&over, &waits, &clients[caller % clients.len()]);
            scope.spawn(move || {
                let mut own = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let guard = lock(locks);
                    own.push(asked.elapsed());
                    if !hold.is_zero() {
                        thread::sleep(hold);
                    }
                    guard.unlock().expect("healthy nodes");
                }
                waits.lock().expect("no panic").append(&mut own);
            });
        }
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
    });
    let mut waits = waits.into_inner().expect("no panic");
    waits.sort_unstable();
    Turn { waits, span: start.elapsed(), calls: calls() - before }
}

fn show(what: &str, Turn { waits, span, calls }: Turn) {
    let at = |share: usize| waits[(waits.len() - 1) * share / 100].as_secs_f64() * 1_000.0;
    println!(
        "{what:28} {:>10.0} {:>7.2} ms {:>7.2} ms {:>7.2} ms {:>14.1}",
        waits.len() as f64 / span.as_secs_f64(),
        at(50),
        at(99),
        at(100),
        calls as f64 / waits.len() as f64
    );
}
