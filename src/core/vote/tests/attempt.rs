//! Attempts: cases from a text file, and properties over every order of answers.

use std::time::Duration;

use proptest::prelude::*;

use super::super::super::base::told_cases::{Words, play, yes_or_no};
use super::super::super::base::without;
use super::super::Slots;
use super::*;

const TTL: Duration = Duration::from_secs(10);

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn attempt(nodes: usize) -> Attempt {
    Attempt::new(nodes, at(0), at(200), TTL, Allowance::FOR_DRIFT)
}

fn sent_to_all(nodes: usize) -> Attempt {
    let mut attempt = attempt(nodes);
    (0..nodes).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(0))));
    attempt
}

/// Returns true if a late extension of the lock with the number 7 sets the key again. The node has not answered
/// that extension, and gets the release before it.
fn a_late_extension_sets_the_key_again() -> bool {
    let mut attempt = sent_to_all(1);
    attempt.vote(0, Vote::Granted(7));
    attempt.repairing();
    attempt.repairs_left(&[(Some(1), 7)]);
    let cleanup = attempt.close(7).pop().expect("it was granted");
    cleanup.late.raises_to.is_none_or(|fence| fence <= 7)
}

#[test]
fn without_raised_fences_a_late_extension_sets_the_key_behind_its_release() {
    assert!(!a_late_extension_sets_the_key_again());
    assert!(without(&[Mechanism::ReleasesRaiseTheFence], a_late_extension_sets_the_key_again));
}

#[test]
fn told_cases() {
    let mechanisms =
        [Mechanism::Majority, Mechanism::Drift, Mechanism::Elapsed, Mechanism::ReleaseSilent];
    play(include_str!("../../testdata/attempt.txt"), &mechanisms, || attempt(1), step);
}

fn step(attempt: &mut Attempt, words: &mut Words<'_>) -> String {
    match words.word() {
        "nodes" => *attempt = sent_to_all(words.node()),
        "quiet" => *attempt = self::attempt(words.node()),
        // Each copy goes over a connection of its own.
        "send" => {
            let (node, ms) = (words.node(), words.number());
            return yes_or_no(attempt.sending(node, Via::unfenced(ms + 2), at(ms)));
        }
        "granted" => attempt.vote(words.node(), Vote::Granted(words.number())),
        "refused" => {
            let (node, remaining) = (words.node(), words.ms_unless("forever"));
            attempt.vote(node, Vote::Refused(remaining));
        }
        "not-admitted" => attempt.vote(words.node(), Vote::NotAdmitted),
        "wrong-kind" => attempt.vote(words.node(), Vote::WrongKind),
        "spent" => attempt.vote(words.node(), Vote::Spent),
        "taken" => {
            let (node, ms) = (words.node(), words.number());
            attempt.vote(node, taken(ms));
        }
        "other-permits" => {
            let (node, permits, ms) = (words.node(), words.number(), words.number());
            let remaining = Duration::from_millis(ms);
            attempt.vote(node, Vote::OtherPermits { permits, remaining });
        }
        "no-number" => attempt.vote(words.node(), Vote::NoNumber),
        "rejected" => attempt.fail(words.node(), Failure::Rejected),
        "write-back" => {
            let number = attempt.number_to_write_back();
            return number.map_or_else(|| "nothing".to_owned(), |number| number.to_string());
        }
        "written-back" => attempt.written_back(),
        "failed" => attempt.fail(words.node(), Failure::Unknown),
        "expire" => attempt.expire(),
        "conclude" => {
            let now = words.time();
            return conclusion(attempt.conclude(now), now);
        }
        "close" => return cleanups(&attempt.close(0)),
        other => panic!("unknown input {other}"),
    }
    if attempt.decided() { "decided" } else { "pending" }.to_owned()
}

fn conclusion(conclusion: Conclusion, now: Time) -> String {
    match conclusion {
        Conclusion::Won { valid_until, number } => {
            format!("won for {}, number {number}", valid_until.since(now).as_millis())
        }
        Conclusion::Unconfirmed => "unconfirmed".to_owned(),
        Conclusion::Spent => "spent".to_owned(),
        Conclusion::NoNumber => "no number".to_owned(),
        Conclusion::Rejected => "rejected".to_owned(),
        Conclusion::TooLate => "too late".to_owned(),
        Conclusion::Held { remaining: Some(remaining) } => {
            format!("held {}", remaining.as_millis())
        }
        Conclusion::Held { remaining: None } => "held".to_owned(),
        Conclusion::WrongKind => "wrong kind".to_owned(),
        Conclusion::NotAdmitted => "not admitted".to_owned(),
        Conclusion::Unreachable => "unreachable".to_owned(),
    }
}

fn cleanups(cleanups: &[Cleanup]) -> String {
    let shown = cleanups.iter().map(|cleanup| {
        assert!(cleanup.granted || cleanup.in_flight, "a cleanup without a reason");
        format!("{}{}", cleanup.node, if cleanup.in_flight { "?" } else { "" })
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A refusal that names no free slot.
fn taken(ms: u64) -> Vote {
    Vote::Taken { remaining: Duration::from_millis(ms), free: Slots::default() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Vote(Vote),
    Failed,
    Nothing,
}

fn any_answer() -> impl Strategy<Value = Said> {
    prop_oneof![
        4 => (0_u64..100).prop_map(|number| Said::Vote(Vote::Granted(number))),
        2 => (1_u64..1_000).prop_map(|ms| Said::Vote(Vote::Refused(Some(Duration::from_millis(ms))))),
        1 => Just(Said::Vote(Vote::NotAdmitted)),
        1 => Just(Said::Vote(Vote::WrongKind)),
        1 => Just(Said::Vote(Vote::Spent)),
        1 => Just(Said::Vote(Vote::NoNumber)),
        1 => (1_u64..1_000).prop_map(|ms| Said::Vote(taken(ms))),
        2 => Just(Said::Failed),
        1 => Just(Said::Nothing),
    ]
}

/// The answers of one to nine nodes, in any order.
fn answers_in_any_order() -> impl Strategy<Value = Vec<(usize, Said)>> {
    prop::collection::vec(any_answer(), 1..10)
        .prop_map(|answers| answers.into_iter().enumerate().collect::<Vec<_>>())
        .prop_shuffle()
}

fn tell(attempt: &mut Attempt, node: usize, said: Said) {
    match said {
        Said::Vote(vote) => attempt.vote(node, vote),
        Said::Failed => attempt.fail(node, Failure::Unknown),
        Said::Nothing => {}
    }
}

/// Returns true if the attempt was won, once its number was written back.
fn won(attempt: &mut Attempt) -> bool {
    if attempt.number_to_write_back().is_some() {
        attempt.written_back();
    }
    matches!(attempt.conclude(at(10)), Conclusion::Won { .. })
}

fn granted(said: Said) -> bool {
    matches!(said, Said::Vote(Vote::Granted(_)))
}

proptest! {
    /// In any order of the answers: the attempt is won exactly with a majority of grants, and it is settled
    /// once all nodes have answered.
    #[test]
    fn the_verdict_is_the_majoritys(answers in answers_in_any_order()) {
        let nodes = answers.len();
        let mut attempt = sent_to_all(nodes);
        answers.iter().for_each(|&(node, said)| tell(&mut attempt, node, said));
        let grants = answers.iter().filter(|(_, said)| granted(*said)).count();
        let silent = answers.iter().filter(|(_, said)| *said == Said::Nothing).count();
        if silent > 0 && !attempt.decided() {
            attempt.expire();
        }
        let won = won(&mut attempt);
        prop_assert_eq!(won, grants > nodes / 2);
        prop_assert!(silent > 0 || attempt.decided());
    }

    /// Later answers never reverse a verdict.
    #[test]
    fn the_verdict_is_final(answers in answers_in_any_order()) {
        let mut attempt = sent_to_all(answers.len());
        let mut told = None;
        for &(node, said) in &answers {
            tell(&mut attempt, node, said);
            if attempt.decided() {
                let won = won(&mut attempt);
                prop_assert_eq!(*told.get_or_insert(won), won);
            }
        }
    }

    /// In any order of any answers: some majority does not exceed the number of a lock that was won without a
    /// further round, and a majority knows that number.
    #[test]
    fn a_number_is_known_to_a_majority(answers in answers_in_any_order()) {
        let needed = answers.len() / 2 + 1;
        let mut attempt = sent_to_all(answers.len());
        let mut numbers = Vec::new();
        for &(node, said) in &answers {
            tell(&mut attempt, node, said);
            if let Said::Vote(Vote::Granted(number)) = said {
                numbers.push(number);
            }
            if let Conclusion::Won { number, .. } = attempt.conclude(at(10)) {
                prop_assert!(numbers.iter().filter(|answer| **answer <= number).count() >= needed);
                prop_assert!(numbers.iter().filter(|answer| **answer >= number).count() >= needed);
            }
        }
    }

    /// At any moment of giving up: exactly the nodes that did not say "no" are cleaned up, and those that were
    /// not asked are left alone.
    #[test]
    fn every_node_that_may_hold_a_key_is_cleaned_up(
        answers in answers_in_any_order(), asked in 0_usize..10, heard in 0_usize..10,
    ) {
        let mut attempt = attempt(answers.len());
        let asked = answers.len().min(asked);
        for &(node, _) in &answers[..asked] {
            prop_assert!(attempt.sending(node, Via::unfenced(1), at(0)));
        }
        let heard = asked.min(heard);
        answers[..heard].iter().for_each(|&(node, said)| tell(&mut attempt, node, said));

        let cleaned: Vec<_> = attempt.close(0).iter().map(|cleanup| cleanup.node).collect();
        for (i, &(node, said)) in answers.iter().enumerate() {
            let said_no = i < heard && matches!(said, Said::Vote(_)) && !granted(said);
            prop_assert_eq!(cleaned.contains(&node), i < asked && !said_no, "node {}", node);
        }
    }
}

#[test]
fn a_copy_that_did_not_run_needs_no_release() {
    let mut attempt =
        Attempt::new(3, Time::default(), at(200), Duration::from_secs(10), Allowance::FOR_DRIFT);
    for node in 0..3 {
        assert!(attempt.sending(node, Via::unfenced(1), at(0)));
    }
    attempt.unsent(0);
    attempt.unsent(1);
    assert!(attempt.sending(1, Via::unfenced(2), at(1)));
    attempt.vote(1, Vote::Refused(None));
    let cleanups: Vec<_> = attempt.close(0).iter().map(|cleanup| cleanup.node).collect();
    assert_eq!(cleanups, [2], "of the third nobody knows");
}

/// A node whose mark has changed between two copies does not say whether the first one took the lock there.
#[test]
fn a_node_that_admits_nobody_any_more_is_given_back_what_an_earlier_copy_may_have_taken() {
    let mut attempt = sent_to_all(3);
    assert!(attempt.sending(1, Via { connection: 2, fenced: true }, at(1)));
    (0..3).for_each(|node| attempt.vote(node, Vote::NotAdmitted));
    let given_back: Vec<_> = attempt.close(0).iter().map(|cleanup| cleanup.node).collect();
    assert_eq!(given_back, [1]);
}

/// A node that refuses a lock with several names may have some of the keys that an earlier copy has set.
#[test]
fn a_node_that_refuses_a_later_copy_is_given_back_what_an_earlier_one_may_have_taken() {
    let mut attempt = sent_to_all(3);
    assert!(attempt.sending(1, Via { connection: 2, fenced: true }, at(1)));
    (0..3).for_each(|node| attempt.vote(node, Vote::Refused(None)));
    let given_back: Vec<_> = attempt.close(0).iter().map(|cleanup| cleanup.node).collect();
    assert_eq!(given_back, [1]);
}

/// A node that has lost one of several names gets the release for the others, although it does not count. So
/// does a node that says that nothing is ours: the lock may have been taken from it by force before the
/// acquisition arrived.
#[test]
fn nodes_that_deny_a_lock_are_told_of_its_release() {
    let released = || {
        let mut attempt = sent_to_all(3);
        (0..3).for_each(|node| attempt.vote(node, Vote::Granted(7)));
        attempt.repairing();
        attempt.repaired(&[Some(Heard::Ours), Some(Heard::InPart), Some(Heard::NotOurs)]);
        let cleanups = attempt.close(7);
        cleanups.iter().map(|cleanup| (cleanup.node, cleanup.granted)).collect::<Vec<_>>()
    };
    assert_eq!(
        released(),
        [(0, true), (1, false), (2, false)],
        "it says nothing for the lock that it was whole"
    );
    let left = without(&[Mechanism::ReleaseDenied], released);
    assert_eq!(
        left,
        [(0, true)],
        "the second node is left with a part, the third one perhaps with the key"
    );
}

/// Asking one node before the others.
mod preferred {
    use super::super::super::{Conclusion, Judged, Quorum, QuorumHealth};
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    fn attempt() -> Attempt {
        let ttl = Duration::from_secs(10);
        let mut attempt = Attempt::new(3, at(0), at(200), ttl, Allowance::FOR_DRIFT);
        attempt.prefer(1);
        assert!(attempt.sending(1, Via::unfenced(1), at(0)) && !attempt.decided());
        attempt
    }

    #[test]
    fn a_refusal_by_the_first_one_is_the_end_of_it() {
        let mut attempt = attempt();
        let remaining = Some(Duration::from_millis(700));
        attempt.vote(1, Vote::Refused(remaining));
        assert!(attempt.decided() && !attempt.goes_on(at(300)) && !attempt.is_split());
        let Judged::Concluded(judgement) =
            QuorumHealth::new(None, TIMEOUT).judge(&mut attempt, at(1))
        else {
            panic!("nobody falls back")
        };
        assert_eq!(judgement.conclusion, Conclusion::Held { remaining });
        assert_eq!(judgement.quorum, Quorum::Untold, "one node is no majority");
        assert!(attempt.close(0).is_empty(), "nobody has anything of it");
    }

    #[test]
    fn with_its_grant_the_others_are_asked() {
        let mut attempt = attempt();
        attempt.vote(1, Vote::Granted(7));
        assert!(attempt.decided() && attempt.goes_on(at(300)) && !attempt.decided());
        assert_eq!(attempt.answer_by(), at(300));
        assert!(attempt.sending(0, Via::unfenced(1), at(250)));
        attempt.vote(0, Vote::Granted(7));
        assert!(attempt.decided());
        assert!(matches!(attempt.conclude(at(2)), Conclusion::Won { number: 7, .. }));
    }

    #[test]
    fn one_that_says_nothing_of_use_does_not_keep_the_others_from_being_asked() {
        let fail = |failure| move |attempt: &mut Attempt| attempt.fail(1, failure);
        let vote = |vote| move |attempt: &mut Attempt| attempt.vote(1, vote);
        let answers: [&dyn Fn(&mut Attempt); 5] = [
            &|_| {},
            &fail(Failure::NotSent),
            &fail(Failure::NotAdmitted),
            &vote(Vote::NotAdmitted),
            &vote(Vote::WrongKind),
        ];
        for answer in answers {
            let mut attempt = attempt();
            answer(&mut attempt);
            assert!(attempt.goes_on(at(300)) && !attempt.has_vote_of(0));
            attempt.vote(0, Vote::Granted(7));
            attempt.vote(2, Vote::Granted(7));
            assert!(attempt.decided());
            assert!(matches!(attempt.conclude(at(2)), Conclusion::Won { .. }));
        }
    }

    /// A caller's deadline that ends the attempt before the preferred node has answered is no evidence.
    #[test]
    fn what_is_cut_short_shows_nothing() {
        let mut attempt = attempt();
        attempt.answer_by = at(50);
        let judged = QuorumHealth::new(None, TIMEOUT).judge(&mut attempt, at(50));
        let Judged::Concluded(judgement) = judged else { panic!("nobody falls back") };
        assert_eq!(judgement.conclusion, Conclusion::Unreachable);
        assert_eq!(judgement.quorum, Quorum::Untold);
    }
}

/// The choice of the lock's number, and the nodes that must confirm it.
mod number {
    use super::super::super::super::base::without;
    use super::*;

    fn attempt(nodes: usize, proposed: u64) -> Attempt {
        attempt_at(nodes, proposed, 0)
    }

    /// An attempt of a client that knows that the clocks of several nodes have `reached` that number.
    fn attempt_at(nodes: usize, proposed: u64, reached: u64) -> Attempt {
        let ttl = Duration::from_secs(10);
        let mut attempt = Attempt::new(nodes, at(0), at(200), ttl, Allowance::FOR_DRIFT);
        attempt.proposes(Proposal { number: proposed, reached });
        (0..nodes).for_each(|node| assert!(attempt.sending(node, Via::unfenced(1), at(0))));
        attempt
    }

    fn number(attempt: &Attempt) -> Option<u64> {
        match attempt.conclude(at(1)) {
            Conclusion::Won { number, .. } => Some(number),
            _ => None,
        }
    }

    #[test]
    fn one_node_that_is_far_ahead_waits_for_the_others() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        assert!(!attempt.decided(), "the third one may know better");
        assert_eq!((attempt.number_to_write_back(), number(&attempt)), (None, None));
        attempt.vote(2, Vote::Granted(500));
        assert!(attempt.decided());
        assert_eq!((attempt.number_to_write_back(), number(&attempt)), (None, Some(500)));
        assert_eq!(attempt.number_of_several(), 500);
    }

    /// Two of three nodes grant, and one of them answers the largest possible number. Returns the number that
    /// is written back.
    fn written_back_by_the_word_of_one() -> Option<u64> {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        attempt.number_to_write_back()
    }

    #[test]
    fn without_the_rule_one_node_uses_up_the_numbers_of_all() {
        assert_eq!(written_back_by_the_word_of_one(), None);
        let without = without(&[Mechanism::FarNumbersNeedSeveral], written_back_by_the_word_of_one);
        assert_eq!(without, Some(LARGEST_NUMBER));
    }

    /// Returns true if a client gets the lock in ten tries. Two of five nodes grant nothing, and the set's time
    /// is years behind. One of the others knows a number of today.
    fn is_won_with_a_time_of_years_ago() -> bool {
        const YEARS_AGO: u64 = 170_000_000_000_000;
        const TODAY: u64 = 179_000_000_000_000;
        let mut fences = [TODAY, 0, 0];
        (0..10).any(|_| {
            let mut attempt = attempt_at(5, YEARS_AGO, TODAY);
            for (node, fence) in fences.iter_mut().enumerate() {
                *fence = YEARS_AGO.max(*fence + 1);
                attempt.vote(node, Vote::Granted(*fence));
            }
            (3..5).for_each(|node| attempt.fail(node, Failure::Unknown));
            attempt.number_to_write_back() == Some(fences[0])
        })
    }

    #[test]
    fn without_the_clocks_of_several_two_wrong_ones_keep_everybody_away_for_ever() {
        assert!(is_won_with_a_time_of_years_ago());
        assert!(!without(&[Mechanism::ReachedNumbersAreNear], is_won_with_a_time_of_years_ago));
    }

    #[test]
    fn without_the_others_nobody_is_told_its_number() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(LARGEST_NUMBER));
        attempt.vote(1, Vote::Granted(500));
        attempt.fail(2, Failure::Unknown);
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), None);
        assert_eq!(attempt.conclude(at(1)), Conclusion::Unconfirmed);
    }

    #[test]
    fn the_word_of_a_majority_counts_however_far_ahead_it_is() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900_000_000));
        attempt.vote(1, Vote::Granted(900_000_000));
        assert!(attempt.decided());
        assert_eq!(number(&attempt), Some(900_000_000));
        assert_eq!(attempt.number_of_several(), 900_000_000);
    }

    #[test]
    fn nodes_that_are_both_far_ahead_need_not_say_the_same() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900_000_000));
        attempt.vote(1, Vote::Granted(900_000_500));
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), Some(900_000_500));
    }

    #[test]
    fn a_number_that_is_not_far_ahead_is_written_back_at_once() {
        let mut attempt = attempt(3, 500);
        attempt.vote(0, Vote::Granted(900));
        attempt.vote(1, Vote::Granted(500));
        assert!(attempt.decided());
        assert_eq!(attempt.number_to_write_back(), Some(900));
    }
}

/// A request that is in flight may run at any later time, so the end of its key is not known.
#[test]
fn a_release_is_kept_until_the_key_is_gone_by_the_nodes_clock_or_for_good() {
    let (ttl, now) = (Duration::from_secs(10), Time::default());
    let cleanup = Cleanup { node: 0, granted: true, in_flight: false, late: Late::default() };
    let plan = cleanup.plan(ttl, None, now);
    assert_eq!(plan.until, Some(now.after(ttl).after(drift(ttl))));
    assert!(plan.repetition.is_none() && plan.raise_to.is_none());
    let late = Late { extensions: Some(1), raises_to: Some(7), ..Late::default() };
    let plan = Cleanup { in_flight: true, late, ..cleanup }.plan(ttl, None, now);
    assert_eq!((plan.until, plan.raise_to), (None, Some(7)));
    assert!(plan.repetition.is_some());
}
