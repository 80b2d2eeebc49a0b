//! Cost of 1,000 locks that are held at once, and renewed: `cargo bench --bench many_held`, with `--
//! --seconds N` for another time than 60 s, `--locks N` for another number of locks, `--ttl N` for
//! another TTL than 10 s, the default, and `--load N` for another process that takes and gives back N
//! locks a second meanwhile, at fixed times; none by default.
//!
//! A benchmark is not a test. Next to a figure for which the crate states a bound, it prints PASS or
//! FAIL; the exit status does not depend on the figures.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::argument;
use common::server::{Server, Servers, wait_until};
use quorlock::{Guard, Quorlock};

mod common;
#[path = "../tests/support/cpu.rs"]
mod cpu;

const NODES: usize = 5;

/// The held locks, and the load.
struct Plan {
    span: Duration,
    locks: usize,
    /// The TTL of the held locks. They are renewed each time a quarter to a third of it is gone.
    ttl: Duration,
    /// Number of locks a second that another process takes.
    load: u64,
}

fn main() {
    let plan = Plan {
        span: Duration::from_secs(argument("--seconds", 60)),
        locks: usize::try_from(argument("--locks", 1_000)).expect("they fit into memory"),
        ttl: Duration::from_secs(argument("--ttl", 10)),
        load: argument("--load", 0),
    };
    let nodes: Vec<_> = std::env::args().skip_while(|arg| arg != LOAD_ON).skip(1).collect();
    if !nodes.is_empty() {
        load(&client(&nodes, plan.ttl), &plan);
        return;
    }
    let Plan { locks, ttl, .. } = plan;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores; {locks} locks, TTL {ttl:?}");
    let servers = Servers::start(NODES);
    let locks = client(&servers.urls(), ttl);
    held_shortly(&locks);
    held_long(&locks, &servers, &plan);
}

fn client(nodes: &[String], ttl: Duration) -> Quorlock {
    // Fresh servers have forgotten nothing, and need no quarantine.
    let builder = Quorlock::builder().restart_quarantine(false).nodes(nodes);
    let locks = builder.ttl(ttl).max_ttl(ttl).build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    locks
}

/// The first argument of the process that makes the load, before the nodes.
const LOAD_ON: &str = "--load-on";

/// Starts the process that makes the load. At its end it prints the times of its locks.
fn start_load(servers: &Servers, plan: &Plan) -> Option<Child> {
    let &Plan { span, ttl, load, .. } = plan;
    let this = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(this);
    command.args(["--seconds", &span.as_secs().to_string(), "--ttl", &ttl.as_secs().to_string()]);
    command.args(["--load", &load.to_string(), LOAD_ON]).args(servers.urls());
    let start = || command.stdout(Stdio::piped()).spawn().expect("it has just been started");
    (load > 0).then(start)
}

/// The life of the process that makes the load.
fn load(locks: &Quorlock, plan: &Plan) {
    let every = Duration::from_secs(1) / u32::try_from(plan.load).expect("a small number");
    let start = Instant::now();
    let mut latencies = Vec::new();
    let mut failed = 0;
    let mut due = Duration::ZERO;
    while due < plan.span {
        thread::sleep(due.saturating_sub(start.elapsed()));
        match locks.lock(format!("load/{}", latencies.len())) {
            // Counted from the time when it was due: a lock that takes long delays those behind it, too.
            Ok(_) => latencies.push(start.elapsed().saturating_sub(due)),
            Err(_) => failed += 1,
        }
        due += every;
    }
    latencies.sort_unstable();
    let at = |share: usize| {
        latencies.get(latencies.len() * share / 1_000).copied().unwrap_or(Duration::MAX)
    };
    println!(
        "  load of {} locks/s by another process: {} locks, {failed} failed; p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}",
        plan.load,
        latencies.len(),
        at(500),
        at(990),
        at(999),
    );
}

/// Shows that a lock that is held for a short time needs no thread.
fn held_shortly(locks: &Quorlock) {
    const TIMES: usize = 200;
    println!("\nA lock held for 1 ms, {TIMES} times");
    let before = threads();
    let mut most = 0;
    for _ in 0..TIMES {
        let guard = locks.lock("bench/short").expect("healthy nodes");
        thread::sleep(Duration::from_millis(1));
        most = most.max(threads());
        guard.unlock().expect("healthy nodes");
    }
    let after = threads();
    check(
        before == most && before == after,
        &format!("threads before {before}, while held {most}, after {after}, the same"),
    );
}

fn held_long(locks: &Quorlock, servers: &Servers, plan: &Plan) {
    let Plan { span, locks: count, ttl, .. } = *plan;
    println!("\n{count} locks held at once for {span:?}");
    println!("  before: {} threads, {:.1} MiB resident", threads(), resident_mib());
    let start = Instant::now();
    let guards: Vec<_> = (0..count)
        .map(|lock| locks.lock(format!("bench/{lock}")).expect("healthy nodes"))
        .collect();
    println!("  taken one after the other in {:.2?}", start.elapsed());
    println!("  just taken: {} threads, {:.1} MiB resident", threads(), resident_mib());

    // The first renewals are on their way by then.
    thread::sleep(ttl / 2);
    let load = start_load(servers, plan);
    let before = Costs::so_far(locks, servers);
    let start = Instant::now();
    let (mut least, mut most_threads, mut most_mib) = (ttl, 0, 0.0_f64);
    while start.elapsed() < span {
        let remaining = guards.iter().map(Guard::remaining).min();
        least = least.min(remaining.expect("there are locks"));
        most_threads = most_threads.max(threads());
        most_mib = most_mib.max(resident_mib());
        thread::sleep(Duration::from_millis(100));
    }
    let took = start.elapsed().as_secs_f64();
    let after = Costs::so_far(locks, servers);
    let lost = guards.iter().filter(|guard| guard.check().is_err() || !guard.lost().is_empty());
    let lost = lost.count();

    if let Some(load) = load {
        let output = load.wait_with_output().expect("it ends by itself");
        print!("{}", String::from_utf8_lossy(&output.stdout));
    }
    println!("  while held: {most_threads} threads, {most_mib:.1} MiB resident at most");
    println!("  least validity ever left: {least:.0?} of {ttl:?}");
    let cpu = after.cpu - before.cpu;
    println!(
        "  processor time: {cpu:.2} s of this process, {:.1} % of one core",
        100.0 * cpu / took
    );
    println!("  per server      processor s   commands/s   scripts/s   scripts/write");
    for (i, (before, after)) in before.nodes.iter().zip(&after.nodes).enumerate() {
        println!(
            "  {i:>10}      {:>11.2}   {:>10.0}   {:>9.0}   {:>13.2}",
            after.cpu - before.cpu,
            (after.commands - before.commands) as f64 / took,
            (after.scripts - before.scripts) as f64 / took,
            (after.scripts - before.scripts) as f64 / (after.writes - before.writes) as f64,
        );
    }
    let scripts = |costs: &Costs| costs.nodes.iter().map(|node| node.scripts).sum::<u64>();
    let renewals = (scripts(&after) - scripts(&before)) as f64 / NODES as f64 / took;
    println!("  renewals per second: {renewals:.0} ({:.2} a lock)", renewals / count as f64);
    check(lost == 0, &format!("locks lost: {lost}, none"));

    let start = Instant::now();
    let failed = guards.into_iter().map(Guard::unlock).filter(Result::is_err).count();
    println!(
        "  unlocked one after the other in {:.2?}, {failed} of them not confirmed",
        start.elapsed()
    );
    thread::sleep(Duration::from_millis(100));
    println!("  after: {} threads, {:.1} MiB resident", threads(), resident_mib());
    servers.wait_no_keys();
}

/// The costs so far.
struct Costs {
    cpu: f64,
    nodes: Vec<NodeCosts>,
}

struct NodeCosts {
    cpu: f64,
    /// The server's count, which includes the commands that a script calls.
    commands: u64,
    scripts: u64,
    writes: u64,
}

impl Costs {
    fn so_far(locks: &Quorlock, servers: &Servers) -> Self {
        let nodes = servers.iter().zip(locks.node_stats()).map(|(server, stats)| NodeCosts {
            cpu: cpu::cpu_seconds_of(server.pid()),
            commands: commands(server),
            scripts: stats.scripts,
            writes: stats.writes,
        });
        Self { cpu: cpu::cpu_seconds(), nodes: nodes.collect() }
    }
}

fn commands(server: &Server) -> u64 {
    let info = server.command(&["INFO", "stats"]);
    let info: String = redis::from_redis_value(info).expect("INFO is text");
    number_after(&info, "total_commands_processed:")
}

/// The number of threads of this process.
fn threads() -> u64 {
    number_after(&status(), "Threads:")
}

/// The resident memory of this process, without memory that is only reserved.
fn resident_mib() -> f64 {
    number_after(&status(), "VmRSS:") as f64 / 1_024.0
}

fn status() -> String {
    std::fs::read_to_string("/proc/self/status").expect("Linux has /proc/self/status")
}

fn number_after(text: &str, label: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let rest = lines.next().expect("the label is there").split_whitespace().next();
    rest.and_then(|number| number.parse().ok()).expect("a number follows the label")
}

fn check(holds: bool, what: &str) {
    println!("  {}  {what}", if holds { "PASS" } else { "FAIL" });
}
