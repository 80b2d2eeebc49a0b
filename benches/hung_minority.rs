//! Cost of hung, dead and busy masters, measured on five real ones: `cargo bench`.
//!
//! A benchmark is not a test. Next to a figure for which the crate states a bound, it prints PASS
//! or FAIL; the exit status does not depend on the figures.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{ErrorKind, Guard, Quorlock};
use server::{Server, Servers, wait_until};

#[path = "../tests/support/cpu.rs"]
mod cpu;
#[path = "../tests/support/server.rs"]
mod server;

const NODES: usize = 5;
const NODE_TIMEOUT: Duration = Duration::from_millis(200);
/// Number of clients that look for a quorum that is missing. The worst result counts.
const TRIES: usize = 20;

fn main() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores, node timeout {NODE_TIMEOUT:?}");
    let mut servers = Servers::start(NODES);
    hung_minority(&mut servers);
    throughput(&servers);
    hung_majority(&mut servers);
    all_refused(&mut servers);
}

/// One thread, with all masters healthy and with two of them hung, in turns.
fn hung_minority(servers: &mut Servers) {
    const TURNS: usize = 2;
    const WARM_UP: usize = 300;
    const PAIRS: usize = 3_000;
    const AT_FIRST: Duration = Duration::from_secs(1);

    let locks = client(servers);
    let (mut healthy, mut at_first, mut hung) = (Times::new(), Times::new(), Times::new());
    for _ in 0..TURNS {
        wait_connected(&locks);
        Pair::measure_some(&locks, WARM_UP);
        healthy.extend(Pair::measure_some(&locks, PAIRS));

        hang(servers, 2);
        let start = Instant::now();
        while start.elapsed() < AT_FIRST {
            at_first.push(Pair::measure(&locks));
        }
        Pair::measure_some(&locks, WARM_UP);
        hung.extend(Pair::measure_some(&locks, PAIRS));
        wake(servers);
    }

    println!("\nLock and unlock, one thread, microseconds");
    println!("                           pairs    median       p99       max");
    show("healthy", &healthy);
    show("two hung, first second", &at_first);
    show("two hung, after it", &hung);
    let above = |times: &[Pair]| {
        let calls = times.iter().flat_map(|pair| [pair.lock, pair.unlock]);
        calls.filter(|time| *time > NODE_TIMEOUT).count()
    };
    println!("calls above the node timeout in the first second: {}", above(&at_first));
    check(above(&hung) == 0, &format!("calls above it afterwards: {}, none", above(&hung)));
    for (call, of) in CALLS {
        let ratio = median(&hung, of).as_secs_f64() / median(&healthy, of).as_secs_f64();
        check(ratio <= 1.5, &format!("{call}: median with two hung is {ratio:.2} x, up to 1.5 x"));
    }
}

/// Many threads on names of their own, over one client.
fn throughput(servers: &Servers) {
    println!("\nThroughput, every thread on a name of its own");
    println!("  threads   pairs per second   scripts per write");
    let mut batch = 0.0;
    for threads in [1, 8, 64] {
        let rate;
        (rate, batch) = saturate(servers, threads);
        println!("  {threads:>7}   {rate:>16.0}   {batch:>17.2}");
    }
    check(batch > 1.0, &format!("64 threads: {batch:.2} scripts per write, above 1"));
}

/// Pairs per second, and scripts per write.
fn saturate(servers: &Servers, threads: usize) -> (f64, f64) {
    const WARM_UP: Duration = Duration::from_millis(300);
    const SPAN: Duration = Duration::from_secs(2);

    let locks = client(servers);
    wait_connected(&locks);
    let (measuring, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (locks, measuring, over) = (&locks, &measuring, &over);
                scope.spawn(move || {
                    let mutex = locks.mutex(format!("bench/{thread}"));
                    let mut pairs = 0_usize;
                    while !over.load(Ordering::Relaxed) {
                        mutex.lock().and_then(Guard::unlock).expect("healthy nodes");
                        pairs += usize::from(measuring.load(Ordering::Relaxed));
                    }
                    pairs
                })
            })
            .collect();
        thread::sleep(WARM_UP);
        let before = scripts_and_writes(&locks);
        measuring.store(true, Ordering::Relaxed);
        let start = Instant::now();
        thread::sleep(SPAN);
        over.store(true, Ordering::Relaxed);
        let took = start.elapsed().as_secs_f64();
        let after = scripts_and_writes(&locks);
        let pairs: usize =
            workers.into_iter().map(|worker| worker.join().expect("a worker ends")).sum();
        let batch = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
        (pairs as f64 / took, batch)
    })
}

/// Three of five masters hang: no lock can be granted, and an attempt must report that in time.
fn hung_majority(servers: &mut Servers) {
    println!("\nNoQuorum with three of five hung, the first try of {TRIES} fresh clients");
    let connected = (0..TRIES).map(|_| {
        let locks = client(servers);
        wait_connected(&locks);
        hang(servers, 3);
        let refusal = Refusal::measure(&locks);
        wake(servers);
        refusal
    });
    let connected = Refusal::worst(connected);
    hang(servers, 3);
    let unconnected = Refusal::worst((0..TRIES).map(|_| Refusal::measure(&client(servers))));
    wake(servers);
    for (when, worst) in [("after", connected), ("before", unconnected)] {
        let bound = NODE_TIMEOUT + Duration::from_millis(50);
        check(worst.took <= bound, &format!("hung {when} connecting: {worst}, up to {bound:?}"));
    }
}

/// All masters are dead.
fn all_refused(servers: &mut Servers) {
    println!("\nNoQuorum with all five refused, {TRIES} clients");
    let connected: Vec<_> = (0..TRIES).map(|_| client(servers)).collect();
    connected.iter().for_each(wait_connected);
    servers.iter_mut().for_each(Server::kill);
    let cut_off: Vec<_> = connected.iter().map(Refusal::measure).collect();
    drop(connected);
    let (first, second): (Vec<_>, Vec<_>) = (0..TRIES)
        .map(|_| {
            let locks = client(servers);
            (Refusal::measure(&locks), Refusal::measure(&locks))
        })
        .unzip();
    for (which, refusals) in [
        ("the first after the masters died", cut_off),
        ("the first of a fresh client", first),
        ("its second", second),
    ] {
        println!("  try_lock, {which}: {}", Refusal::worst(refusals));
    }
    lock_in_vain(servers);
}

/// Processor time of a wait for masters that do not answer.
fn lock_in_vain(servers: &Servers) {
    const PATIENCE: Duration = Duration::from_secs(3);

    // Fresh servers have forgotten nothing, and need no quarantine.
    let builder = Quorlock::builder()
        .restart_quarantine(false)
        .nodes(servers.urls())
        .no_quorum_timeout(PATIENCE);
    let locks = builder.build().expect("valid settings");
    let (start, cpu) = (Instant::now(), cpu::cpu_seconds());
    locks.lock("bench").expect_err("no node is there");
    let (took, cpu) = (start.elapsed(), cpu::cpu_seconds() - cpu);
    println!(
        "  lock, with a no_quorum_timeout of {PATIENCE:?}: {took:.2?}, {cpu:.2} s of processor time"
    );
}

/// Time until an attempt reports that there is no quorum, and the number of causes that it names.
struct Refusal {
    took: Duration,
    causes: usize,
}

impl Refusal {
    fn measure(locks: &Quorlock) -> Self {
        let start = Instant::now();
        let error = locks.try_lock("bench").expect_err("no majority is healthy");
        let took = start.elapsed();
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        Self { took, causes: error.node_faults().len() }
    }

    /// The longest time and the smallest number of causes.
    fn worst(refusals: impl IntoIterator<Item = Self>) -> Self {
        let worse =
            |a: Self, b: Self| Self { took: a.took.max(b.took), causes: a.causes.min(b.causes) };
        refusals.into_iter().reduce(worse).expect("some tries")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worst {:.1?}, {} causes", self.took, self.causes)
    }
}

/// Times of an uncontended lock and of its unlock.
#[derive(Clone, Copy)]
struct Pair {
    lock: Duration,
    unlock: Duration,
}

type Times = Vec<Pair>;

impl Pair {
    fn measure(locks: &Quorlock) -> Self {
        let start = Instant::now();
        let guard = locks.lock("bench").expect("a majority is healthy");
        let locked = Instant::now();
        guard.unlock().expect("a majority is healthy");
        Self { lock: locked - start, unlock: locked.elapsed() }
    }

    fn measure_some(locks: &Quorlock, n: usize) -> Times {
        (0..n).map(|_| Self::measure(locks)).collect()
    }
}

/// The subject of a figure: the lock, the unlock, or both together.
type Call = fn(&Pair) -> Duration;

const CALLS: [(&str, Call); 3] = [
    ("lock", |pair| pair.lock),
    ("unlock", |pair| pair.unlock),
    ("pair", |pair| pair.lock + pair.unlock),
];

fn show(state: &str, times: &[Pair]) {
    for (i, (call, of)) in CALLS.into_iter().enumerate() {
        let times = sorted(times, of);
        let (state, pairs) =
            if i == 0 { (state, times.len().to_string()) } else { ("", String::new()) };
        let [median, p99, max] = [0.5, 0.99, 1.0].map(|share| quantile(&times, share).as_micros());
        println!("{state:<22} {call:<6} {pairs:>5} {median:>9} {p99:>9} {max:>9}");
    }
}

fn median(times: &[Pair], of: Call) -> Duration {
    quantile(&sorted(times, of), 0.5)
}

fn sorted(times: &[Pair], of: Call) -> Vec<Duration> {
    let mut times: Vec<_> = times.iter().map(of).collect();
    times.sort_unstable();
    times
}

fn quantile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn check(holds: bool, what: &str) {
    println!("  {}  {what}", if holds { "PASS" } else { "FAIL" });
}

fn client(servers: &Servers) -> Quorlock {
    let builder = Quorlock::builder()
        .restart_quarantine(false)
        .nodes(servers.urls())
        .node_timeout(NODE_TIMEOUT);
    builder.build().expect("valid settings")
}

fn wait_connected(locks: &Quorlock) {
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
}

/// Stops the first `n` masters: their connections stay open, and they do not answer.
fn hang(servers: &mut Servers, n: usize) {
    servers.iter_mut().take(n).for_each(Server::pause);
}

fn wake(servers: &mut Servers) {
    servers.iter_mut().filter(|server| !server.is_up()).for_each(Server::resume);
}

/// The numbers of scripts and of writes, over all nodes.
fn scripts_and_writes(locks: &Quorlock) -> (u64, u64) {
    let stats = locks.node_stats();
    (stats.iter().map(|node| node.scripts).sum(), stats.iter().map(|node| node.writes).sum())
}
