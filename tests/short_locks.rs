//! What a lock costs that is held for a short time. A test program of its own, since it counts the
//! threads of the process.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use support::clients::{fresh, wait_connected};
use support::{Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
/// Longer than the default, so that no renewal is due while a busy machine takes and drops the locks.
const TTL: Duration = Duration::from_secs(30);

fn threads() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.expect("it says so").trim().parse().expect("a number")
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "counts threads in /proc")]
fn a_lock_held_shortly_starts_no_thread() {
    let servers = Servers::start(3);
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_secs(1));
    let locks = builder.build().expect("the settings are valid");
    wait_connected(&locks);
    let before = threads();
    for _ in 0..200 {
        locks.lock("orders/42").expect("three of three").unlock().expect("three of three");
        assert_eq!(threads(), before);
    }
    let start = Instant::now();
    let held: Vec<_> =
        (0..50).map(|i| locks.lock(format!("orders/{i}")).expect("three of three")).collect();
    let while_held = threads();
    assert!(start.elapsed() < TTL / 3, "the machine is too busy for this test");
    assert_eq!(while_held, before);
    drop(held);
    assert_eq!(threads(), before);

    // What has none so far gets one when it is due; so they can be counted.
    let guard = locks.mutex("orders/42").ttl(Duration::from_secs(3)).lock();
    let guard = guard.expect("three of three");
    wait_until("it is renewed", LIMIT, || threads() == before + 1);
    guard.unlock().expect("three of three");
    wait_until("its thread has ended", LIMIT, || threads() == before);
    servers.wait_no_keys();
}
