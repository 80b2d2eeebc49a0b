//! An operator forces a lock open while its holder lives and renews it.

use super::*;

/// Earliest time of that order.
const FORCED: Duration = seconds(4);

/// Three nodes: a client that keeps a lock, one that wants it all the time, and one with an operator.
fn forced(seed: u64, operator: Setup) -> Plan {
    let holder = client(seconds(3), Habit::Keeps);
    let waiter = Setup { habit: Habit::Contends, ttl: seconds(5), node_timeout: ms(150), ..holder };
    let mut plan = calm(seed, 3, &[holder, waiter, operator]);
    (plan.wall_offsets[1], plan.wall_offsets[2]) = (40_000, 7_000_000);
    plan.walls_agree = false;
    let order = FORCED + Chance::new(seed).ms(0..1_000);
    plan.faults = vec![
        fault(Duration::ZERO, seconds(1), Fault::Crashed { client: 1 }),
        at(order, Fault::Forced { client: 2, name: 0 }),
    ];
    plan
}

/// The operator's client. It does nothing else, and waits for slow nodes.
fn operator() -> Setup {
    let idle = client(seconds(20), Habit::TriesOnce(seconds(3_600)));
    Setup { node_timeout: seconds(8), ..idle }
}

fn is_forced(run: &Run) -> bool {
    tells(run, "forced out", "of name 0") && tells(run, "client 0", "is told that it is lost")
}

/// Waiters are woken long before the keys would have ended.
const AT_ONCE: Scenario = Scenario {
    runs: 20,
    plan: |seed| forced(seed, operator()),
    happened: |run| {
        let next = first_grant(run, 1, FORCED);
        is_forced(run) && next.is_some_and(|at| at < FORCED + seconds(1) + ms(500))
    },
};

#[test]
fn a_forced_lock_goes_to_the_next_and_its_holder_hears_of_it() {
    AT_ONCE.holds(1);
}

/// The nodes get the order one after the other, a second or more apart, and the holder renews its lock in between.
const BETWEEN_RENEWALS: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = forced(seed, operator());
        let slow = |node, by| fault(seconds(2), seconds(19), Fault::Slow { client: 2, node, by });
        // Nobody else wants the lock, so that the holder gets it back if that is possible.
        plan.faults[0] = fault(Duration::ZERO, seconds(19), Fault::Crashed { client: 1 });
        plan.faults.extend([slow(1, ms(1_300)), slow(2, ms(2_600))]);
        plan
    },
    happened: is_forced,
};

#[test]
fn renewals_between_two_nodes_do_not_bring_it_back() {
    BETWEEN_RENEWALS.holds(1);
}

#[test]
fn without_tombstones_they_bring_it_back() {
    BETWEEN_RENEWALS.mostly_breaks(&[Mechanism::ForcedStayOut], &["forced"]);
}

#[test]
fn without_a_look_at_tombstones_they_bring_it_back_as_well() {
    let script = Some(("if forced then", "if false then"));
    BETWEEN_RENEWALS.breaks_under(Switches { script, checkers: &["forced"], ..Switches::ALL_ON });
}

/// A node is out of the operator's reach, and gets the order when it comes back.
const ONE_IS_CUT_OFF: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = forced(seed, Setup { node_timeout: ms(200), ..operator() });
        plan.faults.push(fault(seconds(3), seconds(8), Fault::Cut { client: 2, node: 2 }));
        plan
    },
    happened: |run| {
        let late = |line: &&String| line.contains("node 2: force of client 2");
        is_forced(run) && run.story.iter().any(|line| late(&line))
    },
};

#[test]
fn a_node_that_is_cut_off_is_told_later() {
    ONE_IS_CUT_OFF.holds(1);
}

/// A node gets the holder's request after the order, so the holder has the lock on it. At the renewal, the node
/// answers that the lock is not the holder's.
const LATE_ACQUISITION: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let mut plan = forced(seed, operator());
        plan.setups[0].ttl = seconds(12);
        let Scheduled { at: order, .. } = plan.faults[1];
        let out = |client, until| fault(Duration::ZERO, until, Fault::Crashed { client });
        plan.faults[0] = out(1, seconds(19));
        plan.faults.push(out(0, order - ms(50)));
        let slow = Fault::Slow { client: 0, node: 2, by: ms(100) };
        plan.faults.push(fault(order - ms(20), order + ms(200), slow));
        plan
    },
    happened: is_forced,
};

#[test]
fn a_node_that_had_the_order_before_the_acquisition_is_told_of_the_release() {
    LATE_ACQUISITION.holds(1);
}

#[test]
fn without_releases_to_nodes_that_deny_the_lock_its_key_stays() {
    LATE_ACQUISITION.breaks(&[Mechanism::ReleaseDenied], &["leaks"]);
}

/// Time at which the operator reaches the node again: after the longest life of a lock that is held.
const BACK: Duration = seconds(30);

/// The lock is kept for a job that was done, for longer than any lock is held. The operator does not reach a node when it is
/// forced open, so the node keeps the key. Soon after that another node cannot be reached by the next caller.
const KEPT: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let job = client(seconds(3), Habit::RunsJobs(seconds(90)));
        let next = Setup { habit: Habit::KeepsFrom(BACK + seconds(3)), ..job };
        let operator = Setup { node_timeout: ms(200), ..operator() };
        let mut plan = calm(seed, 3, &[job, next, operator]);
        plan.faults = vec![
            fault(seconds(2), seconds(95), Fault::Crashed { client: 0 }),
            fault(seconds(3), BACK, Fault::Cut { client: 2, node: 2 }),
            at(FORCED, Fault::Forced { client: 2, name: 0 }),
            fault(BACK + seconds(2), seconds(60), Fault::Cut { client: 1, node: 0 }),
        ];
        plan
    },
    happened: |run| {
        let next = first_grant(run, 1, BACK);
        let forced = tells(run, "forced out", "of name 0");
        forced && next.is_some_and(|at| at < BACK + seconds(5))
    },
};

#[test]
fn a_kept_lock_that_was_forced_open_is_free_once_all_nodes_are_reached() {
    KEPT.holds(1);
}

#[test]
fn an_order_that_ends_with_the_longest_lock_leaves_the_next_caller_locked_out() {
    KEPT.fails(&[Mechanism::OrdersOutliveKeys]);
}
