//! A node is flushed, and flushed again just when a client has found that its quarantine is over.

use super::*;

/// The first client holds a lock on two of three nodes, and sets its key again on the node that is flushed. It is cut
/// off shortly before the quarantine ends. The node is flushed once more while the other client's request to end the
/// quarantine is on its way.
const SCENARIO: Scenario = Scenario {
    runs: 30,
    plan: |seed| {
        // A probe takes the other client most of a second.
        let clock_tolerance = ms(1_200);
        let holder = Setup { clock_tolerance, ..client(seconds(5), Habit::Keeps) };
        let other = Setup { node_timeout: ms(1_000), habit: Habit::Contends, ..holder };
        let mut plan = calm(seed, 3, &[holder, other]);
        let first = seconds(3);
        let end = first + holder.max_ttl;
        let second = end + Chance::new(seed).ms(300..1_000);
        plan.faults = vec![
            fault(Duration::ZERO, seconds(40), Fault::Cut { client: 0, node: 2 }),
            fault(Duration::ZERO, seconds(40), Fault::Slow { client: 1, node: 0, by: ms(400) }),
            at(first, Fault::Flushed { node: 0 }),
            fault(end - ms(100), seconds(40), Fault::Isolated { client: 0, split: 0 }),
            at(second, Fault::Flushed { node: 0 }),
        ];
        plan
    },
    happened: |run| {
        let mut lines = run.story.iter();
        let flush = lines.rposition(|line| line.ends_with("-- node 0 is flushed"));
        let since = &run.story[flush.expect("a second flush")..];
        let change = since.iter().find(|line| line.contains("change of client 1"));
        change.is_some_and(|change| change.ends_with("not made"))
    },
};

#[test]
fn a_second_flush_inside_a_quarantine_is_waited_out() {
    SCENARIO.holds(10);
}

#[test]
fn without_the_old_value_a_late_change_ends_the_second_quarantine() {
    // Reservations are off, too: their attempt after 100 ms would come between the two flushes.
    let off = &[Mechanism::ChangesNameTheOldValue, Mechanism::WaitersReserve];
    SCENARIO.breaks(off, &["exclusion"]);
}
