//! Fencing tokens over real servers: they rise, and cost no further round.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quorlock::{Builder, ErrorKind, Guard, Quorlock};
use redis::Value;
use support::clients::{connected, fresh, requests};
use support::{Server, Servers, fake, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a healthy node to answer on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
const TTL: Duration = Duration::from_secs(20);

const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";
const FENCE: &str = "{quorlock:orders/42}:fence";

/// Time by which a fence outlives its lock.
const OUTLIVES_MS: i64 = 601_000;
const LARGEST: u64 = (1 << 51) - 1;
/// A number ahead of any master's time by centuries, and of the numbers that Lua can turn into text.
const AHEAD: u64 = 2_000_000_000_000_000;

fn settings(servers: &Servers) -> Builder {
    fresh(servers.urls()).max_ttl(Duration::from_secs(600)).ttl(TTL).node_timeout(NODE_TIMEOUT)
}

fn client(servers: &Servers) -> Quorlock {
    connected(settings(servers))
}

/// The number of a holder: the token divided by 4096, before any hand-over.
fn number(guard: &Guard) -> u64 {
    let token = u64::from(guard.token().expect("fencing is on"));
    assert_eq!(token % 4_096, 0);
    token / 4_096
}

fn fence(server: &Server) -> Option<u64> {
    server.get(FENCE).map(|text| text.parse().expect("a number"))
}

fn set_fence(server: &Server, number: u64) {
    server.command(&["SET", FENCE, &number.to_string(), "PX", "60000"]);
}

/// The number of nodes that know that number of the lock, or a larger one, while they have its key.
fn known_by(servers: &[Server], number: u64) -> usize {
    let knows = |server: &&Server| server.get(KEY).is_some() && fence(server) >= Some(number);
    servers.iter().filter(knows).count()
}

fn lock(locks: &Quorlock) -> Guard {
    locks.lock(NAME).expect("a majority is healthy")
}

fn masters_now(server: &Server) -> u64 {
    let time: (u64, u64) = redis::from_redis_value(server.command(&["TIME"])).expect("two numbers");
    time.0 * 100_000 + time.1 / 10
}

/// Two of five masters restart empty between two holders, in turns, so that in the end each has
/// forgotten everything several times. Each client is new, so it has seen no number, and locks
/// before it is connected.
#[test]
fn tokens_rise_while_masters_forget_everything() {
    let mut servers = Servers::start(5);
    let mut last = 0;
    for round in 0..10 {
        let locks = settings(&servers).build().expect("the settings are valid");
        let guard = lock(&locks);
        let number = number(&guard);
        assert!(number > last, "{number} after {last}, in round {round}");
        last = number;
        guard.unlock().expect("five of five");
        for i in 0..2 {
            servers[(2 * round + i) % 5].restart_empty();
        }
    }
    // All masters at once: from here on only their clocks are left.
    servers.iter_mut().for_each(Server::restart_empty);
    let locks = settings(&servers).build().expect("the settings are valid");
    assert!(number(&lock(&locks)) > last);
}

/// The number is the masters' time and not ours: no part of the crate reads a wall clock, as
/// `tests/tidy.rs` checks.
#[test]
fn numbers_are_the_masters_time_and_beyond_what_lua_writes_as_text() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let before = masters_now(&servers[0]);
    let guard = lock(&locks);
    let (token, number) = (guard.token(), number(&guard));
    let after = masters_now(&servers[0]);
    let slack = 100_000; // a second, for what a round trip leaves open on a busy machine
    assert!(number + slack >= before && number <= after + slack, "{before} {number} {after}");
    assert!(number > 100_000_000_000_000, "15 digits");
    wait_until("all nodes know it", LIMIT, || known_by(&servers, number) == 3);
    assert!(servers.iter().all(|server| fence(server) == Some(number)));
    guard.unlock().expect("three of three");

    // As after a time with wrong clocks on the masters.
    servers.iter().for_each(|server| set_fence(server, AHEAD));
    for ahead in 1..4 {
        let guard = lock(&locks);
        assert!(guard.token() > token);
        assert_eq!(self::number(&guard), AHEAD + ahead);
        guard.unlock().expect("three of three");
    }
}

/// One script per node and call, as without fencing.
#[test]
fn a_lock_and_its_release_cost_no_further_round() {
    const PAIRS: u64 = 20;

    let servers = Servers::start(5);
    let locks = client(&servers);
    for pair in 1..=PAIRS {
        let guard = lock(&locks);
        wait_until("all nodes have the key", LIMIT, || known_by(&servers, number(&guard)) == 5);
        guard.unlock().expect("five of five");
        // The request to a slow node may still be on its way.
        wait_until("all scripts are sent", LIMIT, || requests(&locks) >= 10 * pair);
        assert_eq!(requests(&locks), 10 * pair);
    }
}

/// A holder that was cut off from some nodes leaves different numbers on them. Then a majority must
/// get the new lock's number before the lock is held.
#[test]
fn a_number_that_too_few_nodes_know_is_written_back() {
    let servers = Servers::start(3);
    for [one, two, three] in [[1, 5, 9], [9, 5, 1], [5, 5, 9], [0, 9, 0]] {
        let numbers = [one, two, three].map(|number| AHEAD + 10 * number);
        servers.iter().zip(numbers).for_each(|(server, number)| set_fence(server, number));
        let locks = client(&servers); // which has seen none of them
        let before = requests(&locks);
        let guard = lock(&locks);
        let number = number(&guard);
        let known = known_by(&servers, number);
        assert!(known >= 2, "{known} of 3 know {number}, after {numbers:?}");
        let mut sorted = numbers;
        sorted.sort_unstable();
        // The largest of two answers. Speed decides which two.
        assert!(number == sorted[1] + 1 || number == sorted[2] + 1, "{number} {numbers:?}");
        let told = requests(&locks) - before;
        assert!(told <= 6, "an acquire and a confirmation a node at most: {told}");
        guard.unlock().expect("three of three");
        let next = client(&servers);
        assert!(self::number(&lock(&next)) > number);
        servers.wait_no_keys();
        servers.iter().for_each(|server| drop(server.command(&["DEL", FENCE])));
    }
}

/// With one node down, the other two must agree, but they do not. So there is one more round, which the
/// fences and the count of scripts show. The next lock needs none: its proposal is above the fences.
#[test]
fn the_write_back_is_one_round_and_not_needed_again() {
    let mut servers = Servers::start(3);
    servers[0].kill();
    set_fence(&servers[1], AHEAD);
    set_fence(&servers[2], AHEAD + 1_000);
    let locks = settings(&servers).build().expect("the settings are valid");
    wait_until("two are connected, and the third is known to be down", LIMIT, || {
        drop(locks.try_lock("warm"));
        locks.node_stats().iter().filter(|node| node.connected).count() == 2
    });
    servers.wait_no_keys();

    let before = requests(&locks);
    let guard = lock(&locks);
    assert_eq!(requests(&locks) - before, 4, "acquire and confirm on two nodes");
    assert_eq!(number(&guard), AHEAD + 1_001);
    assert_eq!(known_by(&servers[1..], AHEAD + 1_001), 2);
    guard.unlock().expect("two of three");

    let before = requests(&locks);
    let guard = lock(&locks);
    assert_eq!(requests(&locks) - before, 2, "they agree on what is proposed");
    assert_eq!(number(&guard), AHEAD + 1_002);
    guard.unlock().expect("two of three");
}

/// One of the two granting nodes has lost the lock again before it gets the number, so only
/// the other one confirms. The lock is not held, and given back.
#[test]
fn without_a_majority_that_confirms_there_is_no_lock() {
    /// Somewhat above the proposal from the clock of a fake server, which is the lower one of two.
    const NEAR: u64 = 170_000_000_500_000;
    for told in [&b":0\r\n"[..], b"-ERR no\r\n"] {
        let mut servers = Servers::start(2);
        servers[1].kill();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let odd = fake::redis("7.0.15", move |_| match counted.fetch_add(1, Ordering::SeqCst) {
            0 => format!("*2\r\n:1\r\n:{NEAR}\r\n").into_bytes(),
            1 => told.to_vec(),
            _ => b":1\r\n".to_vec(),
        });
        let nodes = [servers[0].url(), servers[1].url(), odd];
        let builder =
            fresh(nodes).max_ttl(Duration::from_secs(600)).ttl(TTL).node_timeout(NODE_TIMEOUT);
        let locks = builder.build().expect("the settings are valid");
        wait_until("two of three are connected", LIMIT, || {
            locks.node_stats().iter().filter(|node| node.connected).count() == 2
        });
        let error = locks.try_lock(NAME).expect_err("one of three confirms");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        assert!(error.to_string().contains("confirmed its fencing token"), "{error}");
        wait_until("it is given back", LIMIT, || servers[0].keys().is_empty());
        assert_eq!(fence(&servers[0]), Some(NEAR), "that one was told");
        wait_until("the other one, too", LIMIT, || calls.load(Ordering::SeqCst) == 3);

        // The next lock is granted, with a number above all earlier ones.
        servers[1].restart_empty();
        wait_until("the reconnect", LIMIT, || {
            locks.node_stats().iter().filter(|n| n.connected).count() == 3
        });
        let guard = lock(&locks);
        assert!(number(&guard) > NEAR);
    }
}

#[test]
fn the_end_of_the_range_is_an_error_and_no_number_is_given_twice() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    servers.iter().for_each(|server| set_fence(server, LARGEST - 1));
    let guard = lock(&locks);
    assert_eq!(number(&guard), LARGEST);
    assert_eq!(guard.token().map(i64::from), Some(i64::MAX - 4_095));
    guard.unlock().expect("three of three");
    for locks in [&locks, &client(&servers)] {
        let error = locks.lock(NAME).expect_err("there is no number left");
        assert_eq!(error.kind(), ErrorKind::WrongKind, "{error}");
        assert!(error.to_string().contains(FENCE), "{error}");
    }
    servers.wait_no_keys();
    // Other names are not affected. Without fencing, this name is not affected either.
    locks.lock("orders/43").and_then(Guard::unlock).expect("three of three");
    let unfenced = connected(settings(&servers).fencing(false));
    unfenced.lock(NAME).and_then(Guard::unlock).expect("three of three");

    // A number on a single node blocks no lock.
    servers.iter().take(2).for_each(|server| set_fence(server, AHEAD));
    // (One node may still have the previous lock, and each attempt that it refuses takes a number.)
    let locks = client(&servers);
    let guard = lock(&locks);
    let above = number(&guard).checked_sub(AHEAD).expect("it is above what two of three know");
    assert!((1..=requests(&locks)).contains(&above), "{above}");
}

#[test]
fn the_number_is_kept_for_ten_minutes_after_the_lock() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let long = i64::try_from((TTL * 3).as_millis()).expect("small");
    let kept = |least_ms: i64, most_ms: i64| {
        wait_until("all nodes keep it for so long", LIMIT, || {
            servers.iter().all(|server| {
                let left_ms = server.pttl(FENCE) - OUTLIVES_MS;
                assert!(left_ms <= most_ms, "{left_ms}");
                left_ms > least_ms
            })
        });
    };
    let guard = lock(&locks);
    kept(0, long / 3);
    guard.extend(TTL * 3).expect("three of three");
    kept(long * 2 / 3, long);
    guard.unlock().expect("three of three");
    assert!(servers.iter().all(|server| fence(server).is_some()), "it outlives the lock");
}

#[test]
fn without_fencing_there_is_no_fence_and_no_token() {
    let servers = Servers::start(3);
    let locks = connected(settings(&servers).fencing(false));
    let guard = lock(&locks);
    assert_eq!(guard.token(), None);
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers[0].command(&["DEL", KEY]);
    wait_until("it is repaired", LIMIT, || {
        guard.extend(TTL).expect("two of three");
        servers[0].get(KEY).is_some()
    });
    for server in servers.iter() {
        assert_eq!(server.command(&["DBSIZE"]), Value::Int(2), "the lock, the mark, and no other");
    }
}

/// A node that lost all data gets the lock's number with its key. So does a node that a contender had for a
/// moment, so that it knows a larger number.
#[test]
fn a_repair_writes_the_fence_also_where_contenders_were() {
    let mut servers = Servers::start(5);
    let locks = client(&servers);
    let guard = locks.mutex(NAME).ttl(NODE_TIMEOUT * 2).lock().expect("five of five");
    let number = number(&guard);
    wait_until("all nodes have the key", LIMIT, || known_by(&servers, number) == 5);
    servers[0].restart_empty();
    servers[1].command(&["DEL", KEY]);
    set_fence(&servers[1], AHEAD);
    wait_until("both are repaired", LIMIT, || {
        guard.check().expect("three of five are enough");
        servers[..2].iter().all(|server| server.get(KEY) == servers[4].get(KEY))
    });
    assert_eq!(fence(&servers[0]), Some(number));
    assert_eq!(fence(&servers[1]), Some(AHEAD), "it never falls");
    assert!(servers[0].pttl(FENCE) > OUTLIVES_MS);
    guard.unlock().expect("five of five");
    servers.wait_no_keys();
    assert!(self::number(&lock(&locks)) > number);
}
