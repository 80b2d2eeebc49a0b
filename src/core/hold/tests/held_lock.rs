use std::cell::RefCell;
use std::rc::Rc;

use super::super::super::base::{Allowance, Mechanism, without};
use super::super::super::link::Via;
use super::super::super::vote::{Ballot, ExtensionVote, Failure, Quorum, Vote};
use super::super::{Prolong, ProlongStep, Prolonged};
use super::*;

#[path = "held_lock_risk.rs"]
mod risk;

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(200);

type Round = Rc<RefCell<Extension>>;
type Lock = HeldLock<Rc<RefCell<Attempt>>, Round>;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn terms() -> Terms {
    Terms::renewed(TTL, Allowance::FOR_DRIFT)
}

/// A lock that all of three nodes granted at the start.
fn held_on(basis: Basis) -> Lock {
    held_as(basis, terms())
}

fn held_as(basis: Basis, terms: Terms) -> Lock {
    held_by(basis, terms, Schedule::default())
}

fn held_by(basis: Basis, terms: Terms, schedule: Schedule) -> Lock {
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
        known_at: start,
        refused_before: false,
    };
    HeldLock::new(
        Rc::new(RefCell::new(attempt)),
        HoldClass::Exclusive,
        terms,
        &grant,
        schedule,
        3,
        TIMEOUT,
    )
}

fn held() -> Lock {
    held_on(Basis::Majority)
}

/// The steps that the driver was told to take, by name; rounds with the numbers up to which they repair.
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
    /// The last round for which copies have been sent.
    round: Option<Round>,
}

impl Driver {
    fn renewal() -> Self {
        Self { prolong: Prolong::renewal(3), round: None }
    }

    fn extension(ttl: Duration) -> Self {
        Self { prolong: Prolong::extension(ttl), round: None }
    }

    /// Takes the steps of the machine until it waits, or is done.
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

use ExtensionVote::{Extended, Free, FreeAbove, NotOurs, Repaired, RepairedInQuarantine};
use HoldClass::{Exclusive, Shared as Sharing};

const ALL: [Option<u64>; 3] = [Some(0); 3];
const SETTLED: Told = Told::Done(Prolonged::Settled);

fn asks() -> Vec<Told> {
    vec![Told::Ask(ALL.to_vec()), Told::AwaitVerdict]
}

#[test]
fn a_lease_from_before_a_suspension_is_over() {
    let loss_after = |suspensions| {
        let mut lock = held();
        lock.handle_suspensions(3, suspensions);
        (lock.loss(at(1_000)), lock.remaining(at(1_000)).is_zero())
    };
    assert_eq!(loss_after(3), (None, false));
    assert_eq!(loss_after(4), (Some(LossReason::ClockStoodStill), true));
    let off = [Mechanism::SuspensionsEndLeases];
    assert_eq!(without(&off, || loss_after(4)), (None, false));
}

#[test]
fn a_renewal_that_a_majority_confirms_hears_the_others_out_and_repairs_them() {
    let mut lock = held();
    let mut renewal = Driver::renewal();
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
    let mut renewal = Driver::renewal();
    renewal.go_on(&mut lock, at(4_000));
    renewal.vote(&[(0, Extended), (1, Extended)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), [Told::QuorumReached, Told::AwaitAnswers]);
    assert_eq!(renewal.go_on(&mut lock, at(4_009)), [Told::AwaitAnswers]);
    assert_eq!(renewal.go_on(&mut lock, at(4_010)), [SETTLED]);
}

/// The holder waits, so no slow node delays it. Repairs that are known by then are made.
#[test]
fn an_extension_repairs_what_it_knows_of_and_waits_for_no_answer_that_it_does_not_need() {
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
        let mut renewal = Driver::renewal();
        assert_eq!(renewal.go_on(&mut lock, at(start)), asks());
        renewal.vote(&[(0, Extended)]);
        assert_eq!(renewal.go_on(&mut lock, at(start + 199)), [Told::AwaitVerdict]);
        let done = Told::Done(Prolonged::Unconfirmed { is_news });
        assert_eq!(renewal.go_on(&mut lock, at(start + 200)), [done]);
        assert_eq!(lock.valid_until(), valid_until);
    }
}

/// The end of the lock closes the round, so a release is no failed renewal. A loss may be due to one.
#[test]
fn a_renewal_of_a_lock_that_was_given_back_meanwhile_has_not_failed() {
    let ended = |by, end| {
        let mut lock = held();
        let mut renewal = Driver::renewal();
        assert_eq!(renewal.go_on(&mut lock, at(4_000)), asks());
        assert!(matches!(lock.end(by, end), Ended::Now(_)));
        renewal.go_on(&mut lock, end.after(TIMEOUT))
    };
    assert_eq!(ended(EndedBy::Holder(0), at(4_001)), [SETTLED]);
    let over = held().valid_until();
    assert_eq!(ended(EndedBy::Loss, over), [Told::Done(Prolonged::Unconfirmed { is_news: true })]);
    // The verdict comes after the end of validity.
    let just_before = over.before(Duration::from_millis(1));
    assert_eq!(ended(EndedBy::Holder(0), just_before), [SETTLED]);
    let unconfirmed = [Told::Done(Prolonged::Unconfirmed { is_news: true })];
    assert_eq!(ended(EndedBy::Holder(0), over), unconfirmed, "it was lost before");
}

/// The downgrade closes the round before it is written. Another round asks for the shared lock, and tells the nodes.
#[test]
fn a_renewal_that_a_downgrade_cuts_short_is_made_for_the_shared_lock() {
    let cut_short = || {
        let mut lock = held();
        let mut renewal = Driver::renewal();
        assert_eq!(renewal.go_on(&mut lock, at(4_000)), asks());
        assert!(lock.downgrade(0, at(4_001)));
        let unsent = renewal.round.clone().expect("a round was begun");
        (0..3).for_each(|node| unsent.borrow_mut().fail(node, Failure::NotSent));
        (lock, renewal)
    };
    let (mut lock, mut renewal) = cut_short();
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), asks());
    renewal.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_002)), [Told::QuorumReached, SETTLED]);
    assert!(!lock.risk.has_failed());
    assert!(matches!(lock.due(at(4_002)), Due::RenewalAt(_)), "the nodes are told");
    // The round for the shared lock may fail as any other. That is news, since no renewal has failed before.
    let (mut lock, mut renewal) = cut_short();
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), asks());
    let failed = renewal.go_on(&mut lock, at(4_300));
    assert_eq!(failed, [Told::Done(Prolonged::Unconfirmed { is_news: true })]);
    assert!(lock.risk.has_failed());
}

#[test]
fn no_node_is_asked_while_too_many_are_known_to_be_down() {
    let mut lock = held();
    let mut renewal = Driver { prolong: Prolong::renewal(1), round: None };
    let hopeless = |is_news| [Told::Done(Prolonged::Hopeless { is_news })];
    assert_eq!(renewal.go_on(&mut lock, at(4_000)), hopeless(true));
    let mut renewal = Driver { prolong: Prolong::renewal(1), round: None };
    assert_eq!(renewal.go_on(&mut lock, at(4_500)), hopeless(false));
    // The fallback rests on the first node, so its renewal is tried even with two nodes down.
    let mut lock = held_on(Basis::FirstNode);
    let mut renewal = Driver { prolong: Prolong::renewal(1), round: None };
    assert_eq!(renewal.go_on(&mut lock, at(4_000)), asks());
}

/// The first copy may have set the key again before the connection broke. Then the second copy finds it.
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

/// The driver gets to a renewal some time after its timer has taken it up. The holder may have extended the lock meanwhile.
#[test]
fn a_renewal_that_is_taken_up_is_made_only_while_it_is_due() {
    let mut lock = held();
    assert_eq!(lock.take_up(at(4_000)), Due::Renewal);
    assert_eq!(lock.take_up(at(4_001)), Due::EndAt(lock.valid_until()), "once");
    assert!(Prolong::taken_up(&mut lock, 3, at(4_001)).is_some());
    let mut extension = Driver::extension(TTL * 2);
    extension.go_on(&mut lock, at(4_002));
    extension.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
    assert_eq!(extension.go_on(&mut lock, at(4_003)).last(), Some(&SETTLED));
    assert!(Prolong::taken_up(&mut lock, 3, at(4_004)).is_none());
    assert!(matches!(lock.take_up(at(4_005)), Due::RenewalAt(_)), "the next one is not taken up");
}

/// If the holder crashes, its keys block nobody once the longest hold is over.
#[test]
fn keys_live_no_longer_than_the_longest_hold_needs() {
    let max_hold = Some(Duration::from_secs(12));
    let mut lock = held_as(Basis::Majority, Terms { max_hold, ..terms() });
    let mut renewal = Prolong::renewal(3);
    let ProlongStep::Ask(extension, request) = renewal.poll(&mut lock, at(4_000)) else {
        panic!("a renewal asks the nodes")
    };
    assert_eq!(extension.ttl(), request.ttl);
    assert!(request.ttl >= Duration::from_secs(8) && request.ttl < Duration::from_millis(8_200));
}

#[test]
fn keys_that_are_gone_from_a_majority_are_a_loss() {
    let mut lock = held();
    let mut renewal = Driver::renewal();
    renewal.go_on(&mut lock, at(4_000));
    renewal.vote(&[(0, Repaired), (1, NotOurs)]);
    assert_eq!(renewal.go_on(&mut lock, at(4_001)), [SETTLED]);
    assert_eq!(lock.due(at(4_001)), Due::Loss);
}

/// The second round has a better time for the repair, and decides whether the lock is lost.
#[test]
fn a_repair_for_which_it_is_too_late_is_tried_again_at_once() {
    let after_second = |votes: &[(usize, ExtensionVote)]| {
        let mut lock = held();
        let mut renewal = Driver::renewal();
        renewal.go_on(&mut lock, at(4_000));
        renewal.vote(&[(0, Extended), (1, Free), (2, FreeAbove(7))]);
        let second = renewal.go_on(&mut lock, at(4_001));
        assert_eq!(second, [Told::Ask(ALL.to_vec()), Told::AwaitVerdict]);
        renewal.vote(votes);
        let told = renewal.go_on(&mut lock, at(4_002));
        assert!(!told.contains(&Told::Ask(ALL.to_vec())), "there is no third round: {told:?}");
        lock.due(at(4_003))
    };
    let in_quarantine = [(0, Extended), (1, RepairedInQuarantine), (2, FreeAbove(7))];
    assert!(matches!(after_second(&in_quarantine), Due::RenewalAt(_)));
    assert_eq!(after_second(&[(0, Extended), (1, Repaired), (2, FreeAbove(7))]), Due::Loss);
    let late_again = [(0, Extended), (1, Free), (2, FreeAbove(7))];
    assert!(matches!(after_second(&late_again), Due::RenewalAt(_)), "the validity decides");
}

/// A renewal waits for its verdict while the holder gives the lock back.
#[test]
fn a_lock_that_has_ended_is_extended_and_repaired_no_more() {
    let repairs_after_the_end = || {
        let mut lock = held();
        let mut renewal = Driver::renewal();
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
fn a_lock_is_renewed_when_that_is_due_and_looked_at_no_more_once_it_has_ended() {
    let mut lock = held();
    let Due::RenewalAt(renewal) = lock.due(at(0)) else { panic!("it is renewed") };
    assert_eq!(lock.due(at(0)).look_at(at(0)), Some(renewal));
    assert_eq!(lock.due(renewal), Due::Renewal);
    assert_eq!(Due::Renewal.look_at(at(4_000)), Some(at(4_000)));
    let over = lock.valid_until();
    assert_eq!((lock.due(over), Due::Loss.look_at(over)), (Due::Loss, Some(over)));
    assert!(matches!(lock.end(EndedBy::Loss, over), Ended::Now(_)));
    assert_eq!((lock.due(over), lock.due(over).look_at(over)), (Due::Nothing, None));
    let mut unrenewed = held_as(Basis::Majority, Terms { renewed: false, ..terms() });
    assert_eq!(unrenewed.due(renewal), Due::EndAt(over));
    assert_eq!(unrenewed.due(renewal).look_at(renewal), Some(over));
}

/// A thread takes the lock twice more. The lock ends with the last of its holds, in any order.
#[test]
fn a_lock_that_was_taken_again_ends_with_the_last_hold() {
    let ends_with_the_last = || {
        let mut lock = held();
        let (second, third) = (lock.reenter(Exclusive, at(1)), lock.reenter(Exclusive, at(2)));
        let (second, third) = (second.expect("it is held"), third.expect("it is held"));
        let handed = lock.hand_over(0, |_| Some(((), 1)));
        assert_eq!(handed, None, "another thread does not get it meanwhile");
        let mut ends = |hold| lock.end(EndedBy::Holder(hold), at(3));
        let early = [ends(second), ends(0)];
        early == [Ended::OthersHold { lost: None, downgraded: false }; 2]
            && matches!(ends(third), Ended::Now(_))
    };
    assert!(ends_with_the_last());
    assert!(!without(&[Mechanism::LastHolderGivesBack], ends_with_the_last));
}

#[test]
fn a_lock_that_was_asked_for_goes_to_no_further_holder_of_its_process() {
    let request = ReadRequest { id: "7".to_owned(), reason: "deploy".to_owned() };
    let goes_on = || {
        let mut lock = held();
        assert!(lock.handle_sign_of_ask(0, at(1)).is_none(), "no holder listens");
        assert!(lock.hear_asks() && !lock.hear_asks());
        assert_eq!(lock.handle_sign_of_ask(0, at(1)), Some(at(1).after(TIMEOUT)));
        assert_eq!(lock.handle_ask_read(0, Vec::new(), at(2)), (Vec::new(), false));
        assert_eq!(lock.asked(), None);
        let news = lock.handle_ask_read(1, vec![request.clone()], at(2));
        assert_eq!(news, (vec![request.clone()], false));
        assert_eq!(lock.asked(), Some(&request));
        let handed = lock.hand_over(0, |_| Some(((), 1))).is_some();
        assert_eq!(lock.join(terms(), 2, at(3)), handed);
        handed
    };
    assert!(!goes_on());
    assert!(without(&[Mechanism::AskedLocksGoToOthers], goes_on));
}

#[test]
fn holders_of_a_lock_that_is_lost_are_not_asked() {
    let request = || vec![ReadRequest { id: "7".to_owned(), reason: String::new() }];
    let mut lock = held();
    lock.hear_asks();
    let over = lock.valid_until();
    assert_eq!(lock.handle_ask_read(0, request(), over), (Vec::new(), false));
    assert!(matches!(lock.end(EndedBy::Loss, over), Ended::Now(_)));
    assert_eq!(lock.handle_sign_of_ask(0, over), None, "no node is read any more");
    let mut ended = held();
    assert!(matches!(ended.end(EndedBy::Holder(0), at(1)), Ended::Now(_)));
    assert!(!ended.hear_asks());
}

#[test]
fn the_timer_comes_to_a_lock_when_a_node_that_did_not_answer_is_to_be_read() {
    let mut lock = held();
    let before = lock.look_at(at(1));
    lock.hear_asks();
    assert!(lock.handle_sign_of_ask(0, at(1)).is_some());
    assert_eq!(lock.look_at(at(1)), before);
    lock.handle_ask_missed(0, at(2));
    assert_eq!(lock.look_at(at(2)), Some(at(1_002)));
    assert_eq!((lock.asks_due(at(1_001)), lock.asks_due(at(1_002))), (vec![], vec![0]));
}

#[test]
fn a_lost_lock_is_not_taken_again() {
    let mut lock = held();
    let over = lock.valid_until();
    let before = Time::from_start(over.since(Time::default()) - Duration::from_millis(1));
    assert!(lock.reenter(Exclusive, before).is_ok());
    assert_eq!(lock.reenter(Exclusive, over), Err(LossReason::Expired));
    assert!(matches!(lock.end(EndedBy::Loss, over), Ended::Now(_)));
    assert_eq!(
        lock.reenter(Exclusive, over),
        Err(LossReason::Expired),
        "also once it is cleared away"
    );
    let is_taken =
        without(&[Mechanism::LostLocksAreNotTakenAgain], || lock.reenter(Exclusive, over).is_ok());
    assert!(is_taken);
}

/// The second hold gets no number from the hand-overs, and an extension for less cuts no other hold.
#[test]
fn a_hold_that_was_taken_again_leaves_the_lease_as_it_is() {
    let mut lock = held();
    let (valid_until, due) = (lock.valid_until(), lock.due(at(1)));
    let second = lock.reenter(Exclusive, at(1)).expect("it is held");
    assert_eq!((lock.valid_until(), lock.due(at(1))), (valid_until, due));
    let mut extension = Driver::extension(TTL / 2);
    extension.go_on(&mut lock, at(1));
    assert_eq!(lock.valid_until(), valid_until);
    lock.end(EndedBy::Holder(second), at(2));
    assert_eq!(lock.hand_over(0, |_| Some(((), 1))), Some(((), 1)), "numbers of hand-overs go on");
}

/// The lock of a holder that took it again as shared, and has given back its exclusive hold.
fn downgraded() -> (Lock, u64) {
    let mut lock = held();
    let reader = lock.reenter(Sharing, at(1)).expect("it is held");
    let left = lock.end(EndedBy::Holder(0), at(2));
    assert_eq!(left, Ended::OthersHold { lost: None, downgraded: true });
    (lock, reader)
}

#[test]
fn a_lock_is_shared_once_its_last_exclusive_holder_has_left_it_or_shares_it() {
    let mut lock = held();
    let second = lock.reenter(Exclusive, at(1)).expect("it is held");
    let reader = lock.reenter(Sharing, at(1)).expect("it is held");
    assert!(!lock.downgrade(second, at(2)), "the first holder still has it for itself");
    assert_eq!(lock.class(), Exclusive);
    assert!(lock.in_queue_until(at(2)).is_some());
    assert!(lock.downgrade(0, at(3)));
    assert!(!lock.downgrade(0, at(3)), "once");
    assert_eq!((lock.class(), lock.in_queue_until(at(3))), (Sharing, None));
    assert!(lock.held_until(at(3)).is_some(), "it is held all the same");
    for holder in [0, second] {
        let left = lock.end(EndedBy::Holder(holder), at(4));
        assert_eq!(left, Ended::OthersHold { lost: None, downgraded: false });
    }
    let Ended::Now(Ending { class, .. }) = lock.end(EndedBy::Holder(reader), at(5)) else {
        panic!("it ends with its last holder")
    };
    assert_eq!(class, Sharing, "as which it is given back");
    assert_eq!(downgraded().0.class(), Sharing);
}

/// The waiters of the lock want it as an exclusive one.
#[test]
fn a_lock_that_was_downgraded_is_handed_to_nobody() {
    let mut lock = held();
    assert!(lock.downgrade(0, at(1)));
    assert_eq!(lock.hand_over(0, |_| Some(((), 1))), None);
}

#[test]
fn the_nodes_are_told_of_a_downgrade_at_once_and_again_until_a_majority_has_confirmed_it() {
    let told = |renewed| {
        let mut lock = held_as(Basis::Majority, Terms { renewed, ..terms() });
        assert!(lock.downgrade(0, at(1)));
        if lock.due(at(1)) != Due::Renewal {
            return false;
        }
        let mut telling = Driver::renewal();
        assert_eq!(telling.go_on(&mut lock, at(1)), asks());
        telling.vote(&[(0, Extended)]);
        telling.go_on(&mut lock, at(300));
        assert!(matches!(lock.due(at(300)), Due::RenewalAt(again) if again < at(1_000)));
        assert_eq!(lock.due(at(1_000)), Due::Renewal);
        let mut telling = Driver::renewal();
        telling.go_on(&mut lock, at(1_000));
        telling.vote(&[(0, Extended), (1, Extended), (2, Extended)]);
        assert_eq!(telling.go_on(&mut lock, at(1_000)), [Told::QuorumReached, SETTLED]);
        assert_ne!(lock.due(at(1_000)), Due::Renewal, "that is done");
        // If the lock is not renewed, its keys live no longer.
        assert_eq!(lock.valid_until() > Time::default().after(TTL), renewed);
        true
    };
    assert!(told(true) && told(false));
    assert!(!without(&[Mechanism::DowngradesAreTold], || told(true)), "the mutation bites");
}

#[test]
fn the_round_that_tells_of_a_downgrade_asks_for_the_shared_lock() {
    let (mut lock, _) = downgraded();
    let ProlongStep::Ask(_, request) = Prolong::<Round>::renewal(3).poll(&mut lock, at(3)) else {
        panic!("it is due")
    };
    assert_eq!(request.class, Sharing);
}

/// Answers to an older round are not the last word on the key.
#[test]
fn nodes_that_an_older_round_was_put_to_are_given_the_lock_back_on() {
    let mut lock = held();
    let mut renewal = Driver::renewal();
    renewal.go_on(&mut lock, at(4_000));
    assert!(lock.downgrade(0, at(4_001)));
    renewal.vote(&[(0, NotOurs), (1, NotOurs), (2, NotOurs)]);
    renewal.go_on(&mut lock, at(4_300));
    assert!(matches!(lock.end(EndedBy::Holder(0), at(5_000)), Ended::Now(_)));
    let cleanups = lock.attempt.borrow_mut().close(1);
    let nodes: Vec<_> = cleanups.iter().map(|cleanup| cleanup.node).collect();
    assert_eq!(nodes, [0, 1, 2]);
}
