//! A caller without rivals does all work on its own thread. A test program of its own, since it counts the waits of the
//! process's threads.

mod support;

use std::fs;
use std::time::Duration;

use support::clients::{fresh, wait_connected};
use support::{Servers, wait_until};

const LOCKS: u64 = 300;
const LIMIT: Duration = Duration::from_secs(60);

/// The number of waits of the nodes' workers so far.
fn waits_of_workers() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("this is Linux");
    let waits = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = fs::read_to_string(task.join("comm")).ok()?;
        let status = fs::read_to_string(task.join("status")).ok()?;
        let line = status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"))?;
        name.starts_with("quorlock-node-").then(|| line.trim().parse::<u64>().expect("a number"))
    });
    waits.sum()
}

/// If the workers carried the requests, each of the five would wait twice for a lock that is taken and given back.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "counts in /proc")]
fn a_caller_that_is_alone_wakes_the_workers_seldom() {
    let servers = Servers::start(5);
    let builder = fresh(servers.urls()).node_timeout(Duration::from_secs(5));
    let locks = builder.build().expect("the settings are valid");
    wait_connected(&locks);
    // Some tries may meet the start of the client, or a worker that is late on a busy machine.
    wait_until("the workers are left alone", LIMIT, || {
        let before = waits_of_workers();
        for i in 0..LOCKS {
            let guard = locks.lock(format!("orders/{i}")).expect("five of five");
            guard.unlock().expect("five of five");
        }
        waits_of_workers() - before < 2 * LOCKS
    });
    servers.wait_no_keys();
}
