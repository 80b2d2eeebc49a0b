//! Nodes that go away and come back.

mod support;

use std::time::Duration;

use quorlock::{ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::{fresh, wait_connected};
use support::{Server, Servers, wait_until};

const TTL: Duration = Duration::from_secs(60);
/// Long enough for a healthy node to answer on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(20);
const KEY: &str = "quorlock:orders/42";

fn client(servers: &Servers) -> Quorlock {
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(NODE_TIMEOUT);
    let locks = builder.build().expect("valid settings");
    wait_connected(&locks);
    locks
}

/// A server that closed an idle connection (a restart, its `timeout` setting, a firewall) is not
/// down: the first call after that reconnects.
#[test]
fn a_connection_that_was_closed_while_idle_is_no_failure() {
    let mut servers = Servers::start(3);
    let locks = client(&servers);
    for _ in 0..5 {
        servers.iter_mut().for_each(Server::restart_empty);
        // A client that has checked an idle server while it was away knows that it is down, and soon tries again.
        wait_connected(&locks);
        let guard = locks.try_lock("orders/42").optional().expect("all nodes are back");
        guard.expect("it is free").unlock().expect("all nodes are back");
    }
    servers.wait_no_keys();
}

/// The scripts are lost with a server's memory, but the calls succeed.
#[test]
fn scripts_that_a_server_forgot_are_sent_again() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    for _ in 0..5 {
        let guard = locks.lock("orders/42").expect("three of three");
        servers.iter().for_each(|server| drop(server.command(&["SCRIPT", "FLUSH"])));
        guard.extend(TTL).expect("three of three");
        servers.iter().for_each(|server| drop(server.command(&["SCRIPT", "FLUSH"])));
        guard.unlock().expect("three of three");
    }
    servers.wait_no_keys();
}

/// A release that could not be delivered waits for the node. It deletes the key that the node
/// brings back from its disk.
#[test]
fn a_release_reaches_a_node_that_comes_back_with_its_data() {
    let mut servers = Servers::start_with(3, &["--appendonly", "yes", "--appendfsync", "always"]);
    let locks = client(&servers);
    for drop_it in [true, false] {
        let guard = locks.lock("orders/42").expect("three of three");
        wait_until("all nodes have the key", LIMIT, || {
            servers.iter().all(|server| server.get(KEY).is_some())
        });
        servers[0].kill();
        if drop_it {
            drop(guard);
        } else {
            guard.unlock().expect("two of three");
        }
        wait_until("the release is kept", LIMIT, || locks.node_stats()[0].kept_releases == 1);
        let unanswered = |node: usize| locks.node_stats()[node].unanswered_releases;
        wait_until("the others answer", LIMIT, || unanswered(1) + unanswered(2) == 0);
        assert_eq!(unanswered(0), 1);
        servers[0].restart_with_data();
        // The TTL is a minute; this waits for a few seconds only.
        servers.wait_no_keys();
        // The worker counts once it has written, and the server may be faster.
        wait_until("it is not kept any more", LIMIT, || locks.node_stats()[0].kept_releases == 0);
        wait_until("the answer is read", LIMIT, || unanswered(0) == 0);
    }
}

/// A node that was dead when the client was built joins in when it comes up.
#[test]
fn a_node_that_comes_up_later_joins_in() {
    let mut servers = Servers::start(3);
    servers.iter_mut().for_each(Server::kill);
    let builder = fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(NODE_TIMEOUT);
    // Servers may take long to start on a busy machine.
    let locks = builder.no_quorum_timeout(TTL).build().expect("valid settings");
    assert!(locks.try_lock("orders/42").is_err());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock("orders/42"));
        servers.iter_mut().for_each(Server::restart_empty);
        let guard = waiting.join().expect("no panic").expect("they are back");
        guard.unlock().expect("they are back");
    });
    servers.wait_no_keys();
}

/// The process outlives its client, and so do the releases that wait for a node.
#[test]
fn kept_releases_outlive_their_client() {
    let mut servers = Servers::start_with(3, &["--appendonly", "yes", "--appendfsync", "always"]);
    let locks = client(&servers);
    let guard = locks.lock("orders/42").expect("three of three");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers[0].kill();
    drop(guard);
    wait_until("the release is kept", LIMIT, || locks.node_stats()[0].kept_releases == 1);
    drop(locks);
    servers[0].restart_with_data();
    servers.wait_no_keys();
}

/// The client notices that a hung master is down, and its try to reconnect hangs as well. A release that its worker gets
/// meanwhile counts as undelivered, like one that was kept.
#[test]
fn close_reports_releases_that_a_hung_majority_was_not_told() {
    let mut servers = Servers::start(3);
    let builder = fresh(servers.urls());
    let locks = builder.ttl(TTL).max_ttl(TTL).build().expect("valid settings");
    let guard = locks.lock("orders/42").expect("three of three");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers[..2].iter_mut().for_each(Server::pause);
    wait_until("two nodes are down", LIMIT, || {
        locks.node_stats()[..2].iter().all(|node| !node.connected)
    });
    let unconfirmed = guard.unlock().expect_err("one of three");
    assert_eq!(unconfirmed.kind(), ErrorKind::NoQuorum);
    assert!(locks.node_stats()[..2].iter().all(|node| node.kept_releases == 1));
    let untold = locks.close(Duration::from_millis(300)).expect_err("one of three");
    assert_eq!(untold.kind(), ErrorKind::NoQuorum);
    servers[..2].iter_mut().for_each(Server::resume);
    servers.wait_no_keys();
}

/// A server that is not ready for a time (here because of a long script; it could also be loading its data)
/// is treated like one that is down: the release waits for it.
#[test]
fn a_release_to_a_busy_server_waits_until_it_is_ready() {
    let servers = Servers::start_with(1, &["--lua-time-limit", "1"]);
    let locks = client(&servers);
    let guard = locks.lock("orders/42").expect("one of one");
    std::thread::scope(|scope| {
        scope.spawn(|| servers[0].try_command(&[b"EVAL", b"while true do end", b"0"]));
        wait_until("the server is busy", LIMIT, || servers[0].try_command(&[b"PING"]).is_err());
        drop(guard);
        wait_until("the release is kept", LIMIT, || locks.node_stats()[0].kept_releases == 1);
        servers[0].command(&["SCRIPT", "KILL"]);
    });
    servers.wait_no_keys();
}

/// Even on fresh servers, requests run in the order in which they were made: the release of a lock
/// runs before the next try for it, even if both wait in one batch.
#[test]
fn a_release_runs_before_the_next_acquire() {
    let mut servers = Servers::start(1);
    let locks = client(&servers);
    let guard = locks.lock("orders/42").expect("one of one");
    servers[0].pause();
    std::thread::scope(|scope| {
        let writes = locks.node_stats()[0].writes;
        scope.spawn(|| locks.try_lock("other"));
        wait_until("the worker waits", LIMIT, || locks.node_stats()[0].writes > writes);
        drop(guard);
        let next = scope.spawn(|| locks.try_lock("orders/42"));
        std::thread::sleep(Duration::from_millis(50)); // longer makes the test no stricter
        servers[0].resume();
        drop(next.join().expect("no panic").expect("it was given back before it was asked for"));
    });
    servers.wait_no_keys();
}
