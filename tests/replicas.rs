//! A single master with replicas: a lock counts once they have it.

mod support;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{Builder, ErrorKind, Mode, OptionalGuard as _, Quorlock};
use support::clients::fresh;
use support::{Server, fake, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
const KEY: &str = "quorlock:orders/42";

/// A master and a replica that has caught up.
fn master_and_replica() -> (Server, Server) {
    let master = Server::start_with(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    wait_until("the replica has caught up", LIMIT, || {
        master.command(&["SET", "probe", "x", "PX", "60000"]);
        master.command(&["WAIT", "1", "100"]) == redis::Value::Int(1)
    });
    master.command(&["DEL", "probe"]);
    (master, replica)
}

fn builder(master: &Server, timeout: Duration) -> Builder {
    fresh([master.url()])
        .max_ttl(Duration::from_secs(600))
        .node_timeout(Duration::from_secs(5))
        .ttl(Duration::from_secs(60))
        .wait_replicas(1, timeout)
}

#[test]
fn a_lock_is_on_the_replica_when_it_is_granted() {
    let (master, replica) = master_and_replica();
    let locks = builder(&master, Duration::from_secs(10)).build().expect("valid settings");
    for _ in 0..20 {
        let guard = locks.lock("orders/42").expect("one of one");
        assert!(replica.get(KEY).is_some(), "granted, and not on the replica");
        assert_eq!(guard.mode(), Mode::SingleNode);
        guard.unlock().expect("one of one");
    }
}

#[test]
fn a_lock_that_is_not_replicated_in_time_is_undone() {
    let (master, mut replica) = master_and_replica();
    let timeout = Duration::from_millis(300);
    let locks = builder(&master, timeout).build().expect("valid settings");
    locks.lock("orders/42").expect("one of one").unlock().expect("one of one");

    replica.pause();
    let error = locks.try_lock("orders/42").expect_err("the replica says nothing");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    // The TTL is a minute; this waits for a few seconds only.
    wait_until("no key is left", LIMIT, || master.keys().is_empty());

    replica.resume();
    wait_until("it is granted again", LIMIT, || locks.try_lock("orders/42").is_ok());
}

/// `WAIT` blocks its connection, which carries nothing else.
#[test]
fn a_silent_replica_holds_up_nothing_else() {
    let (master, mut replica) = master_and_replica();
    let timeout = Duration::from_secs(8);
    let locks = builder(&master, timeout).build().expect("valid settings");
    let guard = locks.lock("orders/42").expect("one of one");

    replica.pause();
    let start = Instant::now();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.try_lock_for("orders/43", timeout / 2));
        wait_until("the other lock waits for the replica", LIMIT, || {
            master.get("quorlock:orders/43").is_some()
        });
        guard.extend(Duration::from_secs(90)).expect("renewals do not wait for replicas");
        guard.unlock().expect("releases do not either");
        assert!(!waiting.is_finished());
        assert!(start.elapsed() < timeout / 2, "they waited for the replica");
        assert!(waiting.join().expect("no panic").is_err(), "it was not replicated");
    });
    wait_until("no key is left", LIMIT, || master.keys().is_empty());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let builder = || Quorlock::builder().nodes(["redis://127.0.0.1:1"]);
    for (replicas, timeout_ms) in [(0, 100), (1, 0)] {
        let wrong = builder().wait_replicas(replicas, Duration::from_millis(timeout_ms)).build();
        assert_eq!(wrong.expect_err("it makes no sense").kind(), ErrorKind::Config);
    }
    let wrong = builder().ttl(Duration::from_secs(1)).wait_replicas(1, Duration::from_secs(1));
    let error = wrong.build().expect_err("the TTL could be used up before the lock is granted");
    let says = "twice the node_timeout (and that of wait_replicas) of ";
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn a_connection_that_was_closed_while_idle_is_no_failure() {
    let (master, _replica) = master_and_replica();
    let locks = builder(&master, Duration::from_secs(10)).build().expect("valid settings");
    for _ in 0..5 {
        let guard = locks.try_lock("orders/42").expect("it is free");
        guard.unlock().expect("one of one");
        master.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    }
}

/// A master accepts no writes while its replica is gone, so the release is kept.
#[test]
fn a_release_that_is_refused_for_want_of_replicas_is_kept() {
    let (master, mut replica) = master_and_replica();
    let locks = builder(&master, Duration::from_secs(10)).build().expect("valid settings");
    let guard = locks.lock("orders/42").expect("one of one");
    master.command(&["CONFIG", "SET", "min-replicas-max-lag", "1"]);
    master.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    replica.kill();
    wait_until("the master takes no writes", LIMIT, || {
        master.try_command(&[b"SET", b"probe", b"x", b"PX", b"1"]).is_err()
    });
    drop(guard);
    wait_until("the release is kept", LIMIT, || locks.node_stats()[0].kept_releases == 1);
    master.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    wait_until("no key is left", LIMIT, || master.keys().is_empty());
}

/// A fake master that grants everything. Its run ids, one per connection (the worker's is the first, and the others are
/// those for `WAIT`), and its answers to `WAIT` are given; the last one of either repeats.
fn made_up(
    runs: &'static [&'static str],
    acknowledged: &'static [usize],
) -> (Quorlock, Arc<Counts>) {
    relayed(runs, acknowledged, &[])
}

/// The same. Behind each `WAIT` of these, another server answers over the same connection, if a run id is given.
fn relayed(
    runs: &'static [&'static str],
    acknowledged: &'static [usize],
    behind_waits: &'static [Option<&str>],
) -> (Quorlock, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let counted = counts.clone();
    let url = fake::serve(move |words, writer| {
        let peer = writer.peer_addr().ok()?;
        let mut connections = counted.connections.lock();
        let known = connections.iter().find(|(it, _)| *it == peer).map(|(_, run)| *run);
        let run = known.unwrap_or_else(|| {
            // A connection that only checks which server answers may come at any time, and meets the worker's server. One for
            // `WAIT` comes behind a grant.
            let is_granted = counted.is_granted.load(Ordering::SeqCst);
            let number = if is_granted { 1 + counted.waits.load(Ordering::SeqCst) } else { 0 };
            let run = runs[number.min(runs.len() - 1)];
            connections.push((peer, run));
            run
        });
        drop(connections);
        let answer = match words[0].to_uppercase().as_str() {
            "PING" => b"+PONG\r\n".to_vec(),
            "TIME" => b"*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n".to_vec(),
            "INFO" => {
                let waits = counted.waits.load(Ordering::SeqCst);
                let behind_wait = waits.checked_sub(1).and_then(|it| *behind_waits.get(it)?);
                let run = behind_wait.unwrap_or(run);
                let text = format!(
                    "redis_version:7.4.0\r\nrun_id:{run}\r\nrole:master\r\nmaster_replid:b1\r\n"
                );
                format!("${}\r\n{text}\r\n", text.len()).into_bytes()
            }
            _ if fake::is_probe(words) => fake::admit(&words[5]),
            "EVAL" | "EVALSHA" => {
                counted.is_granted.store(true, Ordering::SeqCst);
                b"*2\r\n:1\r\n:0\r\n".to_vec()
            }
            "WAIT" => {
                counted.waiting.lock().insert(peer);
                format!(":{}\r\n", next(acknowledged, &counted.waits)).into_bytes()
            }
            _ => b"+OK\r\n".to_vec(),
        };
        writer.write_all(&answer).ok()
    });
    let locks = fresh([url])
        .max_ttl(Duration::from_secs(600))
        .node_timeout(Duration::from_secs(5))
        .ttl(Duration::from_secs(60))
        .wait_replicas(1, Duration::from_secs(10))
        .build()
        .expect("valid settings");
    wait_until("the worker is connected", LIMIT, || locks.node_stats()[0].connected);
    (locks, counts)
}

#[derive(Default)]
struct Counts {
    /// Each connection with the run id of its server.
    connections: Mutex<Vec<(SocketAddr, &'static str)>>,
    is_granted: AtomicBool,
    /// The connections for `WAIT`.
    waiting: Mutex<BTreeSet<SocketAddr>>,
    waits: AtomicUsize,
}

fn next<T: Copy>(values: &[T], count: &AtomicUsize) -> T {
    values[count.fetch_add(1, Ordering::SeqCst).min(values.len() - 1)]
}

/// The server was restarted between the grant and `WAIT`, or the address leads to another one by now:
/// replication on that server proves nothing about this grant.
#[test]
fn replicas_of_another_run_of_the_server_do_not_count() {
    let (locks, counts) = made_up(&["new", "old", "new"], &[1]);
    let error = locks.try_lock("orders/42").expect_err("it is replicated elsewhere");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(error.to_string().contains("restarted or replaced"), "{error}");
    // The connection for `WAIT` is made anew, to the present server of the address.
    let guard = locks.try_lock("orders/42").optional().expect("one of one");
    assert!(guard.is_some(), "it is free");
    assert_eq!(counts.waiting.lock().len(), 2);
}

/// A proxy keeps the connection open while another server takes over, whose replicas have all that it has.
#[test]
fn replicas_of_a_server_that_took_over_behind_a_proxy_do_not_count() {
    let (locks, counts) = relayed(&["one"], &[1], &[Some("other"), None]);
    let error = locks.try_lock("orders/42").expect_err("it is replicated elsewhere");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(error.to_string().contains("restarted or replaced"), "{error}");
    drop(locks.lock("orders/42").expect("one of one"));
    assert!(counts.waits.load(Ordering::SeqCst) >= 2);
}

/// Another `WAIT` would take its time once more, but the caller's time for answers is over by then.
#[test]
fn replicas_that_are_behind_are_asked_once_a_try() {
    let (locks, counts) = made_up(&["one"], &[1, 0, 1]);
    drop(locks.try_lock("orders/42").expect("it is free"));
    let error = locks.try_lock("orders/42").expect_err("it is not replicated");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    assert_eq!(counts.waits.load(Ordering::SeqCst), 2);
}
