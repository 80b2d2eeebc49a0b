//! The wall clock of a node is set forward by a small step, while clients use locks of very different lengths.

use super::*;

/// The first client holds a lock on a bare majority of the nodes, and is cut off at `cut`. Its lock is valid until
/// its TTL is nearly over. The clock of one of those nodes is set forward by `by`.
fn a_step(seed: u64, holder: Setup, others: Setup, by: Duration) -> Plan {
    let mut plan = calm(seed, 3, &[holder, others]);
    let (cut, end) = (seconds(5), seconds(20));
    let step = cut + Chance::new(seed).ms(0..50);
    plan.faults = vec![
        fault(Duration::ZERO, end, Fault::Cut { client: 0, node: 2 }),
        fault(cut, end, Fault::Isolated { client: 0, split: 0 }),
        at(step, Fault::ClockJumps { node: 0, by }),
    ];
    plan
}

fn setup(ttl: Duration, max_ttl: Duration, habit: Habit) -> Setup {
    Setup { max_ttl, ..client(ttl, habit) }
}

/// The other client gets the lock once its validity has ended.
fn the_lock_changed_hands(run: &Run) -> bool {
    // Its holder is told so, or finds out at that very moment.
    let ended = |how| tells(run, "client 0", how);
    let lost = ended("is told that it is lost") || ended("dropped");
    lost && first_grant(run, 1, seconds(5)).is_some()
}

/// The other client has watched the clock, and its own locks live for minutes. A step that is a small part of their
/// allowance for drift is longer than the rest of a short lock.
const LONG_AND_SHORT: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let max_ttl = seconds(600);
        let by = Chance::new(seed).ms(2_300..2_900);
        let holder = setup(seconds(3), max_ttl, Habit::Keeps);
        a_step(seed, holder, setup(max_ttl, max_ttl, Habit::Contends), by)
    },
    happened: the_lock_changed_hands,
};

/// As `LONG_AND_SHORT`, with a step of little more than a tenth of a second.
const SMALL_STEP: Scenario = Scenario {
    runs: 60,
    plan: |seed| {
        let max_ttl = seconds(30);
        let holder = setup(seconds(1), max_ttl, Habit::Keeps);
        a_step(seed, holder, setup(max_ttl, max_ttl, Habit::Contends), ms(140))
    },
    happened: the_lock_changed_hands,
};

/// All locks are short, and the other client begins after the step. It can compare the clock only with the node's
/// mark.
const NEWCOMER: Scenario = Scenario {
    runs: 60,
    plan: |seed| {
        let max_ttl = seconds(20);
        let holder = setup(seconds(1), max_ttl, Habit::Keeps);
        let by = Chance::new(seed).ms(45..95);
        let mut plan = a_step(seed, holder, setup(seconds(1), max_ttl, Habit::Contends), by);
        plan.faults.push(fault(Duration::ZERO, ms(5_200), Fault::Crashed { client: 1 }));
        plan
    },
    happened: the_lock_changed_hands,
};

/// The step is somewhat larger than the tolerance in every validity. The way to that node is so long that no reading
/// of its clock is certain of that.
const IN_DOUBT: Scenario = Scenario {
    runs: 120,
    plan: |seed| {
        let clock_tolerance = ms(400);
        let (ttl, max_ttl) = (seconds(2), seconds(20));
        let holder = Setup { clock_tolerance, ..setup(ttl, max_ttl, Habit::Keeps) };
        let mut plan = a_step(seed, holder, Setup { habit: Habit::Contends, ..holder }, ms(505));
        let slow = Fault::Slow { client: 1, node: 0, by: ms(54) };
        plan.faults.push(fault(Duration::ZERO, seconds(20), slow));
        plan
    },
    happened: the_lock_changed_hands,
};

/// The clock gains by many steps, each far below the tolerance. Processes come and go, so each of them sees one step
/// at most. The sum of the steps is longer than the rest of a lock that existed before the first step.
const MANY_SMALL_STEPS: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        let (ttl, max_ttl) = (seconds(12), seconds(12));
        // Locks of all lengths, and masters whose clocks are far apart.
        let other = |ttl| setup(seconds(ttl), max_ttl, Habit::Contends);
        let (cut, end, every) = (seconds(5), seconds(20), ms(1_500));
        let mut chance = Chance::new(seed);
        let mut plan = calm(seed, 3, &[setup(ttl, max_ttl, Habit::Keeps), other(3), other(1)]);
        plan.wall_offsets = vec![60_000, 0, chance.ms(0..60_000).as_millis() as u64];
        plan.walls_agree = false;
        plan.faults = vec![
            fault(Duration::ZERO, end, Fault::Cut { client: 0, node: 2 }),
            fault(cut, end, Fault::Isolated { client: 0, split: 0 }),
            fault(Duration::ZERO, cut, Fault::Crashed { client: 2 }),
        ];
        for step in 0..8 {
            let begin = cut + every * step;
            plan.faults.push(at(begin, Fault::ClockJumps { node: 0, by: chance.ms(60..75) }));
            let away =
                fault(begin + ms(1_400), begin + every + ms(50), Fault::Crashed { client: 2 });
            plan.faults.push(away);
        }
        plan
    },
    happened: the_lock_changed_hands,
};

#[test]
fn small_steps_do_not_add_up_behind_processes_that_come_and_go() {
    MANY_SMALL_STEPS.holds(1);
}

#[test]
fn without_marks_that_rise_slowly_small_steps_make_two_holders() {
    MANY_SMALL_STEPS.breaks(&[Mechanism::MarksRiseSlowly], &["exclusion"]);
}

/// One step before a process begins to track the clock, and one after that.
const BEFORE_AND_AFTER: Scenario = Scenario {
    runs: 60,
    plan: |seed| {
        let (clock_tolerance, by) = (ms(400), ms(280));
        let holder = Setup { clock_tolerance, ..setup(seconds(2), seconds(20), Habit::Keeps) };
        let mut plan = a_step(seed, holder, Setup { habit: Habit::Contends, ..holder }, by);
        plan.faults.push(fault(Duration::ZERO, ms(5_100), Fault::Crashed { client: 1 }));
        let again = ms(5_200) + Chance::new(seed).ms(0..200);
        plan.faults.push(at(again, Fault::ClockJumps { node: 0, by }));
        plan
    },
    happened: the_lock_changed_hands,
};

#[test]
fn a_step_before_a_process_begins_and_one_after_it_add_up() {
    BEFORE_AND_AFTER.holds(1);
}

#[test]
fn without_what_a_clock_had_gained_before_two_steps_make_two_holders() {
    BEFORE_AND_AFTER.breaks(&[Mechanism::TrackersBeginAtMarks], &["exclusion"]);
}

#[test]
fn a_step_that_is_small_for_long_locks_does_not_end_a_short_one() {
    LONG_AND_SHORT.holds(1);
}

#[test]
fn without_the_watch_a_step_that_is_small_for_long_locks_ends_a_short_one() {
    LONG_AND_SHORT.mostly_breaks(&[Mechanism::ClocksAreWatched], &["exclusion"]);
}

#[test]
fn a_step_of_a_tenth_of_a_second_does_not_end_a_short_lock() {
    SMALL_STEP.holds(1);
}

#[test]
fn a_process_that_begins_after_a_small_step_does_not_end_a_short_lock() {
    NEWCOMER.holds(1);
}

#[test]
fn without_the_tolerance_in_each_validity_a_small_step_makes_two_holders() {
    NEWCOMER.mostly_breaks(&[Mechanism::ClockTolerance], &["exclusion"]);
}

#[test]
fn doubt_about_a_step_counts_against_the_vote() {
    IN_DOUBT.holds(1);
}

#[test]
fn without_the_doubt_a_step_that_nobody_is_certain_of_makes_two_holders() {
    IN_DOUBT.breaks(&[Mechanism::DoubtHasNoVote], &["exclusion"]);
}
