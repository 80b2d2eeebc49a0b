//! The wall clock of a node falls behind in small steps, and is set right in one step.

use super::*;

/// The clock of the first node is set back twice, by half of `by` each time, while clients take locks all the time.
/// The first client then holds a lock on a bare majority of the nodes, and is cut off. Then the clock is set right.
fn back_and_right(seed: u64, nodes: usize, ttl: Duration, by: Duration) -> Plan {
    let holder = Setup { nodes, max_ttl: seconds(20), ..client(ttl, Habit::Keeps) };
    let other = Setup { habit: Habit::Contends, ..holder };
    let mut plan = calm(seed, nodes, &[holder, other, other]);
    let (cut, end) = (seconds(5), seconds(20));
    let mut chance = Chance::new(seed);
    plan.faults = vec![fault(cut, end, Fault::Isolated { client: 0, split: 0 })];
    for node in nodes / 2 + 1..nodes {
        plan.faults.push(fault(Duration::ZERO, end, Fault::Cut { client: 0, node }));
    }
    for begin in [ms(3_000), ms(3_500)] {
        let back = Fault::WallClockBack { node: 0, by: by / 2 };
        plan.faults.push(at(begin + chance.ms(0..100), back));
    }
    plan.faults.push(at(cut + chance.ms(0..50), Fault::ClockJumps { node: 0, by }));
    plan
}

/// One of the other clients gets the lock once that of the first client has ended.
fn the_lock_changed_hands(run: &Run) -> bool {
    let lost = tells(run, "client 0", "is told that it is lost");
    lost && (1..3).any(|client| first_grant(run, client, seconds(5)).is_some())
}

const RUNNING: Scenario = Scenario {
    runs: 60,
    plan: |seed| back_and_right(seed, 3, ms(1_000), ms(180)),
    happened: the_lock_changed_hands,
};

/// One of the other clients begins after the clock was set right. It knows nothing but the mark.
const NEWCOMER: Scenario = Scenario {
    runs: 60,
    plan: |seed| {
        let mut plan = back_and_right(seed, 3, ms(1_000), ms(180));
        // Many threads, because the time in which there can be two holders is short.
        plan.callers[2] = 4;
        plan.faults.push(fault(Duration::ZERO, ms(5_200), Fault::Crashed { client: 2 }));
        plan
    },
    happened: the_lock_changed_hands,
};

const OF_FIVE: Scenario = Scenario {
    runs: 60,
    plan: |seed| {
        let mut plan = back_and_right(seed, 5, ms(2_000), ms(190));
        plan.faults.push(fault(Duration::ZERO, ms(5_200), Fault::Crashed { client: 2 }));
        plan
    },
    happened: the_lock_changed_hands,
};

#[test]
fn without_probes_of_busy_nodes_a_clock_that_is_set_right_makes_two_holders() {
    NEWCOMER.breaks(&[Mechanism::BusyNodesAreProbed], &["exclusion"]);
}

#[test]
fn a_clock_that_fell_behind_and_is_set_right_makes_no_two_holders() {
    RUNNING.holds(1);
}

#[test]
fn nor_does_it_with_processes_that_begin_after_that() {
    NEWCOMER.holds(1);
}

#[test]
fn nor_on_five_nodes() {
    OF_FIVE.holds(1);
}
