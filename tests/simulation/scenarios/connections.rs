//! Connections that break, and the fate of the requests that were written over them.

use super::*;

/// Two clients of different patience try for the lock once each, right after their connections were reset while nothing was
/// on its way.
const RESET: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let tries = |node_timeout, after| Setup {
            node_timeout: ms(node_timeout),
            ..client(seconds(5), Habit::TriesOnce(after))
        };
        let mut plan = calm(seed, 3, &[tries(200, seconds(2)), tries(900, seconds(4))]);
        plan.faults = vec![
            at(ms(1_995), Fault::ResetAll { client: 0 }),
            at(ms(3_995), Fault::ResetAll { client: 1 }),
        ];
        plan.lasts = seconds(8);
        plan
    },
    happened: |run| {
        let in_time = |client, until| {
            first_grant(run, client, Duration::ZERO).is_some_and(|first| first < until)
        };
        in_time(0, seconds(3)) && in_time(1, seconds(6))
    },
};

#[test]
fn a_call_that_finds_its_connections_closed_is_carried_over_new_ones() {
    RESET.holds(1);
}

#[test]
fn without_the_second_connection_such_a_call_fails() {
    RESET.fails(&[Mechanism::ReconnectsOnce]);
}

/// A majority of the nodes hang when a client tries for the lock, and go on when its process has been killed. Another client
/// wants the lock then.
const HUNG: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut chance = Chance::new(seed);
        let tries = client(seconds(20), Habit::TriesOnce(ms(500)));
        let waits = Setup { node_timeout: ms(700), habit: Habit::KeepsFrom(ms(3_500)), ..tries };
        let mut plan = calm(seed, 3, &[tries, waits]);
        let hangs = |node| fault(ms(490), seconds(3), Fault::Hung { node });
        let free = chance.below(3);
        plan.faults = (0..3).filter(|node| *node != free).map(hangs).collect();
        let killed = chance.ms(1_600..2_000);
        plan.faults.push(fault(killed, seconds(60), Fault::Crashed { client: 0 }));
        plan.lasts = seconds(15);
        plan
    },
    happened: |run| first_grant(run, 1, Duration::ZERO).is_some_and(|first| first < seconds(7)),
};

#[test]
fn what_a_silent_node_runs_later_is_undone_although_its_client_has_gone() {
    HUNG.holds(1);
}

#[test]
fn without_final_releases_it_stays_for_as_long_as_its_ttl() {
    // Otherwise the releases have followed the requests already.
    HUNG.fails(&[Mechanism::FinalReleases, Mechanism::WritesFollow]);
}

/// A client gives its lock back while a node is down, which comes back with its data.
const DOWN: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = calm(seed, 3, &[client(seconds(20), Habit::Works(ms(1_500)))]);
        let node = Chance::new(seed).below(3);
        plan.faults = vec![fault(seconds(1), ms(2_500), Fault::Down { node })];
        plan.lasts = seconds(10);
        plan
    },
    happened: |run| first_grant(run, 0, ms(2_500)).is_some(),
};

#[test]
fn a_node_that_was_down_gets_the_releases_that_it_has_missed() {
    DOWN.holds(1);
}

#[test]
fn without_these_releases_the_node_keeps_the_lock() {
    DOWN.mostly_breaks(&[Mechanism::DownNodesGetReleases], &["leaks"]);
}

/// Two nodes cannot be reached. A client tries for the lock again and again, 200 ms after the last call, with much time for an
/// answer. Once it knows of the outage, each call ends at once.
const OUTAGE: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let tries = client(seconds(10), Habit::RunsJobs(seconds(1)));
        let mut plan = calm(seed, 3, &[Setup { node_timeout: seconds(2), ..tries }]);
        let cut = |node| fault(seconds(1), seconds(25), Fault::Cut { client: 0, node });
        plan.faults = vec![cut(1), cut(2)];
        plan
    },
    happened: |run| {
        let calls = told_within(run, seconds(10), seconds(25), "client 0, caller 0", "NoQuorum");
        calls > 55
    },
};

#[test]
fn calls_in_a_known_outage_end_at_once() {
    OUTAGE.holds(1);
}

#[test]
fn calls_that_ask_nodes_that_are_down_wait_for_them_in_vain() {
    OUTAGE.fails(&[Mechanism::DownNodesAreNotAsked]);
}
