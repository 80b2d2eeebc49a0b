//! Requests of a client that arrive after it has given the connection up, and has been answered over the next one.

use super::*;

/// Two clients have a lock in turn, long enough for a renewal, or not. The user of one of them may end connections.
/// Now and then the requests of one client are held up, for up to `longest`.
fn plan(seed: u64, ttl: Duration, works: Duration, longest: Duration) -> Plan {
    let works = Setup { max_ttl: ttl * 2, ..client(ttl, Habit::Works(works)) };
    let mut plan = calm(seed, 3, &[works; 2]);
    let mut chance = Chance::new(seed);
    plan.may_end = vec![true, false];
    let mut from = ms(500);
    while from < FAULTS_END {
        let until = from + ms(300) + (longest - ms(300)).mul_f64(chance.share());
        plan.faults.push(fault(
            from,
            until,
            Fault::Held { client: chance.below(2), split: chance.below(3) },
        ));
        from = until + chance.ms(200..2_000);
    }
    plan
}

fn came_late(run: &Run) -> bool {
    tells(run, "extend", "(in flight)") || tells(run, "acquire", "(in flight)")
}

/// Renewals are held up, and arrive after the lock was given back.
const RENEWED: Scenario = Scenario {
    runs: 160,
    plan: |seed| plan(seed, seconds(3), ms(1_500), ms(4_000)),
    happened: came_late,
};

/// Locks that live long, and are given back soon. A held-up request is then more likely an acquisition.
const SHORT: Scenario = Scenario {
    runs: 40,
    plan: |seed| plan(seed, seconds(40), ms(400), ms(3_000)),
    happened: came_late,
};

/// As `RENEWED`, without fences, and without the permission to end connections.
const WITHOUT_FENCES: Scenario = Scenario {
    runs: 40,
    plan: |seed| {
        let mut plan = (RENEWED.plan)(seed);
        plan.fencing = false;
        plan.may_end.fill(false);
        // No other client blocks late requests.
        plan.setups[0].habit = Habit::TriesOnce(ms(0));
        plan
    },
    happened: came_late,
};

/// As `SHORT`, without another client that blocks late requests, and without the permission to end connections.
const UNDONE: Scenario = Scenario {
    runs: 40,
    plan: |seed| {
        let mut plan = (SHORT.plan)(seed);
        plan.may_end.fill(false);
        plan.setups[0].habit = Habit::TriesOnce(ms(0));
        plan
    },
    happened: came_late,
};

#[test]
fn a_late_extension_brings_no_lock_back() {
    RENEWED.holds(2);
}

#[test]
fn a_late_acquisition_leaves_no_lock_behind() {
    SHORT.holds(2);
    UNDONE.holds(2);
}

#[test]
fn without_fences_what_is_late_is_told_or_undone() {
    WITHOUT_FENCES.holds(2);
}

/// The code as it was before these mechanisms.
#[test]
fn without_any_of_it_late_extensions_bring_locks_back() {
    let without = &[
        Mechanism::OldConnectionsAreEnded,
        Mechanism::OnlyCertainReleasesCount,
        Mechanism::ReleasesRaiseTheFence,
        Mechanism::ReleasesAreRepeated,
    ];
    RENEWED.breaks(without, &["late"]);
    SHORT.breaks(without, &["late"]);
    WITHOUT_FENCES.breaks(without, &["late"]);
}

#[test]
fn without_the_end_of_old_connections_late_requests_run() {
    SHORT.breaks(&[Mechanism::OldConnectionsAreEnded], &["late"]);
}

#[test]
fn without_raised_fences_late_extensions_set_keys_again() {
    RENEWED.breaks(&[Mechanism::ReleasesRaiseTheFence], &["late"]);
}

#[test]
fn without_certainty_a_lock_is_said_to_be_given_back_that_comes_back() {
    let without = &[Mechanism::OnlyCertainReleasesCount];
    WITHOUT_FENCES.breaks(without, &["late"]);
}

#[test]
fn without_repetitions_keys_of_late_acquisitions_stay() {
    UNDONE.breaks(&[Mechanism::ReleasesAreRepeated], &["leaks"]);
}
