//! The promises of the fair lock to its waiters.

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::{Sender, bounded, unbounded};
use quorlock::{ErrorKind, FairMutex, OptionalGuard as _, Quorlock};
use redis::Value;

use crate::Promise;
use crate::support::wait_until;
use crate::world::{TTL, World};

pub(crate) const PROMISES: &[Promise] = &[
    (
        "callers_get_it_in_the_order_in_which_they_came",
        callers_get_it_in_the_order_in_which_they_came,
    ),
    ("nobody_overtakes_those_who_wait", nobody_overtakes_those_who_wait),
    ("who_gives_up_is_in_nobodys_way", who_gives_up_is_in_nobodys_way),
    ("who_is_dead_is_in_the_way_for_a_while", who_is_dead_is_in_the_way_for_a_while),
];

/// Number of callers. Each is the only waiter of its client.
const CALLERS: usize = 4;

fn lock(locks: &Quorlock) -> FairMutex {
    locks.fair_mutex("orders/42")
}

/// The number of callers in each node's queue.
fn queued(world: &World) -> Vec<i64> {
    let queue = format!("{{{}}}:queue", world.key("orders/42"));
    let number = |reply| match reply {
        Value::Int(callers) => callers,
        other => panic!("{other:?}"),
    };
    world.command_everywhere(&["ZCARD", &queue]).into_iter().map(number).collect()
}

/// Waits until a majority of the nodes, which are healthy, has that number of callers in its queues.
fn wait_queued(world: &World, callers: i64) {
    wait_until("all are in the queues", TTL / 2, || {
        queued(world).iter().all(|queued| *queued == callers)
    });
}

/// Starts a thread on which a caller waits for the lock, and sends its number when it has it.
fn comes<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    locks: &'scope Quorlock,
    number: usize,
    served: &Sender<usize>,
) {
    let served = served.clone();
    scope.spawn(move || {
        let guard = lock(locks).lock().expect("a majority is healthy");
        served.send(number).expect("the test listens");
        guard.unlock().expect("a majority is healthy");
    });
}

fn callers_get_it_in_the_order_in_which_they_came(world: &mut World) {
    let holder = world.client().locks;
    let clients = [(); CALLERS].map(|()| world.client().locks);
    let guard = lock(&holder).lock().expect("a majority is healthy");
    let (served, order) = unbounded();
    thread::scope(|scope| {
        for (number, locks) in clients.iter().enumerate() {
            comes(scope, locks, number, &served);
            wait_queued(world, number as i64 + 1);
        }
        guard.unlock().expect("a majority is healthy");
        let order: Vec<_> = order.iter().take(CALLERS).collect();
        assert_eq!(order, (0..CALLERS).collect::<Vec<_>>());
    });
    wait_queued(world, 0);
}

fn nobody_overtakes_those_who_wait(world: &mut World) {
    let [holder, waits, other] = [(); 3].map(|()| world.client().locks);
    let guard = lock(&holder).try_lock().expect("nobody waits");
    let (served, order) = unbounded();
    thread::scope(|scope| {
        comes(scope, &waits, 0, &served);
        wait_queued(world, 1);
        // The nodes get the releases one by one, and none of them grants the lock to another caller.
        guard.unlock().expect("a majority is healthy");
        while order.is_empty() {
            assert!(lock(&other).try_lock().optional().expect("held is no error").is_none_or(
                |guard| {
                    let first = !order.is_empty();
                    guard.unlock().expect("a majority is healthy");
                    first
                }
            ));
        }
    });
}

fn who_gives_up_is_in_nobodys_way(world: &mut World) {
    let [holder, one, two] = [(); 3].map(|()| world.client().locks);
    let guard = lock(&holder).lock().expect("a majority is healthy");
    let (cancel, cancelled) = bounded(1);
    let (served, order) = unbounded();
    thread::scope(|scope| {
        let gives_up = scope.spawn(|| lock(&one).lock_within(&cancelled).map(drop));
        wait_queued(world, 1);
        comes(scope, &two, 2, &served);
        wait_queued(world, 2);
        let impatient = lock(&one).try_lock_for(Duration::from_millis(50));
        // On a busy machine the nodes may not have answered before the time limit.
        assert!(impatient.is_err(), "it is held");
        cancel.send(()).expect("it listens");
        let error = gives_up.join().expect("no panic").expect_err("it was cancelled");
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        wait_queued(world, 1);
        guard.unlock().expect("a majority is healthy");
        assert_eq!(order.recv(), Ok(2));
    });
    wait_queued(world, 0);
}

/// A dead caller is the first in all queues. Its entry expires, and the callers behind it go on.
fn who_is_dead_is_in_the_way_for_a_while(world: &mut World) {
    let locks = world.client().locks;
    let key = world.key("orders/42");
    let [queue, ends] = ["queue", "queue_ends"].map(|which| format!("{{{key}}}:{which}"));
    let entry = "redis.call('ZADD', KEYS[1], 1, 'dead#queued')
        redis.call('ZADD', KEYS[2], redis.call('TIME')[1] * 1000 + 2000, 'dead#queued')
        return redis.call('PEXPIRE', KEYS[1], 60000) + redis.call('PEXPIRE', KEYS[2], 60000)";
    for set in world.command_everywhere(&["EVAL", entry, "2", &queue, &ends]) {
        assert_eq!(set, Value::Int(2));
    }
    assert!(
        lock(&locks).try_lock().optional().expect("held is no error").is_none(),
        "somebody waits"
    );
    let guard = lock(&locks).try_lock_for(TTL).optional().expect("a majority is healthy");
    guard.expect("it is over by then").unlock().expect("a majority is healthy");
    // A node outside of the majority that was needed keeps the entry until the next caller comes.
    world.command_everywhere(&["DEL", &queue, &ends]);
}
