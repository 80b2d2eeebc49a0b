//! A client's machine is suspended, and its clock stands still, as that of some virtual machines does.

use super::*;

/// The first client has just renewed its lock, so it would not ask the nodes for seconds when it runs again.
const ASLEEP: Duration = ms(7_500);
const AWAKE: Duration = seconds(33);

/// Another client gets the lock meanwhile, and the first one must hear soon that it has lost it.
const SUSPENDED: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let holder = client(seconds(20), Habit::Keeps);
        let other = Setup { habit: Habit::KeepsFrom(seconds(2)), ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        plan.faults = vec![fault(ASLEEP, AWAKE, Fault::Asleep { client: 0 })];
        plan.lasts = seconds(42);
        plan
    },
    happened: |run| {
        let lost = tells(run, "client 0", "is told that it is lost");
        lost && first_grant(run, 1, ASLEEP).is_some_and(|at| at < AWAKE)
    },
};

#[test]
fn a_client_whose_clock_stood_still_gives_its_lock_up() {
    SUSPENDED.holds(1);
}

#[test]
fn without_that_rule_two_clients_hold_the_lock() {
    SUSPENDED.mostly_breaks(&[Mechanism::SuspensionsEndLeases], &["exclusion"]);
}

#[test]
fn without_a_doubt_about_its_own_clock_two_clients_hold_the_lock() {
    SUSPENDED.mostly_breaks(&[Mechanism::OwnClockIsDoubted], &["exclusion"]);
}
