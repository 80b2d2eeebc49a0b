//! Cost of clients that are connected, and take no lock: `cargo bench --bench idle_clients`, with `-- --clients N` for
//! another number than 1,000, and `--seconds N` for another time than 30 s.
//!
//! The clients are in processes of 100. Each process counts the costs of its clients, and this one counts those of the
//! masters.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::argument;
use common::server::{Server, Servers, holds_within};
use quorlock::{OptionalGuard as _, Quorlock};

mod common;
#[path = "../tests/support/cpu.rs"]
mod cpu;

const NODES: usize = 5;
const IN_A_PROCESS: u64 = 100;
/// The first argument of a process of clients, before the nodes.
const CLIENTS_OF: &str = "--clients-of";
/// Time limit for the first probes of all clients, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

fn main() {
    let nodes: Vec<_> = std::env::args().skip_while(|arg| arg != CLIENTS_OF).skip(1).collect();
    let (count, seconds) = (argument("--clients", 1_000), argument("--seconds", 30));
    if !nodes.is_empty() {
        return be_clients(&nodes, count);
    }
    let span = Duration::from_secs(seconds);
    println!("{NODES} masters, {count} clients of all of them that take no lock, {span:?}");
    let servers = Servers::start(NODES);
    let mut processes = Vec::new();
    for begun in (0..count).step_by(IN_A_PROCESS as usize) {
        processes.push(Process::start(&servers, IN_A_PROCESS.min(count - begun)));
    }
    processes.iter_mut().for_each(Process::wait_ready);
    // The work of connecting is over by then.
    thread::sleep(Duration::from_secs(2));

    let before: Vec<_> = servers.iter().map(Figures::of).collect();
    let clients_before: f64 = processes.iter().map(|it| cpu::cpu_seconds_of(it.child.id())).sum();
    let start = Instant::now();
    thread::sleep(span);
    let took = start.elapsed().as_secs_f64();
    println!("  per master   processor   commands/s   connections   memory");
    for (i, (server, before)) in servers.iter().zip(&before).enumerate() {
        let after = Figures::of(server);
        println!(
            "  {i:>10}   {:>6.1} ms/s   {:>10.0}   {:>11}   {:>5.1} MiB",
            1_000.0 * (after.cpu - before.cpu) / took,
            (after.commands - before.commands) as f64 / took,
            after.connections,
            after.memory_mib,
        );
    }
    let clients: f64 = processes.iter().map(|it| cpu::cpu_seconds_of(it.child.id())).sum();
    let used = 1_000.0 * (clients - clients_before) / took;
    let resident: u64 = processes.iter().map(|it| number_of(it.child.id(), "VmRSS:")).sum();
    let threads: u64 = processes.iter().map(|it| number_of(it.child.id(), "Threads:")).sum();
    let count = count as f64;
    println!(
        "  a client: {:.3} ms of processor time a second, {:.0} KiB resident, {:.1} threads",
        used / count,
        resident as f64 / count,
        threads as f64 / count
    );
    processes.into_iter().for_each(Process::end);
}

/// A process with some of the clients.
struct Process {
    child: Child,
}

impl Process {
    fn start(servers: &Servers, clients: u64) -> Self {
        let this = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(this);
        command.args(["--clients", &clients.to_string(), CLIENTS_OF]).args(servers.urls());
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: pipes.spawn().expect("it has just been started") }
    }

    fn wait_ready(&mut self) {
        let mut said = String::new();
        let stdout = self.child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut said).expect("it says so");
        assert_eq!(said.trim(), "ready");
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("it ends with its input");
    }
}

/// The life of a process of clients: it ends with its input.
fn be_clients(nodes: &[String], count: u64) {
    let client = |_| Quorlock::builder().nodes(nodes).build().expect("valid settings");
    let clients: Vec<_> = (0..count).map(client).collect();
    let mut refused = None;
    let all_grant = holds_within(LIMIT, || {
        refused = clients.iter().find_map(|locks| locks.admit().err());
        refused = refused.take().or_else(|| clients[0].try_lock("any").optional().err());
        refused.is_none()
    });
    assert!(all_grant, "not all nodes grant locks after {LIMIT:?}: {refused:?}");
    println!("ready");
    std::io::stdout().flush().expect("somebody reads it");
    let _ = std::io::stdin().lock().lines().count();
    drop(clients);
}

/// The costs of a master so far.
struct Figures {
    cpu: f64,
    commands: u64,
    connections: u64,
    memory_mib: f64,
}

impl Figures {
    fn of(server: &Server) -> Self {
        let info = server.command(&["INFO", "everything"]);
        let info: String = redis::from_redis_value(info).expect("INFO is text");
        Self {
            cpu: cpu::cpu_seconds_of(server.pid()),
            // Commands that a script calls are included.
            commands: number_after(&info, "total_commands_processed:"),
            connections: number_after(&info, "connected_clients:"),
            memory_mib: number_after(&info, "used_memory:") as f64 / 1_048_576.0,
        }
    }
}

/// Reads a number of the process from the kernel.
fn number_of(pid: u32, label: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("this is Linux");
    number_after(&status, label)
}

fn number_after(text: &str, label: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let rest = lines.next().expect("the label is there").split_whitespace().next();
    rest.and_then(|number| number.parse().ok()).expect("a number follows the label")
}
