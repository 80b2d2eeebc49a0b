//! Reports on a lock's holder, and the forced release by an operator of a lock that its holder does not give back.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::crossbeam_channel::bounded;
use quorlock::{
    Builder, ErrorKind, KeyLayout, LockState, LossReason, OptionalGuard as _, Quorlock, Renewal,
};
use support::clients::{connected, fresh, patient};
use support::kinds::KINDS;
use support::{Server, Servers, wait_until};

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

/// Long enough for a busy machine to keep every lock of a test alive. No test waits for its end.
const TTL: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(20);

fn tombstone(owner: &str) -> String {
    format!("{KEY}{{{owner}}}:forced")
}

/// Settings of clients that give up on a hung node well before the test does.
fn builder(servers: &Servers) -> Builder {
    fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(Duration::from_secs(2))
}

#[test]
fn the_nodes_say_who_holds_a_lock_and_for_how_long() {
    for n in [1, 5] {
        let servers = Servers::start(n);
        let holder = connected(builder(&servers).owner_label("billing/worker-3"));
        let operator = connected(builder(&servers));
        let lock = operator.mutex(NAME);
        assert!(!lock.is_locked().expect("all are healthy"));
        assert_eq!(lock.remaining_ttl().expect("all are healthy"), None);
        let report = lock.holder().expect("all are healthy");
        assert_eq!((report.state(), report.holders().count()), (LockState::Free, 0));

        let guard = holder.lock(NAME).expect("all are healthy");
        // The last nodes grant it a moment later.
        wait_until("all nodes have it", LIMIT, || {
            servers.iter().all(|server| server.get(KEY).as_deref() == Some(guard.owner()))
        });
        assert!(lock.is_locked().expect("all are healthy"));
        let left = lock.remaining_ttl().expect("all are healthy").expect("it is held");
        assert!(left > TTL / 2 && left <= TTL, "{left:?}");
        let report = lock.holder().expect("all are healthy");
        let held: Vec<_> = report.holders().collect();
        let [one] = held.as_slice() else { panic!("{report}") };
        assert_eq!(one.owner.as_bytes(), guard.owner().as_bytes());
        assert_eq!((one.layout, one.nodes, one.token), (KeyLayout::String, n, guard.token()));
        assert_eq!(report.state(), LockState::Held);
        let nodes = &report.names[0].nodes;
        assert!(nodes.iter().map(|node| &node.node).eq(&servers.urls()));
        for node in nodes {
            let answer = node.answer.as_ref().expect("it is healthy");
            assert_eq!(answer.owners.as_slice(), std::slice::from_ref(&one.owner));
            assert!(answer.remaining_ttl.is_some() && !answer.may_have_forgotten, "{answer:?}");
        }
        let shown = report.to_string();
        let held = format!("\"orders/42\" is held by billing/worker-3#{}", &guard.owner()[17..]);
        assert!(shown.starts_with(&held), "{shown}");
        assert!(shown.contains("without a renewal it may be free in"), "{shown}");
        assert_eq!(shown.lines().count(), 1 + n, "{shown}");
        guard.unlock().expect("all are healthy");
        assert!(!lock.is_locked().expect("all are healthy"));
    }
}

/// A label may contain the characters that separate the parts of an owner.
#[test]
fn holders_of_every_kind_have_the_label_of_their_client() {
    let servers = Servers::start(1);
    let label = "a:write b#1:1";
    let holder = connected(builder(&servers).owner_label(label));
    let operator = connected(builder(&servers));
    for kind in KINDS {
        let guard = kind.of(&holder, &[NAME.as_bytes()]).lock().expect("one node");
        let report = kind.of(&operator, &[NAME.as_bytes()]).holder().expect("one node");
        let owners: Vec<_> = report.holders().map(|it| it.owner.as_bytes().to_vec()).collect();
        assert_eq!(owners, [guard.owner().as_bytes()], "{}: {report}", kind.label());
        let (shown, _) = guard.owner().rsplit_once('#').expect("there is a label");
        assert_eq!(shown, label, "{}", kind.label());
        guard.unlock().expect("one node");
    }
}

/// The read was lost, and the lock goes on with another reader. The field of the lost read remains, its string does not.
#[test]
fn a_reader_whose_read_is_over_is_no_holder_whatever_its_label() {
    let servers = Servers::start(1);
    let [first, second] = ["a:write", "b"]
        .map(|label| connected(builder(&servers).owner_label(label).renewal(Renewal::Manual)));
    let [lost, reads] = [&first, &second].map(|it| it.rw_lock(NAME).read().expect("one node"));
    let deleted =
        servers[0].command(&["DEL", &format!("{{{KEY}}}:{}:rwlock_timeout:1", lost.owner())]);
    assert_eq!(deleted, redis::Value::Int(1));
    let report = second.mutex(NAME).holder().expect("one node");
    let owners: Vec<_> = report.holders().map(|it| it.owner.as_bytes().to_vec()).collect();
    assert_eq!(owners, [reads.owner().as_bytes()], "{report}");
}

#[test]
fn whatever_is_under_a_name_is_told_without_harm() {
    let servers = Servers::start(3);
    let operator = connected(builder(&servers));
    let lock = operator.mutex(NAME);
    let everywhere =
        |command: &[&str]| servers.iter().for_each(|server| drop(server.command(command)));
    // A lock of another library.
    everywhere(&["HSET", KEY, "uuid:1", "1"]);
    everywhere(&["PEXPIRE", KEY, "60000"]);
    let report = lock.holder().expect("all are healthy");
    let holder = report.holders().next().expect("it is held");
    assert_eq!((holder.layout, holder.owner.as_bytes()), (KeyLayout::Hash, &b"uuid:1"[..]));
    assert!(lock.force_unlock().expect("all are healthy"));
    assert!(!lock.is_locked().expect("all are healthy"));
    assert!(!lock.force_unlock().expect("all are healthy"), "nobody has it");
    // An owner with control characters, set by another client.
    for server in servers.iter() {
        server.command_bytes(&[b"SET", KEY.as_bytes(), b"a\n\x1b[2J\xff", b"PX", b"60000"]);
    }
    let report = lock.holder().expect("all are healthy").to_string();
    assert!(report.contains(r"held by a\n\x1b[2J\xff (exclusive, 3 nodes"), "{report}");
    assert!(!report.contains('\u{1b}'));
    assert!(lock.force_unlock().expect("all are healthy"));
    // A key that is no lock stays.
    everywhere(&["SET", KEY, "data"]);
    assert_eq!(lock.remaining_ttl().expect("all are healthy"), Some(Duration::MAX));
    let error = lock.force_unlock().expect_err("it has no expiry");
    assert_eq!(error.kind(), ErrorKind::WrongKind);
    assert!(error.to_string().contains(KEY), "{error}");
    assert!(servers.iter().all(|server| server.get(KEY).as_deref() == Some("data")));
    everywhere(&["DEL", KEY]);
    everywhere(&["RPUSH", KEY, "data"]);
    assert_eq!(lock.force_unlock().expect_err("a list").kind(), ErrorKind::WrongKind);
    let report = lock.holder().expect("all are healthy");
    assert_eq!(report.state(), LockState::Free);
    assert!(report.to_string().contains("no lock, but list"), "{report}");
    let error = operator.mutex("{a}:forced").holder().expect_err("it is ours");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

/// Contenders have shared the nodes: the lock has no holder, but it is not free either.
#[test]
fn keys_on_too_few_nodes_are_no_holder() {
    let servers = Servers::start(3);
    let lock = connected(builder(&servers)).mutex(NAME);
    for (server, owner) in servers.iter().zip(["a", "b"]) {
        server.command(&["SET", KEY, owner, "PX", "60000"]);
    }
    let report = lock.holder().expect("all are healthy");
    assert_eq!((report.state(), report.holders().count()), (LockState::Unclear, 0));
    assert!(lock.is_locked().expect("all are healthy"));
    assert!(lock.force_unlock().expect("all are healthy"));
    assert!(!lock.is_locked().expect("all are healthy"));
}

#[test]
fn a_forced_lock_is_free_at_once_and_its_holder_hears_of_it() {
    for n in [1, 5] {
        let servers = Servers::start(n);
        let [holder, waiter, operator] = [(); 3].map(|()| patient(&servers, TTL));
        let guard = holder.mutex(NAME).ttl(Duration::from_secs(12)).lock().expect("it is free");
        let (owner, token) = (guard.owner().to_owned(), guard.token());
        // Otherwise an attempt of the waiter could have its key where this one is missing, and be forced as well.
        wait_until("all nodes have it", LIMIT, || {
            servers.iter().all(|server| server.get(KEY).is_some())
        });
        let (granted, was_granted) = bounded(1);
        thread::scope(|scope| {
            scope.spawn(|| {
                let next = waiter.lock(NAME).expect("all are healthy");
                granted.send(Instant::now()).expect("it is waited for");
                assert!(next.token() > token, "{:?} and {token:?}", next.token());
                next.check().expect("it is ours");
                assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
                assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
                next.unlock().expect("the one before gave back nothing of it");
            });
            wait_until("somebody waits", LIMIT, || {
                waiter.node_stats().iter().any(|node| node.listened_to > 0)
            });
            let start = Instant::now();
            assert!(operator.mutex(NAME).force_unlock().expect("all are healthy"));
            let at = was_granted.recv_timeout(LIMIT).expect("it is free");
            assert!(at - start < Duration::from_secs(5), "it was not woken");
        });
        // The call ends with the answers of a majority.
        for server in servers.iter() {
            let is_told = || server.pttl(&tombstone(&owner)) > 30_000;
            wait_until("the node lets no extension set its key again", LIMIT, is_told);
        }
        assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    }
}

/// The program `quorlock` does so for one of its processes that was killed.
#[test]
fn a_lock_is_taken_from_the_owner_that_is_named_and_from_no_other() {
    for n in [1, 5] {
        let servers = Servers::start(n);
        let [holder, operator] = [(); 2].map(|()| patient(&servers, TTL));
        let guard = holder.lock(NAME).expect("all are healthy");
        let owner = guard.owner().to_owned();
        let lock = operator.mutex(NAME);
        lock.take_from(&format!("{owner}0")).expect("all are healthy");
        guard.extend(TTL).expect("it is its owner's still");
        lock.take_from(&owner).expect("all are healthy");
        assert!(!lock.is_locked().expect("all are healthy"));
        let error = guard.extend(TTL).expect_err("no extension brings it back");
        assert_eq!(error.kind(), ErrorKind::Lost);
        let next = operator.lock(NAME).expect("it is free");
        drop(guard);
        lock.take_from(&owner).expect("all are healthy");
        next.unlock().expect("it was another one's");
    }
}

/// The holder renews its lock whenever a node has just lost its key.
fn forced_between_extensions(force: &str) -> (Servers, Quorlock, String, bool) {
    let servers = Servers::start(3);
    let holder = patient(&servers, TTL);
    let guard = holder.mutex(NAME).renewal(Renewal::Manual).lock().expect("it is free");
    let owner = guard.owner().to_owned();
    for server in servers.iter() {
        wait_until("the node has granted it", LIMIT, || server.get(KEY).is_some());
    }
    for server in servers.iter() {
        let channel = format!("{{{KEY}}}:released");
        let told = ["60000", &channel, "theirs", "of rwlocks"];
        let words = ["EVAL", force, "3", KEY, &tombstone(&owner), "no such read"];
        let words = [&words[..], &told, &[&owner]].concat();
        let taken = server.command(&words);
        // The release of the last key comes once the holder knows that it has lost two.
        assert!(taken == redis::Value::Int(1) || guard.check().is_err(), "{taken:?}");
        // The extension asks all three nodes, and waits for a majority.
        drop(guard.extend(TTL));
        wait_until("the node has answered", LIMIT, || {
            server.get(KEY).is_some() || server.get(&tombstone(&owner)).is_some()
        });
    }
    let kept = guard.extend(TTL).is_ok();
    drop(guard);
    (servers, holder, owner, kept)
}

#[test]
fn no_renewal_between_two_deletions_brings_a_forced_lock_back() {
    let force = include_str!("../lua/node/force.lua");
    let (servers, _holder, owner, kept) = forced_between_extensions(force);
    assert!(!kept);
    assert!(servers.iter().all(|server| server.get(KEY).as_deref() != Some(owner.as_str())));
}

/// The nodes get the force one after the other, and keep no tombstone.
#[test]
fn without_tombstones_renewals_bring_it_back() {
    let force = include_str!("../lua/node/force.lua");
    let forgetful = force.replace("  redis.call('SET', KEYS[i], '1', 'PX', ARGV[1])\n", "");
    assert_ne!(force, forgetful);
    let (_servers, _holder, _, kept) = forced_between_extensions(&forgetful);
    assert!(kept, "each node was given the key back before the next one lost it");
}

#[test]
fn a_holder_that_renews_all_the_time_loses_a_forced_lock() {
    let servers = Servers::start(5);
    let [holder, operator] = [(); 2].map(|()| patient(&servers, TTL));
    for _ in 0..20 {
        let guard = holder.lock(NAME).expect("it is free");
        let forced = AtomicBool::new(false);
        thread::scope(|scope| {
            let renewing = scope.spawn(|| {
                let mut extensions = 0;
                while guard.extend(TTL).is_ok() {
                    extensions += 1;
                    assert!(extensions < 100_000 || !forced.load(Ordering::SeqCst));
                }
                extensions
            });
            assert!(operator.mutex(NAME).force_unlock().expect("all are healthy"));
            forced.store(true, Ordering::SeqCst);
            renewing.join().expect("it has heard of it");
        });
        let report = operator.mutex(NAME).holder().expect("all are healthy");
        assert!(report.holders().next().is_none(), "{report}");
        assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
        drop(guard);
        let next = operator.try_lock(NAME).expect("it is free at once");
        next.unlock().expect("all are healthy");
    }
}

#[test]
fn nodes_that_are_out_of_reach_are_told_when_they_come_back() {
    let mut servers = Servers::start(5);
    let [holder, operator] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.mutex(NAME).renewal(Renewal::Manual).lock().expect("it is free");
    let owner = guard.owner().to_owned();
    for server in servers.iter() {
        wait_until("the node has granted it", LIMIT, || server.get(KEY).is_some());
    }
    servers[3].pause();
    servers[4].pause();
    assert!(operator.mutex(NAME).force_unlock().expect("a majority is healthy"));
    let next = operator.lock(NAME).expect("a majority is free");
    assert_eq!(guard.extend(TTL).expect_err("lost").kind(), ErrorKind::Lost);
    let report = operator.mutex(NAME).holder().expect("a majority is healthy");
    let faults = report.names[0].nodes.iter().filter(|node| node.answer.is_err()).count();
    assert_eq!(faults, 2, "{report}");
    next.unlock().expect("a majority is healthy");
    servers[3].resume();
    servers[4].resume();
    for server in servers.iter() {
        wait_until("it is told", LIMIT, || {
            let is_told = server.get(&tombstone(&owner)).is_some();
            is_told && server.get(KEY).as_deref() != Some(owner.as_str())
        });
    }
}

#[test]
fn without_a_majority_nothing_is_forced_and_each_node_says_why() {
    let mut servers = Servers::start(3);
    let [holder, operator] = [(); 2].map(|()| connected(builder(&servers)));
    let guard = holder.lock(NAME).expect("it is free");
    // The other two are enough for the holder, and this node may grant it later.
    wait_until("the node that stays has granted it", LIMIT, || servers[0].get(KEY).is_some());
    servers[1].kill();
    servers[2].kill();
    let lock = operator.mutex(NAME);
    for error in [
        lock.force_unlock().expect_err("one of three"),
        lock.is_locked().expect_err("one of three"),
    ] {
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        assert_eq!(error.node_faults().len(), 2, "{error}");
        assert!(error.to_string().contains("who holds lock \"orders/42\""), "{error}");
    }
    assert_eq!(servers[0].get(KEY).as_deref(), Some(guard.owner()));
    assert_eq!(servers[0].get(&tombstone(guard.owner())), None, "nothing was changed");
    operator.clone().close(LIMIT).expect("nothing is queued");
    assert_eq!(lock.holder().expect_err("closed").kind(), ErrorKind::Closed);
}

/// Nodes that may have forgotten locks are believed if they name a holder, but not if they know of none.
#[test]
fn a_node_in_quarantine_does_not_say_that_a_lock_is_free() {
    let server = Server::start();
    let builder = Quorlock::builder().nodes([server.url()]).ttl(TTL).max_ttl(TTL);
    let locks = connected(builder.node_timeout(Duration::from_secs(5)));
    let lock = locks.mutex(NAME);
    let report = lock.holder().expect("it answers");
    assert_eq!(report.state(), LockState::Unclear, "it is new");
    assert!(report.to_string().contains("it may have forgotten locks"), "{report}");
    assert!(lock.is_locked().expect("it answers"));
    let error = lock.force_unlock().expect_err("somebody may have it all the same");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(error.to_string().contains("whom no node has named"), "{error}");
    wait_until("it is admitted", LIMIT, || locks.admit().is_ok());
    assert!(!lock.is_locked().expect("it answers"));
}

/// A lock that nodes keep after its release has no holder, but can be forced open as well.
#[test]
fn a_lock_that_is_kept_is_told_and_forced_open_for_good() {
    let servers = Servers::start(3);
    let [holder, operator] = [(); 2].map(|()| patient(&servers, TTL));
    let (job, lock) = (holder.mutex(NAME).min_hold(TTL), operator.mutex(NAME));
    let guard = job.lock().expect("it is free");
    let owner = guard.owner().to_owned();
    guard.unlock().expect("all are healthy");
    wait_until("all nodes keep it", LIMIT, || {
        servers.iter().all(|server| server.get(KEY) == Some(format!("{owner}#kept")))
    });
    let report = lock.holder().expect("all are healthy");
    assert_eq!(report.state(), LockState::Kept, "{report}");
    let kept = report.holders().next().expect("it was somebody's");
    assert!(kept.kept && kept.owner.as_bytes() == owner.as_bytes(), "{report}");
    assert!(lock.is_locked().expect("all are healthy"));
    assert!(lock.force_unlock().expect("all are healthy"));
    assert!(!lock.is_locked().expect("all are healthy"));

    // The release by a holder that has not noticed the force makes no node keep the lock either.
    let guard = job.lock().expect("it is free");
    assert!(lock.force_unlock().expect("all are healthy"));
    drop(guard);
    let next = operator.try_lock(NAME).expect("it is free");
    next.unlock().expect("all are healthy");
}

#[test]
fn a_lock_with_several_names_is_told_and_forced_name_by_name() {
    let servers = Servers::start(3);
    let [holder, operator] = [(); 2].map(|()| patient(&servers, TTL));
    let both = ["orders/1", "orders/2"];
    let guard = holder.multi_mutex(both).lock().expect("it is free");
    let report = operator.multi_mutex(both).holder().expect("all are healthy");
    assert_eq!(report.names.len(), 2);
    assert!(report.names.iter().all(|name| name.state == LockState::Held), "{report}");
    // One of the names is enough.
    assert!(operator.mutex("orders/2").force_unlock().expect("all are healthy"));
    assert!(operator.mutex("orders/1").is_locked().expect("all are healthy"));
    assert_eq!(guard.extend(TTL).expect_err("forced").kind(), ErrorKind::Lost);
    drop(guard);
    wait_until("the other one is given back", LIMIT, || {
        !operator.multi_mutex(both).is_locked().expect("all are healthy")
    });
    let guard = holder.multi_mutex(both).lock().expect("it is free");
    assert!(operator.multi_mutex(both).force_unlock().expect("all are healthy"));
    let next = operator.multi_mutex(both).try_lock().optional().expect("all are healthy");
    assert!(next.expect("both are free").token() > guard.token());
    assert_eq!(guard.unlock().expect_err("forced").kind(), ErrorKind::Lost);
}
