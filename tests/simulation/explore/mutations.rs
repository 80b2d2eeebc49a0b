//! Mechanisms that are switched off. The explorer must then find a run that breaks a promise, and none in the same bounds
//! with the mechanism.

use super::cases::{
    Case, SETUP, alone, ms, near, plan, relayed, turns, with_large_number, without_ends,
};
use super::place::Places;
use super::search::search;
use super::tell;
use super::trouble::{Trouble, Troubles};
use crate::core::base::{Backoff, Mechanism, without};
use crate::simulation::faults::{Fault, Scheduled};
use crate::simulation::plan::Plan;
use crate::simulation::setup::{Habit, Loop, Setup};
use crate::simulation::switches::Switches;

/// A case with few troubles.
fn case(plan: Plan, troubles: &[Trouble], deviations: usize) -> Case {
    Case { troubles: Troubles::of(troubles), ..Case::of(plan, deviations) }
}

/// Checks that `checker` finds something without a mechanism, and that nothing is found with it.
#[track_caller]
fn needs(case: &Case, off: &'static [Mechanism], checker: &'static [&'static str]) {
    needs_all_of(case, Switches { off, checkers: checker, ..Switches::ALL_ON });
}

/// As `needs`, without the attempt that makes a reservation: it finds what a waiter has missed.
#[track_caller]
fn needs_beside(case: &Case, off: &[Mechanism], checkers: &'static [&'static str]) {
    without(&[Mechanism::WaitersReserve], || {
        without(off, || finds(case, Switches { checkers, ..Switches::ALL_ON }));
        finds_nothing(case);
    });
}

#[track_caller]
fn needs_all_of(case: &Case, switches: Switches) {
    finds(case, switches);
    finds_nothing(case);
}

#[track_caller]
fn finds(case: &Case, switches: Switches) {
    assert!(switches.is_real(), "no script has that piece any more");
    let (found, figures) = search(case, switches);
    println!("without it: {figures}");
    let found = found.expect("nothing is found without it");
    println!("{}", tell(case, switches, &found));
}

#[track_caller]
fn finds_nothing(case: &Case) {
    let (found, figures) = search(case, Switches::ALL_ON);
    println!("with it: {figures}");
    assert!(found.is_none(), "{}", tell(case, Switches::ALL_ON, &found.expect("a run")));
}

#[test]
fn without_the_quarantine_a_restarted_node_grants_twice() {
    let case = case(turns(ms(200)), &[Trouble::RequestLost, Trouble::Amnesia], 2);
    needs(&case, &[Mechanism::Quarantine], &["exclusion"]);
}

#[test]
fn without_the_majority_one_node_is_enough() {
    let case = case(turns(ms(60)), &[Trouble::RequestLost], 1);
    needs(&case, &[Mechanism::Majority], &["exclusion"]);
}

#[test]
fn without_the_elapsed_time_a_suspended_client_is_valid_for_too_long() {
    let case = case(turns(ms(60)), &[Trouble::Suspended], 1);
    needs(&case, &[Mechanism::Elapsed], &["exclusion"]);
}

/// Two clocks that differ by 0.9 %, which is more than the clock tolerance in the life of a long lock.
#[test]
fn without_the_allowance_for_drift_a_lock_outlives_its_keys() {
    let setup =
        Setup { ttl: ms(20_000), max_ttl: ms(20_000), habit: Habit::Works(ms(250)), ..SETUP };
    let drifting = |rates_ppm| Plan { rates_ppm, ..plan(&[setup; 2], ms(60)) };
    let case = case(drifting(vec![-4_500, -4_500, 4_500, 4_500, 4_500]), &[], 0);
    needs(&case, &[Mechanism::Drift], &["exclusion"]);
}

#[test]
fn without_the_clock_tolerance_two_small_steps_end_a_lock_early() {
    let case = case(turns(ms(200)), &[Trouble::StepBelow], 2);
    needs(&case, &[Mechanism::ClockTolerance], &["exclusion"]);
}

#[test]
fn without_the_rule_that_unknown_does_not_extend_a_lock_outlives_its_keys() {
    let case = case(turns(ms(230)), &[Trouble::AnswerLost, Trouble::RequestLost], 2);
    needs(&case, &[Mechanism::UnknownDoesNotExtend], &["exclusion"]);
}

#[test]
fn without_a_fresh_owner_the_release_of_one_attempt_ends_the_next_one() {
    let setup = Setup { habit: Habit::Works(ms(100)), ..SETUP };
    let plan = without_ends(plan(&[setup; 2], ms(300)));
    let case = case(plan, &[Trouble::RequestLost, Trouble::RequestLate], 2);
    needs(&case, &[Mechanism::FreshOwner], &["exclusion"]);
}

#[test]
fn without_the_write_back_the_next_holder_gets_a_smaller_number() {
    let setup = Setup { habit: Habit::Works(ms(50)), ..SETUP };
    let plan = with_large_number(plan(&[setup; 2], ms(120)), ms(1_000));
    let case = Case { nodes_are_alike: false, ..case(plan, &[Trouble::RequestLost], 1) };
    needs(&case, &[Mechanism::FenceWriteBack], &["tokens"]);
}

/// A node that does not hold the lock must not confirm its number: the next holder's request may have run there before.
#[test]
fn without_only_where_ours_the_next_holder_gets_a_smaller_number() {
    let setup = Setup { habit: Habit::Visits(ms(9_000)), ..SETUP };
    let plan = with_large_number(plan(&[setup; 2], ms(60)), ms(1_000));
    let case = Case { nodes_are_alike: false, ..case(plan, &[Trouble::RequestLost], 3) };
    needs(&case, &[Mechanism::FenceOnlyWhereOurs], &["tokens"]);
}

/// Without it, an extension sets a key again on a node that a later holder has had.
#[test]
fn with_repairs_above_the_fence_a_late_extension_sets_a_key_again() {
    let plan = without_ends(turns(ms(300)));
    let case =
        case(plan, &[Trouble::RequestLate, Trouble::RequestVeryLate, Trouble::SuspendedLong], 1);
    let script = Some(("if known > tonumber(UP_TO) then", "if false then"));
    needs_all_of(&case, Switches { script, checkers: &["late", "leaks"], ..Switches::ALL_ON });
}

/// The lock lives long, so that its key would stay. Its release goes over another connection than its acquisition.
#[test]
fn without_repeated_releases_the_key_of_a_late_acquisition_stays() {
    let long = Setup { ttl: ms(40_000), max_ttl: ms(40_000), ..SETUP };
    let works = Setup { habit: Habit::Works(ms(150)), ..long };
    let tries = Setup { habit: Habit::TriesOnce(ms(0)), ..long };
    let case = case(without_ends(plan(&[works, tries], ms(28))), &[Trouble::RequestLate], 1);
    needs(&case, &[Mechanism::ReleasesAreRepeated], &["leaks"]);
}

/// Without the end of old connections on the server, a late request sets a key behind its release.
#[test]
fn without_the_end_of_old_connections_a_late_acquisition_runs() {
    let plan = alone(Habit::Visits(ms(900)), ms(60));
    let case = case(plan, &[Trouble::RequestLate, Trouble::RequestVeryLate], 1);
    needs(&case, &[Mechanism::OldConnectionsAreEnded], &["late"]);
}

#[test]
fn without_a_raised_fence_a_late_extension_sets_a_key_again() {
    let plan = without_ends(alone(Habit::Works(ms(250)), ms(300)));
    let case = case(plan, &[Trouble::RequestLate, Trouble::RequestVeryLate], 1);
    needs(&case, &[Mechanism::ReleasesRaiseTheFence], &["late"]);
}

/// Without a tombstone, the next renewal brings a lock back that was taken by force.
#[test]
fn without_a_tombstone_a_lock_that_was_forced_open_comes_back() {
    let case = case(alone(Habit::Works(ms(250)), ms(210)), &[Trouble::Forced], 1);
    needs(&case, &[Mechanism::ForcedStayOut], &["forced"]);
}

/// The node runs what was written before the connection was given up, and nothing that undoes it.
#[test]
fn without_final_releases_a_silent_node_keeps_what_it_runs_later() {
    let plan = near(without_ends(alone(Habit::Visits(ms(900)), ms(60))));
    let case = case(plan, &[Trouble::RequestLate], 1);
    needs(&case, &[Mechanism::FinalReleases], &["final"]);
}

/// Late extensions bring a lock back that was said to be given back. No fence keeps them out.
#[test]
fn without_certainty_a_lock_is_said_to_be_given_back_that_comes_back() {
    let plan = without_ends(alone(Habit::Works(ms(365)), ms(240)));
    let case = case(Plan { fencing: false, ..plan }, &[Trouble::RequestLate], 2);
    needs(&case, &[Mechanism::OnlyCertainReleasesCount], &["late"]);
}

/// The message of a release is lost. The key that the waiter has met would live long.
#[test]
fn without_another_look_a_waiter_sleeps_while_the_lock_is_free() {
    let long = Setup { ttl: ms(40_000), max_ttl: ms(40_000), ..SETUP };
    let setup = Setup { habit: Habit::Works(ms(100)), ..long };
    let case = Case {
        troubles: Troubles::of(&[Trouble::MessageLost]),
        places: Places::SUBSCRIBERS,
        ..Case::of(plan(&[setup; 2], ms(200)), 2)
    };
    needs_beside(&case, &[Mechanism::WaitersLookAgain], &["sleeps"]);
}

/// Two clients begin the quarantine of a node again and again.
#[test]
fn without_joined_quarantines_a_node_never_grants_again() {
    let case = case(turns(ms(60)), &[Trouble::Amnesia], 1);
    needs(&case, &[Mechanism::QuarantineIsJoined], &["progress"]);
}

#[test]
fn without_the_full_quarantine_a_node_grants_too_early() {
    let case = case(turns(ms(60)), &[Trouble::Amnesia], 1);
    needs(&case, &[Mechanism::FullMaxTtl], &["admission"]);
}

#[test]
fn without_the_time_of_the_set_a_clock_step_ends_a_quarantine() {
    let case = case(turns(ms(140)), &[Trouble::Amnesia, Trouble::StepAbove], 2);
    let case = Case { places: Places { nodes: true, ..Places::LOCKS }, ..case };
    needs(&case, &[Mechanism::EndsByTheSetsTime], &["admission"]);
}

#[test]
fn without_a_watch_on_clocks_a_step_makes_two_holders() {
    let case = case(turns(ms(200)), &[Trouble::RequestLost, Trouble::StepAbove], 2);
    needs(&case, &[Mechanism::ClocksAreWatched], &["exclusion"]);
}

/// Two nodes were replicas for a moment, of copies that had only their marks.
#[test]
fn without_the_end_of_relayed_connections_another_server_grants() {
    let plan = relayed(turns(ms(60)));
    let case = case(plan, &[Trouble::RequestLost, Trouble::Promoted], 2);
    needs(&case, &[Mechanism::RelayedConnectionsEnd], &["exclusion"]);
}

/// The node becomes another server between the script and `INFO`.
#[test]
fn with_info_before_the_script_a_mark_is_taken_for_that_of_another_server() {
    let case = case(turns(ms(60)), &[Trouble::Promoted], 1);
    let case = Case { from: ms(0), places: Places::NODES, ..case };
    needs_all_of(
        &case,
        Switches { info_first: true, checkers: &["admission"], ..Switches::ALL_ON },
    );
}

/// A proxy that clients cannot notice has kept the connections open when a node was restarted. A late acquisition, over a
/// connection that was made to the first server, reaches the second one.
#[test]
fn without_the_end_of_a_connection_to_another_run_a_late_acquisition_stays() {
    let long = Setup { ttl: ms(20_000), max_ttl: ms(20_000), ..SETUP };
    let works = Setup { habit: Habit::Works(ms(150)), ..long };
    let tries = Setup { habit: Habit::TriesOnce(ms(0)), ..long };
    let mut plan = without_ends(plan(&[works, tries], ms(21_330)));
    plan.unnoticed_proxy = true;
    let fault = Fault::Down { node: 0 };
    plan.faults.push(Scheduled { at: ms(26), lasts: ms(1), fault });
    let case = case(plan, &[Trouble::RequestLate], 1);
    let case = Case { from: ms(21_000), nodes_are_alike: false, ..case };
    needs(&case, &[Mechanism::AnotherRunEndsConnections], &["leaks"]);
}

/// A proxy delivers a late extension to the server that has taken over. No fence keeps it out.
#[test]
fn without_requests_that_follow_a_late_extension_sets_a_key_again() {
    let long = Setup { ttl: ms(20_000), max_ttl: ms(20_000), ..SETUP };
    let holds = Setup { habit: Habit::Works(ms(5_663)), ..long };
    let tries = Setup { habit: Habit::TriesOnce(ms(5_440)), ..long };
    let plan = Plan { fencing: false, ..relayed(plan(&[holds, tries], ms(5_510))) };
    let case = case(plan, &[Trouble::RequestLate, Trouble::Restarted], 2);
    let case = Case { from: ms(5_450), places: Places { nodes: true, ..Places::LOCKS }, ..case };
    needs(&case, &[Mechanism::RelayedRequestsMayFollow], &["leaks"]);
}

/// Nobody asks by itself before seconds.
#[test]
fn without_heeding_what_nodes_tell_a_release_is_slept_through() {
    let backoff = Backoff { min: ms(3_000), max: ms(5_000) };
    let long = Setup { ttl: ms(5_000), max_ttl: ms(20_000), backoff, ..SETUP };
    let setup = Setup { habit: Habit::Works(ms(1_100)), ..long };
    let plan = Plan { pair: true, ..plan(&[setup; 2], ms(1_300)) };
    needs_beside(&case(plan, &[], 0), &[Mechanism::HeedsReleases], &["waits"]);
}

/// The connection over which a node would tell of the release ends just before, for all nodes. Nobody asks by itself before
/// seconds.
#[test]
fn without_another_try_once_subscribed_a_release_is_slept_through() {
    let backoff = Backoff { min: ms(3_000), max: ms(5_000) };
    let long = Setup { ttl: ms(5_000), max_ttl: ms(20_000), backoff, ..SETUP };
    let works = Loop { holds: ms(300), rests: ms(4_000), ..Loop::of("mutex", 1) };
    let setup = Setup { habit: Habit::Loops(works), ..long };
    let plan = Plan { pair: true, ..plan(&[setup; 2], ms(500)) };
    let case = case(plan, &[Trouble::SubscriptionCut], 3);
    let case = Case { places: Places::SUBSCRIBERS, ..case };
    needs_beside(&case, &[Mechanism::TryOnceSubscribed], &["waits"]);
}
