//! The promises to threads.

mod support;

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use quorlock::{Builder, Error, FencingToken, Guard, Mutex, OptionalGuard as _, Quorlock};
use support::Servers;
use support::clients::{connected, fresh};

fn sent<T: Send + 'static>() {}
fn shared<T: Send + Sync + Clone + 'static>() {}

#[test]
fn clients_are_shared_and_guards_are_sent() {
    shared::<Quorlock>();
    shared::<Mutex>();
    shared::<Builder>();
    shared::<Error>();
    sent::<Guard>();
}

/// Takes a lock when its thread ends.
struct AtEnd {
    locks: Quorlock,
    told: Sender<Result<FencingToken, String>>,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        let locks = &self.locks;
        let lock = || {
            let guard = locks.lock("orders/42")?;
            let token = guard.token().expect("there is fencing");
            guard.unlock()?;
            // Another lock, whose guard is only dropped.
            drop(locks.try_lock("orders/43").optional()?);
            Ok(token)
        };
        let result = catch_unwind(AssertUnwindSafe(lock));
        let result = result.map_err(|_| "a panic".to_owned());
        let result = result.and_then(|result| result.map_err(|error: Error| error.to_string()));
        self.told.send(result).expect("it is waited for");
    }
}

thread_local! {
    static BEFORE: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    static AFTER: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Destructors of thread-locals run in any order, even in a thread that has not locked before.
/// Threads that want the same lock wait for each other there as elsewhere.
#[test]
fn a_thread_that_ends_may_lock() {
    const THREADS: usize = 8;
    let servers = Servers::start(3);
    let locks = connected(fresh(servers.urls()).node_timeout(Duration::from_secs(5)));
    let (told, tokens) = channel();
    thread::scope(|scope| {
        for i in 0..THREADS {
            let end = || AtEnd { locks: locks.clone(), told: told.clone() };
            let (before, after) = (end(), end());
            let locks = &locks;
            scope.spawn(move || {
                BEFORE.with(|end| *end.borrow_mut() = Some(before));
                if i % 2 == 0 {
                    locks.lock("orders/44").expect("three nodes").unlock().expect("three nodes");
                }
                AFTER.with(|end| *end.borrow_mut() = Some(after));
            });
        }
    });
    drop(told);
    let tokens: Result<HashSet<_>, _> = tokens.iter().collect();
    assert_eq!(tokens.expect("no thread failed").len(), 2 * THREADS);
    servers.wait_no_keys();
}

/// A hundred threads try for a name of their own each, at the same time, as soon as their client exists.
#[test]
fn a_hundred_names_are_tried_for_at_once() {
    const THREADS: usize = 100;
    let servers = Servers::start(3);
    let locks = fresh(servers.urls()).node_timeout(Duration::from_secs(5));
    let locks = locks.build().expect("the settings are valid");
    let together = Barrier::new(THREADS);
    let refused: Vec<String> = thread::scope(|scope| {
        let tries = |thread: usize| {
            let (locks, together) = (&locks, &together);
            move || {
                let once = |round: usize| {
                    together.wait();
                    match locks.try_lock(format!("orders/{thread}/{round}")) {
                        Ok(_) => None,
                        Err(error) => Some(error.to_string()),
                    }
                };
                (0..20).filter_map(once).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(tries(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(refused.is_empty(), "{} of {}: {}", refused.len(), 20 * THREADS, refused[0]);
}
