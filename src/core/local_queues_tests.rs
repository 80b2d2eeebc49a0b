//! What is told of the queues is in `testdata/queue.txt`: see the tests of `local_queue`.

use std::time::Duration;

use super::*;

#[test]
fn what_is_known_of_others_is_forgotten_when_it_is_over() {
    let mut queues = LocalQueues::<u64, (), ()>::new(false);
    for key in 0..10_000 {
        let now = Time::from_start(Duration::from_millis(1_000 + 10 * key));
        // A hundred are known at a time.
        queues.heard(&key, 1, now);
        assert!(queues.fairness.len() <= 2 * 100 + 16, "{}", queues.fairness.len());
        assert_eq!(queues.others(&key.saturating_sub(99), now), 1);
    }
}
