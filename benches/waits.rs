//! Waits of callers that plain order would starve: `cargo bench --bench waits`, with `-- --seconds N` for another length of
//! each mix than 5 seconds.
//!
//! Others want locks all the time, hold each for 5 ms, and want it again at once. Each client is like a process of its own. A
//! caller that has waited for 20 s without success gives up, and counts with 20 s.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::server::Servers;
use common::{argument, client};
use quorlock::{Error, OptionalGuard as _, Quorlock};

mod common;

const NODES: usize = 3;
const HOLD: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(20);
const PERMITS: u32 = 4;

/// Takes a lock within the time limit, holds it, and gives it back. Returns true if it was granted.
type Use = fn(&Quorlock, &[&str]) -> Result<bool, Error>;

macro_rules! used {
    ($guard:expr) => {{
        let guard = $guard.optional()?;
        let is_granted = guard.is_some();
        if let Some(guard) = guard {
            thread::sleep(HOLD);
            guard.unlock()?;
        }
        Ok(is_granted)
    }};
}

const KINDS: [(&str, Use); 8] = [
    ("mutex", |locks, names| used!(locks.mutex(names[0]).try_lock_for(PATIENCE))),
    ("reentrant", |locks, names| used!(locks.reentrant_mutex(names[0]).try_lock_for(PATIENCE))),
    ("read", |locks, names| used!(locks.rw_lock(names[0]).try_read_for(PATIENCE))),
    ("write", |locks, names| used!(locks.rw_lock(names[0]).try_write_for(PATIENCE))),
    ("fair", |locks, names| used!(locks.fair_mutex(names[0]).try_lock_for(PATIENCE))),
    ("permit", |locks, names| used!(locks.semaphore(names[0], PERMITS).try_acquire_for(PATIENCE))),
    ("all permits", |locks, names| {
        used!(locks.semaphore(names[0], PERMITS).many(PERMITS).try_acquire_for(PATIENCE))
    }),
    ("names", |locks, names| used!(locks.multi_mutex(names).try_lock_for(PATIENCE))),
];

fn kind(name: &str) -> (&'static str, Use) {
    *KINDS.iter().find(|(known, _)| *known == name).expect("one of the kinds")
}

/// Threads of one client that want the same locks, again and again.
struct Crowd {
    client: usize,
    threads: usize,
    kind: &'static str,
    names: &'static [&'static str],
    /// Time for which each thread rests after a hold.
    rests: Duration,
}

impl Crowd {
    const fn of(
        client: usize,
        threads: usize,
        kind: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        Self { client, threads, kind, names, rests: Duration::ZERO }
    }

    const fn seldom(self) -> Self {
        Self { rests: Duration::from_millis(300), ..self }
    }
}

fn main() {
    let span = Duration::from_secs(argument("--seconds", 5));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores; each mix {span:?}; waits in ms");
    let servers = Servers::start(NODES);
    for threads in [1, 3, 8] {
        for clients in [1, 4] {
            let singles = (1..=clients).flat_map(|client| {
                [["a"].as_slice(), &["b"]].map(|name| Crowd::of(client, threads, "mutex", name))
            });
            let both = Crowd::of(0, 1, "names", &["a", "b"]).seldom();
            let title = format!("two names beside {threads} threads a name in {clients} clients");
            mix(&servers, &title, singles.chain([both]).collect(), span);
        }
    }
    for exclusive in ["mutex", "reentrant", "fair", "all permits"] {
        let shares = if exclusive == "all permits" { "permit" } else { "read" };
        let crowds = vec![
            Crowd::of(1, 4, shares, &["a"]),
            Crowd::of(2, 4, shares, &["a"]),
            Crowd::of(0, 1, exclusive, &["a"]).seldom(),
        ];
        mix(&servers, &format!("{exclusive} beside 8 of {shares}"), crowds, span);
    }
    let names: [&[&str]; 4] =
        [&["a", "b", "c"], &["b", "c", "d"], &["c", "d", "a"], &["d", "a", "b"]];
    let of_client = |client: usize| {
        let crowd =
            move |(name, _): &(&'static str, Use)| Crowd::of(client, 1, name, names[client]);
        KINDS.iter().map(crowd)
    };
    mix(
        &servers,
        "all kinds, four names, four clients",
        (0..4).flat_map(of_client).collect(),
        span,
    );
}

/// Runs the crowds side by side, and shows the grants and waits of each.
fn mix(servers: &Servers, title: &str, crowds: Vec<Crowd>, span: Duration) {
    let clients: Vec<_> = (0..=crowds.iter().map(|crowd| crowd.client).max().unwrap_or(0))
        .map(|_| client(servers))
        .collect();
    let over = AtomicBool::new(false);
    let mut waits: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for crowd in &crowds {
            for _ in 0..crowd.threads {
                let (locks, over) = (&clients[crowd.client], &over);
                threads.push((crowd.kind, scope.spawn(move || turns(locks, crowd, over))));
            }
        }
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
        for (kind, thread) in threads {
            waits.entry(kind).or_default().extend(thread.join().expect("healthy nodes"));
        }
    });
    println!("\n{title}\n{:14} {:>8} {:>8} {:>8} {:>8}", "", "calls/s", "p50", "p99", "longest");
    for (kind, mut waits) in waits {
        waits.sort_unstable();
        let at =
            |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let rate = waits.len() as f64 / span.as_secs_f64();
        println!("{kind:14} {rate:>8.1} {:>8.1} {:>8.1} {:>8.1}", at(0.5), at(0.99), at(1.0));
    }
}

/// The wait of each call of one thread.
fn turns(locks: &Quorlock, crowd: &Crowd, over: &AtomicBool) -> Vec<Duration> {
    let (_, uses) = kind(crowd.kind);
    let mut waits = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let is_granted = uses(locks, crowd.names).expect("healthy nodes");
        waits.push(asked.elapsed().saturating_sub(if is_granted { HOLD } else { Duration::ZERO }));
        thread::sleep(crowd.rests);
    }
    waits
}
