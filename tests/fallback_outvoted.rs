//! A lock of the fallback, and a majority that comes back while the first node is up but does not grant:
//! it has forgotten the lock, or cannot confirm it. No other client gets the lock.
//!
//! `QUORLOCK_ROUNDS` sets the number of rounds of each case.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, Fallback, LossReason, Mode, Quorlock, Renewal};
use support::clients::{admitted, wait_connected};
use support::{Server, Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// The TTL of the locks, and the longest TTL, so that a quarantine is as long.
const TTL: Duration = Duration::from_secs(10);
/// The same where an attack must be over before the TTL, even if the machine stands still for seconds, as its disk may.
const LONG: Duration = Duration::from_secs(60);
/// A step that ends each of these locks.
const STEP_S: i64 = 90;
/// Time for which the majority is back while the lock is held and other clients want it.
const TRIED: Duration = Duration::from_millis(1_500);
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
const NAME: &str = "orders/42";

fn rounds() -> u32 {
    let rounds = std::env::var("QUORLOCK_ROUNDS");
    rounds.map_or(2, |rounds| rounds.parse().expect("a number"))
}

fn builder(servers: &Servers, ttl: Duration) -> Builder {
    Quorlock::builder()
        .nodes(servers.urls())
        .ttl(ttl)
        .max_ttl(ttl)
        .node_timeout(NODE_TIMEOUT)
        .no_quorum_timeout(LIMIT)
        .fallback(Fallback::SingleNode { after: Duration::from_millis(300) })
}

/// One client falls back to the first of three nodes, `harm` comes to that node, and the others come back.
/// Returns true if another client got the lock while the first one's was valid. If not, one of its errors must contain `words`.
fn is_outvoted(servers: &mut Servers, harm: &dyn Fn(&mut Server), words: &str) -> bool {
    let (first, second) = (admitted(builder(servers, LONG)), admitted(builder(servers, LONG)));
    servers.iter_mut().skip(1).for_each(Server::pause);
    // Not renewed: the first node was asked at the beginning only.
    let guard = first.mutex(NAME).renewal(Renewal::Manual).lock().expect("it falls back");
    assert_eq!(guard.mode(), Mode::Fallback);
    harm(&mut servers[0]);
    servers.iter_mut().skip(1).for_each(Server::resume);
    // A busy node does not come back.
    let comes_back = usize::from(words == "BUSY")..;
    wait_until("the others are back", LIMIT, || {
        second.node_stats()[comes_back.clone()].iter().all(|node| node.connected)
    });
    let (began, mut told) = (Instant::now(), false);
    // On a busy machine, that may not be enough for an error with these words.
    while began.elapsed() < TRIED || !told && began.elapsed() < TTL {
        match second.try_lock(NAME) {
            Ok(other) => {
                assert!(guard.check().is_ok(), "the attack was too slow, and shows nothing");
                other.check().expect("it was granted a moment ago");
                return true;
            }
            Err(error) if error.is_held() => {}
            Err(error) => {
                let known = [ErrorKind::NoQuorum];
                let quarantined = matches!(error.kind(), ErrorKind::Quarantined { .. });
                assert!(quarantined || known.contains(&error.kind()), "{error}");
                told |= error.to_string().contains(words);
            }
        }
    }
    guard.check().expect("it was not renewed, and its time is not over");
    assert!(told, "nobody was told of {words:?}");
    false
}

/// Makes the requested rounds. In none of them may both guards be valid.
#[track_caller]
fn nobody_is_outvoted(clocks: bool, harm: impl Fn(&mut Server), words: &str) {
    let (rounds, mut outvoted) = (rounds(), 0);
    for _ in 0..rounds {
        let servers = if clocks { Servers::start_with_clocks(3) } else { Some(Servers::start(3)) };
        let Some(mut servers) = servers else { return };
        outvoted += u32::from(is_outvoted(&mut servers, &harm, words));
    }
    assert_eq!(outvoted, 0, "two valid guards in {outvoted} of {rounds} rounds");
}

#[test]
fn a_first_node_that_restarts_empty_is_not_outvoted() {
    nobody_is_outvoted(false, Server::restart_empty, "may have forgotten locks");
}

#[test]
fn a_first_node_that_is_flushed_is_not_outvoted() {
    let flush = |first: &mut Server| drop(first.command(&["FLUSHALL"]));
    nobody_is_outvoted(false, flush, "may have forgotten locks");
}

#[test]
fn a_first_node_that_is_full_is_not_outvoted() {
    let fill = |first: &mut Server| drop(first.command(&["CONFIG", "SET", "maxmemory", "1"]));
    nobody_is_outvoted(false, fill, "out of memory");
}

/// The node runs a long foreign script. It answers that it is busy, until the script is killed.
#[test]
fn a_first_node_that_is_busy_is_not_outvoted() {
    let occupy = |first: &mut Server| {
        first.command(&["CONFIG", "SET", "lua-time-limit", "10"]);
        let mut stream = TcpStream::connect(("127.0.0.1", first.port())).expect("it listens");
        stream.write_all(b"EVAL \"while true do end\" 0\r\n").expect("it reads");
        let busy = || first.try_command(&[b"PING"]).is_err_and(|it| it.code() == Some("BUSY"));
        wait_until("the server is busy", LIMIT, busy);
    };
    nobody_is_outvoted(false, occupy, "BUSY");
}

#[test]
fn a_first_node_whose_clock_is_set_forward_is_not_outvoted() {
    nobody_is_outvoted(true, |first| first.set_clock(STEP_S), "may have");
}

/// A holder's machine was suspended, and its clock with it, so it sees the first node's clock go forward. By then
/// the first node has rightly granted the lock to another client.
#[test]
fn a_first_node_that_another_client_has_is_believed_although_its_clock_went_forward() {
    let Some(mut servers) = Servers::start_with_clocks(3) else { return };
    let locks = admitted(builder(&servers, TTL));
    servers.iter_mut().skip(1).for_each(Server::pause);
    let guard = locks.lock(NAME).expect("it falls back");
    assert_eq!(guard.mode(), Mode::Fallback);
    servers[0].set_clock(30);
    servers[0].command(&["SET", &format!("quorlock:{NAME}"), "another", "PX", "60000"]);
    assert_eq!(guard.lost().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
}

/// The first node is away for so long that clients pause between their tries to connect, and comes back empty.
/// The others come back `others_after` that. Returns true if another client got the lock while the first one's was
/// valid.
fn is_passed_over(renewal: Renewal, others_after: Duration) -> bool {
    const AWAY: Duration = Duration::from_secs(3);
    /// The longest pause between two tries is a second.
    const PAUSED: Duration = Duration::from_millis(1_500);

    let mut servers = Servers::start(3);
    // An automatic renewal comes while the others are back.
    let ttl = if renewal == Renewal::Manual { LONG } else { TTL };
    let client = || admitted(builder(&servers, ttl));
    let (first, second) = (client(), client());
    servers.iter_mut().skip(1).for_each(Server::pause);
    let guard = first.mutex(NAME).renewal(renewal).lock().expect("it falls back");
    assert_eq!(guard.mode(), Mode::Fallback);
    let granted = Instant::now();
    servers[0].kill();
    thread::sleep(AWAY);
    servers[0].restart_empty();
    thread::sleep(others_after);
    servers.iter_mut().skip(1).for_each(Server::resume);
    let began = Instant::now();
    while began.elapsed() < PAUSED {
        if let Ok(other) = second.try_lock(NAME) {
            return guard.check().is_ok() && other.check().is_ok();
        }
    }
    // A renewal that met the other client on another node would have ended the lock.
    match guard.check() {
        Err(error) if renewal == Renewal::Manual => {
            panic!(
                "it was not renewed, and its time is not over after {:?}: {error}",
                granted.elapsed()
            )
        }
        _ => false,
    }
}

/// A client does not reach the first node during a pause between two tries to connect, and so knows nothing of it.
#[test]
fn a_first_node_that_is_back_is_not_passed_over_for_a_pause_between_tries() {
    let cases = [(Renewal::Manual, 0), (Renewal::Manual, 300), (Renewal::Auto, 0)];
    let passed_over = thread::scope(|scope| {
        let cases = cases.map(|(renewal, after)| {
            let after = Duration::from_millis(after);
            scope.spawn(move || (0..rounds()).filter(|_| is_passed_over(renewal, after)).count())
        });
        cases.map(|case| case.join().expect("no panic"))
    });
    assert_eq!(passed_over, [0; 3], "two valid guards, so often in {} rounds each", rounds());
}

/// A first node that is down, and refuses connections, costs an attempt no more than that refusal.
#[test]
fn a_first_node_that_is_dead_does_not_hold_up_the_others() {
    let mut servers = Servers::start(3);
    let locks = admitted(builder(&servers, TTL));
    servers[0].kill();
    wait_until("it is seen that the first node is dead", LIMIT, || {
        locks.lock(NAME).expect("a majority").unlock().expect("a majority");
        !locks.node_stats()[0].connected
    });
    let mut fastest = LIMIT;
    for _ in 0..20 {
        let began = Instant::now();
        let guard = locks.lock(NAME).expect("a majority");
        fastest = fastest.min(began.elapsed());
        guard.unlock().expect("a majority");
    }
    assert!(fastest < Duration::from_millis(200), "each of 20 locks took {fastest:?}");
}

/// Each attempt waits for a hung first node, for the node timeout at most. Then the others are enough.
#[test]
fn a_first_node_that_hangs_costs_each_attempt_the_node_timeout_at_most() {
    // Longer than a busy machine keeps the other nodes from answering.
    let node_timeout = NODE_TIMEOUT * 2;
    let mut servers = Servers::start(3);
    let locks = admitted(builder(&servers, TTL).node_timeout(node_timeout));
    servers[0].pause();
    for known in [false, true, true] {
        let began = Instant::now();
        let guard = locks.try_lock(NAME).expect("it is free");
        let took = began.elapsed();
        assert!(took < node_timeout * 2, "it took {took:?} (known to be down: {known})");
        guard.unlock().expect("a majority");
        wait_until("it is known that the first node hangs", LIMIT, || {
            !locks.node_stats()[0].connected
        });
    }
}

/// `lock()` waits for the end of the first node's quarantine, and gets the lock then.
#[test]
fn who_waits_gets_the_lock_after_the_first_nodes_quarantine() {
    let mut servers = Servers::start(3);
    let locks = admitted(builder(&servers, TTL));
    servers[0].restart_empty();
    wait_connected(&locks);
    wait_until("the first node is in quarantine", LIMIT, || {
        matches!(
            locks.try_lock(NAME).map_err(|error| error.kind()),
            Err(ErrorKind::Quarantined { .. })
        )
    });
    let guard = locks.lock(NAME).expect("the quarantine ends");
    assert_eq!(guard.mode(), Mode::Quorum);
    guard.unlock().expect("all are there");
}

/// Clients with a fallback and clients without it are kept apart, since those without it do not ask the first
/// node before they believe a majority of the others.
#[test]
fn clients_with_and_without_a_fallback_do_not_share_a_set() {
    let servers = Servers::start(3);
    let with = admitted(builder(&servers, TTL));
    let guard = with.lock(NAME).expect("all are there");
    let without = builder(&servers, TTL).fallback(Fallback::Never).build().expect("valid settings");
    let error = without.lock(NAME).expect_err("others are configured in another way");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("fallback is off here and on there"), "{error}");
    guard.unlock().expect("it is ours");
}
