use std::thread;
use std::time::Duration;

use crate::{Quorlock, Renewal};

mod hand_over;

#[test]
fn a_queue_ends_with_its_last_holder_and_waiter() {
    let (locks, _nodes) = Quorlock::embedded(1).expect("ports are free");
    let queues = || locks.coordinator().queues().len();
    let guards: Vec<_> =
        (0..10).map(|i| locks.lock(format!("orders/{i}")).expect("the node is healthy")).collect();
    assert_eq!(queues(), 10);
    assert!(locks.try_lock("orders/0").expect("held is no error").is_none());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock("orders/0"));
        while locks.coordinator().queues().state.lock().last_ticket() < 12 {
            thread::yield_now();
        }
        drop(guards);
        drop(waiting.join().expect("no panic").expect("the node is healthy"));
    });
    assert_eq!(queues(), 0);
    // One that is leaked leaves when it is lost.
    let ttl = Duration::from_millis(400);
    let mutex = locks.mutex("orders/42").ttl(ttl).renewal(Renewal::Manual);
    let guard = mutex.lock().expect("the node is healthy");
    let lost = guard.lost().clone();
    std::mem::forget(guard);
    assert_eq!(queues(), 1);
    lost.recv().expect("it is told");
    drop(locks.lock("orders/42").expect("the node is healthy"));
    assert_eq!(queues(), 0);
}
