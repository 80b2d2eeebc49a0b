//! The list of held locks: its names and its limits.

mod support;

use std::time::Duration;

use quorlock::{ErrorKind, HeldLocks, LockState, Quorlock};
use support::clients::{connected, fresh, patient};
use support::{Server, Servers, wait_until};

const TTL: Duration = Duration::from_secs(60);
/// Longer than any scan in these tests takes.
const LONG: Duration = Duration::from_secs(60);

fn names(held: &HeldLocks) -> Vec<String> {
    held.names.iter().map(|name| name.name.escape_ascii().to_string()).collect()
}

fn all(locks: &Quorlock) -> HeldLocks {
    locks.held_locks("", 1_000, LONG).expect("all are healthy")
}

#[test]
fn locks_of_every_kind_are_found_and_nothing_that_is_kept_beside_them() {
    let servers = Servers::start(3);
    let [holder, operator] = [(); 2].map(|()| patient(&servers, TTL));
    assert!(all(&operator).names.is_empty() && all(&operator).is_complete());
    let _mutex = holder.lock(b"any\xff{bytes}").expect("it is free");
    let _several = holder.multi_mutex(["several/1", "several/2"]).lock().expect("they are free");
    let _read = holder.rw_lock("re{ad}").read().expect("it is free");
    let _permit = holder.semaphore("semaphore", 3).acquire().expect("it is free");
    let _again = holder.reentrant_mutex("reentrant").lock().expect("it is free");
    let _fair = holder.fair_mutex("fair").lock().expect("it is free");
    holder.mutex("kept").min_hold(TTL).lock().expect("it is free").unlock().expect("it is ours");
    // This leaves a tombstone and a fence.
    let _forced = holder.lock("forced").expect("it is free");
    assert!(operator.mutex("forced").force_unlock().expect("all are healthy"));
    let expected = [
        r"any\xff{bytes}",
        "fair",
        "kept",
        "reentrant",
        "re{ad}",
        "semaphore",
        "several/1",
        "several/2",
    ];
    for prefix in ["quorlock:", ""] {
        let builder = fresh(servers.urls()).key_prefix(prefix).max_ttl(TTL);
        let lister = connected(builder.node_timeout(Duration::from_secs(5)));
        let expected = expected.map(|name| match prefix {
            "" => format!("quorlock:{name}"),
            _ => name.to_owned(),
        });
        // The last node grants a lock a moment later.
        wait_until("all nodes have all of them", LONG, || {
            let held = lister.held_locks("", 1_000, LONG).expect("all are healthy");
            held.names.iter().flat_map(|name| &name.holders).all(|holder| holder.nodes == 3)
        });
        let held = lister.held_locks("", 1_000, LONG).expect("all are healthy");
        assert_eq!(names(&held), expected);
        assert!(held.is_complete() && held.faults.is_empty(), "{held:?}");
        for name in &held.names {
            let is_kept = name.name.ends_with(b"kept");
            let state = if is_kept { LockState::Kept } else { LockState::Held };
            assert_eq!((name.state, name.holders.len()), (state, 1), "{name}");
        }
    }
}

/// The list includes keys on a minority of the nodes, but no keys that cannot be locks.
#[test]
fn every_node_is_scanned_for_strings_and_hashes_with_an_expiry() {
    let servers = Servers::start(3);
    let operator = patient(&servers, TTL);
    servers[0].command(&["SET", "quorlock:shared", "a", "PX", "60000"]);
    servers[2].command(&["SET", "quorlock:shared", "b", "PX", "60000"]);
    for (i, name) in ["quorlock:one", "quorlock:two", "quorlock:three"].into_iter().enumerate() {
        let owners = [1, 2].map(|node| (i + node) % 3);
        for node in owners {
            servers[node].command(&["SET", name, "a", "PX", "60000"]);
        }
    }
    for server in servers.iter() {
        server.command(&["SET", "quorlock:data", "x"]);
        server.command(&["HSET", "quorlock:table", "f", "x"]);
        server.command(&["RPUSH", "quorlock:list", "x"]);
        server.command(&["PEXPIRE", "quorlock:list", "60000"]);
        server.command(&["SET", "elsewhere:lock", "a", "PX", "60000"]);
    }
    // The key of a failed attempt.
    servers[1].command(&["SET", "quorlock:free", "a", "PX", "60000"]);
    let held = all(&operator);
    assert_eq!(names(&held), ["one", "shared", "three", "two"]);
    let states = held.names.iter().map(|name| name.state).collect::<Vec<_>>();
    assert_eq!(states, [LockState::Held, LockState::Unclear, LockState::Held, LockState::Held]);
}

#[test]
fn the_pattern_is_of_the_name_and_the_prefix_stands_for_itself() {
    let servers = Servers::start(1);
    let client = |prefix: &str| {
        let builder = fresh(servers.urls()).key_prefix(prefix).max_ttl(TTL).ttl(TTL);
        connected(builder.node_timeout(Duration::from_secs(5)))
    };
    let [star, other] = [client(r"*[a]\"), client("other")];
    let _guards = ["x", "y", "xy", "*"].map(|name| star.lock(name).expect("it is free"));
    let _others = other.lock(r"a\z").expect("it is free");
    let listed =
        |pattern: &str| names(&star.held_locks(pattern, 1_000, LONG).expect("it is healthy"));
    assert_eq!(listed(""), ["*", "x", "xy", "y"]);
    assert_eq!(
        (listed("?"), listed("x*")),
        (vec!["*".into(), "x".into(), "y".into()], vec!["x".into(), "xy".into()])
    );
    assert_eq!((listed("[^x*]"), listed(r"\*")), (vec!["y".to_owned()], vec!["*".to_owned()]));
    assert_eq!((listed("z"), listed("X")), (Vec::<String>::new(), Vec::new()));
    let error = star.held_locks([b'a'; 4_097], 1, LONG).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidName);
}

/// A reply longer than the client's limit would count as a fault of the node.
#[test]
fn a_scan_goes_on_step_by_step_and_ends_at_its_bounds() {
    let servers = Servers::start(1);
    let operator = patient(&servers, TTL);
    let fill = "for i = 1, 20000 do redis.call('SET', 'foreign:' .. i, 'x') end \
                for i = 1, 300 do \
                  redis.call('SET', 'quorlock:' .. string.rep('n', 4000) .. i, 'owner', 'PX', 60000) \
                end";
    servers[0].command(&["EVAL", fill, "0"]);
    let held = all(&operator);
    assert!(held.is_complete() && held.faults.is_empty(), "{:?}", held.faults);
    assert_eq!(held.names.len(), 300);
    let some = |most, within| operator.held_locks("", most, within).expect("it is healthy");
    let (few, enough) = (some(299, LONG), some(300, LONG));
    assert_eq!((few.names.len(), few.is_complete()), (299, false));
    assert_eq!((enough.names.len(), enough.is_complete()), (300, true));
    let at_once = some(1_000, Duration::ZERO);
    assert!(!at_once.is_complete() && at_once.names.len() < 300, "one step is not all");
    assert!(some(1_000, Duration::MAX).is_complete());
}

#[test]
fn a_majority_is_enough_and_fewer_are_an_error_with_causes() {
    let mut servers = Servers::start(3);
    let operator =
        connected(fresh(servers.urls()).max_ttl(TTL).node_timeout(Duration::from_secs(2)));
    let guard = operator.mutex("orders/42").ttl(TTL).lock().expect("it is free");
    wait_until("all nodes have it", LONG, || {
        servers.iter().all(|server| server.get("quorlock:orders/42").is_some())
    });
    servers[1].pause();
    let held = all(&operator);
    assert_eq!((names(&held), held.is_complete()), (vec!["orders/42".to_owned()], true));
    let [fault] = held.faults.as_slice() else { panic!("{:?}", held.faults) };
    assert_eq!(fault.node(), servers[1].url());
    servers[2].kill();
    let error = operator.held_locks("", 1, LONG).expect_err("one of three");
    assert_eq!((error.kind(), error.node_faults().len()), (ErrorKind::NoQuorum, 2), "{error}");
    assert!(error.to_string().contains("which locks are held"), "{error}");
    servers[1].resume();
    drop(guard);
    operator.clone().close(LONG).expect("a majority is healthy");
    assert_eq!(operator.held_locks("", 1, LONG).expect_err("closed").kind(), ErrorKind::Closed);
}

/// A new node may have forgotten a lock, so its empty answer proves nothing.
#[test]
fn nodes_in_quarantine_make_no_complete_list() {
    let server = Server::start();
    let builder = Quorlock::builder().nodes([server.url()]).ttl(TTL).max_ttl(TTL);
    let locks = connected(builder.node_timeout(Duration::from_secs(5)));
    let held = all(&locks);
    assert!(!held.is_complete() && held.faults.len() == 1, "{held:?}");
    assert!(held.faults[0].what().contains("forgotten"), "{held:?}");
    wait_until("it is admitted", LONG, || locks.admit().is_ok());
    assert!(all(&locks).is_complete() && all(&locks).faults.is_empty());
}

#[cfg(feature = "embedded")]
#[test]
fn embedded_nodes_are_scanned_as_servers_are() {
    let nodes = quorlock::embedded::Nodes::start(3).expect("ports are free");
    let builder = Quorlock::builder().nodes(nodes.urls()).ttl(TTL).max_ttl(TTL);
    let locks = support::clients::admitted(builder.node_timeout(Duration::from_secs(5)));
    let guards: Vec<_> =
        (0..1_500).map(|i| locks.lock(format!("orders/{i}")).expect("it is free")).collect();
    let held = locks.held_locks("orders/*", 2_000, LONG).expect("all are healthy");
    assert!(held.is_complete() && held.names.len() == guards.len(), "{}", held.names.len());
    nodes[0].kill();
    let held = locks.held_locks("orders/1*", 2_000, LONG).expect("a majority is healthy");
    assert!(held.is_complete() && held.faults.len() == 1, "{:?}", held.faults);
    assert_eq!(held.names.len(), 1 + 10 + 100 + 500);
}
