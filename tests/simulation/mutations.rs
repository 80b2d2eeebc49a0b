//! Mutation tests: a mechanism that random plans often need is switched off, and a checker must find something within
//! [`SEEDS`] seeds.
//!
//! This shows that random plans contain enough trouble, and that the checkers notice it. The seed may change with any
//! change of a run. The unit tests of `src/core/` that switch a mechanism off, and `scenarios/`, show the certain
//! consequences.

use super::faults::Fault;
use super::plan::Plan;
use super::switches::Switches;
use super::world;
use crate::core::base::Mechanism;

/// Number of seeds within which each of them must be found.
const SEEDS: u64 = 2_000;

/// Returns true if a search through many seeds is made. Its mechanism is also switched off in a told case, a script
/// test or a scenario, which need no luck.
fn is_searched() -> bool {
    let is_long = super::is_long();
    if !is_long {
        println!("left out, since it goes through many seeds; QUORLOCK_LONG_TESTS=1 runs it");
    }
    is_long
}

/// Checks that one of `checkers` finds something under `switches`.
#[track_caller]
fn is_found(what: &str, switches: Switches, checkers: &'static [&'static str]) {
    is_found_where(what, |_| (), switches, checkers);
}

/// As [`is_found`], with each seed's plan changed by `change`.
#[track_caller]
fn is_found_where(
    what: &str,
    change: fn(&mut Plan),
    switches: Switches,
    checkers: &'static [&'static str],
) {
    let switches = Switches { checkers, ..switches };
    assert!(switches.is_real(), "no script has that piece any more");
    let found = (0..SEEDS).find_map(|seed| {
        let mut plan = Plan::from_seed(seed);
        change(&mut plan);
        let violation = world::run(&plan, switches, false).violation?;
        Some((seed, violation))
    });
    match found {
        Some((seed, violation)) => println!("without {what}, seed {seed}: {violation}"),
        None => panic!("without {what} nothing was found in {SEEDS} seeds"),
    }
}

#[track_caller]
fn without(what: &str, off: &'static [Mechanism], checkers: &'static [&'static str]) {
    is_found(what, Switches { off, ..Switches::ALL_ON }, checkers);
}

#[test]
fn without_the_majority() {
    without("majority", &[Mechanism::Majority], &["exclusion"]);
}

#[test]
fn without_the_allowance_for_drift() {
    without("drift", &[Mechanism::Drift], &["exclusion"]);
}

/// Case 2 of the field's bugs: a lock that is handed out expired.
#[test]
fn without_the_elapsed_time() {
    without("elapsed time", &[Mechanism::Elapsed], &["exclusion"]);
}

#[test]
fn without_a_fresh_owner_for_each_attempt() {
    // Late requests must meet the next attempt of the same call.
    let crowded = |plan: &mut Plan| {
        plan.names = 1;
        plan.latency_ms = 30;
        plan.flaky = 30;
        plan.callers.iter_mut().for_each(|callers| *callers = 3);
    };
    let switches = Switches { off: &[Mechanism::FreshOwner], ..Switches::ALL_ON };
    is_found_where("fresh owner", crowded, switches, &["exclusion"]);
}

/// Case 4 of the field's bugs: a grant that arrives after the release stays.
#[test]
fn without_releases_to_silent_nodes() {
    without("release to silent nodes", &[Mechanism::ReleaseSilent], &["leaks"]);
}

#[test]
fn without_the_rule_that_unknown_does_not_extend() {
    without("unknown does not extend", &[Mechanism::UnknownDoesNotExtend], &["exclusion"]);
}

/// Case 7 of the field's bugs: a renewal that survives the unlock.
#[test]
fn without_the_stop_of_renewals_before_the_release() {
    without("renewal stops before release", &[Mechanism::RenewalStopsBeforeRelease], &["leaks"]);
}

/// No other fault makes a node forget locks.
#[test]
fn without_the_quarantine_of_a_replica_that_took_over() {
    if !is_searched() {
        return;
    }
    let taken_over = |plan: &mut Plan| {
        plan.faults.retain(|it| match it.fault {
            Fault::TakenOver { .. } => true,
            _ => !it.fault.forgets(false) && !it.fault.steps(),
        });
        // The other plans find nothing, and need not take long.
        if !plan.faults.iter().any(|it| matches!(it.fault, Fault::TakenOver { .. })) {
            plan.become_a_pair();
        }
    };
    let switches = Switches { off: &[Mechanism::Quarantine], ..Switches::ALL_ON };
    is_found_where("quarantine of a replica", taken_over, switches, &["exclusion"]);
}

/// Case 18 of the field's bugs: nodes that restart one after the other cost the lock.
#[test]
fn without_repairs() {
    without("repair", &[Mechanism::Repair], &["losses"]);
}

/// Case 8 of the field's bugs: an extension that revives a lock already lost.
#[test]
fn without_the_rule_that_a_lost_lock_stays_lost() {
    without("lost stays lost", &[Mechanism::LostStaysLost], &["exclusion"]);
}

#[test]
fn without_the_warning_before_a_loss() {
    without("holders are warned", &[Mechanism::HoldersAreWarned], &["warnings"]);
}

#[test]
fn without_telling_all_holders_of_a_loss() {
    without("telling all holders", &[Mechanism::AllHoldersHearOfLosses], &["losses"]);
}

#[test]
fn without_the_rule_that_renewal_never_shortens_a_key() {
    let script = Some(("if remaining < tonumber(TTL) then", "if true then"));
    let switches = Switches { script, ..Switches::ALL_ON };
    is_found("renewal never shortens", switches, &["exclusion"]);
}

#[test]
fn without_the_owner_in_the_releases_of_a_batch() {
    if !is_searched() {
        return;
    }
    let script = Some(("owners[i] == ARGV[argument + 2 * i - 2] then", "owners[i] then"));
    let switches = Switches { script, ..Switches::ALL_ON };
    is_found("owner in batches", switches, &["exclusion"]);
}

/// With this change, the free names of a lock would be taken although another one of its names is somebody else's.
#[test]
fn with_grants_of_some_of_several_names() {
    let script = Some((
        "  return {0, refused_ms == math.huge and -1 or refused_ms}",
        "  for i = last_reserved + 1, last_lock do redis.call('SET', KEYS[i], OWNER, 'NX', 'PX', ttl) end\n  \
         return {0, refused_ms == math.huge and -1 or refused_ms}",
    ));
    let switches = Switches { script, ..Switches::ALL_ON };
    is_found("all names or none", switches, &["parts"]);
    if is_searched() {
        is_found("all names or none", switches, &["leaks"]);
    }
}

#[test]
fn with_repairs_of_some_of_several_names() {
    let script = Some((
        "  if redis.call('EXISTS', unpack(gone_keys)) > 0 then",
        "  if redis.call('EXISTS', unpack(gone_keys)) > 0 then\n    \
         for _, key in ipairs(gone_keys) do redis.call('SET', key, OWNER, 'NX', 'PX', ttl) end",
    ));
    let switches = Switches { script, ..Switches::ALL_ON };
    is_found("repairs of all names or none", switches, &["parts"]);
}

/// Case 1 of the field's bugs: grants of the last try block the next one.
#[test]
fn with_lost_attempts_that_are_not_given_back() {
    let switches = Switches { keeps_lost_attempts: true, ..Switches::ALL_ON };
    is_found("giving back lost attempts", switches, &["leaks"]);
}

#[test]
fn without_the_write_back_of_numbers() {
    if !is_searched() {
        return;
    }
    // Numbers must differ from node to node, as they do while requests of several contenders are on their way.
    let crowded = |plan: &mut Plan| {
        plan.local_queues = false;
        plan.names = 1;
        plan.latency_ms = 30;
        plan.callers.iter_mut().for_each(|callers| *callers = 3);
    };
    let switches = Switches { off: &[Mechanism::FenceWriteBack], ..Switches::ALL_ON };
    is_found_where("write-back", crowded, switches, &["tokens"]);
}

#[test]
fn without_the_masters_time_under_the_numbers() {
    // The masters' clocks agree, so numbers must rise even if nodes forget.
    let agreed = |plan: &mut Plan| {
        plan.fencing = true;
        plan.unfenced.clear();
        plan.walls_agree = true;
        plan.wall_offsets.fill(0);
        plan.faults.retain(|scheduled| !scheduled.fault.steps());
    };
    let switches = Switches { off: &[Mechanism::FenceClockFloor], ..Switches::ALL_ON };
    is_found_where("clock floor", agreed, switches, &["tokens"]);
}

/// Without it, a caller that leaves would take along a lock that it was just handed.
#[test]
fn without_passing_on_by_those_who_leave() {
    if !is_searched() {
        return;
    }
    let switches = Switches { off: &[Mechanism::ChosenWhoLeavesPassesOn], ..Switches::ALL_ON };
    let in_line = |plan: &mut Plan| {
        plan.names = 1;
        plan.local_queues = true;
        plan.callers.iter_mut().for_each(|callers| *callers = 6);
    };
    is_found_where("passing on", in_line, switches, &["progress", "waits"]);
}

/// Without it, a holder whose keys were deleted before it unlocked would not hear of the loss.
#[test]
fn without_waiting_for_the_verdict_on_a_release() {
    if !is_searched() {
        return;
    }
    without("awaiting the verdict", &[Mechanism::NoticesAwaitTheVerdict], &["losses"]);
}

#[test]
fn without_the_quarantine() {
    without("quarantine", &[Mechanism::Quarantine], &["exclusion"]);
}

#[test]
fn without_the_comparison_of_marks() {
    if !is_searched() {
        return;
    }
    without("comparison of marks", &[Mechanism::MarkIsCompared], &["exclusion"]);
}

#[test]
fn without_joining_a_quarantine() {
    without("joined, never prolonged", &[Mechanism::QuarantineIsJoined], &["progress", "waits"]);
}

#[test]
fn without_holders_in_quarantine() {
    if !is_searched() {
        return;
    }
    without("holders in quarantine", &[Mechanism::HoldersInQuarantine], &["losses"]);
}

#[test]
fn without_counting_the_nodes_that_are_free() {
    let switches = Switches { off: &[Mechanism::WakeByMajority], ..Switches::ALL_ON };
    is_found_where("counting", Plan::become_a_pair, switches, &["load"]);
}

/// Without it, a caller killed with a lock that was handed to it would keep everybody out for the time that the
/// previous holder asked for.
#[test]
fn without_keeping_to_the_terms_of_who_is_handed_the_lock() {
    if !is_searched() {
        return;
    }
    let switches = Switches { off: &[Mechanism::HandOverKeepsToTerms], ..Switches::ALL_ON };
    let in_line = |plan: &mut Plan| {
        plan.names = 1;
        plan.local_queues = true;
        plan.callers.iter_mut().for_each(|callers| *callers = 4);
    };
    is_found_where("keeping to the terms", in_line, switches, &["terms"]);
}
