use std::thread;
use std::time::Duration;

use super::*;
use crate::core::{Allowance, Terms};
use crate::ident::Name;
use crate::kinds::EXCLUSIVE;
use crate::{Quorlock, Renewal};

#[test]
fn a_line_ends_with_its_last_holder_and_waiter() {
    let (locks, _nodes) = Quorlock::embedded(1).expect("ports are free");
    let lines = || locks.coordinator().queues().len();
    let guards: Vec<_> =
        (0..10).map(|i| locks.lock(format!("orders/{i}")).expect("the node is healthy")).collect();
    assert_eq!(lines(), 10);
    assert!(locks.try_lock("orders/0").expect("held is no error").is_none());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| locks.lock("orders/0"));
        while locks.coordinator().queues().lines.lock().last_ticket < 12 {
            thread::yield_now();
        }
        drop(guards);
        drop(waiting.join().expect("no panic").expect("the node is healthy"));
    });
    assert_eq!(lines(), 0);
    // One that is leaked leaves when it is lost.
    let ttl = Duration::from_millis(400);
    let mutex = locks.mutex("orders/42").ttl(ttl).renewal(Renewal::Manual);
    let guard = mutex.lock().expect("the node is healthy");
    let lost = guard.lost().clone();
    std::mem::forget(guard);
    assert_eq!(lines(), 1);
    lost.recv().expect("it is told");
    drop(locks.lock("orders/42").expect("the node is healthy"));
    assert_eq!(lines(), 0);
}

/// Those before it have reached the nodes, however long ago the caller itself has.
#[test]
fn who_gives_way_behind_a_wait_in_line_has_waited_all_the_same() {
    let (never, closed) = (never(), never());
    let interrupts = Interrupts { cancel: &never, closed: &closed };
    let terms = Terms {
        ttl: Duration::from_secs(30),
        renewed: true,
        max_hold: None,
        allowance: Allowance::FOR_DRIFT,
    };
    let name = Name::new(b"quorlock:", b"orders/42").expect("a good name");
    let wanted = Wanted { kind: EXCLUSIVE, name, terms };
    let queues = Queues::new();
    let mut first = queues.enter(&wanted, Patience::Forever, false);
    assert!(matches!(first.next(interrupts), Next::Ask { waited: false }));
    let mut second = queues.enter(&wanted, Patience::Forever, false);
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            let gives_way = matches!(second.next(interrupts), Next::GiveWay(..));
            second.gave_way(true);
            (gives_way, second.next(interrupts), second.next(interrupts))
        });
        let sleeps = |line: &mut Line| line.queue.all().any(|slot| slot.wake.is_some());
        while !queues.lines.lock().by_name.values_mut().any(sleeps) {
            thread::yield_now();
        }
        // The lock is given back, and others are told of it: so late that it holds, however slow this is.
        let key = first.lease_id.key.clone();
        queues.heard(&key.name, 1);
        queues.change(&key, |_, entry| {
            let fairness = &mut entry.expect("it was told").fairness;
            let late = clock::now().after(Duration::from_secs(600));
            fairness.heard(1, late);
            fairness.given_back(late);
            ((), Wake::Nobody)
        });
        drop(first);
        let (gives_way, then, again) = waiting.join().expect("no panic");
        assert!(gives_way);
        assert!(matches!(then, Next::Ask { waited: true }));
        assert!(matches!(again, Next::Ask { waited: false }), "it has asked");
    });
}
