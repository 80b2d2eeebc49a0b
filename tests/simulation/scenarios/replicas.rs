//! A single master with a replica, which lags behind at times and is promoted then. Clients wait for the replica (`wait_replicas`).
//! Nothing else protects a lock from a promotion, since there is no quarantine.

use super::*;

/// Checkers of the promises that remain. A replica that is promoted brings keys back that were given back, and lacks others.
const CHECKERS: &[&str] = &["exclusion", "waits", "progress", "errors"];

/// Two clients want the lock all the time. The replica lags for a while again and again, and is promoted at the end of that.
/// The way to the master is long, so that some promotions come between a grant and its `WAIT`.
const FAILS_OVER: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut chance = Chance::new(seed);
        let habit = Habit::Loops(Loop { holds: ms(300), rests: ms(20), ..Loop::of("mutex", 1) });
        let works = Setup { nodes: 1, ..client(seconds(3), habit) };
        let mut plan = calm(seed, 1, &[works; 2]);
        (plan.quarantine, plan.replicated, plan.latency_ms) = (false, true, 40);
        plan.stragglers = 0;
        for second in 1..8 {
            let from = seconds(2 * second) + chance.ms(0..600);
            let promoted = from + chance.ms(50..700);
            plan.faults.extend([
                fault(from, promoted + ms(5), Fault::ReplicaLags { node: 0 }),
                fault(promoted, promoted + ms(1), Fault::FailsOver { node: 0 }),
                // It is late at other times, without harm.
                fault(from + ms(1_350), from + ms(1_390), Fault::ReplicaLags { node: 0 }),
            ]);
        }
        plan
    },
    happened: |run| tells(run, "replica of node 0", "takes over") && run.grants.len() > 20,
};

#[test]
fn a_lock_survives_the_promotion_of_a_replica_that_lags() {
    FAILS_OVER.holds_under(CHECKERS);
}

#[test]
fn a_grant_that_no_replica_has_makes_two_holders() {
    FAILS_OVER.breaks(&[Mechanism::GrantsAwaitReplicas], &["exclusion"]);
}

#[test]
fn replicas_of_another_server_that_count_make_two_holders() {
    FAILS_OVER.breaks(&[Mechanism::ReplicasAreOfTheGrantor], &["exclusion"]);
}
