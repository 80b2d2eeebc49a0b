//! Further tests of the local queues. The told cases are in `testdata/queue.txt`: see the tests of `local_queue`.

use std::time::Duration;

use super::*;

#[test]
fn what_is_known_of_others_is_forgotten_when_it_is_over() {
    let mut queues = LocalQueues::<u64, (), ()>::new(false);
    for key in 0..10_000 {
        let now = Time::from_start(Duration::from_millis(1_000 + 10 * key));
        // A hundred locks are known at a time.
        queues.heard(&key, 1, now);
        assert!(queues.fairness.len() <= 2 * 100 + 16, "{}", queues.fairness.len());
        assert_eq!(queues.others(&key.saturating_sub(99), now), 1);
    }
}

#[test]
fn a_client_at_rest_knows_no_lock_and_has_given_the_room_back() {
    let terms =
        Terms::renewed(Duration::from_secs(10), super::super::super::base::Allowance::FOR_DRIFT);
    let mut queues = LocalQueues::<u64, (), ()>::new(false);
    let at = |ms| Time::from_start(Duration::from_millis(1_000 + ms));
    let enter =
        |key| (key, queues.enter(&key, HoldClass::Exclusive, Askers::First, terms, false, ()));
    let tickets: Vec<_> = (0..10_000).map(enter).collect();
    tickets.iter().for_each(|(key, _)| queues.heard(key, 1, at(*key / 100)));
    assert!(queues.tidy(at(1_050)), "callers are there");
    assert_eq!((queues.queues.len(), queues.fairness.len()), (10_000, 4_900));
    for (key, ticket) in &tickets[1..] {
        assert_eq!(queues.leave(key, *ticket).0, None);
    }
    assert!(queues.tidy(at(1_100)), "a caller is there");
    assert_eq!((queues.queues.len(), queues.fairness.len()), (1, 0));
    assert!(queues.queues.capacity() < 100 && queues.fairness.capacity() < 100);
    let (key, ticket) = tickets[0];
    assert_eq!(queues.leave(&key, ticket).0, None);
    assert!(!queues.tidy(at(1_100)));
}
