//! The figures of a client: each thing that happens is in one of them, and counted once.

mod support;

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::bounded;
use quorlock::{
    CallStats, ErrorKind, Guard, LossReason, LossStats, NodeCondition, OptionalGuard as _,
    Quorlock, Renewal, Stats,
};
use support::clients::{admitted, connected, fresh, patient};
use support::{Server, Servers, wait_until};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Long enough for a busy machine to keep every lock of a test alive.
const TTL: Duration = Duration::from_secs(20);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

/// The calls for locks of that kind.
fn of_kind(stats: &Stats, label: &str) -> CallStats {
    let mut kinds = stats.kinds.iter().filter(|it| it.kind == label);
    let found = kinds.next().unwrap_or_else(|| panic!("{label} is in {:?}", stats.kinds));
    assert!(kinds.next().is_none(), "{label} is there once");
    found.calls.clone()
}

fn mutexes(locks: &Quorlock) -> CallStats {
    of_kind(&locks.stats(), "mutex")
}

/// Waits until the figures are as wanted, since threads of the client may still count.
#[track_caller]
fn wait_for(locks: &Quorlock, what: &str, wanted: impl Fn(&Stats) -> bool) {
    wait_until(what, LIMIT, || wanted(&locks.stats()));
}

#[test]
fn a_new_client_has_every_kind_and_only_zeros() {
    let servers = Servers::start(3);
    let stats = patient(&servers, TTL).stats();
    let kinds: Vec<_> = stats.kinds.iter().map(|kind| kind.kind).collect();
    let labels = ["mutex", "multi_mutex", "reentrant", "read", "write", "fair_mutex", "semaphore"];
    assert_eq!(kinds, labels);
    for kind in &stats.kinds {
        assert_eq!(kind.calls, CallStats::default(), "{kind:?}");
    }
    assert_eq!((stats.waiting, stats.holding), (0, 0));
    assert_eq!((stats.waits.count(), stats.losses.total()), (0, 0));
    assert_eq!((stats.majority, stats.granting()), (2, 3));
}

#[test]
fn each_lock_is_counted_once_with_its_times() {
    const LOCKS: u64 = 20;
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    for _ in 0..LOCKS {
        locks.lock(NAME).expect("it is free").unlock().expect("it is ours");
    }
    drop(locks.lock(NAME).expect("it is free"));
    let stats = locks.stats();
    assert_eq!(of_kind(&stats, "mutex").acquired, LOCKS + 1);
    assert_eq!(stats.attempts.granted, LOCKS + 1);
    assert_eq!((stats.waits.count(), stats.holds.count()), (LOCKS + 1, LOCKS + 1));
    assert_eq!(stats.unlocks.count(), LOCKS, "a drop waits for nothing");
    assert!(stats.waits.sum() > Duration::ZERO && stats.waits.longest() < LIMIT, "{stats:?}");
    assert_eq!((stats.waiting, stats.holding), (0, 0));
}

#[test]
fn calls_that_end_without_a_lock_are_counted_by_their_reason() {
    let mut servers = Servers::start(3);
    let (locks, other) = (patient(&servers, TTL), patient(&servers, TTL));
    let guard = other.lock(NAME).expect("it is free");
    assert!(locks.try_lock(NAME).expect_err("it is held").is_held());
    let attempts = locks.stats().attempts;
    // On a busy machine the two calls may share the nodes at first.
    assert!(mutexes(&locks).held == 1 && attempts.refused + attempts.split >= 1, "{attempts:?}");

    let (cancel, cancelled) = bounded(1);
    cancel.send(()).expect("there is room");
    let error = locks.lock_within(NAME, &cancelled).expect_err("cancelled");
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(mutexes(&locks).cancelled, 1);
    guard.unlock().expect("it is ours");

    for server in servers.iter() {
        server.command(&["LPUSH", "quorlock:list", "no lock"]);
    }
    let error = locks.try_lock("list").expect_err("it is no lock");
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert_eq!((mutexes(&locks).error, locks.stats().attempts.rejected), (1, 1));

    servers[0].kill();
    servers[1].kill();
    let error = locks.try_lock(NAME).expect_err("one of three is left");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert_eq!((mutexes(&locks).no_quorum, locks.stats().attempts.unanswered), (1, 1));
    wait_for(&locks, "two nodes are down", |stats| stats.granting() == 1);

    locks.clone().close(Duration::ZERO).ok();
    assert_eq!(locks.try_lock(NAME).expect_err("closed").kind(), ErrorKind::Closed);
    let kind = mutexes(&locks);
    assert_eq!((kind.closed, kind.acquired, kind.quarantined), (1, 0, 0), "{kind:?}");
    assert_eq!(locks.stats().waiting, 0);
}

#[test]
fn callers_and_holders_of_this_moment_are_counted() {
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    let guard = locks.lock(NAME).expect("it is free");
    assert_eq!(locks.stats().holding, 1);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| drop(locks.try_lock_for(NAME, LIMIT).expect("it is given back")));
        }
        wait_for(&locks, "three callers wait", |stats| stats.waiting == 3);
        drop(guard);
    });
    let stats = locks.stats();
    assert_eq!((stats.waiting, stats.holding), (0, 0));
    // Some of them may have asked the nodes, behind a batch of hand-overs.
    assert_eq!(stats.local_grants.handed_over + stats.attempts.granted, 4);
}

#[test]
fn locks_that_are_joined_or_taken_again_are_counted_as_such() {
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    let rw = locks.rw_lock("config");
    let read = || rw.read().expect("nobody writes");
    let (mut first, mut reads) = (None, 0);
    wait_until("a thread joins", LIMIT, || {
        drop(first.take());
        first = Some(read());
        // A thread of its own joins; the same one would take the lock again. It asks the nodes if it comes after 100 ms.
        thread::scope(|scope| {
            scope.spawn(|| drop(read()));
        });
        reads += 2;
        locks.stats().local_grants.joined > 0
    });
    let reentrant = locks.reentrant_mutex("again");
    let guards = [reentrant.lock().expect("it is free"), reentrant.lock().expect("it is ours")];
    let stats = locks.stats();
    assert_eq!(stats.holding, 3);
    let local = &stats.local_grants;
    assert_eq!((local.joined, local.reentered, local.handed_over), (1, 1, 0), "{local:?}");
    let acquired = (of_kind(&stats, "read").acquired, of_kind(&stats, "reentrant").acquired);
    assert_eq!(acquired, (reads, 2));
    drop((first, guards));
    assert_eq!(locks.stats().holding, 0);
}

#[test]
fn waiters_count_what_woke_them() {
    let servers = Servers::start(3);
    let (locks, other) = (patient(&servers, TTL), patient(&servers, TTL));

    // The release of a lock that has been waited for.
    let guard = other.lock(NAME).expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.try_lock_for(NAME, LIMIT));
        wait_for(&locks, "a caller that polls", |stats| stats.wake_ups.polls >= 1);
        wait_for(&locks, "the subscriptions", |stats| {
            stats.nodes.iter().all(|node| node.listened_to > 0)
        });
        // Of two further attempts the second one began with all subscriptions confirmed: a message ends the wait behind it.
        let tried = |stats: &Stats| stats.attempts.refused + stats.attempts.split;
        let before = tried(&locks.stats());
        wait_for(&locks, "two further attempts", |stats| tried(stats) >= before + 2);
        assert_eq!(locks.stats().wake_ups.messages, 0, "nothing was given back");
        guard.unlock().expect("it is ours");
        drop(waiting.join().expect("no panic").expect("it is given back"));
    });
    let wake_ups = locks.stats().wake_ups;
    assert!(wake_ups.messages >= 1, "{wake_ups:?}");
    assert_eq!(wake_ups.expiries, 0, "{wake_ups:?}");

    // A holder that died: nobody tells of the end of its keys.
    for server in servers.iter() {
        server.command(&["SET", "quorlock:dead", "somebody", "PX", "3000"]);
    }
    drop(locks.lock("dead").expect("its keys end"));
    let wake_ups = locks.stats().wake_ups;
    assert!(wake_ups.expiries >= 1, "{wake_ups:?}");
}

#[test]
fn renewals_are_counted_with_the_validity_that_was_left() {
    let servers = Servers::start(3);
    let ttl = Duration::from_secs(6);
    let locks = connected(fresh(servers.urls()).ttl(ttl).max_ttl(ttl));
    let guard = locks.lock(NAME).expect("it is free");
    wait_for(&locks, "a renewal", |stats| stats.renewals.confirmed >= 1);
    guard.check().expect("it is renewed");
    let renewals = locks.stats().renewals;
    assert!(renewals.validity_left.longest() < ttl, "{renewals:?}");
    assert!(renewals.validity_left.longest() > Duration::ZERO, "{renewals:?}");
}

#[test]
fn losses_are_counted_by_the_reason_that_their_holders_are_told() {
    let mut servers = Servers::start(3);
    let ttl = Duration::from_secs(3);
    let locks = connected(fresh(servers.urls()).ttl(ttl).max_ttl(ttl));
    let told = |guard: Guard| guard.lost().recv_timeout(LIMIT).expect("it ends");

    let short = locks.mutex("short").max_hold(Duration::from_millis(500));
    let mut reasons = vec![told(short.lock().expect("it is free"))];
    let manual = locks.mutex("manual").renewal(Renewal::Manual);
    reasons.push(told(manual.lock().expect("it is free")));
    let guard = locks.lock(NAME).expect("it is free");
    for server in servers.iter() {
        server.command(&["SET", KEY, "somebody", "PX", "60000"]);
    }
    reasons.push(told(guard));
    let guard = locks.lock("unreachable").expect("it is free");
    servers.iter_mut().for_each(Server::kill);
    reasons.push(told(guard));

    // The holders are told first.
    wait_for(&locks, "all losses", |stats| stats.losses.total() == 4);
    let stats = locks.stats();
    let count = |reason| reasons.iter().filter(|told| **told == reason).count() as u64;
    let LossStats { expired, unconfirmed, keys_gone, max_hold, .. } = stats.losses;
    assert_eq!(max_hold, count(LossReason::MaxHold), "{reasons:?}");
    assert_eq!(expired, count(LossReason::Expired), "{reasons:?}");
    assert_eq!(keys_gone, count(LossReason::KeysGone), "{reasons:?}");
    assert_eq!(unconfirmed, count(LossReason::Unconfirmed), "{reasons:?}");
    assert!(stats.renewals.unconfirmed >= 1, "{:?}", stats.renewals);
    assert_eq!((stats.holding, stats.holds.count()), (0, 4));
}

#[test]
fn nodes_have_their_condition_and_their_clock() {
    let mut servers = Servers::start(3);
    let max_ttl = Duration::from_secs(40);
    let builder = Quorlock::builder().nodes(servers.urls()).ttl(TTL).max_ttl(max_ttl);
    let locks = admitted(builder.node_timeout(Duration::from_secs(5)));
    wait_for(&locks, "all grant", |stats| stats.granting() == 3);
    for node in locks.node_stats() {
        assert_eq!(
            (node.condition, node.grants_in),
            (NodeCondition::Admitted, Some(Duration::ZERO))
        );
        let ahead_us = node.clock_ahead_us.expect("all clocks are known");
        assert!(ahead_us.abs() < 5_000_000, "one machine has one clock: {node:?}");
        assert!(node.round_trip.is_some_and(|it| it < LIMIT), "{node:?}");
        assert_eq!(node.connections, 1, "{node:?}");
    }
    let asked = locks.try_lock(NAME).optional().expect("three nodes").is_some();
    assert!(asked, "nobody else is there");

    servers[0].restart_empty();
    wait_for(&locks, "a quarantine", |stats| {
        let node = &stats.nodes[0];
        // The connection comes up behind its first probe.
        node.condition == NodeCondition::Quarantined && node.connected && node.connections == 2
    });
    let stats = locks.stats();
    let left = stats.nodes[0].grants_in.expect("it ends by itself");
    assert!(left > Duration::ZERO && left <= max_ttl, "{left:?}");
    assert_eq!(stats.granting(), 2);
}

#[test]
fn a_label_has_the_calls_and_holds_of_its_handles() {
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    for order in 0..3 {
        let mutex = locks.mutex(format!("orders/{order}")).metrics_label("orders");
        drop(mutex.lock().expect("it is free"));
    }
    drop(locks.rw_lock("config").metrics_label("config").read().expect("nobody writes"));
    drop(locks.semaphore("imports", 2).metrics_label("imports").acquire().expect("free"));
    let partner = locks.rate_limit("partner", 2, TTL).metrics_label("partner");
    partner.acquire().expect("the first call");
    locks
        .election("scheduler")
        .metrics_label("leader")
        .campaign()
        .expect("the only one")
        .resign()
        .expect("a majority");
    drop(locks.lock("without").expect("it is free"));
    let stats = locks.stats();
    let acquired = |label: &str| {
        let mut found = stats.labels.iter().filter(|it| it.label == label);
        found.next().map(|it| (it.calls.acquired, it.waits.count(), it.holds.count()))
    };
    assert_eq!(acquired("orders"), Some((3, 3, 3)));
    assert_eq!((acquired("config"), acquired("imports")), (Some((1, 1, 1)), Some((1, 1, 1))));
    assert_eq!((acquired("partner"), acquired("leader")), (Some((1, 1, 1)), Some((1, 1, 1))));
    assert_eq!((stats.labels.len(), stats.waits.count()), (5, 8));

    let error = locks.mutex(NAME).metrics_label("two\nlines").lock().expect_err("no label");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("metrics_label"), "{error}");
}
