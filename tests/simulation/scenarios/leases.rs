//! One lock, from its renewals to its end: scripts in which one rule of a lease decides, not the delays.

use super::*;

/// Three nodes and a client with one or more threads, each of which holds a lock for `works` again and again.
fn works(seed: u64, callers: usize, node_timeout: Duration, works: Duration) -> Plan {
    let setup = Setup { node_timeout, ..client(seconds(3), Habit::Works(works)) };
    let mut plan = calm(seed, 3, &[setup]);
    plan.callers = vec![callers];
    plan.local_queues = true;
    plan.stragglers = 0;
    plan
}

/// Time before the first renewal, which is due within a second of the grant; and the end of all troubles.
const RENEWING: Duration = ms(500);
const HEALED: Duration = seconds(15);

/// The holder is cut off from all nodes. Its keys end, and the other client gets the lock.
const CUT_OFF: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let holder = client(seconds(3), Habit::Keeps);
        let other = Setup { habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        let cut = seconds(3) + Chance::new(seed).ms(0..3_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(2), Fault::Crashed { client: 1 }),
            fault(cut, HEALED, Fault::Isolated { client: 0, split: 0 }),
        ];
        plan
    },
    happened: |run| {
        let lost = tells(run, "client 0", "is told that it is lost");
        lost && first_grant(run, 1, seconds(3)).is_some()
    },
};

#[test]
fn a_holder_that_is_cut_off_loses_the_lock_in_time() {
    CUT_OFF.holds(1);
}

#[test]
fn without_the_rule_that_unknown_does_not_extend_it_works_on() {
    CUT_OFF.mostly_breaks(&[Mechanism::UnknownDoesNotExtend], &["exclusion"]);
}

/// A renewal is held up on its way. It arrives after the lock was given back over other connections, while the lock
/// would still be valid.
const HELD_UP: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = works(seed, 1, ms(200), ms(1_500));
        plan.may_end = vec![false];
        plan.faults = vec![fault(RENEWING, ms(2_000), Fault::Held { client: 0, split: 0 })];
        plan
    },
    happened: |run| tells(run, "extend of client 0", "(in flight)"),
};

#[test]
fn a_renewal_that_arrives_behind_the_release_sets_no_key() {
    HELD_UP.holds(2);
}

#[test]
fn without_a_raised_fence_it_sets_the_key_again() {
    HELD_UP.breaks(&[Mechanism::ReleasesRaiseTheFence], &["late"]);
}

#[test]
fn without_the_look_at_the_fence_a_repair_sets_a_key_above_which_there_is_a_number() {
    let script = Some(("if known > tonumber(UP_TO) then", "if false then"));
    HELD_UP.breaks_under(Switches { script, checkers: &["late"], ..Switches::ALL_ON });
}

/// The holder gives the lock back after the timer has decided to renew, and before it does so.
const DECIDED: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = calm(seed, 3, &[client(seconds(3), Habit::RenewsLate(ms(1_050)))]);
        plan.stragglers = 0;
        plan
    },
    happened: |run| tells(run, "client 0", "unlocked"),
};

#[test]
fn a_renewal_that_was_decided_on_before_the_release_is_not_sent() {
    DECIDED.holds(1);
}

#[test]
fn without_the_stop_before_the_release_it_sets_the_key_again() {
    DECIDED.mostly_breaks(&[Mechanism::RenewalStopsBeforeRelease], &["leaks"]);
}

/// The nodes forget the key one after the other, and somebody holds the lock all the time.
const FORGETTING: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = calm(seed, 3, &[client(seconds(3), Habit::Keeps)]);
        let mut chance = Chance::new(seed);
        plan.faults = (0..3)
            .map(|node| {
                at(seconds(4 * node as u64 + 4) + chance.ms(0..500), Fault::Amnesia { node })
            })
            .collect();
        plan.rolling = true;
        plan
    },
    happened: |run| run.grants.iter().filter(|grant| grant.at < HEALED).count() == 1,
};

#[test]
fn nodes_that_restart_one_by_one_cost_no_lock() {
    FORGETTING.holds(1);
}

#[test]
fn without_repairs_nodes_that_restart_one_by_one_cost_the_lock() {
    FORGETTING.mostly_breaks(&[Mechanism::Repair], &["losses"]);
}

#[test]
fn without_holders_in_quarantine_they_cost_the_lock_as_well() {
    FORGETTING.mostly_breaks(&[Mechanism::HoldersInQuarantine], &["losses"]);
}

/// The process of a holder does not run for half a lease, and two nodes are flushed meanwhile. When it runs again, it first
/// reads answers of these nodes that came before. By these answers, the nodes' clocks may be almost three seconds behind the
/// place where they are. The other client, which has other settings, has noted by then that the nodes have forgotten their locks.
const READ_LATE: Scenario = Scenario {
    runs: 40,
    plan: |seed| {
        let holder = Setup { clock_tolerance: ms(200), ..client(seconds(5), Habit::Keeps) };
        let other = Setup { habit: Habit::Contends, node_timeout: ms(350), ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        // Another thread of the holder's process asks the nodes, too, and so reads their clocks again and again.
        plan.callers = vec![2, 1];
        let slow = |node| {
            fault(Duration::ZERO, HEALED, Fault::SlowAnswers { client: 0, node, by: ms(60) })
        };
        let stops = seconds(6) + Chance::new(seed).ms(0..1_000);
        let flushed = |node| at(stops + ms(500), Fault::Flushed { node });
        let paused = fault(stops, stops + ms(2_800), Fault::Paused { client: 0 });
        plan.faults = vec![slow(1), slow(2), flushed(1), flushed(2), paused];
        plan
    },
    happened: |run| {
        let is_late =
            |line: &&String| line.contains("extend of client 0") && line.ends_with("Int(-1)");
        let lost = tells(run, "client 0", "is told that it is lost");
        run.story.iter().filter(is_late).count() > 1 && !lost
    },
};

#[test]
fn a_holder_that_has_read_clocks_late_keeps_its_lock_on_nodes_that_were_flushed() {
    READ_LATE.holds(10);
}

#[test]
fn nodes_that_deny_locks_for_late_repairs_cost_it_its_lock() {
    READ_LATE.breaks(&[Mechanism::LateRepairsDoNotDeny], &["losses"]);
}

/// A client gets one node of three, and is cut off from the others. It reaches them again when its key on that node
/// would keep others out.
const MINORITY: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let max_ttl = seconds(60);
        let tries = Setup { max_ttl, ..client(max_ttl, Habit::TriesOnce(seconds(3))) };
        let mut plan = calm(seed, 3, &[tries]);
        plan.faults = vec![fault(seconds(2), seconds(4), Fault::Isolated { client: 0, split: 1 })];
        plan
    },
    happened: |run| tells(run, "node 0", "release of client 0"),
};

#[test]
fn what_a_lost_attempt_was_granted_is_given_back() {
    MINORITY.holds(1);
}

#[test]
fn with_lost_attempts_that_are_not_given_back_a_key_stays() {
    MINORITY.breaks_under(Switches {
        keeps_lost_attempts: true,
        checkers: &["leaks"],
        ..Switches::ALL_ON
    });
}

/// Two threads of a client that is cut off want the lock, and the first one gives it back.
fn cut_off(seed: u64, node_timeout: Duration, holds: Duration) -> Plan {
    let mut plan = works(seed, 2, node_timeout, holds);
    plan.faults = vec![fault(RENEWING, HEALED, Fault::Isolated { client: 0, split: 0 })];
    plan
}

/// The first lock was given back while the client was cut off, and the other thread was not handed it.
fn was_not_handed_over(run: &Run) -> bool {
    let in_time = run.story.iter().take_while(|line| !line.contains("-- over"));
    let told = |what| in_time.clone().any(|line: &String| line.contains(what));
    told("unlocked") && !told("is handed to")
}

/// The lock's renewal waits for answers, and less than half the TTL is left.
const NEARLY_OVER: Scenario = Scenario {
    runs: 20,
    plan: |seed| cut_off(seed, ms(1_500), ms(2_000)),
    happened: was_not_handed_over,
};

/// The lock's renewal has not been confirmed, and more than half the TTL is left.
const IN_DOUBT: Scenario = Scenario {
    runs: 40,
    plan: |seed| cut_off(seed, ms(200), ms(1_300)),
    happened: was_not_handed_over,
};

#[test]
fn a_lock_that_is_nearly_over_is_not_handed_over() {
    NEARLY_OVER.holds(2);
}

#[test]
fn without_the_minimum_of_validity_it_is_handed_over() {
    NEARLY_OVER.fails(&[Mechanism::HandOverNeedsValidity]);
}

#[test]
fn a_lock_whose_renewal_was_not_confirmed_is_not_handed_over() {
    IN_DOUBT.holds(2);
}

#[test]
fn without_the_look_at_the_state_it_is_handed_over() {
    IN_DOUBT.fails(&[Mechanism::HandOverOnlyWhileHeld]);
}

/// A client keeps many locks, whose renewals go out together. Somebody deletes the keys of one of them, and another client
/// takes that one.
const ONE_REFUSED: Scenario = Scenario {
    runs: 10,
    plan: |seed| {
        const NAMES: usize = 32;
        let holder = client(seconds(3), Habit::KeepsItsOwn);
        let other = Setup { habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        (plan.names, plan.callers) = (NAMES, vec![NAMES, 1]);
        plan.deleting = true;
        plan.faults = vec![
            fault(Duration::ZERO, seconds(2), Fault::Crashed { client: 1 }),
            at(seconds(5) + Chance::new(seed).ms(0..1_000), Fault::Deleted { name: 0 }),
        ];
        plan
    },
    happened: |run| {
        let lost =
            |line: &&String| line.contains("client 0") && line.contains("is told that it is lost");
        run.story.iter().filter(lost).count() == 1
            && tells(run, "extend of client 0", "in a batch")
            && first_grant(run, 1, seconds(5)).is_some()
    },
};

#[test]
fn of_a_batch_of_renewals_the_one_that_is_refused_is_lost_and_no_other() {
    ONE_REFUSED.holds(1);
}

/// The mutation gives all calls of a batch the answer of the first one. The lock whose keys are deleted is rarely in a batch with
/// others each time, so this search takes long. `node/batch_tests.rs` compares the answers of batches with those of single calls.
#[test]
fn with_one_answer_for_a_whole_batch_a_loss_is_not_told() {
    if !is_long() {
        return;
    }
    let script = Some((
        "= reply\n    key, argument = key + keys",
        "= replies[1] or reply\n    key, argument = key + keys",
    ));
    ONE_REFUSED.breaks_under(Switches { script, checkers: &["losses"], ..Switches::ALL_ON });
}
