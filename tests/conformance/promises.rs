//! The promises of every kind of lock.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::crossbeam_channel::{RecvTimeoutError, TryRecvError, bounded};
use quorlock::{ErrorKind, HoldClass, LockState, LossReason, Mode, Renewal};

use crate::Promise;
use crate::clients::{handle, names, unlock};
use crate::support::kinds::KINDS;
use crate::support::wait_until;
use crate::world::{SHORT_TTL, TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    ("a_lock_is_held_and_given_back", a_lock_is_held_and_given_back),
    ("held_is_none_and_not_an_error", held_is_none_and_not_an_error),
    ("kinds_exclude_each_other", kinds_exclude_each_other),
    ("a_drop_gives_back_without_waiting", a_drop_gives_back_without_waiting),
    ("a_panic_gives_back", a_panic_gives_back),
    ("a_waiter_gets_it_after_the_release", a_waiter_gets_it_after_the_release),
    ("a_rival_waits_for_the_release", a_rival_waits_for_the_release),
    ("a_timed_try_ends_at_its_deadline", a_timed_try_ends_at_its_deadline),
    ("a_waiter_can_be_cancelled", a_waiter_can_be_cancelled),
    ("a_critical_section_is_protected", a_critical_section_is_protected),
    ("an_extension_lasts", an_extension_lasts),
    ("the_end_of_validity_is_told", the_end_of_validity_is_told),
    ("a_loss_is_announced", a_loss_is_announced),
    ("work_longer_than_the_ttl_keeps_its_lock", work_longer_than_the_ttl_keeps_its_lock),
    ("the_longest_hold_is_kept_to", the_longest_hold_is_kept_to),
    ("an_unlock_ends_the_notice_without_a_message", an_unlock_ends_the_notice_without_a_message),
    ("a_guard_outlives_its_client", a_guard_outlives_its_client),
    ("closing_ends_the_waiting", closing_ends_the_waiting),
    ("names_are_bytes_and_independent", names_are_bytes_and_independent),
    ("a_later_holder_has_a_larger_token", a_later_holder_has_a_larger_token),
    ("other_data_is_never_touched", other_data_is_never_touched),
    ("the_nodes_say_who_holds_it", the_nodes_say_who_holds_it),
    ("a_forced_lock_is_free_for_good", a_forced_lock_is_free_for_good),
];

fn a_lock_is_held_and_given_back(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let guard = client.lock("orders/42");
    let (remaining, validity) = (guard.remaining(), TTL - TTL / 100 - Duration::from_millis(2));
    assert!(remaining > TTL / 2 && remaining < validity, "{remaining:?}");
    guard.check().expect("it is ours");
    let names: Vec<_> =
        names(world.kind, "orders/42").into_iter().map(String::into_bytes).collect();
    assert_eq!(guard.names(), names);
    let single = world.servers.len() == 1;
    assert_eq!(guard.mode(), if single { Mode::SingleNode } else { Mode::Quorum });
    assert!(rival.is_taken("orders/42"));
    guard.unlock().expect("a majority is healthy");
    assert!(rival.is_free("orders/42"));
}

fn held_is_none_and_not_an_error(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let guards = rival.lock("orders/42");
    for _ in 0..10 {
        assert!(client.try_lock("orders/42").is_none());
    }
    unlock(guards);
    let guard = client.try_lock("orders/42").expect("it is free");
    for _ in 0..10 {
        assert!(rival.is_taken("orders/42"));
    }
    guard.unlock().expect("a majority is healthy");
}

/// A lock of any kind excludes every other lock that has one of its names, unless both are shared holds
/// of one kind.
fn kinds_exclude_each_other(world: &mut World) {
    let (one, kind) = (world.client(), world.kind);
    for other_kind in KINDS.iter().copied() {
        let other = world.quorlock(other_kind);
        let is_same = other_kind.label() == kind.label();
        let side_by_side = is_same && kind.hold_class() == HoldClass::Shared;
        for common in names(kind, "orders/42") {
            let other_names = names(other_kind, "others/7").into_iter().skip(1);
            let other_names: Vec<_> = other_names.chain([common.clone()]).collect();
            let other = handle(other_kind, &other, &other_names);
            let both = format!("{} and {}, by {common}", kind.label(), other_kind.label());
            let guard = one.lock("orders/42");
            let granted = other.try_lock().unwrap_or_else(|error| panic!("{both}: {error}"));
            assert_eq!(granted.is_some(), side_by_side, "{both}");
            guard.check().expect("it is ours");
            guard.unlock().expect("a majority is healthy");

            let guard = granted.unwrap_or_else(|| other.lock().expect("a majority is healthy"));
            let granted = one.try_lock("orders/42");
            assert_eq!(granted.is_some(), side_by_side, "{both}, the other way round");
            guard.check().expect("it is ours");
            guard.unlock().expect("a majority is healthy");
            unlock(granted.into_iter().collect());
        }
    }
}

fn a_drop_gives_back_without_waiting(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    drop(client.lock("orders/42"));
    wait_until("the lock is free", TTL / 2, || rival.is_free("orders/42"));
}

fn a_panic_gives_back(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = client.lock("orders/42");
        resume_unwind(Box::new("in the critical section"));
    }));
    assert!(panicked.is_err());
    wait_until("the lock is free", TTL / 2, || rival.is_free("orders/42"));
}

fn a_waiter_gets_it_after_the_release(world: &mut World) {
    let (holder, waiter) = (world.rival(), world.client());
    let guards = holder.lock("orders/42");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let guard = waiter.lock("orders/42");
            guard.unlock().expect("a majority is healthy");
        });
        waiter.waits();
        assert!(!waiting.is_finished());
        guards.iter().for_each(|guard| guard.check().expect("it is still ours"));
        unlock(guards);
        waiting.join().expect("no panic");
    });
}

fn a_rival_waits_for_the_release(world: &mut World) {
    let (holder, waiter) = (world.client(), world.rival());
    let guard = holder.lock("orders/42");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| unlock(waiter.lock("orders/42")));
        waiter.waits();
        assert!(!waiting.is_finished());
        guard.check().expect("it is still ours");
        guard.unlock().expect("a majority is healthy");
        waiting.join().expect("no panic");
    });
}

fn a_timed_try_ends_at_its_deadline(world: &mut World) {
    let (holder, other) = (world.rival(), world.client());
    let guards = holder.lock("orders/42");
    let handle = other.handle("orders/42");
    let patience = Duration::from_millis(700);
    let start = Instant::now();
    assert!(handle.try_lock_for(patience).expect("held is no error").is_none());
    assert!(start.elapsed() >= patience, "gave up after {:?}", start.elapsed());
    let deadline = Instant::now() + patience;
    assert!(handle.try_lock_until(deadline).expect("held is no error").is_none());
    assert!(Instant::now() >= deadline);
    // A deadline in the past asks for a single try.
    assert!(handle.try_lock_until(start).expect("held is no error").is_none());
    unlock(guards);
    let guard = handle.try_lock_until(start).expect("a majority is healthy");
    assert!(guard.is_some());
}

fn a_waiter_can_be_cancelled(world: &mut World) {
    let (holder, waiter) = (world.rival(), world.client());
    let guards = holder.lock("orders/42");
    let (cancel, cancelled) = bounded(1);
    let handle = waiter.handle("orders/42");
    let wait = || handle.lock_cancellable(&cancelled).map(drop).expect_err("cancelled").kind();
    thread::scope(|scope| {
        let waiting = scope.spawn(wait);
        cancel.send(()).expect("the waiter listens");
        assert_eq!(waiting.join().expect("no panic"), ErrorKind::Cancelled);

        // The drop of the sender cancels every waiter.
        let waiting = [scope.spawn(wait), scope.spawn(wait)];
        drop(cancel);
        for waiting in waiting {
            assert_eq!(waiting.join().expect("no panic"), ErrorKind::Cancelled);
        }
    });
    unlock(guards);
}

fn a_critical_section_is_protected(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let handle = client.handle("orders/42");
    let mut runs = 0;
    let result = handle.with_lock(&mut || {
        assert!(rival.is_taken("orders/42"));
        runs += 1;
    });
    result.expect("a majority is healthy");
    assert_eq!(runs, 1);
    assert!(rival.is_free("orders/42"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        handle.with_lock(&mut || resume_unwind(Box::new("inside")))
    }));
    assert!(panicked.is_err());
    wait_until("the lock is free", TTL / 2, || rival.is_free("orders/42"));
}

fn an_extension_lasts(world: &mut World) {
    let client = world.client();
    let guard = client.lock("orders/42");
    guard.extend(TTL * 6).expect("a majority is healthy");
    assert!(guard.remaining() > TTL * 5);
    // A shorter TTL cuts the promised validity at once, but never the lifetime of a key.
    guard.extend(TTL).expect("a majority is healthy");
    assert!(guard.remaining() < TTL);
    guard.unlock().expect("a majority is healthy");
}

fn the_end_of_validity_is_told(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let handle = client.handle("orders/42").ttl(SHORT_TTL).renewal(Renewal::Manual);
    let guard = handle.lock().expect("a majority is healthy");
    let (tell, told) = bounded(1);
    guard.on_lost(Box::new(move |reason| tell.send(reason).expect("it is waited for")));
    assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::Expired));
    assert_eq!(told.recv_timeout(TTL), Ok(LossReason::Expired));
    wait_until("the lease has ended", TTL, || guard.remaining().is_zero());
    let error = guard.check().expect_err("it may be somebody else's");
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().contains("validity ended"), "{error}");
    // The lock cannot be extended either, although its keys may still exist for a moment.
    assert_eq!(guard.extend(TTL).expect_err("lost").kind(), ErrorKind::Lost);
    let next = rival.lock("orders/42");
    assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    let late = client.try_lock("orders/42");
    assert!(late.is_none(), "the late unlock took the next holder's lock");
    unlock(next);
}

fn a_loss_is_announced(world: &mut World) {
    let client = world.client();
    let guard = client.handle("orders/42").ttl(SHORT_TTL).lock().expect("a majority is healthy");
    let (tell, told) = bounded(2);
    guard.on_at_risk(Box::new(move |risk| tell.send(risk.is_at_risk()).expect("there is room")));
    world.hang_healthy();
    let risk = guard.at_risk().recv_timeout(TTL).expect("it is told");
    assert!(risk.is_at_risk() && risk.remaining() < SHORT_TTL / 2, "{risk}");
    assert_eq!(told.recv_timeout(TTL), Ok(true));
    assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::Unconfirmed));
    let ended = Err(RecvTimeoutError::Disconnected);
    assert_eq!(guard.at_risk().recv_timeout(TTL).map(drop), ended);
    assert_eq!(told.recv_timeout(TTL).map(drop), ended);
    world.resume_healthy();
}

fn work_longer_than_the_ttl_keeps_its_lock(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let guard = client.handle("orders/42").ttl(SHORT_TTL).lock().expect("a majority is healthy");
    let start = Instant::now();
    while start.elapsed() < SHORT_TTL * 2 {
        assert!(rival.is_taken("orders/42"));
        guard.check().expect("it is renewed");
        thread::sleep(SHORT_TTL / 20);
    }
    assert!(guard.lost().try_recv().is_err());
    guard.unlock().expect("it was ours all the time");
    assert!(rival.is_free("orders/42"));
}

fn the_longest_hold_is_kept_to(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let start = Instant::now();
    let handle = client.handle("orders/42").ttl(SHORT_TTL).max_hold(SHORT_TTL * 3 / 2);
    let guard = handle.lock().expect("a majority is healthy");
    assert_eq!(guard.lost().recv_timeout(TTL), Ok(LossReason::MaxHold));
    assert!(start.elapsed() >= SHORT_TTL * 3 / 2);
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
    wait_until("it is given back", TTL / 2, || rival.is_free("orders/42"));
}

fn an_unlock_ends_the_notice_without_a_message(world: &mut World) {
    let client = world.client();
    let guard = client.lock("orders/42");
    let lost = guard.lost().clone();
    guard.on_lost(Box::new(|reason| panic!("told of {reason:?}")));
    assert_eq!(lost.try_recv(), Err(TryRecvError::Empty));
    guard.unlock().expect("a majority is healthy");
    assert_eq!(lost.recv_timeout(TTL), Err(RecvTimeoutError::Disconnected));
}

fn a_guard_outlives_its_client(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let guard = client.lock("orders/42");
    drop(client);
    assert!(rival.is_taken("orders/42"));
    guard.check().expect("it is ours");
    guard.unlock().expect("a majority is healthy");
    assert!(rival.is_free("orders/42"));
}

fn closing_ends_the_waiting(world: &mut World) {
    let (holder, waiter) = (world.rival(), world.client());
    let guards = holder.lock("orders/42");
    let handle = waiter.handle("orders/42");
    thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| handle.lock().map(drop)),
            scope.spawn(|| handle.try_lock_for(TTL).map(|guard| drop(guard.expect("held")))),
        ];
        let mine = waiter.lock("orders/43");
        waiter.locks.clone().close(TTL).expect("nothing is queued");
        for waiting in waiting {
            let error = waiting.join().expect("no panic").expect_err("closed");
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        let error = waiter.handle("free").try_lock().map(drop).expect_err("closed");
        assert_eq!(error.kind(), ErrorKind::Closed);
        mine.check().expect("a lock that is held stays held");
        assert!(holder.is_taken("orders/43"));
        mine.unlock().expect("and can be given back");
    });
    unlock(guards);
}

fn names_are_bytes_and_independent(world: &mut World) {
    let (client, rival) = (world.client(), world.rival());
    let names: [&[u8]; 5] = [b"a", b"b", b"\xff\xfe", b"a b\r\n", "größe".as_bytes()];
    let guards = names.map(|name| {
        let handle = handle(world.kind, &client.locks, &[name]);
        handle.lock().expect("a majority is healthy")
    });
    for (guard, name) in guards.iter().zip(names) {
        assert_eq!(guard.names(), [name]);
        assert!(rival.try_name(name).is_none());
    }
    unlock(guards.into());
    for name in names {
        assert!(rival.try_name(name).is_some());
    }
}

fn a_later_holder_has_a_larger_token(world: &mut World) {
    let clients = [world.client(), world.client(), world.client()];
    let mut last = None;
    for client in clients.iter().cycle().take(9) {
        let guard = client.lock("orders/42");
        let token = guard.token();
        assert_eq!(token.is_some(), world.kind.has_tokens());
        if let Some(token) = token {
            assert!(u64::from(token) > 0 && i64::from(token) > 0);
            let before = last.replace(token);
            assert!(Some(token) > before, "{token} after {before:?}");
        }
        assert_eq!(guard.token(), token, "it stays the same");
        guard.unlock().expect("a majority is healthy");
    }
    // With fencing switched off there are no tokens.
    let locks = world.builder(world.kind).fencing(false).build().expect("the settings are valid");
    let names = names(world.kind, "orders/43");
    let guard = handle(world.kind, &locks, &names).lock().expect("a majority is healthy");
    assert_eq!(guard.token(), None);
    for name in names {
        let fence = format!("{{{}}}:fence", world.key(&name));
        for there in world.command_everywhere(&["EXISTS", &fence]) {
            assert_eq!(there, redis::Value::Int(0));
        }
    }
    guard.unlock().expect("a majority is healthy");
}

fn other_data_is_never_touched(world: &mut World) {
    let client = world.client();
    for i in 0..names(world.kind, "orders").len() {
        // Another lock each time: a node of the minority may get the previous release a little later.
        let name = format!("orders/{i}");
        let handle = client.handle(&name);
        let keys: Vec<_> = names(world.kind, &name).iter().map(|name| world.key(name)).collect();
        world.command_everywhere(&["RPUSH", &keys[i], "data"]);
        let error = handle.try_lock().map(drop).expect_err("a list is no lock");
        assert_eq!(error.kind(), ErrorKind::WrongKind);
        assert!(error.to_string().contains(&keys[i]), "{error}");
        let error = handle.lock().map(drop).expect_err("waiting is no use");
        assert_eq!(error.kind(), ErrorKind::WrongKind);
        for length in world.command_everywhere(&["LLEN", &keys[i]]) {
            assert_eq!(length, redis::Value::Int(1));
        }
        let command: Vec<_> =
            ["EXISTS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        for there in world.command_everywhere(&command) {
            assert_eq!(there, redis::Value::Int(1), "no name is taken without the others");
        }
        world.command_everywhere(&["DEL", &keys[i]]);

        // Another library's lock under the name is reported like any other.
        world.command_everywhere(&["HSET", &keys[i], "uuid:1", "1"]);
        world.command_everywhere(&["PEXPIRE", &keys[i], "60000"]);
        assert!(client.try_lock(&name).is_none());
        for count in world.command_everywhere(&["HGET", &keys[i], "uuid:1"]) {
            assert_eq!(count, redis::Value::BulkString(b"1".to_vec()));
        }
        world.command_everywhere(&["DEL", &keys[i]]);
        let guard = handle.lock().expect("a majority is healthy");
        guard.unlock().expect("a majority is healthy");
    }
}

fn the_nodes_say_who_holds_it(world: &mut World) {
    let (client, operator) = (world.client(), world.operator());
    let lock = operator.handle("orders/42");
    assert!(!lock.is_locked().expect("a majority is healthy"));
    assert_eq!(lock.remaining_ttl().expect("a majority is healthy"), None);
    let guard = client.lock("orders/42");
    assert!(lock.is_locked().expect("a majority is healthy"));
    let left = lock.remaining_ttl().expect("a majority is healthy").expect("it is held");
    assert!(left > Duration::ZERO && left <= TTL, "{left:?}");
    let report = lock.holder().expect("a majority is healthy");
    assert_eq!(report.names.len(), guard.names().len());
    for (name, expected) in report.names.iter().zip(guard.names()) {
        assert_eq!((&name.name, name.state), (&expected, LockState::Held), "{report}");
        let [holder] = name.holders.as_slice() else { panic!("{report}") };
        assert_eq!(holder.owner.as_bytes(), guard.owner().as_bytes(), "{report}");
        let (token, has_tokens) = (holder.token, world.kind.has_tokens());
        assert!(!has_tokens || token.is_some_and(|token| Some(token) <= guard.token()), "{report}");
    }
    guard.unlock().expect("a majority is healthy");
    wait_until("it is free", TTL / 2, || !lock.is_locked().expect("a majority is healthy"));
}

fn a_forced_lock_is_free_for_good(world: &mut World) {
    let (client, rival, operator) = (world.client(), world.rival(), world.operator());
    let lock = operator.handle("orders/42");
    assert!(!lock.force_unlock().expect("a majority is healthy"), "nobody has it");
    let guard = client.lock("orders/42");
    let token = guard.token();
    assert!(lock.force_unlock().expect("a majority is healthy"));
    assert_eq!(guard.extend(TTL).expect_err("forced").kind(), ErrorKind::Lost);
    let next = rival.lock("orders/42");
    assert!(!world.kind.has_tokens() || next.iter().all(|next| next.token() > token));
    assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    next.iter().for_each(|next| next.check().expect("the one before gave back nothing of it"));
    unlock(next);
}
