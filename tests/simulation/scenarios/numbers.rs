//! The story that broke an earlier text: nodes with unequal numbers, from an attempt that was given up,
//! and one write-back that is lost.

use super::*;

/// When the attempts begin: the one that is given up (so long after its process), that of the later
/// holder, and that of the first.
const ABANDONED: Duration = seconds(3);
const SECOND: Duration = seconds(8);
const FIRST: Duration = ms(8_300);

/// How long the last of the later holder's requests takes.
const LATE: Duration = seconds(4);

/// The clocks of two nodes are ahead. The third client starts anew while it reaches three of the nodes,
/// so to it that is the masters' time. Its attempt reaches one node, and leaves a large number there.
///
/// The second client is granted the lock on the last two nodes; its request to the node that makes it a
/// majority takes long. The first one is granted it on the first three, where it gets the large number.
/// Its write-back reaches the node that knows it, and those of the second one, which is not confirmed.
/// Else the first one would have the lock, and give it back; and then the second one would have it, with
/// a smaller number.
const SCENARIO: Scenario = Scenario {
    runs: 240,
    plan: |seed| {
        let usual =
            Setup { nodes: 5, max_ttl: seconds(60), ..client(seconds(60), Habit::Contends) };
        let tries = |at, node_timeout| Setup { node_timeout, habit: Habit::TriesOnce(at), ..usual };
        let first = tries(FIRST, ms(400));
        let second = tries(SECOND, seconds(18));
        let third = tries(ABANDONED, ms(400));
        let mut plan = calm(seed, 5, &[first, second, third]);
        plan.wall_offsets = vec![10_000, 10_000, 0, 0, 0];
        plan.stragglers = 0;
        let (start, end) = (ms(500), seconds(30));
        let cut = |client, node, from, until| fault(from, until, Fault::Cut { client, node });
        let slow = |client, node, by| fault(seconds(6), end, Fault::Slow { client, node, by });
        // After the answers to the first one's requests, which take 150 ms, and before its write-back is
        // there, 75 ms later. When it begins, depends on its clock.
        let write_back = FIRST + Chance::new(seed).ms(150..270);
        plan.faults = vec![
            cut(2, 3, start, end),
            cut(2, 4, start, end),
            fault(seconds(1), ms(1_200), Fault::Crashed { client: 2 }),
            cut(2, 1, seconds(3), end),
            cut(2, 2, seconds(3), end),
            cut(1, 0, seconds(6), end),
            cut(1, 2, seconds(6), end),
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
            && first_grant(run, 1, SECOND).is_some_and(|granted| granted < seconds(27))
    },
};

#[test]
fn a_lost_write_back_does_not_give_the_next_holder_a_smaller_number() {
    SCENARIO.holds(40);
}

#[test]
fn without_the_write_back_the_next_holder_gets_a_smaller_number() {
    SCENARIO.breaks(Mechanisms { fence_write_back: false, ..ALL }, &["tokens"]);
}

#[test]
fn without_only_where_ours_the_next_holder_gets_a_smaller_number() {
    SCENARIO.breaks(Mechanisms { fence_only_where_ours: false, ..ALL }, &["tokens"]);
}
