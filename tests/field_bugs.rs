//! Bugs that other lock libraries have or had, each as a test on real servers.
//!
//! Where the bug was "it blocks until some timeout", the timeout is half a minute in the test. The
//! test demands that the call does not take that long, so no test depends on the machine's speed.

mod support;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::{fresh, requests};
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const AGES: Duration = Duration::from_secs(30);

fn patient(servers: &Servers) -> Builder {
    fresh(servers.urls()).max_ttl(Duration::from_secs(600)).ttl(AGES * 2).node_timeout(AGES)
}

/// Short enough for a test to wait until hung nodes are given up, and long enough for healthy ones to answer
/// on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

fn quick(servers: &Servers) -> Builder {
    fresh(servers.urls()).max_ttl(Duration::from_secs(600)).ttl(AGES * 2).node_timeout(NODE_TIMEOUT)
}

fn connected(locks: &Quorlock) {
    wait_until("all nodes are connected", AGES, || {
        locks.node_stats().iter().all(|node| node.connected)
    });
}

fn build(builder: Builder) -> Quorlock {
    let locks = builder.build().expect("the settings are valid");
    connected(&locks);
    locks
}

/// A client of servers that know the scripts. After a hang they run the requests that were sent to them,
/// while a fresh server would only say that it does not know the script.
fn warm(servers: &Servers) -> Quorlock {
    let locks = build(quick(servers));
    let guard = locks.lock("warm").expect("all are healthy");
    wait_until("all nodes have the key", AGES, || {
        servers.iter().all(|server| server.get("quorlock:warm").is_some())
    });
    guard.unlock().expect("all are healthy");
    servers.wait_no_keys();
    locks
}

fn foreign(server: &Server, key: &str) {
    server.command(&["SET", key, "somebody-else", "PX", "60000"]);
}

const KEY: &str = "quorlock:orders/42";

/// node-redlock: the partial grant of one try blocks the next one.
#[test]
fn case_01_an_own_partial_grant_does_not_block_the_next_try() {
    let servers = Servers::start(3);
    let locks = build(quick(&servers));
    for _ in 0..50 {
        foreign(&servers[1], KEY);
        foreign(&servers[2], KEY);
        assert!(locks.try_lock("orders/42").optional().expect("a quorum").is_none());
        servers[1].command(&["DEL", KEY]);
        servers[2].command(&["DEL", KEY]);
        let guard = locks.try_lock("orders/42").optional().expect("a quorum");
        guard.expect("nobody has it").unlock().expect("a majority");
    }
    servers.wait_no_keys();
}

/// node-redlock, Redisson: a quorum is reached, but the lock has already expired when it is handed out.
#[test]
fn case_02_a_quorum_that_comes_late_is_honest_about_what_is_left() {
    let mut servers = Servers::start(5);
    let ttl = Duration::from_secs(20);
    let builder = quick(&servers).ttl(ttl).node_timeout(ttl / 2);
    let locks = build(builder);
    servers.iter_mut().take(3).for_each(Server::pause);
    thread::scope(|scope| {
        let locking = scope.spawn(|| locks.lock("orders/42").expect("they wake up in time"));
        wait_until("the healthy nodes granted", AGES, || {
            servers.iter().skip(3).all(|server| server.get(KEY).is_some())
        });
        // From now on: the thread may have begun late.
        let start = Instant::now();
        wait_until("time passes", AGES, || start.elapsed() > Duration::from_millis(700));
        servers.iter_mut().take(3).for_each(Server::resume);
        let guard = locking.join().expect("no panic");
        let remaining = guard.remaining();
        assert!(remaining < ttl - Duration::from_millis(700), "{remaining:?}");
        assert!(remaining > ttl / 2, "{remaining:?}");
        // The validity is not overstated: no key ends earlier.
        for server in servers.iter() {
            if server.get(KEY).is_some() {
                let left = u64::try_from(server.pttl(KEY)).expect("it has an expiry");
                assert!(Duration::from_millis(left) > guard.remaining());
            }
        }
        guard.unlock().expect("a majority");
    });
    servers.wait_no_keys();
}

/// Crate redlock, redlock-py, redlock-rb: an error of a minority fails the call, and the grants of
/// the others stay.
#[test]
fn case_03_errors_of_a_minority_neither_fail_the_call_nor_leak() {
    let servers = Servers::start(3);
    let locked_up = Server::start_with(&["--requirepass", "nobody-knows"]);
    let full = Server::start_with(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let mut urls = vec![locked_up.url(), full.url()];
    urls.extend(servers.urls());
    let locks = quick(&servers).nodes(urls).build().expect("the settings are valid");
    for _ in 0..20 {
        locks.lock("orders/42").expect("three of five").unlock().expect("three of five");
    }
    servers.wait_no_keys();
}

/// redsync, node-redlock, pottery: a grant that arrives after the release stays until its TTL.
#[test]
fn case_04_a_grant_that_comes_after_the_release_does_not_stay() {
    let mut servers = Servers::start(5);
    for again in [false, true] {
        let locks = warm(&servers);
        servers.iter_mut().take(2).for_each(Server::pause);
        let guard = locks.lock("orders/42").expect("three of five");
        if again {
            // After the node timeout the nodes are given up.
            wait_until("the hung nodes are given up", AGES, || {
                locks.node_stats().iter().filter(|node| !node.connected).count() == 2
            });
        }
        guard.unlock().expect("three of five");
        servers.iter_mut().take(2).for_each(Server::resume);
        // The TTL is a minute; this waits for a few seconds only.
        servers.wait_no_keys();
    }
}

/// As in the test above, but the attempt failed, and its client is gone before the nodes wake up: the release
/// was written behind the acquire, on the same connection.
#[test]
fn case_04_nothing_stays_of_a_lost_attempt_whose_client_has_gone() {
    let mut servers = Servers::start(5);
    let locks = warm(&servers);
    servers.iter_mut().take(3).for_each(Server::pause);
    let error = locks.try_lock("orders/42").expect_err("two of five");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    drop(locks);
    servers.iter_mut().take(3).for_each(Server::resume);
    servers.wait_no_keys();
}

/// node-redlock: with an even number of nodes, a tie never settles.
#[test]
fn case_05_a_tie_among_an_even_number_settles_at_once() {
    let servers = Servers::start(4);
    let locks = build(patient(&servers));
    foreign(&servers[0], KEY);
    foreign(&servers[1], KEY);
    let start = Instant::now();
    assert!(locks.try_lock("orders/42").optional().expect("all nodes answer").is_none());
    assert!(start.elapsed() < AGES / 2, "the tie was waited out");
    servers[1].command(&["DEL", KEY]);
    let guard = locks.try_lock("orders/42").optional().expect("all nodes answer");
    guard.expect("three of four are a majority").unlock().expect("a majority");
}

/// redsync: one hung node blocks unlock and extend, which have no timeout.
#[test]
fn case_06_a_hung_minority_blocks_neither_unlock_nor_extend() {
    let mut servers = Servers::start(5);
    let locks = build(patient(&servers));
    let start = Instant::now();
    let guard = locks.lock("orders/42").expect("five of five");
    servers.iter_mut().take(2).for_each(Server::pause);
    guard.extend(AGES * 3).expect("three of five");
    guard.unlock().expect("three of five");
    locks.lock("orders/43").expect("three of five").unlock().expect("three of five");
    assert!(start.elapsed() < AGES / 2, "the hung nodes were waited for");
    servers.iter_mut().take(2).for_each(Server::resume);
    servers.wait_no_keys();
}

/// RedLock.net: "extend" sets the key again, and revives a lock that is lost.
#[test]
fn case_08_an_extension_revives_nothing() {
    let servers = Servers::start(3);
    let locks = build(quick(&servers));
    let guard = locks.lock("orders/42").expect("three of three");
    wait_until("all nodes have the key", AGES, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    // The keys were deleted by hand, and on one node another client has the lock by now.
    servers.iter().for_each(|server| drop(server.command(&["DEL", KEY])));
    foreign(&servers[0], KEY);
    let error = guard.extend(AGES * 2).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(guard.remaining().is_zero());
    assert_eq!(servers[0].get(KEY).as_deref(), Some("somebody-else"));
    wait_until("nothing is left", AGES, || servers[1].get(KEY).is_none());
    assert_eq!(guard.unlock().expect_err("it is gone").kind(), ErrorKind::Lost);
    assert_eq!(servers[0].get(KEY).as_deref(), Some("somebody-else"));
}

/// pottery, node-redlock: the validity after an extension ignores the time that the extension took.
#[test]
fn case_08_the_time_an_extension_takes_is_not_given_away() {
    let mut servers = Servers::start(3);
    let ttl = Duration::from_secs(20);
    let locks = build(quick(&servers).ttl(ttl).node_timeout(ttl / 2));
    let guard = locks.lock("orders/42").expect("three of three");
    wait_until("all nodes have the key", AGES, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers.iter_mut().take(2).for_each(Server::pause);
    let before = requests(&locks);
    thread::scope(|scope| {
        let extending = scope.spawn(|| guard.extend(ttl));
        wait_until("the extension is on its way", AGES, || requests(&locks) > before);
        // From now on: the thread may have begun late.
        let start = Instant::now();
        wait_until("time passes", AGES, || start.elapsed() > Duration::from_millis(700));
        servers.iter_mut().take(2).for_each(Server::resume);
        extending.join().expect("no panic").expect("they wake up in time");
    });
    assert!(guard.remaining() < ttl - Duration::from_millis(700), "{:?}", guard.remaining());
    guard.unlock().expect("three of three");
}

/// pottery, jedis-distributed-lock: an object that is shared by threads overwrites its own token.
#[test]
fn case_12_one_handle_serves_many_threads() {
    let servers = Servers::start(3);
    let locks = build(quick(&servers));
    let handle = Arc::new(locks.mutex("orders/42"));
    let counter = parking_lot::Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let guard = handle.lock().expect("three of three");
                    *counter.try_lock().expect("two threads are inside") += 1;
                    guard.unlock().expect("it is this thread's own");
                }
            });
        }
    });
    assert_eq!(*counter.lock(), 80);
    servers.wait_no_keys();
}

/// Crate redlock: `ttl - drift - elapsed` wraps around, and the validity is astronomic. Three of five
/// stop for 1.2 s, with a TTL of 500 ms.
#[test]
fn case_14_an_overrun_is_refused_or_honest_and_leaves_no_key() {
    let mut servers = Servers::start(5);
    let ttl = Duration::from_millis(500);
    let locks = build(quick(&servers).ttl(ttl).node_timeout(ttl / 2));
    for _ in 0..3 {
        servers.iter_mut().take(3).for_each(Server::pause);
        let start = Instant::now();
        thread::scope(|scope| {
            let locking = scope.spawn(|| {
                let guard = locks
                    .try_lock_for("orders/42", AGES)
                    .optional()
                    .map(|guard| guard.expect("free"));
                let guard = guard.expect("they wake up in time");
                let remaining = guard.remaining();
                assert!(remaining <= ttl, "{remaining:?}");
                drop(guard);
            });
            wait_until("time passes", AGES, || start.elapsed() > Duration::from_millis(1_200));
            assert!(!locking.is_finished(), "two of five are no majority");
            servers.iter_mut().take(3).for_each(Server::resume);
            locking.join().expect("no panic");
        });
        servers.wait_no_keys();
    }
}

/// rslock: the guard's drop releases nothing, or blocks.
#[test]
fn case_15_a_drop_releases_and_does_not_block() {
    let mut servers = Servers::start(3);
    let locks = build(patient(&servers));
    let guard = locks.lock("orders/42").expect("three of three");
    servers.iter_mut().for_each(Server::pause);
    let start = Instant::now();
    drop(guard);
    assert!(start.elapsed() < AGES / 2, "the drop waited for hung nodes");
    servers.iter_mut().for_each(Server::resume);
    servers.wait_no_keys();
}

/// jedis-distributed-lock: a timed wait tries twice, and gives up early.
#[test]
fn case_20_a_timed_wait_goes_on_trying() {
    let servers = Servers::start(3);
    let locks = build(quick(&servers));
    // Held by another process, so that the waiter must ask the nodes.
    let guard = build(quick(&servers)).lock("orders/42").expect("three of three");
    let tries = || servers[0].script_calls();
    let before = tries();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.try_lock_for("orders/42", AGES));
        wait_until("it has tried ten times", AGES, || tries() >= before + 10);
        guard.unlock().expect("three of three");
        let guard = waiting.join().expect("no panic").expect("it became free in time");
        guard.unlock().expect("three of three");
    });
}
