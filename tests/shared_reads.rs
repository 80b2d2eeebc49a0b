//! Threads of one process that read under one lock: they share one hold on the nodes, and writers of other processes get
//! their turns.

#![allow(clippy::print_stdout, reason = "figures, for whoever asks for them")]

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{OptionalGuard as _, Quorlock, ReadGuard, RwLock, WriteGuard};
use redis::Value;
use support::clients::{patient, patient_on};
use support::proxy::Proxy;
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);

#[track_caller]
fn read(lock: &RwLock) -> ReadGuard {
    let guard = lock.try_read_for(LIMIT).expect("nobody writes for so long");
    guard.check().expect("a lock that is given out is held");
    guard
}

#[test]
fn sixty_four_threads_that_read_ask_the_nodes_next_to_nothing() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 50;
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    let lock = locks.rw_lock("orders/42");
    let calls = || servers.iter().map(Server::script_calls).sum::<u64>();
    let (before, begun) = (calls(), Instant::now());
    let all = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let guard = read(&lock);
                    // All threads hold the lock at once, and give it back after that.
                    all.wait();
                    drop(guard);
                }
            });
        }
    });
    // The number of further leases that a busy machine may need.
    let further = begun.elapsed().as_millis() as u64 / 100;
    servers.wait_no_keys();
    // A round takes one lease, and one more for each 100 ms of its duration. So the nodes run few calls: two each for a lease.
    let (asked, reads) = (calls() - before, (THREADS * ROUNDS) as u64);
    println!("{reads} reads: {asked} calls of scripts by the 3 nodes");
    let most = reads / 5 + 3 * 2 * further;
    assert!(asked < most, "{asked} calls of scripts for {reads} reads");
}

/// Reads that begin while a writer waits, by threads that came before it and by those that came after it.
#[derive(Default)]
struct Between {
    /// The number of a writer's beginnings and ends of waiting. An odd number means that it waits.
    calls: AtomicUsize,
    came_before: AtomicUsize,
    came_after: AtomicUsize,
}

impl Between {
    fn read(&self, lock: &RwLock) -> ReadGuard {
        let came_at = self.calls.load(Ordering::SeqCst);
        let guard = read(lock);
        let began_at = self.calls.load(Ordering::SeqCst);
        if began_at % 2 == 1 {
            let which = if came_at == began_at { &self.came_after } else { &self.came_before };
            which.fetch_add(1, Ordering::SeqCst);
        }
        guard
    }

    /// Takes the write lock. Returns the number of both sorts of reads meanwhile.
    fn write(&self, lock: &RwLock) -> (Option<WriteGuard>, [usize; 2]) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let guard = lock.try_write_for(LIMIT).optional().expect("healthy nodes");
        self.calls.fetch_add(1, Ordering::SeqCst);
        (guard, [&self.came_before, &self.came_after].map(|count| count.swap(0, Ordering::SeqCst)))
    }
}

/// Returns true if a client subscribes on that node to the lock's waiting writers.
fn tells_of_writers(server: &Server, name: &str) -> bool {
    let channels = server.command(&["PUBSUB", "CHANNELS", &format!("*{name}}}:waiting")]);
    matches!(channels, Value::Array(channels) if !channels.is_empty())
}

const READERS: usize = 8;

/// Eight threads of one client read that lock all the time, until a writer of another client has had it. Returns the number
/// of reads that began while it waited: by threads that came before it, and after it.
fn reads_before_a_write(
    servers: &Servers,
    name: &str,
    readers: &Quorlock,
    writers: &Quorlock,
) -> [usize; 2] {
    let (lock, writer) = (readers.rw_lock(name), writers.rw_lock(name));
    let between = Between::default();
    let (writes, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        for i in 0..READERS {
            let (between, writes, over, lock) = (&between, &writes, &over, &lock);
            // Readers hold the lock for different times, so that they do not begin and end together.
            let works = Duration::from_micros(3_000 + 500 * i as u64);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let guard = between.read(lock);
                    assert!(!writes.load(Ordering::Relaxed), "somebody writes");
                    thread::sleep(works);
                    assert!(!writes.load(Ordering::Relaxed), "somebody writes");
                    drop(guard);
                }
            });
        }
        wait_until("they share a lease", LIMIT, || {
            servers.iter().all(|server| tells_of_writers(server, name))
        });
        let (guard, reads) = between.write(&writer);
        let served = guard.is_some();
        writes.store(served, Ordering::Relaxed);
        guard.iter().for_each(|guard| guard.check().expect("it is held"));
        writes.store(false, Ordering::Relaxed);
        drop(guard);
        over.store(true, Ordering::Relaxed);
        assert!(served, "it never gets in");
        reads
    })
}

/// A node reports a waiting writer, and from then on no thread joins the lease that the readers share. A client that
/// does not hear the nodes joins it for the rest of its 100 ms. Both clients take turns in this test, so that a busy machine
/// slows both.
#[test]
fn a_writer_of_another_process_gets_in_before_new_readers() {
    const ROUNDS: usize = 15;
    let servers = Servers::start(3);
    let (readers, writers) = (patient(&servers, TTL), patient(&servers, TTL));
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    proxies.iter().for_each(Proxy::swallow_messages);
    let deaf = patient_on(proxies.iter().map(Proxy::url), TTL);
    let (mut heard, mut unheard) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Separate names: where other callers have waited a moment ago, a process does not join a lease for long.
        let names = ["heard", "unheard"].map(|which| format!("{which}/{round}"));
        heard.push(reads_before_a_write(&servers, &names[0], &readers, &writers));
        unheard.push(reads_before_a_write(&servers, &names[1], &deaf, &writers));
    }
    println!("while a writer waits, by threads that came before it and after it: {heard:?}");
    println!("and in a client that does not hear of it: {unheard:?}");
    let after = |rounds: &[[usize; 2]]| rounds.iter().map(|[_, after]| after).sum::<usize>();
    assert!(after(&heard) * 2 < after(&unheard), "it makes no difference that it is told");
    servers.wait_no_keys();
}
