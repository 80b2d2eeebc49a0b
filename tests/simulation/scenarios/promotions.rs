//! A master that was a replica for a moment, and no connection to it has ended.

use super::*;

/// The first client holds a lock on two of three nodes. One of these forgets it, as a master does that was a replica of
/// a copy that was behind, and the holder is cut off from there. The other client, which is connected to that node all
/// the time, reaches a second one later than it looks after nodes, and wants the lock.
const SCENARIO: Scenario = Scenario {
    runs: 20,
    plan: |seed| {
        let holder = client(seconds(6), Habit::Keeps);
        // They need not agree on how long their locks live, nor on how long they wait for an answer.
        let other = Setup { node_timeout: ms(350), ..client(seconds(9), Habit::Contends) };
        let mut plan = calm(seed, 3, &[holder, other]);
        let promoted = seconds(4) + Chance::new(seed).ms(0..1_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(40), Fault::Cut { client: 0, node: 2 }),
            fault(promoted - ms(500), seconds(40), Fault::Cut { client: 1, node: 1 }),
            fault(promoted - ms(500), promoted + ms(1_500), Fault::Cut { client: 1, node: 2 }),
            fault(promoted - ms(10), seconds(40), Fault::Cut { client: 0, node: 0 }),
            at(promoted, Fault::Promoted { node: 0 }),
        ];
        plan
    },
    happened: |run| {
        // The holder had it when the other one could have got it.
        let held = run.grants.iter().any(|grant| grant.client == 0);
        held && tells(run, "node 0: check of client 1", "differs")
    },
};

#[test]
fn a_master_that_was_a_replica_for_a_moment_is_found_out_by_the_next_check() {
    SCENARIO.holds(2);
}

#[test]
fn without_the_replication_id_in_checks_it_makes_two_holders() {
    let script = Some(("(%w+)') ~= ARGV[2]", "(%w+)') == ''"));
    SCENARIO.breaks_under(Switches { script, checkers: &["exclusion"], ..Switches::ALL_ON });
}
