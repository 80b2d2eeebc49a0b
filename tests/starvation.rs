//! Callers that plain order would starve get their lock, and a caller that gives up blocks no other one.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;
use quorlock::{Builder, ErrorKind, OptionalGuard as _, Quorlock};
use redis::Value;
use support::clients::fresh;
use support::{Server, Servers, wait_until};

/// Far longer than any wait in these tests, even on a busy machine, but shorter than the waits without reservations.
const SOON: Duration = Duration::from_secs(10);

/// Time for an answer on a busy machine.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for which other callers hold a lock.
const MOMENT: Duration = Duration::from_millis(5);

fn client(servers: &Servers) -> Quorlock {
    settings(servers).build().expect("valid settings")
}

fn settings(servers: &Servers) -> Builder {
    fresh(servers.iter().map(Server::url)).node_timeout(NODE_TIMEOUT)
}

/// Does `work` while `others` run again and again, in a thread each.
fn beside(others: &[&(dyn Fn() + Sync)], work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for other in others {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    other();
                }
            });
        }
        // The threads end even if the work panics.
        let _over = OnDrop(&over);
        work();
    });
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn no_reservations(servers: &Servers) {
    wait_until("the end of the reservations", SOON, || {
        let left = |server: &Server| server.command(&["KEYS", "*:reserved"]);
        servers.iter().all(|server| left(server) == Value::Array(Vec::new()))
    });
}

/// Each name's queue of that client passes its name on by itself, so both are free together only by chance.
#[test]
fn a_lock_with_two_names_is_had_beside_threads_that_take_them_one_by_one() {
    let servers = Servers::start(3);
    let (singles, both) = (client(&servers), client(&servers));
    let takes = |name: &'static str| {
        let singles = &singles;
        move || {
            let guard = singles.lock(name).expect("a majority is there");
            thread::sleep(MOMENT);
            drop(guard);
        }
    };
    let (a, b) = (takes("a"), takes("b"));
    beside(&[&a, &a, &a, &b, &b], || {
        let both = both.multi_mutex(["a", "b"]);
        for _ in 0..4 {
            let guard = both.try_lock_for(SOON).optional().expect("a majority is there");
            guard.expect("its turn comes").unlock().expect("it was ours");
            // Out of step with the threads: a caller that asks again at once often comes when both names are given back.
            thread::sleep(Duration::from_millis(500));
        }
    });
    no_reservations(&servers);
}

/// The caller of both names waits for the thread. The thread waits for that caller, which began to wait earlier.
#[test]
fn a_thread_that_holds_one_name_gets_the_other_beside_a_caller_of_both() {
    let servers = Servers::start(3);
    let (thread, both) = (client(&servers), client(&servers));
    let b = thread.lock("b").expect("a majority is there");
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let guard = both.multi_mutex(["a", "b"]).try_lock_for(SOON);
            guard.expect("its turn comes").unlock()
        });
        let reserved = |server: &Server| server.get("{quorlock:a}:reserved").is_some();
        wait_until("the reservation", SOON, || servers.iter().all(reserved));
        let a = thread.try_lock_for("a", SOON).optional().expect("a majority is there");
        a.expect("the reservation rests").unlock().expect("it was ours");
        b.unlock().expect("it was ours");
        waits.join().expect("no panic").expect("it was ours");
    });
    no_reservations(&servers);
}

/// Each caller meets the partial grants of others on the remaining servers.
#[test]
fn in_an_outage_everybody_who_waits_is_told_in_time() {
    let mut servers = Servers::start(5);
    let timeout = Duration::from_secs(5);
    let built = || settings(&servers).no_quorum_timeout(timeout).build();
    let clients: Vec<_> = (0..8).map(|_| built().expect("valid settings")).collect();
    for client in &clients {
        client.lock("a").expect("a majority is there").unlock().expect("it was ours");
    }
    (0..3).for_each(|server| servers[server].kill());
    thread::scope(|scope| {
        let waits = |client: &Quorlock| {
            let began = Instant::now();
            let error = client.lock("a").map(drop).expect_err("three of five are gone");
            (error.kind(), began.elapsed())
        };
        let calls: Vec<_> =
            clients.iter().map(|client| scope.spawn(move || waits(client))).collect();
        for call in calls {
            let (kind, waited) = call.join().expect("no panic");
            assert_eq!(kind, ErrorKind::NoQuorum);
            assert!(timeout <= waited && waited < SOON, "{waited:?}");
        }
    });
}

#[test]
fn a_mutex_is_had_beside_readers_of_the_same_name() {
    let servers = Servers::start(3);
    let (one, other, exclusive) = (client(&servers), client(&servers), client(&servers));
    let reads = |locks: &Quorlock| {
        let lock = locks.rw_lock("a");
        move || {
            let guard = lock.read().expect("a majority is there");
            thread::sleep(MOMENT);
            drop(guard);
        }
    };
    let (one, other) = (reads(&one), reads(&other));
    beside(&[&one, &one, &one, &one, &other, &other, &other, &other], || {
        for _ in 0..2 {
            let guard = exclusive.try_lock_for("a", SOON).optional().expect("a majority is there");
            guard.expect("its turn comes").unlock().expect("it was ours");
        }
    });
    no_reservations(&servers);
}

/// Takes one of that many permits, and holds it for a moment.
fn takes_permit(locks: &Quorlock, permits: u32) -> impl Fn() + Sync + use<> {
    let semaphore = locks.semaphore("a", permits);
    move || {
        let permit = semaphore.acquire().expect("another number of permits passes");
        thread::sleep(MOMENT); // how long it is held
        drop(permit);
    }
}

#[test]
fn all_permits_are_had_beside_callers_of_one() {
    let servers = Servers::start(3);
    let (one, other, all) = (client(&servers), client(&servers), client(&servers));
    let (one, other) = (takes_permit(&one, 4), takes_permit(&other, 4));
    beside(&[&one, &one, &one, &one, &other, &other, &other, &other], || {
        let all = all.semaphore("a", 4);
        for _ in 0..4 {
            let guard = all.many(4).try_acquire_for(SOON).optional().expect("a majority is there");
            guard.expect("its turn comes").unlock().expect("they were ours");
        }
    });
    no_reservations(&servers);
}

/// A rolling deployment changes the number of permits. Holds of old processes overlap, so that there is always one.
#[test]
fn a_new_number_of_permits_is_had_beside_callers_with_the_old_one() {
    let servers = Servers::start(3);
    let (one, other, new) = (client(&servers), client(&servers), client(&servers));
    let (one, other) = (takes_permit(&one, 6), takes_permit(&other, 6));
    beside(&[&one, &one, &one, &other, &other, &other], || {
        let new = new.semaphore("a", 4);
        for _ in 0..4 {
            let permit = new.try_acquire_for(SOON).optional().expect("the other number passes");
            permit.expect("its turn comes").unlock().expect("it was ours");
        }
    });
    no_reservations(&servers);
}

/// A refused writer reserves the lock, and checks again once a minute. When it gives up, the next reader does not
/// wait for anything.
#[test]
fn a_writer_that_gives_up_keeps_no_reader_out() {
    let servers = Servers::start(3);
    let (holder, reader) = (client(&servers), client(&servers));
    let rarely = settings(&servers).backoff(MOMENT, Duration::from_secs(60));
    let writer = rarely.build().expect("valid settings");
    let guard = holder.rw_lock("a").read().expect("a majority is there");
    let reserved = |server: &Server| server.get("{quorlock:a}:reserved").is_some();
    let is_reserved = || {
        wait_until("the reservation", SOON, || servers.iter().all(reserved));
        let lock = reader.rw_lock("a");
        let refused = lock.try_read().optional().expect("a majority is there").is_none();
        assert!(refused, "a writer waits, and goes first");
    };
    let reads = || {
        let guard = reader.rw_lock("a").try_read_for(SOON).optional().expect("a majority is there");
        guard.expect("nobody waits to write").unlock().expect("it was ours");
        no_reservations(&servers);
    };
    // Its time limit ends.
    let lock = writer.rw_lock("a");
    assert!(
        lock.try_write_for(Duration::from_millis(1_500))
            .optional()
            .expect("a majority is there")
            .is_none()
    );
    reads();
    // It is cancelled.
    let (cancel, cancelled) = bounded(1);
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock.write_within(&cancelled).map(drop));
        is_reserved();
        cancel.send(()).expect("it waits");
        waits.join().expect("no panic").expect_err("it was cancelled");
    });
    reads();
    // Its client is closed.
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock.write().map(drop));
        is_reserved();
        writer.clone().close(SOON).expect("nothing is to be given back");
        waits.join().expect("no panic").expect_err("it was closed");
    });
    reads();
    guard.unlock().expect("it was ours");
}

/// A caller that waits only for a moment sends its priority, but leaves no reservation. Servers keep each script that they got.
#[test]
fn a_call_that_has_reserved_nothing_withdraws_nothing() {
    let servers = Servers::start(3);
    let (holder, waiter) = (client(&servers), client(&servers));
    let withdraw = include_str!("../lua/shared/withdraw.lua");
    let knows = |server: &Server| {
        let hash = server.command(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", withdraw]);
        let Value::BulkString(hash) = hash else { panic!("{hash:?}") };
        let hash = String::from_utf8(hash).expect("a hash is text");
        server.command(&["SCRIPT", "EXISTS", &hash]) == Value::Array(vec![Value::Int(1)])
    };
    // The duration of a call whose lock is given back as soon as the call waits.
    let waits = || {
        let guard = holder.lock("a").expect("a majority is there");
        let waited = thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let began = Instant::now();
                let guard = waiter.lock("a").expect("a majority is there");
                let waited = began.elapsed();
                guard.unlock().expect("it was ours");
                waited
            });
            let none = Value::Array(Vec::new());
            wait_until("the waiter listens", SOON, || {
                servers.iter().all(|server| server.command(&["PUBSUB", "CHANNELS"]) != none)
            });
            guard.unlock().expect("it was ours");
            waits.join().expect("no panic")
        });
        servers.wait_no_keys();
        waited
    };
    // On a busy machine a call may take so long that it does reserve the lock.
    wait_until("a short wait", SOON * 6, || {
        servers.iter().for_each(|server| drop(server.command(&["SCRIPT", "FLUSH"])));
        waits() < Duration::from_millis(90)
    });
    assert!(!servers.iter().any(knows));
    // A caller that gives up after more than a second does withdraw.
    let guard = holder.lock("a").expect("a majority is there");
    let patience = Duration::from_millis(2_500);
    assert!(waiter.try_lock_for("a", patience).optional().expect("a majority is there").is_none());
    wait_until("the withdrawal", SOON, || servers.iter().all(knows));
    guard.unlock().expect("it was ours");
}
