//! The explorer: all runs of a small set that differ from the usual run in few places, the most usual ones first.
//!
//! A run is a run of the simulator, with its clients, nodes and checkers, but without chance: each message takes 1 ms, and
//! each pause has a fixed length. It *deviates* where a trouble happens in front of one event: see [`deviation`]. A run is
//! thus a list of deviations, and is made again from its start by that list. The search makes all runs with no
//! deviation, then all with one, and so on. So the first run with a violation has the fewest deviations.
//!
//! Machines are not cloned. A clone would save the part of a run before its last deviation, which is half of it on average.
//! In return, all that the machines, the clients and the engine share by reference would have to be cloned as well.
//!
//! A run is not extended if each client and each node sees the same requests, answers and wake-ups at the same times as in
//! an earlier run, which has no more deviations.
//!
//! ```sh
//! cargo test --all-features --lib simulation::explore -- --nocapture  # with figures and stories
//! QUORLOCK_EXPLORE_DEVIATIONS=3 cargo test --release --all-features --lib simulation::explore -- --nocapture
//! ```

mod cases;
mod deviation;
mod mutations;
mod run;
mod search;

use std::time::Duration;

use self::cases::{Case, kinds, ms, turns};
use self::deviation::{Trouble, Troubles};
use self::search::{Bounds, Figures, Found, search};
use super::from_environment;
use super::plan::Plan;
use super::switches::Switches;

fn explore(case: &Case, switches: Switches) -> (Option<Found>, Figures) {
    let Case { plan, troubles, deviations, nodes_are_alike } = case;
    let bounds =
        Bounds { deviations: *deviations, troubles: *troubles, nodes_are_alike: *nodes_are_alike };
    search(plan, switches, bounds)
}

/// The story of a run with a violation.
fn tell(case: &Case, switches: Switches, found: &Found) -> String {
    let Found { deviations, violation } = found;
    let run = run::run(&case.plan, deviations, switches, true);
    let deviations: Vec<_> = deviations.iter().map(ToString::to_string).collect();
    format!("{}\n[{}]: {violation}", run.story.join("\n"), deviations.join(", "))
}

/// Number of deviations: `usual`, or that of the environment.
fn deviations(usual: usize) -> usize {
    from_environment("QUORLOCK_EXPLORE_DEVIATIONS").map_or(usual, |most| most as usize)
}

/// Checks that no run of `plan` with so many deviations has a violation.
#[track_caller]
fn holds(plan: Plan, most: usize) {
    holds_under(Troubles::EVERY, plan, most);
}

/// As `holds`, with these troubles only.
#[track_caller]
fn holds_under(troubles: Troubles, plan: Plan, most: usize) {
    let deviations = deviations(most);
    let case = Case { plan, troubles, deviations, nodes_are_alike: true };
    let (found, figures) = explore(&case, Switches::ALL_ON);
    println!("{figures}");
    assert!(found.is_none(), "{}", tell(&case, Switches::ALL_ON, &found.expect("a run")));
    assert!(figures.grants > figures.runs.iter().sum(), "the clients do nothing");
}

#[test]
fn two_clients_of_a_mutex_keep_all_promises() {
    holds(turns(LASTS), 2);
}

/// Time until which the runs of the mutex deviate: one client has renewed its lock and given it back, and the other one has
/// got it.
const LASTS: Duration = ms(290);

#[test]
fn readers_and_a_writer_keep_all_promises() {
    holds(kinds(&["write", "read", "read"], 1, ms(330)), 1);
}

#[test]
fn more_clients_than_permits_keep_all_promises() {
    holds(kinds(&["semaphore"; 3], 2, ms(330)), 1);
}

#[test]
fn clients_of_a_fair_lock_keep_all_promises() {
    holds(kinds(&["fair_mutex"; 3], 1, ms(450)), 1);
}

/// Callers get a fair lock in the order in which their calls began, if none of them is cut off from the nodes.
#[test]
fn clients_of_a_fair_lock_get_it_in_order() {
    let plan = Plan { order: Some(ms(16)), ..kinds(&["fair_mutex"; 3], 1, ms(250)) };
    let troubles = Troubles::of(&[
        Trouble::Killed,
        Trouble::CallEnds,
        Trouble::StepBelow,
        Trouble::StepAbove,
        Trouble::Amnesia,
        Trouble::RequestDelayed,
        Trouble::AnswerDelayed,
    ]);
    holds_under(troubles, plan, 1);
}

/// The same deviations give the same run. Otherwise a run could not be extended.
#[test]
fn one_list_of_deviations_is_one_run() {
    let plan = turns(LASTS);
    let first = run::run(&plan, &[], Switches::ALL_ON, true);
    let point = first.points[first.points.len() / 2];
    let trouble = point.troubles.iter().next().expect("a trouble");
    let deviations = [deviation::Deviation { at: point.at, trouble }];
    let [one, other] = [(); 2].map(|()| run::run(&plan, &deviations, Switches::ALL_ON, true));
    assert!(one.story == other.story && one.trace == other.trace);
    assert!(one.story != first.story && one.trace != first.trace);
}
