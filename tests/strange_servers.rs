//! Servers, or proxies, that break the rules.

mod support;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::{fresh, wait_connected};
use support::{Servers, fake, wait_until};

const LIMIT: Duration = Duration::from_secs(20);

fn client(url: String) -> Quorlock {
    connected(fresh([url]))
}

fn connected(builder: Builder) -> Quorlock {
    let locks = builder.max_ttl(Duration::from_secs(600)).build().expect("valid settings");
    wait_until("the node is connected", LIMIT, || locks.node_stats()[0].connected);
    locks
}

/// A surplus answer must not count as the answer to the next request: that would turn a
/// refusal into a grant.
fn answers_one_too_many(extra: &'static [u8]) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let url = fake::redis("7.0.15", move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        // The first acquire is granted, with a surplus answer before the grant.
        0 => {
            thread::sleep(Duration::from_millis(50)); // for the second one to come behind it
            [extra, b"*2\r\n:1\r\n:0\r\n"].concat()
        }
        // All other acquires are refused.
        _ => b"*2\r\n:0\r\n:60000\r\n".to_vec(),
    });
    let locks = client(format!("{url}?protocol=resp3"));
    thread::scope(|scope| {
        scope.spawn(|| drop(locks.try_lock("granted")));
        wait_until("the first one is asked for", LIMIT, || calls.load(Ordering::SeqCst) > 0);
        let second = locks.try_lock("refused");
        assert!(second.is_err(), "the server refused it: {second:?}");
    });
}

#[test]
fn a_push_message_is_no_answer() {
    answers_one_too_many(b">2\r\n+invalidate\r\n*0\r\n");
}

#[test]
fn a_stray_answer_ends_the_connection() {
    answers_one_too_many(b"+OK\r\n");
}

/// A request that a server did not run (NOSCRIPT) is sent a second time only if a caller still wants
/// the lock.
#[test]
fn a_lock_that_was_given_up_is_not_taken_by_a_second_copy() {
    let sources = Arc::new(AtomicUsize::new(0));
    let given_up = Arc::new(AtomicBool::new(false));
    let (counted, is_given_up) = (sources.clone(), given_up.clone());
    let url = fake::redis("7.0.15", move |command| match command {
        // The first acquire (granted), the first release, and the release after the flush.
        "EVAL" => match counted.fetch_add(1, Ordering::SeqCst) {
            0 => b"*2\r\n:1\r\n:0\r\n".to_vec(),
            _ => b":1\r\n".to_vec(),
        },
        _ => {
            wait_until("the caller gave up", LIMIT, || is_given_up.load(Ordering::SeqCst));
            b"-NOSCRIPT flushed\r\n".to_vec()
        }
    });
    // Time for the first answers on a busy machine.
    let locks = connected(fresh([url]).node_timeout(Duration::from_secs(1)));
    let guard = locks.try_lock("orders/42").expect("it is free");
    guard.unlock().expect("it confirms");
    assert_eq!(sources.load(Ordering::SeqCst), 2);
    let error = locks.try_lock("orders/42").expect_err("no answer in time");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    given_up.store(true, Ordering::SeqCst);
    wait_until("the release went out", LIMIT, || sources.load(Ordering::SeqCst) >= 3);
    drop(locks);
    assert_eq!(sources.load(Ordering::SeqCst), 3, "the acquire went out again");
}

#[test]
fn garbage_ends_no_worker() {
    let replies: [&[u8]; 9] = [
        b"$9223372036854775807\r\nx",
        b"*1000000000\r\n",
        b"$-5\r\n",
        b":99999999999999999999\r\n",
        b"\0\0\0\0",
        b"|1\r\n+a\r\n+b\r\n",
        b"-\r\n",
        b"-NOSCRIPT x\r\n",
        b"(123456789012345678901234567890\r\n",
    ];
    let nested = b"*1\r\n".repeat(200_000);
    for reply in replies.iter().map(|reply| reply.to_vec()).chain([nested]) {
        let shown = String::from_utf8_lossy(&reply[..reply.len().min(24)]).into_owned();
        let locks = client(fake::redis("7.0.15", move |_| reply.clone()));
        for _ in 0..3 {
            let error = locks.try_lock("orders/42").expect_err("that is no grant");
            assert_eq!(error.kind(), ErrorKind::NoQuorum, "{shown}: {error}");
            assert!(!error.to_string().contains("fault of quorlock"), "{shown}: {error}");
        }
    }
}

/// Each byte comes in time, but the whole answer does not.
#[test]
fn dribbled_bytes_hold_no_caller() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4_096];
                let version =
                    "redis_version:7.0.15\r\nrun_id:a1\r\nrole:master\r\nmaster_replid:b1\r\n";
                let info = format!("${}\r\n{version}\r\n", version.len());
                let time = "*2\r\n$1\r\n1\r\n$1\r\n0\r\n";
                let _ = stream.read(&mut request);
                let _ = write!(stream, "+PONG\r\n{time}{info}{info}{info}:1\r\n+OK\r\n");
                let _ = stream.read(&mut request);
                let _ =
                    stream.write_all(&[&fake::admit("")[..], info.repeat(2).as_bytes()].concat());
                let length = stream.read(&mut request).unwrap_or_default();
                let change = String::from_utf8_lossy(&request[..length]);
                let mark = change.lines().find(|line| line.starts_with("quorlock-mark"));
                let mark = fake::admit(mark.unwrap_or_default());
                let _ = stream.write_all(&[&mark[..], info.repeat(2).as_bytes()].concat());
                let _ = stream.read(&mut request);
                let _ = stream.write_all(b"$100000\r\n");
                while stream.write_all(b"x").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    let builder = fresh([format!("redis://127.0.0.1:{port}")]).max_ttl(Duration::from_secs(600));
    let locks = builder.node_timeout(Duration::from_millis(100)).build().expect("valid settings");
    wait_until("the node counts as down", LIMIT, || {
        let error = locks.try_lock("orders/42").expect_err("no answer is ever complete");
        error.to_string().contains("its answer began, and was not complete in time")
    });
    let start = Instant::now();
    let error = locks.close(Duration::from_millis(100)).expect_err("a release waits for the node");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(start.elapsed() < LIMIT, "the worker was waited for");
}

/// Two nodes are down, two hang, one refuses. The single refusal of five proves nothing.
#[test]
fn one_answer_of_five_is_no_quorum() {
    let mut servers = Servers::start(5);
    let builder = fresh(servers.urls())
        .max_ttl(Duration::from_secs(600))
        .node_timeout(Duration::from_secs(2));
    let locks = builder.build().expect("valid settings");
    wait_connected(&locks);
    servers[4].command(&["SET", "quorlock:orders/42", "somebody-else", "PX", "60000"]);
    servers.iter_mut().take(2).for_each(|server| server.kill());
    wait_until("two are known to be down", LIMIT, || {
        // An attempt that ends before a node's worker gets to it does not ask that node, so one try may not be enough.
        locks.try_lock("warm").optional().expect("three of five");
        locks.node_stats().iter().filter(|node| !node.connected).count() == 2
    });
    servers.iter_mut().skip(2).take(2).for_each(|server| server.pause());
    let error = locks.try_lock("orders/42").expect_err("one of five");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert_eq!(error.node_faults().len(), 4, "{error}");
}

/// If a majority is known to hang, a call fails at once.
#[test]
fn a_majority_that_was_given_up_is_not_waited_for() {
    let mut servers = Servers::start(3);
    let timeout = Duration::from_secs(4);
    let builder = fresh(servers.urls()).max_ttl(Duration::from_secs(600));
    let impatient = builder.clone().build().expect("valid settings");
    let locks = builder.node_timeout(timeout).ttl(timeout * 3).build().expect("valid settings");
    for locks in [&impatient, &locks] {
        wait_until("all nodes are connected", LIMIT, || {
            locks.node_stats().iter().all(|node| node.connected)
        });
    }
    servers.iter_mut().take(2).for_each(|server| server.pause());
    // A caller with a shorter time limit gets an answer by its own deadline.
    let start = Instant::now();
    let error = locks
        .try_lock_for("orders/42", Duration::from_millis(50))
        .expect_err("one of three answers");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(start.elapsed() < timeout / 2, "{:?}", start.elapsed());

    wait_until("two are given up", LIMIT, || {
        drop(impatient.try_lock("warm"));
        impatient.node_stats().iter().filter(|node| !node.connected).count() == 2
    });
    let error = impatient.try_lock("orders/42").expect_err("one of three");
    assert_eq!(error.node_faults().len(), 2, "{error}");
    assert!(error.node_faults().iter().all(|fault| !fault.what().contains("yet")), "{error}");
}

/// `close` and the end of the last clone together take the time limit of `close` at most. The drop of a clone alone
/// takes the node timeout at most.
#[test]
fn the_end_of_a_client_keeps_its_time() {
    let timeout = Duration::from_secs(10);
    let mut servers = Servers::start(3);
    let builder = fresh(servers.urls())
        .max_ttl(Duration::from_secs(600))
        .ttl(timeout * 3)
        .node_timeout(timeout);
    let client = || {
        let locks = builder.clone().build().expect("valid settings");
        wait_until("all nodes are connected", LIMIT, || {
            locks.node_stats().iter().all(|node| node.connected)
        });
        locks
    };
    let (closed, dropped) = (client(), client());
    let guards = [&closed, &dropped].map(|locks| locks.lock(format!("{locks:p}")).expect("free"));
    servers.iter_mut().take(2).for_each(|server| server.pause());
    drop(guards);

    let start = Instant::now();
    let error = closed.close(Duration::from_millis(100)).expect_err("one of three knows");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert!(start.elapsed() < timeout / 2, "close took {:?}", start.elapsed());

    let start = Instant::now();
    drop(dropped);
    assert!(start.elapsed() < timeout * 2, "the drop took {:?}", start.elapsed());
}
