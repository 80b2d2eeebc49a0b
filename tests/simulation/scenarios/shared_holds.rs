//! Threads of one client hold a lock together. On the nodes the lock is the mutex, so each of their leases is exclusive.

use super::*;
use crate::core::base::Backoff;

/// Two clients of several threads each use one lock with that habit, and nothing goes wrong. Their TTLs and pauses
/// differ, and so do all clocks.
fn together(seed: u64, habit: Habit) -> Plan {
    let slower = Setup {
        backoff: Backoff { min: ms(50), max: seconds(1) },
        node_timeout: ms(150),
        ..client(seconds(5), habit)
    };
    let mut plan = calm(seed, 3, &[client(seconds(3), habit), slower]);
    plan.wall_offsets = vec![0, 40_000, 7_000_000];
    plan.walls_agree = false;
    plan.callers = vec![4, 3];
    plan.local_queues = true;
    plan.together = true;
    plan.kind = Some("mutex");
    plan.lasts = seconds(8);
    plan
}

/// Returns true if threads of that client have joined each other.
fn joined(run: &Run, who: usize) -> bool {
    tells(run, &format!("client {who}:"), "is joined")
}

/// Threads hold the lock for as long as it can be joined, and rest as long.
const WORKING: Scenario = Scenario {
    runs: 10,
    plan: |seed| together(seed, Habit::Works(ms(40))),
    happened: |run| joined(run, 0) && joined(run, 1),
};

/// Some threads ask for less time than is left.
const EXTENDING: Scenario = Scenario {
    runs: 40,
    plan: |seed| together(seed, Habit::Anything),
    happened: |run| joined(run, 0) || joined(run, 1),
};

#[test]
fn threads_of_one_client_hold_a_lock_together() {
    WORKING.holds(1);
}

#[test]
fn without_the_last_holder_somebody_gives_the_lock_of_others_back() {
    WORKING.mostly_breaks(&[Mechanism::LastHolderGivesBack], &["holders"]);
}

#[test]
fn threads_that_hold_a_lock_together_extend_it_each_for_itself() {
    EXTENDING.holds(2);
}

#[test]
fn without_that_rule_an_extension_cuts_the_time_of_others() {
    EXTENDING.breaks(&[Mechanism::ExtensionsCutNoOther], &["terms"]);
}
