//! Further tests of the local queues. The told cases are in `testdata/queue.txt`: see the tests of `local_queue`.

use std::time::Duration;

use super::super::super::base::{Allowance, Mechanism, without};
use super::super::super::vote::PermitsWanted;
use super::super::QueueKey;
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
    let terms = Terms::renewed(Duration::from_secs(10), Allowance::FOR_DRIFT);
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

/// A caller for one permit may hold another one, for which the callers for several wait.
#[test]
fn a_caller_for_one_permit_does_not_wait_behind_callers_for_several() {
    let turn_of_one = || {
        let terms = Terms::renewed(Duration::from_secs(10), Allowance::FOR_DRIFT);
        let mut queues = LocalQueues::<_, (), ()>::new(false);
        let turns = [3, 3, 1].map(|count| {
            let key = QueueKey::new("semaphore", Some(PermitsWanted { count, of: 4 }));
            let (class, askers) = (HoldClass::Exclusive, Askers::AtMost(2));
            let ticket = queues.enter(&key, class, askers, terms, false, ());
            queues.look(&key, ticket, None, Time::default()).0.turn
        });
        assert_eq!(turns[..2], [Turn::Ask; 2]);
        turns[2]
    };
    assert_eq!(turn_of_one(), Turn::Ask);
    assert!(matches!(without(&[Mechanism::PermitsQueueApart], turn_of_one), Turn::Wait(_)));
    let (mutex, semaphore) = (QueueKey::new("a", None), PermitsWanted::ONE_OF_ONE);
    assert_ne!(mutex, QueueKey::new("a", Some(semaphore)));
    assert_eq!(
        QueueKey::new("b", Some(semaphore)).with_lock("a"),
        QueueKey::new("a", Some(semaphore))
    );
}
