use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::super::{Allowance, Basis, Mechanism, Turn, without};
use super::*;

const HELD: Conclusion = Conclusion::Held { remaining: None };

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(1_000 + ms))
}

fn terms() -> Terms {
    let ttl = Duration::from_secs(3);
    Terms { ttl, renewed: true, max_hold: None, allowance: Allowance::FOR_DRIFT }
}

fn lease() -> Lease {
    Lease::new(terms(), Basis::Majority, at(0), at(3_000))
}

/// What is kept with a lease is the lease.
type Queues = LocalQueues<&'static str, &'static str, Rc<RefCell<Lease>>>;

fn queues() -> Queues {
    LocalQueues::new(false)
}

/// A process whose only caller has the lock "a".
fn held(queues: &mut Queues, refused_before: bool, now: Time) -> QueueTicket {
    let ticket = queues.enter(&"a", HoldClass::Exclusive, terms(), false, "holder");
    assert_eq!(queues.look(&"a", ticket, now).0.turn, Turn::Ask);
    let lease = Rc::new(RefCell::new(lease()));
    queues.won(&"a", ticket, refused_before, lease, now);
    queues.leave(&"a", ticket);
    ticket
}

/// What the next caller that wants the lock has to do, whether it is the first one or not.
fn next(queues: &mut Queues, now: Time) -> Turn {
    let ticket = queues.enter(&"a", HoldClass::Exclusive, terms(), false, "next");
    let turn = queues.look(&"a", ticket, now).0.turn;
    queues.leave(&"a", ticket);
    turn
}

#[test]
fn a_caller_leaves_the_lock_to_others_that_a_node_has_told_of() {
    let mut queues = queues();
    let lease = held(&mut queues, false, at(0));
    queues.heard(&"a", 2, at(1));
    assert_eq!((queues.others(&"a", at(1)), queues.others(&"b", at(1))), (2, 0));
    queues.gone(&"a", lease, "owner-1", false, at(2));
    assert_eq!(next(&mut queues, at(2)), Turn::GiveWay(at(10)));
    assert_eq!(queues.last_owner(&"a").as_deref(), Some("owner-1"));
    queues.giving_way_is_over(&"a", true);
    assert_eq!(next(&mut queues, at(3)), Turn::Ask);
}

/// The one that refused it wants the lock again, most likely. Nodes tell of those only that listen already.
#[test]
fn without_giving_way_a_caller_that_was_refused_before_has_the_lock_again_at_once() {
    let next = |refused_before| {
        let mut queues = queues();
        let lease = held(&mut queues, refused_before, at(0));
        queues.gone(&"a", lease, "owner-1", false, at(2));
        next(&mut queues, at(2))
    };
    assert_eq!((next(false), next(true)), (Turn::Ask, Turn::GiveWay(at(10))));
    assert_eq!(without(&[Mechanism::GivesWay], || next(true)), Turn::Ask);
}

#[test]
fn a_lost_lock_is_left_to_nobody() {
    let mut queues = queues();
    let lease = held(&mut queues, true, at(0));
    queues.gone(&"a", lease, "owner-1", true, at(2));
    assert_eq!((next(&mut queues, at(2)), queues.last_owner(&"a")), (Turn::Ask, None));
}

/// Giving way was in vain if nobody has come. A refusal shows that somebody has; too few nodes show nothing.
#[test]
fn only_a_lock_that_is_held_shows_that_others_have_come() {
    let next = |conclusion| {
        let mut queues = queues();
        let lease = held(&mut queues, true, at(0));
        queues.gone(&"a", lease, "owner-1", false, at(1));
        queues.giving_way_is_over(&"a", false);
        queues.concluded(&"a", conclusion);
        let lease = held(&mut queues, false, at(10));
        queues.gone(&"a", lease, "owner-2", false, at(11));
        next(&mut queues, at(11))
    };
    assert_eq!(next(HELD), Turn::GiveWay(at(19)));
    assert_eq!(next(Conclusion::Unreachable), Turn::Ask);
}

/// Threads that come later wait for the next turn of their process, where others are known to wait.
#[test]
fn without_giving_way_a_process_hands_the_lease_on_past_others_that_wait() {
    let chosen = || {
        let mut queues = queues();
        let (mut state, first) = (lease(), held(&mut queues, true, at(0)));
        let waits = |queues: &mut Queues, now| {
            let ticket = queues.enter(&"a", HoldClass::Exclusive, terms(), false, "waits");
            let turn = queues.look(&"a", ticket, now).0.turn;
            assert!(matches!(turn, Turn::Wait(_)), "{turn:?}");
            ticket
        };
        let second = waits(&mut queues, at(1));
        let chosen = queues.hand_over(&"a", first, &mut state, at(1));
        assert_eq!(chosen, Some((second, 1)));
        assert_eq!(queues.look(&"a", second, at(1)).0.turn, Turn::HandedOver);
        let third = waits(&mut queues, at(2));
        let chosen = queues.hand_over(&"a", first, &mut state, at(3));
        chosen.map(|(ticket, _)| ticket == third)
    };
    assert_eq!(chosen(), None);
    assert_eq!(without(&[Mechanism::GivesWay], chosen), Some(true));
}

/// Without local queues, callers of one process do not wait for each other, but for other processes they do.
#[test]
fn callers_that_are_alone_ask_and_give_way_each_for_itself() {
    let mut queues = Queues::new(true);
    let lease = held(&mut queues, true, at(0));
    let [second, third] = ["second", "third"].map(|with| {
        let ticket = queues.enter(&"a", HoldClass::Exclusive, terms(), false, with);
        assert_eq!(queues.look(&"a", ticket, at(1)).0.turn, Turn::Ask);
        ticket
    });
    queues.concluded(&"a", HELD);
    assert_eq!(queues.look(&"a", third, at(1)).0.turn, Turn::Ask);
    assert_eq!(queues.hand_over(&"a", lease, &mut self::lease(), at(1)), None);
    queues.gone(&"a", lease, "owner-1", false, at(2));
    for ticket in [second, third] {
        assert_eq!(queues.look(&"a", ticket, at(2)).0.turn, Turn::GiveWay(at(10)));
        queues.leave(&"a", ticket);
    }
    assert_eq!(queues.len(), 0);
}

#[test]
fn a_queue_is_forgotten_when_nobody_wants_or_holds_the_lock() {
    let mut queues = queues();
    let lease = held(&mut queues, false, at(0));
    assert!(queues.lease(&"a").is_some());
    let ticket = queues.enter(&"a", HoldClass::Exclusive, terms(), false, "waiter");
    assert_eq!(queues.waiter(&"a", ticket), Some(&mut "waiter"));
    let wake = queues.gone(&"a", lease, "owner-1", false, at(1));
    assert_eq!(queues.woken(&"a", wake).collect::<Vec<_>>(), [&"waiter"]);
    assert!(queues.lease(&"a").is_none());
    assert_eq!(queues.len(), 1);
    queues.leave(&"a", ticket);
    assert_eq!(queues.len(), 0);
}

#[test]
fn what_is_known_of_others_is_forgotten_when_it_is_over() {
    let mut queues = LocalQueues::<u64, (), ()>::new(false);
    for key in 0..10_000 {
        // A hundred are known at a time.
        queues.heard(&key, 1, at(10 * key));
        assert!(queues.fairness.len() <= 2 * 100 + 16, "{}", queues.fairness.len());
        assert_eq!(queues.others(&key.saturating_sub(99), at(10 * key)), 1);
    }
}

/// The first caller of a key says of which class its queue is.
#[test]
fn callers_that_may_share_a_lock_are_woken_by_its_grant_and_join_it() {
    let mut queues = queues();
    let enters =
        |queues: &mut Queues, with| queues.enter(&"a", HoldClass::Shared, terms(), false, with);
    let [first, second, third] = ["1", "2", "3"].map(|with| enters(&mut queues, with));
    assert_eq!(queues.look(&"a", first, at(0)).0.turn, Turn::Ask);
    assert!(matches!(queues.look(&"a", second, at(0)).0.turn, Turn::Wait(_)));
    let lease = Rc::new(RefCell::new(lease()));
    let wake = queues.won(&"a", first, false, lease, at(1));
    assert_eq!(queues.woken(&"a", wake).collect::<Vec<_>>(), [&"2", &"3"]);
    for (ticket, sequence) in [(second, 1), (third, 2)] {
        let place = Place { turn: Turn::Joined, is_held: true };
        let joined = Passed { takes: Some(sequence), gives_back: None };
        assert_eq!(queues.look(&"a", ticket, at(2)), (place, joined));
        assert_eq!(queues.leave(&"a", ticket), (None, Wake::Nobody));
    }
    let mut state = self::lease();
    let waits = enters(&mut queues, "4");
    assert_eq!(queues.hand_over(&"a", first, &mut state, at(3)), None);
    assert_eq!(queues.gone(&"a", first, "owner-1", false, at(3)), Wake::One(waits));
    assert_eq!(queues.look(&"a", waits, at(3)).0.turn, Turn::Ask);
    queues.leave(&"a", waits);
    assert_eq!(queues.len(), 0);
}

#[test]
fn a_queue_with_several_leases_ends_with_the_last_of_them() {
    let mut queues = queues();
    let manual = Terms { renewed: false, ..terms() };
    let leases = [terms(), manual].map(|terms| {
        let ticket = queues.enter(&"a", HoldClass::Shared, terms, false, "caller");
        assert_eq!(queues.look(&"a", ticket, at(0)).0.turn, Turn::Ask);
        let lease = Lease::new(terms, Basis::Majority, at(0), at(3_000));
        queues.won(&"a", ticket, false, Rc::new(RefCell::new(lease)), at(0));
        ticket
    });
    queues.gone(&"a", leases[0], "owner-1", false, at(1));
    assert_eq!(queues.len(), 1);
    queues.gone(&"a", leases[0], "owner-1", false, at(1));
    assert_eq!(queues.len(), 1, "it is gone once");
    queues.gone(&"a", leases[1], "owner-2", true, at(2));
    assert_eq!(queues.len(), 0);
}

#[test]
fn callers_that_are_alone_do_not_join_a_lease() {
    let mut queues = Queues::new(true);
    for with in ["1", "2"] {
        let ticket = queues.enter(&"a", HoldClass::Shared, terms(), false, with);
        assert_eq!(queues.look(&"a", ticket, at(0)).0.turn, Turn::Ask);
        queues.won(&"a", ticket, false, Rc::new(RefCell::new(lease())), at(0));
    }
}
