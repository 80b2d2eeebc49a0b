//! Subscriptions on servers that let no further connection in for a while. The waiters poll meanwhile, and hear of releases again
//! after it.

mod support;

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use quorlock::{Builder, Error, Guard, Quorlock};
use support::clients::{Busy, fresh, requests, wait_connected};
use support::proxy::Proxy;
use support::{Server, fake, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// Longer than a message takes on a busy machine, and shorter than the pause of [`polls_rarely`].
const SOON: Duration = Duration::from_secs(35);
const NAME: &str = "orders/42";
const CHANNEL: &[u8] = b"{quorlock:orders/42}:released";

fn builder(url: String) -> Builder {
    fresh([url])
        .max_ttl(Duration::from_secs(600))
        .ttl(Duration::from_secs(600))
        // Time for an answer on a busy machine.
        .node_timeout(Duration::from_secs(20))
        .no_quorum_timeout(Duration::from_secs(600))
}

/// A client that checks by itself only every 45 s or more, once it is listening.
fn polls_rarely(url: String) -> Quorlock {
    let rarely = builder(url).backoff(Duration::from_millis(5), Duration::from_secs(60));
    let locks = rarely.build().expect("valid settings");
    wait_connected(&locks);
    locks
}

/// Gives the lock back. The waiter, which listens, gets it by the message of that.
fn wakes(guard: Guard, waiting: ScopedJoinHandle<'_, Result<Guard, Error>>) {
    let given_back = Instant::now();
    guard.unlock().expect("one of one");
    waiting.join().expect("no panic").expect("it is free").unlock().expect("one of one");
    assert!(given_back.elapsed() < SOON, "it asked by itself: {:?}", given_back.elapsed());
}

fn listens_to(locks: &Quorlock) -> usize {
    locks.node_stats()[0].listened_to
}

/// A caller waits while the server lets nobody listen, and goes on to ask. Once `let_in` has run, it listens.
fn waits_and_listens(waiter: &Quorlock, guard: Guard, let_in: impl FnOnce()) {
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.try_lock_for(NAME, LIMIT * 3));
        let before = requests(waiter);
        wait_until("it asks by itself", LIMIT, || requests(waiter) >= before + 3);
        assert_eq!(listens_to(waiter), 0, "nobody is let in");
        let_in();
        wait_until("it listens", LIMIT, || listens_to(waiter) == 1);
        wakes(guard, waiting);
    });
}

#[test]
fn a_server_without_a_free_connection_lets_a_waiter_listen_once_there_is_one() {
    let server = Server::start_with(&["--maxclients", "8"]);
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut helper = client.get_connection().expect("it listens");
    let [holder, waiter] = [(); 2].map(|()| polls_rarely(server.url()));
    let guard = holder.lock(NAME).expect("it is free");
    // Three are of this test. Connections that look which server answers come and go, so it takes several tries to have the others.
    let mut others = Vec::new();
    wait_until("all connections are taken", LIMIT, || {
        others.extend((0..5).map(|_| TcpStream::connect(("127.0.0.1", server.port()))));
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut helper).expect("an answer");
        list.lines().filter(|line| line.contains("cmd=NULL")).count() == 5
    });
    waits_and_listens(&waiter, guard, || drop(others));
}

/// The waiter listens, and its connections are lost while the server lets nobody in.
#[test]
fn a_busy_server_lets_a_waiter_listen_once_it_is_ready() {
    let server = Server::start_with(&["--lua-time-limit", "1"]);
    let proxy = Proxy::start(server.port());
    let (holder, waiter) = (polls_rarely(server.url()), polls_rarely(proxy.url()));
    let guard = holder.lock(NAME).expect("it is free");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.try_lock_for(NAME, LIMIT * 3));
        wait_until("it listens", LIMIT, || listens_to(&waiter) == 1);
        scope.spawn(|| server.try_command(&[b"EVAL", b"while true do end", b"0"]));
        let busy = Busy(&server);
        wait_until("the server is busy", LIMIT, || server.try_command(&[b"PING"]).is_err());
        let before = proxy.accepted();
        proxy.fail_over_to(server.port());
        wait_until("nobody is let in", LIMIT, || {
            listens_to(&waiter) == 0 && proxy.accepted() >= before + 3
        });
        drop(busy);
        wait_until("it listens again", LIMIT, || listens_to(&waiter) == 1);
        wakes(guard, waiting);
    });
}

/// A name leads to another server, and connections to the earlier one are ended if nothing is asked over them (`timeout`). That does
/// not end those that listen, and nobody announces anything there any more.
#[test]
fn a_waiter_listens_to_the_server_that_its_node_is_now() {
    let (first, second) = (Server::start(), Server::start());
    let proxy = Proxy::start(first.port());
    let waiter = polls_rarely(proxy.url());
    let others = [&first, &second].map(|server| polls_rarely(server.url()));
    let guards = others.each_ref().map(|other| other.lock(NAME).expect("it is free"));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.try_lock_for(NAME, LIMIT * 3));
        wait_until("it listens", LIMIT, || listens_to(&waiter) == 1);
        proxy.lead_to(second.port());
        first.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        let is_heard_there = || {
            let listeners = second.try_command(&[b"PUBSUB", b"NUMSUB", CHANNEL]);
            matches!(listeners, Ok(redis::Value::Array(it)) if it[1] == redis::Value::Int(1))
        };
        wait_until("it listens there", LIMIT, is_heard_there);
        let [_first, second] = guards;
        wakes(second, waiting);
    });
}

/// Only the first connection is let in. A waiter asks over it until it gets the lock.
#[test]
fn further_connections_that_are_refused_cost_a_waiter_its_messages_and_nothing_else() {
    for refusal in [
        "-ERR max number of clients reached\r\n",
        "-DENIED Redis is running in protected mode because no password is set\r\n",
        "-BUSY Redis is busy running a script.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-NOTYET something else\r\n",
        "",
    ] {
        let connections = Arc::new(AtomicUsize::new(0));
        let is_free = Arc::new(AtomicBool::new(false));
        let (count, free) = (connections.clone(), is_free.clone());
        let url = fake::serve(move |words, writer| {
            if words[0] == "PING" && count.fetch_add(1, Ordering::SeqCst) > 0 {
                let _ = writer.write_all(refusal.as_bytes());
                return None;
            }
            let answer = match words[0].as_str() {
                _ if fake::is_probe(words) => fake::admit(&words[5]),
                "EVAL" | "EVALSHA" if free.load(Ordering::SeqCst) => b"*2\r\n:1\r\n:0\r\n".to_vec(),
                "EVAL" | "EVALSHA" => b"*2\r\n:0\r\n:60000\r\n".to_vec(),
                _ => fake::handshake("7.0.15", words).unwrap_or_else(|| b"+OK\r\n".to_vec()),
            };
            writer.write_all(&answer).ok()
        });
        let locks = builder(url).build().expect("valid settings");
        wait_connected(&locks);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| locks.try_lock_for(NAME, LIMIT));
            wait_until("a refusal", LIMIT, || connections.load(Ordering::SeqCst) >= 3);
            is_free.store(true, Ordering::SeqCst);
            let guard = waiting.join().expect("no panic");
            drop(guard.unwrap_or_else(|error| panic!("{refusal:?}: {error}")));
        });
    }
}
