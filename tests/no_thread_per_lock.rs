//! Locks have no threads of their own. A test program of its own, since it counts the threads of the process.

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use quorlock::{Guard, Quorlock};
use support::clients::{fresh, wait_connected, wait_renewed};
use support::{Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const LOCKS: usize = 50;
/// Maximum of a client's threads that run callbacks, besides one that always exists.
const MOST_CALLBACK_THREADS: usize = 256;

fn threads() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
    line.expect("it says so").trim().parse().expect("a number")
}

/// Maximum of a client's temporary threads for any number of locks: one per node that checks the server's identity, and one
/// that emits events.
const MOST_PASSING_THREADS: usize = 3 + 1;

/// Waits until there are no more threads than before. Temporary threads may exist at any moment on a busy machine.
fn wait_no_more_than(before: usize) {
    let now = threads();
    assert!(now <= before + MOST_PASSING_THREADS, "{now} threads, {before} before");
    wait_until("there are no more threads than before", LIMIT, || threads() <= before);
}

/// A single test, since two at a time would count each other's threads.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "counts threads in /proc")]
fn locks_have_no_threads_and_callbacks_have_few() {
    let servers = Servers::start(3);
    let builder = fresh(servers.urls()).node_timeout(Duration::from_secs(2));
    let locks = builder.build().expect("the settings are valid");
    wait_connected(&locks);
    let before = threads();
    for _ in 0..200 {
        locks.lock("orders/42").expect("three of three").unlock().expect("three of three");
        wait_no_more_than(before);
    }
    let held: Vec<_> =
        (0..LOCKS).map(|i| locks.lock(format!("orders/{i}")).expect("three of three")).collect();
    wait_renewed(&held, 2);
    wait_no_more_than(before);
    callbacks_that_block_cost_no_other_lock(&servers, &locks, &held[0]);
    drop(held);
    wait_until("the callbacks' threads have ended", LIMIT, || threads() <= before);
    servers.wait_no_keys();
}

/// More locks are lost than there are callback threads, and each callback blocks.
fn callbacks_that_block_cost_no_other_lock(servers: &Servers, locks: &Quorlock, other: &Guard) {
    const LOST: usize = MOST_CALLBACK_THREADS + 50;
    let before = threads();
    let (let_go, go_on) = bounded::<()>(0);
    let called = Arc::new(AtomicUsize::new(0));
    let lost: Vec<_> = (0..LOST)
        .map(|i| {
            let guard = locks.lock(format!("lost/{i}")).expect("three of three");
            let (called, go_on) = (called.clone(), go_on.clone());
            guard.on_lost(move |_| {
                called.fetch_add(1, Ordering::SeqCst);
                assert!(go_on.recv_timeout(LIMIT * 4).is_err(), "it ends without a message");
            });
            guard
        })
        .collect();
    for server in servers.iter() {
        let keys: Vec<_> = (0..LOST).map(|i| format!("quorlock:lost/{i}")).collect();
        let command: Vec<_> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        server.command(&command);
    }
    wait_until("all have heard of their loss", LIMIT, || {
        lost.iter().all(|guard| !guard.lost().is_empty())
    });
    wait_until("as many callbacks run as have threads", LIMIT, || {
        called.load(Ordering::SeqCst) == MOST_CALLBACK_THREADS + 1
    });
    let now = threads();
    assert!(now <= before + MOST_CALLBACK_THREADS + MOST_PASSING_THREADS, "{now} threads");
    wait_renewed([other], 1);
    drop(let_go);
    wait_until("all are called", LIMIT, || called.load(Ordering::SeqCst) == LOST);
}
