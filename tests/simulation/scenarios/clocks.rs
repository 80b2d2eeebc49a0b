//! A node restarts empty, and its clock is set forward while it is in quarantine.

use super::*;

/// The first client holds a lock on a bare majority of the nodes, and is cut off from all nodes. It neither renews
/// nor repairs, and its lock is valid for another 3 s at least. One of those nodes restarts without its data, and
/// then its clock is set.
fn a_clock_is_set(seed: u64, nodes: usize) -> Plan {
    let holder = Setup { nodes, ..client(seconds(5), Habit::Keeps) };
    let other = Setup { habit: Habit::Contends, ..holder };
    let mut plan = calm(seed, nodes, &[holder, other]);
    let mut chance = Chance::new(seed);
    let restart = seconds(5) + chance.ms(10..500);
    let hour = seconds(3_600);
    plan.faults = vec![
        fault(seconds(5), seconds(15), Fault::Isolated { client: 0, split: 0 }),
        at(restart, Fault::Amnesia { node: 0 }),
        at(restart + chance.ms(50..1_000), Fault::WallClockForward { node: 0, by: hour }),
    ];
    if nodes > 1 {
        let cut = Fault::Cut { client: 0, node: nodes - 1 };
        plan.faults.push(fault(Duration::ZERO, seconds(15), cut));
    }
    plan
}

/// The other client waits for the end of the lock, or of the quarantine, and then gets the lock.
fn the_lock_came_to_its_end(run: &Run) -> bool {
    let lost = tells(run, "client 0", "is told that it is lost");
    lost && first_grant(run, 1, seconds(5)).is_some_and(|granted| granted > ms(8_000))
}

const OF_THREE: Scenario =
    Scenario { runs: 30, plan: |seed| a_clock_is_set(seed, 3), happened: the_lock_came_to_its_end };

const SINGLE: Scenario =
    Scenario { runs: 30, plan: |seed| a_clock_is_set(seed, 1), happened: the_lock_came_to_its_end };

#[test]
fn a_clock_that_is_set_during_a_quarantine_does_not_end_it() {
    OF_THREE.holds(1);
}

#[test]
fn without_the_sets_time_a_clock_that_is_set_ends_a_quarantine() {
    OF_THREE.mostly_breaks(&[Mechanism::EndsByTheSetsTime], &["exclusion"]);
}

#[test]
fn the_clock_of_a_single_node_does_not_end_its_quarantine() {
    SINGLE.holds(1);
}

#[test]
fn without_watching_the_clock_of_a_single_node_ends_its_quarantine() {
    // Both are off, because watching also notices that the clock was set.
    let without = &[Mechanism::ClocksAreWatched, Mechanism::FewClocksAreWatched];
    SINGLE.mostly_breaks(without, &["exclusion"]);
}

/// The first client holds a lock on a bare majority of five nodes, and is cut off. The clocks of two of these nodes
/// are set forward, one after the other. The second one was behind the median clock, and is then ahead of it. The
/// masters' clocks are seconds apart.
const PAST_THE_MIDDLE: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let (ttl, max_ttl) = (seconds(3), seconds(5));
        let holder = Setup { nodes: 5, max_ttl, ..client(ttl, Habit::Keeps) };
        let other = Setup { habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 5, &[holder, other, other]);
        let mut chance = Chance::new(seed);
        plan.wall_offsets = vec![12_000, 13_000, 30_000, 7_000, 12_500];
        plan.walls_agree = false;
        let cut = seconds(5);
        let second = cut + chance.ms(300..800);
        plan.faults = vec![
            fault(cut, seconds(15), Fault::Isolated { client: 0, split: 0 }),
            at(cut + chance.ms(10..100), Fault::ClockJumps { node: 1, by: seconds(5) }),
            at(second, Fault::ClockJumps { node: 0, by: seconds(5) }),
        ];
        for node in 3..5 {
            plan.faults.push(fault(Duration::ZERO, seconds(15), Fault::Cut { client: 0, node }));
        }
        plan
    },
    happened: |run| {
        let lost = tells(run, "client 0", "is told that it is lost");
        lost && (1..3).any(|client| first_grant(run, client, seconds(5)).is_some())
    },
};

#[test]
fn a_clock_that_is_set_past_the_one_in_the_middle_ends_no_other_nodes_quarantine() {
    PAST_THE_MIDDLE.holds(1);
}

#[test]
fn by_raw_clocks_that_ends_a_quarantine_and_makes_two_holders() {
    PAST_THE_MIDDLE.breaks(&[Mechanism::TimeIsCorrected], &["exclusion"]);
}
