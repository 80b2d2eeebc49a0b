//! Held locks: their renewal, their repair, and their end.

mod support;

use std::panic;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{Builder, ErrorKind, Guard, LossReason, OptionalGuard as _, Quorlock, Renewal};
use support::clients::fresh;
use support::lua::with_includes;
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a busy machine to renew in time.
const TTL: Duration = Duration::from_secs(3);
/// Long enough for a healthy node to answer on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// A TTL with time for a failed renewal and for those after it, even on a busy machine.
const LONG_TTL: Duration = Duration::from_secs(6);
/// The validity that a lock with that TTL has left after the first renewal, in which hung nodes have
/// failed.
const AFTER_A_FAILURE: Duration = Duration::from_millis(2_800);
/// The lock has more time left than this only after a renewal.
const RENEWED: Duration = Duration::from_millis(4_500);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

fn settings(servers: &Servers) -> Builder {
    fresh(servers.urls()).max_ttl(Duration::from_secs(600)).ttl(TTL).node_timeout(NODE_TIMEOUT)
}

fn build(builder: Builder) -> Quorlock {
    let locks = builder.build().expect("the settings are valid");
    wait_until("all nodes are connected", LIMIT, || connected(&locks));
    locks
}

fn connected(locks: &Quorlock) -> bool {
    locks.node_stats().iter().all(|node| node.connected)
}

/// Takes the lock, and waits until all nodes have its key. Returns the guard and its owner.
fn hold(locks: &Quorlock, servers: &Servers) -> (Guard, String) {
    let guard = locks.lock(NAME).expect("all are healthy");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    let owner = servers[0].get(KEY).expect("it is held");
    (guard, owner)
}

/// The holder notices nothing for `duration`.
fn stays_held(guard: &Guard, duration: Duration) {
    let start = Instant::now();
    wait_until("time passes", LIMIT, || {
        guard.check().expect("it is renewed");
        assert!(guard.lost().is_empty());
        start.elapsed() > duration
    });
}

fn set(server: &Server, owner: &str, ttl: Duration) {
    let ttl = ttl.as_millis().to_string();
    let answer = server.command(&["SET", KEY, owner, "NX", "PX", &ttl]);
    assert_eq!(answer, redis::Value::Okay, "the key is free");
}

fn delete(server: &Server, key: &str) {
    server.command(&["DEL", key]);
}

/// Deletes these keys until `lost` reports a loss. Once may not be enough: a server with a late answer to a renewal sets
/// the key again, and the next renewal counts it.
fn delete_until_told<T>(
    servers: &[Server],
    keys: &[&str],
    lost: impl Fn(Duration) -> Option<T>,
) -> T {
    let tries = (0..30).map(|_| {
        for server in servers {
            keys.iter().for_each(|key| delete(server, key));
        }
        lost(NODE_TIMEOUT)
    });
    tries.flatten().next().expect("the loss is told")
}

fn how_many_have(servers: &Servers, owner: &str) -> usize {
    servers.iter().filter(|server| server.get(KEY).as_deref() == Some(owner)).count()
}

/// redlock-rs, node-redlock: the renewal timer continues after the unlock.
#[test]
fn case_07_no_renewal_survives_an_unlock() {
    let servers = Servers::start(3);
    let locks = build(settings(&servers));
    for unlock in [true, false] {
        let (guard, _) = hold(&locks, &servers);
        stays_held(&guard, TTL * 2);
        if unlock {
            guard.unlock().expect("three of three");
        } else {
            drop(guard);
        }
        servers.wait_no_keys();
        // A renewal would set the key again on the last server, which is free.
        let (others, free) = if unlock { (3, 0) } else { (2, 1) };
        let servers = &servers[..others + free];
        servers.iter().take(others).for_each(|server| set(server, "somebody-else", TTL * 10));
        let mut left = vec![i64::MAX; others];
        let start = Instant::now();
        wait_until("time passes", LIMIT, || {
            for (server, left) in servers.iter().zip(&mut left) {
                let now = server.pttl(KEY);
                assert!(0 < now && now <= *left, "{now} ms after {left} ms");
                *left = now;
                assert_eq!(server.get(KEY).as_deref(), Some("somebody-else"));
            }
            assert!(servers.iter().skip(others).all(|server| server.get(KEY).is_none()));
            start.elapsed() > TTL * 3 / 2
        });
        servers.iter().for_each(|server| delete(server, KEY));
    }
}

/// pottery, redlock-py: the first error in a renewal ends its thread, and the lock expires unnoticed.
#[test]
fn case_07_one_error_in_a_renewal_does_not_stop_renewals() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, owner) = hold(&locks, &servers);
    servers.iter_mut().take(2).for_each(Server::pause);
    wait_until("a renewal has failed", LIMIT, || guard.remaining() < AFTER_A_FAILURE);
    guard.check().expect("it is valid still");
    servers.iter_mut().take(2).for_each(Server::resume);
    wait_until("the next renewal", LIMIT, || guard.remaining() > RENEWED);
    stays_held(&guard, LONG_TTL);
    assert!(how_many_have(&servers, &owner) >= 2);
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// Redisson: an unlock whose reply is lost reports "not the owner", or leaves the renewal running.
#[test]
fn case_09_the_reply_to_an_unlock_is_lost() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, owner) = hold(&locks, &servers);
    // The lock has been renewed by now.
    stays_held(&guard, LONG_TTL / 2);
    servers.iter_mut().for_each(Server::pause);
    let error = guard.unlock().expect_err("nobody answers");
    let kind = error.kind();
    assert!(matches!(kind, ErrorKind::NoQuorum | ErrorKind::Lost), "{error}");
    servers.iter_mut().for_each(Server::resume);
    // The keys are gone early, and no renewal sets them again.
    servers.wait_no_keys();
    let start = Instant::now();
    wait_until("time passes", LIMIT, || {
        assert!(servers.iter().all(|server| server.get(KEY).is_none()));
        start.elapsed() > LONG_TTL / 2
    });
    let (guard, next) = hold(&locks, &servers);
    assert_ne!(next, owner);
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// Such an unlock may leave a lock behind. The next lock of the same thread waits for its end.
#[test]
fn seed_07_the_orphan_of_an_unlock_whose_replies_are_lost_is_waited_for() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, owner) = hold(&locks, &servers);
    stays_held(&guard, LONG_TTL / 2);
    servers.iter_mut().for_each(Server::pause);
    guard.unlock().expect_err("nobody answers");
    servers.iter_mut().for_each(Server::resume);
    servers.wait_no_keys();
    wait_until("the releases have been sent once more", LIMIT, || {
        connected(&locks) && locks.node_stats().iter().all(|node| node.kept_releases == 0)
    });
    // Requests on their way have arrived when a later request has.
    let behind = locks.lock("behind").expect("three of three");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get("quorlock:behind").is_some())
    });
    drop(behind);

    let set_at = Instant::now();
    servers.iter().for_each(|server| set(server, &owner, TTL));
    assert!(
        locks.try_lock(NAME).optional().expect("three of three").is_none(),
        "it was re-entered"
    );
    let guard = locks.lock(NAME).expect("three of three");
    let waited = set_at.elapsed();
    assert!(waited >= TTL - TTL / 50, "the orphan was waited for, for {waited:?}");
    wait_until("all nodes have the key of the next owner", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some_and(|next| next != owner))
    });
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// redlock-py and others: a node that was restarted without data lacks the lock for the rest of the hold,
/// and the next restart loses the lock.
#[test]
fn case_18_a_restarted_node_gets_its_key_back() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, owner) = hold(&locks, &servers);
    for i in [0, 1] {
        servers[i].restart_empty();
        wait_until("it has its key again", LIMIT, || servers[i].get(KEY).as_ref() == Some(&owner));
        guard.check().expect("the other two have it");
    }
    stays_held(&guard, LONG_TTL * 3 / 2);
    assert_eq!(how_many_have(&servers, &owner), 3);
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

type Slot = Arc<Mutex<Option<Guard>>>;
type Callback = Box<dyn FnOnce(Slot) + Send>;

#[test]
fn a_callback_that_panics_blocks_unlocks_or_drops_holds_up_nothing() {
    let servers = Servers::start(3);
    let locks = build(settings(&servers));
    let (told, warnings) = mpsc::channel();
    let (release_blocked, blocked) = mpsc::channel::<()>();
    let slot = |name: &str| Arc::new(Mutex::new(Some(locks.lock(name).expect("three of three"))));
    let names = ["panics", "blocks", "unlocks", "drops"];
    let slots = names.map(slot);
    let renewed = locks.lock("renewed").expect("three of three");
    let on_lost = |i: usize, callback: Callback| {
        let (told, slot) = (told.clone(), slots[i].clone());
        let guard = slots[i].lock();
        guard.as_ref().expect("it is there").on_lost(move |reason| {
            told.send((i, reason)).expect("the test listens");
            callback(slot);
        });
    };
    // Without the panic message, which would only look like a failure.
    on_lost(0, Box::new(|_| panic::resume_unwind(Box::new("on purpose"))));
    on_lost(1, Box::new(move |_| blocked.recv().expect("the test ends it")));
    let (done, unlocked) = mpsc::channel();
    on_lost(2, {
        let done = done.clone();
        Box::new(move |slot| {
            let guard = slot.lock().take().expect("it is there");
            let error = guard.unlock().expect_err("it is lost");
            done.send(Some(error.kind())).expect("the test listens");
        })
    });
    on_lost(3, {
        Box::new(move |slot| {
            drop(slot.lock().take());
            done.send(None).expect("the test listens");
        })
    });

    let mut lost: Vec<_> = Vec::new();
    while lost.len() < names.len() {
        let keys = ["quorlock:panics", "quorlock:blocks", "quorlock:unlocks", "quorlock:drops"];
        lost.push(delete_until_told(&servers, &keys, |within| warnings.recv_timeout(within).ok()));
    }
    lost.sort_by_key(|(i, _)| *i);
    let all = [0, 1, 2, 3].map(|i| (i, LossReason::KeysGone));
    assert_eq!(lost, all);
    let mut ended: Vec<_> =
        (0..2).map(|_| unlocked.recv_timeout(LIMIT).expect("neither waits for ever")).collect();
    ended.sort_by_key(Option::is_some);
    assert_eq!(ended, [None, Some(ErrorKind::Lost)]);
    stays_held(&renewed, TTL * 2);
    for name in names {
        // While one callback still blocks.
        let again = locks.try_lock_for(name, LIMIT).optional().expect("three of three");
        again.expect("it is free").unlock().expect("three of three");
    }
    release_blocked.send(()).expect("it is still blocked");
    renewed.unlock().expect("three of three");
    drop(slots);
    servers.wait_no_keys();
}

#[test]
fn lost_is_told_when_a_majority_dies_and_not_before_the_end() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers));
    let (guard, _) = hold(&locks, &servers);
    stays_held(&guard, TTL);
    servers.iter_mut().take(2).for_each(Server::kill);
    let killed = Instant::now();
    let left = guard.remaining();
    assert!(!left.is_zero(), "killing took too long for this test");
    let reason = guard.lost().recv_timeout(LIMIT).expect("the loss is told");
    let told = killed.elapsed();
    assert_eq!(reason, LossReason::Unconfirmed);
    assert!(told >= left, "told after {told:?}, with {left:?} left");
    assert!(told < left + Duration::from_secs(2), "told after {told:?}, with {left:?} left");
    assert_eq!(guard.check().expect_err("it is lost").kind(), ErrorKind::Lost);
    assert!(guard.remaining().is_zero());
    servers.wait_no_keys();
}

#[test]
fn keys_gone_is_told_before_the_end() {
    let servers = Servers::start(5);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, _) = hold(&locks, &servers);
    let left = guard.remaining();
    let deleted = Instant::now();
    let reason =
        delete_until_told(&servers[..3], &[KEY], |within| guard.lost().recv_timeout(within).ok());
    let told = deleted.elapsed();
    assert_eq!(reason, LossReason::KeysGone);
    assert!(told < left, "told after {told:?}, with {left:?} left");
    assert_eq!(guard.check().expect_err("it is lost").kind(), ErrorKind::Lost);
    // Long before they would expire.
    servers.wait_no_keys();
}

/// A hung node later finds renewals in its receive buffer that ask for less than it has granted before.
#[test]
fn a_long_extension_outlives_renewals_whose_replies_are_lost() {
    const LONG: Duration = Duration::from_secs(60);

    let mut servers = Servers::start(5);
    let locks = build(settings(&servers).ttl(LONG_TTL));
    let (guard, owner) = hold(&locks, &servers);
    guard.extend(LONG).expect("five of five");
    assert!(guard.remaining() > LONG - LONG / 50 - NODE_TIMEOUT);
    wait_until("all nodes have extended it", LIMIT, || {
        servers.iter().all(|server| server.pttl(KEY) > 50_000)
    });
    servers.iter_mut().for_each(Server::pause);
    // The shorter extension makes renewals due again.
    let error = guard.extend(LONG_TTL).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    wait_until("a renewal has failed", LIMIT, || guard.remaining() < AFTER_A_FAILURE);
    servers.iter_mut().for_each(Server::resume);
    let start = Instant::now();
    wait_until("time passes", LIMIT, || {
        let present = how_many_have(&servers, &owner);
        // Checked later than the keys, so the lock was held then.
        assert!(!guard.remaining().is_zero(), "five of five were back in time");
        assert!(present >= 3, "it is valid, and {present} of five have it");
        start.elapsed() > LONG_TTL
    });
    for server in servers.iter() {
        let left = server.pttl(KEY);
        assert!(left > 10_000, "a key was cut short, to {left} ms");
    }
    guard.unlock().expect("five of five");
    servers.wait_no_keys();
}

#[test]
fn a_manual_lock_is_never_renewed() {
    let servers = Servers::start(3);
    let locks = build(settings(&servers).renewal(Renewal::Manual));
    let (guard, _) = hold(&locks, &servers);
    let seen = Instant::now();
    let left = guard.remaining();
    thread::scope(|scope| {
        let losing = scope.spawn(|| {
            let reason = guard.lost().recv_timeout(LIMIT).expect("the end is told");
            (reason, seen.elapsed())
        });
        let mut ttl = i64::MAX;
        wait_until("the end", LIMIT, || {
            let now = servers[0].pttl(KEY);
            assert!(now <= ttl, "{now} ms after {ttl} ms");
            ttl = now;
            losing.is_finished()
        });
        let (reason, told) = losing.join().expect("no panic");
        assert_eq!(reason, LossReason::Expired);
        assert!(told >= left, "told after {told:?}, with {left:?} left");
        assert!(told < left + Duration::from_secs(2), "told after {told:?}, with {left:?} left");
    });
    assert_eq!(guard.unlock().expect_err("it is lost").kind(), ErrorKind::Lost);
    servers.wait_no_keys();
}

/// A server does not know the renewal's script, so the renewal would be sent again. It would run after the
/// release that was sent together with it, and set the key again.
#[test]
fn a_renewal_is_not_sent_again_behind_the_release() {
    const TTL: Duration = Duration::from_secs(8);

    let mut servers = Servers::start(1);
    let locks = build(settings(&servers).ttl(TTL).node_timeout(TTL / 2));
    let (guard, _) = hold(&locks, &servers);
    // From now on the server is asked by the script's hash.
    guard.extend(TTL).expect("one of one");
    locks.lock("other").expect("one of one").unlock().expect("one of one");
    servers[0].command(&["SCRIPT", "FLUSH"]);
    for known in
        [include_str!("../lua/mutex/acquire.lua"), include_str!("../lua/mutex/release.lua")]
    {
        servers[0].command(&["SCRIPT", "LOAD", &with_includes(known)]);
    }
    // A renewal is due when a quarter to a third of the TTL is over.
    wait_until("the renewal is near", LIMIT, || guard.remaining() < TTL * 8 / 10);
    servers[0].pause();
    thread::scope(|scope| {
        let writes = locks.node_stats()[0].writes;
        scope.spawn(|| locks.try_lock("other"));
        wait_until("the worker waits", LIMIT, || locks.node_stats()[0].writes > writes);
        // Soon after the renewal is due. A longer wait makes the test no stricter.
        wait_until("the renewal waits", LIMIT, || guard.remaining() < TTL * 6 / 10);
        drop(guard);
        servers[0].resume();
    });
    // Long before it would expire.
    servers.wait_no_keys();
}

#[test]
fn work_of_five_times_the_ttl_keeps_its_lock() {
    let servers = Servers::start(5);
    let locks = build(settings(&servers));
    let (guard, owner) = hold(&locks, &servers);
    stays_held(&guard, TTL * 5);
    assert_eq!(how_many_have(&servers, &owner), 5);
    guard.unlock().expect("it was ours all the time");
    servers.wait_no_keys();
}

/// A lock with a long validity is still repaired. Otherwise one restart after the other would take
/// its keys, and it would still count as valid.
#[test]
fn a_long_extension_does_not_stop_the_repairs() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers));
    let (guard, owner) = hold(&locks, &servers);
    guard.extend(LIMIT * 20).expect("three of three");
    for i in 0..3 {
        servers[i].restart_empty();
        wait_until("the node has its key again", LIMIT, || {
            servers[i].get(KEY).as_deref() == Some(&owner)
        });
        // Until the repairing round is over. If another node reported in that round that its key is gone, too, those would
        // be two of three.
        let asked = || locks.node_stats().into_iter().map(|node| node.scripts);
        let before: Vec<_> = asked().collect();
        wait_until("two rounds later", LIMIT, || {
            before.iter().zip(asked()).all(|(before, now)| now >= before + 2)
        });
    }
    guard.check().expect("it was ours all the time");
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// A node that is always the slowest counts as well: a release waits for its late answers before it
/// judges the state of the lock.
#[test]
fn late_answers_of_a_renewal_count_for_the_unlock() {
    let mut servers = Servers::start(3);
    let locks = build(settings(&servers));
    servers[2].kill();
    let guard = locks.lock(NAME).expect("two of three");
    servers[2].restart_empty();
    wait_until("the third one is repaired", LIMIT, || servers[2].get(KEY).is_some());
    // Until its answers have come with a later round.
    let mut before = guard.remaining();
    wait_until("a renewal later", LIMIT, || {
        let now = guard.remaining();
        std::mem::replace(&mut before, now) < now
    });
    delete(&servers[1], KEY);
    guard.unlock().expect("two of three had it until now");
    servers.wait_no_keys();
}

/// Otherwise the key of a crashed holder would block all callers for longer than the longest hold.
#[test]
fn no_key_lives_longer_than_the_longest_hold_needs() {
    const HOLD: Duration = Duration::from_secs(20);

    let servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(HOLD * 3).max_hold(HOLD));
    let guard = locks.lock(NAME).expect("three of three");
    let none_lives_longer = || {
        for server in servers.iter() {
            let left = server.pttl(KEY);
            // One per cent, 2 ms, and the clock tolerance of 100 ms.
            assert!(left <= 20_400, "a key lives for {left} ms");
        }
    };
    none_lives_longer();
    guard.extend(HOLD * 3).expect("three of three");
    none_lives_longer();
    assert!(guard.remaining() > HOLD / 2, "and it is held for as long as it may be");
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// Servers close idle connections. Then requests are sent twice, and the answers to the
/// second copies do not show the nodes' state before the first.
#[test]
fn connections_that_were_closed_while_idle_fail_no_extension() {
    let servers = Servers::start(3);
    let locks = build(settings(&servers).ttl(LONG_TTL).renewal(Renewal::Manual));
    let (guard, _) = hold(&locks, &servers);
    for server in servers.iter() {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
    guard.extend(LONG_TTL * 10).expect("three of three");
    assert!(guard.remaining() > LONG_TTL * 9);
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}
