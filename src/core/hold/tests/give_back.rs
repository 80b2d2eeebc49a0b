use std::cell::RefCell;
use std::rc::Rc;

use super::super::super::base::{Allowance, without};
use super::super::super::link::Via;
use super::super::super::vote::{Ballot, Grant, Quorum, Vote};
use super::super::{ReadRequest, Schedule, Terms};
use super::*;

use Answers::{Counted, OfOthers, Unheard};
use GiveBackStep::{
    AwaitRelease, Done, HandOver, Leave, LookAtLease, ReportLoss, SendReleases, TellDowngrade,
    TellGivenBack, TellLoss, TellOfOthers, TellQueue,
};

const TTL: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_millis(200);
const STOOD_STILL: LossReason = LossReason::ClockStoodStill;

type Lock = HeldLock<Rc<RefCell<Attempt>>, Rc<RefCell<Extension>>>;

/// A lock that `holders` hold.
fn held_by(holders: u64) -> Lock {
    let (start, all) = (Time::default(), Allowance::FOR_DRIFT);
    let mut attempt = Attempt::new(3, start, start.after(TIMEOUT), TTL, all);
    for node in 0..3 {
        assert!(attempt.sending(node, Via::unfenced(1), start));
        attempt.vote(node, Vote::Granted(1));
    }
    let grant = Grant {
        valid_until: all.valid_until(start, start, TTL),
        number: 1,
        basis: Basis::Majority,
        quorum: Quorum::Reached,
        started: start,
        known_at: start,
        refused_before: false,
    };
    let terms = Terms::renewed(TTL, all);
    let mut lock = HeldLock::new(
        Rc::new(RefCell::new(attempt)),
        HoldClass::Exclusive,
        terms,
        &grant,
        Schedule::default(),
        3,
        TIMEOUT,
    );
    assert!((1..holders).all(|holder| lock.join(terms, holder, start)));
    lock
}

/// A lock that is lost, while no thread has seen that.
fn lost() -> Lock {
    let mut lock = held_by(1);
    lock.handle_suspended();
    lock
}

/// A lock that is lost, and the thread that has seen that is about to tell the holders.
fn being_lost() -> Lock {
    let mut lock = lost();
    assert!(matches!(GiveBack::lost().leave(&mut lock, Time::default()), Ended::Now(_)));
    lock
}

/// The steps of the driver about `lock`. No waiter wants the lease, unless it `is_handed_over`. The nodes' answers
/// show `result`.
fn steps_where(
    mut machine: GiveBack,
    lock: &mut Lock,
    is_handed_over: bool,
    result: ReleaseResult,
) -> Vec<GiveBackStep> {
    let mut steps = Vec::new();
    loop {
        let step = machine.poll();
        steps.push(step);
        match step {
            HandOver => machine.handle_handed_over(is_handed_over),
            Leave => _ = machine.leave(lock, Time::default()),
            AwaitRelease(_) => machine.handle_released(result),
            TellLoss(_) => _ = machine.tell_loss(lock, |_| true),
            Done(_) => return steps,
            TellDowngrade | LookAtLease | SendReleases(_) => {}
            TellQueue { .. } | TellOfOthers | TellGivenBack | ReportLoss(_) => {}
        }
    }
}

fn steps(machine: GiveBack, lock: &mut Lock) -> Vec<GiveBackStep> {
    steps_where(machine, lock, false, ReleaseResult::Released)
}

const fn releases(answers: Answers) -> GiveBackStep {
    SendReleases(Releases { longest_ttl: TTL, kept: None, class: HoldClass::Exclusive, answers })
}

const GONE: GiveBackStep = TellQueue { lost: false };
const GONE_LOST: GiveBackStep = TellQueue { lost: true };
const SETTLED: GiveBackStep = Done(GivenBack::Settled);
const LOST: GiveBackStep = Done(GivenBack::Lost(STOOD_STILL));

/// The lease comes first, since the next holder may hold it for a shorter time. The holder comes last: dropping the
/// objects that its callbacks own may run any code.
#[test]
fn a_lease_that_a_waiter_gets_is_looked_at_again_and_no_node_hears_of_it() {
    for machine in [GiveBack::dropped(0), GiveBack::unlocked(0)] {
        let steps = steps_where(machine, &mut held_by(1), true, ReleaseResult::Released);
        assert_eq!(steps, [HandOver, LookAtLease, TellGivenBack, SETTLED]);
    }
}

/// The next caller asks the same nodes over the same connections, so the queue is told after the releases.
#[test]
fn the_releases_come_before_the_queue_and_the_holder_comes_last() {
    let dropped = steps(GiveBack::dropped(0), &mut held_by(1));
    assert_eq!(dropped, [HandOver, Leave, releases(OfOthers), GONE, TellGivenBack, SETTLED]);
    let unlocked = steps(GiveBack::unlocked(0), &mut held_by(1));
    let (sent, wait) = (releases(Counted(Basis::Majority)), AwaitRelease(TIMEOUT));
    assert_eq!(unlocked, [HandOver, Leave, sent, GONE, wait, TellGivenBack, SETTLED]);
}

/// The queue hears of the others before it wakes the next caller of the process: it leaves the lock to them for a
/// moment.
#[test]
fn the_queue_hears_of_others_if_the_lock_was_asked_for_and_is_not_lost() {
    let asked_for = || {
        let mut lock = held_by(1);
        lock.hear_asks();
        let request = ReadRequest { id: "7".to_owned(), reason: String::new() };
        lock.handle_ask_read(0, vec![request], Time::default());
        lock
    };
    let dropped = || steps(GiveBack::dropped(0), &mut asked_for());
    let sent = releases(OfOthers);
    assert_eq!(dropped(), [HandOver, Leave, sent, TellOfOthers, GONE, TellGivenBack, SETTLED]);
    let off = without(&[Mechanism::AskedLocksGoToOthers], dropped);
    assert_eq!(off, [HandOver, Leave, sent, GONE, TellGivenBack, SETTLED]);
}

fn unlocked_with(result: ReleaseResult) -> Vec<GiveBackStep> {
    let steps = steps_where(GiveBack::unlocked(0), &mut held_by(1), false, result);
    steps.into_iter().skip(4).collect()
}

#[test]
fn an_unlock_says_what_the_nodes_answers_show() {
    let wait = AwaitRelease(TIMEOUT);
    let (told, gone) = (TellLoss(LossReason::KeysGone), ReportLoss(LossReason::KeysGone));
    let was_lost = [wait, told, gone, Done(GivenBack::WasLost)];
    assert_eq!(unlocked_with(ReleaseResult::WasLost), was_lost);
    let unconfirmed = [wait, TellGivenBack, Done(GivenBack::Unconfirmed)];
    assert_eq!(unlocked_with(ReleaseResult::Unconfirmed), unconfirmed);
}

#[test]
fn a_holder_who_is_told_before_the_verdict_gets_no_message_about_the_loss() {
    let is_told_before = || {
        let steps = unlocked_with(ReleaseResult::WasLost);
        let verdict = steps.iter().position(|step| matches!(step, AwaitRelease(_)));
        steps[..verdict.expect("it waits")].contains(&TellGivenBack)
    };
    assert!(!is_told_before());
    assert!(without(&[Mechanism::NoticesAwaitTheVerdict], is_told_before));
}

#[test]
fn a_holder_that_leaves_others_sends_nothing() {
    for machine in [GiveBack::dropped, GiveBack::unlocked] {
        let mut lock = held_by(3);
        assert_eq!(steps(machine(1), &mut lock), [HandOver, Leave, TellGivenBack, SETTLED]);
        lock.handle_suspended();
        let told = [HandOver, Leave, TellLoss(STOOD_STILL), ReportLoss(STOOD_STILL), LOST];
        assert_eq!(steps(machine(0), &mut lock), told);
        assert!(!lock.has_ended());
        let last = steps(machine(2), &mut lock);
        assert!(!last.contains(&ReportLoss(STOOD_STILL)), "there is one event for each lock");
    }
}

/// The report comes last, since a subscriber of the event may panic.
#[test]
fn a_holder_that_is_the_first_to_see_the_loss_clears_away_before_it_is_told() {
    for machine in [GiveBack::dropped(0), GiveBack::unlocked(0)] {
        let steps = steps(machine, &mut lost());
        let told = [TellLoss(STOOD_STILL), ReportLoss(STOOD_STILL), LOST];
        assert_eq!(steps[..4], [HandOver, Leave, releases(OfOthers), GONE_LOST]);
        assert_eq!(steps[4..], told);
    }
}

/// The process may end as soon as `unlock` returns.
#[test]
fn an_unlock_sends_the_releases_of_a_lock_whose_loss_another_thread_is_about_to_tell() {
    let told = [TellLoss(STOOD_STILL), ReportLoss(STOOD_STILL), LOST];
    let unlocked = steps(GiveBack::unlocked(0), &mut being_lost());
    assert_eq!(unlocked[..4], [HandOver, Leave, releases(OfOthers), GONE_LOST]);
    assert_eq!(unlocked[4..], told);
    let dropped = steps(GiveBack::dropped(0), &mut being_lost());
    assert_eq!(dropped[..2], [HandOver, Leave]);
    assert_eq!(dropped[2..], told, "that thread sends them");
}

/// A holder that still works must hear of the loss first.
#[test]
fn the_holders_of_a_lost_lock_are_told_before_anything_is_sent() {
    let mut lock = held_by(3);
    lock.handle_suspended();
    let steps_of_loss = steps(GiveBack::lost(), &mut lock);
    let (told, reported) = (TellLoss(STOOD_STILL), ReportLoss(STOOD_STILL));
    assert_eq!(steps_of_loss, [Leave, told, releases(Unheard), GONE_LOST, reported, LOST]);
    assert_eq!(steps(GiveBack::lost(), &mut lock), [Leave, SETTLED], "it is lost once");
}

/// Returns the holders that are told of the loss, each of them once.
fn told_of_the_loss(
    mut machine: GiveBack,
    lock: &mut Lock,
    is_new: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let mut told = Vec::new();
    loop {
        match machine.poll() {
            HandOver => machine.handle_handed_over(false),
            Leave => _ = machine.leave(lock, Time::default()),
            TellLoss(_) => {
                let tell = |holder| {
                    told.push(holder);
                    is_new(holder)
                };
                machine.tell_loss(lock, tell);
            }
            Done(_) => return told,
            _ => {}
        }
    }
}

#[test]
fn all_holders_are_told_of_a_loss_and_one_that_leaves_tells_no_other() {
    let lost = || {
        let mut lock = held_by(3);
        lock.handle_suspended();
        lock
    };
    assert_eq!(told_of_the_loss(GiveBack::lost(), &mut lost(), |_| true), [0, 1, 2]);
    let mut lock = lost();
    assert_eq!(told_of_the_loss(GiveBack::unlocked(1), &mut lock, |_| true), [1]);
    assert_eq!(told_of_the_loss(GiveBack::lost(), &mut lock, |_| true), [0, 2]);
    let off = [Mechanism::AllHoldersHearOfLosses];
    assert_eq!(without(&off, || told_of_the_loss(GiveBack::lost(), &mut lost(), |_| true)), [0]);
}

#[test]
fn a_loss_is_one_event_for_the_first_holder_that_is_told() {
    let mut lock = held_by(2);
    lock.handle_suspended();
    let mut told = 0;
    let mut tell = |_| {
        told += 1;
        told == 2
    };
    assert!(lock.tell_loss(EndedBy::Loss, &mut tell), "the second holder did not know");
    assert!(!lock.tell_loss(EndedBy::Loss, |_| true));
    let mut unheard = held_by(1);
    assert!(!unheard.tell_loss(EndedBy::Loss, |_| false), "nobody was told");
    assert!(unheard.tell_loss(EndedBy::Loss, |_| true));
}

#[test]
fn what_has_been_given_back_is_not_given_back_again() {
    let mut lock = held_by(1);
    steps(GiveBack::unlocked(0), &mut lock);
    assert_eq!(steps(GiveBack::dropped(0), &mut lock), [HandOver, Leave, SETTLED]);
    assert_eq!(steps(GiveBack::lost(), &mut lock), [Leave, SETTLED]);
}

/// The holder had the lock for itself alone, and reads it from now on. The nodes and the waiters of this process hear
/// of that before the holder goes on.
#[test]
fn a_holder_that_leaves_others_who_share_the_lock_has_that_told() {
    let mut lock = held_by(1);
    let reader = lock.reenter(HoldClass::Shared, Time::default()).expect("it is held");
    let left = steps(GiveBack::unlocked(0), &mut lock);
    let told = [HandOver, Leave, TellDowngrade, LookAtLease, TellGivenBack];
    assert_eq!(left, [told.as_slice(), &[Done(GivenBack::Settled)]].concat());
    let last = steps(GiveBack::dropped(reader), &mut lock);
    let given_back = |step: &GiveBackStep| match step {
        SendReleases(releases) => Some(releases.class),
        _ => None,
    };
    assert_eq!(last.iter().find_map(given_back), Some(HoldClass::Shared));
}
