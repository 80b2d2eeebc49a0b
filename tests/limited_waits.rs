//! Calls with a limited wait: a lock that another caller holds is an error of its own kind.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use quorlock::crossbeam_channel::bounded;
use quorlock::{Builder, Error, ErrorKind, OptionalGuard as _, Wait, WithLockError};
use support::clients::{connected, fresh};
use support::{Servers, wait_until};

/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
/// The time limit of calls that reach it: enough for an answer on a busy machine.
const SHORT: Duration = Duration::from_millis(1_500);
const NAME: &str = "orders/42";

fn builder(servers: &Servers) -> Builder {
    fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_secs(5))
}

fn is_held<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| matches!(error.kind(), ErrorKind::Held { .. }) && error.is_held())
}

/// The habit from `std::sync::Mutex`. The block must not run while the lock is held.
#[test]
fn the_habit_of_if_let_ok_is_right() {
    let servers = Servers::start(3);
    let [holder, other] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    for locks in [&holder, &other] {
        if let Ok(_guard) = locks.try_lock(NAME) {
            panic!("another caller holds it");
        }
    }
    guard.unlock().expect("a majority is there");
    let mut entered = false;
    if let Ok(_guard) = other.try_lock(NAME) {
        entered = true;
    }
    assert!(entered, "nobody holds it");
}

#[test]
fn a_lock_that_is_held_says_for_how_long_its_key_lives() {
    let servers = Servers::start(3);
    let [holder, other] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    let error = other.try_lock(NAME).expect_err("it is held");
    let ErrorKind::Held { remaining_ttl: Some(left) } = error.kind() else { panic!("{error:?}") };
    assert!(left > TTL / 2 && left <= TTL, "{left:?}");
    let text = error.to_string();
    assert!(
        text.starts_with("lock \"orders/42\" is held; unless it is renewed, its key ends in "),
        "{text}"
    );
    assert!(error.node_faults().is_empty() && error.kind().to_string() == "held");
    // The holder's own client asks no node.
    let error = holder.try_lock(NAME).expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::Held { remaining_ttl: None });
    assert_eq!(error.to_string(), "lock \"orders/42\" is held");
    guard.unlock().expect("a majority is there");
}

#[test]
fn every_call_with_a_limit_says_that_the_lock_is_held() {
    let servers = Servers::start(3);
    let [holder, other, reader, worker] = [(); 4].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    let soon = || Instant::now() + SHORT;
    let past = Instant::now();
    // Side by side, by clients of their own, since most calls take their whole time.
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(is_held(other.try_lock(NAME)));
            assert!(is_held(other.try_lock_for(NAME, SHORT)));
            assert!(is_held(other.try_lock_until(NAME, soon())));
            for wait in [Wait::up_to(Duration::ZERO), Wait::up_to(SHORT), Wait::until(past)] {
                assert!(is_held(other.lock_within(NAME, wait)), "{wait:?}");
            }
            assert!(is_held(other.lock_within(NAME, soon())));
        });
        scope.spawn(|| {
            let lock = reader.rw_lock(NAME);
            assert!(is_held(lock.try_read()) && is_held(lock.try_write()));
            assert!(is_held(lock.try_read_for(SHORT)) && is_held(lock.try_write_for(SHORT)));
            assert!(is_held(lock.try_read_until(soon())) && is_held(lock.try_write_until(soon())));
            assert!(is_held(lock.read_within(SHORT)) && is_held(lock.write_within(SHORT)));
        });
        scope.spawn(|| {
            let semaphore = worker.semaphore(NAME, 3);
            for semaphore in [&semaphore, &semaphore.many(2)] {
                assert!(is_held(semaphore.try_acquire()));
                assert!(is_held(semaphore.try_acquire_for(SHORT)));
                assert!(is_held(semaphore.try_acquire_until(soon())));
                assert!(is_held(semaphore.acquire_within(SHORT)));
            }
        });
    });
    guard.unlock().expect("a majority is there");
    // The limit has no effect if the lock is free.
    other
        .lock_within(NAME, SHORT * 100)
        .expect("it is free")
        .unlock()
        .expect("a majority is there");
}

#[test]
fn optional_is_about_locks_that_are_held_alone() {
    let servers = Servers::start(1);
    let [holder, other] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    assert!(other.try_lock(NAME).optional().expect("one node").is_none());
    guard.unlock().expect("one node");
    assert!(other.try_lock(NAME).optional().expect("one node").is_some());
    let error = other.try_lock("").optional().expect_err("names are not empty");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

#[test]
fn a_wait_ends_with_its_time_or_its_channel_whichever_comes_first() {
    let servers = Servers::start(3);
    let [holder, other] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    let (cancel, cancelled) = bounded(0);
    assert!(is_held(other.lock_within(NAME, Wait::up_to(SHORT).cancelled_by(&cancelled))));
    for wait in [Wait::up_to(LIMIT).cancelled_by(&cancelled), Wait::from(&cancelled)] {
        thread::scope(|scope| {
            let other = &other;
            let waiting = scope.spawn(move || other.lock_within(NAME, wait));
            wait_until("it waits", LIMIT, || {
                other.node_stats().iter().all(|node| node.listened_to == 1)
            });
            cancel.send(()).expect("it listens");
            let error = waiting.join().expect("no panic").expect_err("it was cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled);
        });
    }
    thread::scope(|scope| {
        let (other, wait) = (&other, Wait::up_to(LIMIT).cancelled_by(&cancelled));
        let waiting = scope.spawn(move || other.lock_within(NAME, wait));
        guard.unlock().expect("a majority is there");
        waiting.join().expect("no panic").expect("it is given back").unlock().expect("it is ours");
    });
}

#[test]
fn a_closure_runs_only_if_the_lock_is_free() {
    let servers = Servers::start(3);
    let [holder, other] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    let refused = |result: Result<u32, WithLockError<u32>>| {
        let Err(WithLockError::NotLocked(error)) = result else { panic!("{result:?}") };
        assert!(error.is_held(), "{error}");
    };
    refused(other.try_with_lock(NAME, |_| panic!("another caller holds it")));
    refused(other.try_with_lock_for(NAME, SHORT, |_| panic!("another caller holds it")));
    let none = other.try_with_lock(NAME, |_| 7).optional();
    assert_eq!(none.expect("a majority is there"), None);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| other.try_with_lock_for(NAME, LIMIT, |_| 7));
        guard.unlock().expect("a majority is there");
        assert_eq!(waiting.join().expect("no panic").expect("it is given back"), 7);
    });
    let mutex = holder.mutex(NAME);
    assert!(mutex.try_with_lock(|guard| guard.check().is_ok()).expect("it is free"));
    servers.wait_no_keys();
}
