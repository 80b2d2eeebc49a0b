//! Threads of one process hold a lock together.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::bounded;

use super::*;
use crate::clock;
use crate::core::acquire::Patience;
use crate::core::base::{HoldClass, Mechanism, without};
use crate::events::Listener;
use crate::kinds::{EXCLUSIVE, KINDS, WriteGuard};
use crate::runtime::call;
use crate::runtime::hold::Hold;
use crate::{Error, ErrorKind};

/// A kind whose holders in one process share a lease. On the nodes it is a mutex: each lease has the keys for itself.
static TOGETHER: Kind =
    Kind { hold_class: HoldClass::Shared, ..Kind::exclusive("together", EXCLUSIVE.layout) };

/// Joins are allowed at any time in these tests, since a busy machine may be slow.
fn acquire(locks: &Quorlock, wanted: &Wanted, patience: Patience) -> Result<Option<Hold>, Error> {
    let acquire = || call::acquire(locks.coordinator(), wanted, patience, None);
    without(&[Mechanism::TurnsEnd], acquire).optional()
}

/// Returns one more holder of the lock.
fn hold(locks: &Quorlock) -> Hold {
    let hold = acquire(locks, &wanted(&TOGETHER, true), Patience::Forever).expect("healthy nodes");
    let hold = hold.expect("it waits for ever");
    hold.held().check().expect("a lock that is given out is held");
    hold
}

fn token(hold: &Hold) -> u64 {
    hold.token.expect("fencing is on").into()
}

fn has_keys(nodes: &Nodes) -> bool {
    nodes.iter().any(|node| node.keys().iter().any(|key| key == KEY))
}

/// No node is asked, so none needs to be up.
#[test]
fn who_joins_needs_no_node_and_has_a_token_of_its_own() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let first = hold(&locks);
    // A majority is enough for the lock; the third node may be asked a moment later.
    wait_until(|| requests(&locks) == 3);
    nodes.iter().for_each(Node::hang);
    let all_hold = Barrier::new(8);
    let holds: Vec<_> = thread::scope(|scope| {
        let joins = || {
            let hold = hold(&locks);
            all_hold.wait();
            hold
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(joins)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let once = acquire(&locks, &wanted(&TOGETHER, true), Patience::Once).expect("no node is asked");
    let mut tokens: Vec<_> = holds.iter().chain(&once).map(token).collect();
    tokens.sort_unstable();
    assert!(tokens.iter().copied().eq(token(&first) + 1..=token(&first) + 9), "{tokens:?}");

    // Nor does a holder wait when it leaves while others hold the lock.
    first.give_back_and_wait().expect("it was held until now");
    drop(holds);
    assert_eq!(requests(&locks), 3);
    nodes.iter().for_each(Node::resume);
    assert!(has_keys(&nodes), "one holds it");
    once.expect("it joins").give_back_and_wait().expect("three healthy nodes");
    wait_no_keys(&nodes);
    assert_eq!(locks.coordinator().queues().len(), 0);
}

/// The threads wait for each other's work. If one of them waited for the others' lease, none would go on.
#[test]
fn all_who_wait_for_another_process_hold_the_lock_when_one_of_them_gets_it() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    let guard = other.lock(NAME).expect("healthy nodes");
    let all_hold = Barrier::new(5);
    thread::scope(|scope| {
        let holds = || {
            let hold = hold(&locks);
            all_hold.wait();
            hold.give_back_and_wait().expect("it was held until now");
        };
        scope.spawn(holds);
        wait_until(|| locks.coordinator().queues().state.lock().last_ticket() == 1);
        for _ in 1..5 {
            waits(scope, &locks, holds);
        }
        assert_eq!(in_line(&locks), 4, "one asks the nodes for all");
        guard.unlock().expect("it was held until now");
    });
    wait_no_keys(&nodes);
    assert!(other.try_lock(NAME).optional().expect("healthy nodes").is_some());
}

/// In this test a lease may be joined for as long as it is held, if no message comes.
#[test]
fn who_joins_a_lease_hears_of_a_writer_and_then_nobody_joins_it() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    let reading = KINDS.iter().find(|kind| kind.label == "read").expect("it is in the list");
    let (wanted, key) = (wanted(reading, true), KEY.escape_ascii());
    let waiting = format!("{{{key}}}:waiting").into_bytes();
    let listens = || locks.coordinator().subscriptions().knows(|| vec![waiting.clone()]);
    let read = || acquire(&locks, &wanted, Patience::Once).expect("healthy nodes");
    let another_reads = || {
        let reads = || read().is_some();
        thread::scope(|scope| scope.spawn(reads).join().expect("no panic"))
    };
    let first = read().expect("nobody has the lock");
    assert!(!listens(), "nobody has joined it");
    let before = requests(&locks);
    assert!(another_reads() && listens());
    wait_until(|| locks.node_stats().iter().all(|node| node.listened_to == 1));
    thread::scope(|scope| {
        let writes = scope.spawn(|| other.rw_lock(NAME).write().and_then(WriteGuard::unlock));
        wait_until(|| !another_reads());
        assert!(requests(&locks) > before, "the nodes refuse it");
        let again = read().expect("this thread holds it");
        drop(first);
        again.give_back_and_wait().expect("it was held until now");
        writes.join().expect("no panic").expect("healthy nodes");
    });
    wait_no_keys(&nodes);
}

/// The nodes are asked, and answer that the lock is held: in this test each lease has the keys for itself.
#[test]
fn who_cannot_join_asks_the_nodes_and_does_not_wait() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let first = hold(&locks);
    wait_until(|| requests(&locks) == 3);
    let manual = acquire(&locks, &wanted(&TOGETHER, false), Patience::Once).expect("healthy nodes");
    assert!(manual.is_none());
    assert!(requests(&locks) > 3);
    first.held().extend(TTL * 3).expect("healthy nodes");
    let before = requests(&locks);
    let second = acquire(&locks, &wanted(&TOGETHER, true), Patience::Once).expect("healthy nodes");
    assert!(second.is_none(), "its keys live for longer than another holder would ask for");
    assert!(requests(&locks) > before);
    drop(first);
    wait_no_keys(&nodes);
}

#[test]
fn a_holder_that_asks_for_less_takes_nothing_from_the_others() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let (first, second) = (hold(&locks), hold(&locks));
    first.held().extend(SHORT_TTL).expect("healthy nodes");
    assert!(second.held().remaining() > TTL / 2);
    drop(first);
    second.held().extend(SHORT_TTL).expect("healthy nodes");
    assert!(second.held().remaining() < SHORT_TTL, "nobody else needs more");
}

/// However the loss is found, each holder gets one message, its callbacks are called once, and there is one event.
#[test]
fn a_loss_is_told_to_each_holder_and_reported_once() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let finds: [fn(&Hold); 3] = [
        // A holder that checks.
        |hold| _ = hold.held().check().expect_err("it is lost"),
        // A holder that has left before it knew.
        |_| (),
        // The same steps as in the timer.
        |hold| {
            let mut ending = hold.held().lose().expect("it is the first");
            ending.callbacks().into_iter().for_each(|callbacks| callbacks.call());
            hold.held().clear_away(ending);
        },
    ];
    for find in finds {
        let holds: Vec<_> = (0..4).map(|_| hold(&locks)).collect();
        let mut receivers: Vec<_> =
            holds.iter().map(|hold| hold.notice.receiver().clone()).collect();
        let (tell, told) = bounded(100);
        for hold in &holds {
            let tell = tell.clone();
            hold.notice.call(Box::new(move |reason| tell.send(reason).expect("there is room")));
        }
        drop(tell);
        let [left, first, second, last] = <[Hold; 4]>::try_from(holds).ok().expect("four");
        left.give_back_and_wait().expect("it is valid");
        assert!(receivers.remove(0).recv().is_err(), "that one is told nothing");

        let held = first.held().clone();
        held.suspend();
        let reports = locks.coordinator().reports();
        let told_elsewhere = reports.told();
        let events = Arc::new(AtomicUsize::new(0));
        let counted = events.clone();
        let count = Listener(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
        tracing::subscriber::with_default(count, || {
            find(&second);
            drop(first);
            for hold in [second, last] {
                let error = hold.give_back_and_wait().expect_err("it is lost");
                assert_eq!(error.kind(), ErrorKind::Lost);
            }
        });
        let told_elsewhere = reports.told() - told_elsewhere;
        assert_eq!(events.load(Ordering::Relaxed) + told_elsewhere, 1);
        let lost = Ok(LossReason::ClockStoodStill);
        receivers.iter().for_each(|lost_by| assert_eq!(lost_by.recv_timeout(LIMIT), lost));
        assert!(receivers.iter().all(|lost_by| lost_by.recv_timeout(LIMIT).is_err()), "once");
        (0..3).for_each(|_| assert_eq!(told.recv_timeout(LIMIT), lost));
        assert!(told.recv_timeout(LIMIT).is_err(), "each callback is called once");
        assert_eq!(locks.coordinator().queues().len(), 0);
        wait_no_keys(&nodes);
    }
}

/// The thread that watches the lock finds the loss.
#[test]
fn keys_that_are_gone_are_told_to_all_holders() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let mut wanted = wanted(&TOGETHER, true);
    wanted.terms.ttl = SHORT_TTL * 2;
    let holds = [(); 3].map(|()| {
        let hold = acquire(&locks, &wanted, Patience::Forever);
        hold.expect("healthy nodes").expect("it waits for ever")
    });
    let [first, others @ ..] = &holds;
    flush_until_lost(&nodes, first.notice.receiver());
    for hold in others {
        assert_eq!(hold.notice.receiver().recv_timeout(LIMIT), Ok(LossReason::KeysGone));
    }
    drop(holds);
    // That thread tells the holders first, and then leaves the queue.
    wait_until(|| locks.coordinator().queues().len() == 0);
}

#[test]
fn a_holder_that_panics_leaves_the_lock_to_the_others() {
    let nodes = nodes(3);
    let locks = client(&nodes);
    let (first, second) = (hold(&locks), hold(&locks));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _hold = first;
        std::panic::resume_unwind(Box::new("in the critical section"));
    }));
    assert!(panicked.is_err());
    second.held().check().expect("that one holds it");
    second.give_back_and_wait().expect("three healthy nodes");
}

/// Callers come at the very instant at which the last holder leaves. No caller gets a lock that is over, and none is
/// forgotten.
#[test]
fn many_threads_that_come_and_go_hold_a_lock_that_is_theirs() {
    let nodes = nodes(3);
    let (locks, other) = (client(&nodes), client(&nodes));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let wanted = wanted(&TOGETHER, true);
                    let hold = call::acquire(locks.coordinator(), &wanted, Patience::Forever, None);
                    let hold = hold.expect("healthy nodes");
                    thread::yield_now();
                    hold.held().check().expect("nobody has given it back for this one");
                    hold.give_back_and_wait().expect("it was held until now");
                }
            });
        }
    });
    assert_eq!(locks.coordinator().queues().len(), 0);
    assert!(clock::poll(clock::now().after(LIMIT), || !has_keys(&nodes)), "a key stays");
    assert!(other.try_lock(NAME).optional().expect("healthy nodes").is_some());
}
