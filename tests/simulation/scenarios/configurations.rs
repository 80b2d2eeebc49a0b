//! Clients of three nodes, and one that is configured for five, of which these are the first three.

use super::*;

/// One client holds its lock on two nodes of three. The third one restarts empty while that client cannot reach it.
/// Together with two new nodes, it is a majority of five. The other client waits for 30 s, not for 60 s.
const SCENARIO: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let holder = Setup { max_ttl: seconds(60), ..client(seconds(10), Habit::Keeps) };
        let newcomer = Setup { nodes: 5, max_ttl: seconds(30), habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 5, &[holder, newcomer]);
        let restart = seconds(2) + Chance::new(seed).ms(0..3_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(45), Fault::Cut { client: 0, node: 2 }),
            at(restart, Fault::Amnesia { node: 2 }),
        ];
        plan
    },
    happened: |run| {
        let refused = tells(run, "client 1", "Config");
        let kept = !tells(run, "client 0", "is told that it is lost");
        refused && kept && first_grant(run, 1, Duration::ZERO).is_none()
    },
};

#[test]
fn two_configurations_do_not_live_side_by_side() {
    SCENARIO.holds(1);
}

#[test]
fn without_the_verdict_on_the_set_two_configurations_live_side_by_side() {
    SCENARIO.mostly_breaks(&[Mechanism::ConfigurationIsOfTheSet], &["exclusion"]);
}
