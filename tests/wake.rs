//! Releases are reported to waiters. A lost report costs a moment and nothing else.
//!
//! Where only a message may explain that a waiter got a lock, the waiter checks so rarely that it would
//! give up before.

mod support;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quorlock::{Builder, Guard, OptionalGuard as _, Quorlock};
use redis::Value;
use support::clients::{fresh, requests};
use support::proxy::Proxy;
use support::{Server, Servers, wait_until};

/// Longer than any step takes on a busy machine, and shorter than the pause of [`polls_rarely`].
const LONG: Duration = Duration::from_secs(35);

fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    fresh(urls)
        .node_timeout(Duration::from_secs(5))
        .max_ttl(Duration::from_secs(600))
        .ttl(Duration::from_secs(600))
}

fn client(servers: &[Server]) -> Quorlock {
    builder(servers.iter().map(Server::url)).build().expect("valid settings")
}

/// A client that checks by itself only every 45 s or more, once it is listening.
fn polls_rarely(urls: impl IntoIterator<Item = String>) -> Quorlock {
    rarely(builder(urls)).build().expect("valid settings")
}

fn rarely(builder: Builder) -> Builder {
    builder.backoff(Duration::from_millis(5), Duration::from_secs(60))
}

/// The number of the server's connections with a subscription, of all clients.
fn listeners(server: &Server) -> usize {
    match server.command(&["CLIENT", "LIST", "TYPE", "pubsub"]) {
        Value::BulkString(list) => {
            list.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).count()
        }
        Value::VerbatimString { text, .. } => text.lines().count(),
        other => panic!("a list of clients is text: {other:?}"),
    }
}

/// Waits until those nodes have confirmed the client's subscriptions to that many locks.
fn wait_listening(locks: &Quorlock, nodes: &[usize], count: usize) {
    wait_until("the subscriptions", LONG, || {
        let stats = locks.node_stats();
        nodes.iter().all(|node| stats[*node].listened_to == count)
    });
}

/// Gives `guard` back once `waiter` waits for its lock and listens to those nodes. The waiter must get the lock.
fn hand_over(guard: Guard, name: &str, waiter: &Quorlock, nodes: &[usize]) -> Guard {
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.try_lock_for(name, LONG));
        wait_listening(waiter, nodes, 1);
        guard.unlock().expect("it was ours");
        waiting.join().expect("no panic").expect("it was given back long before")
    })
}

#[test]
fn a_lock_that_is_given_back_goes_to_a_waiter_at_once() {
    for n in [1, 2, 3, 5] {
        let servers = Servers::start(n);
        let (one, other) = (polls_rarely(servers.urls()), polls_rarely(servers.urls()));
        let all: Vec<_> = (0..n).collect();
        let mut guard = one.lock("orders/42").expect("it is free");
        for _ in 0..5 {
            guard = hand_over(guard, "orders/42", &other, &all);
            guard = hand_over(guard, "orders/42", &one, &all);
        }
        guard.unlock().expect("it was ours");
        servers.wait_no_keys();
    }
}

#[test]
fn by_drop_as_well_and_in_one_process() {
    let servers = Servers::start(3);
    // In a local queue, all waiters but the first would wait for their turn instead of a message.
    let builder = rarely(builder(servers.urls())).local_queue(false);
    let locks = builder.build().expect("valid settings");
    let guard = locks.lock("orders/42").expect("it is free");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let guard = locks.try_lock_for("orders/42", LONG).optional().expect("three nodes");
                drop(guard.expect("it is given back, and so does everybody"));
            });
        }
        wait_listening(&locks, &[0, 1, 2], 1);
        drop(guard);
    });
}

/// In one process, without a local queue: each waiter listens before it asks, and gets the messages of its own process.
#[test]
fn from_thread_to_thread_of_one_client() {
    let servers = Servers::start(3);
    let locks = rarely(builder(servers.urls())).local_queue(false).build().expect("valid settings");
    let other = polls_rarely(servers.urls());
    let first = other.lock("orders/42").expect("it is free");
    let mut guard = hand_over(first, "orders/42", &locks, &[0, 1, 2]);
    for _ in 0..10 {
        let before = requests(&locks);
        guard = thread::scope(|scope| {
            let next = scope.spawn(|| locks.try_lock_for("orders/42", LONG));
            wait_until("a try", LONG, || requests(&locks) > before);
            guard.unlock().expect("it was ours");
            next.join().expect("no panic").expect("it was given back long before")
        });
    }
    guard.unlock().expect("it was ours");
}

/// One node of three reports no releases, and each node has its turn. `src/core/acquire/tests/machine.rs` covers which
/// node is asked first, and whose answer is enough.
#[test]
fn a_node_that_is_not_heard_is_not_waited_for() {
    let servers = Servers::start(3);
    let mute = ["+publish", "+unsubscribe"];
    let all = [&mute[..], &["+subscribe"]].concat();
    for deaf in 0..3 {
        let urls = limited(&servers, &all, &["&*"]);
        limited(&servers[deaf..=deaf], &mute, &["&*"]);
        let heard: Vec<_> = (0..3).filter(|node| *node != deaf).collect();
        let [one, other] = [(); 2].map(|()| polls_rarely(urls.clone()));
        let mut guard = one.lock("orders/42").expect("it is free");
        guard = hand_over(guard, "orders/42", &other, &heard);
        guard = hand_over(guard, "orders/42", &one, &heard);
        guard.unlock().expect("it was ours");
        assert_eq!(other.node_stats()[deaf].listened_to, 0);
    }
}

#[test]
fn a_dead_and_a_hung_node_are_not_missed() {
    let mut servers = Servers::start(5);
    let (one, other) = (polls_rarely(servers.urls()), polls_rarely(servers.urls()));
    let guard = one.lock("orders/42").expect("it is free");
    servers[1].kill();
    servers[3].pause();
    let guard = hand_over(guard, "orders/42", &other, &[0, 2, 4]);
    let guard = hand_over(guard, "orders/42", &one, &[0, 2, 4]);
    servers[3].resume();
    servers[1].restart_empty();
    guard.unlock().expect("it was ours");
}

/// No message is published when a key expires.
#[test]
fn a_lock_that_ends_by_its_time_is_found_by_its_time() {
    let servers = Servers::start(3);
    for server in servers.iter() {
        server.command(&["SET", "quorlock:orders/42", "somebody else's", "PX", "1500"]);
    }
    let locks = polls_rarely(servers.urls());
    let guard = locks.try_lock_for("orders/42", LONG).optional().expect("three nodes");
    guard.expect("it has ended").unlock().expect("it is ours");
}

/// A waiter whose connection breaks may have missed a message, and checks the lock when it listens again.
#[test]
fn a_connection_that_is_killed_costs_nothing() {
    let servers = Servers::start(3);
    let (holder, waiter) = (client(&servers), polls_rarely(servers.urls()));
    for _ in 0..5 {
        let guard = holder.lock("orders/42").expect("it is free");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waiter.try_lock_for("orders/42", LONG));
            wait_listening(&waiter, &[0, 1, 2], 1);
            for server in servers.iter() {
                server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
            }
            guard.unlock().expect("it was ours");
            let guard = waiting.join().expect("no panic").expect("it is given back");
            guard.unlock().expect("it is ours");
        });
    }
}

/// URLs of a user with the permissions for `commands` and `channels` only.
fn limited(servers: &[Server], commands: &[&str], channels: &[&str]) -> Vec<String> {
    let needed = "+ping +time +info +eval +evalsha +set +get +del +type +pttl +pexpire";
    let user = ["ACL", "SETUSER", "locker", "reset", "on", ">secret", "~*", "resetchannels"];
    for server in servers {
        let words = user.into_iter().chain(needed.split(' ')).chain(commands.iter().copied());
        server.command(&words.chain(channels.iter().copied()).collect::<Vec<_>>());
    }
    servers.iter().map(|server| server.url().replace("://", "://locker:secret@")).collect()
}

/// All messages are lost: the subscriptions are confirmed, but nothing is published.
#[test]
fn if_nothing_is_told_the_waiter_looks_by_itself() {
    let servers = Servers::start(3);
    let mute = limited(&servers, &["+subscribe", "+unsubscribe"], &["&*"]);
    let [one, other] = [(); 2].map(|()| builder(mute.clone()).build().expect("valid settings"));
    let mut guard = one.lock("orders/42").expect("it is free");
    guard = hand_over(guard, "orders/42", &other, &[0, 1, 2]);
    guard = hand_over(guard, "orders/42", &one, &[0, 1, 2]);
    guard.unlock().expect("who may not publish gives back all the same");
    servers.wait_no_keys();
}

/// A network that loses every message to subscribers, and nothing else.
#[test]
fn if_every_message_is_lost_the_waiter_looks_by_itself() {
    const HAND_OVERS: usize = 4;
    let servers = Servers::start(3);
    let proxies: Vec<_> = servers.iter().map(|server| Proxy::start(server.port())).collect();
    let urls = || proxies.iter().map(Proxy::url);
    let [one, other] = [(); 2].map(|()| builder(urls()).build().expect("valid settings"));
    proxies.iter().for_each(Proxy::swallow_messages);
    let mut guard = one.lock("orders/42").expect("it is free");
    let begun = Instant::now();
    for turn in 0..HAND_OVERS {
        let waiter = if turn % 2 == 0 { &other } else { &one };
        guard = hand_over(guard, "orders/42", waiter, &[0, 1, 2]);
    }
    // Each hand-over takes the pause between two checks, a second, and the delay of a busy machine.
    assert!(begun.elapsed() < LONG, "it took {:?}", begun.elapsed());
    guard.unlock().expect("it was ours");
    // A holder need not have all nodes: one may have refused it just before it got the previous release.
    let majority = 2;
    wait_until("the lost messages", LONG, || {
        proxies.iter().map(Proxy::swallowed).sum::<usize>() >= HAND_OVERS * majority
    });
    servers.wait_no_keys();
}

#[test]
fn a_user_who_may_not_listen_polls() {
    let servers = Servers::start(3);
    for (commands, channels) in [
        (&["+publish"][..], &["&*"][..]),
        (&["+publish", "+subscribe", "+unsubscribe"], &[]),
        (&["+publish", "+subscribe", "+unsubscribe"], &["&{other:*"]),
    ] {
        let urls = limited(&servers, commands, channels);
        let [one, other] = [(); 2].map(|()| builder(urls.clone()).build().expect("valid settings"));
        let guard = one.lock("orders/42").expect("it is free");
        let guard = thread::scope(|scope| {
            let waiting = scope.spawn(|| other.try_lock_for("orders/42", LONG));
            // The client has tried, and would be listening if it could.
            wait_until("some tries", LONG, || {
                other.node_stats().iter().all(|node| node.scripts > 9)
            });
            guard.unlock().expect("it was ours");
            waiting.join().expect("no panic").expect("it was given back")
        });
        guard.unlock().expect("it was ours");
        assert!(other.node_stats().iter().all(|node| node.listened_to == 0), "nobody listens");
    }
}

#[test]
fn the_documented_permissions_are_enough() {
    let servers = Servers::start(3);
    let commands = ["+publish", "+subscribe", "+unsubscribe"];
    let urls = limited(&servers, &commands, &["&{quorlock:*"]);
    let [one, other] = [(); 2].map(|()| polls_rarely(urls.clone()));
    let guard = one.lock("orders/42").expect("it is free");
    hand_over(guard, "orders/42", &other, &[0, 1, 2]).unlock().expect("it was ours");
}

#[test]
fn hundreds_of_waiters_share_one_connection_a_node_that_ends_when_nobody_waits() {
    const NAMES: usize = 300;
    let servers = Servers::start(3);
    let (holder, waiter) = (client(&servers), polls_rarely(servers.urls()));
    assert!(servers.iter().all(|server| listeners(server) == 0));
    let name = |i: usize| format!("orders/{i}");
    let guards: BTreeMap<_, _> =
        (0..NAMES).map(|i| (i, holder.lock(name(i)).expect("it is free"))).collect();
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..NAMES)
            .map(|i| {
                let waiter = &waiter;
                scope.spawn(move || waiter.try_lock_for(name(i), LONG))
            })
            .collect();
        wait_listening(&waiter, &[0, 1, 2], NAMES);
        assert!(servers.iter().all(|server| listeners(server) == 1), "one for all of them");
        drop(guards);
        for waiter in waiting {
            let guard = waiter.join().expect("no panic").expect("it is given back");
            guard.unlock().expect("it is ours");
        }
    });
    wait_until("the end of the connections", LONG, || {
        servers.iter().all(|server| listeners(server) == 0)
    });
    wait_listening(&waiter, &[0, 1, 2], 0);
    // The waiter's subscription begins anew.
    let guard = holder.lock("orders/42").expect("it is free");
    hand_over(guard, "orders/42", &waiter, &[0, 1, 2]).unlock().expect("it was ours");
}

#[test]
fn the_end_of_a_client_ends_its_connections() {
    let servers = Servers::start(3);
    let holder = client(&servers);
    let guard = holder.lock("orders/42").expect("it is free");
    let waiter = polls_rarely(servers.urls());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.try_lock_for("orders/42", LONG));
        wait_listening(&waiter, &[0, 1, 2], 1);
        waiter.clone().close(Duration::from_secs(5)).expect("nothing is to be given back");
        assert!(waiting.join().expect("no panic").is_err(), "it was closed");
    });
    drop(waiter);
    wait_until("the end of the connections", LONG, || {
        servers.iter().all(|server| listeners(server) == 0)
    });
    guard.unlock().expect("it was ours");
}

/// Each client takes the lock again as soon as it has given it back. An acquire behind a release on the same
/// connection is the first at every node, so the holder could keep the lock for ever.
#[test]
fn clients_that_take_a_lock_again_and_again_take_turns() {
    const EACH: usize = 100;
    let servers = Servers::start(3);
    let clients = [(); 4].map(|()| builder(servers.urls()).build().expect("valid settings"));
    let served = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for (i, locks) in clients.iter().enumerate() {
            let served = &served;
            scope.spawn(move || {
                while served.lock().len() < EACH * 4 {
                    let guard = locks.lock("orders/42").expect("three nodes");
                    thread::sleep(Duration::from_millis(1));
                    served.lock().push(i);
                    drop(guard);
                }
            });
        }
    });
    let served = served.into_inner();
    for i in 0..clients.len() {
        let turns: Vec<_> = served.iter().enumerate().filter(|(_, who)| **who == i).collect();
        assert!(turns.len() > EACH / 3, "client {i} was served {} times: {served:?}", turns.len());
        let between = turns.windows(2).map(|two| two[1].0 - two[0].0).max();
        assert!(between < Some(EACH), "client {i} waited for {between:?} others: {served:?}");
    }
}
