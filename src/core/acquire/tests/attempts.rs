use super::super::super::base::Allowance;
use super::super::super::link::Via;
use super::super::super::vote::{Ballot, Vote};
use super::*;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

const HELD: Conclusion = Conclusion::Held { remaining: None };

fn attempts(patience: Patience) -> Attempts {
    Attempts::new(
        Policy {
            patience,
            backoff: Backoff { min: Duration::from_millis(10), max: Duration::from_millis(100) },
            no_quorum_timeout: Duration::from_millis(1_000),
            ordered: true,
            waiting: WayOfWaiting::Unordered { names: 1 },
        },
        Duration::from_millis(200),
    )
}

#[test]
fn one_try_tells_what_it_saw() {
    for (conclusion, outcome) in [
        (HELD, Outcome::HELD),
        (Conclusion::Unreachable, Outcome::NoQuorum),
        (Conclusion::NotAdmitted, Outcome::NotAdmitted),
        (Conclusion::TooLate, Outcome::TooLate),
        (Conclusion::WrongKind, Outcome::WrongKind),
        (Conclusion::Spent, Outcome::Spent),
        (Conclusion::Unconfirmed, Outcome::Unconfirmed),
    ] {
        let step = attempts(Patience::Once).concluded(conclusion, at(0), at(1), 0.5);
        assert_eq!(step, Step::Finish(outcome));
    }
}

/// The nodes remember a waiting caller until its next attempt is due, and a while longer.
#[test]
fn nodes_are_told_how_long_to_reckon_with_a_caller() {
    let ms = Duration::from_millis;
    let until = |deadline| attempts(Patience::Until(at(deadline)));
    assert_eq!(attempts(Patience::Once).waits(at(5)).lasts, Duration::ZERO);
    assert_eq!(
        attempts(Patience::Forever).waits(at(5)).lasts,
        ms(2_000),
        "the longest pause is shorter"
    );
    assert_eq!(until(60_000).waits(at(5)).lasts, ms(2_000));
    assert_eq!(until(1_205).waits(at(5)).lasts, ms(1_200), "it gives up then");
    assert_eq!(until(4).waits(at(5)).lasts, Duration::ZERO, "it has given up");
    let mut slow = attempts(Patience::Forever);
    slow.policy.backoff.max = ms(30_000);
    assert_eq!(slow.waits(at(5)).lasts, ms(60_000));
}

#[test]
fn a_waiter_that_is_told_of_a_release_asks_one_node_first() {
    let mut attempts = attempts(Patience::Forever);
    attempts.woken(WakeReason::Released, at(0), 0.0);
    assert!(attempts.prefers_one(at(0)));
    assert_eq!(attempts.preferred_node(&[1, 0, 2], |_| true, at(0)), Some((1, at(20))));
}

/// An attempt with the answers of three nodes.
fn attempt(votes: [Vote; 3]) -> Attempt {
    let (timeout, all) = (Duration::from_millis(100), Allowance::FOR_DRIFT);
    let mut attempt = Attempt::new(3, at(0), at(100), timeout * 20, all);
    for (node, vote) in votes.into_iter().enumerate() {
        assert!(attempt.sending(node, Via::unfenced(1), at(0)));
        attempt.vote(node, vote);
    }
    attempt
}

/// The votes are split. To ask one node first, and then the others, takes twice the time of an attempt, but not more than
/// the time limit of the first one.
#[test]
fn who_tries_once_tries_again_in_the_same_time_after_a_split_vote() {
    const NO: Vote = Vote::Refused(None);
    let timeout = Duration::from_millis(100);
    let mut once = attempts(Patience::Once);
    assert_eq!(once.answer_by(at(0), timeout), at(100));
    assert!(!once.prefers_one(at(0)));
    for (tries, now) in (1..).map(at).enumerate() {
        once.tried(&attempt([Vote::Granted(0), NO, NO]), now, false);
        match once.concluded(HELD, at(0), now, 0.5) {
            Step::Wait(until) => assert!(now < until && until < at(100)),
            step => {
                assert_eq!((step, tries), (Step::Finish(Outcome::HELD), 3));
                break;
            }
        }
        assert!(once.prefers_one(at(0)));
        assert_eq!(once.answer_by(now, timeout), at(100), "it is still one try");
    }
    let mut late = attempts(Patience::Once);
    assert_eq!(late.answer_by(at(0), timeout), at(100));
    late.tried(&attempt([Vote::Granted(0), NO, NO]), at(99), false);
    assert_eq!(late.concluded(HELD, at(0), at(99), 1.0), Step::Finish(Outcome::HELD));
    let mut held = attempts(Patience::Once);
    held.answer_by(at(0), timeout);
    held.tried(&attempt([NO; 3]), at(1), false);
    assert_eq!(held.concluded(HELD, at(0), at(1), 0.5), Step::Finish(Outcome::HELD));
}

/// The split vote before the second try has cut its time short.
#[test]
fn who_has_no_time_left_for_another_try_is_told_what_the_first_one_has_shown() {
    let mut once = attempts(Patience::Once);
    once.answer_by(at(0), Duration::from_millis(100));
    once.tried(
        &attempt([Vote::Granted(0), Vote::Refused(None), Vote::Refused(None)]),
        at(1),
        false,
    );
    assert!(matches!(once.concluded(HELD, at(0), at(1), 0.5), Step::Wait(_)));
    let step = once.concluded(Conclusion::Unreachable, at(0), at(100), 0.5);
    assert_eq!(step, Step::Finish(Outcome::HELD));
}

/// Case 20 of the field's bugs: a timed wait that tries twice and then gives up.
#[test]
fn a_timed_wait_goes_on_to_its_deadline() {
    let mut attempts = attempts(Patience::Until(at(1_000)));
    let (mut now, mut tries) = (at(0), 0);
    loop {
        tries += 1;
        attempts.waits(now);
        let Step::Wait(until) = attempts.concluded(HELD, now, now, 1.0) else {
            panic!("gave up before the deadline")
        };
        now = until;
        if let Some(outcome) = attempts.waited(now, false) {
            assert_eq!(outcome, Outcome::HELD);
            break;
        }
    }
    assert_eq!(now, at(1_000), "neither early nor late");
    assert!(tries > 10, "{tries} tries in a second with pauses of 100 ms at most");
}

#[test]
fn the_holders_remaining_time_shortens_the_pause_but_never_below_the_minimum() {
    for (remaining_ms, pause_ms) in [(1, 10), (15, 15), (10_000, 20)] {
        let remaining = Some(Duration::from_millis(remaining_ms));
        let step = attempts(Patience::Forever).concluded(
            Conclusion::Held { remaining },
            at(0),
            at(0),
            1.0,
        );
        assert_eq!(step, Step::Wait(at(pause_ms)));
    }
}

#[test]
fn no_quorum_is_told_after_its_timeout_and_counts_anew_after_an_answer() {
    let mut attempts = attempts(Patience::Forever);
    let unreachable = Conclusion::Unreachable;
    assert!(matches!(attempts.concluded(unreachable, at(0), at(1), 0.0), Step::Wait(_)));
    assert!(matches!(attempts.concluded(HELD, at(900), at(901), 0.0), Step::Wait(_)));
    assert!(matches!(attempts.concluded(unreachable, at(950), at(999), 0.0), Step::Wait(_)));
    let step = attempts.concluded(unreachable, at(1_950), at(1_951), 0.0);
    assert_eq!(step, Step::Finish(Outcome::NoQuorum));
}

#[test]
fn an_attempt_that_the_deadline_cut_short_does_not_hide_that_the_lock_is_held() {
    let mut attempts = attempts(Patience::Until(at(100)));
    assert!(matches!(attempts.concluded(HELD, at(0), at(1), 0.0), Step::Wait(_)));
    let step = attempts.concluded(Conclusion::Unreachable, at(99), at(100), 0.0);
    assert_eq!(step, Step::Finish(Outcome::HELD));
}

#[test]
fn a_quarantine_is_waited_out_and_does_not_count_as_no_quorum() {
    let mut waiting = attempts(Patience::Forever);
    for s in 0..100 {
        let now = at(s * 1_000);
        let step = waiting.not_admitted(Some(Duration::from_secs(100 - s)), now, now, 0.5);
        assert_eq!(step, Step::Wait(at((s + 1) * 1_000)), "and looked at again meanwhile");
    }
    let step = waiting.not_admitted(Some(Duration::from_millis(300)), at(0), at(0), 0.5);
    assert_eq!(step, Step::Wait(at(300)));
    let mut timed = attempts(Patience::Until(at(500)));
    let step = timed.not_admitted(Some(Duration::from_secs(9)), at(0), at(0), 0.5);
    assert_eq!(
        (step, timed.waited(at(500), false)),
        (Step::Wait(at(500)), Some(Outcome::NotAdmitted))
    );
    let mut never = attempts(Patience::Once);
    assert_eq!(never.not_admitted(None, at(0), at(0), 0.5), Step::Finish(Outcome::NoQuorum));
}

#[test]
fn one_try_is_made_again_where_a_mark_was_only_written_anew_and_only_once() {
    let mut once = attempts(Patience::Once);
    let now = Some(Duration::ZERO);
    assert_eq!(once.not_admitted(now, at(0), at(5), 0.5), Step::Wait(at(5)));
    assert_eq!(once.waited(at(5), false), None, "another attempt");
    assert_eq!(once.not_admitted(now, at(5), at(9), 0.5), Step::Finish(Outcome::NotAdmitted));
    let step =
        attempts(Patience::Once).not_admitted(Some(Duration::from_secs(3)), at(0), at(5), 0.5);
    assert_eq!(step, Step::Finish(Outcome::NotAdmitted));
}

#[test]
fn one_try_waits_for_nodes_that_are_ready_within_its_time() {
    let mut once = attempts(Patience::Once);
    assert_eq!(once.answer_by(at(0), Duration::from_millis(200)), at(200));
    let moment = Some(Duration::from_micros(700));
    let mut now = at(1);
    let mut tries = 1;
    while let Step::Wait(next) = once.not_admitted(moment, now, now, 0.5) {
        assert!(now < next && next < at(200), "{next:?}");
        (now, tries) = (next, tries + 1);
    }
    assert!((3..30).contains(&tries), "{tries}");
    // One more attempt that had no time for answers does not hide the earlier outcome.
    assert_eq!(
        once.concluded(Conclusion::Unreachable, at(195), at(200), 0.5),
        Step::Finish(Outcome::NotAdmitted)
    );
    let longer = Some(Duration::from_millis(199));
    let mut once = attempts(Patience::Once);
    once.answer_by(at(0), Duration::from_millis(200));
    assert_eq!(once.not_admitted(longer, at(1), at(1), 0.5), Step::Finish(Outcome::NotAdmitted));
}

#[test]
fn an_attempt_never_lasts_beyond_the_callers_deadline() {
    let timeout = Duration::from_millis(200);
    assert_eq!(attempts(Patience::Until(at(50))).answer_by(at(0), timeout), at(50));
    assert_eq!(attempts(Patience::Forever).answer_by(at(0), timeout), at(200));
}
