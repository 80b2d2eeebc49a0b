//! Clients that take one lock again and again, each time for a moment.

use super::*;

/// All callers want the lock again at once, and no message takes much longer than usual.
fn insistent(seed: u64, callers: &[usize], turns: u32) -> Plan {
    let setups = vec![client(seconds(5), Habit::Insists); callers.len()];
    let mut plan = calm(seed, 3, &setups);
    plan.callers = callers.to_vec();
    plan.local_queues = true;
    (plan.latency_ms, plan.stragglers) = (1, 0);
    plan.lasts = seconds(4);
    plan.turns = Some(turns);
    plan
}

/// All clients have had the lock often.
fn all_had_it(run: &Run, clients: usize) -> bool {
    (0..clients).all(|one| run.grants.iter().filter(|grant| grant.client == one).count() > 200)
}

/// Five clients with one thread each. A client waits for four turns of each other client at most.
const FIVE: Scenario = Scenario {
    runs: 4,
    plan: |seed| insistent(seed, &[1; 5], 16),
    happened: |run| all_had_it(run, 5),
};

/// A client of four threads, which hand the lock to each other every 300 us, and a client with one thread.
const FOUR_AND_ONE: Scenario = Scenario {
    runs: 4,
    plan: |seed| insistent(seed, &[4, 1], 100),
    happened: |run| all_had_it(run, 2) && tells(run, "client 0", "is handed to"),
};

const RUDE: &[Mechanism] = &[Mechanism::GivesWay];

#[test]
fn clients_that_want_one_lock_all_the_time_take_turns() {
    FIVE.holds(1);
}

#[test]
fn without_giving_way_one_client_has_the_lock_all_the_time() {
    FIVE.mostly_breaks(RUDE, &["turns"]);
}

#[test]
fn without_earlier_waiters_first_some_client_is_left_out() {
    FIVE.mostly_breaks(&[Mechanism::EarlierWaitersFirst], &["turns"]);
}

#[test]
fn a_client_of_many_threads_has_short_turns_while_another_one_waits() {
    FOUR_AND_ONE.holds(1);
}

#[test]
fn without_giving_way_the_threads_of_one_client_hand_the_lock_on_for_long() {
    FOUR_AND_ONE.mostly_breaks(RUDE, &["turns"]);
}
