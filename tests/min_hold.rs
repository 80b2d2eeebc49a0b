//! Locks that the nodes keep for a while after their holders have given them back.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, Mutex, OptionalGuard as _, Quorlock};
use support::clients::{connected, fresh};
use support::{Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(20);
/// Nodes keep a lock until a time of their own clocks. A client knows that clock to within a round trip, so nodes may
/// keep the lock for that much longer.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Long enough for a busy machine to check the kept lock.
const MIN_HOLD: Duration = Duration::from_secs(4);

const NAME: &str = "nightly-report";
const KEY: &str = "quorlock:nightly-report";

fn settings(servers: &Servers) -> Builder {
    fresh(servers.urls()).ttl(TTL).max_ttl(TTL).node_timeout(NODE_TIMEOUT)
}

fn client(servers: &Servers) -> Quorlock {
    connected(settings(servers))
}

fn job(locks: &Quorlock) -> Mutex {
    locks.mutex(NAME).min_hold(MIN_HOLD)
}

/// Does the job, which takes no time. Returns its beginning and its owner.
fn done(job: &Mutex) -> (Instant, String) {
    let begun = Instant::now();
    let guard = job.try_lock().expect("nobody has done it");
    let owner = guard.owner().to_owned();
    guard.unlock().expect("it was ours");
    (begun, owner)
}

/// Waits until all nodes keep that owner's lock.
fn wait_kept(servers: &Servers, owner: &str) {
    wait_until("all nodes keep it", LIMIT, || {
        servers.iter().all(|server| server.get(KEY) == Some(format!("{owner}#kept")))
    });
}

#[test]
fn a_job_that_was_done_is_not_done_again_for_a_while() {
    let servers = Servers::start(3);
    let (one, other) = (client(&servers), client(&servers));
    let (begun, owner) = done(&job(&one));
    wait_kept(&servers, &owner);
    let left = servers.iter().map(|server| server.pttl(KEY)).max().expect("three nodes");
    let left = Duration::from_millis(left.try_into().unwrap_or(0));
    assert!(
        left <= MIN_HOLD + NODE_TIMEOUT,
        "it ends with the shortest hold, and not with the TTL: {left:?}"
    );
    for locks in [&one, &other] {
        let locked = job(locks).try_lock().optional().expect("a majority");
        assert!(locked.is_none(), "it was granted {:?} after it had been", begun.elapsed());
    }
    let again = job(&other).lock().expect("a majority");
    assert!(begun.elapsed() >= MIN_HOLD, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < TTL, "a waiter hears when it ends");
    drop(again);
}

/// Another host may do the job then.
#[test]
fn a_job_that_has_failed_gives_the_lock_back_without_the_minimum() {
    let servers = Servers::start(3);
    let job = job(&client(&servers));
    let guard = job.lock().expect("three of three");
    guard.waive_min_hold();
    guard.unlock().expect("it was ours");
    servers.wait_no_keys();
    done(&job);
}

/// Each node that keeps the lock is one more that would have to forget it.
#[test]
fn a_node_that_has_lost_the_key_keeps_the_lock_as_well() {
    let servers = Servers::start(3);
    let job = job(&client(&servers));
    let guard = job.lock().expect("three of three");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(KEY).is_some())
    });
    servers[0].command(&["DEL", KEY]);
    let owner = guard.owner().to_owned();
    drop(guard);
    wait_kept(&servers, &owner);
}

#[test]
fn a_lock_that_was_held_for_long_enough_is_free_at_once() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let begun = Instant::now();
    let guard = locks.mutex(NAME).min_hold(MIN_HOLD / 4).lock().expect("three of three");
    wait_until("the shortest hold is over", LIMIT, || begun.elapsed() > MIN_HOLD / 2);
    guard.unlock().expect("three of three");
    servers.wait_no_keys();
}

/// Another holder may have used the lock meanwhile.
#[test]
fn a_lock_that_was_lost_is_not_kept() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let job = locks.mutex(NAME).min_hold(LIMIT * 2).max_hold(Duration::from_secs(5));
    let guard = job.lock().expect("three of three");
    wait_until("it is lost", LIMIT, || guard.check().is_err());
    drop(guard);
    servers.wait_no_keys();
}

#[test]
fn no_thread_of_the_process_is_handed_the_lock_before() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let begun = Instant::now();
    let guard = job(&locks).lock().expect("three of three");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock(NAME).map(|guard| guard.token()));
        // The thread's place in the queue cannot be observed. A handed lease would give it the lock long before the end.
        wait_until("the other thread waits", LIMIT, || begun.elapsed() > MIN_HOLD / 2);
        let token = guard.token();
        drop(guard);
        let next = waiting.join().expect("no panic").expect("three of three");
        assert!(begun.elapsed() >= MIN_HOLD, "{:?}", begun.elapsed());
        assert!(next > token);
    });
}

#[test]
fn it_is_set_for_the_client_or_for_one_lock_and_not_for_longer_than_a_day() {
    let servers = Servers::start(1);
    let locks = connected(settings(&servers).min_hold(MIN_HOLD));
    let kept = || servers[0].get(KEY).is_some();
    locks.mutex(NAME).min_hold(Duration::ZERO).lock().expect("one node").unlock().expect("ours");
    assert!(!kept());
    locks.lock(NAME).expect("one node").unlock().expect("ours");
    assert!(kept());
    let day = Duration::from_secs(24 * 60 * 60);
    let too_long = day + Duration::from_millis(1);
    let error = job(&locks).min_hold(too_long).try_lock().expect_err("more than a day");
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = settings(&servers).min_hold(too_long).build().expect_err("more than a day");
    assert!(error.to_string().contains("min_hold is"), "{error}");
    // A day is longer than `max_ttl`, and longer than any lock lives without its holder.
    let (_, owner) = done(&locks.mutex("daily").min_hold(day));
    assert_eq!(servers[0].get("quorlock:daily"), Some(format!("{owner}#kept")));
    assert!(servers[0].pttl("quorlock:daily") > 23 * 60 * 60 * 1_000);
}

/// Two clients share a limit of three calls in two seconds.
#[test]
fn a_limit_allows_so_many_calls_in_any_window() {
    const WINDOW: Duration = Duration::from_secs(2);
    /// The masters' clocks are read in whole milliseconds.
    const ROUNDING: Duration = Duration::from_millis(5);
    let servers = Servers::start(3);
    let clients = [client(&servers), client(&servers)];
    let limits = clients.each_ref().map(|locks| locks.rate_limit(NAME, 3, WINDOW));
    let calls: Vec<_> = (0..9)
        .map(|i| {
            let begun = Instant::now();
            limits[i % 2].acquire().expect("a majority");
            (begun, Instant::now())
        })
        .collect();
    for (earlier, later) in calls.iter().zip(&calls[3..]) {
        let apart = later.1.duration_since(earlier.0);
        assert!(apart + ROUNDING >= WINDOW, "four calls within {apart:?}");
    }
    assert_eq!(limits[0].to_string(), "rate limit \"nightly-report\"");
}

#[test]
fn a_call_beyond_a_limit_is_told_when_it_may_be_made() {
    let servers = Servers::start(3);
    let locks = client(&servers);
    let limit = locks.rate_limit(NAME, 2, LIMIT);
    limit.many(2).try_acquire().expect("two are allowed");
    let error = limit.try_acquire().expect_err("no third one");
    let ErrorKind::Held { remaining_ttl: Some(left) } = error.kind() else { panic!("{error}") };
    assert!(
        left > TTL && left <= LIMIT + NODE_TIMEOUT,
        "it is kept for the window, and not for the TTL: {left:?}"
    );
    assert!(limit.try_acquire_for(Duration::from_millis(50)).is_err_and(|error| error.is_held()));
    for wrong in [
        locks.rate_limit("none", 0, LIMIT),
        locks.rate_limit("many", 1_001, LIMIT),
        locks.rate_limit("at once", 2, LIMIT).many(3),
        locks.rate_limit("no time", 2, Duration::ZERO),
        locks.rate_limit("days", 2, Duration::from_secs(86_401)),
    ] {
        let error = wrong.try_acquire().expect_err("it cannot be used");
        assert_eq!(error.kind(), ErrorKind::Config, "{wrong}: {error}");
    }
}

#[test]
fn a_call_counts_for_the_window_of_the_client_that_made_it() {
    const SHORT: Duration = Duration::from_secs(2);

    let servers = Servers::start(3);
    let (locks, other) = (client(&servers), client(&servers));
    let (short, long) = (locks.rate_limit(NAME, 2, SHORT), other.rate_limit(NAME, 2, LIMIT));
    let begun = Instant::now();
    short.try_acquire().expect("two are allowed");
    long.try_acquire().expect("two are allowed");
    // The short window ends soon, for both limits.
    long.try_acquire_for(LIMIT / 2).expect("one is allowed once the short window is over");
    assert!(begun.elapsed() >= SHORT - Duration::from_millis(5), "{:?}", begun.elapsed());
    // The long window does not.
    wait_until("the end of the short window on all nodes", LIMIT, || {
        let error = short.try_acquire().expect_err("no third one");
        let ErrorKind::Held { remaining_ttl } = error.kind() else { panic!("{error}") };
        // A node may keep the first call for some milliseconds more, as exactly as clocks are known.
        remaining_ttl.is_some_and(|left| left > SHORT)
    });
}
