//! Threads of one process that want the same lock: they wait in a queue, and hand the lock to each other.
//!
//! Tests that must know for certain that a thread is in the queue are in `src/runtime/queue/tests/`.

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Guard, OptionalGuard as _, Quorlock};
use support::clients::{connected, fresh, requests};
use support::{Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

const NAME: &str = "orders/42";

fn settings(servers: &Servers) -> Builder {
    fresh(servers.urls()).max_ttl(Duration::from_secs(600)).ttl(TTL).node_timeout(NODE_TIMEOUT)
}

fn client(servers: &Servers) -> Quorlock {
    connected(settings(servers))
}

/// Returns true if the lock came from another thread of the process, and not from the nodes.
fn was_handed_over(guard: &Guard) -> bool {
    u64::from(guard.token().expect("fencing is on")) % 4_096 > 0
}

fn locked(result: Result<Guard, quorlock::Error>) -> Guard {
    let guard = result.expect("three healthy nodes");
    guard.check().expect("a lock that is handed out is held");
    guard
}

#[test]
fn tokens_rise_over_threads_and_clients() {
    let servers = Servers::start(3);
    let clients = [client(&servers), client(&servers), client(&servers)];
    let last = parking_lot::Mutex::new(None);
    let handed_over = AtomicUsize::new(0);
    thread::scope(|scope| {
        for locks in clients.iter().flat_map(|locks| [locks; 3]) {
            let (last, handed_over) = (&last, &handed_over);
            scope.spawn(move || {
                for i in 0..60 {
                    let guard = locked(locks.lock(NAME));
                    handed_over.fetch_add(usize::from(was_handed_over(&guard)), Ordering::Relaxed);
                    let mut last = last.try_lock().expect("two hold the lock at once");
                    assert!(guard.token() > *last, "{:?} after {last:?}", guard.token());
                    *last = guard.token();
                    drop(last);
                    if i % 2 == 0 {
                        guard.unlock().expect("it was ours all the time");
                    }
                }
            });
        }
    });
    assert!(handed_over.into_inner() > 0);
    servers.wait_no_keys();
}

#[test]
fn sixty_four_threads_cost_the_nodes_less_than_a_message_a_lock() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let inside = parking_lot::Mutex::new(0);
    let before = requests(&locks);
    thread::scope(|scope| {
        for _ in 0..64 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let _guard = locked(locks.lock(NAME));
                    *inside.try_lock().expect("two hold the lock at once") += 1;
                }
            });
        }
    });
    assert_eq!(inside.into_inner(), 64 * 40);
    let asked = requests(&locks) - before;
    assert!(asked < 64 * 40, "the nodes ran {asked} scripts");
    servers.wait_no_keys();
}

#[test]
fn another_process_gets_in_however_many_threads_hand_the_lock_on() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    // The other client asks all the time, so it finds the moment in which the lock is free.
    let often = Duration::from_millis(1);
    let other = connected(settings(&servers).backoff(often, often));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    drop(locked(locks.lock(NAME)));
                }
            });
        }
        for _ in 0..3 {
            let guard = other.try_lock_for(NAME, LIMIT).optional().expect("three healthy nodes");
            let served = guard.is_some();
            over.store(!served, Ordering::Relaxed);
            assert!(served, "the lock has never left the other client");
        }
        over.store(true, Ordering::Relaxed);
    });
    servers.wait_no_keys();
}

#[test]
fn without_local_queues_every_thread_asks_the_nodes() {
    let servers = Servers::start(3);
    let locks = connected(settings(&servers).local_queue(false));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert!(!was_handed_over(&locked(locks.lock(NAME))));
                }
            });
        }
    });
    servers.wait_no_keys();
}

/// A caller behind one that cannot reach the nodes gets the same error, within its own time.
#[test]
fn no_quorum_is_told_to_everybody_in_line() {
    let mut servers = Servers::start(3);
    let patience = NODE_TIMEOUT * 2;
    let locks = connected(settings(&servers).no_quorum_timeout(patience));
    (0..3).for_each(|i| servers[i].kill());
    thread::scope(|scope| {
        let calls: Vec<_> = (0..16)
            .map(|i| {
                let locks = locks.clone();
                scope.spawn(move || match i % 2 {
                    0 => locks.lock(NAME).map(drop),
                    _ => locks.try_lock_for(NAME, LIMIT).optional().map(drop),
                })
            })
            .collect();
        for call in calls {
            let error = call.join().expect("no panic").expect_err("no node is there");
            assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        }
        let error = locks.try_lock(NAME).expect_err("no node is there");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    });
}

/// No caller knows if the lock is held, so no error says that it is.
#[test]
fn who_waits_behind_somebody_that_hears_nothing_is_not_told_that_the_lock_is_held() {
    let mut servers = Servers::start(3);
    let locks = client(&servers);
    (0..3).for_each(|i| servers[i].pause());
    thread::scope(|scope| {
        let first = scope.spawn(|| locks.lock(NAME));
        wait_until("the first one has asked", LIMIT, || requests(&locks) > 0);
        let second = locks.try_lock_for(NAME, NODE_TIMEOUT / 10);
        let error = second.expect_err("no node has said anything");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        (0..3).for_each(|i| servers[i].resume());
        drop(first.join().expect("no panic").expect("the nodes are back"));
    });
    servers.wait_no_keys();
}
