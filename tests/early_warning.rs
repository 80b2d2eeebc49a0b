//! The holder of a lock learns that its renewals fail while the lock is still valid, and that it has recovered.

#![allow(clippy::print_stdout, reason = "figures are shown with --nocapture")]

mod support;

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, unbounded};
use quorlock::{Builder, Guard, LossReason, OptionalGuard as _, Renewal, Risk, RiskReason};
use support::clients::{connected, fresh, wait_renewed};
use support::{Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "orders/42";
/// Long enough for a busy machine to renew in time.
const TTL: Duration = Duration::from_secs(6);

fn builder(servers: &Servers) -> Builder {
    // A busy machine answers late.
    fresh(servers.urls()).ttl(TTL).node_timeout(Duration::from_secs(1))
}

fn hold(builder: Builder) -> Guard {
    let guard = connected(builder).lock(NAME).expect("all are healthy");
    wait_renewed([&guard], 1);
    guard
}

/// The next warning: the remaining time, the reason, and the text.
#[track_caller]
fn warning(guard: &Guard) -> (Duration, RiskReason, String) {
    let risk = guard.at_risk().recv_timeout(LIMIT).expect("the holder is warned");
    let shown = risk.to_string();
    match risk {
        Risk::AtRisk { remaining, reason, faults, .. } => {
            assert!(faults.iter().all(|fault| shown.contains(fault.what())), "{shown}");
            (remaining, reason, shown)
        }
        other => panic!("{other}"),
    }
}

/// The channel ends without another warning.
#[track_caller]
fn has_ended(at_risk: &Receiver<Risk>) {
    match at_risk.recv_timeout(LIMIT) {
        Err(ended) => assert_eq!(ended, RecvTimeoutError::Disconnected),
        Ok(risk) => panic!("{risk}"),
    }
}

fn cut(servers: &mut Servers, which: Range<usize>) {
    which.for_each(|i| servers[i].pause());
}

fn restore(servers: &mut Servers, which: Range<usize>) {
    which.for_each(|i| servers[i].resume());
}

#[test]
fn a_loss_is_announced_while_the_lock_is_valid_with_the_fault_of_each_node() {
    let mut servers = Servers::start(3);
    let guard = hold(builder(&servers));
    servers.iter_mut().take(2).for_each(support::Server::kill);
    let (remaining, reason, shown) = warning(&guard);
    let warned = Instant::now();
    assert!(guard.lost().is_empty() && guard.check().is_ok(), "the lock is valid");
    assert!(remaining > TTL / 4 && remaining <= TTL * 2 / 5, "{shown}");
    assert_eq!(reason, RiskReason::NotConfirmed);
    for server in servers.iter().take(2) {
        assert!(shown.contains(&server.url()) && shown.contains("connection refused"), "{shown}");
    }
    assert!(!shown.contains(&servers[2].url()), "it is well: {shown}");
    assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::Unconfirmed));
    assert!(warned.elapsed() + TTL / 12 > remaining, "told what was left");
    has_ended(guard.at_risk());
    let error = guard.check().expect_err("it is lost").to_string();
    for word in ["too few nodes confirmed its renewals", "connection refused", &servers[0].url()] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn a_holder_that_was_warned_hears_that_the_lock_has_recovered() {
    let mut servers = Servers::start(3);
    let guard = hold(builder(&servers));
    let (told, is_told) = unbounded();
    guard.on_at_risk(move |risk| told.send(risk.is_at_risk()).expect("the test listens"));
    for _ in 0..2 {
        cut(&mut servers, 0..2);
        let (_, _, shown) = warning(&guard);
        assert!((0..2).all(|i| shown.contains(&servers[i].url())), "{shown}");
        restore(&mut servers, 0..2);
        let recovered = guard.at_risk().recv_timeout(LIMIT).expect("it is told");
        assert!(matches!(recovered, Risk::Recovered { .. }), "{recovered}");
        assert!(recovered.remaining() > TTL / 2, "{recovered}");
        for is_at_risk in [true, false] {
            assert_eq!(is_told.recv_timeout(LIMIT), Ok(is_at_risk));
        }
        wait_renewed([&guard], 1);
    }
    guard.unlock().expect("three of three");
    assert_eq!(is_told.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
}

/// No warning comes for the given time.
fn nothing_is_told(at_risk: &Receiver<Risk>, lasts: Duration) {
    match at_risk.recv_timeout(lasts) {
        Err(RecvTimeoutError::Timeout) => {}
        Ok(risk) => panic!("{risk}"),
        Err(ended) => panic!("{ended}"),
    }
}

#[test]
fn the_fault_of_a_minority_is_never_told() {
    let mut servers = Servers::start(5);
    let guard = hold(builder(&servers));
    servers[0].kill();
    cut(&mut servers, 1..2);
    nothing_is_told(guard.at_risk(), TTL * 2);
    restore(&mut servers, 1..2);
    guard.unlock().expect("a majority is healthy");
}

/// The outage begins just before a renewal, so that it costs one as a rule.
#[test]
fn a_short_outage_is_not_told() {
    let mut servers = Servers::start(1);
    let long = TTL * 2;
    let guard = hold(builder(&servers).ttl(long).max_ttl(long));
    wait_until("the next renewal is near", LIMIT, || guard.remaining() < long * 3 / 4);
    cut(&mut servers, 0..1);
    nothing_is_told(guard.at_risk(), Duration::from_secs(1));
    restore(&mut servers, 0..1);
    wait_renewed([&guard], 1);
    nothing_is_told(guard.at_risk(), Duration::from_millis(1));
    guard.unlock().expect("one of one");
}

/// A caller that reads `lost` and `at_risk` alternately finds no warning after the loss.
#[test]
fn a_warning_that_was_not_read_is_gone_with_the_loss() {
    let mut servers = Servers::start(1);
    // The warning is there for half of the validity, so that a busy machine sees it.
    let guard = hold(builder(&servers).risk_margin(TTL / 2));
    assert!(guard.at_risk().is_empty());
    servers[0].kill();
    wait_until("the warning is there", LIMIT, || !guard.at_risk().is_empty());
    guard.lost().recv_timeout(LIMIT).expect("it is lost");
    has_ended(guard.at_risk());
}

#[test]
fn the_margin_is_settable_for_a_client_and_for_a_lock() {
    let mut servers = Servers::start(1);
    let locks = connected(builder(&servers).risk_margin(TTL / 2));
    let early = locks.lock("early").expect("one of one");
    let late = locks.mutex("late").risk_margin(TTL / 6).lock().expect("one of one");
    let never = locks.mutex("never").risk_margin(Duration::ZERO).lock().expect("one of one");
    wait_renewed([&early, &late, &never], 1);
    servers[0].kill();
    let (early_left, ..) = warning(&early);
    let (late_left, ..) = warning(&late);
    // Half of the validity, which is somewhat shorter than the TTL.
    assert!(early_left > TTL * 2 / 5 && early_left <= TTL / 2, "{early_left:?}");
    assert!(late_left <= TTL / 6, "{late_left:?}");
    assert_eq!(never.lost().recv_timeout(LIMIT), Ok(LossReason::Unconfirmed));
    has_ended(never.at_risk());
}

#[test]
fn a_lock_that_is_not_renewed_or_has_its_longest_hold_ends_without_a_warning() {
    let servers = Servers::start(1);
    let short = Duration::from_secs(1);
    let locks = connected(builder(&servers).node_timeout(short / 2));
    let manual = locks.mutex("manual").ttl(short).renewal(Renewal::Manual);
    let limited = locks.mutex("limited").max_hold(short);
    for (mutex, reason) in [(manual, LossReason::Expired), (limited, LossReason::MaxHold)] {
        let guard = mutex.lock().expect("one of one");
        assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(reason));
        has_ended(guard.at_risk());
    }
}

/// A receiver made after the warning has it. A receiver made after the end has none.
#[test]
fn a_holder_that_asks_late_hears_the_warning_and_nothing_after_the_end() {
    let mut servers = Servers::start(1);
    let guard = hold(builder(&servers).risk_margin(TTL / 2));
    servers[0].kill();
    wait_until("it is at risk", LIMIT, || guard.remaining() < TTL * 2 / 5);
    let (told, is_told) = unbounded();
    guard.on_at_risk(move |risk| told.send(risk.is_at_risk()).expect("the test listens"));
    assert_eq!(is_told.recv_timeout(LIMIT), Ok(true));
    assert!(guard.at_risk().recv_timeout(LIMIT).is_ok_and(|risk| risk.is_at_risk()));
    guard.lost().recv_timeout(LIMIT).expect("it is lost");
    assert_eq!(is_told.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
    guard.on_at_risk(|risk| panic!("{risk}"));
}

/// A callback may end the hold, and other holders are still warned.
#[test]
fn a_callback_may_give_the_lock_back_and_one_that_blocks_holds_up_no_other() {
    let mut servers = Servers::start(1);
    let locks = connected(builder(&servers).risk_margin(TTL / 2));
    let blocked = locks.lock("blocked").expect("one of one");
    let dropped = locks.lock("dropped").expect("one of one");
    let other = locks.lock("other").expect("one of one");
    let (let_go, go_on) = unbounded::<()>();
    blocked.on_at_risk(move |_| _ = go_on.recv_timeout(LIMIT));
    let at_risk = dropped.at_risk().clone();
    let slot = std::sync::Arc::new(parking_lot::Mutex::new(None));
    let theirs = slot.clone();
    dropped.on_at_risk(move |_| drop(theirs.lock().take()));
    *slot.lock() = Some(dropped);
    servers[0].pause();
    warning(&other);
    wait_until("the lock is given back", LIMIT, || slot.lock().is_none());
    // The warning may have come before the end.
    let _ = at_risk.recv_timeout(LIMIT);
    has_ended(&at_risk);
    drop(let_go);
    servers[0].resume();
    wait_until("the lock is free", LIMIT, || {
        locks.try_lock("dropped").optional().is_ok_and(|guard| guard.is_some())
    });
}

/// Readers of one process share one lease, and each of them is warned; so is a thread that has taken its lock again.
#[test]
fn each_holder_of_one_lease_is_warned() {
    let mut servers = Servers::start(1);
    let locks = connected(builder(&servers));
    let lock = locks.rw_lock(NAME).risk_margin(TTL / 2);
    let with_another_margin = locks.rw_lock(NAME).risk_margin(TTL / 6);
    let again = locks.reentrant_mutex("again").risk_margin(TTL / 2);
    let outer = again.lock().expect("one of one");
    let first = lock.read().expect("one of one");
    let (reads, is_read) = unbounded();
    thread::scope(|scope| {
        let lock = &lock;
        let other = scope.spawn(move || {
            let second = lock.read().expect("it is shared");
            reads.send(()).expect("the test waits for it");
            second.at_risk().recv_timeout(LIMIT).is_ok_and(|risk| risk.is_at_risk())
        });
        is_read.recv_timeout(LIMIT).expect("both read");
        let apart = scope.spawn(|| {
            let third = with_another_margin.read().expect("it reads, too");
            third.owner().to_owned()
        });
        assert_ne!(apart.join().expect("no panic"), first.owner(), "it has a lease of its own");
        servers[0].pause();
        assert!(first.at_risk().recv_timeout(LIMIT).is_ok_and(|risk| risk.is_at_risk()));
        assert!(other.join().expect("no panic"), "the other reader is warned");
    });
    outer.at_risk().recv_timeout(LIMIT).expect("it is warned");
    let inner = again.lock().expect("its thread has it");
    assert!(inner.at_risk().try_recv().is_ok_and(|risk| risk.is_at_risk()), "it hears it at once");
    servers[0].resume();
}

/// Prints the time from each warning to the loss, `QUORLOCK_ROUNDS` times.
#[test]
fn two_of_three_masters_are_stopped_and_the_holder_has_time_left() {
    let rounds = std::env::var("QUORLOCK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    for round in 0..rounds.unwrap_or(2) {
        let mut servers = Servers::start(3);
        let guard = hold(builder(&servers));
        let offset = Duration::from_millis(60 * (round % 20));
        wait_until("another part of the TTL", LIMIT, || guard.remaining() < TTL * 19 / 20 - offset);
        if round % 2 == 0 {
            servers.iter_mut().take(2).for_each(support::Server::kill);
        } else {
            cut(&mut servers, 0..2);
        }
        let (_, _, shown) = warning(&guard);
        let warned = Instant::now();
        guard.lost().recv_timeout(LIMIT).expect("it is lost");
        let before = warned.elapsed();
        println!("round {round}: warned {before:?} before the loss ({shown})");
        assert!(before > TTL / 5, "{before:?}");
        drop(guard);
        restore(&mut servers, if round % 2 == 0 { 0..0 } else { 0..2 });
    }
}
