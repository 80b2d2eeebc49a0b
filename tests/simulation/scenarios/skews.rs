//! The wall clocks of the masters disagree all the time, as if a minority had a wrong time service, and nodes forget.

use super::*;

/// Two of five masters are a minute ahead. A lock is granted on them and a third one. Only the first master restarts
/// empty, and the next grant is on that master and the two that were not asked before.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let usual = Setup { nodes: 5, max_ttl: seconds(8), ..client(seconds(4), Habit::Contends) };
        let tries = |at| Setup { habit: Habit::TriesOnce(at), ..usual };
        let mut plan = calm(seed, 5, &[tries(seconds(3)), tries(seconds(1))]);
        plan.wall_offsets = vec![60_000, 60_000, 0, 0, 0];
        plan.stragglers = 0;
        let cut = |client, node, from, until| fault(from, until, Fault::Cut { client, node });
        let (end, restart) = (seconds(30), seconds(5));
        plan.faults = vec![
            cut(0, 3, Duration::ZERO, end),
            cut(0, 4, Duration::ZERO, end),
            at(restart + Chance::new(seed).ms(0..1_000), Fault::Amnesia { node: 0 }),
            // A process that has just begun, and has heard of three nodes only.
            fault(Duration::ZERO, seconds(19), Fault::Crashed { client: 1 }),
            cut(1, 1, Duration::ZERO, end),
            cut(1, 2, Duration::ZERO, end),
        ];
        plan.lasts = end;
        plan
    },
    happened: |run| {
        first_grant(run, 0, Duration::ZERO).is_some_and(|at| at < seconds(5))
            && first_grant(run, 1, seconds(19)).is_some()
    },
};

#[test]
fn tokens_rise_although_the_masters_clocks_disagree_and_one_has_forgotten() {
    SCENARIO.holds(1);
}

#[test]
fn without_the_marks_a_token_falls_by_what_the_clocks_differ() {
    SCENARIO.breaks(&[Mechanism::TimeIsCorrected], &["tokens"]);
}
