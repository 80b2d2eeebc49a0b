//! There is one message for each loss, however it is found. That a stopped process hears of it, whose holder
//! looks first, is a matter of `tests/processes/`.
//!
//! `QUORLOCK_ROUNDS` says how often each case is tried.

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
/// Of locks that are lost for another reason than their time.
const LONG: Duration = Duration::from_secs(60);
/// Of locks that are lost for that.
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

/// What the holder of a lock is told.
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
    /// There is one message, and no second one, once the guard has gone; and one call.
    fn is_told_once(&self, reason: LossReason) -> bool {
        assert_eq!(self.caller, thread::current().id());
        let told = self.lost.recv_timeout(LIMIT);
        if told.is_err() {
            return false;
        }
        assert_eq!(told, Ok(reason));
        wait_until("the callback", LIMIT, || self.calls.load(Ordering::SeqCst) > 0);
        // It has nothing to send any more, since the last who could is gone.
        assert_eq!(self.lost.recv_timeout(LIMIT), Err(RecvTimeoutError::Disconnected));
        assert_eq!(self.calls.load(Ordering::SeqCst), 1);
        true
    }
}

/// Deletes the keys of that lock, which was just granted, from all nodes.
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

/// The keys are gone, and nobody knows before `finds` it.
#[track_caller]
fn is_told_of_keys(finds: impl Fn(Guard)) {
    let servers = Servers::start(3);
    let locks = client(&servers, LONG);
    let untold = (0..rounds()).filter(|round| {
        // Each time another one, on which nothing is left of the one before.
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

/// The holder looks all the time, so it is before the timetable as often as not, and the guard goes at once.
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

/// A callback may block, and may own what comes back to the lock: whoever finds the loss goes on.
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
