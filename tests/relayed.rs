//! Servers behind a proxy that keeps connections open when another server takes over, and that refuse `INFO` in scripts, as those of
//! Redis Enterprise do.

mod support;

use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::{admitted, wait_renewed};
use support::relay::{INFO, Relay, refuses_info as server};
use support::{Server, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const TTL: Duration = Duration::from_secs(4);
const NAME: &str = "orders/42";
const KEY: &str = "quorlock:orders/42";
const MARK: &str = "quorlock:{quorlock}:mark";

/// Lets another server take over, which has nothing but the mark of the first one.
fn fail_over(relay: &Relay, from: &Server, to: &Server) {
    let mark = from.get(MARK).expect("it is in use");
    to.command(&["SET", MARK, &mark]);
    relay.lead_to(to);
}

fn builder(relays: &[Relay]) -> Builder {
    Quorlock::builder()
        .nodes(relays.iter().map(Relay::url))
        .ttl(TTL)
        .max_ttl(TTL)
        .node_timeout(Duration::from_secs(2))
        .no_quorum_timeout(LIMIT)
}

#[test]
fn servers_that_refuse_info_in_scripts_grant_locks() {
    let servers = [server(), server(), server()];
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let refusal = servers[0].try_command(&[b"EVAL", b"return redis.call('INFO')", b"0"]);
    refusal.expect_err("that is how these servers are");
    let locks = admitted(builder(&relays));
    let mut before = None;
    for _ in 0..3 {
        let guard = locks.lock(NAME).expect("it is free");
        assert!(guard.token() > before, "{:?} after {before:?}", guard.token());
        before = guard.token();
        let error = locks.try_lock(NAME).expect_err("it is held");
        assert!(matches!(error.kind(), ErrorKind::Held { .. }), "{error}");
        wait_renewed([&guard], 1);
        guard.unlock().expect("all nodes are up");
    }
    for server in &servers {
        wait_until("no key is left", LIMIT, || server.get(KEY).is_none());
    }
}

/// The list needs no `INFO`. Without it no server can show that it has kept all its keys, so nobody may end a quarantine by that.
#[test]
fn servers_that_refuse_info_in_scripts_list_locks_and_prove_nothing_by_their_uptime() {
    let servers = [server(), server(), server()];
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    let held = locks.held_locks("", 10, LIMIT).expect("all nodes are up");
    let names: Vec<_> = held.names.iter().map(|name| &*name.name).collect();
    assert_eq!((names, held.is_complete()), (vec![NAME.as_bytes()], true));
    guard.unlock().expect("all nodes are up");
    let usual = Server::start();
    let kept_keys_for = |server: &Server| {
        let scan: &[&[u8]] = &[b"EVAL", include_bytes!("../lua/node/names.lua"), b"0", b"0", b"*"];
        let reply = server.try_command(scan).expect("it may scan");
        let reply: (String, Vec<String>, u64) = redis::from_redis_value(reply).expect("a scan");
        reply.2
    };
    wait_until("the server counts its seconds", LIMIT, || kept_keys_for(&usual) > 0);
    let uptime = |server: &Server| {
        let info: String =
            redis::from_redis_value(server.command(&[INFO, "server"])).expect("text");
        let seconds = info.lines().find_map(|line| line.strip_prefix("uptime_in_seconds:"));
        seconds.expect("INFO has it").trim().parse::<u64>().expect("a number")
    };
    wait_until("this one counts them, too", LIMIT, || uptime(&servers[0]) > 0);
    assert_eq!(kept_keys_for(&servers[0]), 0);
}

/// One server of three is a minority, so nobody loses a lock.
#[test]
fn one_server_that_takes_over_costs_nobody_a_lock() {
    let servers = [server(), server(), server()];
    let other = server();
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let second = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    fail_over(&relays[0], &servers[0], &other);
    let over = Instant::now();
    while over.elapsed() < TTL * 2 {
        let granted = second.try_lock(NAME).optional();
        assert!(!matches!(granted, Ok(Some(_))), "{:?} after it", over.elapsed());
        guard.check().expect("the holder keeps its lock");
    }
    wait_until("the other server has the lock", LIMIT, || other.get(KEY).is_some());
    guard.unlock().expect("all nodes are up");
}

/// The servers that take over have the mark, and lack the lock. They know the scripts, so clients that are connected notice nothing
/// by themselves.
#[test]
fn a_server_that_takes_over_behind_a_proxy_grants_no_lock_that_it_may_lack() {
    let servers = [server(), server(), server()];
    let others = [server(), server()];
    let in_front_of_others: Vec<_> = others.iter().map(Relay::start).collect();
    let elsewhere = admitted(builder(&in_front_of_others).key_prefix("elsewhere:"));
    for _ in 0..2 {
        elsewhere.lock(NAME).expect("it is free").unlock().expect("both are up");
    }
    let relays: Vec<_> = servers.iter().map(Relay::start).collect();
    let locks = admitted(builder(&relays));
    let second = admitted(builder(&relays));
    let guard = locks.lock(NAME).expect("it is free");
    wait_until("all nodes have it", LIMIT, || servers.iter().all(|it| it.get(KEY).is_some()));
    let accepted = relays[0].accepted();
    for i in 0..2 {
        fail_over(&relays[i], &servers[i], &others[i]);
    }
    let over = Instant::now();
    let mut tries = 0;
    // The first try reaches the other servers before anybody knows of them. What it leaves there may cost the holder its lock, since
    // they are a majority. But nobody else gets it.
    while over.elapsed() < TTL {
        let is_granted = second.try_lock(NAME).is_ok();
        // The last try may end when the quarantines are over.
        assert!(!is_granted || over.elapsed() >= TTL, "try {tries}, {:?} after it", over.elapsed());
        tries += 1;
    }
    assert!(relays[0].accepted() > accepted, "the connections have ended");
    drop(guard);
    drop(second.try_lock_for(NAME, LIMIT).expect("the quarantines are over"));
}

/// A master with a replica that has caught up.
fn with_replica() -> (Server, Server) {
    let renamed = ["--rename-command", "INFO", INFO];
    let master = Server::start_with(&[&renamed[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let of_master = format!("127.0.0.1 {}", master.port());
    let replica = Server::start_with(&[&renamed[..], &["--replicaof", &of_master]].concat());
    wait_until("the replica has caught up", LIMIT, || {
        master.command(&["SET", "elsewhere", "x", "PX", "60000"]);
        master.command(&["WAIT", "1", "100"]) == redis::Value::Int(1)
    });
    (master, replica)
}

/// The replicas of a server that has taken over say nothing about a lock that the server before it has granted. Both servers have
/// one, so `WAIT` finds enough of them.
#[test]
fn replicas_of_a_server_that_takes_over_behind_a_proxy_confirm_no_lock() {
    let ((master, replica), (other, others_replica)) = (with_replica(), with_replica());
    let in_front_of_other = [Relay::start(&other)];
    let waiting = |relays: &[Relay]| {
        let builder = builder(relays).ttl(TTL * 3).max_ttl(TTL * 3);
        builder.node_timeout(Duration::from_secs(1)).wait_replicas(1, Duration::from_secs(2))
    };
    // The scripts are known there, so clients that are connected notice nothing by themselves.
    let elsewhere = admitted(waiting(&in_front_of_other).key_prefix("elsewhere:"));
    elsewhere.lock(NAME).expect("it is free").unlock().expect("it is up");
    let relay = [Relay::start(&master)];
    let (locks, second) = (admitted(waiting(&relay)), admitted(waiting(&relay)));
    let guard = locks.lock(NAME).expect("it is free");
    assert!(replica.get(KEY).is_some(), "granted, and not on the replica");
    let accepted = relay[0].accepted();
    fail_over(&relay[0], &master, &other);
    let over = Instant::now();
    while over.elapsed() < TTL {
        let granted = second.try_lock(NAME).optional();
        assert!(!matches!(granted, Ok(Some(_))), "{:?} after it", over.elapsed());
    }
    assert!(relay[0].accepted() > accepted, "the connections have ended");
    drop(guard);
    drop(second.try_lock_for(NAME, LIMIT).expect("the quarantine is over"));
    wait_until("it is given back", LIMIT, || others_replica.get(KEY).is_none());
}
