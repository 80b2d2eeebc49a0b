//! Cost of locking names that are never used again, each once: `cargo bench --bench fresh_names`, with `-- --rate
//! N` for another number of names a second than 1,000, `--seconds N` for another time than 22 minutes, `--every
//! N` for a line after other spans than 30 s, and `--masters N` for more than one master.
//!
//! A name leaves its fence on each master, which is gone ten minutes and a TTL later. So memory grows for that
//! long, and not any more after that.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::thread;
use std::time::{Duration, Instant};

use common::argument;
use common::server::{Server, Servers, wait_until};
use quorlock::Quorlock;

mod common;

fn main() {
    let (rate, every) = (argument("--rate", 1_000), argument("--every", 30));
    let span = Duration::from_secs(argument("--seconds", 22 * 60));
    let masters = usize::try_from(argument("--masters", 1)).expect("a small number");
    let servers = Servers::start(masters);
    // Fresh servers have forgotten nothing, and need no quarantine.
    let locks = Quorlock::builder().restart_quarantine(false).nodes(servers.urls());
    let locks = locks.build().expect("valid settings");
    wait_until("all nodes to be connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    // Keeps the one-time costs of the client and the masters out of the figures.
    locks.lock("orders/first").and_then(quorlock::Guard::unlock).expect("healthy nodes");

    println!("{rate} names a second for {span:?}, {masters} masters; figures of the first master");
    println!("      s      names   late by     keys   used MiB   bytes a key   client MiB");
    let before = used_bytes(&servers[0]);
    let (start, mut names, mut lines) = (Instant::now(), 0_u64, 0);
    loop {
        let now = start.elapsed();
        let due = u64::try_from(now.as_millis()).expect("it ends") * rate / 1_000;
        if due > names {
            // An order's id, as in a real shop.
            drop(locks.lock(format!("orders/{:016x}", scattered(names))).expect("healthy nodes"));
            names += 1;
        } else {
            thread::sleep(Duration::from_millis(5));
        }
        if now.as_secs() >= lines * every {
            lines += 1;
            let late = Duration::from_millis(due.saturating_sub(names) * 1_000 / rate);
            line(now, names, late, &servers[0], before);
        }
        if now >= span {
            return;
        }
    }
}

fn line(now: Duration, names: u64, late: Duration, server: &Server, before: u64) {
    let (keys, used) = (keys(server), used_bytes(server));
    println!(
        "{:>7.0} {names:>10} {late:>9.0?} {keys:>8} {:>10.1} {:>13.0} {:>12.1}",
        now.as_secs_f64(),
        mib(used),
        used.saturating_sub(before) as f64 / keys.max(1) as f64,
        mib(resident_bytes())
    );
}

/// Returns different names for different numbers, in no order.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn keys(server: &Server) -> u64 {
    redis::from_redis_value(server.command(&["DBSIZE"])).expect("a number")
}

fn used_bytes(server: &Server) -> u64 {
    let info = server.command(&["INFO", "memory"]);
    let info: String = redis::from_redis_value(info).expect("INFO is text");
    number_after(&info, "used_memory:")
}

/// The resident memory of this process, without memory that is only reserved.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status");
    number_after(&status.expect("Linux has /proc/self/status"), "VmRSS:") * 1_024
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

fn number_after(text: &str, label: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
    let rest = lines.next().expect("the label is there").split_whitespace().next();
    rest.and_then(|number| number.parse().ok()).expect("a number follows the label")
}
