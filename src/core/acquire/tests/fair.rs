//! Calls that want a fair lock.

use super::*;

#[test]
fn a_caller_that_waits_for_a_fair_lock_leaves_the_queue_however_the_call_ends() {
    for cancelled in [true, false] {
        let mut driver = Driver::fair(Patience::Forever);
        driver.start();
        driver.vote(&[(0, queued(4)), (1, queued(4))]);
        driver.timeout();
        let tickets: Vec<_> = driver.waits.iter().map(|waits| waits.ticket).collect();
        assert_eq!(tickets, [None, Some(1_000_000)]);
        driver.done();
        if cancelled {
            driver.cancel();
        } else {
            driver.vote(&[(0, Vote::Granted(7)), (1, Vote::Granted(7))]);
        }
        let done = driver.done();
        assert_eq!(done.iter().filter(|done| **done == "leave queue").count(), 1, "{done:?}");
    }
}

/// The nodes know the waiters for a fair lock, and serve them in order.
#[test]
fn a_fair_lock_that_was_refused_before_is_not_left_to_others() {
    for (mut driver, held, expected) in [
        (Driver::fair(Patience::Forever), queued(4), false),
        (Driver::new(Patience::Forever), HELD, true),
    ] {
        driver.start();
        driver.vote(&[(0, held), (1, held)]);
        while driver.granted.is_none() {
            match driver.machine.claim() {
                Some(_) => {
                    let granted = [0, 1, 2].map(|node| (node, Vote::Granted(7)));
                    let asked = driver.asked().expect("it asks");
                    let granted: Vec<_> =
                        granted.into_iter().filter(|(node, _)| asked.includes(*node)).collect();
                    driver.vote(&granted);
                }
                None => driver.timeout(),
            }
        }
        assert_eq!(driver.granted.map(|grant| grant.refused_before), Some(expected));
    }
}
