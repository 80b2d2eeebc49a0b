//! Steps of a master's wall clock that are small for one client and large for another; and masters whose
//! clocks always disagree. Left out without libfaketime.
//!
//! `QUORLOCK_ROUNDS=20` repeats each test that many times.

#![allow(clippy::print_stdout, reason = "whoever asks for many rounds wants to see figures")]

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, FencingToken, Guard, OptionalGuard as _, Quorlock};
use support::clients::{admitted, bare_majority};
use support::events::{self, told};
use support::{Server, Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "orders/42";

fn rounds() -> usize {
    let rounds = std::env::var("QUORLOCK_ROUNDS").ok();
    rounds.map_or(1, |rounds| rounds.parse().expect("QUORLOCK_ROUNDS is a number"))
}

/// Makes the requested number of rounds. None of them may find a violation.
#[track_caller]
fn never<T: std::fmt::Debug>(round: impl Fn() -> Option<Option<T>>) {
    let mut found = Vec::new();
    let rounds = rounds();
    for _ in 0..rounds {
        let Some(one) = round() else { return };
        found.extend(one);
    }
    println!("{} of {rounds} rounds", found.len());
    assert!(found.is_empty(), "in {} of {rounds} rounds: {found:?}", found.len());
}

fn builder(urls: &[String], ttl: Duration, max_ttl: Duration) -> Builder {
    Quorlock::builder()
        .nodes(urls)
        .ttl(ttl)
        .max_ttl(max_ttl)
        // A busy machine answers late.
        .node_timeout((ttl / 2).min(Duration::from_secs(2)))
        .no_quorum_timeout(LIMIT)
}

/// The time for which two guards claimed to be valid at once, if they did.
fn both_valid(guard: &Guard, other: &Quorlock) -> Option<Duration> {
    while guard.check().is_ok() {
        if let Ok(second) = other.try_lock(NAME) {
            let (first, second) = (guard.remaining(), second.remaining());
            return Some(first.min(second)).filter(|both| !both.is_zero());
        }
    }
    None
}

/// The clock of the first of three masters is set forward while a client with a short TTL holds a lock there. Another
/// client, with its own TTL, wants the lock. With `begins_after`, that client's process begins after the step.
fn a_step(ttl: Duration, other_ttl: Duration, step_ms: i64, begins_after: bool) {
    never(|| {
        let mut servers = Servers::start_with_clocks(3)?;
        let urls = servers.urls();
        let max_ttl = ttl.max(other_ttl);
        let first = admitted(builder(&urls, ttl, max_ttl));
        let build = || {
            let locks = builder(&urls, other_ttl, max_ttl).build().expect("valid settings");
            // The client has seen all clocks.
            drop(locks.lock("another").expect("all are healthy"));
            locks
        };
        let watches = (!begins_after).then(build);
        let guard = bare_majority(NAME, &first, &mut servers);
        let step = Duration::from_millis(step_ms.unsigned_abs());
        if step > ttl / 2 {
            // The step ends the key at once.
            wait_until("less is left than the step", LIMIT, || guard.remaining() < step);
        }
        servers[0].set_clock_ms(step_ms);
        let other = watches.unwrap_or_else(build);
        Some(both_valid(&guard, &other))
    });
}

#[test]
fn a_step_that_is_small_for_a_client_with_long_locks_does_not_end_a_short_one() {
    a_step(Duration::from_secs(12), Duration::from_secs(3_600), 9_000, false);
}

#[test]
fn a_step_of_a_tenth_of_a_second_does_not_end_a_lock_of_a_second() {
    a_step(Duration::from_secs(1), Duration::from_secs(30), 140, false);
}

#[test]
fn a_step_below_the_tolerance_is_part_of_every_validity() {
    a_step(Duration::from_secs(1), Duration::from_secs(1), 45, true);
}

/// The first master's clock gains by steps that are below the tolerance each. After each step a process
/// begins, takes another lock, and ends as soon as the mark has the new lead, if it ever does.
#[test]
fn small_steps_add_up_behind_processes_that_come_and_go() {
    const STEP_MS: i64 = 65;
    never(|| {
        let mut servers = Servers::start_with_clocks(3)?;
        let urls = servers.urls();
        let ttl = Duration::from_secs(10);
        let build = || builder(&urls, ttl, ttl).build().expect("valid settings");
        let first = admitted(builder(&urls, ttl, ttl));
        let other = build();
        drop(other.lock("another").expect("all are healthy"));
        let guard = bare_majority(NAME, &first, &mut servers);
        for step in 1..=5 {
            servers[0].set_clock_ms(step * STEP_MS);
            let newcomer = build();
            drop(newcomer.lock("another").expect("a majority is healthy"));
            let until = Instant::now() + Duration::from_millis(1_300);
            while Instant::now() < until && ahead_ms(&servers[0]) < step * STEP_MS - 20 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        Some(both_valid(&guard, &other))
    });
}

/// The lead of the master's clock in milliseconds, according to its mark.
fn ahead_ms(server: &Server) -> i64 {
    let mark = server.get("quorlock:{quorlock}:mark").unwrap_or_default();
    let word = mark.split(' ').find_map(|word| word.strip_prefix("ahead_ms="));
    word.map_or(0, |ms| ms.parse().expect("a number"))
}

/// Two clients take locks all the time. Meanwhile the first master's clock falls behind little by little. While a
/// lock is held there, the clock is corrected in one step. With `begins_after`, the rival client begins after that.
fn fallen_behind(ttl: Duration, back_ms: &[i64], every: Duration, begins_after: bool) {
    // The mark has the lag when the lock is taken, unless the steps are faster than the probes.
    let waits = every >= Duration::from_millis(200);
    never(|| {
        let mut servers = Servers::start_with_clocks(3)?;
        let urls = servers.urls();
        let max_ttl = ttl.max(Duration::from_secs(5));
        let build = || builder(&urls, ttl, max_ttl).build().expect("valid settings");
        let first = admitted(builder(&urls, ttl, max_ttl));
        let other = build();
        drop(other.lock("another").expect("all are healthy"));
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for (name, locks) in [("busy-1", &first), ("busy-2", &other)] {
                let stop = &stop;
                let until = Instant::now() + LIMIT;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                        drop(locks.try_lock(name));
                        thread::sleep(Duration::from_millis(20));
                    }
                });
            }
            for ahead_ms in back_ms {
                servers[0].set_clock_ms(*ahead_ms);
                thread::sleep(every);
            }
            let behind = back_ms.last().copied().unwrap_or_default();
            let noted = Instant::now() + Duration::from_secs(5);
            while waits && ahead_ms(&servers[0]) > behind + 15 && Instant::now() < noted {
                thread::sleep(Duration::from_millis(2));
            }
            let guard = bare_majority(NAME, &first, &mut servers);
            let step = Duration::from_millis(behind.unsigned_abs());
            wait_until("less is left than the step", LIMIT, || guard.remaining() < step);
            servers[0].set_clock_ms(0);
            let begun = begins_after.then(build);
            let both = both_valid(&guard, begun.as_ref().unwrap_or(&other));
            stop.store(true, Ordering::Relaxed);
            Some(both)
        })
    });
}

#[test]
fn a_clock_that_fell_behind_under_load_and_is_set_right_is_seen_by_all_who_run() {
    let back_ms: Vec<_> = (1..=30).map(|step| -50 * step).collect();
    fallen_behind(Duration::from_secs(4), &back_ms, Duration::from_millis(200), false);
}

#[test]
fn a_clock_that_fell_behind_under_load_and_is_set_right_is_seen_by_who_begins_then() {
    let back_ms: Vec<_> = (1..=30).map(|step| -50 * step).collect();
    fallen_behind(Duration::from_secs(4), &back_ms, Duration::from_millis(200), true);
}

#[test]
fn two_small_steps_back_and_one_forward_end_no_short_lock() {
    fallen_behind(Duration::from_secs(1), &[-90, -180], Duration::from_millis(400), false);
}

/// Mostly, all steps come between two probes, so no mark records them.
#[test]
fn small_steps_back_and_one_forward_are_seen_between_two_probes() {
    fallen_behind(Duration::from_millis(500), &[-95, -190], Duration::from_millis(30), false);
}

/// A master's clock gains more than the tolerance, but slower than the drift limit, while a client takes locks all
/// the time. A process that begins then finds a mark with that lead.
#[test]
fn a_clock_that_is_slewed_slowly_under_load_is_not_accused() {
    events::remember();
    never(|| {
        let servers = Servers::start_with_clocks(3)?;
        let urls = servers.urls();
        let ttl = Duration::from_secs(5);
        let first = admitted(builder(&urls, ttl, ttl));
        let accused = || told(&["was set forward", &urls[2]]);
        let before = accused();
        for ahead_ms in 1..=120 {
            // A gain of half a per cent.
            servers[2].set_clock_ms(ahead_ms);
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {
                drop(first.try_lock("busy"));
                thread::sleep(Duration::from_millis(20));
            }
        }
        let newcomer = builder(&urls, ttl, ttl).build().expect("valid settings");
        wait_until("all three to grant", LIMIT, || {
            newcomer.try_lock(NAME).is_ok() || accused() > before
        });
        Some((accused() > before).then_some(ahead_ms(&servers[2])))
    });
}

/// Two of five masters are a minute ahead. The first holder has the lock on those and a third one. Then
/// only the first master restarts empty, and the next holder has the lock on that one and the other two.
#[test]
fn tokens_rise_although_the_masters_clocks_disagree_and_one_of_them_forgets() {
    never(|| {
        let mut servers = Servers::start_with_clocks(5)?;
        (0..2).for_each(|node| servers[node].set_clock(60));
        let urls = servers.urls();
        let ttl = Duration::from_secs(2);
        let build = || builder(&urls, ttl, ttl).build().expect("valid settings");
        drop(admitted(builder(&urls, ttl, ttl)));
        let first = token_without(&mut servers, &[3, 4], build);
        servers[0].restart_empty();
        let second = token_without(&mut servers, &[1, 2], build);
        Some((second <= first).then_some((first, second)))
    });
}

/// The token of a new process that reaches all masters except those in `away`.
fn token_without(
    servers: &mut [Server],
    away: &[usize],
    build: impl Fn() -> Quorlock,
) -> Option<FencingToken> {
    away.iter().for_each(|node| servers[*node].pause());
    let locks = build();
    let guard = locks.lock(NAME).expect("three of five are healthy");
    let token = guard.token();
    guard.unlock().expect("three of five are healthy");
    drop(locks);
    away.iter().for_each(|node| servers[*node].resume());
    token
}

/// The clock of a master that is slow to answer is not known exactly enough. The reason says what to do.
#[test]
fn a_round_trip_beyond_the_tolerance_is_told_with_the_setting() {
    let servers = Servers::start(1);
    let proxy = support::proxy::Proxy::start(servers[0].port());
    let locks = Quorlock::builder()
        .nodes([proxy.url()])
        .ttl(Duration::from_secs(5))
        .max_ttl(Duration::from_secs(5))
        .clock_tolerance(Duration::from_millis(50))
        .node_timeout(Duration::from_secs(2))
        .no_quorum_timeout(Duration::from_secs(1))
        .build()
        .expect("valid settings");
    wait_until("the master is admitted", LIMIT, || {
        locks.admit().is_ok() && locks.try_lock("any").is_ok()
    });
    proxy.delay(Duration::from_millis(80));
    let began = Instant::now();
    let error = loop {
        match locks.try_lock(NAME) {
            Err(error) => break error,
            Ok(_) => assert!(began.elapsed() < LIMIT, "nobody minds"),
        }
    };
    assert_eq!(error.kind(), quorlock::ErrorKind::NoQuorum, "{error}");
    assert!(error.to_string().contains("clock_tolerance of 50 ms"), "{error}");
    proxy.delay(Duration::ZERO);
    wait_until("its vote to come back", LIMIT, || {
        thread::yield_now();
        locks.try_lock(NAME).is_ok()
    });
}

/// The time for which the machine is kept busy. Set `QUORLOCK_LOAD_SECONDS=60` by hand for more.
fn load_lasts() -> Duration {
    let seconds = std::env::var("QUORLOCK_LOAD_SECONDS").ok();
    Duration::from_secs(seconds.map_or(3, |seconds| seconds.parse().expect("a number")))
}

/// All cores are busy, each round trip takes some 30 ms, and processes come and go. No client takes that for
/// a clock that was set.
#[test]
fn a_busy_machine_on_a_slow_network_costs_no_master_its_vote() {
    events::remember();
    let servers = Servers::start(3);
    let proxies: Vec<_> =
        servers.iter().map(|server| support::proxy::Proxy::start(server.port())).collect();
    let urls: Vec<_> = proxies.iter().map(support::proxy::Proxy::url).collect();
    let ttl = Duration::from_secs(10);
    let build = || builder(&urls, ttl, ttl).build().expect("valid settings");
    let locks = admitted(builder(&urls, ttl, ttl));
    proxies.iter().for_each(|proxy| proxy.delay(Duration::from_millis(27)));
    let accused = |url: &String| {
        ["was set", "in quarantine"].map(|what| told(&[what, url])).into_iter().sum::<usize>()
    };
    let before: Vec<_> = urls.iter().map(accused).collect();
    let until = Instant::now() + load_lasts();
    let goes_on = || Instant::now() < until;
    let (grants, doubts) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let take = |locks: &Quorlock, name: String| match locks.try_lock(name).optional() {
        Ok(guard) => grants.fetch_add(usize::from(guard.is_some()), Ordering::Relaxed),
        Err(error) => {
            println!("{error}");
            doubts.fetch_add(1, Ordering::Relaxed)
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while goes_on() {
                    std::hint::spin_loop()
                }
            });
        }
        for caller in 0..4 {
            let (locks, take) = (locks.clone(), &take);
            scope.spawn(move || {
                while goes_on() {
                    take(&locks, format!("caller-{caller}"));
                }
            });
        }
        scope.spawn(|| {
            while goes_on() {
                let newcomer = build();
                let guard = newcomer.lock("newcomer").expect("all are healthy");
                drop(guard);
            }
        });
    });
    let (grants, doubts) = (grants.into_inner(), doubts.into_inner());
    println!("{grants} grants, {doubts} attempts without a quorum");
    assert_eq!(urls.iter().map(accused).collect::<Vec<_>>(), before);
    assert!(grants > 10 * doubts, "{doubts} attempts without a quorum beside {grants} grants");
}
