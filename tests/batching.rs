//! Group commit: what waits for a node goes out in one write.

mod support;

use std::thread;
use std::time::Duration;

use quorlock::Quorlock;
use support::{Servers, wait_until};

#[test]
fn many_threads_share_writes() {
    let servers = Servers::start(3);
    // Long enough for a healthy node to answer on a busy machine.
    // Fresh servers have forgotten nothing, and need not be waited for.
    let builder = Quorlock::builder()
        .restart_quarantine(false)
        .nodes(servers.urls())
        .node_timeout(Duration::from_secs(5));
    let locks = builder.build().expect("valid settings");
    wait_until("all nodes are connected", Duration::from_secs(20), || {
        locks.node_stats().iter().all(|node| node.connected)
    });
    thread::scope(|scope| {
        for i in 0..64 {
            let locks = &locks;
            scope.spawn(move || {
                for _ in 0..20 {
                    let guard = locks.lock(format!("orders/{i}")).expect("three of three");
                    guard.unlock().expect("three of three");
                }
            });
        }
    });
    for node in locks.node_stats() {
        // Some acquires are not sent at all: those of locks that were given back before their turn.
        assert!(node.writes > 0 && node.scripts > node.writes * 3 / 2, "{node:?}");
    }
    servers.wait_no_keys();
}
