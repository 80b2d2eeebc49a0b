//! An attack that other Redis locks do not withstand: a majority of the masters forgets a held lock.
//! No other client gets the lock meanwhile, and the holder keeps it.

mod support;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, TryRecvError, bounded};
use quorlock::{Builder, ErrorKind, Guard, OptionalGuard as _, Quorlock, Renewal};
use redis::Value;
use support::clients::{admitted, wait_connected};
use support::proxy::Proxy;
use support::{Server, Servers, wait_until};

/// The TTL of the locks, and the longest TTL, so that a quarantine is as long.
const TTL: Duration = Duration::from_secs(10);
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);
const NAME: &str = "orders/42";
/// The number of masters that forget, of five.
const MAJORITY: usize = 3;

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

fn lock(locks: &Quorlock) -> Guard {
    locks.lock(NAME).expect("a majority is healthy")
}

/// A client that waits for the lock on a thread of its own.
fn waiter(locks: Quorlock) -> Receiver<Guard> {
    let (sender, receiver) = bounded(1);
    thread::spawn(move || {
        // The receiver is gone if the test is over.
        let _ = sender.send(lock(&locks));
    });
    receiver
}

/// Holds `guard` for longer than a quarantine, and so for longer than any lock lives without a renewal. No other client gets
/// the lock meanwhile. Once it is given back, both others get it.
fn nobody_else_gets_it(urls: &[String], second: Quorlock, guard: Guard) {
    let attacked = Instant::now();
    let ttl = second.settings().max_ttl();
    let newcomer = builder(urls).ttl(ttl).max_ttl(ttl).build().expect("the settings are valid");
    let waiting = [waiter(second.clone()), waiter(newcomer.clone())];
    while attacked.elapsed() < ttl + ttl / 2 {
        guard.check().expect("the holder keeps it");
        for locks in [&second, &newcomer] {
            match locks.try_lock(NAME) {
                Ok(_) => panic!("two clients hold the lock"),
                Err(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Held { .. }
                            | ErrorKind::Quarantined { .. }
                            | ErrorKind::NoQuorum
                    ),
                    "{error}"
                ),
            }
        }
        for waiting in &waiting {
            assert_eq!(waiting.try_recv().err(), Some(TryRecvError::Empty), "two holders");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let mut tokens = BTreeSet::from([guard.token()]);
    guard.unlock().expect("it was ours until now");
    let mut waiting = waiting.to_vec();
    while !waiting.is_empty() {
        let mut select = crossbeam_channel::Select::new();
        for receiver in &waiting {
            select.recv(receiver);
        }
        let first = select.ready_timeout(LIMIT).expect("the lock is free");
        let next = waiting.remove(first).recv().expect("it got the lock");
        assert!(next.token() > tokens.last().copied().flatten(), "tokens rise");
        tokens.insert(next.token());
        next.unlock().expect("it is ours");
    }
}

#[test]
fn three_of_five_masters_are_killed_and_come_back_empty() {
    let mut servers = Servers::start(5);
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    let guard = lock(&first);
    (0..MAJORITY).for_each(|node| servers[node].restart_empty());
    nobody_else_gets_it(&urls, second, guard);
}

/// Without the quarantine the same attack makes two holders.
#[test]
fn without_the_quarantine_there_are_two_holders() {
    let mut servers = Servers::start(5);
    let build = || {
        // Restarts take seconds on a busy machine, and the lock must outlast them.
        let builder = builder(&servers.urls()).ttl(LIMIT).max_ttl(LIMIT);
        let builder = builder.restart_quarantine(false).renewal(Renewal::Manual);
        builder.build().expect("the settings are valid")
    };
    let (first, second) = (build(), build());
    wait_connected(&first);
    let guard = first.mutex(NAME).lock().expect("a majority is healthy");
    (0..MAJORITY).for_each(|node| servers[node].restart_empty());
    let other = second.try_lock_for(NAME, LIMIT).optional().expect("a majority is healthy");
    assert!(other.is_some() && guard.check().is_ok(), "the attack has failed, and shows nothing");
}

#[test]
fn three_of_five_masters_are_flushed() {
    let servers = Servers::start(5);
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    let guard = lock(&first);
    (0..MAJORITY).for_each(|node| {
        servers[node].command(&["FLUSHALL"]);
    });
    nobody_else_gets_it(&urls, second, guard);
}

/// The masters are flushed again and again, before any renewal and in quarantines. The holder keeps its lock.
#[test]
fn all_masters_are_flushed_time_and_again() {
    let servers = Servers::start(5);
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    let guard = lock(&first);
    let began = Instant::now();
    while began.elapsed() < TTL * 3 / 2 {
        for server in servers.iter() {
            server.command(&["FLUSHALL"]);
        }
        guard.extend(TTL).expect("every master has forgotten it, and granted it to nobody");
        assert!(second.try_lock(NAME).is_err(), "two clients hold the lock");
    }
    nobody_else_gets_it(&urls, second, guard);
}

/// The clients' connections to a proxy stay open, so no client sees at once that the server behind it has
/// changed. The holder renews by hand, so that no request is on its way during the restarts.
#[test]
fn restarts_are_hidden_behind_proxies() {
    let mut servers = Servers::start(5);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let urls: Vec<_> = proxies.iter().map(Proxy::url).collect();
    let (first, second) = (client(&urls), client(&urls));
    wait_connected(&first);
    wait_connected(&second);
    let mutex = first.mutex(NAME).renewal(Renewal::Manual);
    let guard = mutex.lock().expect("a majority is healthy");
    // The answers of slow masters are still on their way, or a master was too slow to grant the lock and is asked again.
    wait_until("all masters have granted it", LIMIT, || {
        guard.extend(TTL).expect("a majority is healthy");
        servers.iter().all(|server| server.get("quorlock:orders/42").is_some())
    });
    let connections = || -> Vec<_> { proxies.iter().map(Proxy::open).collect() };
    let before = connections();
    (0..MAJORITY).for_each(|node| servers[node].restart_empty());
    guard.extend(TTL).expect("three masters have forgotten it, and granted it to nobody");
    assert!(second.try_lock(NAME).is_err(), "two clients hold the lock");
    // The proxies end no connection. The clients do, once a probe shows another server.
    wait_until("the clients have connected anew", LIMIT, || {
        let now = connections();
        (0..MAJORITY).all(|node| before[node].is_disjoint(&now[node]))
    });
    // Elsewhere two connections stay. Now and then a client makes a third one, to see which server answers.
    for (before, now) in before.iter().zip(connections()).skip(MAJORITY) {
        let kept = before.intersection(&now).count();
        assert!(kept >= 2, "a proxy has ended connections: {before:?} {now:?}");
    }
    guard.extend(TTL).expect("it is there again");
    assert!(second.try_lock(NAME).is_err(), "two clients hold the lock");
    guard.unlock().expect("it is ours");
    drop(second.lock(NAME).expect("the quarantine ends"));
}

/// Replicas that lag behind take the places of three masters.
#[test]
fn replicas_are_promoted_in_the_place_of_three_masters() {
    let mut servers = Servers::start(5);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let urls: Vec<_> = proxies.iter().map(Proxy::url).collect();
    // Promoted nodes do not count for holders in their first 13 s, and the lock must outlast that.
    let build = || admitted(builder(&urls).ttl(TTL * 3).max_ttl(TTL * 3));
    let (first, second) = (build(), build());
    let mark = servers[0].get("quorlock:{quorlock}:mark");
    let replicas: Vec<_> = servers[..MAJORITY].iter().map(behind).collect();
    let guard = lock(&first);
    for (node, replica) in replicas.iter().enumerate() {
        servers[node].kill();
        replica.command(&["REPLICAOF", "NO", "ONE"]);
        proxies[node].fail_over_to(replica.port());
    }
    assert_eq!(replicas[0].get("quorlock:orders/42"), None, "the replica was not behind");
    assert!(mark.is_some() && replicas[0].get("quorlock:{quorlock}:mark").is_some());
    nobody_else_gets_it(&urls, second, guard);
}

/// A replica that has the present data of `master`, and gets no more.
fn behind(master: &Server) -> Server {
    let replica = Server::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica is in step", LIMIT, || {
        let Value::BulkString(info) = replica.command(&["INFO", "replication"]) else {
            panic!("INFO is text")
        };
        let info = String::from_utf8_lossy(&info).into_owned();
        info.contains("master_link_status:up") && info.contains("master_sync_in_progress:0")
    });
    // With an unreachable master, the replica keeps its data.
    replica.command(&["REPLICAOF", "127.0.0.1", "1"]);
    replica
}

/// The data is older than the lock, and so are the marks that admit the nodes.
#[test]
fn three_of_five_masters_come_back_with_old_data() {
    let mut servers = Servers::start(5);
    let urls = servers.urls();
    let (first, second) = (client(&urls), client(&urls));
    for server in servers.iter() {
        server.command(&["SAVE"]);
    }
    let guard = lock(&first);
    for node in 0..MAJORITY {
        servers[node].restart_with_data();
        assert!(servers[node].get("quorlock:{quorlock}:mark").is_some(), "it came back empty");
        assert_eq!(servers[node].get("quorlock:orders/42"), None, "its data is not old");
    }
    nobody_else_gets_it(&urls, second, guard);
}
