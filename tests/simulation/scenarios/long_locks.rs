//! Two clients with one `max_ttl`. The locks of one of them live just as long.

use super::*;

/// The first client holds its long lock on two of three nodes, and is cut off. One of them restarts
/// without its data.
const SCENARIO: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let holder = client(seconds(20), Habit::Keeps);
        let other = Setup { ttl: seconds(1), habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        let restart = seconds(1) + Chance::new(seed).ms(10..5_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(30), Fault::Cut { client: 0, node: 2 }),
            fault(seconds(1), seconds(30), Fault::Isolated { client: 0, split: 0 }),
            at(restart, Fault::Amnesia { node: 0 }),
        ];
        plan
    },
    happened: |run| {
        let lost = tells(run, "client 0", "is told that it is lost");
        lost && first_grant(run, 1, seconds(1)).is_some_and(|granted| granted > ms(19_500))
    },
};

#[test]
fn a_quarantine_outlasts_the_longest_lock_of_others() {
    SCENARIO.holds(1);
}

#[test]
fn without_the_full_time_a_longer_lock_of_others_is_granted_again() {
    SCENARIO.mostly_breaks(&[Mechanism::FullMaxTtl], &["exclusion"]);
}
