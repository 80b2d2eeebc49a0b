//! Attempts of clients that may fall back to the first node, and of clients that may not.

use super::super::super::base::{Allowance, Mechanism, without};
use super::super::super::link::Via;
use super::super::{Failure, Vote};
use super::*;

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(200);
const AFTER: Duration = Duration::from_millis(500);
const GRANTED: Vote = Vote::Granted(0);
const REFUSED: Vote = Vote::Refused(Some(Duration::from_millis(700)));
const HELD: Conclusion = Conclusion::Held { remaining: Some(Duration::from_millis(700)) };

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn never() -> QuorumHealth {
    QuorumHealth::new(None, TIMEOUT)
}

/// A client that may fall back, and has no reason to.
fn may() -> QuorumHealth {
    QuorumHealth::new(Some(AFTER), TIMEOUT)
}

/// A client that may fall back, and has missed the quorum since time 0.
fn long_without() -> QuorumHealth {
    let mut quorum_health = may();
    assert_eq!(quorum_health.note(Quorum::Missed, at(0), at(1)), Some(News::Lost));
    quorum_health
}

/// An attempt of three nodes that begins at 1 s, and whose caller gives it `time`.
fn attempt_of(time: Duration) -> Attempt {
    let mut attempt = Attempt::new(3, at(1_000), at(1_000).after(time), TTL, Allowance::FOR_DRIFT);
    (0..3).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(1_000))));
    attempt
}

fn attempt() -> Attempt {
    attempt_of(TIMEOUT)
}

fn concluded(judged: Judged) -> (Conclusion, Basis, Quorum) {
    match judged {
        Judged::Concluded(Judgement { conclusion, basis, quorum }) => (conclusion, basis, quorum),
        other => panic!("{other:?}"),
    }
}

fn is_won(conclusion: Conclusion) -> bool {
    matches!(conclusion, Conclusion::Won { .. })
}

const UNREACHABLE: Conclusion = Conclusion::Unreachable;

#[test]
fn the_first_node_is_heard_before_a_majority_of_the_others_is_believed() {
    let mut attempt = attempt();
    attempt.vote(1, GRANTED);
    attempt.vote(2, GRANTED);
    assert_eq!(may().judge(&mut attempt, at(1_005)), Judged::HearFirst);
    assert!(is_won(concluded(never().judge(&mut attempt, at(1_005))).0), "nobody is there");
    attempt.vote(0, REFUSED);
    let judged = concluded(may().judge(&mut attempt, at(1_006)));
    assert_eq!(judged, (HELD, Basis::Majority, Quorum::Reached));
    assert!(is_won(concluded(never().judge(&mut attempt, at(1_006))).0));
}

/// An attempt that the two other nodes have granted, and to which the first node answers `says`.
fn granted_by_the_others(says: Result<Vote, Failure>) -> Attempt {
    let until = at(1_000).after(TIMEOUT);
    let mut attempt = Attempt::new(3, at(1_000), until, TTL, Allowance::FOR_DRIFT);
    (0..3).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(1_000))));
    attempt.vote(1, GRANTED);
    attempt.vote(2, GRANTED);
    match says {
        Ok(vote) => attempt.vote(0, vote),
        Err(failure) => attempt.fail(0, failure),
    }
    attempt
}

#[test]
fn a_first_node_that_grants_or_cannot_be_reached_is_in_nobodys_way() {
    for says in [Ok(GRANTED), Err(Failure::NotSent), Err(Failure::Unknown)] {
        let mut attempt = granted_by_the_others(says);
        let (conclusion, basis, quorum) = concluded(may().judge(&mut attempt, at(1_005)));
        assert!(is_won(conclusion), "{says:?}");
        assert_eq!((basis, quorum), (Basis::Majority, Quorum::Reached));
    }
}

/// The first node may have forgotten the key of a client that has fallen back to it, or cannot say that the
/// key is there. The majority of the others knows nothing of that holder.
#[test]
fn nothing_is_won_past_a_first_node_that_answers_and_does_not_grant() {
    for (says, conclusion, quorum) in [
        (Ok(Vote::NotAdmitted), Conclusion::NotAdmitted, Quorum::Reached),
        (Err(Failure::NotAdmitted), Conclusion::NotAdmitted, Quorum::Reached),
        (Err(Failure::Error), UNREACHABLE, Quorum::Failing),
        (Ok(Vote::WrongKind), Conclusion::WrongKind, Quorum::Reached),
        (Ok(Vote::Spent), Conclusion::Spent, Quorum::Reached),
    ] {
        let mut attempt = granted_by_the_others(says);
        let judged = concluded(may().judge(&mut attempt, at(1_005)));
        assert_eq!(judged, (conclusion, Basis::Majority, quorum), "{says:?}");
        assert!(is_won(concluded(never().judge(&mut attempt, at(1_005))).0), "nobody is there");
        let outvoted = || concluded(may().judge(&mut granted_by_the_others(says), at(1_005))).0;
        assert!(is_won(without(&[Mechanism::FirstNodeMustGrant], outvoted)), "{says:?}");
    }
    for failure in [Failure::NotSent, Failure::Unknown] {
        let mut attempt = granted_by_the_others(Err(failure));
        attempt.first_says_no(true);
        let judged = concluded(may().judge(&mut attempt, at(1_005)));
        assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Failing), "it is busy");
    }
}

/// Otherwise our own pause between two tries would count as the node being out of reach.
#[test]
fn only_the_first_node_of_those_who_may_fall_back_is_tried_for_an_attempt() {
    assert!(waits_for_a_try(0, true));
    assert!(!waits_for_a_try(1, true) && !waits_for_a_try(0, false), "what is down costs nothing");
    assert!(!without(&[Mechanism::FirstNodeIsTried], || waits_for_a_try(0, true)));
}

#[test]
fn a_first_node_that_hangs_is_waited_for_and_no_longer() {
    let mut attempt = attempt();
    attempt.vote(1, GRANTED);
    attempt.vote(2, GRANTED);
    assert_eq!(may().judge(&mut attempt, at(1_199)), Judged::HearFirst);
    assert!(is_won(concluded(may().judge(&mut attempt, at(1_200))).0));
}

/// The first node could have answered in the usual time for nodes, but the caller's deadline was shorter.
#[test]
fn a_first_node_that_had_no_time_to_speak_is_not_passed_over() {
    let mut attempt = attempt_of(TIMEOUT / 10);
    attempt.vote(1, GRANTED);
    attempt.vote(2, GRANTED);
    let judged = concluded(may().judge(&mut attempt, at(1_020)));
    assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Untold));
}

#[test]
fn without_a_quorum_the_first_node_decides_alone_once_all_were_heard() {
    let mut attempt = attempt();
    attempt.fail(1, Failure::NotSent);
    attempt.vote(0, GRANTED);
    attempt.fail(2, Failure::Unknown);
    let alone = concluded(long_without().judge(&mut attempt, at(1_005)));
    assert!(is_won(alone.0));
    assert_eq!((alone.1, alone.2), (Basis::FirstNode, Quorum::Missed));
    for quorum_health in [may(), never()] {
        let judged = concluded(quorum_health.judge(&mut attempt, at(1_005)));
        assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Missed));
    }
}

/// Three of five nodes are dead, and the slower one of the others knows of another holder.
#[test]
fn a_slow_node_that_knows_of_another_holder_is_heard_before_the_first_decides_alone() {
    let mut attempt = Attempt::new(5, at(1_000), at(1_200), TTL, Allowance::FOR_DRIFT);
    (0..5).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(1_000))));
    attempt.vote(0, GRANTED);
    (1..4).for_each(|node| attempt.fail(node, Failure::NotSent));
    let quorum_health = long_without();
    assert_eq!(quorum_health.judge(&mut attempt, at(1_005)), Judged::HearAll);
    attempt.vote(4, REFUSED);
    let judged = concluded(quorum_health.judge(&mut attempt, at(1_100)));
    assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Missed));
}

#[test]
fn the_first_nodes_holder_is_respected_by_who_falls_back_and_without_it_nobody_does() {
    for (said, conclusion, basis) in [
        (Some(REFUSED), HELD, Basis::FirstNode),
        (Some(Vote::NotAdmitted), UNREACHABLE, Basis::Majority),
        (None, UNREACHABLE, Basis::Majority),
    ] {
        let mut attempt = attempt();
        match said {
            Some(vote) => attempt.vote(0, vote),
            None => attempt.fail(0, Failure::NotSent),
        }
        attempt.fail(1, Failure::NotSent);
        attempt.fail(2, Failure::NotSent);
        let judged = concluded(long_without().judge(&mut attempt, at(1_005)));
        assert_eq!(judged, (conclusion, basis, Quorum::Missed));
    }
}

/// Nodes that are out of memory, or lack a permission, cannot report another holder.
#[test]
fn a_majority_that_answers_with_errors_is_reached_and_nobody_falls_back() {
    let mut attempt = attempt();
    attempt.vote(0, GRANTED);
    attempt.fail(1, Failure::Error);
    attempt.fail(2, Failure::NotSent);
    let judged = concluded(long_without().judge(&mut attempt, at(1_005)));
    assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Failing));
}

#[test]
fn a_callers_own_short_deadline_is_no_reason_to_fall_back() {
    let mut attempt = attempt_of(TIMEOUT / 10);
    attempt.vote(0, GRANTED);
    let judged = concluded(long_without().judge(&mut attempt, at(1_020)));
    assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Untold));
    // Nodes that are known to be down are a reason, however short the time was.
    let mut attempt = attempt_of(TIMEOUT / 10);
    attempt.vote(0, GRANTED);
    attempt.fail(1, Failure::NotSent);
    attempt.fail(2, Failure::NotSent);
    let (conclusion, basis, _) = concluded(long_without().judge(&mut attempt, at(1_005)));
    assert!(is_won(conclusion));
    assert_eq!(basis, Basis::FirstNode);
}

/// No verdict was reached when the time was over.
#[test]
fn silence_to_the_end_is_no_quorum() {
    let mut attempt = attempt();
    attempt.vote(0, GRANTED);
    let judged = concluded(may().judge(&mut attempt, at(1_200)));
    assert_eq!(judged, (UNREACHABLE, Basis::Majority, Quorum::Missed));
    let (conclusion, basis, _) = concluded(long_without().judge(&mut attempt, at(1_200)));
    assert!(is_won(conclusion));
    assert_eq!(basis, Basis::FirstNode);
}

#[test]
fn the_time_without_a_quorum_counts_from_the_first_miss_and_anew_after_each_majority() {
    let decides = |quorum_health: QuorumHealth, ms| quorum_health.first_decides(at(ms));
    let mut quorum_health = may();
    assert!(!decides(quorum_health, 9_000), "nothing was missed");
    assert_eq!(quorum_health.note(Quorum::Missed, at(100), at(300)), Some(News::Lost));
    assert_eq!(quorum_health.note(Quorum::Missed, at(400), at(600)), None, "it is told once");
    assert!(!decides(quorum_health, 599));
    assert!(decides(quorum_health, 600));
    assert_eq!(quorum_health.note(Quorum::Untold, at(600), at(601)), None);
    assert!(decides(quorum_health, 600));
    assert_eq!(quorum_health.note(Quorum::Reached, at(600), at(610)), Some(News::Back));
    assert!(!decides(quorum_health, 9_000));
    // This attempt began before that majority was reached, and ends after it.
    assert_eq!(quorum_health.note(Quorum::Missed, at(500), at(700)), Some(News::Lost));
    assert!(!decides(quorum_health, 1_109));
    assert!(decides(quorum_health, 1_110));
    // A majority that answers with errors grants no locks, but it is reachable.
    assert_eq!(quorum_health.note(Quorum::Failing, at(1_200), at(1_300)), None);
    assert!(!decides(quorum_health, 9_000));
    let mut quorum_health = never();
    quorum_health.note(Quorum::Missed, at(0), at(1));
    assert!(!decides(quorum_health, 9_000));
}

/// Such nodes can be reached, and may know of another holder. The user must hear of it.
#[test]
fn nodes_that_reject_us_for_good_are_no_reason_to_fall_back() {
    let mut attempt = attempt();
    attempt.vote(0, GRANTED);
    attempt.fail(1, Failure::Rejected);
    attempt.fail(2, Failure::Rejected);
    let judged = long_without().judge(&mut attempt, at(1_001));
    let Judged::Concluded(judgement) = judged else { panic!("all have answered") };
    assert_eq!(judgement.conclusion, Conclusion::Rejected);
    assert_eq!((judgement.basis, judgement.quorum), (Basis::Majority, Quorum::Failing));
}

#[test]
fn a_first_node_that_rejects_us_is_not_outvoted() {
    let mut attempt = attempt();
    attempt.fail(0, Failure::Rejected);
    attempt.vote(1, GRANTED);
    attempt.vote(2, GRANTED);
    let conclusion = |quorum_health: QuorumHealth, attempt: &mut Attempt| match quorum_health
        .judge(attempt, at(1_001))
    {
        Judged::Concluded(judgement) => judgement.conclusion,
        judged => panic!("all have answered: {judged:?}"),
    };
    assert_eq!(conclusion(may(), &mut attempt), Conclusion::Rejected);
    assert!(matches!(conclusion(never(), &mut attempt), Conclusion::Won { .. }));
}
