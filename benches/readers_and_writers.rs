//! Order of readers and writers that want one lock all the time: `cargo bench --bench readers_and_writers`, with `-- --rounds
//! N` for another number than 50, and `--hold-ms N` for holds of another length than 2 ms.
//!
//! The figure is the number of the others' holds that begin between a call and its return with a guard. Each client is like a
//! process of its own.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::server::Servers;
use common::{argument, client};
use quorlock::RwLock;

mod common;

const NODES: usize = 3;

/// Pause between two calls of the client that is measured.
const PAUSE: Duration = Duration::from_millis(20);

const NAME: &str = "bench/turns";

/// The result of one measured call: the number of the others' holds that began, and the time that it took.
type Waited = (usize, Duration);

fn main() {
    let rounds = usize::try_from(argument("--rounds", 50)).expect("a small number");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let hold = Duration::from_millis(argument("--hold-ms", 2));
    println!("{NODES} masters on this machine of {cores} cores; each hold lasts {hold:?}");
    let servers = Servers::start(NODES);
    println!("{:44} {:>8} {:>8} {:>12} {:>12}", "", "median", "most", "median wait", "longest");
    for clients in [1, 4] {
        let what = format!("a writer among 8 readers of {clients} client(s)");
        show(&what, writer_among_readers(&servers, clients, rounds, hold));
    }
    show("a reader among 4 writers of 4 clients", reader_among_writers(&servers, rounds, hold));
}

/// Counts reads that begin while the writer waits. Readers never rest.
fn writer_among_readers(
    servers: &Servers,
    clients: usize,
    rounds: usize,
    hold: Duration,
) -> Vec<Waited> {
    let readers: Vec<_> = (0..clients).map(|_| client(servers)).collect();
    let others: Vec<_> = (0..8).map(|nth| readers[nth % clients].rw_lock(NAME)).collect();
    let writer = client(servers).rw_lock(NAME);
    let read = |lock: &RwLock, began: &AtomicUsize| {
        let guard = lock.read().expect("healthy nodes");
        began.fetch_add(1, Ordering::Relaxed);
        thread::sleep(hold);
        drop(guard);
    };
    alone_among(&others, read, rounds, hold, || {
        let guard = writer.write().expect("healthy nodes");
        Box::new(guard)
    })
}

/// Counts writes that begin while the reader waits. Writers never rest.
fn reader_among_writers(servers: &Servers, rounds: usize, hold: Duration) -> Vec<Waited> {
    let others: Vec<_> = (0..4).map(|_| client(servers).rw_lock(NAME)).collect();
    let reader = client(servers).rw_lock(NAME);
    let write = |lock: &RwLock, began: &AtomicUsize| {
        let guard = lock.write().expect("healthy nodes");
        began.fetch_add(1, Ordering::Relaxed);
        thread::sleep(hold);
        drop(guard);
    };
    alone_among(&others, write, rounds, hold, || {
        let guard = reader.read().expect("healthy nodes");
        Box::new(guard)
    })
}

fn alone_among(
    others: &[RwLock],
    others_hold: impl Fn(&RwLock, &AtomicUsize) + Sync,
    rounds: usize,
    hold: Duration,
    take: impl Fn() -> Box<dyn std::any::Any>,
) -> Vec<Waited> {
    let (over, began) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for lock in others {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    others_hold(lock, &began);
                }
            });
        }
        let waited = (0..rounds).map(|_| {
            thread::sleep(PAUSE);
            let (before, start) = (began.load(Ordering::Relaxed), Instant::now());
            let guard = take();
            let waited = (began.load(Ordering::Relaxed) - before, start.elapsed());
            thread::sleep(hold);
            drop(guard);
            waited
        });
        let waited = waited.collect();
        over.store(true, Ordering::Relaxed);
        waited
    })
}

fn show(what: &str, mut waited: Vec<Waited>) {
    let middle = waited.len() / 2;
    waited.sort_unstable_by_key(|(others, _)| *others);
    let (median, most) = (waited[middle].0, waited[waited.len() - 1].0);
    waited.sort_unstable_by_key(|(_, took)| *took);
    let ms = |nth: usize| waited[nth].1.as_secs_f64() * 1e3;
    let (usual, longest) = (ms(middle), ms(waited.len() - 1));
    println!("{what:44} {median:>8} {most:>8} {usual:>9.1} ms {longest:>9.1} ms");
}
