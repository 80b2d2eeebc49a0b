//! The order of requests in one write.

use proptest::prelude::*;

use super::*;

/// The numbers of requests of one kind in the order of one write. Each of them is about a lock, and takes it or does not.
fn order(came: &[(&'static str, bool)]) -> Vec<usize> {
    let job = |(number, (lock, takes)): (u32, &(&'static str, bool))| {
        let purpose = if *takes { Purpose::Taking } else { Purpose::Holding };
        Job::new(Fake { number, lock, ..Fake::default() }, purpose)
    };
    let mut jobs: Vec<_> = (0..).zip(came).map(job).collect();
    put_in_order(&mut jobs);
    jobs.iter().map(|job| job.request.number as usize).collect()
}

/// Threads that drop a guard and take the lock again at once.
#[test]
fn requests_that_take_locks_are_put_together() {
    let (back, take) = (false, true);
    let threads = ["a", "b", "c"].into_iter().flat_map(|lock| [(lock, back), (lock, take)]);
    assert_eq!(order(&threads.collect::<Vec<_>>()), [0, 2, 4, 1, 3, 5]);
    let one = [("a", take), ("b", back), ("c", take), ("b", take), ("a", back), ("d", back)];
    assert_eq!(order(&one), [1, 5, 0, 2, 3, 4], "the first lock is given back after it was taken");
    assert_eq!(order(&[("a", take), ("a", back), ("a", take)]), [0, 1, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_about_one_lock_stay_in_order(
        came in prop::collection::vec((0..4_usize, any::<bool>()), 0..24),
    ) {
        let came: Vec<_> = came.iter().map(|(lock, takes)| (["a", "b", "c", "d"][*lock], *takes)).collect();
        let order = order(&came);
        for lock in ["a", "b", "c", "d"] {
            let is_about = |at: &usize| came[*at].0 == lock;
            let ordered: Vec<_> = order.iter().copied().filter(is_about).collect();
            prop_assert!(ordered.is_sorted(), "{:?}", order);
        }
        let mut all = order.clone();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..came.len()));
        let turns = |order: &[usize]| order.chunk_by(|a, b| came[*a].1 == came[*b].1).count();
        let as_they_came: Vec<_> = (0..came.len()).collect();
        prop_assert!(turns(&order) <= turns(&as_they_came));
    }
}
