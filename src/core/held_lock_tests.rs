use std::cell::RefCell;
use std::rc::Rc;

use super::super::{
    Allowance, Ballot, ExtensionVote, Failure, Mechanism, Prolong, ProlongStep, Prolonged, Quorum,
    Via, Vote, without,
};
use super::*;

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(200);

type Round = Rc<RefCell<Extension>>;
type Lock = HeldLock<Rc<RefCell<Attempt>>, Round>;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn terms() -> Terms {
    Terms { ttl: TTL, renewed: true, max_hold: None, allowance: Allowance::FOR_DRIFT }
}

/// A lock that all of three nodes granted at the start.
fn held_on(basis: Basis) -> Lock {
    held_as(basis, terms())
}

fn held_as(basis: Basis, terms: Terms) -> Lock {
    let start = Time::default();
    let mut attempt = Attempt::new(3, start, start.after(TIMEOUT), TTL, Allowance::FOR_DRIFT);
    for node in 0..3 {
        assert!(attempt.sending(node, Via::unfenced(1), start));
        attempt.vote(node, Vote::Granted(1));
    }
    let grant = Grant {
        valid_until: Allowance::FOR_DRIFT.valid_until(start, start, TTL),
        number: 1,
        basis,
        quorum: Quorum::Reached,
        started: start,
        refused_before: false,
    };
    HeldLock::new(Rc::new(RefCell::new(attempt)), terms, &grant, 0.0, 3, TIMEOUT)
}

fn held() -> Lock {
    held_on(Basis::Majority)
}

/// What the driver was told to do, by name; rounds with the numbers up to which they repair.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Ask(Vec<Option<u64>>),
    QuorumReached,
    AwaitVerdict,
    AwaitAnswers,
    Done(Prolonged),
}

/// A driver of one renewal or extension.
struct Driver {
    prolong: Prolong<Round>,
    /// The last round, which copies have been sent for.
    round: Option<Round>,
}

impl Driver {
    fn renewal(lock: &Lock) -> Self {
        Self { prolong: Prolong::renewal(lock, 3), round: None }
    }

    fn extension(ttl: Duration) -> Self {
        Self { prolong: Prolong::extension(ttl), round: None }
    }

    /// Does what the machine says until it waits, or is done.
    fn go_on(&mut self, lock: &mut Lock, now: Time) -> Vec<Told> {
        let mut told = Vec::new();
        loop {
            told.push(match self.prolong.poll(lock, now) {
                ProlongStep::Ask(extension, request) => {
                    let round = Rc::new(RefCell::new(*extension));
                    self.prolong.handle_begun(lock, round.clone());
                    for node in (0..3).filter(|node| request.up_to[*node].is_some()) {
                        assert!(round.borrow_mut().sending(node, Via::unfenced(1), now));
                    }
                    self.round = Some(round);
                    Told::Ask(request.up_to)
                }
                ProlongStep::QuorumReached => Told::QuorumReached,
                ProlongStep::AwaitVerdict(_) => Told::AwaitVerdict,
                ProlongStep::AwaitAnswers(_) => Told::AwaitAnswers,
                ProlongStep::Done(prolonged) => Told::Done(prolonged),
            });
            let last = told.last();
            if !matches!(last, Some(Told::Ask(_) | Told::QuorumReached)) {
                return told;
            }
        }
    }

    fn vote(&self, votes: &[(usize, ExtensionVote)]) {
        let round = self.round.as_ref().expect("a round was begun");
        votes.iter().for_each(|(node, vote)| round.borrow_mut().vote(*node, *vote));
    }
}

use ExtensionVote::{Extended, Free, FreeAbove, NotOurs, Repaired};

const ALL: [Option<u64>; 3] = [Some(0); 3];
const SETTLED: Told = Told::Done(Prolonged::Settled);

fn asks() -> Vec<Told> {
    vec![Told::Ask(ALL.to_vec()), Told::AwaitVerdict]
}

/// What is known of a lock that has ended just now.
fn ending(ended: Ended) -> Ending {
    match ended {
        Ended::Now(ending) => ending,
        other => panic!("it goes on, or had ended before: {other:?}"),
    }
}

#[test]
fn a_renewal_that_a_majority_confirms_hears_the_others_out_and_repairs_them() {
    let mut lock = held();
    let mut renewal = Driver::renewal(&lock);
    let now = at(4_000);
    assert_eq!(renewal.go_on(&mut lock, now), asks());
    renewal.vote(&[(0, Extended), (1, Extended)]);
    assert_eq!(renewal.go_on(&mut lock, now), [Told::QuorumReached, Told::AwaitAnswers]);
    assert_eq!(lock.valid_until(), Allowance::FOR_DRIFT.valid_until(now, now, TTL));
    renewal.vote(&[(2, FreeAbove(7))]);
    let again = renewal.go_on(&mut lock, at(4_002));
    assert_eq!(again, [Told::Ask(vec![None, None, Some(7)]), Told::AwaitAnswers]);
    renewal.vote(&[(2, Repaired)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_003)), [SETTLED]);
}

#[test]
fn a_renewal_hears_silent_nodes_out_for_a_moment_and_no_longer() {
    let mut lock = held();
    let mut renewal = Driver::renewal(&lock);
    renewal.go_on(&mut lock, at(4_000));
    renewal.vote(&[(0, Extended), (1, Extended)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), [Told::QuorumReached, Told::AwaitAnswers]);
    assert_eq!(renewal.go_on(&mut lock, at(4_009)), [Told::AwaitAnswers]);
    assert_eq!(renewal.go_on(&mut lock, at(4_010)), [SETTLED]);
}

/// The holder waits, so no slow node holds it up. What can be repaired by then is.
#[test]
fn an_extension_repairs_once_and_waits_for_no_answer_that_it_does_not_need() {
    let mut lock = held();
    let mut extension = Driver::extension(TTL);
    assert_eq!(extension.go_on(&mut lock, at(1_000)), asks());
    extension.vote(&[(0, Extended), (2, NotOurs), (1, Extended)]);
    let told = extension.go_on(&mut lock, at(1_001));
    let repair = Told::Ask(vec![None, None, Some(0)]);
    assert_eq!(told, [Told::QuorumReached, repair, SETTLED]);
}

#[test]
fn silence_is_no_confirmation_and_is_news_once() {
    let mut lock = held();
    let valid_until = lock.valid_until();
    for (start, is_news) in [(4_000, true), (4_500, false)] {
        let mut renewal = Driver::renewal(&lock);
        assert_eq!(renewal.go_on(&mut lock, at(start)), asks());
        renewal.vote(&[(0, Extended)]);
        assert_eq!(renewal.go_on(&mut lock, at(start + 199)), [Told::AwaitVerdict]);
        let done = Told::Done(Prolonged::Unconfirmed { is_news });
        assert_eq!(renewal.go_on(&mut lock, at(start + 200)), [done]);
        assert_eq!(lock.valid_until(), valid_until);
    }
    let renewed = without(&[Mechanism::UnknownDoesNotExtend], || {
        let mut renewal = Driver::renewal(&lock);
        renewal.go_on(&mut lock, at(5_000));
        renewal.go_on(&mut lock, at(5_200));
        lock.valid_until()
    });
    assert!(renewed > valid_until, "the mutation bites");
}

#[test]
fn no_node_is_asked_while_too_many_are_known_to_be_down() {
    let mut lock = held();
    let mut renewal = Driver { prolong: Prolong::renewal(&lock, 1), round: None };
    let hopeless = |is_news| [Told::Done(Prolonged::Hopeless { is_news })];
    assert_eq!(renewal.go_on(&mut lock, at(4_000)), hopeless(true));
    let mut renewal = Driver { prolong: Prolong::renewal(&lock, 1), round: None };
    assert_eq!(renewal.go_on(&mut lock, at(4_500)), hopeless(false));
    // The fallback rests on the first node; and the holder's own extension is tried whatever is known.
    let mut lock = held_on(Basis::FirstNode);
    let mut renewal = Driver { prolong: Prolong::renewal(&lock, 1), round: None };
    assert_eq!(renewal.go_on(&mut lock, at(4_000)), asks());
}

/// The first copy may have set the key again before the connection broke, so that the second one finds it.
#[test]
fn a_round_under_which_a_connection_broke_is_followed_by_a_second_one() {
    let mut lock = held();
    let mut extension = Driver::extension(TTL);
    extension.go_on(&mut lock, at(1_000));
    let broken = extension.round.clone().expect("a round was begun");
    assert!(broken.borrow_mut().sending(1, Via::unfenced(2), at(1_001)));
    extension.vote(&[(0, Extended), (1, Extended)]);
    broken.borrow_mut().fail(2, Failure::Unknown);
    assert_eq!(extension.go_on(&mut lock, at(1_002)), asks());
    extension.vote(&[(0, Extended), (1, Extended)]);
    assert_eq!(extension.go_on(&mut lock, at(1_003)), [Told::QuorumReached, SETTLED]);
    let from_the_second = Allowance::FOR_DRIFT.valid_until(at(1_002), at(1_003), TTL);
    assert_eq!(lock.valid_until(), from_the_second);
}

#[test]
fn an_extension_that_asks_for_less_cuts_the_validity_before_it_is_sent() {
    let mut lock = held();
    let mut extension = Driver::extension(Duration::from_secs(2));
    extension.go_on(&mut lock, at(1_000));
    assert!(lock.valid_until() < at(3_000));
    extension.go_on(&mut lock, at(1_200));
    assert!(lock.valid_until() < at(3_000), "whatever the nodes answer");
}

/// Should the holder crash, its keys are in nobody's way once the longest hold is over.
#[test]
fn keys_live_no_longer_than_the_longest_hold_needs() {
    let max_hold = Some(Duration::from_secs(12));
    let mut lock = held_as(Basis::Majority, Terms { max_hold, ..terms() });
    let mut renewal = Prolong::renewal(&lock, 3);
    let ProlongStep::Ask(extension, request) = renewal.poll(&mut lock, at(4_000)) else {
        panic!("a renewal asks the nodes")
    };
    assert_eq!(extension.ttl(), request.ttl);
    assert!(request.ttl >= Duration::from_secs(8) && request.ttl < Duration::from_millis(8_200));
}

#[test]
fn keys_that_are_gone_from_a_majority_are_a_loss() {
    let mut lock = held();
    let mut renewal = Driver::renewal(&lock);
    renewal.go_on(&mut lock, at(4_000));
    renewal.vote(&[(0, Free), (1, NotOurs)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), [SETTLED]);
    assert_eq!(lock.due(at(4_001)), Due::Loss);
    assert_eq!(lock.held_until(at(4_001)), None);
    let ending = ending(lock.end(EndedBy::Loss, at(4_001)));
    assert_eq!(ending.lost, Some(LossReason::KeysGone));
    assert_eq!(lock.end(EndedBy::Holder(0), at(4_001)), Ended::Before, "it ends once");
}

/// A renewal is waiting for its verdict while the holder gives the lock back.
#[test]
fn a_lock_that_has_ended_is_extended_and_repaired_no_more() {
    let repairs_after_the_end = || {
        let mut lock = held();
        let mut renewal = Driver::renewal(&lock);
        renewal.go_on(&mut lock, at(4_000));
        renewal.vote(&[(0, Extended), (1, Extended), (2, NotOurs)]);
        assert!(matches!(lock.end(EndedBy::Holder(0), at(4_001)), Ended::Now(_)));
        let mut told = renewal.go_on(&mut lock, at(4_001));
        told.extend(Driver::extension(TTL).go_on(&mut lock, at(4_002)));
        told.iter().filter(|told| matches!(told, Told::Ask(_))).count()
    };
    assert_eq!(repairs_after_the_end(), 0);
    assert_eq!(without(&[Mechanism::RenewalStopsBeforeRelease], repairs_after_the_end), 2);
}

#[test]
fn only_the_present_holder_hands_the_lock_over_or_ends_it() {
    let mut lock = held();
    let second = |lease: &mut Lease| lease.hand_over(terms(), at(10)).then_some(("second", 1));
    assert_eq!(lock.hand_over(0, second), Some(("second", 1)));
    assert_eq!(lock.hand_over(0, |_| Some(("third", 2))), None);
    assert_eq!(lock.end(EndedBy::Holder(0), at(20)), Ended::Before);
    let ending = ending(lock.end(EndedBy::Holder(1), at(20)));
    assert_eq!((ending.lost, ending.basis), (None, Basis::Majority));
    assert_eq!(lock.hand_over(1, |_| Some(("third", 2))), None, "it has ended");
    assert_eq!(lock.held_until(at(20)), None, "whatever is left of its validity");
}

#[test]
fn a_suspension_ends_the_lock_whatever_its_clock_says() {
    let mut lock = held();
    assert!(lock.held_until(at(1)).is_some());
    lock.handle_suspended();
    assert_eq!(lock.remaining(at(1)), Duration::ZERO);
    assert_eq!(lock.loss(at(1)), Some(LossReason::ClockStoodStill));
    assert_eq!(lock.hand_over(0, |lease| lease.hand_over(terms(), at(1)).then_some(((), 1))), None);
}

/// A lock that three hold.
fn shared() -> Lock {
    let mut lock = held();
    assert!(lock.join(terms(), 1, at(10)) && lock.join(terms(), 2, at(20)));
    lock
}

const GO_ON: Ended = Ended::OthersHold { lost: None };

#[test]
fn a_lock_of_several_holders_ends_with_the_last_of_them() {
    let mut lock = shared();
    assert_eq!(lock.end(EndedBy::Holder(0), at(30)), GO_ON, "it got the lock from the nodes");
    assert_eq!(lock.end(EndedBy::Holder(0), at(30)), Ended::Before, "each leaves once");
    assert_eq!(lock.end(EndedBy::Holder(7), at(30)), Ended::Before, "there is no such holder");
    assert!(lock.join(terms(), 3, at(40)), "as long as somebody holds it");
    for (holder, ended) in [(3, GO_ON), (1, GO_ON)] {
        assert_eq!(lock.end(EndedBy::Holder(holder), at(50)), ended);
        assert!(!lock.has_ended());
    }
    assert_eq!(ending(lock.end(EndedBy::Holder(2), at(60))).lost, None);
    assert!(!lock.join(terms(), 4, at(60)), "its releases are on their way");
    assert_eq!(lock.end(EndedBy::Holder(4), at(60)), Ended::Before);
}

/// The others work on, and their lock is anybody's.
#[test]
fn without_that_rule_the_first_who_leaves_gives_the_lock_of_all_back() {
    let ended = || shared().end(EndedBy::Holder(1), at(30));
    assert_eq!(ended(), GO_ON);
    ending(without(&[Mechanism::LastHolderGivesBack], ended));
}

#[test]
fn a_loss_ends_the_lock_for_all_holders() {
    let mut lock = shared();
    lock.handle_suspended();
    assert!(!lock.join(terms(), 3, at(30)));
    let lost = Some(LossReason::ClockStoodStill);
    assert_eq!(lock.end(EndedBy::Holder(1), at(30)), Ended::OthersHold { lost }, "nobody knew yet");
    assert_eq!(ending(lock.end(EndedBy::Loss, at(40))).lost, lost);
    for by in [EndedBy::Loss, EndedBy::Holder(0), EndedBy::Holder(2)] {
        assert_eq!(lock.end(by, at(50)), Ended::Before);
    }
    // The last holder may be faster than the thread that watches the lock.
    let mut lock = held();
    lock.handle_suspended();
    assert_eq!(ending(lock.end(EndedBy::Holder(0), at(30))).lost, lost);
}

#[test]
fn a_lock_that_several_hold_is_handed_to_nobody() {
    let mut lock = shared();
    assert_eq!(lock.hand_over(1, |_| Some(("next", 3))), None);
    assert_eq!(lock.end(EndedBy::Holder(1), at(30)), GO_ON);
    assert_eq!(lock.hand_over(1, |_| Some(("next", 3))), None, "it has left");
}

#[test]
fn what_one_of_several_holders_asks_for_does_not_cut_the_validity_of_the_others() {
    let after_asking_for_less = |mut lock: Lock| {
        let before = lock.valid_until();
        let mut extension = Driver::extension(Duration::from_secs(2));
        assert_eq!(extension.go_on(&mut lock, at(1_000)), asks());
        extension.go_on(&mut lock, at(1_200));
        lock.valid_until() == before
    };
    assert!(after_asking_for_less(shared()));
    let cut = without(&[Mechanism::ExtensionsCutNoOther], || after_asking_for_less(shared()));
    assert!(!cut, "the mutation bites");
    let mut last = shared();
    assert_eq!(last.end(EndedBy::Holder(0), at(30)), GO_ON);
    assert_eq!(last.end(EndedBy::Holder(2), at(30)), GO_ON);
    assert!(!after_asking_for_less(last), "nobody else holds it");
}

/// Nobody who joins later would have asked for keys that live for so long.
#[test]
fn what_one_of_several_holders_asks_for_beyond_its_terms_is_for_those_who_hold_it_then() {
    let mut lock = shared();
    let mut extension = Driver::extension(TTL * 6);
    extension.go_on(&mut lock, at(1_000));
    extension.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
    extension.go_on(&mut lock, at(1_001));
    assert!(lock.valid_until() > at(50_000));
    assert!(!lock.join(terms(), 3, at(1_002)));
    assert_eq!(lock.end(EndedBy::Holder(0), at(1_003)), GO_ON);
}

#[test]
fn a_lock_is_renewed_when_that_is_due_and_looked_at_no_more_once_it_has_ended() {
    let mut lock = held();
    let Due::RenewalAt(renewal) = lock.due(at(0)) else { panic!("it is renewed") };
    assert_eq!(lock.due(at(0)).look_at(at(0)), Some(renewal));
    assert_eq!(lock.due(renewal), Due::Renewal);
    assert_eq!(Due::Renewal.look_at(at(4_000)), Some(at(4_000)));
    let over = lock.valid_until();
    assert_eq!((lock.due(over), Due::Loss.look_at(over)), (Due::Loss, Some(over)));
    ending(lock.end(EndedBy::Loss, over));
    assert_eq!((lock.due(over), lock.due(over).look_at(over)), (Due::Nothing, None));
    let mut unrenewed = held_as(Basis::Majority, Terms { renewed: false, ..terms() });
    assert_eq!(unrenewed.due(renewal), Due::EndAt(over));
    assert_eq!(unrenewed.due(renewal).look_at(renewal), Some(over));
}
