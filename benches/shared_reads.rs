//! Cost of reading under one lock by many threads of a process, each for 1 ms: `cargo bench --bench shared_reads`, with
//! `-- --threads N` for another number than 64, `--seconds N` for longer turns than one second, and `--turns N` for
//! another number of turns than 5.
//!
//! The lock is compared with a lock within one process, and with a lock that only calls a script for each read, on one
//! server.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::argument;
use common::server::{Server, Servers, wait_until};
use quorlock::Quorlock;
use redis::{Client, Script};

mod common;

const NODES: usize = 3;

/// Time for which a thread reads under the lock.
const WORK: Duration = Duration::from_millis(1);

const NAME: &str = "bench/shared";

/// The result of one turn.
#[derive(Clone, Copy)]
struct Turn {
    reads_per_s: f64,
    calls_per_read: f64,
}

/// Prepares a thread, and returns its way to read once. The call returns at the end of the read.
type Contestant<'a> = &'a (dyn Fn() -> Box<dyn FnMut()> + Sync);

fn main() {
    let threads = usize::try_from(argument("--threads", 64)).expect("a small number");
    let span = Duration::from_secs(argument("--seconds", 1));
    let turns = argument("--turns", 5);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{threads} threads that read for {WORK:?} each time; {NODES} masters, {cores} cores");
    let servers = Servers::start(NODES);
    let (shared, alone) = (client(&servers, true), client(&servers, false));
    let local = std::sync::Arc::new(parking_lot::RwLock::new(()));
    let url = servers[0].url();
    let contestants: [(&str, Contestant<'_>); 4] = [
        ("parking_lot::RwLock", &|| {
            let local = local.clone();
            Box::new(move || {
                let _guard = local.read();
                thread::sleep(WORK);
            })
        }),
        ("quorlock", &|| reader(&shared)),
        ("quorlock, local_queue(false)", &|| reader(&alone)),
        ("one script call a read, one server", &|| calls_a_script(&url)),
    ];
    let mut all = contestants.map(|_| Vec::new());
    for _ in 0..turns {
        // One after the other, again and again, since the machine is never the same for long.
        for ((_, contestant), turns) in contestants.iter().zip(&mut all) {
            turns.push(turn(&servers, *contestant, threads, span));
        }
    }
    println!("{:36} {:>10} {:>16}", "median of the turns", "reads/s", "calls per read");
    for ((name, _), turns) in contestants.iter().zip(&all) {
        let median = |figure: fn(&Turn) -> f64| {
            let mut figures: Vec<_> = turns.iter().map(figure).collect();
            figures.sort_unstable_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        let (reads, calls) = (median(|turn| turn.reads_per_s), median(|turn| turn.calls_per_read));
        println!("{name:36} {reads:>10.0} {calls:>16.4}");
    }
}

fn client(servers: &Servers, local_queue: bool) -> Quorlock {
    // Fresh servers have forgotten nothing, and need no quarantine.
    let builder = Quorlock::builder().restart_quarantine(false).nodes(servers.urls());
    let locks = builder.local_queue(local_queue).build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    locks
}

fn reader(locks: &Quorlock) -> Box<dyn FnMut()> {
    let lock = locks.rw_lock(NAME);
    Box::new(move || {
        let _guard = lock.read().expect("healthy nodes");
        thread::sleep(WORK);
    })
}

/// The thread has a connection of its own, and gives nothing back.
fn calls_a_script(url: &str) -> Box<dyn FnMut()> {
    let client = Client::open(url).expect("a valid address");
    let mut connection = client.get_connection().expect("a healthy server");
    let script = Script::new("return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)");
    Box::new(move || {
        let mut call = script.key("bench/counted");
        call.arg("owner").invoke::<u64>(&mut connection).expect("a healthy server");
        thread::sleep(WORK);
    })
}

fn turn(servers: &Servers, contestant: Contestant<'_>, threads: usize, span: Duration) -> Turn {
    let (over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let calls = || servers.iter().map(Server::script_calls).sum::<u64>();
    let (before, start) = (calls(), Instant::now());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut read = contestant();
                while !over.load(Ordering::Relaxed) {
                    read();
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
    });
    let (reads, took) = (reads.into_inner() as f64, start.elapsed().as_secs_f64());
    Turn { reads_per_s: reads / took, calls_per_read: (calls() - before) as f64 / reads }
}
