//! Threads of one process that want the same lock: they wait in a queue, and hand it to each other.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;
use std::{fs, mem};

use crossbeam_channel::bounded;
use quorlock::{Builder, ErrorKind, Guard, LossReason, Quorlock, Renewal};
use support::clients::{connected, requests};
use support::{Servers, wait_until};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);
/// For those whose end, or renewal, is waited for.
const SHORT_TTL: Duration = Duration::from_secs(3);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

fn settings(servers: &Servers) -> Builder {
    // Fresh servers have forgotten nothing, and need not be waited for.
    Quorlock::builder()
        .restart_quarantine(false)
        .max_ttl(Duration::from_secs(600))
        .nodes(servers.urls())
        .ttl(TTL)
        .node_timeout(NODE_TIMEOUT)
}

fn client(servers: &Servers) -> Quorlock {
    connected(settings(servers))
}

/// Whether the lock came from another thread of the process, and not from the nodes.
fn was_handed_over(guard: &Guard) -> bool {
    u64::from(guard.token().expect("fencing is on")) % 4_096 > 0
}

/// Spawns a thread that waits in `wait`, and returns once it does.
fn waits<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    wait: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let (tell, told) = bounded(1);
    let thread = scope.spawn(move || {
        let me = fs::read_link("/proc/thread-self").expect("this is Linux");
        tell.send(me).expect("somebody listens");
        wait()
    });
    let me = told.recv().expect("it has begun");
    wait_until("the thread waits", LIMIT, || {
        // The state comes behind the name, which is in brackets.
        let stat = fs::read_to_string(format!("/proc/{}/stat", me.display())).expect("it lives");
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('S'))
    });
    thread
}

fn locked(result: Result<Guard, quorlock::Error>) -> Guard {
    let guard = result.expect("three healthy nodes");
    guard.check().expect("a lock that is handed out is held");
    guard
}

#[test]
fn threads_are_served_in_the_order_in_which_they_came() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let served = parking_lot::Mutex::new(Vec::new());
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        for i in 0..8 {
            let (locks, served) = (locks.clone(), &served);
            waits(scope, move || {
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
    servers.wait_no_keys();
}

/// No node is asked, so none has to be there.
#[test]
fn a_hand_over_needs_no_node() {
    let mut servers = Servers::start(3);
    let locks = client(&servers);
    let guard = locked(locks.lock(NAME));
    // A majority is enough for the lock; the third node may be asked a moment later.
    wait_until("all nodes were asked", LIMIT, || requests(&locks) == 3);
    thread::scope(|scope| {
        let next = waits(scope, || locked(locks.lock(NAME)));
        (0..3).for_each(|i| servers[i].pause());
        assert!(locks.try_lock(NAME).expect("that is known here").is_none());
        guard.unlock().expect("the next one has it");
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next));
        assert_eq!(requests(&locks), 3);
        (0..3).for_each(|i| servers[i].resume());
        next.unlock().expect("it was ours all the time");
    });
    servers.wait_no_keys();
}

#[test]
fn the_next_holder_has_a_lock_of_its_own() {
    let servers = Servers::start(3);
    let (locks, other) = (client(&servers), client(&servers));
    let mutex = locks.mutex(NAME).ttl(SHORT_TTL);
    let guard = locked(mutex.lock());
    let (lost, token) = (guard.lost().clone(), guard.token());
    let (tell, told) = bounded(1);
    guard.on_lost(move |reason| tell.send(reason).expect("it is waited for"));
    thread::scope(|scope| {
        let next = waits(scope, || locked(mutex.lock()));
        drop(guard);
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next) && next.token() > token);
        assert!(lost.recv().is_err(), "the first one has given it back");
        assert!(told.recv().is_err(), "and is not called any more");

        // It is renewed, until somebody takes it away.
        assert!(next.lost().recv_timeout(SHORT_TTL * 3 / 2).is_err());
        next.check().expect("it is renewed");
        assert!(other.try_lock(NAME).expect("held is no error").is_none());
        next.extend(SHORT_TTL * 2).expect("three healthy nodes");
        servers.iter().for_each(|server| drop(server.command(&["DEL", KEY])));
        assert_eq!(next.lost().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
        assert_eq!(next.unlock().expect_err("it is lost").kind(), ErrorKind::Lost);
    });
    servers.wait_no_keys();
}

#[test]
fn the_longest_hold_counts_from_the_hand_over() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let mutex = locks.mutex(NAME).ttl(SHORT_TTL);
    let guard = locked(mutex.clone().max_hold(Duration::from_secs(500)).lock());
    thread::scope(|scope| {
        let brief = mutex.max_hold(SHORT_TTL);
        let next = waits(scope, move || locked(brief.lock()));
        guard.unlock().expect("it was ours all the time");
        let next = next.join().expect("no panic");
        assert!(was_handed_over(&next));
        assert!(next.remaining() > SHORT_TTL / 2);
        assert_eq!(next.lost().recv_timeout(LIMIT), Ok(LossReason::MaxHold));
    });
    servers.wait_no_keys();
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
fn whoever_leaves_the_line_leaves_the_lock_to_the_others() {
    let servers = Servers::start(3);
    let (locks, other) = (client(&servers), client(&servers));
    let (cancel, cancelled) = bounded(1);
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        let first = waits(scope, || locks.lock_cancellable(NAME, &cancelled));
        let second = scope.spawn(|| locks.try_lock_for(NAME, Duration::from_millis(200)));
        assert!(second.join().expect("no panic").expect("held is no error").is_none());
        let third = waits(scope, || locked(locks.lock(NAME)));
        cancel.send(()).expect("it listens");
        let error = first.join().expect("no panic").expect_err("cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        guard.unlock().expect("it was ours all the time");
        let guard = third.join().expect("no panic");
        assert!(was_handed_over(&guard));

        let fourth = waits(scope, || locks.lock(NAME));
        locks.clone().close(LIMIT).expect("three healthy nodes");
        let error = fourth.join().expect("no panic").expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        guard.check().expect("what is held stays held");
        guard.unlock().expect("it was ours all the time");
    });
    let guard = other.try_lock(NAME).expect("three healthy nodes");
    assert!(guard.is_some(), "nobody has taken it along");
    drop(guard);
    servers.wait_no_keys();
}

/// The hand-over and the cancellation meet, again and again: one of the two wins, and the lock is free
/// afterwards.
#[test]
fn the_chosen_one_who_is_cancelled_at_that_instant_passes_it_on() {
    let servers = Servers::start(1);
    let locks = client(&servers);
    let (mut got, mut left) = (0, 0);
    // By how much the hand-over comes later than the cancellation, or (negative) earlier: whoever won has to
    // wait for longer the next time, so that the two meet whatever the machine is like.
    let mut later = 0_i32;
    for i in 0.. {
        let (cancel, cancelled) = bounded(1);
        let guard = locked(locks.lock(NAME));
        let start = Barrier::new(2);
        let by = later;
        let spin = |turns: i32| (0..turns * 16).for_each(|_| std::hint::spin_loop());
        thread::scope(|scope| {
            let first = waits(scope, || locks.lock_cancellable(NAME, &cancelled));
            let second = waits(scope, || locked(locks.lock(NAME)));
            let canceller = scope.spawn(|| {
                start.wait();
                spin(-by);
                cancel.send(())
            });
            start.wait();
            spin(by);
            drop(guard);
            let served = first.join().expect("no panic");
            // Nobody may be there any more to read it.
            let _ = canceller.join().expect("no panic");
            match served {
                Ok(guard) => {
                    (got, later) = (got + 1, later + 1);
                    drop(guard);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled);
                    (left, later) = (left + 1, later - 1);
                }
            }
            drop(second.join().expect("no panic"));
        });
        if i > 100 && got > 10 && left > 10 || i > 2_000 {
            break;
        }
    }
    assert!(got > 10 && left > 10, "{got} were served, {left} were cancelled");
    let guard = locks.try_lock(NAME).expect("a healthy node");
    assert!(guard.is_some(), "somebody has taken it along");
    drop(guard);
    servers.wait_no_keys();
}

#[test]
fn a_leaked_guard_blocks_nobody_once_its_lock_is_lost() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    // Once because it ends, and once because it is taken away.
    for renewal in [Renewal::Manual, Renewal::Auto] {
        let guard = locked(locks.mutex(NAME).ttl(SHORT_TTL).renewal(renewal).lock());
        let lost = guard.lost().clone();
        mem::forget(guard);
        thread::scope(|scope| {
            let next = waits(scope, || locked(locks.lock(NAME)));
            let after = waits(scope, || locked(locks.lock(NAME)));
            if renewal == Renewal::Auto {
                servers.iter().for_each(|server| drop(server.command(&["DEL", KEY])));
            }
            lost.recv_timeout(LIMIT).expect("it is told");
            let next = next.join().expect("no panic");
            assert!(!was_handed_over(&next), "a lost lock is not handed over");
            next.unlock().expect("it was ours all the time");
            assert!(was_handed_over(&after.join().expect("no panic")));
        });
    }
    servers.wait_no_keys();
}

#[test]
fn a_holder_that_panics_hands_the_lock_on() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let guard = locked(locks.lock(NAME));
    thread::scope(|scope| {
        let next = waits(scope, || locked(locks.lock(NAME)));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("in the critical section"));
        }));
        assert!(panicked.is_err());
        next.join().expect("no panic").unlock().expect("it was ours all the time");
    });
    servers.wait_no_keys();
}

#[test]
fn another_process_gets_in_however_many_threads_hand_the_lock_on() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    // Who asks all the time: so it finds the moment in which the lock is free.
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
            let guard = other.try_lock_for(NAME, LIMIT).expect("three healthy nodes");
            let served = guard.is_some();
            over.store(!served, Ordering::Relaxed);
            assert!(served, "the lock has never left the other client");
        }
        over.store(true, Ordering::Relaxed);
    });
    servers.wait_no_keys();
}

/// Who would have asked the nodes for something else asks the nodes.
#[test]
fn a_lock_with_other_terms_is_not_handed_over() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let auto = locks.mutex(NAME);
    let manual = auto.clone().renewal(Renewal::Manual);
    let longer = auto.clone().ttl(TTL * 2);
    for (holder, waiter) in
        [(&manual, &manual), (&auto, &manual), (&manual, &auto), (&auto, &longer), (&longer, &auto)]
    {
        let guard = locked(holder.lock());
        thread::scope(|scope| {
            let next = waits(scope, || locked(waiter.lock()));
            guard.unlock().expect("it was ours all the time");
            let next = next.join().expect("no panic");
            assert!(!was_handed_over(&next), "{waiter:?} after {holder:?}");
            next.unlock().expect("it was ours all the time");
        });
    }
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

/// Who waits behind somebody who cannot reach the nodes is told so, too, and in its own time.
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
                    _ => locks.try_lock_for(NAME, LIMIT).map(drop),
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

/// Nobody knows whether the lock is held, so nobody says so.
#[test]
fn who_waits_behind_somebody_that_hears_nothing_is_not_told_that_the_lock_is_held() {
    let mut servers = Servers::start(3);
    let locks = client(&servers);
    (0..3).for_each(|i| servers[i].pause());
    thread::scope(|scope| {
        let first = waits(scope, || locks.lock(NAME));
        let second = locks.try_lock_for(NAME, NODE_TIMEOUT / 10);
        let error = second.expect_err("no node has said anything");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        (0..3).for_each(|i| servers[i].resume());
        drop(first.join().expect("no panic").expect("the nodes are back"));
    });
    servers.wait_no_keys();
}

/// Should the next one be killed, the keys are in everybody's way for no longer than it would have asked for.
/// `QUORLOCK_ROUNDS` says how often that is tried.
#[test]
fn keys_that_outlive_the_terms_of_the_next_one_are_not_handed_over() {
    const LONG: Duration = Duration::from_secs(300);
    let rounds = std::env::var("QUORLOCK_ROUNDS");
    let rounds: u32 = rounds.map_or(3, |rounds| rounds.parse().expect("a number"));
    let servers = Servers::start(3);
    let locks = client(&servers);
    let left_to_the_next = |extends: bool| {
        let guard = locked(locks.lock(NAME));
        if extends {
            guard.extend(LONG).expect("three healthy nodes");
        }
        thread::scope(|scope| {
            let limited = locks.mutex(NAME).max_hold(TTL + TTL / 4);
            let next = waits(scope, move || locked(limited.lock()));
            guard.unlock().expect("it was ours all the time");
            let next = next.join().expect("no panic");
            let ttl = i64::try_from(TTL.as_millis()).expect("short");
            let keeps_to_it = || servers.iter().all(|server| server.pttl(KEY) <= ttl);
            if was_handed_over(&next) {
                return (true, keeps_to_it());
            }
            // The last node may not have run the release yet.
            wait_until("the keys to be those of the next one", LIMIT, keeps_to_it);
            (false, true)
        })
    };
    let mut too_long = 0;
    for _ in 0..rounds {
        assert_eq!(left_to_the_next(false), (true, true), "nothing was extended");
        too_long += u32::from(!left_to_the_next(true).1);
    }
    assert_eq!(
        too_long, 0,
        "keys outlive the terms of who has them in {too_long} of {rounds} rounds"
    );
}
