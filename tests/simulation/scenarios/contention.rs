//! Many clients want one lock all the time, and nodes go away.

use super::*;
use crate::core::base::Backoff;

/// A lock is held on a bare majority: its holder comes late to the last two of five nodes, where contenders have left
/// their numbers. Some seconds later one of its three nodes goes away for a minute.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let holder = Setup { nodes: 5, max_ttl: seconds(12), ..client(seconds(3), Habit::Keeps) };
        let contender = Setup { habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 5, &[holder, contender, contender]);
        let away = seconds(10) + Chance::new(seed).ms(0..3_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(4), Fault::Cut { client: 0, node: 3 }),
            fault(Duration::ZERO, seconds(4), Fault::Cut { client: 0, node: 4 }),
            fault(away, away + seconds(60), Fault::Down { node: 0 }),
        ];
        // A majority is always there, so nothing may cost the first client its lock.
        plan.rolling = true;
        plan
    },
    happened: |run| {
        let contended =
            ["node 3", "node 4"].iter().all(|node| tells(run, node, "acquire of client"));
        let from = first_grant(run, 0, Duration::ZERO).filter(|from| *from < seconds(4));
        let alone = from.is_some_and(|from| {
            let mut others = run.grants.iter().filter(|grant| grant.client > 0);
            !others.any(|grant| grant.at > from && grant.at < seconds(70))
        });
        contended && alone
    },
};

#[test]
fn a_bare_majority_among_contenders_outlives_the_loss_of_a_node() {
    SCENARIO.holds(1);
}

#[test]
fn without_repairs_among_contenders_one_lost_node_costs_the_lock() {
    SCENARIO.mostly_breaks(&[Mechanism::RepairAmongContenders], &["losses"]);
}

/// Callers of several clients want the lock while too few nodes are there. Each caller is told so in its own time,
/// although it meets grants to the other callers on the nodes that are left.
const OUTAGE: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let wants = |i: u64| {
            let backoff = Backoff { min: ms(5 + 10 * i), max: ms(100 + 100 * i) };
            Setup { nodes: 5, backoff, ..client(seconds(3), Habit::Loops(Loop::of("mutex", 1))) }
        };
        let mut plan = calm(seed, 5, &[wants(0), wants(1), wants(2), wants(3)]);
        plan.callers = vec![1, 1, 2, 2];
        plan.local_queues = seed % 2 == 0;
        let away = |node| fault(seconds(2), seconds(14), Fault::Down { node });
        plan.faults = vec![away(0), away(2), away(4)];
        plan
    },
    happened: |run| {
        let told = |client: usize| tells(run, &format!("client {client},"), "NoQuorum");
        (0..4).all(told)
    },
};

#[test]
fn in_an_outage_everybody_is_told_in_time() {
    OUTAGE.holds(1);
}

#[test]
fn without_asking_all_the_refusal_of_one_node_hides_an_outage() {
    OUTAGE.mostly_breaks(&[Mechanism::AllAreAskedInAnOutage], &["waits"]);
}

/// Number of clients that want the lock at one instant.
const MANY: usize = 16;

/// Clients want a free name at one instant, each of them once and for a moment. The first votes are split. A waiter that
/// misses a release asks again only after 0.75 s.
const BURST: Scenario = Scenario {
    runs: 16,
    plan: |seed| {
        let once = Loop { holds: ms(1), rests: seconds(3_600), ..Loop::of("mutex", 1) };
        let wants = Setup { nodes: 5, ..client(seconds(5), Habit::Loops(once)) };
        let mut plan = calm(seed, 5, &[wants; MANY]);
        (plan.latency_ms, plan.stragglers) = (2 + seed % 3, 0);
        plan.lasts = seconds(2);
        plan
    },
    happened: |run| {
        let times: Vec<_> = run.grants.iter().map(|grant| grant.at).take(MANY).collect();
        let is_awake = times.windows(2).all(|pair| pair[1] - pair[0] < ms(300));
        times.len() == MANY && is_awake
    },
};

#[test]
fn in_a_burst_nobody_sleeps_while_the_lock_is_free() {
    BURST.holds(1);
}

#[test]
fn in_a_burst_callers_that_heed_no_releases_sleep_while_the_lock_is_free() {
    BURST.fails(&[Mechanism::HeedsReleases]);
}
