//! An operator has nodes admitted if they show that no lock is held.

use super::*;

/// Time at which the first client comes. The nodes have been up since the start.
const BEGIN: Duration = seconds(4);

/// Two clients that want one lock on three nodes. Its longest life is much shorter than the time before `BEGIN`.
fn clients() -> [Setup; 2] {
    let first = Setup { max_ttl: seconds(2), ..client(seconds(1), Habit::Contends) };
    [first; 2]
}

/// Nodes that nobody has used, and the call of the client that has begun their quarantine. Another client has come since.
const NEW_SET: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = calm(seed, 3, &clients());
        plan.new_set = true;
        plan.faults = vec![
            fault(Duration::ZERO, BEGIN + ms(250), Fault::Crashed { client: 0 }),
            fault(Duration::ZERO, BEGIN, Fault::Crashed { client: 1 }),
            at(BEGIN + ms(300), Fault::AdmittedIfUnused { client: 1 }),
        ];
        plan
    },
    // The quarantine would last for two seconds. Callers look again after one.
    happened: |run| {
        let grants = [0, 1].map(|client| first_grant(run, client, BEGIN));
        grants.into_iter().flatten().any(|at| at < BEGIN + ms(1_800))
    },
};

#[test]
fn a_new_set_is_admitted_at_once() {
    NEW_SET.holds(1);
}

/// A client keeps a lock, whose keys two of three nodes have just forgotten. Before it has renewed the lock, an operator at
/// another client has the nodes admitted.
const FORGETFUL: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let keeper = client(seconds(8), Habit::Keeps);
        let mut plan = calm(seed, 3, &[keeper, client(seconds(8), Habit::Contends)]);
        // Nobody else gets the lock before.
        plan.faults.push(fault(Duration::ZERO, seconds(1), Fault::Crashed { client: 1 }));
        let forgets = seconds(4) + Chance::new(seed).ms(0..3_000);
        let gone = |node| fault(forgets, forgets + ms(20), Fault::Amnesia { node });
        plan.faults.extend([gone(0), gone(1)]);
        plan.faults.push(at(forgets + ms(200), Fault::AdmittedIfUnused { client: 1 }));
        plan
    },
    happened: |run| first_grant(run, 0, Duration::ZERO).is_some(),
};

#[test]
fn nodes_that_have_just_forgotten_a_lock_are_not_admitted() {
    FORGETFUL.holds(1);
}

#[test]
fn without_a_proof_they_are() {
    FORGETFUL.breaks(&[Mechanism::AdmissionIsProven], &["exclusion"]);
}
