//! Callers of one semaphore, in several processes.

use super::*;

/// Six clients that want one or both of two permits. TTLs, node timeouts and clocks differ, and the clients start one
/// after the other. A master goes down, one forgets its data, a process is killed with its permits, and one is paused.
fn six(seed: u64) -> Plan {
    let setups: [Setup; 6] = std::array::from_fn(|i| Setup {
        node_timeout: ms(150 + 50 * i as u64),
        ..client(seconds(1 + i as u64), Habit::TakesPermits(2, ms(10 + 20 * i as u64)))
    });
    let mut plan = calm(seed, 3, &setups);
    (plan.wall_offsets[1], plan.wall_offsets[2]) = (40_000, 7_000_000);
    plan.walls_agree = false;
    plan.flaky = 100;
    plan.faults = vec![
        fault(seconds(2), seconds(4), Fault::Down { node: (seed % 3) as usize }),
        fault(seconds(5), seconds(6), Fault::Crashed { client: 1 }),
        fault(seconds(7), seconds(8), Fault::Amnesia { node: ((seed + 1) % 3) as usize }),
        fault(seconds(9), seconds(13), Fault::Paused { client: 3 }),
    ];
    plan.lasts = seconds(16);
    plan
}

fn all_had_some(run: &Run) -> bool {
    (0..6).all(|one| run.grants.iter().filter(|grant| grant.client == one).count() > 10)
}

const SIX: Scenario = Scenario { runs: 20, plan: six, happened: all_had_some };

const PERMITS: u32 = 30;

/// Time from which the other clients come for the last permit.
const LAST: Duration = seconds(3);

/// All permits but one are kept. The other clients come for that one, each at another time, and give it back.
fn last_one(seed: u64) -> Plan {
    let keeps = Setup { permits: PERMITS, ..client(seconds(8), Habit::KeepsPermits) };
    let tries = |i: u64| Setup { habit: Habit::TriesPermit(LAST + ms(400 * i)), ..keeps };
    let mut plan = calm(seed, 3, &[keeps, tries(0), tries(1), tries(2)]);
    plan.callers[0] = PERMITS as usize - 1;
    plan.permits = PERMITS;
    plan.lasts = seconds(6);
    plan
}

/// Each of them got the permit with its first call, which does not wait.
fn found_it(run: &Run) -> bool {
    (1..4).all(|one| {
        let at = LAST + ms(400 * (one as u64 - 1));
        first_grant(run, one, LAST).is_some_and(|got| got < at + ms(200))
    })
}

const LAST_ONE: Scenario = Scenario { runs: 10, plan: last_one, happened: found_it };

/// Some clients are configured with another number of permits than the others.
fn two_numbers(seed: u64) -> Plan {
    let takes =
        |permits, rests| Setup { permits, ..client(seconds(3), Habit::TakesPermits(1, ms(rests))) };
    let mut plan = calm(seed, 3, &[takes(2, 30), takes(2, 500), takes(3, 300), takes(3, 40)]);
    plan.permits = 3;
    plan.lasts = seconds(8);
    plan
}

/// No client waits until the others are gone for good.
fn all_took_turns(run: &Run) -> bool {
    (0..4).all(|one| run.grants.iter().filter(|grant| grant.client == one).count() >= 3)
}

const TWO_NUMBERS: Scenario = Scenario { runs: 10, plan: two_numbers, happened: all_took_turns };

#[test]
fn no_more_are_inside_than_there_are_permits_whatever_goes_wrong() {
    SIX.holds(1);
}

#[test]
fn a_node_that_grants_a_slot_twice_is_found() {
    let twice = Switches {
        script: Some(("owner and owner ~= OWNER", "false")),
        checkers: &["exclusion"],
        ..Switches::ALL_ON
    };
    SIX.breaks_under(twice);
}

/// With this change, each node counts its permits for itself.
#[test]
fn nodes_that_count_permits_instead_of_slots_let_too_many_in() {
    let counts = Switches {
        script: Some(("owner and owner ~= OWNER", "#fields / 2 - 1 >= tonumber(permits)")),
        checkers: &["exclusion"],
        ..Switches::ALL_ON
    };
    SIX.breaks_under(counts);
}

#[test]
fn who_does_not_wait_finds_the_last_free_permit() {
    LAST_ONE.holds(1);
}

#[test]
fn a_refusal_that_hides_free_slots_is_found() {
    let hides =
        Switches { script: Some(("taken[slot + bit] and 0 or 2 ^ bit", "0")), ..Switches::ALL_ON };
    LAST_ONE.fails_under(hides);
}

#[test]
fn without_heeding_what_a_refusal_names_the_last_permit_is_not_found() {
    LAST_ONE.fails(&[Mechanism::RefusalsNameFreeSlots]);
}

#[test]
fn callers_with_different_numbers_of_permits_take_turns() {
    TWO_NUMBERS.holds(1);
}

#[test]
fn nodes_that_do_not_compare_the_numbers_of_permits_are_found() {
    let any = Switches {
        script: Some(("permits ~= PERMITS", "false")),
        checkers: &["exclusion"],
        ..Switches::ALL_ON
    };
    TWO_NUMBERS.breaks_under(any);
}
