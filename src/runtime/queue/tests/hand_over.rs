//! Threads of one process hand a lock to each other. A test has to know that a thread is in the queue before it continues,
//! and only the queues show that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;

use super::*;
use crate::core::acquire::Patience;
use crate::embedded::Node;
use crate::kinds::EXCLUSIVE;
use crate::{ErrorKind, Guard, Renewal};

/// Returns true if the lock came from another thread of the process, and not from the nodes.
fn was_handed_over(guard: &Guard) -> bool {
    u64::from(guard.token().expect("fencing is on")) % 4_096 > 0
}

fn locked(result: Result<Guard, crate::Error>) -> Guard {
    let guard = result.expect("healthy nodes");
    guard.check().expect("a lock that is handed out is held");
    guard
}

#[test]
fn threads_are_served_in_the_order_in_which_they_came() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let served = parking_lot::Mutex::new(Vec::new());
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        for i in 0..8 {
            let (locks, served) = (&locks, &served);
            waits(scope, locks, move || {
                let guard = locked(locks.lock(NAME));
                served.lock().push((i, guard.token().expect("fencing is on")));
                guard.unlock().expect("it was ours all the time");
            });
        }
        guard.unlock().expect("it was ours all the time");
    });
    let served = served.into_inner();
    assert!(served.iter().map(|(i, _)| *i).eq(0..8), "{served:?}");
    assert!(served.is_sorted_by(|(_, one), (_, next)| one < next), "{served:?}");
    wait_no_keys(&nodes);
}

/// No node is asked, so none needs to be up.
#[test]
fn a_hand_over_needs_no_node() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let guard = locked(locks.lock(NAME));
    // A majority is enough for the lock; the third node may be asked a moment later.
    wait_until(|| requests(&locks) == 3);
    thread::scope(|scope| {
        let next = waits(scope, &locks, || locked(locks.lock(NAME)));
        nodes.iter().for_each(Node::hang);
        assert!(locks.try_lock(NAME).optional().expect("that is known here").is_none());
        guard.unlock().expect("the next one has it");
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next));
        assert_eq!(requests(&locks), 3);
        nodes.iter().for_each(Node::resume);
        next.unlock().expect("it was ours all the time");
    });
    wait_no_keys(&nodes);
}

/// Without the request, the lease would be handed to the thread.
#[test]
fn a_lock_that_was_asked_for_is_not_handed_over() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    let guard = locked(locks.lock(NAME));
    let asked = guard.asked().clone();
    thread::scope(|scope| {
        let next = waits(scope, &locks, || locked(locks.lock(NAME)));
        assert!(other.mutex(NAME).ask_to_release("deploy").expect("three healthy nodes"));
        assert_eq!(asked.recv_timeout(LIMIT).expect("it is asked").reason, "deploy");
        let owner = guard.owner().to_owned();
        guard.unlock().expect("it was ours all the time");
        let next = next.join().expect("no panic");
        assert!(!was_handed_over(&next) && next.owner() != owner);
        assert!(next.asked().recv_timeout(SHORT_TTL / 10).is_err(), "it was not asked");
    });
    wait_no_keys(&nodes);
}

#[test]
fn the_next_holder_has_a_lock_of_its_own() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    let mutex = locks.mutex(NAME).ttl(SHORT_TTL);
    let guard = locked(mutex.lock());
    let (lost, token) = (guard.lost().clone(), guard.token());
    let (tell, told) = bounded(1);
    guard.on_lost(move |reason| tell.send(reason).expect("it is waited for"));
    thread::scope(|scope| {
        let next = waits(scope, &locks, || locked(mutex.lock()));
        drop(guard);
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next) && next.token() > token);
        assert!(lost.recv().is_err(), "the first one has given it back");
        assert!(told.recv().is_err(), "and is not called any more");

        // The lock is renewed, until somebody takes it away.
        assert!(next.lost().recv_timeout(SHORT_TTL * 3 / 2).is_err());
        next.check().expect("it is renewed");
        assert!(other.try_lock(NAME).optional().expect("held is no error").is_none());
        next.extend(SHORT_TTL * 2).expect("three healthy nodes");
        flush_until_lost(&nodes, next.lost());
        assert_eq!(next.unlock().expect_err("it is lost").kind(), ErrorKind::Lost);
    });
    wait_no_keys(&nodes);
}

#[test]
fn the_longest_hold_counts_from_the_hand_over() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let mutex = locks.mutex(NAME).ttl(SHORT_TTL);
    let guard = locked(mutex.clone().max_hold(Duration::from_secs(500)).lock());
    thread::scope(|scope| {
        let brief = mutex.max_hold(SHORT_TTL);
        let next = waits(scope, &locks, move || locked(brief.lock()));
        guard.unlock().expect("it was ours all the time");
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next));
        assert!(next.remaining() > SHORT_TTL / 2);
        assert_eq!(next.lost().recv_timeout(LIMIT), Ok(LossReason::MaxHold));
    });
    wait_no_keys(&nodes);
}

#[test]
fn whoever_leaves_the_line_leaves_the_lock_to_the_others() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    let (cancel, cancelled) = bounded(1);
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        let first = waits(scope, &locks, || locks.lock_within(NAME, &cancelled));
        let second = scope.spawn(|| locks.try_lock_for(NAME, Duration::from_millis(200)));
        assert!(second.join().expect("no panic").is_err_and(|error| error.is_held()));
        let third = waits(scope, &locks, || locked(locks.lock(NAME)));
        cancel.send(()).expect("it listens");
        let error = first.join().expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        guard.unlock().expect("it was ours all the time");
        let guard = third.join().expect("no panic");
        assert!(was_handed_over(&guard));

        let fourth = waits(scope, &locks, || locks.lock(NAME));
        locks.clone().close(LIMIT).expect("three healthy nodes");
        let error = fourth.join().expect("no panic").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        guard.check().expect("what is held stays held");
        guard.unlock().expect("it was ours all the time");
    });
    let guard = other.try_lock(NAME).optional().expect("three healthy nodes");
    assert!(guard.is_some(), "nobody has taken it along");
    drop(guard);
    wait_no_keys(&nodes);
}

/// A caller is cancelled at the very instant at which it is handed the lock.
#[test]
fn the_chosen_one_who_leaves_passes_it_on() {
    let nodes = nodes(1);
    let locks = client(&nodes);
    let guard = locked(locks.lock(NAME));
    let wanted = wanted(EXCLUSIVE, true);
    let mut first = locks.coordinator().queues().enter(&wanted, Patience::Forever);
    let (place, hold) = first.look();
    assert!(place.is_held && hold.is_none());
    thread::scope(|scope| {
        let second = waits(scope, &locks, || locked(locks.lock(NAME)));
        guard.unlock().expect("the first one has it");
        drop(first);
        let second = second.join().expect("no panic");
        assert_eq!(u64::from(second.token().expect("fencing is on")) % 4_096, 2);
    });
    wait_no_keys(&nodes);
}

#[test]
fn a_leaked_guard_blocks_nobody_once_its_lock_is_lost() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    // Once the lock ends, and once it is taken away.
    for renewal in [Renewal::Manual, Renewal::Auto] {
        let guard = locked(locks.mutex(NAME).ttl(SHORT_TTL).renewal(renewal).lock());
        let lost = guard.lost().clone();
        std::mem::forget(guard);
        thread::scope(|scope| {
            let next = waits(scope, &locks, || locked(locks.lock(NAME)));
            let after = waits(scope, &locks, || locked(locks.lock(NAME)));
            match renewal {
                Renewal::Auto => flush_until_lost(&nodes, &lost),
                Renewal::Manual => _ = lost.recv_timeout(LIMIT).expect("it is told"),
            }
            let next = next.join().expect("no panic");
            assert!(!was_handed_over(&next), "a lost lock is not handed over");
            next.unlock().expect("it was ours all the time");
            assert!(was_handed_over(&after.join().expect("no panic")));
        });
    }
    wait_no_keys(&nodes);
}

#[test]
fn a_holder_that_panics_hands_the_lock_on() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        let next = waits(scope, &locks, || locked(locks.lock(NAME)));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("in the critical section"));
        }));
        assert!(panicked.is_err());
        next.join().expect("no panic").unlock().expect("it was ours all the time");
    });
    wait_no_keys(&nodes);
}

/// A caller that wants other terms asks the nodes.
#[test]
fn a_lock_with_other_terms_is_not_handed_over() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let auto = locks.mutex(NAME);
    let manual = auto.clone().renewal(Renewal::Manual);
    let longer = auto.clone().ttl(TTL * 2);
    for (holder, waiter) in
        [(&manual, &manual), (&auto, &manual), (&manual, &auto), (&auto, &longer), (&longer, &auto)]
    {
        let guard = locked(holder.lock());
        thread::scope(|scope| {
            let next = waits(scope, &locks, || locked(waiter.lock()));
            guard.unlock().expect("it was ours all the time");
            let next = next.join().expect("no panic");
            assert!(!was_handed_over(&next), "{waiter:?} after {holder:?}");
            next.unlock().expect("it was ours all the time");
        });
    }
    wait_no_keys(&nodes);
}

/// If the next holder is killed, the keys block others for no longer than its own terms.
#[test]
fn keys_that_outlive_the_terms_of_the_next_one_are_not_handed_over() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    for extends in [false, true] {
        let guard = locked(locks.lock(NAME));
        if extends {
            guard.extend(TTL * 15).expect("three healthy nodes");
        }
        thread::scope(|scope| {
            let limited = locks.mutex(NAME).max_hold(TTL + TTL / 4);
            let next = waits(scope, &locks, move || locked(limited.lock()));
            guard.unlock().expect("it was ours all the time");
            assert_eq!(was_handed_over(&next.join().expect("no panic")), !extends);
        });
    }
    wait_no_keys(&nodes);
}
