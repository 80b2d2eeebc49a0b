//! Rounds of extension, answer by answer.

use super::super::super::base::{Mechanism, without};
use super::*;

fn round(votes: &[Option<ExtensionVote>]) -> Renewed {
    round_on(Basis::Majority, votes)
}

fn round_on(basis: Basis, votes: &[Option<ExtensionVote>]) -> Renewed {
    round_with(basis, votes)
}

fn round_with(basis: Basis, votes: &[Option<ExtensionVote>]) -> Renewed {
    let ttl = Duration::from_millis(10_000);
    let start = Time::default();
    let answer_by = start.after(ttl);
    let mut extension =
        Extension::new(votes.len(), start, answer_by, ttl, basis, Allowance::FOR_DRIFT);
    for (node, vote) in votes.iter().enumerate() {
        match vote {
            Some(vote) => extension.vote(node, *vote),
            None => extension.fail(node, Failure::Unknown),
        }
    }
    assert!(extension.decided(), "all nodes were heard");
    extension.result(start.after(Duration::from_millis(5)))
}

const EXTENDED: Option<ExtensionVote> = Some(ExtensionVote::Extended);
const REPAIRED: Option<ExtensionVote> = Some(ExtensionVote::Repaired);
const NOT_OURS: Option<ExtensionVote> = Some(ExtensionVote::NotOurs);

#[test]
fn a_majority_of_present_keys_confirms() {
    let until = Time::default().after(Duration::from_millis(10_000 - 100 - 2));
    let confirmed = Renewed::Until(until, Basis::Majority);
    assert_eq!(round(&[EXTENDED, EXTENDED, None]), confirmed);
    assert_eq!(round(&[EXTENDED, EXTENDED, NOT_OURS]), confirmed);
}

#[test]
fn silence_is_unknown_and_never_gone() {
    assert_eq!(round(&[EXTENDED, None, None]), Renewed::Unknown);
    assert_eq!(round(&[None, None, None]), Renewed::Unknown);
    assert_eq!(round(&[EXTENDED, NOT_OURS, None]), Renewed::Unknown);
}

#[test]
fn a_majority_that_had_lost_the_key_means_that_the_lock_is_gone_repaired_or_not() {
    assert_eq!(round(&[EXTENDED, REPAIRED, NOT_OURS]), Renewed::Gone);
    assert_eq!(round(&[EXTENDED, REPAIRED, REPAIRED]), Renewed::Gone);
}

#[test]
fn nodes_that_have_forgotten_our_key_and_granted_nothing_since_confirm() {
    const IN_QUARANTINE: Option<ExtensionVote> = Some(ExtensionVote::RepairedInQuarantine);
    let confirmed = round(&[EXTENDED, EXTENDED, EXTENDED]);
    for basis in [Basis::Majority, Basis::FirstNode] {
        assert_eq!(round_on(basis, &[IN_QUARANTINE, IN_QUARANTINE, NOT_OURS]), confirmed);
    }
    assert_eq!(round(&[EXTENDED, REPAIRED, IN_QUARANTINE]), confirmed);
    assert_eq!(round(&[NOT_OURS, REPAIRED, IN_QUARANTINE]), Renewed::Gone);
    let votes = [EXTENDED, IN_QUARANTINE, IN_QUARANTINE];
    assert_eq!(
        without(&[Mechanism::HoldersInQuarantine], || round_with(Basis::Majority, &votes)),
        Renewed::Gone
    );
}

/// Two of three nodes restart empty, and lose the connection right after a repair. Another owner may have
/// had the lock on both before that.
#[test]
fn a_key_that_is_there_at_the_second_sending_confirms_nothing() {
    for basis in [Basis::Majority, Basis::FirstNode] {
        let (start, ttl) = (Time::default(), Duration::from_secs(10));
        let mut extension =
            Extension::new(3, start, start.after(ttl), ttl, basis, Allowance::FOR_DRIFT);
        (0..3).for_each(|node| assert!(extension.sending(node, Via::unfenced(1), start)));
        extension.fail(2, Failure::Unknown);
        for node in [0, 1] {
            assert!(extension.sending(node, Via::unfenced(2), start), "over a new connection");
            extension.vote(node, ExtensionVote::Extended);
        }
        assert!(extension.decided());
        assert_eq!(extension.result(start), Renewed::Unknown);
        assert!(extension.is_doubtful(start), "another round is worth it");
    }
}

/// One node is dead, so both others must confirm, and the round waits for the second one.
#[test]
fn a_majority_that_can_still_confirm_is_waited_for() {
    let (start, ttl) = (Time::default(), Duration::from_secs(10));
    let mut extension =
        Extension::new(3, start, start.after(ttl), ttl, Basis::Majority, Allowance::FOR_DRIFT);
    extension.fail(0, Failure::NotSent);
    extension.vote(1, ExtensionVote::Extended);
    assert!(!extension.decided());
    extension.vote(2, ExtensionVote::Extended);
    assert!(extension.decided());
    assert!(matches!(extension.result(start), Renewed::Until(_, Basis::Majority)));
}

fn contended(votes: &[Option<ExtensionVote>]) -> Option<Vec<Option<u64>>> {
    let (start, ttl) = (Time::default(), Duration::from_secs(10));
    let answer_by = start.after(ttl);
    let mut round =
        Extension::new(votes.len(), start, answer_by, ttl, Basis::Majority, Allowance::FOR_DRIFT);
    for (node, vote) in votes.iter().enumerate() {
        vote.iter().for_each(|vote| round.vote(node, *vote));
    }
    let (mut again, up_to) = round.repair_again(start, answer_by)?;
    let asked: Vec<_> = up_to.iter().map(Option::is_some).collect();
    let news: Vec<_> = again.news().iter().map(|heard| *heard != Some(Heard::NotAsked)).collect();
    assert_eq!(news, asked, "the others are known not to be asked");
    Some(up_to)
}

#[test]
fn what_contenders_left_is_repaired_again_while_a_majority_is_present() {
    const ABOVE: Option<ExtensionVote> = Some(ExtensionVote::FreeAbove(77));
    assert_eq!(contended(&[EXTENDED, EXTENDED, ABOVE]), Some(vec![None, None, Some(77)]));
    assert_eq!(contended(&[EXTENDED, ABOVE, None]), None, "no majority has our key");
    assert_eq!(contended(&[REPAIRED, EXTENDED, ABOVE]), None, "it was not there in between");
    assert_eq!(contended(&[EXTENDED, EXTENDED, NOT_OURS]), Some(vec![None, None, Some(0)]));
    assert_eq!(contended(&[EXTENDED, EXTENDED, None]), None);
    assert_eq!(contended(&[EXTENDED, EXTENDED, EXTENDED]), None);
    assert_eq!(round(&[EXTENDED, ABOVE, ABOVE]), Renewed::Gone);
}

/// A node with some of our keys counts as one without them, and is repaired like one that contenders had.
#[test]
fn a_node_that_is_ours_in_part_is_not_ours() {
    const IN_PART: Option<ExtensionVote> = Some(ExtensionVote::InPart(0));
    const ABOVE: Option<ExtensionVote> = Some(ExtensionVote::InPart(77));
    assert_eq!(round(&[EXTENDED, IN_PART, None]), Renewed::Unknown);
    assert_eq!(round(&[EXTENDED, IN_PART, ABOVE]), Renewed::Gone);
    assert!(matches!(round(&[EXTENDED, EXTENDED, IN_PART]), Renewed::Until(..)));
    assert_eq!(contended(&[EXTENDED, EXTENDED, IN_PART]), Some(vec![None, None, Some(0)]));
    assert_eq!(contended(&[EXTENDED, EXTENDED, ABOVE]), Some(vec![None, None, Some(77)]));
    let on_first = |votes: &[_]| round_on(Basis::FirstNode, votes);
    assert_eq!(on_first(&[IN_PART, None, None]), Renewed::Gone);
    assert_eq!(on_first(&[EXTENDED, IN_PART, None]), Renewed::Gone, "somebody may have the rest");
}

/// Contenders come back again and again, while the confirmed round gets old.
#[test]
fn a_node_that_contenders_keep_taking_is_tried_a_few_times_while_the_round_is_valid() {
    let (start, ttl) = (Time::default(), Duration::from_secs(10));
    let answer_by = start.after(ttl);
    let mut round = Extension::new(3, start, answer_by, ttl, Basis::Majority, Allowance::FOR_DRIFT);
    round.vote(0, ExtensionVote::Extended);
    round.vote(1, ExtensionVote::Extended);
    round.vote(2, ExtensionVote::NotOurs);
    assert!(round.repair_again(round.valid_at_most(), answer_by).is_none(), "too late");
    let mut tries = 0;
    while let Some((again, up_to)) = round.repair_again(start, answer_by) {
        assert_eq!(up_to, [None, None, Some(tries)]);
        round = again;
        tries += 1;
        round.vote(2, ExtensionVote::FreeAbove(tries));
        assert_eq!(round.result(start), Renewed::Unknown, "it confirms nothing by itself");
    }
    assert_eq!(tries, u64::from(MORE_REPAIRS));
}

#[test]
fn on_the_first_node_alone_it_lasts_until_a_majority_takes_over_or_contradicts() {
    let on_first = |votes: &[_]| round_on(Basis::FirstNode, votes);
    let until = Time::default().after(Duration::from_millis(10_000 - 100 - 2));
    assert_eq!(on_first(&[EXTENDED, None, None]), Renewed::Until(until, Basis::FirstNode));
    assert_eq!(on_first(&[EXTENDED, REPAIRED, None]), Renewed::Until(until, Basis::FirstNode));
    assert_eq!(on_first(&[EXTENDED, EXTENDED, None]), Renewed::Until(until, Basis::Majority));
    assert_eq!(on_first(&[EXTENDED, NOT_OURS, None]), Renewed::Gone, "somebody else has it");
    assert_eq!(on_first(&[REPAIRED, None, None]), Renewed::Gone, "it was free in between");
    assert_eq!(on_first(&[NOT_OURS, None, None]), Renewed::Gone);
    assert_eq!(on_first(&[None, REPAIRED, None]), Renewed::Unknown);
}

#[test]
fn a_second_copy_is_doubtful_unless_the_first_did_not_run() {
    let ttl = Duration::from_millis(10_000);
    let (start, answer_by) = (Time::default(), Time::default().after(ttl));
    for (first_ran, doubtful) in [(true, true), (false, false)] {
        let new = Extension::new(3, start, answer_by, ttl, Basis::Majority, Allowance::FOR_DRIFT);
        let mut extension = new;
        for node in 0..3 {
            assert!(extension.sending(node, Via::unfenced(1), start));
            if !first_ran {
                extension.unsent(node);
            }
            assert!(extension.sending(node, Via::unfenced(2), start));
            extension.vote(node, ExtensionVote::Extended);
        }
        assert_eq!(extension.is_doubtful(start), doubtful);
    }
}

/// A round that all nodes have answered (`None`: with a failure), and whether another one is worth it. `moved`: the node whose clock
/// has moved.
fn heard(basis: Basis, moved: Option<usize>, votes: &[Option<ExtensionVote>]) -> (Renewed, bool) {
    let (start, ttl) = (Time::default(), Duration::from_secs(10));
    let mut round =
        Extension::new(votes.len(), start, start.after(ttl), ttl, basis, Allowance::FOR_DRIFT);
    moved.into_iter().for_each(|node| round.clock_moved(node, start));
    for (node, vote) in votes.iter().enumerate() {
        match vote {
            Some(vote) => round.vote(node, *vote),
            None => round.fail(node, Failure::Unknown),
        }
    }
    assert!(round.decided(), "all nodes were heard");
    (round.result(start), round.is_doubtful(start))
}

/// With two or four nodes, half of them are without our key when one clock was set forward and another node
/// has not yet answered.
#[test]
fn a_node_whose_clock_has_moved_neither_confirms_nor_denies() {
    let round = |basis, votes: &[Option<ExtensionVote>]| heard(basis, Some(0), votes);
    for said in [ExtensionVote::Free, ExtensionVote::FreeAbove(7), ExtensionVote::Repaired] {
        // By itself, an answer that it is too late for the repair does not deny the lock either.
        let late = (said == ExtensionVote::Free).then_some(Mechanism::LateRepairsDoNotDeny);
        let denies: Vec<_> = late.into_iter().chain([Mechanism::MovedClocksDoNotDeny]).collect();
        let denies = &denies;
        let said = Some(said);
        let both = [said, EXTENDED];
        assert_eq!(round(Basis::Majority, &both), (Renewed::Unknown, true));
        assert_eq!(without(denies, || round(Basis::Majority, &both)), (Renewed::Gone, false));
        let four = [said, EXTENDED, EXTENDED, None];
        assert_eq!(round(Basis::Majority, &four), (Renewed::Unknown, true));
        let first = [said, None, None];
        assert_eq!(round(Basis::FirstNode, &first).0, Renewed::Unknown);
        assert_eq!(without(denies, || round(Basis::FirstNode, &first)).0, Renewed::Gone);
        let others = [said, NOT_OURS, None];
        assert_eq!(round(Basis::FirstNode, &others).0, Renewed::Gone);
    }
    // With one clock, nobody can tell whether our own clock stood still.
    assert_eq!(round(Basis::FirstNode, &[NOT_OURS, None, None]).0, Renewed::Gone);
    // Our key was there, so no other owner had the lock.
    let there = round(Basis::Majority, &[EXTENDED, EXTENDED]).0;
    assert!(matches!(there, Renewed::Until(_, Basis::Majority)));
    // The answers of the other nodes count as usual.
    let gone = round(Basis::Majority, &[REPAIRED, REPAIRED, NOT_OURS]).0;
    assert_eq!(gone, Renewed::Gone);
}

/// A restart has taken our key from two nodes, which grant nothing to newcomers. They compared their clocks with a time for
/// the repair that was too early, because the last answer of each was read late.
#[test]
fn a_node_that_finds_it_too_late_for_a_repair_neither_confirms_nor_denies() {
    let heard = |basis, votes: &[Option<ExtensionVote>]| heard(basis, None, votes);
    const LATE: Option<ExtensionVote> = Some(ExtensionVote::Free);
    let denies = &[Mechanism::LateRepairsDoNotDeny];
    for (basis, votes) in [
        (Basis::Majority, [EXTENDED, LATE, LATE]),
        (Basis::Majority, [LATE, LATE, LATE]),
        (Basis::Majority, [EXTENDED, LATE, Some(ExtensionVote::FreeAbove(7))]),
        (Basis::FirstNode, [LATE, None, None]),
    ] {
        assert_eq!(heard(basis, &votes), (Renewed::Unknown, true), "another round is worth it");
        assert_eq!(without(denies, || heard(basis, &votes)), (Renewed::Gone, false));
    }
    // Another owner's key counts as ever, and so do nodes that had lost our key and set it again.
    assert_eq!(heard(Basis::FirstNode, &[LATE, NOT_OURS, None]).0, Renewed::Gone);
    assert_eq!(heard(Basis::Majority, &[LATE, NOT_OURS, REPAIRED]).0, Renewed::Gone);
    assert_eq!(heard(Basis::Majority, &[LATE, REPAIRED, REPAIRED]).0, Renewed::Gone);
}

/// The lock rests on the first node, which finds it too late for a repair. Behind the verdict, another node has another owner's key.
#[test]
fn a_denial_behind_the_verdict_is_a_reason_for_another_round() {
    let (start, ttl) = (Time::default(), Duration::from_secs(10));
    let mut round =
        Extension::new(3, start, start.after(ttl), ttl, Basis::FirstNode, Allowance::FOR_DRIFT);
    round.vote(0, ExtensionVote::Free);
    round.fail(1, Failure::Unknown);
    assert!(round.decided());
    assert_eq!(round.result(start), Renewed::Unknown);
    round.vote(2, ExtensionVote::NotOurs);
    assert_eq!(round.result(start), Renewed::Gone);
    assert!(round.is_doubtful(start));
}
