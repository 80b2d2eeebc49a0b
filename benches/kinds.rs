//! Cost of each kind of lock compared with a mutex, without contention: `cargo bench --bench kinds`, with `-- --seconds N` for
//! longer turns than one second, and `--turns N` for another number of turns than 5.
//!
//! One thread takes the lock and gives it back, again and again. The kinds take turns. For each kind the benchmark shows the
//! median times of both calls, and the number of scripts that each master ran for them. One script is the release, and each
//! other one is a round trip for which the caller waits.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::thread;
use std::time::{Duration, Instant};

use common::server::{Server, Servers};
use common::{argument, client};
use quorlock::Quorlock;

mod common;

const NODES: usize = 3;

/// The number of permits of the semaphores.
const PERMITS: u32 = 100;

/// Takes a lock, and returns the closure that gives it back.
type Take = fn(&Quorlock) -> Box<dyn FnOnce()>;

fn gives_back<G>(guard: G, unlock: fn(G) -> Result<(), quorlock::Error>) -> Box<dyn FnOnce()>
where
    G: 'static,
{
    Box::new(move || unlock(guard).expect("healthy nodes"))
}

macro_rules! taken {
    ($guard:expr) => {
        gives_back($guard.expect("healthy nodes"), |guard| guard.unlock())
    };
}

const KINDS: [(&str, Take); 9] = [
    ("mutex", |locks| taken!(locks.mutex("bench/mutex").lock())),
    ("reentrant_mutex", |locks| taken!(locks.reentrant_mutex("bench/reentrant").lock())),
    ("rw_lock, read", |locks| taken!(locks.rw_lock("bench/rw").read())),
    ("rw_lock, write", |locks| taken!(locks.rw_lock("bench/rw").write())),
    ("fair_mutex", |locks| taken!(locks.fair_mutex("bench/fair").lock())),
    ("semaphore, all permits free", |locks| {
        taken!(locks.semaphore("bench/free", PERMITS).acquire())
    }),
    ("semaphore, one of 100 free", |locks| {
        taken!(locks.semaphore("bench/full", PERMITS).acquire())
    }),
    ("multi_mutex, 2 names", |locks| taken!(locks.multi_mutex(["bench/a", "bench/b"]).lock())),
    ("multi_mutex, 16 names", |locks| {
        taken!(locks.multi_mutex((0..16).map(|name| format!("bench/{name}"))).lock())
    }),
];

/// The results of all turns of one kind.
#[derive(Default)]
struct Shown {
    takes: Vec<Duration>,
    gives_back: Vec<Duration>,
    scripts: u64,
}

fn main() {
    let (span, turns) = (Duration::from_secs(argument("--seconds", 1)), argument("--turns", 5));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores; times beside those of the mutex");
    let servers = Servers::start(NODES);
    let locks = client(&servers);
    let full = locks.semaphore("bench/full", PERMITS);
    let _held: Vec<_> = (1..PERMITS).map(|_| full.acquire().expect("healthy nodes")).collect();
    let mut shown = KINDS.map(|_| Shown::default());
    for _ in 0..turns {
        for ((_, take), shown) in KINDS.iter().zip(&mut shown) {
            turn(&servers, &locks, *take, span, shown);
        }
    }
    println!(
        "{:28} {:>18} {:>18} {:>22}",
        "", "take: p50", "give back: p50", "scripts on a master"
    );
    let [mutex, ..] = &mut shown;
    let (take, back) = (median(&mut mutex.takes), median(&mut mutex.gives_back));
    for ((name, _), shown) in KINDS.iter().zip(&mut shown) {
        let times = shown.takes.len() as f64 * NODES as f64;
        println!(
            "{name:28} {:>18} {:>18} {:>22.2}",
            beside(median(&mut shown.takes), take),
            beside(median(&mut shown.gives_back), back),
            shown.scripts as f64 / times
        );
    }
}

fn turn(servers: &Servers, locks: &Quorlock, take: Take, span: Duration, shown: &mut Shown) {
    let calls = || servers.iter().map(Server::script_calls).sum::<u64>();
    let (before, start) = (calls(), Instant::now());
    while start.elapsed() < span {
        let asked = Instant::now();
        let give_back = take(locks);
        shown.takes.push(asked.elapsed());
        let asked = Instant::now();
        give_back();
        shown.gives_back.push(asked.elapsed());
    }
    shown.scripts += calls() - before;
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn beside(time: Duration, mutex: Duration) -> String {
    let times = time.as_secs_f64() / mutex.as_secs_f64();
    format!("{:.3} ms ({times:.2})", time.as_secs_f64() * 1_000.0)
}
