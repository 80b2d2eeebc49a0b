//! Falling back to the first node: its benefits, its limits, and its failures.

mod support;

use std::time::Duration;

use quorlock::{Builder, ErrorKind, Fallback, LossReason, Mode, OptionalGuard as _, Quorlock};
use support::clients::{fresh, wait_connected, wait_renewed};
use support::{Server, Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(4);
const LONGER_TTL: Duration = Duration::from_secs(20);
const AFTER: Duration = Duration::from_millis(300);
const KEY: &str = "quorlock:orders/42";

fn builder(urls: Vec<String>) -> Builder {
    fresh(urls)
        .ttl(TTL)
        .max_ttl(LONGER_TTL)
        .node_timeout(TTL / 2)
        .fallback(Fallback::SingleNode { after: AFTER })
}

fn client(urls: Vec<String>) -> Quorlock {
    builder(urls).build().expect("valid settings")
}

#[test]
fn with_only_the_first_node_it_is_granted_there_and_says_so() {
    let mut servers = Servers::start(3);
    servers.iter_mut().skip(1).for_each(Server::kill);
    let (locks, other) = (client(servers.urls()), client(servers.urls()));
    // The client does not fall back before the quorum has been gone for that long.
    let error = locks.try_lock("orders/42").expect_err("one of three");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    let guard = locks.lock("orders/42").expect("the first node is enough after a while");
    assert_eq!(guard.mode(), Mode::Fallback);
    guard.check().expect("it is ours");

    // Clients that fall back exclude each other.
    wait_until("the other one falls back, too", LIMIT, || {
        match other.try_lock("orders/42").optional() {
            Ok(guard) => {
                assert!(guard.is_none(), "two hold the lock");
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoQuorum);
                false
            }
        }
    });
    guard.unlock().expect("the first node confirms");
    let guard = other.try_lock("orders/42").expect("it is free");
    assert_eq!(guard.mode(), Mode::Fallback);
    drop(guard);
    servers.wait_no_keys();
}

#[test]
fn without_the_first_node_nothing_is_granted() {
    let mut servers = Servers::start(3);
    servers[0].kill();
    servers[1].kill();
    let builder = builder(servers.urls()).no_quorum_timeout(AFTER * 4);
    let locks = builder.build().expect("valid settings");
    let error = locks.lock("orders/42").expect_err("the first node is dead");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    servers.wait_no_keys();
}

#[test]
fn by_default_nobody_falls_back() {
    let mut servers = Servers::start(3);
    servers.iter_mut().skip(1).for_each(Server::kill);
    let builder = builder(servers.urls()).fallback(Fallback::Never).no_quorum_timeout(AFTER * 4);
    let locks = builder.build().expect("valid settings");
    assert_eq!(locks.lock("orders/42").expect_err("no quorum").kind(), ErrorKind::NoQuorum);
}

#[test]
fn renewals_turn_it_into_a_quorum_when_the_others_come_back() {
    let mut servers = Servers::start(3);
    servers.iter_mut().skip(1).for_each(Server::kill);
    let locks = client(servers.urls());
    let guard = locks.lock("orders/42").expect("the first node is enough after a while");
    assert_eq!(guard.mode(), Mode::Fallback);
    servers.iter_mut().skip(1).for_each(Server::restart_empty);
    wait_until("a majority has the lock", LIMIT, || guard.mode() == Mode::Quorum);
    // From now on the first node is one of three.
    servers[0].kill();
    // The first node may have confirmed one renewal before it was killed.
    wait_renewed([&guard], 2);
    guard.unlock().expect("two of three");
    servers.wait_no_keys();
}

#[test]
fn it_is_lost_when_somebody_else_has_it_on_the_others() {
    let mut servers = Servers::start_with(3, &["--appendonly", "yes", "--appendfsync", "always"]);
    for server in servers.iter_mut().skip(1) {
        server.command(&["SET", KEY, "somebody-else", "PX", "60000"]);
        server.kill();
    }
    let locks = client(servers.urls());
    let guard = locks.lock("orders/42").expect("the first node is enough after a while");
    servers.iter_mut().skip(1).for_each(Server::restart_with_data);
    assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
    assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
    wait_until("the first node is given back", LIMIT, || servers[0].get(KEY).is_none());
}

/// The failure that the manual describes: the network is cut between the first node and the others,
/// and each client reaches only one side. Both hold the lock, each correctly by the answers it got.
#[test]
fn a_partition_gives_it_to_two() {
    let servers = Servers::start(3);
    let urls = servers.urls();
    let dead = |port: u16| format!("redis://127.0.0.1:{port}");
    let minority = client(vec![urls[0].clone(), dead(1), dead(2)]);
    let majority = client(vec![dead(3), urls[1].clone(), urls[2].clone()]);
    let theirs = majority.lock("orders/42").expect("two of three");
    let ours = minority.lock("orders/42").expect("the first node is enough after a while");
    assert_eq!((theirs.mode(), ours.mode()), (Mode::Quorum, Mode::Fallback));
    theirs.check().expect("valid");
    ours.check().expect("valid at the same time");
}

/// The normal end of an outage: the others are back before the holder's next renewal. Every client with the fallback
/// asks the first node before it believes a majority.
#[test]
fn the_first_nodes_holder_is_respected_by_a_majority_that_came_back() {
    let mut servers = Servers::start(3);
    servers.iter_mut().skip(1).for_each(Server::kill);
    let manual = builder(servers.urls()).renewal(quorlock::Renewal::Manual).ttl(LONGER_TTL);
    let locks = manual.build().expect("valid settings");
    let other = client(servers.urls());
    let guard = locks.lock("orders/42").expect("the first node is enough after a while");
    servers.iter_mut().skip(1).for_each(Server::restart_empty);
    wait_until("the other one reaches all", LIMIT, || {
        other.node_stats().iter().all(|node| node.connected)
    });
    for _ in 0..10 {
        assert!(other.try_lock("orders/42").optional().expect("three of three").is_none());
    }
    guard.check().expect("it is still ours");
    guard.unlock().expect("the first node confirms");
    wait_until("it is free", LIMIT, || other.try_lock("orders/42").is_ok());
}

/// A caller's own short deadline is no reason to fall back, even if the quorum has been missing for long.
#[test]
fn a_short_deadline_is_no_reason_to_fall_back() {
    let mut servers = Servers::start(3);
    let locks = client(servers.urls());
    servers.iter_mut().skip(1).for_each(Server::kill);
    let error = locks.try_lock("orders/42").expect_err("one of three");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    servers.iter_mut().skip(1).for_each(Server::restart_empty);
    let start = std::time::Instant::now();
    wait_until("all nodes are connected, and time passes", LIMIT, || {
        locks.node_stats().iter().all(|node| node.connected) && start.elapsed() > AFTER * 2
    });
    servers.iter_mut().skip(1).for_each(Server::pause);
    let tried = locks.try_lock_for("orders/42", Duration::from_millis(50));
    assert_eq!(tried.expect_err("one of three").kind(), ErrorKind::NoQuorum);
    servers.iter_mut().skip(1).for_each(Server::resume);
    servers.wait_no_keys();
}

/// The slowest of the remaining nodes may know of another holder.
#[test]
fn all_nodes_are_heard_before_the_first_one_decides_alone() {
    let mut servers = Servers::start(5);
    servers.iter_mut().take(4).skip(1).for_each(Server::kill);
    servers[4].command(&["SET", KEY, "somebody-else", "PX", "600000"]);
    let locks = client(servers.urls());
    let start = std::time::Instant::now();
    wait_until("it is time to fall back", LIMIT, || {
        let error = locks.try_lock("orders/42").expect_err("two of five");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        start.elapsed() > AFTER * 2
    });
    wait_until("the last try is cleaned up", LIMIT, || servers[0].get(KEY).is_none());
    servers[4].pause();
    std::thread::scope(|scope| {
        let trying = scope.spawn(|| locks.try_lock("orders/42"));
        wait_until("the first node has granted", LIMIT, || servers[0].get(KEY).is_some());
        servers[4].resume();
        let error = trying.join().expect("no panic").expect_err("somebody else has it");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
    });
    wait_until("the first node is given back", LIMIT, || servers[0].get(KEY).is_none());
}

/// These nodes are available, and may hold keys of other clients. Their operators must learn of the errors.
#[test]
fn nodes_that_answer_with_errors_are_no_reason_to_fall_back() {
    let mut servers = Servers::start(3);
    for server in servers.iter().skip(1) {
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    }
    let locks = client(servers.urls());
    let start = std::time::Instant::now();
    wait_until("time passes", LIMIT, || {
        let error = locks.try_lock("orders/42").expect_err("one of three");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        assert!(error.to_string().contains("out of memory"), "{error}");
        start.elapsed() > AFTER * 4
    });
    servers.iter_mut().skip(1).for_each(Server::kill);
    let guard = locks.lock("orders/42").expect("the first node is enough after a while");
    assert_eq!(guard.mode(), Mode::Fallback);
}

#[test]
fn waiting_for_the_first_nodes_word_can_be_cancelled() {
    let mut servers = Servers::start(3);
    let locks = client(servers.urls());
    wait_connected(&locks);
    servers[0].pause();
    let (cancel, cancelled) = crossbeam_channel::bounded(1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock_within("orders/42", &cancelled));
        wait_until("the others have granted", LIMIT, || {
            servers.iter().skip(1).all(|server| server.get(KEY).is_some())
        });
        cancel.send(()).expect("it listens");
        let error = waiting.join().expect("no panic").expect_err("it is cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    });
    servers[0].resume();
    servers.wait_no_keys();
}
