//! Masters whose wall clocks are set while locks are held on them: forward, which ends the keys of locks
//! too early; back; and all clocks at once, which means that our machine was suspended. Left out without libfaketime.

mod support;

use std::thread;
use std::time::Duration;

use quorlock::{Builder, Guard, LossReason, OptionalGuard as _, Quorlock};
use support::clients::{admitted, bare_majority};
use support::events::{self, told};
use support::{Server, Servers, wait_until};

/// The TTL of the locks, and the longest TTL, so that a vote is missing for as long.
const TTL: Duration = Duration::from_secs(5);
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";

#[track_caller]
fn wait_told(words: &[&str]) {
    wait_until(&format!("an event says {words:?}"), LIMIT, || told(words) > 0);
}

fn builder(urls: &[String]) -> Builder {
    Quorlock::builder()
        .nodes(urls)
        .ttl(TTL)
        .max_ttl(TTL)
        // A busy machine answers late.
        .node_timeout(Duration::from_secs(2))
        .no_quorum_timeout(LIMIT)
}

fn client(urls: &[String]) -> Quorlock {
    admitted(builder(urls))
}

fn mark(server: &Server) -> String {
    server.get("quorlock:{quorlock}:mark").unwrap_or_default()
}

/// The lead of the server's clock according to the mark.
fn ahead_ms(server: &Server) -> i64 {
    let mark = mark(server);
    let word = mark.split(' ').find_map(|word| word.strip_prefix("ahead_ms="));
    word.and_then(|ms| ms.parse().ok()).unwrap_or_default()
}

/// Returns true if the time of a key was over on that server.
fn has_expired(server: &Server) -> bool {
    let info: String =
        redis::from_redis_value(server.command(&["INFO", "stats"])).expect("INFO is text");
    let expired = info.lines().find_map(|line| line.strip_prefix("expired_keys:"));
    expired.is_some_and(|keys| keys != "0")
}

/// No other client gets the lock as long as `guard` is valid.
fn nobody_else_gets_it(guard: &Guard, others: &[Quorlock]) {
    loop {
        for locks in others {
            let other = locks.try_lock(NAME);
            if guard.check().is_err() {
                return;
            }
            assert!(other.is_err(), "two clients hold the lock");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// With one of the other masters down, a lock needs the vote of the master whose clock was set.
fn its_vote_is_back(servers: &mut Servers, locks: &Quorlock) {
    servers[2].kill();
    let guard = locks.lock("another").expect("two of three");
    guard.unlock().expect("two of three");
}

#[test]
fn a_clock_that_is_set_forward_while_locks_are_held() {
    events::remember();
    let Some(mut servers) = Servers::start_with_clocks(3) else { return };
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    let guard = bare_majority(NAME, &first, &mut servers);
    servers[0].set_clock(30);
    assert_eq!(servers[0].get(KEY), None, "the key has ended, and the lock has not");
    let is_held = servers[1].get(KEY).is_some();
    assert!(is_held || guard.check().is_err(), "the lock is held there, until it is over");
    // One client has watched the clock, and the other one begins now.
    let newcomer = builder(&urls).build().expect("the settings are valid");
    nobody_else_gets_it(&guard, &[second.clone(), newcomer.clone()]);
    drop(guard);
    wait_told(&["WARN", "was set forward", "direction=\"forward\"", &urls[0], "by=30 s"]);
    wait_told(&["WARN", "node is in quarantine", &urls[0]]);
    wait_until("the end of its quarantine", LIMIT, || mark(&servers[0]).ends_with(" admitted"));
    assert!((29_000..31_000).contains(&ahead_ms(&servers[0])), "{}", mark(&servers[0]));
    its_vote_is_back(&mut servers, &second);
    its_vote_is_back(&mut servers, &newcomer);
}

/// The attack itself: if no node may be denied its vote, it makes two holders.
#[test]
fn without_the_quarantine_there_are_two_holders() {
    let Some(mut servers) = Servers::start_with_clocks(3) else { return };
    let urls = servers.urls();
    // The lock must outlast the attack on a busy machine as well, and end with the step.
    let ttl = TTL * 4;
    let build = || {
        let builder = builder(&urls).ttl(ttl).max_ttl(ttl).restart_quarantine(false);
        builder.build().expect("valid settings")
    };
    let (first, second) = (build(), build());
    wait_until("all nodes are connected", LIMIT, || {
        second.node_stats().iter().all(|node| node.connected)
    });
    let guard = bare_majority(NAME, &first, &mut servers);
    servers[0].set_clock(30);
    let other = second.try_lock_for(NAME, LIMIT).optional().expect("a majority is healthy");
    assert!(other.is_some() && guard.check().is_ok(), "the attack has failed, and shows nothing");
}

#[test]
fn a_clock_that_is_set_back_while_locks_are_held() {
    events::remember();
    let Some(mut servers) = Servers::start_with_clocks(3) else { return };
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    let guard = bare_majority(NAME, &first, &mut servers);
    servers[0].set_clock(-30);
    let newcomer = builder(&urls).build().expect("the settings are valid");
    wait_told(&["WARN", "was set back", "direction=\"back\"", &urls[0]]);
    wait_until("the mark says so", LIMIT, || ahead_ms(&servers[0]) < -29_000);
    assert!(mark(&servers[0]).ends_with(" admitted"), "no lock ends too early for it");
    nobody_else_gets_it(&guard, &[second.clone(), newcomer.clone()]);
    for server in &servers[1..] {
        assert!((-500..500).contains(&ahead_ms(server)), "nothing was wrong with it");
    }
    its_vote_is_back(&mut servers, &second);
    its_vote_is_back(&mut servers, &newcomer);
}

/// After a suspension, a machine sees all clocks go forward at once. Its locks may belong to others by then, but
/// the nodes have done nothing wrong.
#[test]
fn if_all_clocks_are_set_forward_the_locks_are_lost_and_the_nodes_are_not_accused() {
    events::remember();
    let Some(servers) = Servers::start_with_clocks(3) else { return };
    let urls = servers.urls();
    let locks = client(&urls);
    // One lock is renewed by then, the other one is not.
    let renewed = locks.lock(NAME).expect("all are healthy");
    let mut left = renewed.remaining();
    wait_until("a renewal", LIMIT, || {
        let before = std::mem::replace(&mut left, renewed.remaining());
        left > before
    });
    let fresh = locks.lock("another").expect("all are healthy");
    let marks: Vec<_> = servers.iter().map(mark).collect();
    servers.iter().for_each(|server| server.set_clock(3));
    for guard in [&renewed, &fresh] {
        assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::ClockStoodStill));
        let error = guard.check().expect_err("it is lost");
        assert!(error.to_string().contains("the clocks of most nodes"), "{error}");
    }
    wait_told(&["ERROR", "the clocks of most nodes advanced more than ours", "by=3 s"]);
    locks.lock("a third").expect("nobody is accused").unlock().expect("all are healthy");
    assert_eq!(servers.iter().map(mark).collect::<Vec<_>>(), marks);
}

/// One of two nodes is half of the set, and a majority needs both. Nothing happens except the holder's renewals.
/// `QUORLOCK_ROUNDS` sets the number of rounds.
#[test]
fn one_clock_that_is_set_forward_takes_the_lock_from_no_holder_on_two_masters() {
    let rounds = std::env::var("QUORLOCK_ROUNDS");
    let rounds: u32 = rounds.map_or(2, |rounds| rounds.parse().expect("a number"));
    // Renewed so often that the renewals themselves read the clock, and no earlier probe.
    const SHORT_TTL: Duration = Duration::from_secs(3);
    let mut lost = Vec::new();
    for round in 0..rounds {
        let Some(servers) = Servers::start_with_clocks(2) else { return };
        let urls = servers.urls();
        let locks = admitted(builder(&urls).ttl(SHORT_TTL).node_timeout(SHORT_TTL / 2));
        let guard = locks.lock(NAME).expect("both are healthy");
        servers[0].set_clock(30);
        let has_key = || servers[0].get(KEY).is_some();
        // A renewal may have set it again by now.
        assert!(!has_key() || has_expired(&servers[0]), "the key has not ended too early");
        if round % 2 == 1 {
            // The holder's own request is the first. It may fail, since not every node confirms it in time.
            let _ = guard.extend(SHORT_TTL);
        }
        // Longer than the lock is valid without a renewal.
        if let Ok(reason) = guard.lost().recv_timeout(SHORT_TTL + SHORT_TTL / 4) {
            lost.push(reason);
            continue;
        }
        guard.check().expect("nothing was told");
        wait_until("it is repaired there", LIMIT, has_key);
        guard.extend(SHORT_TTL).expect("both have it again");
        guard.unlock().expect("it was ours until now");
    }
    assert!(lost.is_empty(), "lost in {} of {rounds} rounds: {lost:?}", lost.len());
}
