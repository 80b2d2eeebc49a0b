//! Each loss causes one message, in whatever way it is found. `tests/processes/` covers a stopped process whose holder
//! checks first.
//!
//! `QUORLOCK_ROUNDS` sets the number of rounds of each case.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use quorlock::{Builder, Error, ErrorKind, Guard, LossReason, Quorlock, Renewal};
use support::clients::{connected, fresh};
use support::{Servers, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
/// The TTL of locks that do not expire in the test.
const LONG: Duration = Duration::from_secs(60);
/// The TTL of locks that expire in the test.
const SHORT: Duration = Duration::from_millis(400);
const NAME: &str = "orders/42";

fn rounds() -> u32 {
    let rounds = std::env::var("QUORLOCK_ROUNDS");
    rounds.map_or(5, |rounds| rounds.parse().expect("a number"))
}

fn client(servers: &Servers, ttl: Duration) -> Quorlock {
    let builder: Builder = fresh(servers.urls());
    let builder = builder.max_ttl(LONG).ttl(ttl).node_timeout(ttl.min(LIMIT) / 2);
    connected(builder.renewal(Renewal::Manual))
}

/// The reports of a loss to the holder.
struct Told {
    lost: Receiver<LossReason>,
    calls: Arc<AtomicUsize>,
    caller: thread::ThreadId,
}

fn listen(guard: &Guard) -> Told {
    let calls = Arc::new(AtomicUsize::new(0));
    let (theirs, caller) = (calls.clone(), thread::current().id());
    guard.on_lost(move |_| {
        assert_ne!(thread::current().id(), caller, "it runs on the stack of who saw the loss");
        theirs.fetch_add(1, Ordering::SeqCst);
    });
    Told { lost: guard.lost().clone(), calls, caller }
}

impl Told {
    /// Returns true if there is one message and one call, and no second one once the guard has gone.
    fn is_told_once(&self, reason: LossReason) -> bool {
        assert_eq!(self.caller, thread::current().id());
        let told = self.lost.recv_timeout(LIMIT);
        if told.is_err() {
            return false;
        }
        assert_eq!(told, Ok(reason));
        wait_until("the callback", LIMIT, || self.calls.load(Ordering::SeqCst) > 0);
        // The channel has no sender any more.
        assert_eq!(self.lost.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
        assert_eq!(self.calls.load(Ordering::SeqCst), 1);
        true
    }
}

/// Deletes the keys of a lock that was just granted from all nodes.
fn delete_keys(servers: &Servers, name: &str) {
    let key = format!("quorlock:{name}");
    wait_until("all nodes have the key", LIMIT, || {
        servers.iter().all(|server| server.get(&key).is_some())
    });
    servers.iter().for_each(|server| drop(server.command(&["DEL", &key])));
}

fn is_lost(result: Result<(), Error>) {
    assert_eq!(result.expect_err("it is lost").kind(), ErrorKind::Lost);
}

/// The keys are gone, and no thread knows it before `finds` does.
#[track_caller]
fn is_told_of_keys(finds: impl Fn(Guard)) {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    let untold = (0..rounds()).filter(|round| {
        // Each round has another name, so that no key of the previous round is left.
        let name = format!("orders/{round}");
        let guard = locks.lock(&name).expect("all are healthy");
        let told = listen(&guard);
        delete_keys(&servers, &name);
        finds(guard);
        !told.is_told_once(LossReason::KeysGone)
    });
    let untold = untold.count();
    assert_eq!(untold, 0, "{untold} of {} losses were not told", rounds());
}

#[test]
fn an_unlock_that_finds_the_keys_gone_tells_of_the_loss() {
    is_told_of_keys(|guard| is_lost(guard.unlock()));
}

#[test]
fn an_extension_that_finds_the_keys_gone_tells_of_the_loss() {
    is_told_of_keys(|guard| is_lost(guard.extend(LONG)));
}

/// The holder checks all the time, so it is often earlier than the timer. The guard is dropped at once.
#[track_caller]
fn is_told_of_the_end(finds: impl Fn(Guard)) {
    let servers = Servers::start(3);
    let locks = client(&servers, SHORT);
    let untold = (0..rounds()).filter(|_| {
        let guard = locks.lock(NAME).expect("all are healthy");
        let told = listen(&guard);
        finds(guard);
        !told.is_told_once(LossReason::Expired)
    });
    let untold = untold.count();
    assert_eq!(untold, 0, "{untold} of {} losses were not told", rounds());
}

#[test]
fn a_check_that_finds_the_end_tells_of_the_loss() {
    is_told_of_the_end(|guard| {
        while guard.check().is_ok() {
            std::hint::spin_loop();
        }
    });
}

#[test]
fn the_drop_of_a_guard_whose_time_is_over_tells_of_the_loss() {
    is_told_of_the_end(|guard| {
        while !guard.remaining().is_zero() {
            std::hint::spin_loop();
        }
        drop(guard);
    });
}

#[test]
fn an_unlock_that_finds_the_end_tells_of_the_loss() {
    is_told_of_the_end(|guard| {
        while !guard.remaining().is_zero() {
            std::hint::spin_loop();
        }
        is_lost(guard.unlock());
    });
}

#[test]
fn a_lock_that_was_given_back_tells_of_nothing() {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    for unlock in [true, false] {
        let guard = locks.lock(NAME).expect("all are healthy");
        let told = listen(&guard);
        if unlock {
            guard.unlock().expect("it is ours");
        } else {
            drop(guard);
        }
        assert_eq!(told.lost.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
        assert_eq!(told.calls.load(Ordering::SeqCst), 0);
    }
}

/// A callback may block, and may own handles of the lock. The thread that finds the loss goes on.
#[test]
fn a_callback_that_blocks_holds_up_no_unlock() {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    let guard = locks.lock(NAME).expect("all are healthy");
    let (go, gone) = crossbeam_channel::bounded::<()>(0);
    guard.on_lost(move |_| assert!(gone.recv().is_err(), "nothing is sent"));
    delete_keys(&servers, NAME);
    is_lost(guard.unlock());
    drop(go);
}
