//! The queue of a lock that may have several holders.

use std::cell::RefCell;
use std::rc::Rc;

use super::super::{Allowance, Basis, Renewed, without};
use super::*;

const TTL: Duration = Duration::from_secs(3);
const HELD: Conclusion = Conclusion::Held { remaining: None };

type Queue = LocalQueue<(), Rc<RefCell<Lease>>>;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn terms() -> Terms {
    Terms { ttl: TTL, renewed: true, max_hold: None, allowance: Allowance::FOR_DRIFT }
}

fn manual() -> Terms {
    Terms { renewed: false, ..terms() }
}

fn queue() -> Queue {
    LocalQueue::new(HoldClass::Shared, false)
}

/// A lease that the nodes have granted at `now`, on those terms.
fn lease(terms: Terms, now: Time) -> Rc<RefCell<Lease>> {
    Rc::new(RefCell::new(Lease::new(terms, Basis::Majority, now, now.after(TTL))))
}

/// That caller comes, and looks.
fn comes(queue: &mut Queue, ticket: QueueTicket, terms: Terms, now: Time) -> Turn {
    queue.enter(ticket, terms, false, ());
    turn(queue, ticket, now)
}

fn turn(queue: &mut Queue, ticket: QueueTicket, now: Time) -> Turn {
    let (place, hold) = queue.look(ticket, None, now);
    assert_eq!(place.turn == Turn::Joined, hold.is_some());
    place.turn
}

/// A queue in which 1 has won that lease at the start.
fn held_by_1(lease: Rc<RefCell<Lease>>) -> Queue {
    let mut queue = queue();
    assert_eq!(comes(&mut queue, 1, terms(), at(0)), Turn::Ask);
    assert_eq!(queue.won(1, lease, at(0)), Wake::All);
    queue
}

#[test]
fn a_caller_joins_the_lease_of_its_process_and_leaves_the_queue() {
    let mut queue = held_by_1(lease(terms(), at(0)));
    for (ticket, once) in [(2, false), (3, true), (4, false)] {
        queue.enter(ticket, terms(), once, ());
        let place = Place { turn: Turn::Joined, is_held: true };
        assert_eq!(queue.look(ticket, None, at(ticket)), (place, Some(ticket - 1)));
    }
    assert_eq!(queue.gone(1, false, false, at(9)), Wake::Nobody, "the last of them has left");
    assert!(queue.is_idle());
}

#[test]
fn while_others_elsewhere_have_the_lock_the_first_asks_and_a_grant_wakes_all() {
    let mut queue = queue();
    assert_eq!(comes(&mut queue, 1, terms(), at(0)), Turn::Ask);
    queue.concluded(HELD);
    for ticket in [2, 3] {
        assert_eq!(comes(&mut queue, ticket, terms(), at(0)), Turn::Wait(at(1_000)));
    }
    queue.enter(4, terms(), true, ());
    assert_eq!(turn(&mut queue, 4, at(0)), Turn::Held, "it waits for nobody");
    assert_eq!(queue.won(1, lease(terms(), at(5)), at(5)), Wake::All);
    for ticket in [2, 3, 4] {
        assert_eq!(turn(&mut queue, ticket, at(6)), Turn::Joined);
    }
}

/// Two threads of a process that read the same thing would wait for each other, and for what each of them does.
#[test]
fn without_that_rule_a_caller_waits_for_a_lease_that_it_cannot_join() {
    let turns = || {
        [manual(), Terms { ttl: TTL * 2, ..terms() }, Terms { max_hold: Some(TTL), ..terms() }]
            .map(|terms| comes(&mut held_by_1(lease(self::terms(), at(0))), 2, terms, at(1)))
    };
    assert_eq!(turns(), [Turn::Ask; 3]);
    assert_eq!(without(&[Mechanism::SharersDoNotWait], turns), [Turn::Wait(at(1_001)); 3]);
    // Nor for another caller that asks, or for a lease that is about to end.
    let mut queue = held_by_1(lease(terms(), at(0)));
    assert_eq!(comes(&mut queue, 2, manual(), at(1)), Turn::Ask);
    assert_eq!(comes(&mut queue, 3, manual(), at(1)), Turn::Ask);
    queue.concluded(HELD);
    queue.enter(4, manual(), true, ());
    assert_eq!(turn(&mut queue, 4, at(1)), Turn::Ask, "the nodes know whether it is held");
    assert_eq!(comes(&mut queue, 5, terms(), at(1_501)), Turn::Ask);
}

#[test]
fn a_queue_has_several_leases_and_a_caller_joins_one_that_suits_it() {
    let mut queue = held_by_1(lease(manual(), at(0)));
    assert_eq!(comes(&mut queue, 2, terms(), at(1)), Turn::Ask);
    assert_eq!(queue.won(2, lease(terms(), at(2)), at(2)), Wake::All);
    queue.enter(3, terms(), false, ());
    let (place, hold) = queue.look(3, None, at(3));
    assert_eq!((place.turn, hold), (Turn::Joined, Some(1)), "the second one of that lease");
    assert_eq!(queue.gone(1, false, false, at(4)), Wake::Nobody);
    assert_eq!(comes(&mut queue, 4, terms(), at(5)), Turn::Joined);
    assert_eq!(queue.gone(2, false, false, at(6)), Wake::Nobody);
    assert_eq!(queue.gone(2, false, false, at(6)), Wake::Nobody, "it is gone once");
    assert!(queue.is_idle());
}

#[test]
fn nobody_joins_a_lease_that_is_over_or_in_doubt() {
    let lost = lease(terms(), at(0));
    let mut queue = held_by_1(lost.clone());
    lost.borrow_mut().renewed(Renewed::Unknown, at(10));
    assert_eq!(comes(&mut queue, 2, terms(), at(11)), Turn::Ask);
    queue.leave(2);
    lost.borrow_mut().renewed(Renewed::Gone, at(12));
    // Its holders were not told yet. It is as if there were no lease.
    assert_eq!(comes(&mut queue, 3, terms(), at(13)), Turn::Ask);
    assert!(matches!(comes(&mut queue, 4, terms(), at(13)), Turn::Wait(_)));
    assert_eq!(queue.gone(1, true, false, at(14)), Wake::One(3));
    assert_eq!(queue.won(3, lease(terms(), at(15)), at(15)), Wake::All);
    assert_eq!(turn(&mut queue, 4, at(15)), Turn::Joined);
}

/// Other processes have to get in, so the lease has to be given back some day.
#[test]
fn without_an_end_of_turns_a_lease_is_joined_for_ever() {
    let joined = || {
        let lease = lease(terms(), at(0));
        let mut queue = held_by_1(lease.clone());
        let all = (2..400).take_while(|ticket| {
            lease.borrow_mut().renewed(Renewed::Until(at(3_000 + ticket), Basis::Majority), at(0));
            comes(&mut queue, *ticket, terms(), at(*ticket)) == Turn::Joined
        });
        all.count()
    };
    assert_eq!(joined(), 98, "until 100 ms after the grant");
    assert_eq!(without(&[Mechanism::TurnsEnd], joined), 398);
}

#[test]
fn a_lease_has_as_many_holders_as_there_are_sequences_and_no_more() {
    let mut queue = held_by_1(lease(terms(), at(0)));
    for sequence in 1..=LAST_SEQUENCE {
        queue.enter(sequence + 1, terms(), false, ());
        assert_eq!(queue.look(sequence + 1, None, at(1)).1, Some(sequence));
    }
    let last = LAST_SEQUENCE + 2;
    assert_eq!(comes(&mut queue, last, terms(), at(1)), Turn::Ask);
    queue.won(last, lease(terms(), at(2)), at(2));
    assert_eq!(comes(&mut queue, last + 1, terms(), at(2)), Turn::Joined, "that is another lease");
}

/// Nobody waits for a lease. Whoever waits does so for other processes.
#[test]
fn a_shared_lease_is_handed_to_nobody_and_leaves_no_pause_behind() {
    let mut queue = queue();
    assert_eq!(comes(&mut queue, 1, terms(), at(0)), Turn::Ask);
    assert!(matches!(comes(&mut queue, 2, terms(), at(0)), Turn::Wait(_)));
    let lease = lease(terms(), at(0));
    queue.won(1, lease.clone(), at(0));
    assert_eq!(queue.hand_over(1, &mut lease.borrow_mut(), false, at(500)), None);
    assert_eq!(queue.gone(1, false, false, at(500)), Wake::One(2));
    assert_eq!(turn(&mut queue, 2, at(500)), Turn::Ask);
}
