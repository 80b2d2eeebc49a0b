//! Clients that do a job once in a time. The nodes keep the lock after its holder has given it back.

use super::*;

/// Time for which the lock is kept: at least as long as a node that has forgotten it grants nothing to anybody.
const MIN_HOLD: Duration = seconds(25);

/// Five clients try for the same job all the time. Their settings and all clocks differ. One node at a time forgets
/// its data, or cannot be reached by some clients. A majority keeps its data.
fn jobs(seed: u64, nodes: usize, faults: Vec<Scheduled>) -> Plan {
    let quick = Setup { nodes, ..client(seconds(3), Habit::RunsJobs(MIN_HOLD)) };
    let slow = Setup { node_timeout: ms(150), ttl: seconds(5), ..quick };
    let mut plan = calm(seed, nodes, &[quick, slow, slow, slow, slow]);
    (plan.wall_offsets[1], plan.wall_offsets[2]) = (40_000, 7_000_000);
    plan.walls_agree = false;
    plan.latency_ms = 10;
    plan.lasts = seconds(60);
    plan.faults = faults;
    plan
}

fn jobs_with_faults(seed: u64) -> Plan {
    let mut chance = Chance::new(seed ^ 0x06b5);
    let node = chance.below(3);
    let other = (node + 1) % 3;
    let forgets = seconds(3) + chance.ms(0..4_000);
    let faults = vec![
        // When the first job is done, or a moment before.
        fault(chance.ms(0..200), seconds(2), Fault::Cut { client: chance.below(5), node: other }),
        fault(forgets, forgets + seconds(1), Fault::Amnesia { node }),
        fault(seconds(31), seconds(33), Fault::Hung { node: chance.below(3) }),
    ];
    jobs(seed, 3, faults)
}

/// Number of jobs that were done.
fn done(run: &Run) -> usize {
    run.grants.len()
}

const JOBS: Scenario =
    Scenario { runs: 20, plan: jobs_with_faults, happened: |run| done(run) >= 2 };

/// The first job is done soon, although all clients begin at one instant and split the nodes' votes.
const AT_ONE_INSTANT: Scenario = Scenario {
    runs: 10,
    plan: |seed| Plan { lasts: seconds(5), latency_ms: 60, ..jobs(seed, 5, Vec::new()) },
    happened: |run| run.grants.first().is_some_and(|grant| grant.at < seconds(2)),
};

/// Sixteen clients try for a lock once, at one instant, and the nodes' votes are split among them.
const ALL_TRY_ONCE: Scenario = Scenario {
    runs: 40,
    plan: |seed| {
        let tries = client(seconds(5), Habit::TriesOnce(seconds(2)));
        let tries = Setup { nodes: 5, node_timeout: ms(1_000), ..tries };
        let slow = Setup { ttl: seconds(10), node_timeout: ms(1_500), ..tries };
        let (half, other_half) = ([tries; 8], [slow; 8]);
        let mut plan = calm(seed, 5, &[half, other_half].concat());
        // They begin within 50 ms.
        plan.latency_ms = 60;
        plan.lasts = seconds(6);
        plan
    },
    happened: |run| run.grants.iter().any(|grant| grant.at < seconds(5)),
};

#[test]
fn somebody_gets_a_lock_that_all_try_for_once_at_one_instant() {
    ALL_TRY_ONCE.nearly_always_holds();
}

#[test]
fn without_another_try_nobody_gets_it() {
    // Releases that follow their requests at once free some nodes in time for others.
    ALL_TRY_ONCE.fails(&[Mechanism::SplitVotesAreTriedAgain, Mechanism::WritesFollow]);
}

#[test]
fn a_job_is_done_once_in_its_time() {
    JOBS.holds(1);
    AT_ONE_INSTANT.holds(1);
}

#[test]
fn a_job_whose_lock_is_not_kept_is_done_again() {
    let switches = Switches { script: Some(("keeps_for > 0", "false")), ..Switches::ALL_ON };
    JOBS.breaks_under(Switches { checkers: &["jobs"], ..switches });
}

#[test]
fn attempts_that_failed_and_are_kept_are_in_everybodys_way() {
    AT_ONE_INSTANT.fails(&[Mechanism::OnlyHeldLocksAreKept, Mechanism::WritesFollow]);
}
