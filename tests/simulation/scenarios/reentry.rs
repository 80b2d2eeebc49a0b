//! Re-entry: threads take a lock again that they already hold, where the kind allows it.

use super::*;

/// Two clients of two threads each use one lock in all ways that users do. Nothing goes wrong, except that a lock
/// that is not renewed ends.
fn again(seed: u64) -> Plan {
    let habit = Habit::Anything;
    let mut plan = calm(seed, 3, &[client(seconds(3), habit), client(seconds(2), habit)]);
    plan.callers = vec![2, 2];
    plan.kind = Some("reentrant");
    plan.local_queues = seed.is_multiple_of(2);
    plan.lasts = seconds(20);
    plan
}

fn ends(run: &Run, how: &str) -> bool {
    run.story.iter().any(|line| line.ends_with(how))
}

const TAKEN: Scenario =
    Scenario { runs: 40, plan: again, happened: |run| ends(run, "again: Taken") };

const LOST: Scenario = Scenario { runs: 40, plan: again, happened: |run| ends(run, "again: Lost") };

/// The checkers check the token and the lease, and that a hold less frees nothing.
#[test]
fn a_thread_takes_its_lock_again() {
    TAKEN.holds(1);
}

#[test]
fn without_the_last_hold_an_inner_unlock_gives_the_lock_back() {
    TAKEN.mostly_breaks(&[Mechanism::LastHolderGivesBack], &["holders"]);
}

#[test]
fn a_thread_that_has_lost_its_lock_is_told_when_it_takes_that_again() {
    LOST.holds(4);
}

#[test]
fn without_that_rule_a_lost_lock_is_taken_again() {
    LOST.breaks(&[Mechanism::LostLocksAreNotTakenAgain], &["again"]);
}
