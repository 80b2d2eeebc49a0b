//! Semaphores on real servers: the number of holders is limited, in spite of all faults of the masters.

mod support;

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{
    Error, ErrorKind, Guard, LockState, LossReason, OptionalGuard as _, Quorlock, Semaphore,
};
use redis::Value;
use support::clients::{admitted, connected, fresh, patient, wait_renewed};
use support::events::{self, told};
use support::lua::with_includes;
use support::{Server, Servers, wait_until};

const NAME: &str = "partner-api";
const KEY: &str = "quorlock:partner-api";
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for a busy machine to keep every hold of a test alive.
const TTL: Duration = Duration::from_secs(20);

#[track_caller]
fn taken(semaphore: &Semaphore) -> Guard {
    semaphore.try_acquire().expect("a permit is free")
}

/// The first and the last time at which a guard was proven valid.
type Proven = (Instant, Instant);

/// The maximum of guards that were valid at one time.
fn most_at_once(proven: &[Proven]) -> usize {
    let at_the_begin_of =
        |one: &Proven| proven.iter().filter(|other| other.0 <= one.0 && one.0 <= other.1).count();
    proven.iter().map(at_the_begin_of).max().unwrap_or(0)
}

/// A guard that is valid now was valid at each time since its grant. So the time is read first, and then the guard
/// is checked. A lost guard proves nothing for later times.
fn proven_by(guard: &Guard) -> Option<Proven> {
    let mut proven = None;
    for _ in 0..5 {
        let now = Instant::now();
        if guard.check().is_err() {
            break;
        }
        proven = Some(proven.map_or((now, now), |(first, _)| (first, now)));
        thread::sleep(Duration::from_millis(2));
    }
    proven
}

#[test]
fn two_permits_never_have_three_holders_while_masters_fail_one_at_a_time() {
    const CLIENTS: usize = 6;
    let longest = Duration::from_secs(3);
    let mut servers = Servers::start(3);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|i| {
            let ttl = longest - Duration::from_millis(400) * i as u32;
            let builder = Quorlock::builder().nodes(servers.urls()).max_ttl(longest).ttl(ttl);
            admitted(builder.node_timeout(Duration::from_millis(300)))
        })
        .collect();
    let served: Vec<_> = (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect();
    let (history, over) = (Mutex::new(Vec::new()), AtomicBool::new(false));
    thread::scope(|scope| {
        for (locks, served) in clients.iter().zip(&served) {
            let (history, over) = (&history, &over);
            scope.spawn(move || {
                let semaphore = locks.semaphore(NAME, 2);
                while !over.load(Ordering::Relaxed) {
                    // An error is no permit either: a majority may be missing for a while.
                    let Ok(guard) = semaphore.try_acquire_for(Duration::from_secs(1)) else {
                        continue;
                    };
                    if let Some(proven) = proven_by(&guard) {
                        history.lock().push(proven);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let all_get_in_again = |when: &str| {
            let before: Vec<_> = served.iter().map(|count| count.load(Ordering::Relaxed)).collect();
            let more = |(count, before): (&AtomicUsize, &usize)| {
                count.load(Ordering::Relaxed) >= before + 3
            };
            holds_or_ends(&over, when, || served.iter().zip(&before).all(more));
        };
        all_get_in_again("all masters are healthy");
        for victim in [0, 1, 2] {
            servers[victim].kill();
            all_get_in_again("a master is down");
            servers[victim].restart_empty();
            all_get_in_again("a master has forgotten its holds");
            holds_or_ends(&over, "the quarantine is over", || is_admitted(&servers[victim]));
            servers[victim].pause();
            all_get_in_again("a master hangs");
            servers[victim].resume();
            all_get_in_again("a master goes on");
        }
        over.store(true, Ordering::Relaxed);
    });
    let history = history.into_inner();
    assert_eq!(most_at_once(&history), 2, "of {} holds", history.len());
}

/// Waits for `condition`. Ends the threads of the test even if the wait fails.
#[track_caller]
fn holds_or_ends(over: &AtomicBool, when: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > LIMIT {
            over.store(true, Ordering::Relaxed);
            panic!("in vain for {LIMIT:?}: {when}");
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn is_admitted(server: &Server) -> bool {
    let script = "local keys = redis.call('KEYS', '*{quorlock}:mark')
        return keys[1] and redis.call('GET', keys[1])";
    match server.command(&["EVAL", script, "0"]) {
        Value::BulkString(mark) => !String::from_utf8_lossy(&mark).contains(" quarantined "),
        _ => false,
    }
}

/// Fills all of 100 slots but `free` on each server.
fn fill_but(servers: &Servers, free: u32) {
    for server in servers.iter() {
        let slots: Vec<_> =
            (0..100).filter(|slot| *slot != free).map(|slot: u32| slot.to_string()).collect();
        let hold = format!("99999999999999 {}", slots.join(" "));
        server.command(&["DEL", KEY]);
        server.command(&["HSET", KEY, "permits", "100", "somebody#1", &hold]);
        server.command(&["PEXPIRE", KEY, "600000"]);
    }
}

/// The number of acquire calls since the server's log was emptied.
fn acquire_calls(server: &Server) -> usize {
    // A server that does not know the script gets its source. The log keeps at least the first 100 bytes of a word.
    let source = with_includes(include_str!("../lua/semaphore/acquire.lua"));
    let hash = redis::Script::new(&source).get_hash().to_owned();
    let Value::Array(entries) = server.command(&["SLOWLOG", "GET", "-1"]) else { panic!("a list") };
    let is_acquire = |entry: &&Value| {
        let Value::Array(entry) = entry else { return false };
        let Value::Array(words) = &entry[3] else { return false };
        let Some(Value::BulkString(script)) = words.get(1) else { return false };
        *script == hash.as_bytes() || script.starts_with(&source.as_bytes()[..100])
    };
    entries.iter().filter(is_acquire).count()
}

#[test]
fn the_last_free_one_of_a_hundred_permits_is_found_in_two_rounds() {
    let servers = Servers::start(3);
    let locks = patient(&servers, TTL);
    let semaphore = locks.semaphore(NAME, 100);
    for server in servers.iter() {
        server.command(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        server.command(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    }
    for free in [0, 1, 3, 4, 49, 77, 98, 99] {
        fill_but(&servers, free);
        for server in servers.iter() {
            server.command(&["SLOWLOG", "RESET"]);
        }
        let guard = taken(&semaphore);
        wait_until("all nodes have it", LIMIT, || {
            servers
                .iter()
                .all(|server| server.command(&["HEXISTS", KEY, guard.owner()]) == Value::Int(1))
        });
        for server in servers.iter() {
            let calls = acquire_calls(server);
            assert!((1..=2).contains(&calls), "slot {free}: asked {calls} times");
            let hold = server.command(&["HGET", KEY, guard.owner()]);
            let hold: String = redis::from_redis_value(hold).expect("text");
            assert!(hold.ends_with(&format!(" {free}")), "{hold}");
        }
        assert!(
            semaphore.try_acquire().optional().expect("healthy nodes").is_none(),
            "none is left"
        );
        guard.unlock().expect("it was ours");
    }
}

#[test]
fn of_two_clients_that_race_for_the_last_permit_one_gets_it() {
    let servers = Servers::start(3);
    let clients = [(); 2].map(|()| patient(&servers, TTL));
    fill_but(&servers, 42);
    for _ in 0..20 {
        let together = Barrier::new(2);
        let got: usize = thread::scope(|scope| {
            let race = |locks: &Quorlock| {
                together.wait();
                let guard =
                    locks.semaphore(NAME, 100).try_acquire().optional().expect("healthy nodes");
                together.wait();
                usize::from(guard.is_some())
            };
            let racing = clients.each_ref().map(|locks| scope.spawn(move || race(locks)));
            racing.into_iter().map(|one| one.join().expect("no panic")).sum()
        });
        assert_eq!(got, 1);
        wait_until("it is given back", LIMIT, || {
            servers.iter().all(|server| server.command(&["HLEN", KEY]) == Value::Int(2))
        });
    }
}

#[test]
fn several_permits_are_taken_all_or_none() {
    let servers = Servers::start(3);
    let (one, other) = (patient(&servers, TTL), patient(&servers, TTL));
    let (one, other) = (one.semaphore(NAME, 4), other.semaphore(NAME, 4));
    let three = one.many(3).acquire().expect("four are free");
    assert!(other.many(2).try_acquire().optional().expect("healthy nodes").is_none());
    let last = taken(&other);
    assert!(one.try_acquire().optional().expect("healthy nodes").is_none());
    three.unlock().expect("it was ours");
    wait_until("all nodes have three free ones", LIMIT, || {
        servers.iter().all(|server| server.command(&["HLEN", KEY]) == Value::Int(2))
    });
    let again = other.many(3).try_acquire().expect("three are free");
    last.unlock().expect("it was ours");
    again.unlock().expect("it was ours");
    let all = one.many(4).try_acquire_for(LIMIT).expect("all are free");
    drop(all);
    servers.wait_no_keys();
}

/// The call asks no node: none exists.
#[test]
fn numbers_that_no_semaphore_can_have_are_told_at_once() {
    let locks = fresh(["redis://127.0.0.1:1"]).build().expect("valid settings");
    let soon = || Instant::now() + LIMIT;
    let (_sender, never) = quorlock::crossbeam_channel::bounded(0);
    let config = |error: Option<Error>, words: &[&str]| {
        let error = error.expect("it is an error");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
    };
    for (permits, count, words) in [
        (3, 4, &["4 permits", "has 3"][..]),
        (3, 0, &["0 permits"]),
        (0, 1, &["needs a permit", "0 were given"]),
        (1_001, 1, &["1001 permits", "1000"]),
    ] {
        let semaphore = locks.semaphore(NAME, permits);
        config(semaphore.many(count).acquire().err(), words);
        config(semaphore.many(count).try_acquire().err(), words);
        config(semaphore.many(count).try_acquire_for(LIMIT).err(), words);
        config(semaphore.many(count).try_acquire_until(soon()).err(), words);
        config(semaphore.many(count).acquire_within(&never).err(), words);
        if count == 1 {
            config(semaphore.acquire().err(), words);
            config(semaphore.try_acquire().err(), words);
            config(semaphore.try_acquire_for(LIMIT).err(), words);
            config(semaphore.try_acquire_until(soon()).err(), words);
            config(semaphore.acquire_within(&never).err(), words);
        }
    }
}

/// By itself the waiter checks every 45 s or more, so only a message explains a permit within `LIMIT`.
#[test]
fn a_waiter_is_woken_by_the_release_of_any_permit() {
    const SOON: Duration = Duration::from_secs(35);
    let servers = Servers::start(3);
    let long = Duration::from_secs(600);
    let settings = || fresh(servers.urls()).node_timeout(Duration::from_secs(5)).max_ttl(long);
    let holder = connected(settings().ttl(long));
    let backoff = (Duration::from_millis(5), Duration::from_secs(60));
    for released in 0..3 {
        let name = format!("partner/{released}");
        // Each round has its own waiter, so that it listens to one lock.
        let waiter = connected(settings().ttl(long).backoff(backoff.0, backoff.1));
        let semaphore = holder.semaphore(&name, 3);
        let mut guards: Vec<_> = (0..3).map(|_| taken(&semaphore)).collect();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.semaphore(&name, 3).try_acquire_for(SOON));
            wait_until("it listens to all nodes", SOON, || {
                waiter.node_stats().iter().all(|node| node.listened_to == 1)
            });
            guards.remove(released).unlock().expect("it was ours");
            drop(waiting.join().expect("no panic").expect("it is told of the release"));
        });
    }
}

#[test]
fn callers_with_another_number_of_permits_wait_until_the_holds_have_ended() {
    let servers = Servers::start(3);
    let (one, other) = (patient(&servers, TTL), patient(&servers, TTL));
    let (five, seven) = (one.semaphore(NAME, 5), other.semaphore(NAME, 7));
    let first = taken(&five);
    let second = taken(&five);
    // Time for the answers on a busy machine.
    let moment = Duration::from_millis(1_500);
    for refused in [seven.try_acquire(), seven.many(2).try_acquire(), seven.try_acquire_for(moment)]
    {
        assert!(refused.is_err_and(|error| error.is_held()), "others hold two of five");
    }
    first.unlock().expect("it was ours");
    assert!(
        seven.try_acquire().optional().expect("it passes").is_none(),
        "others hold one of five"
    );
    let got = thread::scope(|scope| {
        let waiting = scope.spawn(|| seven.acquire());
        wait_until("the caller waits", LIMIT, || {
            other.node_stats().iter().all(|node| node.listened_to == 1)
        });
        second.unlock().expect("no number is lost by that");
        waiting.join().expect("no panic").expect("healthy nodes")
    });
    assert!(
        five.try_acquire().optional().expect("it passes").is_none(),
        "others hold one of seven"
    );
    drop(got);
}

#[test]
fn another_number_of_permits_that_lasts_is_told_once_with_both_numbers() {
    events::remember();
    let servers = Servers::start(3);
    let (one, other) = (patient(&servers, TTL), patient(&servers, TTL));
    let held = taken(&one.semaphore("told", 5));
    let is_told = || {
        let refused = other.semaphore("told", 7).try_acquire();
        assert!(refused.is_err_and(|error| error.is_held()), "others hold one of five");
        told(&["WARN", "lock=told", "permits_here=7", "permits_there=5"])
    };
    assert_eq!(is_told(), 0, "it may be over in a moment");
    wait_until("it is told", LIMIT, || is_told() > 0);
    assert_eq!(is_told(), 1, "{:?}", events::all());
    drop(held);
}

#[test]
fn permits_are_renewed_named_and_taken_by_force() {
    let servers = Servers::start(3);
    let settings = || fresh(servers.urls()).ttl(LIMIT).max_ttl(LIMIT);
    let [one, other, operator] =
        [(); 3].map(|()| connected(settings().node_timeout(Duration::from_secs(2))));
    let of = |locks: &Quorlock| locks.semaphore(NAME, 2).ttl(Duration::from_secs(6));
    let begun = Instant::now();
    let guards = [taken(&of(&one)), taken(&of(&other))];
    assert!(guards.iter().all(|guard| guard.token().is_none()));
    wait_renewed(&guards, 3);
    wait_until("their TTL is over", LIMIT, || begun.elapsed() > Duration::from_secs(7));
    guards.iter().for_each(|guard| guard.check().expect("it was renewed"));

    let semaphore = operator.semaphore(NAME, 2);
    let owners = || -> BTreeSet<Vec<u8>> {
        let report = semaphore.holder().expect("healthy nodes");
        assert_eq!(report.state(), LockState::Held);
        report.holders().map(|holder| holder.owner.as_bytes().to_vec()).collect()
    };
    let both = guards.iter().map(|guard| guard.owner().as_bytes().to_vec()).collect();
    assert_eq!(owners(), both);
    assert!(semaphore.try_acquire().optional().expect("healthy nodes").is_none());

    assert!(semaphore.force_unlock().expect("healthy nodes"));
    let all = semaphore.many(2).try_acquire_for(LIMIT).optional().expect("healthy nodes");
    let all = all.expect("both are free");
    for guard in guards {
        assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
        assert_eq!(guard.check().expect_err("lost").kind(), ErrorKind::Lost);
        assert_eq!(guard.unlock().expect_err("lost").kind(), ErrorKind::Lost);
    }
    all.check().expect("nobody has given back anything of it");
    drop(all);
    assert_eq!(semaphore.holder().expect("healthy nodes").state(), LockState::Free);
    assert!(!semaphore.force_unlock().expect("healthy nodes"), "nobody has one");
}

#[test]
fn permits_that_are_kept_limit_how_many_are_taken_in_a_time() {
    const PERMITS: usize = 3;
    let min_hold = Duration::from_millis(1_500);
    let servers = Servers::start(3);
    let clients = [patient(&servers, TTL), patient(&servers, TTL)];
    let mut calls = Vec::new();
    for i in 0..3 * PERMITS {
        let semaphore = clients[i % 2].semaphore(NAME, PERMITS as u32).min_hold(min_hold);
        let before = Instant::now();
        let guard = semaphore.acquire().expect("healthy nodes");
        calls.push((before, Instant::now()));
        guard.unlock().expect("it was ours");
    }
    for (i, (_, granted)) in calls.iter().enumerate().skip(PERMITS) {
        // Each earlier call keeps its permit for `min_hold`, so fewer than `PERMITS` of them began within that time.
        let within = calls[..i].iter().filter(|(begun, _)| *granted - *begun < min_hold).count();
        assert!(within < PERMITS, "{within} and one more in {min_hold:?}");
    }
}
