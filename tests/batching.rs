//! Group commit: requests that wait for a node go out in one write, and their scripts run in one call.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorlock::{Builder, Error, ErrorKind, Guard, OptionalGuard as _, Quorlock, Renewal};
use support::clients::{connected, fresh};
use support::kinds::KINDS;
use support::lua::with_includes;
use support::{Server, Servers, fake, wait_until};

const THREADS: usize = 64;
/// The number of times that each thread takes its lock.
const TIMES: usize = 20;
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// Settings with time for a healthy node to answer on a busy machine. Fresh servers have forgotten nothing, so
/// their quarantine is switched off.
fn builder(urls: impl IntoIterator<Item = String>) -> Builder {
    fresh(urls).node_timeout(Duration::from_secs(5))
}

/// Each thread takes its own free lock, named by `name`, again and again. Returns the error of each thread,
/// if it met one.
fn lock_in_threads(locks: &Quorlock, name: impl Fn(usize) -> String + Sync) -> Vec<Option<Error>> {
    in_threads(|i| {
        let name = name(i);
        let turn = || locks.try_lock(&name).optional()?.expect("it is free").unlock();
        (0..TIMES).find_map(|_| turn().err())
    })
}

/// Calls `work` in each thread with its number.
fn in_threads(work: impl Fn(usize) -> Option<Error> + Sync) -> Vec<Option<Error>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || work(i))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn many_threads_share_writes_and_calls() {
    let servers = Servers::start(3);
    let locks = connected(builder(servers.urls()));
    assert!(lock_in_threads(&locks, |i| format!("orders/{i}")).iter().all(Option::is_none));
    for (node, server) in locks.node_stats().into_iter().zip(&*servers) {
        // Some acquires are never sent: those of locks that were given back before their turn.
        assert!(node.writes > 0 && node.scripts > node.writes * 3 / 2, "{node:?}");
        let calls = server.script_calls();
        assert!(node.scripts > calls * 3 / 2, "{node:?}: {calls} calls");
    }
    servers.wait_no_keys();
}

/// Each kind has its own batch, or none, and the server forgets all scripts now and then.
#[test]
fn threads_with_locks_of_all_kinds_share_writes() {
    let servers = Servers::start(3);
    let locks = connected(builder(servers.urls()));
    let work = &|i: usize| {
        let name = format!("orders/{i}");
        let lock = KINDS[i % KINDS.len()].of(&locks, &[name.as_bytes()]);
        for turn in 0..40 {
            if turn % 10 == 0 && i < servers.len() {
                servers[i].command(&["SCRIPT", "FLUSH"]);
            }
            let guard = lock.try_lock().expect("three nodes").expect("it is free");
            guard.extend(Duration::from_secs(10)).expect("it is ours");
            guard.unlock().expect("it is ours");
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || work(i))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
    for node in locks.node_stats() {
        assert!(node.scripts > node.writes * 3 / 2, "{node:?}");
    }
    servers.wait_no_keys();
}

/// The server forgets the scripts now and then, in the middle of the work.
#[test]
fn a_batch_whose_script_was_forgotten_is_made_again() {
    let servers = Servers::start(3);
    let locks = connected(builder(servers.urls()));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for server in &*servers {
                    server.command(&["SCRIPT", "FLUSH"]);
                }
            }
        });
        let errors = lock_in_threads(&locks, |i| format!("orders/{i}"));
        over.store(true, Ordering::Relaxed);
        assert!(errors.iter().all(Option::is_none), "{errors:?}");
    });
    servers.wait_no_keys();
}

fn limited(servers: &Servers, rules: &str) -> Vec<String> {
    for server in &**servers {
        let user = ["ACL", "SETUSER", "locker", "on", ">secret"];
        server.command(&user.into_iter().chain(rules.split(' ')).collect::<Vec<_>>());
    }
    servers.urls().into_iter().map(|url| url.replace("://", "://locker:secret@")).collect()
}

/// A server refuses a whole batch because of one key that the user may not touch.
#[test]
fn one_call_that_is_refused_takes_no_other_along() {
    let servers = Servers::start(3);
    let rules = "~quorlock:mine/* ~{quorlock:mine/* ~*{quorlock}:mark &* +@all";
    let locks = connected(builder(limited(&servers, rules)));
    let is_mine = |i: usize| !i.is_multiple_of(8);
    let name = |i| if is_mine(i) { format!("mine/{i}") } else { format!("others/{i}") };
    for (i, error) in lock_in_threads(&locks, name).into_iter().enumerate() {
        match error {
            None => assert!(is_mine(i), "{i}"),
            Some(error) => {
                assert!(!is_mine(i), "{error}");
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.to_string().contains("lacks a permission"), "{error}");
            }
        }
    }
    servers.wait_no_keys();
}

/// A call that did not run must not count as a first copy whose reply was lost: then "not ours" would mean nothing.
#[test]
fn a_lock_that_was_lost_is_no_success_beside_calls_that_are_refused() {
    let servers = Servers::start(3);
    let rules = "~quorlock:mine/* ~{quorlock:mine/* ~*{quorlock}:mark &* +@all";
    let locks = connected(builder(limited(&servers, rules)));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for i in 0..THREADS {
            let (locks, over) = (&locks, &over);
            scope.spawn(move || {
                let name = if i.is_multiple_of(4) { "others" } else { "mine" };
                while !over.load(Ordering::Relaxed) {
                    if let Ok(guard) = locks.try_lock(format!("{name}/{i}")) {
                        drop(guard);
                    }
                }
            });
        }
        let mut wrong = 0;
        for i in 0..20 {
            let name = format!("mine/gone/{i}");
            // A renewal would repair the keys.
            let guard = locks.mutex(&name).renewal(Renewal::Manual).lock();
            let guard = guard.expect("a majority grants it");
            let key = format!("quorlock:{name}");
            for server in &*servers {
                // An acquire that is still on its way must not run after the deletion.
                wait_until("the key is there", LIMIT, || server.get(&key).is_some());
                server.command(&["DEL", &key]);
            }
            let lost = guard.unlock().is_err_and(|error| error.kind() == ErrorKind::Lost);
            wrong += usize::from(!lost);
        }
        over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, 0, "of 20 locks that were gone");
    });
}

/// A lock is given back without waiting, and tried again at once: the acquire runs after the release.
fn a_lock_that_was_dropped_is_free(servers: &Servers, urls: Vec<String>) {
    let locks = connected(builder(urls));
    let work = |i| (0..50).all(|_| locks.try_lock(format!("orders/{i}")).is_ok());
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || work(i))).collect();
        let free = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        assert_eq!(free.filter(|free| !free).count(), 0, "threads that found their lock held");
    });
    servers.wait_no_keys();
}

#[test]
fn releases_come_before_what_is_behind_them() {
    let servers = Servers::start(3);
    a_lock_that_was_dropped_is_free(&servers, servers.urls());
}

#[test]
fn releases_come_before_what_is_behind_them_without_the_permission_that_batches_need() {
    let servers = Servers::start(3);
    let urls = limited(&servers, "~* &* +@all -mget");
    a_lock_that_was_dropped_is_free(&servers, urls);
}

/// A batch then reads key by key, so an access list that is older than batches is still enough.
#[test]
fn without_the_permission_to_read_several_keys_no_call_goes_out_twice() {
    let servers = Servers::start(1);
    let locks = connected(builder(limited(&servers, "~* &* +@all -mget")));
    let errors = lock_in_threads(&locks, |i| format!("orders/{i}"));
    assert!(errors.iter().all(Option::is_none), "{errors:?}");
    let (scripts, calls) = (locks.node_stats()[0].scripts, servers[0].script_calls());
    assert_eq!(scripts, 2 * (THREADS * TIMES) as u64);
    assert!(scripts > calls * 3 / 2, "{calls} calls for {scripts} scripts");
    servers.wait_no_keys();
}

/// A batch reads the values for all calls of a run by one command.
#[test]
fn locks_with_different_lifetimes_are_taken_by_one_run() {
    let servers = Servers::start(1);
    let locks = connected(builder(servers.urls()).max_ttl(LIMIT));
    let errors = in_threads(|i| {
        let ttl = Duration::from_millis(10_000 + i as u64);
        let lock = locks.mutex(format!("orders/{i}")).ttl(ttl);
        (0..TIMES).find_map(|_| lock.lock().and_then(Guard::unlock).err())
    });
    assert!(errors.iter().all(Option::is_none), "{errors:?}");
    let (calls, reads) = (servers[0].script_calls(), servers[0].calls("mget"));
    let scripts = locks.node_stats()[0].scripts;
    assert!(scripts > calls * 3 / 2, "{calls} calls for {scripts} scripts");
    // Each thread has one request on its way, so a batch has two runs at most: locks that are taken, and given back.
    assert!(reads <= 2 * calls, "{reads} commands that read, in {calls} calls of scripts");
    servers.wait_no_keys();
}

/// The number of script calls on a server, including refused ones.
fn script_calls(server: &Server) -> u64 {
    let info = server.command(&["INFO", "commandstats"]);
    let info: String = redis::from_redis_value(info).expect("text");
    let scripts = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let figures = scripts.flat_map(|line| line.split([':', ',']));
    let counts = figures.filter_map(|figure| {
        figure.strip_prefix("calls=").or_else(|| figure.strip_prefix("rejected_calls="))
    });
    counts.map(|count| count.parse::<u64>().expect("a number")).sum()
}

/// The number of locks that are held, and given back in as few writes as possible.
const MANY: usize = 200;

fn many(locks: &Quorlock) -> Vec<Guard> {
    let lock = |i| locks.try_lock(format!("orders/{i}")).expect("it is free");
    (0..MANY).map(lock).collect()
}

/// Each call is refused once, and not once more for each other call.
#[test]
fn a_source_that_is_refused_is_not_sent_again_and_again() {
    let mut server = Server::start();
    server.command(&["ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all"]);
    let url = server.url().replace("://", "://locker:secret@");
    let locks = connected(builder([url]).max_ttl(LIMIT).ttl(LIMIT).node_timeout(LIMIT / 4));
    let guards = many(&locks);
    // The release script was not needed yet, and the acquire script stays known.
    server.command(&["ACL", "SETUSER", "locker", "-eval"]);
    let (calls, scripts) = (script_calls(&server), locks.node_stats()[0].scripts);
    server.pause();
    drop(guards);
    server.resume();
    // The first request may be in one write with the releases. The second one comes after all their consequences.
    let behind = [0, 1].map(|i| locks.try_lock(format!("behind/{i}")));
    let calls = script_calls(&server) - calls;
    let scripts = locks.node_stats()[0].scripts - scripts;
    let most = 4 * MANY as u64;
    assert!(calls >= MANY as u64, "{calls} calls of scripts");
    assert!(calls < most && scripts < most, "{calls} calls of scripts, for {scripts} requests");
    server.command(&["ACL", "SETUSER", "locker", "+eval"]);
    for taken in behind {
        let guard = taken.expect("its script is known, and it is free");
        guard.unlock().expect("the source goes out again, and is let in");
    }
}

/// Such a server may be a proxy, for example, that spreads the calls of a script over several servers.
#[test]
fn a_server_that_forgets_each_script_at_once_costs_a_few_calls_for_each() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = calls.clone();
    let acquire = with_includes(include_str!("../lua/mutex/acquire.lua"));
    let release = with_includes(include_str!("../lua/mutex/release.lua"));
    let url = fake::redis_of_words(move |words| {
        counted.fetch_add(1, Ordering::SeqCst);
        let answer = match (words[0].as_str(), words[1].as_str()) {
            ("EVAL", script) if script == acquire => "*2\r\n:1\r\n:0\r\n",
            ("EVAL", script) if script == release => ":1\r\n",
            ("EVAL", _) => ":0\r\n", // a batch, which does nothing
            _ => "-NOSCRIPT No matching script\r\n",
        };
        answer.as_bytes().to_vec()
    });
    let locks = connected(builder([url]).max_ttl(LIMIT).ttl(LIMIT).fencing(false));
    let guards = many(&locks);
    let before = calls.load(Ordering::SeqCst);
    drop(guards);
    locks.try_lock("behind").expect("it is free").unlock().expect("it is");
    let calls = calls.load(Ordering::SeqCst) - before;
    assert!(calls < 5 * MANY as u64, "{calls} calls");
}
