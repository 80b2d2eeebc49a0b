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
mod place;
mod properties;
mod run;
mod search;
mod trouble;

use std::collections::HashSet;
use std::time::Duration;

use self::cases::{
    Case, apart, kinds, mixed, ms, near, new_set, patience, relayed, threads, turns, with_amnesia,
};
use self::place::Places;
use self::search::{Found, search};
use self::trouble::{Trouble, Troubles};
use super::plan::Plan;
use super::switches::Switches;
use super::{from_environment, is_long};

/// The story of a run with a violation.
fn tell(case: &Case, switches: Switches, found: &Found) -> String {
    let Found { deviations, violation } = found;
    let run = run::run(case, deviations, switches, true);
    let deviations: Vec<_> = deviations.iter().map(ToString::to_string).collect();
    format!("{}\n[{}]: {violation}", run.story.join("\n"), deviations.join(", "))
}

/// Number of deviations: `usual`, or that of the environment.
fn deviations(usual: usize) -> usize {
    from_environment("QUORLOCK_EXPLORE_DEVIATIONS").map_or(usual, |most| most as usize)
}

/// Number of threads that make the runs of a search.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Checks that no run of the case has a violation.
#[track_caller]
fn holds(case: Case) {
    let case = Case { deviations: deviations(case.deviations), threads: processors(), ..case };
    let (found, figures) = search(&case, Switches::ALL_ON);
    println!("{figures}");
    assert!(found.is_none(), "{}", tell(&case, Switches::ALL_ON, &found.expect("a run")));
    assert!(figures.grants > figures.runs.iter().sum(), "the clients do nothing");
}

/// Checks that no run of three clients has a violation. In the long tests a run may have two deviations. The second one is then of
/// the few sorts: all pairs would be three times as many runs.
#[track_caller]
fn kind_holds(plan: Plan) {
    let case = Case::of(plan, if is_long() { 2 } else { 1 });
    holds(Case { troubles: Troubles::MOST, further: Troubles::FEW, ..case });
}

#[test]
fn two_clients_of_a_mutex_keep_all_promises() {
    holds(Case { troubles: Troubles::MOST, ..Case::of(turns(LASTS), 2) });
}

#[test]
fn two_clients_of_a_mutex_keep_all_promises_under_all_troubles() {
    holds(Case::of(turns(LASTS), 1));
}

/// The same with more troubles in one run, until the second client has tried for the lock twice.
#[test]
fn two_clients_of_a_mutex_keep_all_promises_under_several_troubles() {
    let deviations = if is_long() { 3 } else { 2 };
    holds(Case { troubles: Troubles::FEW, ..Case::of(turns(ms(60)), deviations) });
}

/// Time until which the runs of the mutex deviate: one client has renewed its lock and given it back, and the other one has
/// got it.
const LASTS: Duration = ms(290);

#[test]
fn readers_and_a_writer_keep_all_promises() {
    kind_holds(kinds(&["write", "read", "read"], 1, ms(330)));
}

#[test]
fn more_clients_than_permits_keep_all_promises() {
    kind_holds(kinds(&["semaphore"; 3], 2, ms(330)));
}

#[test]
fn clients_of_a_fair_lock_keep_all_promises() {
    kind_holds(kinds(&["fair_mutex"; 3], 1, ms(450)));
}

/// Each write is answered before the next one.
#[test]
fn near_clients_keep_all_promises() {
    holds(Case::of(near(turns(LASTS)), 1));
}

/// The clients have different terms, clocks and beginnings, and so have the nodes.
#[test]
fn clients_that_differ_keep_all_promises() {
    let case = Case::of(mixed(ms(350)), 1);
    holds(Case { nodes_are_alike: false, ..case });
}

/// Clocks run as fast and as slow as they may.
#[test]
fn clients_with_fast_and_slow_clocks_keep_all_promises() {
    apart(LASTS).into_iter().for_each(|plan| holds(Case::of(plan, 1)));
}

/// The threads of one client hand a lock to each other, and those of another client wait for it.
#[test]
fn threads_that_share_a_client_keep_all_promises() {
    holds(Case { troubles: Troubles::MOST, ..Case::of(threads(ms(330)), 1) });
}

/// Runs deviate at each command of a question about a node, from the first connection on.
#[test]
fn clients_that_connect_keep_all_promises() {
    let troubles = Troubles::EVERY.and(Troubles::of(&[Trouble::Promoted]));
    let case = Case::of(turns(ms(60)), 1);
    holds(Case { from: ms(0), troubles, places: Places::NODES, ..case });
}

/// Nobody has used the nodes before. The clients bring them through their first quarantine.
#[test]
fn clients_of_a_new_set_keep_all_promises() {
    let case = Case::of(new_set(ms(40)), 1);
    holds(Case { from: ms(0), places: Places::NODES, ..case });
}

/// A node has lost its data. The clients bring it through its quarantine.
#[test]
fn clients_of_a_node_in_quarantine_keep_all_promises() {
    let case = Case::of(with_amnesia(turns(ms(1_100))), 1);
    let case = Case { troubles: Troubles::MOST, nodes_are_alike: false, ..case };
    holds(Case { places: Places::NODES, ..case });
}

/// Proxies keep connections open when a node is restarted or promoted.
#[test]
fn clients_behind_proxies_keep_all_promises() {
    let troubles = Troubles::EVERY.and(Troubles::of(&[Trouble::Promoted]));
    let case = Case::of(relayed(turns(LASTS)), 1);
    holds(Case { troubles, places: Places { subscribers: false, ..Places::ALL }, ..case });
}

/// Messages about releases get lost, or come late; and so do subscriptions.
#[test]
fn waiters_whose_messages_get_lost_keep_all_promises() {
    holds(Case { places: Places::SUBSCRIBERS, ..Case::of(turns(ms(330)), 2) });
}

/// The deadline of a call comes at any time: before, at and behind each event of its client.
#[test]
fn calls_whose_time_is_over_keep_all_promises() {
    let mut runs = 0;
    for us in (0..120_000).step_by(250) {
        let case = Case { deviations: 0, ..Case::of(patience(us), 0) };
        let (found, figures) = search(&case, Switches::ALL_ON);
        assert!(found.is_none(), "{us}: {}", tell(&case, Switches::ALL_ON, &found.expect("a run")));
        runs += figures.runs.iter().sum::<u64>();
    }
    println!("{runs} runs");
}

/// The same, with a trouble at each place. Of several deadlines with the same events in the same order, the first one is taken.
#[test]
fn calls_whose_time_is_over_keep_all_promises_in_trouble() {
    let (mut orders, mut runs) = (HashSet::new(), 0);
    let (step, troubles) = if is_long() { (250, Troubles::MOST) } else { (1_000, Troubles::FEW) };
    for us in (0..120_000).step_by(step) {
        // Until the first call is over, and a moment longer.
        let plan = Plan { lasts: ms(160), ..patience(us) };
        let case = Case { troubles, threads: processors(), ..Case::of(plan, deviations(1)) };
        if orders.insert(run::run(&case, &[], Switches::ALL_ON, false).order) {
            let (found, figures) = search(&case, Switches::ALL_ON);
            assert!(
                found.is_none(),
                "{us}: {}",
                tell(&case, Switches::ALL_ON, &found.expect("a run"))
            );
            runs += figures.runs.iter().sum::<u64>();
        }
    }
    println!("{runs} runs of {} deadlines", orders.len());
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
    holds(Case { troubles, ..Case::of(plan, 1) });
}

/// The same deviations give the same run. Otherwise a run could not be extended.
#[test]
fn one_list_of_deviations_is_one_run() {
    let case = Case::of(turns(LASTS), 1);
    let first = run::run(&case, &[], Switches::ALL_ON, true);
    let point = first.points[first.points.len() / 2];
    let trouble = point.troubles.iter().next().expect("a trouble");
    let deviations = [deviation::Deviation { at: point.at, trouble }];
    let [one, other] = [(); 2].map(|()| run::run(&case, &deviations, Switches::ALL_ON, true));
    assert!(one.story == other.story && one.trace == other.trace);
    assert!(one.story != first.story && one.trace != first.trace);
}
