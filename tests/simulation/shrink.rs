//! Makes a failing run as small as possible: leaves out everything without which it still fails.

use super::faults::Fault;
use super::plan::Plan;
use super::switches::Switches;
use super::world;

/// Largest number of runs for that.
const RUNS: usize = 300;

/// A plan that fails as `plan` does, and from which nothing more can be left out.
pub(super) fn shrink(plan: &Plan, switches: Switches) -> Plan {
    let checker = |plan: &Plan| world::run(plan, switches, false).violation.map(|it| it.checker);
    let wanted = checker(plan);
    let mut smallest = plan.clone();
    let mut runs = 0;
    loop {
        let smaller = smaller(&smallest).into_iter().find(|candidate| {
            runs += 1;
            runs < RUNS && checker(candidate) == wanted
        });
        match smaller {
            Some(plan) => smallest = plan,
            None => return smallest,
        }
    }
}

/// Plans with one thing less each, the large things first. An old master that stops to take writes does so in all of them:
/// otherwise two clients may hold one lock.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let faults = plan.faults.len();
    for part in [faults / 2, faults / 4, 1] {
        if part == 0 {
            continue;
        }
        for from in (0..faults).step_by(part) {
            let mut less = plan.clone();
            less.faults.drain(from..(from + part).min(faults));
            if old_master_writes_on(plan) || !old_master_writes_on(&less) {
                plans.push(less);
            }
        }
    }
    for client in 0..plan.callers.len() {
        if plan.callers[client] > 1 {
            let mut less = plan.clone();
            less.callers[client] -= 1;
            plans.push(less);
        }
    }
    plans
}

/// Returns true if an old master takes writes for as long as it lives.
fn old_master_writes_on(plan: &Plan) -> bool {
    let has = |of: fn(&Fault) -> bool| plan.faults.iter().any(|scheduled| of(&scheduled.fault));
    has(|it| matches!(it, Fault::TakenOver { .. }))
        && !has(|it| matches!(it, Fault::OldMasterStops))
}

#[test]
fn a_failing_run_is_made_smaller_and_still_fails() {
    use crate::core::base::Mechanism;

    let switches =
        Switches { off: &[Mechanism::Majority], checkers: &["exclusion"], ..Switches::ALL_ON };
    let fails = |plan: &Plan| world::run(plan, switches, false).violation.is_some();
    let large = |plan: &Plan| plan.faults.len() >= 8;
    let plan = (0..).map(Plan::from_seed).find(|plan| large(plan) && fails(plan)).expect("many");
    let smallest = shrink(&plan, switches);
    assert!(fails(&smallest));
    assert!(smallest.faults.len() < plan.faults.len(), "{smallest:?}");
    let story = world::run(&smallest, switches, true).story.join("\n");
    assert!(story.contains("granted to") && story.contains("VIOLATION: exclusion"), "{story}");
}
