//! Cost of the protections that can be switched off, measured on five real masters: `cargo bench`.
//!
//! The machine is never the same for two seconds. So the variants are measured in turns, in one run,
//! and the result is the median of the ratios of neighbours.
//!
//! A benchmark is not a test. Next to a figure with a goal, it prints PASS or FAIL; the exit status
//! does not depend on the figures.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, Guard, Quorlock};
use redis::Value;
use server::{Server, Servers, wait_until};

#[path = "../tests/support/cpu.rs"]
mod cpu;
#[allow(unreachable_pub, reason = "tests have it as a module of `support`")]
#[path = "../tests/support/lua.rs"]
mod lua;
#[path = "../tests/support/server.rs"]
mod server;

const NODES: usize = 5;
/// Number of turns of each variant, and the length of a turn.
const TURNS: usize = 40;
const SPAN: Duration = Duration::from_millis(150);

/// The variants that are measured. The others are compared with the first one.
const VARIANTS: [Variant; 4] = [
    Variant {
        name: "bare",
        settings: |builder| builder.fencing(false).restart_quarantine(false),
        goals: None,
    },
    Variant { name: "fencing", settings: |builder| builder.restart_quarantine(false), goals: None },
    Variant { name: "quarantine", settings: |builder| builder.fencing(false), goals: None },
    Variant { name: "both", settings: |builder| builder, goals: Some([1.08, 1.25, 1.25]) },
];

/// Numbers of threads, each on a name of its own.
const THREADS: [usize; 3] = [1, 8, 64];

struct Variant {
    name: &'static str,
    settings: fn(Builder) -> Builder,
    /// Largest time for a lock and its unlock, as a multiple of the first variant's time, with each
    /// number of [`THREADS`].
    goals: Option<[f64; 3]>,
}

fn main() {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("{NODES} masters on this machine of {cores} cores; {TURNS} turns of {SPAN:?} each");
    let servers = Servers::start(NODES);
    let clients = VARIANTS.map(|variant| client(&servers, &variant));
    for (i, threads) in THREADS.into_iter().enumerate() {
        let turns = take_turns(&servers, &clients, threads);
        report(threads, &turns);
        compare(&turns, i);
        let [acquires, confirms] = extra_rounds(&servers[0], &clients[VARIANTS.len() - 1], threads);
        let share = 100.0 * confirms as f64 / acquires as f64;
        println!("Extra rounds for numbers: {confirms} of {acquires} locks, {share:.2} %");
    }
}

/// Number of requests for a lock to a node in one turn, and number of second rounds that tell the
/// node the lock's number, since too few had answered with it.
fn extra_rounds(server: &Server, locks: &Quorlock, threads: usize) -> [usize; 2] {
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).expect("it is up");
    monitor.write_all(b"MONITOR\r\n").expect("it reads");
    let listening = monitor.try_clone().expect("a socket can be cloned");
    let confirm = redis::Script::new(&lua::with_includes(include_str!("../lua/mutex/confirm.lua")));
    let confirm = format!("\"EVALSHA\" \"{}\"", confirm.get_hash());
    let counting = thread::spawn(move || {
        let mut counts = [0; 2];
        for line in BufReader::new(listening).lines().map_while(Result::ok) {
            // One call may contain many acquires. Each of them tries to set the lock's key.
            let acquires = line.contains(" lua] \"SET\"") && line.contains("\"NX\"");
            counts[0] += usize::from(acquires);
            counts[1] += usize::from(line.contains(&confirm));
        }
        counts
    });
    lock_all_the_time(locks, threads);
    monitor.shutdown(Shutdown::Both).expect("it is open");
    counting.join().expect("no panic")
}

/// The blocks of each variant, in the order of their turns.
fn take_turns(servers: &Servers, clients: &[Quorlock], threads: usize) -> Vec<Vec<Block>> {
    let mut turns: Vec<Vec<Block>> = clients.iter().map(|_| Vec::new()).collect();
    for locks in clients {
        Block::measure(servers, locks, threads); // Scripts are loaded, and names are known.
    }
    for turn in 0..TURNS {
        // The order is reversed every second time, so that no variant profits from being the first.
        let mut order: Vec<_> = (0..clients.len()).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for i in order {
            turns[i].push(Block::measure(servers, &clients[i], threads));
        }
    }
    turns
}

/// The results of one variant in one turn.
struct Block {
    /// Times of each lock with its unlock, sorted.
    times: Vec<Duration>,
    per_second: f64,
    /// Mean number of scripts for a lock and its unlock, on all nodes together.
    scripts: f64,
    writes: f64,
    /// Processor time for one lock and its unlock, in microseconds: of this process, of a server, and
    /// in that server's scripts alone.
    client_us: f64,
    server_us: f64,
    scripts_us: f64,
}

impl Block {
    fn measure(servers: &Servers, locks: &Quorlock, threads: usize) -> Self {
        let (before, start) = (Spent::now(servers, locks), Instant::now());
        let mut times = lock_all_the_time(locks, threads);
        let (took, after) = (start.elapsed(), Spent::now(servers, locks));
        times.sort_unstable();
        let pairs = times.len() as f64;
        let nodes = servers.len() as f64;
        Self {
            per_second: pairs / took.as_secs_f64(),
            scripts: (after.scripts - before.scripts) / pairs,
            writes: (after.writes - before.writes) / pairs,
            client_us: (after.client - before.client) * 1e6 / pairs,
            server_us: (after.servers - before.servers) * 1e6 / pairs / nodes,
            scripts_us: (after.in_scripts - before.in_scripts) * 1e6 / pairs / nodes,
            times,
        }
    }
}

/// Has that number of threads take locks of their own and give them back, for a turn. Returns the
/// time of each lock with its unlock.
fn lock_all_the_time(locks: &Quorlock, threads: usize) -> Vec<Duration> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |thread| {
            let over = &over;
            scope.spawn(move || {
                let mutex = locks.mutex(format!("bench/{thread}"));
                let mut times = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    mutex.lock().and_then(Guard::unlock).expect("healthy nodes");
                    times.push(start.elapsed());
                }
                times
            })
        };
        let workers: Vec<_> = (0..threads).map(work).collect();
        thread::sleep(SPAN);
        over.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    })
}

/// The costs so far: processor time in seconds, scripts and writes to all nodes.
struct Spent {
    client: f64,
    servers: f64,
    in_scripts: f64,
    scripts: f64,
    writes: f64,
}

impl Spent {
    fn now(servers: &Servers, locks: &Quorlock) -> Self {
        let stats = locks.node_stats();
        let sum = |of: fn(&Server) -> f64| servers.iter().map(of).sum();
        Self {
            servers: sum(|server| {
                let cpu = info(server, "cpu");
                number(&cpu, "used_cpu_user:") + number(&cpu, "used_cpu_sys:")
            }),
            in_scripts: sum(|server| {
                let stats = info(server, "commandstats");
                let evalsha = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:"));
                evalsha.map_or(0.0, |line| number(line, "usec=") / 1e6)
            }),
            scripts: stats.iter().map(|node| node.scripts).sum::<u64>() as f64,
            writes: stats.iter().map(|node| node.writes).sum::<u64>() as f64,
            client: cpu::cpu_seconds(),
        }
    }
}

fn info(server: &Server, section: &str) -> String {
    match server.command(&["INFO", section]) {
        Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("INFO is text, not {other:?}"),
    }
}

/// Returns the number behind `name` in `text`.
fn number(text: &str, name: &str) -> f64 {
    let (_, rest) = text.split_once(name).expect("the server tells it");
    let end = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().expect("a number")
}

fn report(threads: usize, turns: &[Vec<Block>]) {
    println!("\nLock and unlock, {threads} threads on names of their own");
    println!(
        "              microseconds           per      scripts  writes     processor, us per pair"
    );
    println!(
        "             median      p99      second     per pair     client   server   in its scripts"
    );
    for (variant, blocks) in VARIANTS.iter().zip(turns) {
        let name = variant.name;
        let middle = |of: fn(&Block) -> f64| median(blocks.iter().map(of).collect());
        println!(
            "{name:<10} {:>8.0} {:>8.0} {:>11.0} {:>8.2} {:>8.2} {:>8.1} {:>8.2} {:>10.2}",
            middle(|block| quantile_us(block, 0.5)),
            middle(|block| quantile_us(block, 0.99)),
            middle(|block| block.per_second),
            middle(|block| block.scripts),
            middle(|block| block.writes),
            middle(|block| block.client_us),
            middle(|block| block.server_us),
            middle(|block| block.scripts_us),
        );
    }
}

/// Compares each variant with the first one: the median over the turns, and the quartiles.
fn compare(turns: &[Vec<Block>], row: usize) {
    for (variant, blocks) in VARIANTS.iter().zip(turns).skip(1) {
        let ratios = |of: fn(&Block) -> f64| {
            let mut ratios: Vec<_> =
                blocks.iter().zip(&turns[0]).map(|(block, bare)| of(block) / of(bare)).collect();
            ratios.sort_unstable_by(f64::total_cmp);
            [0.25, 0.5, 0.75].map(|share| ratios[quantile(ratios.len(), share)])
        };
        for (what, of, goal) in [
            ("median time", (|block| quantile_us(block, 0.5)) as fn(&Block) -> f64, None),
            (
                "time at that throughput",
                |block| 1.0 / block.per_second,
                variant.goals.map(|goals| goals[row]),
            ),
            ("processor time of the client", |block| block.client_us, None),
            ("of a server", |block| block.server_us, None),
            ("in its scripts", |block| block.scripts_us, None),
        ] {
            let [lower, middle, upper] = ratios(of);
            let judged = match goal {
                Some(goal) if middle <= goal => format!("  PASS, up to {goal:.2}"),
                Some(goal) => format!("  FAIL, up to {goal:.2}"),
                None => String::new(),
            };
            println!(
                "  {} / {}, {what:<28} {middle:.3} ({lower:.3} to {upper:.3}){judged}",
                variant.name, VARIANTS[0].name
            );
        }
    }
}

fn quantile_us(block: &Block, share: f64) -> f64 {
    block.times[quantile(block.times.len(), share)].as_secs_f64() * 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[quantile(values.len(), 0.5)]
}

/// The index of that quantile in that number of sorted values.
fn quantile(values: usize, share: f64) -> usize {
    ((values - 1) as f64 * share).round() as usize
}

fn client(servers: &Servers, variant: &Variant) -> Quorlock {
    let prefix = format!("{}:", variant.name);
    let builder = Quorlock::builder().nodes(servers.urls()).key_prefix(prefix);
    let locks = (variant.settings)(builder).build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    // No lock can be held on servers that have just been started.
    wait_until("all nodes to be admitted", Duration::from_secs(10), || locks.admit().is_ok());
    locks
}
