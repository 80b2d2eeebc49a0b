//! Nodes that refuse all subscriptions, while clients wait for each other's locks.

use super::*;

/// Time for which the nodes refuse subscribers: shorter than the pause before clients ask again.
const REFUSE: Duration = seconds(9);

/// Two clients have a lock in turn. The waiters hear of no release, and poll.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let worker = client(seconds(3), Habit::Works(ms(50)));
        let mut plan = calm(seed, 3, &[worker, worker]);
        let refuses = |node| fault(Duration::ZERO, REFUSE, Fault::SubscribersRefused { node });
        plan.faults = (0..3).map(refuses).collect();
        plan
    },
    happened: |run| {
        let refusals =
            run.story.iter().filter(|line| line.contains("refuses its subscriber")).count();
        let clients = [0, 1];
        let goes_on = clients
            .iter()
            .all(|client| first_grant(run, *client, seconds(5)).is_some_and(|at| at < REFUSE));
        // Each node is asked once by each client.
        (1..=6).contains(&refusals) && goes_on
    },
};

#[test]
fn waiters_get_the_lock_though_no_node_lets_them_listen_and_ask_for_that_seldom() {
    SCENARIO.holds(1);
}
