//! The wall clock of a node is set forward while a lock is held on a bare majority that includes the node.

use super::*;

const JUMP: Duration = ms(5_200);

/// The holder is cut off from all nodes shortly before, while its lock is valid for another 3 s at least. Its key on
/// one of two nodes ends at once.
fn a_clock_jumps(seed: u64) -> Plan {
    let holder = client(seconds(5), Habit::Keeps);
    let other = Setup { habit: Habit::Contends, ..holder };
    let mut plan = calm(seed, 3, &[holder, other]);
    let by = Chance::new(seed).ms(5_000..3_600_000);
    plan.faults = vec![
        fault(Duration::ZERO, seconds(15), Fault::Cut { client: 0, node: 2 }),
        fault(seconds(5), seconds(15), Fault::Isolated { client: 0, split: 0 }),
        at(JUMP, Fault::ClockJumps { node: 0, by }),
    ];
    plan
}

/// The other client waits for the end of the lock, and then gets it.
fn the_lock_came_to_its_end(run: &Run) -> bool {
    let lost = tells(run, "client 0", "is told that it is lost");
    lost && first_grant(run, 1, seconds(5)).is_some_and(|granted| granted > ms(8_000))
}

/// The other client has tried for the lock all the time, and has watched the clock.
const WATCHED: Scenario =
    Scenario { runs: 30, plan: a_clock_jumps, happened: the_lock_came_to_its_end };

/// The other client begins after the jump.
const NEWCOMER: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let mut plan = a_clock_jumps(seed);
        plan.faults.push(fault(Duration::ZERO, JUMP + ms(50), Fault::Crashed { client: 1 }));
        plan
    },
    happened: the_lock_came_to_its_end,
};

#[test]
fn a_clock_that_jumps_costs_the_node_its_vote() {
    WATCHED.holds(1);
}

#[test]
fn without_the_watch_a_clock_that_jumps_makes_two_holders() {
    WATCHED.mostly_breaks(&[Mechanism::ClocksAreWatched], &["exclusion"]);
}

#[test]
fn a_process_that_begins_after_the_jump_sees_it_too() {
    NEWCOMER.holds(1);
}

#[test]
fn without_the_note_a_process_that_begins_after_the_jump_is_granted_the_lock() {
    NEWCOMER.mostly_breaks(&[Mechanism::ClocksAreNoted], &["exclusion"]);
}

/// The holder renews, and one clock jumps. With four nodes, the holder reaches the last one just then, and has no key
/// on it yet.
fn a_holder_is_there(seed: u64, nodes: usize) -> Plan {
    let holder = Setup { nodes, ..client(seconds(5), Habit::Keeps) };
    let other = Setup { habit: Habit::Contends, ..holder };
    let mut plan = calm(seed, nodes, &[holder, other]);
    let mut chance = Chance::new(seed);
    let by = chance.ms(5_000..3_600_000);
    let jump = JUMP + chance.ms(0..2_000);
    plan.faults = vec![at(jump, Fault::ClockJumps { node: 0, by })];
    if nodes > 2 {
        let cut = Fault::Cut { client: 0, node: nodes - 1 };
        plan.faults.push(fault(Duration::ZERO, jump - chance.ms(0..1_000), cut));
    }
    plan
}

/// The first client had the lock before, and keeps it until all is over.
fn it_keeps_the_lock(run: &Run) -> bool {
    let grants = |client| run.grants.iter().filter(move |grant| grant.client == client);
    let held = grants(0).any(|grant| grant.at < JUMP);
    held && !tells(run, "client 0", "is told that it is lost")
}

const TWO: Scenario =
    Scenario { runs: 30, plan: |seed| a_holder_is_there(seed, 2), happened: it_keeps_the_lock };

const FOUR: Scenario =
    Scenario { runs: 30, plan: |seed| a_holder_is_there(seed, 4), happened: it_keeps_the_lock };

const DENYING: &[Mechanism] = &[Mechanism::MovedClocksDoNotDeny];

#[test]
fn a_clock_that_jumps_takes_the_lock_from_no_holder_on_two_nodes() {
    TWO.holds(1);
}

#[test]
fn a_moved_clock_that_denies_takes_the_lock_from_its_holder_on_two_nodes() {
    TWO.breaks(DENYING, &["losses"]);
}

#[test]
fn a_clock_that_jumps_takes_the_lock_from_no_holder_on_four_nodes() {
    FOUR.holds(1);
}

#[test]
fn a_moved_clock_that_denies_takes_the_lock_from_its_holder_on_four_nodes() {
    FOUR.breaks(DENYING, &["losses"]);
}
