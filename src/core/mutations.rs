//! For each safety mechanism: what goes wrong without it.
//!
//! Each test runs one and the same story twice, on the shipped machines: with all mechanisms, where
//! it must end well, and with one of them switched off, where it must not.

use std::collections::HashMap;
use std::time::Duration;

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

/// A node as far as these stories need one: who holds its key, and until when.
#[derive(Clone, Copy, Default)]
struct Node(Option<(u128, Time)>);

impl Node {
    fn acquire(&mut self, owner: u128, now: Time) -> Vote {
        match self.0 {
            Some((other, until)) if other != owner && now < until => {
                Vote::Refused(Some(until.since(now)))
            }
            _ => {
                self.0 = Some((owner, now.after(TTL)));
                Vote::Granted(0)
            }
        }
    }

    fn release(&mut self, owner: u128) {
        if self.0.is_some_and(|(other, _)| other == owner) {
            self.0 = None;
        }
    }
}

/// An attempt of `owner` that reaches the nodes in `reached`, after which it is concluded.
fn attempt(nodes: &mut [Node], reached: &[usize], owner: u128, now: Time) -> (Attempt, Conclusion) {
    let mut attempt = Attempt::new(nodes.len(), now, now.after(TTL), TTL, Allowance::FOR_DRIFT);
    for &node in reached {
        assert!(attempt.sending(node, Via::unfenced(1), now));
        let vote = nodes[node].acquire(owner, now);
        attempt.vote(node, vote);
    }
    attempt.expire();
    let conclusion = attempt.conclude(now);
    (attempt, conclusion)
}

fn won(conclusion: Conclusion) -> bool {
    matches!(conclusion, Conclusion::Won { .. })
}

/// Two clients, each cut off from one half of the nodes.
fn both_sides_of_a_partition_win() -> bool {
    let mut nodes = [Node::default(); 5];
    let (_, left) = attempt(&mut nodes, &[0, 1, 2], 1, at(0));
    let (_, right) = attempt(&mut nodes, &[3, 4], 2, at(0));
    won(left) && won(right)
}

#[test]
fn without_the_majority_both_sides_of_a_partition_hold_the_lock() {
    assert!(!both_sides_of_a_partition_win());
    assert!(without(&[Mechanism::Majority], both_sides_of_a_partition_win));
}

/// The nodes' clocks run half a per cent faster than the holder's: the keys are gone while the
/// holder still counts.
fn valid_after_the_keys_are_gone() -> bool {
    let mut nodes = [Node::default(); 3];
    let (_, conclusion) = attempt(&mut nodes, &[0, 1, 2], 1, at(0));
    let Conclusion::Won { valid_until, .. } = conclusion else { panic!("all nodes are free") };
    let keys_gone = at(0).after(TTL).since(at(50));
    valid_until > Time::from_start(keys_gone)
}

#[test]
fn without_the_drift_allowance_a_lock_outlives_its_keys() {
    assert!(!valid_after_the_keys_are_gone());
    assert!(without(&[Mechanism::Drift], valid_after_the_keys_are_gone));
}

/// The nodes grant at once, and their answers take 4 s.
fn validity_after_slow_answers() -> Duration {
    let mut attempt = Attempt::new(3, at(0), at(5_000), TTL, Allowance::FOR_DRIFT);
    for node in 0..3 {
        assert!(attempt.sending(node, Via::unfenced(1), at(0)));
        attempt.vote(node, Vote::Granted(0));
    }
    match attempt.conclude(at(4_000)) {
        Conclusion::Won { valid_until, .. } => valid_until.since(at(4_000)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_the_elapsed_time_a_lock_outlives_its_keys() {
    let keys_left = Duration::from_secs(6);
    assert!(validity_after_slow_answers() < keys_left);
    assert!(without(&[Mechanism::Elapsed], validity_after_slow_answers) > keys_left);
}

/// The release of a lost attempt is held up on its way to a node, and arrives after that node has
/// granted the next attempt of the same call.
fn a_late_release_deletes_a_later_grant() -> bool {
    let mut nodes = [Node::default(); 3];
    let mut attempts = acquire::Attempts::new(Policy {
        patience: Patience::Forever,
        backoff: Backoff { min: Duration::from_millis(1), max: Duration::from_millis(1) },
        no_quorum_timeout: TTL,
        ordered: true,
    });
    let first = attempts.owner(1);
    let (mut lost, conclusion) = attempt(&mut nodes, &[0], first, at(0));
    assert!(!won(conclusion));
    assert_eq!(lost.close(0).len(), 1);

    let second = attempts.owner(2);
    nodes[0].0 = None; // its key ended, or somebody forced it
    let (_, conclusion) = attempt(&mut nodes, &[0, 1], second, at(10));
    assert!(won(conclusion));
    nodes[0].release(first);
    let (_, other) = attempt(&mut nodes, &[0, 2], 99, at(11));
    won(other)
}

#[test]
fn without_a_fresh_owner_a_late_release_gives_the_lock_away() {
    assert!(!a_late_release_deletes_a_later_grant());
    assert!(without(&[Mechanism::FreshOwner], a_late_release_deletes_a_later_grant));
}

/// A node granted, and its answer was lost on the way back.
fn keys_left_behind_by_a_lost_reply() -> usize {
    let mut nodes = [Node::default(); 3];
    let mut attempt = Attempt::new(3, at(0), at(200), TTL, Allowance::FOR_DRIFT);
    let mut replies = HashMap::new();
    for (node, server) in nodes.iter_mut().enumerate() {
        assert!(attempt.sending(node, Via::unfenced(1), at(0)));
        replies.insert(node, server.acquire(1, at(0)));
    }
    attempt.vote(0, replies[&0]);
    attempt.expire();
    for cleanup in attempt.close(0) {
        nodes[cleanup.node].release(1);
    }
    nodes.iter().filter(|node| node.0.is_some()).count()
}

#[test]
fn without_releases_to_silent_nodes_keys_stay_behind() {
    assert_eq!(keys_left_behind_by_a_lost_reply(), 0);
    assert_eq!(without(&[Mechanism::ReleaseSilent], keys_left_behind_by_a_lost_reply), 2);
}
