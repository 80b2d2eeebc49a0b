//! The wall clock of a node is set forward while a lock is held there, on just as many nodes as it takes.

use super::*;

const JUMP: Duration = ms(5_200);

/// The holder is cut off from everybody shortly before, and believes in the lock for another three
/// seconds at least. Its key on one of two nodes ends at once.
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

/// The other one waits for the end of the lock, and gets it then.
fn the_lock_came_to_its_end(run: &Run) -> bool {
    let lost = tells(run, "client 0", "is told that it is lost");
    lost && first_grant(run, 1, seconds(5)).is_some_and(|granted| granted > ms(8_000))
}

/// The other one has tried for the lock all the time, and has watched the clock.
const WATCHED: Scenario =
    Scenario { runs: 30, plan: a_clock_jumps, happened: the_lock_came_to_its_end };

/// The other one begins after the jump.
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
    WATCHED.breaks(Mechanisms { clocks_are_watched: false, ..ALL }, &["exclusion"]);
}

#[test]
fn a_process_that_begins_after_the_jump_sees_it_too() {
    NEWCOMER.holds(1);
}

#[test]
fn without_the_note_a_process_that_begins_after_the_jump_is_granted_the_lock() {
    NEWCOMER.breaks(Mechanisms { clocks_are_noted: false, ..ALL }, &["exclusion"]);
}
