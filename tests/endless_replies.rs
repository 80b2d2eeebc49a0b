//! Servers with endless answers. They cost no more than a connection: neither memory, nor a thread that
//! reads for ever, nor the locks on other nodes.

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use support::clients::fresh;
use support::fake::{Flood, flooding, is_probe};
use support::{Servers, wait_until};

/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// More than all answers within the limits need at a time. Without limits, it is exceeded in less
/// than a second.
const MEMORY_KB: u64 = 64 * 1024;

/// The beginning of an answer that is a list, a line or a string, and its endless continuation.
const ENDLESS: [(&str, &str); 3] =
    [("*2147483647\r\n", ":1\r\n"), ("+", "a"), ("$2147483647\r\n", "a")];

/// Serialises the tests, since their figures are those of the whole process.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock()
}

fn rss_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The number of the library's threads.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").expect("Linux");
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("quorlock-")).count()
}

/// Waits until `done`. Fails if the process grows meanwhile.
#[track_caller]
fn small_until(what: &str, before: u64, mut done: impl FnMut() -> bool) {
    wait_until(what, LIMIT, || {
        let grown = rss_kb().saturating_sub(before);
        assert!(grown < MEMORY_KB, "{what}: {grown} KB more than before");
        done()
    });
}

fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    // On a busy machine, even the beginning of an answer may be late.
    fresh(urls).node_timeout(Duration::from_secs(2))
}

fn one_is_connected(locks: &Quorlock) {
    wait_until("the node is connected", LIMIT, || locks.node_stats()[0].connected);
}

/// Drops the client, and waits until its threads and connections have gone.
#[track_caller]
fn leaves(locks: Quorlock, flood: &Flood, before: u64) {
    drop(locks);
    small_until("no thread is left", before, || threads() == 0);
    small_until("nobody reads", before, || flood.now.load(Ordering::SeqCst) == 0);
}

#[test]
fn on_connecting() {
    let _one = one_at_a_time();
    for (begin, more) in ENDLESS {
        let before = rss_kb();
        let (url, flood) = flooding(|words| words[0] == "PING", begin, more, |_| Vec::new());
        let locks = builder([url]).build().expect("valid settings");
        small_until("it is given up again and again", before, || {
            flood.before.load(Ordering::SeqCst) >= 4
        });
        let error = locks.try_lock("orders/42").expect_err("it never makes sense");
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        let text = error.to_string();
        assert!(text.contains("longer than") && text.contains("proxy"), "{begin:?}: {text}");
        leaves(locks, &flood, before);
    }
}

#[test]
fn on_logging_in() {
    let _one = one_at_a_time();
    for (begin, more) in ENDLESS {
        let before = rss_kb();
        let (url, flood) = flooding(|words| words[0] == "HELLO", begin, more, |_| Vec::new());
        let locks = builder([format!("{url}?protocol=resp3")]).build().expect("valid settings");
        small_until("it is given up", before, || flood.before.load(Ordering::SeqCst) >= 2);
        let error = locks.try_lock("orders/42").expect_err("it never makes sense").to_string();
        assert!(error.contains("longer than"), "{begin:?}: {error}");
        leaves(locks, &flood, before);
    }
}

/// The worker carries the next request over a connection of its own.
#[test]
fn on_a_request() {
    let _one = one_at_a_time();
    for (begin, more) in ENDLESS {
        let before = rss_kb();
        let requests = Arc::new(AtomicUsize::new(0));
        let first = move |words: &[String]| {
            words[0].starts_with("EVAL")
                && !is_probe(words)
                && requests.fetch_add(1, Ordering::SeqCst) == 0
        };
        // A release, and then an acquire.
        let (url, flood) = flooding(first, begin, more, |_| b"*2\r\n:1\r\n:0\r\n".to_vec());
        let locks = builder([url]).build().expect("valid settings");
        one_is_connected(&locks);
        let error = locks.try_lock("orders/42").expect_err("that is no grant");
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{begin:?}: {error}");
        small_until("the worker is free", before, || flood.now.load(Ordering::SeqCst) == 0);
        small_until("it serves again", before, || locks.try_lock("orders/43").is_ok());
        leaves(locks, &flood, before);
    }
}

/// A majority of good nodes grants and releases as usual.
#[test]
fn other_nodes_do_not_care() {
    let _one = one_at_a_time();
    let servers = Servers::start(2);
    for (begin, more) in ENDLESS {
        let before = rss_kb();
        let script = |words: &[String]| words[0].starts_with("EVAL");
        let (url, flood) = flooding(script, begin, more, |_| Vec::new());
        let builder = builder(servers.urls().into_iter().chain([url]));
        let locks = builder.build().expect("valid settings");
        small_until("it has flooded us", before, || flood.now.load(Ordering::SeqCst) > 0);
        let start = Instant::now();
        for _ in 0..100 {
            let guard = locks.try_lock("orders/42").expect("it is free");
            guard.unlock().expect("two of three");
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        small_until("it is given up", before, || flood.before.load(Ordering::SeqCst) > 0);
        leaves(locks, &flood, before);
    }
}

/// A waiter listens to all nodes.
#[test]
fn on_listening() {
    let _one = one_at_a_time();
    let servers = Servers::start(2);
    for (begin, more) in ENDLESS {
        let before = rss_kb();
        let listens = |words: &[String]| words[0] == "SUBSCRIBE";
        let (url, flood) = flooding(listens, begin, more, |_| b"*2\r\n:0\r\n:9000\r\n".to_vec());
        let builder = builder(servers.urls().into_iter().chain([url]));
        let locks = builder.clone().build().expect("valid settings");
        // Held by another client, so that ours needs the message of its release.
        let holder = builder.build().expect("valid settings");
        for locks in [&locks, &holder] {
            wait_until("all nodes are connected", LIMIT, || {
                locks.node_stats().iter().all(|node| node.connected)
            });
        }
        let guard = holder.try_lock("orders/42").expect("it is free");
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                locks.mutex("orders/42").try_lock_for(LIMIT).optional().map(|guard| guard.is_some())
            });
            small_until("it is given up", before, || flood.before.load(Ordering::SeqCst) > 1);
            guard.unlock().expect("two of three");
            assert!(waits.join().expect("no panic").expect("two of three"), "it was free");
        });
        drop(holder);
        leaves(locks, &flood, before);
    }
}

/// The answer is short, but so deep that a recursive reader may run out of stack.
#[test]
fn lists_in_lists() {
    let _one = one_at_a_time();
    let before = rss_kb();
    let requests = Arc::new(AtomicUsize::new(0));
    let once = move |_: &str| match requests.fetch_add(1, Ordering::SeqCst) {
        0 => [b"*1\r\n".repeat(40), b":1\r\n".to_vec()].concat(),
        _ => b":1\r\n".to_vec(),
    };
    let (url, flood) = flooding(|_| false, "", "", once);
    let locks = builder([url]).build().expect("valid settings");
    one_is_connected(&locks);
    let error = locks.try_lock("orders/42").expect_err("that is no grant").to_string();
    assert!(error.contains("lists in lists"), "{error}");
    leaves(locks, &flood, before);
}
