//! The sequence of events that broke an earlier version: nodes with unequal numbers, from an attempt of another
//! client, and one write-back that is lost.

use super::*;

/// Beginnings of the attempts of the later holder, and of the first one. All nodes have just been probed. They are
/// not probed again, over the slow path, before the numbers are written back.
const SECOND: Duration = ms(10_500);
const FIRST: Duration = ms(10_800);

/// Delay of the later holder's last request.
const LATE: Duration = seconds(4);

/// One node knows a large number, from an attempt that reached no other node.
///
/// The second client is granted the lock on the last two nodes. Its request to the node that completes its majority
/// takes long. The first client is granted the lock on the first three nodes, where it gets the large number. Its
/// write-back reaches only the node that knows that number, and the nodes of the second client, so it is not
/// confirmed. Otherwise the first client would have the lock, and give it back. The second client would then have it
/// with a smaller number.
const SCENARIO: Scenario = Scenario {
    runs: 240,
    plan: |seed| {
        let usual = Setup {
            nodes: 5,
            max_ttl: seconds(60),
            // More than the round trip to the slowest node.
            clock_tolerance: seconds(12),
            ..client(seconds(60), Habit::Contends)
        };
        let tries = |at, node_timeout| Setup { node_timeout, habit: Habit::TriesOnce(at), ..usual };
        let first = tries(FIRST, ms(400));
        let second = tries(SECOND, seconds(18));
        let mut plan = calm(seed, 5, &[first, second]);
        plan.stragglers = 0;
        let end = seconds(33);
        let cut = |client, node, from, until| fault(from, until, Fault::Cut { client, node });
        let slow = |client, node, by| fault(ms(10_200), end, Fault::Slow { client, node, by });
        // After the answers to the first client's requests, which take 150 ms, and before its write-back arrives, 75
        // ms later. The beginning of the write-back depends on that client's clock.
        let write_back = FIRST + Chance::new(seed).ms(150..270);
        plan.faults = vec![
            at(seconds(4), Fault::LargeNumber { node: 0, by: seconds(10) }),
            cut(1, 0, ms(10_200), end),
            cut(1, 2, ms(10_200), end),
            slow(1, 1, LATE),
            slow(0, 1, ms(75)),
            slow(0, 2, ms(75)),
            cut(0, 1, write_back, write_back + seconds(1)),
            cut(0, 2, write_back, write_back + seconds(1)),
        ];
        plan
    },
    happened: |run| {
        let lost = !tells(run, "node 1", "confirm of client 0");
        let unconfirmed = tells(run, "client 0, caller 0", "Unconfirmed");
        lost && unconfirmed
            && first_grant(run, 1, SECOND).is_some_and(|granted| granted < ms(29_500))
    },
};

#[test]
fn a_lost_write_back_does_not_give_the_next_holder_a_smaller_number() {
    SCENARIO.holds(40);
}

#[test]
fn without_the_write_back_the_next_holder_gets_a_smaller_number() {
    SCENARIO.breaks(&[Mechanism::FenceWriteBack], &["tokens"]);
}

#[test]
fn without_only_where_ours_the_next_holder_gets_a_smaller_number() {
    SCENARIO.breaks(&[Mechanism::FenceOnlyWhereOurs], &["tokens"]);
}
