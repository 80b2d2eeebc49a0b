//! Callers that leave the queue of a fair lock before they have the lock, on real servers.
//!
//! An entry that is not taken out lives for a minute in these tests, longer than any wait. So the callers behind it get the
//! lock in time only if it was taken out.

mod support;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;
use quorlock::{ErrorKind, FairMutex, OptionalGuard as _, Quorlock};
use redis::Value;
use support::clients::{connected, fresh};
use support::events::Listener;
use support::{Servers, wait_until};

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";
const QUEUE: &str = "{quorlock:orders/42}:queue";
const TTL: Duration = Duration::from_secs(600);
/// An entry lives as long as two attempts may take, and for a minute at most.
const NODE_TIMEOUT: Duration = Duration::from_secs(60);
/// A limit that is never reached, and shorter than the life of an entry.
const LIMIT: Duration = Duration::from_secs(40);

fn client(servers: &Servers) -> Quorlock {
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(NODE_TIMEOUT);
    connected(builder)
}

fn fair(locks: &Quorlock) -> FairMutex {
    locks.fair_mutex(NAME)
}

/// Waits until each node has that number of callers in its queue.
fn wait_queued(servers: &Servers, callers: i64) {
    wait_until(&format!("{callers} callers are in the queues"), LIMIT, || {
        servers.iter().all(|server| server.command(&["ZCARD", QUEUE]) == Value::Int(callers))
    });
}

/// One caller `waits` in the queue, and another one behind it. Then the first call is `ended`. It must leave
/// the queue, and the other one must get the lock.
fn leaves(waits: impl FnOnce(&Quorlock) + Send, ended: impl FnOnce(&Servers)) {
    let servers = Servers::start(3);
    let [holder, first, second] = [(); 3].map(|()| client(&servers));
    let guard = fair(&holder).try_lock().expect("it is free");
    // Two nodes are enough for the holder. The third one would grant the lock to the first caller that reaches it.
    wait_until("each node has the holder's key", LIMIT, || {
        servers.iter().all(|server| server.command(&["EXISTS", KEY]) == Value::Int(1))
    });
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waits(&first));
        wait_queued(&servers, 1);
        let behind = scope.spawn(|| fair(&second).try_lock_for(LIMIT));
        wait_queued(&servers, 2);
        ended(&servers);
        waiting.join().expect("it is as expected");
        wait_queued(&servers, 1);
        guard.unlock().expect("three nodes");
        let next = behind.join().expect("no panic").expect("nobody is ahead");
        next.unlock().expect("three nodes");
    });
    wait_queued(&servers, 0);
}

#[test]
fn a_caller_that_is_cancelled_leaves_the_queue() {
    let (cancel, cancelled) = bounded(0);
    leaves(
        |locks| {
            let error = fair(locks).lock_within(&cancelled).expect_err("it is cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        },
        |_| drop(cancel),
    );
}

thread_local! {
    /// True if the subscriber panics on this thread.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

fn panic_if_wanted(event: &str) {
    if event.contains("has no expiry") && PANICS.get() {
        // Without the panic message, which would only look like a failure.
        resume_unwind(Box::new("in a subscriber"));
    }
}

/// A key without expiry causes an event on the caller's thread, and its subscriber panics.
#[test]
fn a_caller_that_panics_leaves_the_queue() {
    // One subscriber for all threads: the first thread with an event decides if the event is wanted at all.
    tracing::subscriber::set_global_default(Listener(|event: String| panic_if_wanted(&event)))
        .expect("there is no other one");
    leaves(
        |locks| {
            PANICS.set(true);
            let wait = || fair(locks).try_lock_for(LIMIT).optional().map(drop);
            let panic = catch_unwind(AssertUnwindSafe(wait)).expect_err("it panics");
            assert_eq!(panic.downcast_ref(), Some(&"in a subscriber"));
        },
        |servers| {
            for server in servers.iter() {
                assert_eq!(server.command(&["PERSIST", KEY]), Value::Int(1));
            }
        },
    );
}

#[test]
fn a_caller_that_tries_once_does_not_enter_the_queue() {
    let servers = Servers::start(3);
    let [holder, other] = [(); 2].map(|()| client(&servers));
    let guard = fair(&holder).try_lock().expect("it is free");
    for locks in [&holder, &other] {
        assert!(fair(locks).try_lock().optional().expect("three nodes").is_none());
    }
    // The caller's requests are done: the nodes have answered this later one on the same connections.
    assert!(fair(&other).is_locked().expect("three nodes"));
    for server in servers.iter() {
        assert_eq!(server.command(&["EXISTS", QUEUE]), Value::Int(0));
    }
    guard.unlock().expect("three nodes");
    drop(fair(&other).try_lock().expect("it is free at once"));
}
