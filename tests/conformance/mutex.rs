//! The promises of the exclusive lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{ErrorKind, Guard, LossReason, Mode, Quorlock, Renewal};

use crate::support::wait_until;
use crate::world::{SHORT_TTL, TTL, World};

type Promise = (&'static str, fn(&mut World));

pub(crate) const PROMISES: &[Promise] = &[
    ("a_lock_is_held_and_given_back", a_lock_is_held_and_given_back),
    ("held_is_none_and_not_an_error", held_is_none_and_not_an_error),
    ("clients_exclude_each_other", clients_exclude_each_other),
    ("threads_of_one_client_exclude_each_other", threads_of_one_client_exclude_each_other),
    ("a_drop_gives_back_without_waiting", a_drop_gives_back_without_waiting),
    ("a_panic_gives_back", a_panic_gives_back),
    ("a_waiter_gets_it_after_the_release", a_waiter_gets_it_after_the_release),
    ("a_timed_try_ends_at_its_deadline", a_timed_try_ends_at_its_deadline),
    ("a_waiter_can_be_cancelled", a_waiter_can_be_cancelled),
    ("a_critical_section_is_protected", a_critical_section_is_protected),
    ("an_extension_lasts", an_extension_lasts),
    ("the_end_of_validity_is_told", the_end_of_validity_is_told),
    ("work_longer_than_the_ttl_keeps_its_lock", work_longer_than_the_ttl_keeps_its_lock),
    ("the_longest_hold_is_kept_to", the_longest_hold_is_kept_to),
    ("an_unlock_ends_the_notice_without_a_message", an_unlock_ends_the_notice_without_a_message),
    ("a_guard_outlives_its_client", a_guard_outlives_its_client),
    ("closing_ends_the_waiting", closing_ends_the_waiting),
    ("names_are_bytes_and_independent", names_are_bytes_and_independent),
    ("another_redlock_client_is_excluded", another_redlock_client_is_excluded),
    ("tokens_rise_from_holder_to_holder", tokens_rise_from_holder_to_holder),
    ("other_data_is_never_touched", other_data_is_never_touched),
];

/// Locks a lock that is free. What another test's machine does cannot make that fail.
fn lock(locks: &Quorlock, name: &str) -> Guard {
    locks.lock(name).expect("a majority is healthy")
}

fn is_free(locks: &Quorlock, name: &str) -> bool {
    locks.try_lock(name).expect("a majority is healthy").is_some()
}

fn a_lock_is_held_and_given_back(world: &mut World) {
    let locks = world.client();
    let guard = lock(&locks, "orders/42");
    let (remaining, validity) = (guard.remaining(), TTL - TTL / 100 - Duration::from_millis(2));
    assert!(remaining > TTL / 2 && remaining < validity, "{remaining:?}");
    guard.check().expect("it is ours");
    assert_eq!(guard.name(), b"orders/42");
    let single = world.servers.len() == 1;
    assert_eq!(guard.mode(), if single { Mode::SingleNode } else { Mode::Quorum });
    assert!(!is_free(&locks, "orders/42"));
    guard.unlock().expect("a majority is healthy");
    assert!(is_free(&locks, "orders/42"));
}

fn held_is_none_and_not_an_error(world: &mut World) {
    let (holder, other) = (world.client(), world.client());
    let guard = lock(&holder, "orders/42");
    for _ in 0..10 {
        assert!(other.try_lock("orders/42").expect("held is no error").is_none());
    }
    guard.unlock().expect("a majority is healthy");
}

fn clients_exclude_each_other(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let inside = parking_lot::Mutex::new(());
    thread::scope(|scope| {
        for locks in &clients {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = lock(locks, "orders/42");
                    let alone = inside.try_lock().expect("two hold the lock at once");
                    thread::yield_now();
                    drop(alone);
                    guard.unlock().expect("a majority is healthy");
                }
            });
        }
    });
}

fn threads_of_one_client_exclude_each_other(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let last = parking_lot::Mutex::new(None);
    thread::scope(|scope| {
        for locks in [&locks, &locks, &locks, &other] {
            let last = &last;
            scope.spawn(move || {
                for i in 0..5 {
                    let guard = lock(locks, "orders/42");
                    guard.check().expect("what is handed out is held");
                    let mut last = last.try_lock().expect("two hold the lock at once");
                    assert!(guard.token() > *last, "{:?} after {last:?}", guard.token());
                    *last = guard.token();
                    drop(last);
                    if i % 2 == 0 {
                        guard.unlock().expect("a majority is healthy");
                    }
                }
            });
        }
    });
}

fn a_drop_gives_back_without_waiting(world: &mut World) {
    let locks = world.client();
    drop(lock(&locks, "orders/42"));
    wait_until("the lock is free", TTL / 2, || is_free(&locks, "orders/42"));
}

fn a_panic_gives_back(world: &mut World) {
    let locks = world.client();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock(&locks, "orders/42");
        std::panic::resume_unwind(Box::new("in the critical section"));
    }));
    assert!(panicked.is_err());
    wait_until("the lock is free", TTL / 2, || is_free(&locks, "orders/42"));
}

fn a_waiter_gets_it_after_the_release(world: &mut World) {
    let (holder, waiter) = (world.client(), world.client());
    let guard = lock(&holder, "orders/42");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| lock(&waiter, "orders/42"));
        // It cannot come back while the lock is held, however long we look.
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        guard.check().expect("it is still ours");
        guard.unlock().expect("a majority is healthy");
        let guard = waiting.join().expect("no panic");
        guard.unlock().expect("a majority is healthy");
    });
}

fn a_timed_try_ends_at_its_deadline(world: &mut World) {
    let (holder, other) = (world.client(), world.client());
    let guard = lock(&holder, "orders/42");
    let patience = Duration::from_millis(700);
    let start = Instant::now();
    assert!(other.try_lock_for("orders/42", patience).expect("held is no error").is_none());
    assert!(start.elapsed() >= patience, "gave up after {:?}", start.elapsed());
    let deadline = Instant::now() + patience;
    assert!(other.try_lock_until("orders/42", deadline).expect("held is no error").is_none());
    assert!(Instant::now() >= deadline);
    // A time that has passed asks for a single try.
    assert!(other.try_lock_until("orders/42", start).expect("held is no error").is_none());
    guard.unlock().expect("a majority is healthy");
    let guard = other.try_lock_until("orders/42", start).expect("a majority is healthy");
    assert!(guard.is_some());
}

fn a_waiter_can_be_cancelled(world: &mut World) {
    let locks = world.client();
    let guard = lock(&locks, "orders/42");
    let (cancel, cancelled) = crossbeam_channel::bounded(1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock_cancellable("orders/42", &cancelled));
        cancel.send(()).expect("the waiter listens");
        let result = waiting.join().expect("no panic");
        assert_eq!(result.expect_err("cancelled").kind(), ErrorKind::Cancelled);

        // The end of the sender cancels whoever listens.
        let waiting = scope.spawn(|| locks.lock_cancellable("orders/42", &cancelled));
        let waiting_too = scope.spawn(|| locks.lock_cancellable("orders/42", &cancelled));
        drop(cancel);
        for waiting in [waiting, waiting_too] {
            let result = waiting.join().expect("no panic");
            assert_eq!(result.expect_err("cancelled").kind(), ErrorKind::Cancelled);
        }
    });
    guard.unlock().expect("it was ours all the time");
}

fn a_critical_section_is_protected(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let result = locks.with_lock("orders/42", |guard| {
        guard.check().expect("it is ours");
        assert!(!is_free(&other, "orders/42"));
        42
    });
    assert_eq!(result.expect("a majority is healthy"), 42);
    assert!(is_free(&other, "orders/42"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        locks.with_lock("orders/42", |_| std::panic::resume_unwind(Box::new("inside")))
    }));
    assert!(panicked.is_err());
    wait_until("the lock is free", TTL / 2, || is_free(&other, "orders/42"));
}

fn an_extension_lasts(world: &mut World) {
    let locks = world.client();
    let guard = lock(&locks, "orders/42");
    guard.extend(TTL * 6).expect("a majority is healthy");
    assert!(guard.remaining() > TTL * 5);
    // Asking for less cuts what we may rely on at once, and never a key.
    guard.extend(TTL).expect("a majority is healthy");
    assert!(guard.remaining() < TTL);
    let five_times = i64::try_from((TTL * 5).as_millis()).expect("small");
    wait_until("the keys live on", TTL, || {
        let remaining = world.command_everywhere(&["PTTL", &world.key("orders/42")]);
        remaining.iter().all(|ms| matches!(ms, redis::Value::Int(ms) if *ms > five_times))
    });
    guard.unlock().expect("a majority is healthy");
}

fn the_end_of_validity_is_told(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let mutex = locks.mutex("orders/42").ttl(SHORT_TTL).renewal(Renewal::Manual);
    let guard = mutex.lock().expect("a majority is healthy");
    let (tell, told) = crossbeam_channel::bounded(1);
    guard.on_lost(move |reason| tell.send(reason).expect("it is waited for"));
    assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::Expired));
    assert_eq!(told.recv_timeout(TTL), Ok(LossReason::Expired));
    wait_until("the lease has ended", TTL, || guard.remaining().is_zero());
    let error = guard.check().expect_err("it may be somebody else's");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("validity ended"), "{error}");
    // It cannot be extended either, although the keys may still be there for a moment.
    assert_eq!(guard.extend(TTL).expect_err("lost").kind(), ErrorKind::Lost);
    let next = lock(&other, "orders/42");
    assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    assert!(!is_free(&other, "orders/42"), "the late unlock took the next holder's lock");
    next.unlock().expect("a majority is healthy");
}

fn work_longer_than_the_ttl_keeps_its_lock(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let mutex = locks.mutex("orders/42").ttl(SHORT_TTL);
    let guard = mutex.lock().expect("a majority is healthy");
    let start = Instant::now();
    while start.elapsed() < SHORT_TTL * 2 {
        assert!(!is_free(&other, "orders/42"));
        guard.check().expect("it is renewed");
        thread::sleep(SHORT_TTL / 20);
    }
    assert!(guard.lost().try_recv().is_err());
    guard.unlock().expect("it was ours all the time");
    assert!(is_free(&other, "orders/42"));
}

fn the_longest_hold_is_kept_to(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let start = Instant::now();
    let mutex = locks.mutex("orders/42").ttl(SHORT_TTL).max_hold(SHORT_TTL * 3 / 2);
    let guard = mutex.lock().expect("a majority is healthy");
    assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::MaxHold));
    assert!(start.elapsed() >= SHORT_TTL * 3 / 2);
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
    wait_until("it is given back", TTL / 2, || is_free(&other, "orders/42"));
}

fn an_unlock_ends_the_notice_without_a_message(world: &mut World) {
    let locks = world.client();
    let guard = lock(&locks, "orders/42");
    let lost = guard.lost().clone();
    guard.on_lost(|reason| panic!("told of {reason:?}"));
    assert_eq!(lost.try_recv(), Err(crossbeam_channel::TryRecvError::Empty));
    guard.unlock().expect("a majority is healthy");
    assert_eq!(lost.recv_timeout(TTL), Err(crossbeam_channel::RecvTimeoutError::Disconnected));
}

fn a_guard_outlives_its_client(world: &mut World) {
    let (locks, other) = (world.client(), world.client());
    let guard = lock(&locks, "orders/42");
    drop(locks);
    assert!(!is_free(&other, "orders/42"));
    let guard = thread::spawn(move || {
        guard.check().expect("it is ours");
        guard
    });
    guard.join().expect("no panic").unlock().expect("a majority is healthy");
    assert!(is_free(&other, "orders/42"));
}

fn closing_ends_the_waiting(world: &mut World) {
    let (holder, waiter) = (world.client(), world.client());
    let guard = lock(&holder, "orders/42");
    thread::scope(|scope| {
        let waiting = [scope.spawn(|| waiter.lock("orders/42")), {
            scope.spawn(|| waiter.try_lock_for("orders/42", TTL).map(|guard| guard.expect("held")))
        }];
        let mine = lock(&waiter, "orders/43");
        waiter.clone().close(TTL).expect("nothing is queued");
        for waiting in waiting {
            let error = waiting.join().expect("no panic").expect_err("closed");
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        assert_eq!(waiter.try_lock("free").expect_err("closed").kind(), ErrorKind::Closed);
        mine.check().expect("a lock that is held stays held");
        assert!(!is_free(&holder, "orders/43"));
        mine.unlock().expect("and can be given back");
    });
    guard.unlock().expect("nobody closed the holder");
}

fn names_are_bytes_and_independent(world: &mut World) {
    let locks = world.client();
    let names: [&[u8]; 5] = [b"a", b"b", b"\xff\xfe", b"a b\r\n", "größe".as_bytes()];
    let guards = names.map(|name| locks.lock(name).expect("a majority is healthy"));
    for (guard, name) in guards.iter().zip(names) {
        assert_eq!(guard.name(), name);
        assert!(locks.try_lock(name).expect("a majority is healthy").is_none());
    }
    for guard in guards {
        guard.unlock().expect("a majority is healthy");
    }
}

/// The layout of the Redlock algorithm: a string that `SET NX PX` makes and that its owner deletes.
fn another_redlock_client_is_excluded(world: &mut World) {
    let locks = world.client();
    let key = world.key("orders/42");
    let set = ["SET", &key, "another-client", "NX", "PX", "60000"];
    let guard = lock(&locks, "orders/42");
    let majority = world.servers.len() / 2 + 1;
    let taken =
        world.command_everywhere(&set).iter().filter(|reply| **reply == redis::Value::Nil).count();
    let free = world.servers.len() - taken;
    assert!(taken >= majority || free < majority, "it got {free} nodes");
    guard.unlock().expect("it was ours all the time");

    world.command_everywhere(&["DEL", &key]);
    world.command_everywhere(&set);
    assert!(!is_free(&locks, "orders/42"));
    let release = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) \
                   else return 0 end";
    world.command_everywhere(&["EVAL", release, "1", &key, "another-client"]);
    assert!(is_free(&locks, "orders/42"));
}

fn tokens_rise_from_holder_to_holder(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let last = parking_lot::Mutex::new(None);
    thread::scope(|scope| {
        for locks in &clients {
            scope.spawn(|| {
                for i in 0..5 {
                    let guard = lock(locks, "orders/42");
                    let token = guard.token().expect("fencing is on");
                    assert!(u64::from(token) > 0 && i64::from(token) > 0);
                    let before = last.lock().replace(token);
                    assert!(Some(token) > before, "{token} after {before:?}");
                    assert_eq!(guard.token(), Some(token), "it stays the same");
                    if i % 2 == 0 {
                        guard.unlock().expect("a majority is healthy");
                    }
                }
            });
        }
    });
    // Switched off, nothing of it is there.
    let locks = world.builder().fencing(false).build().expect("the settings are valid");
    let guard = lock(&locks, "orders/43");
    assert_eq!(guard.token(), None);
    let fence = format!("{{{}}}:fence", world.key("orders/43"));
    for there in world.command_everywhere(&["EXISTS", &fence]) {
        assert_eq!(there, redis::Value::Int(0));
    }
    guard.unlock().expect("a majority is healthy");
}

fn other_data_is_never_touched(world: &mut World) {
    let locks = world.client();
    let key = world.key("orders/42");
    world.command_everywhere(&["RPUSH", &key, "data"]);
    let error = locks.try_lock("orders/42").expect_err("a list is no lock");
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert!(error.to_string().contains(&key), "{error}");
    assert_eq!(
        locks.lock("orders/42").expect_err("waiting is no use").kind(),
        ErrorKind::WrongKind
    );
    for length in world.command_everywhere(&["LLEN", &key]) {
        assert_eq!(length, redis::Value::Int(1));
    }
    world.command_everywhere(&["DEL", &key]);

    // Another kind of lock under the name is a holder like any other.
    world.command_everywhere(&["HSET", &key, "uuid:1", "1"]);
    world.command_everywhere(&["PEXPIRE", &key, "60000"]);
    assert!(!is_free(&locks, "orders/42"));
    world.command_everywhere(&["DEL", &key]);
    assert!(is_free(&locks, "orders/42"));
}
