//! Time without a leader, after a leader resigns, is told to stop, and is killed. `cargo bench --bench elections`, with `--
//! --rounds N` for another number of terms than 200.
//!
//! Three candidates run on three masters and on five, each like a process of its own. A leader that is killed is a real
//! process, which leaves its lock on the masters until its TTL is over.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::server::Servers;
use common::{argument, client};
use crossbeam_channel::unbounded;
use parking_lot::Mutex;
use quorlock::{Election, Quorlock};

mod common;

const NAME: &str = "leader";
/// The length of each term.
const TERM: Duration = Duration::from_millis(20);
/// Number of leaders that are killed. Each of them costs a TTL.
const KILLED: usize = 10;
/// The argument that makes this program a leader that waits to be killed, on the masters behind it.
const LEADS: &str = "--leads-on";

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == LEADS) {
        lead_until_killed(&arguments[place + 1]);
        return;
    }
    let rounds = argument("--rounds", 200) as usize;
    println!("{:<28} {:>9} {:>9} {:>9}", "nobody leads, ms", "p50", "p99", "longest");
    for nodes in [3, 5] {
        let servers = Servers::start(nodes);
        for (how, gaps) in [
            ("resigns", after_resigning(&servers, rounds)),
            ("is told to stop", after_stopping(&servers, rounds / 4)),
            ("is killed (TTL of 2 s)", after_killing(&servers)),
        ] {
            let ms = |part: f64| {
                let place = (gaps.len() as f64 * part) as usize;
                gaps[place.min(gaps.len() - 1)].as_secs_f64() * 1_000.0
            };
            let what = format!("N = {nodes}, {how}");
            println!("{what:<28} {:>9.2} {:>9.2} {:>9.2}", ms(0.5), ms(0.99), ms(1.0));
        }
    }
}

fn clients(servers: &Servers) -> Vec<Quorlock> {
    (0..3).map(|_| client(servers)).collect()
}

fn election(locks: &Quorlock) -> Election {
    locks.election(NAME)
}

/// The times without a leader if each leader resigns after [`TERM`].
fn after_resigning(servers: &Servers, rounds: usize) -> Vec<Duration> {
    let (ended, gaps, terms) = (Mutex::new(None), Mutex::new(Vec::new()), AtomicUsize::new(0));
    thread::scope(|scope| {
        for locks in clients(servers) {
            let (ended, gaps, terms) = (&ended, &gaps, &terms);
            scope.spawn(move || {
                let stands = election(&locks);
                while terms.fetch_add(1, Ordering::SeqCst) < rounds {
                    let leadership = stands.campaign().expect("the masters are healthy");
                    let before: Option<Instant> = ended.lock().take();
                    gaps.lock().extend(before.map(|ended| ended.elapsed()));
                    thread::sleep(TERM);
                    *ended.lock() = Some(Instant::now());
                    leadership.resign().expect("the masters are healthy");
                }
            });
        }
    });
    sorted(gaps.into_inner())
}

/// The times without a leader if the leader is told to stop, and another candidate replaces it.
fn after_stopping(servers: &Servers, rounds: usize) -> Vec<Duration> {
    let (leads, is_led) = unbounded();
    let start = |id: usize, locks: &Quorlock| {
        let leads = leads.clone();
        let lead = move |leadership: &quorlock::Leadership| {
            let _ = leads.send((id, Instant::now()));
            let _ = leadership.leaving().recv();
        };
        election(locks).start(lead).expect("there are threads")
    };
    let clients = clients(servers);
    let mut candidates: Vec<_> =
        clients.iter().enumerate().map(|(id, locks)| Some(start(id, locks))).collect();
    let mut gaps = Vec::new();
    let (mut leader, _) = is_led.recv().expect("one leads");
    for _ in 0..rounds {
        thread::sleep(TERM);
        let stopped = Instant::now();
        let candidate = candidates[leader].take().expect("it stands");
        candidate.stop().expect("the masters are healthy");
        let (next, began) = is_led.recv().expect("another one leads");
        gaps.push(began.saturating_duration_since(stopped));
        candidates[leader] = Some(start(leader, &clients[leader]));
        leader = next;
    }
    sorted(gaps)
}

/// The times without a leader if the leader is a process that is killed.
fn after_killing(servers: &Servers) -> Vec<Duration> {
    let locks = client(servers);
    let mut gaps = Vec::new();
    for _ in 0..KILLED {
        let program = std::env::current_exe().expect("this program");
        let mut leader = Command::new(program);
        leader.args([LEADS, &servers.urls().join(",")]).stdout(Stdio::piped());
        let mut leader = leader.spawn().expect("it starts");
        let mut line = String::new();
        let output = leader.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says that it leads");
        let stands = election(&locks);
        let killed = thread::scope(|scope| {
            let next = scope.spawn(|| drop(stands.campaign().expect("the masters are healthy")));
            thread::sleep(TERM);
            let killed = Instant::now();
            leader.kill().expect("it is ours");
            next.join().expect("no panic");
            killed
        });
        gaps.push(killed.elapsed());
        leader.wait().expect("it is ours");
    }
    sorted(gaps)
}

/// The life of a leader that is killed.
fn lead_until_killed(nodes: &str) {
    let locks = Quorlock::builder().restart_quarantine(false).nodes(nodes.split(',')).build();
    let locks = locks.expect("the settings are valid");
    let _leadership = election(&locks).campaign().expect("the masters are healthy");
    println!("leads");
    loop {
        thread::park();
    }
}

fn sorted(mut gaps: Vec<Duration>) -> Vec<Duration> {
    gaps.sort_unstable();
    gaps
}
