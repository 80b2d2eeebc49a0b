//! A partition parts a master from its replica, which is promoted. Clients at one side go on with the old master, and those at the
//! other side with the replica. Each side reaches one further master, so each has two nodes of three.

mod support;

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, Guard, Quorlock};
use support::clients::admitted;
use support::proxy::Proxy;
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// The TTL of the locks, and the longest TTL.
const TTL: Duration = Duration::from_secs(4);
/// The number of locks that a client holds when the partition comes.
const NAMES: usize = 50;
/// A set of three nodes as one client reaches it, each through a proxy.
struct Side {
    proxies: [Proxy; 3],
    locks: Quorlock,
}

impl Side {
    fn of(servers: [&Server; 3]) -> Self {
        let proxies = servers.map(|server| Proxy::start(server.port()));
        let locks = admitted(builder(&proxies));
        Self { proxies, locks }
    }
}

fn builder(proxies: &[Proxy; 3]) -> Builder {
    Quorlock::builder()
        .nodes(proxies.iter().map(Proxy::url))
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(TTL / 4)
        .no_quorum_timeout(LIMIT)
}

fn name(i: usize) -> String {
    format!("orders/{i}")
}

/// The result of a partition.
struct Outcome {
    /// The number of names that both sides held at one moment.
    twice: usize,
    /// The time after the promotion for which the locks were valid.
    valid_for: Duration,
    /// The error of a further call there, after that.
    error: String,
}

/// The side of the client that holds locks when the partition comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    WithOldMaster,
    WithReplica,
}

/// Parts the clients while one of them holds locks, and promotes the replica. Ends once the other side has got all names, or when
/// both sides have held each of them. `needs_replica`: the old master takes no writes without its replica.
fn part(holder: Holder, needs_replica: bool) -> Outcome {
    let old = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
    let others = [Server::start(), Server::start()];
    // The master hears nothing of its replica in the partition, and no end of the connection either.
    let link = Proxy::start(old.port());
    let replica = Server::start_with(&["--replicaof", &format!("127.0.0.1 {}", link.port())]);
    let all = [&old, &others[0], &others[1]];
    let [first, second] = [Side::of(all), Side::of(all)];
    wait_until("the replica has caught up", LIMIT, || {
        old.command(&["WAIT", "1", "100"]) == redis::Value::Int(1)
    });
    if needs_replica {
        old.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    }
    let (holds, wants) = match holder {
        Holder::WithOldMaster => (&first, &second),
        Holder::WithReplica => (&second, &first),
    };
    let guards: Vec<_> =
        (0..NAMES).map(|i| holds.locks.lock(name(i)).expect("all nodes are up")).collect();
    if holder == Holder::WithReplica {
        // Its keys at the other side end first.
        wait_until("the replica has the locks", LIMIT, || {
            old.command(&["WAIT", "1", "100"]) == redis::Value::Int(1)
        });
    }

    link.hold();
    // Connections are accepted there, and nothing is answered.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let nowhere = silent.local_addr().expect("it listens").port();
    first.proxies[2].fail_over_to(nowhere);
    second.proxies[1].fail_over_to(nowhere);
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    second.proxies[0].fail_over_to(replica.port());
    let promoted = Instant::now();

    let mut outcome = Outcome { twice: 0, valid_for: Duration::ZERO, error: String::new() };
    let mut theirs: Vec<Option<Guard>> = (0..NAMES).map(|_| None).collect();
    wait_until("the other side has all names", LIMIT, || {
        for (i, guard) in guards.iter().enumerate() {
            if guard.check().is_ok() {
                outcome.valid_for = promoted.elapsed();
            }
            if theirs[i].is_none() {
                theirs[i] = wants.locks.try_lock(name(i)).ok();
                let both = theirs[i].iter().chain([guard]).all(|guard| guard.check().is_ok());
                outcome.twice += usize::from(theirs[i].is_some() && both);
            }
        }
        theirs.iter().all(Option::is_some)
    });
    if let Err(error) = first.locks.try_lock("another") {
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        outcome.error = error.to_string();
    }
    outcome
}

/// A limit of the guarantees.
#[test]
fn an_old_master_that_takes_writes_makes_two_holders() {
    let Outcome { twice, error, .. } = part(Holder::WithOldMaster, false);
    assert!(twice > 0, "quorlock now prevents this: state it in the guarantees");
    assert_eq!(error, "", "the old master grants");
}

#[test]
fn an_old_master_that_needs_its_replica_makes_no_two_holders() {
    let Outcome { twice, valid_for, error } = part(Holder::WithOldMaster, true);
    assert_eq!(
        twice, 0,
        "of {NAMES} names had two valid guards, {valid_for:?} after the promotion"
    );
    assert!(valid_for > TTL * 2, "the old master stopped at once, so this shows nothing");
    assert!(
        error.contains("NOREPLICAS") && error.contains("if one of them was promoted"),
        "{error}"
    );
}

/// The promoted replica has the holder's keys. Those on the old master end while that one still takes writes.
#[test]
fn a_holder_that_reaches_the_promoted_replica_gives_way_to_the_old_master() {
    let Outcome { twice, valid_for, .. } = part(Holder::WithReplica, true);
    assert_eq!(
        twice, 0,
        "of {NAMES} names had two valid guards, {valid_for:?} after the promotion"
    );
}
