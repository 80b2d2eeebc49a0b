//! One address with two servers: a load balancer, or a name with several addresses. Each server would have a vote.

mod support;

use std::net::TcpStream;
use std::time::Duration;

use quorlock::{ErrorKind, OptionalGuard as _, Quorlock, Severity};
use support::clients::fresh;
use support::events::{self, told};
use support::proxy::Proxy;
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// Time limit of an answer on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// A part of the error for such a node.
const SEVERAL: &str = "several servers answer under this address";

#[track_caller]
fn is_held(locks: &Quorlock) -> bool {
    locks.try_lock("orders/42").optional().expect("a majority is there").is_none()
}

/// Each of two clients reaches one further master, so that each would have a majority with the two servers.
#[test]
fn two_clients_that_reach_different_servers_under_one_address_do_not_both_hold_a_lock() {
    events::remember();
    let mut servers = Servers::start(5);
    servers[4].kill();
    let balanced = Proxy::start(servers[0].port());
    balanced.spread(Some(servers[1].port()));
    let dead = servers[4].url();
    let client = |other: &Server| {
        let nodes = [balanced.url(), other.url(), dead.clone()];
        fresh(nodes).node_timeout(PATIENCE).build().expect("valid settings")
    };
    let (one, two) = (client(&servers[2]), client(&servers[3]));
    for locks in [&one, &two] {
        wait_until("it is seen that several servers answer", LIMIT, || {
            let refused = locks.try_lock("orders/42").err();
            refused.is_some_and(|error| {
                assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                error.to_string().contains(SEVERAL)
            })
        });
    }
    // An event comes a moment behind what a call returns: a worker reports it, and no thread that takes a lock.
    let is_told = || told(&["ERROR", &balanced.url(), SEVERAL]) >= 2;
    wait_until("the event of each client", LIMIT, is_told);
    assert_eq!(told(&["ERROR", &balanced.url(), SEVERAL]), 2, "{:?}", events::all());
    let fault = |locks: &Quorlock| locks.node_stats()[0].fault.clone().unwrap_or_default();
    assert!(fault(&two).contains(SEVERAL), "{:?}", two.node_stats());
    // The operator corrects the address.
    balanced.spread(None);
    wait_until("the node has a vote again", LIMIT, || one.try_lock("orders/42").optional().is_ok());
}

/// The other nodes decide. A held lock goes on by their votes.
#[test]
fn such_a_node_has_no_vote_for_a_lock_that_is_held_either() {
    events::remember();
    let servers = Servers::start(4);
    let balanced = Proxy::start(servers[0].port());
    let nodes = || [balanced.url(), servers[2].url(), servers[3].url()];
    let client = || fresh(nodes()).node_timeout(PATIENCE).build().expect("valid settings");
    let locks = client();
    let guard = locks.lock("orders/42").expect("three of three");
    balanced.spread(Some(servers[1].port()));
    wait_until("it is seen that several servers answer", LIMIT, || {
        told(&["ERROR", &balanced.url(), SEVERAL]) > 0
    });
    let other = client();
    assert!(is_held(&other), "a majority of the nodes that have a vote says so");
    assert!(guard.extend(Duration::from_secs(10)).is_ok(), "two of three");
    guard.unlock().expect("it was ours");
    // A node may run the release a moment later. By itself the lock would end later than this wait.
    wait_until("it is free", PATIENCE, || !is_held(&other));
}

/// After a restart or a replacement, the new server follows the old one, so there is one at a time.
#[test]
fn servers_that_follow_each_other_are_not_several() {
    events::remember();
    let mut servers = Servers::start(4);
    let proxy = Proxy::start(servers[0].port());
    let nodes = [proxy.url(), servers[2].url(), servers[3].url()];
    let locks = fresh(nodes.clone()).node_timeout(PATIENCE).build().expect("valid settings");
    locks.lock("orders/42").expect("three of three").unlock().expect("three of three");
    let is_up = || locks.node_stats().iter().all(|node| node.connected);
    let connections = || proxy.accepted();
    // Changes behind a lasting connection, by a restart, and by a failover; each waits until another connection has checked.
    for change in 0..3 {
        let before = connections();
        match change {
            0 | 1 => servers[0].restart_empty(),
            _ => proxy.fail_over_to(servers[1].port()),
        }
        wait_until("another connection has looked", LIMIT, || {
            drop(locks.try_lock("orders/42"));
            is_up() && connections() >= before + 2
        });
        wait_until("all nodes vote", LIMIT, || locks.try_lock("orders/42").is_ok());
    }
    assert_eq!(told(&[&proxy.url(), SEVERAL]), 0, "{:?}", events::all());
}

/// For each node, true if a diagnosis says that several servers answer.
fn several(nodes: [String; 3]) -> Vec<bool> {
    let diagnosis = fresh(nodes).node_timeout(PATIENCE).diagnose().expect("valid settings");
    let findings = diagnosis.nodes.into_iter().map(|node| node.findings);
    let are_told = |findings: Vec<quorlock::Finding>| {
        let told = |finding: &quorlock::Finding| {
            finding.severity == Severity::Problem && finding.what.contains(SEVERAL)
        };
        findings.iter().any(told)
    };
    findings.map(are_told).collect()
}

#[test]
fn a_diagnosis_tells_that_several_servers_answer() {
    let servers = Servers::start(4);
    let balanced = Proxy::start(servers[0].port());
    let nodes = || [balanced.url(), servers[2].url(), servers[3].url()];
    assert_eq!(several(nodes()), [false; 3]);
    balanced.spread(Some(servers[1].port()));
    assert_eq!(several(nodes()), [true, false, false]);
}

/// A replica has no vote. So a name may stand for a master and its replicas, and a client finds the master.
#[test]
fn a_replica_under_the_same_address_is_no_second_server() {
    events::remember();
    let servers = Servers::start(4);
    let balanced = Proxy::start(servers[0].port());
    servers[1].command(&["REPLICAOF", "127.0.0.1", &servers[0].port().to_string()]);
    balanced.spread(Some(servers[1].port()));
    let nodes = || [balanced.url(), servers[2].url(), servers[3].url()];
    // The master answers first in one round, and the replica in the other.
    for _ in 0..2 {
        assert_eq!(several(nodes()), [false; 3]);
        TcpStream::connect(balanced.url().trim_start_matches("redis://")).expect("it listens");
    }
    let locks = fresh(nodes()).node_timeout(PATIENCE).build().expect("valid settings");
    for _ in 0..10 {
        locks
            .lock("orders/42")
            .expect("a majority is there")
            .unlock()
            .expect("a majority is there");
    }
    assert_eq!(told(&[&balanced.url(), SEVERAL]), 0, "{:?}", events::all());
}
