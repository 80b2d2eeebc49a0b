//! Shared parts of the benchmarks: their arguments, and clients of servers that they have started.

#![allow(
    dead_code,
    reason = "compiled into every benchmark that includes it, and each uses only a part of it"
)]

use std::time::Duration;

use quorlock::Quorlock;

use server::{Servers, wait_until};

#[path = "../../tests/support/server.rs"]
pub mod server;

/// Returns a client that is connected to all servers. Fresh servers have forgotten nothing, and need no
/// quarantine.
pub(crate) fn client(servers: &Servers) -> Quorlock {
    let locks = Quorlock::builder().nodes(servers.urls()).restart_quarantine(false).build();
    let locks = locks.expect("valid settings");
    wait_until("all nodes are connected", Duration::from_secs(10), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    locks
}

/// Returns the number behind the argument `name`, or else the default.
pub(crate) fn argument(name: &str, usual: u64) -> u64 {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    match (args.next(), args.next()) {
        (Some(_), Some(n)) => n.parse().expect("each of the arguments takes a number"),
        _ => usual,
    }
}
