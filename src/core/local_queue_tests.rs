use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::super::{Allowance, Basis, LossReason, Renewed, without};
use super::*;

const TTL: Duration = Duration::from_secs(3);

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn terms() -> Terms {
    Terms { ttl: TTL, renewed: true, max_hold: None, allowance: Allowance::FOR_DRIFT }
}

/// A lease that was asked for at 0, and that nobody has renewed.
fn lease(terms: Terms) -> Lease {
    Lease::new(terms, Basis::Majority, at(0), at(3_000))
}

/// For queues of one holder at a time whose tests say themselves until when the lock is held.
impl LocalLease for () {
    type Hold = ();

    fn held_until(&self, _: Time) -> Option<Time> {
        None
    }

    fn join(&self, _: Terms, _: u64, _: Time) -> Option<()> {
        None
    }
}

/// A lease without the lock around it. A hold is the sequence number of its holder.
impl LocalLease for Rc<RefCell<Lease>> {
    type Hold = u64;

    fn held_until(&self, now: Time) -> Option<Time> {
        let lease = self.borrow();
        (!lease.remaining(now).is_zero()).then(|| lease.valid_until())
    }

    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<u64> {
        self.borrow_mut().can_be_joined(terms, now).then_some(sequence)
    }
}

fn queue() -> LocalQueue<()> {
    LocalQueue::new(HoldClass::Exclusive, false)
}

/// A queue in which 1 has the lock, and the `others` wait for it.
fn held_by_1(others: &[QueueTicket]) -> LocalQueue<()> {
    let mut queue = queue();
    queue.enter(1, terms(), false, ());
    assert_eq!(queue.turn(1, None, at(0)), Turn::Ask);
    queue.won(1, (), at(0));
    for other in others {
        queue.enter(*other, terms(), false, ());
        assert!(matches!(queue.turn(*other, Some(at(3_000)), at(0)), Turn::Wait(_)));
    }
    queue
}

/// That caller takes the lease that it was handed.
fn takes(queue: &mut LocalQueue<()>, ticket: QueueTicket, now: Time) {
    assert_eq!(queue.turn(ticket, Some(at(3_000)), now), Turn::HandedOver);
}

const HELD: Conclusion = Conclusion::Held { remaining: None };

#[test]
fn the_first_in_the_queue_asks_and_the_others_wait() {
    let mut queue = queue();
    for ticket in [1, 2, 3] {
        queue.enter(ticket, terms(), false, ());
    }
    assert_eq!(queue.turn(1, None, at(0)), Turn::Ask);
    assert_eq!(queue.turn(2, None, at(0)), Turn::Wait(at(1_000)));
    assert_eq!(queue.concluded(HELD), Wake::Nobody);
    assert_eq!(queue.turn(1, None, at(5)), Turn::Ask, "again and again");
    assert_eq!(queue.leave(1), (false, Wake::One(2)), "it has given up");
    assert_eq!(queue.turn(2, None, at(6)), Turn::Ask);
    assert_eq!(queue.leave(3), (false, Wake::Nobody), "nobody waits for that one");
    assert_eq!(queue.leave(2), (false, Wake::Nobody));
    assert!(queue.is_idle());
}

#[test]
fn a_lease_passes_in_the_order_of_the_queue_with_numbers_of_its_own() {
    let mut queue = held_by_1(&[2, 3]);
    let mut lease = lease(terms());
    assert_eq!(queue.hand_over(1, &mut lease, false, at(1)), Some((2, 1)));
    takes(&mut queue, 2, at(1));
    assert_eq!(queue.hand_over(1, &mut lease, false, at(2)), Some((3, 2)));
    takes(&mut queue, 3, at(2));
    assert_eq!(queue.hand_over(1, &mut lease, false, at(3)), None, "nobody waits");
    assert_eq!(queue.gone(1, false, false, at(3)), Wake::Nobody);
    assert!(queue.is_idle());
}

#[test]
fn a_lease_passes_only_to_who_would_have_asked_for_the_same() {
    let other_ttl = Terms { ttl: TTL * 2, ..terms() };
    let manual = Terms { renewed: false, ..terms() };
    for (holder, waiter) in [(terms(), other_ttl), (terms(), manual), (manual, manual)] {
        let mut queue = queue();
        queue.enter(1, holder, false, ());
        queue.won(1, (), at(0));
        queue.enter(2, waiter, false, ());
        assert!(matches!(queue.turn(2, Some(at(3_000)), at(0)), Turn::Wait(_)));
        // Nor does one behind it overtake.
        queue.enter(3, holder, false, ());
        assert!(matches!(queue.turn(3, Some(at(3_000)), at(0)), Turn::Wait(_)));
        assert_eq!(queue.hand_over(1, &mut lease(holder), false, at(1)), None, "{waiter:?}");
        assert_eq!(queue.gone(1, false, false, at(1)), Wake::One(2));
        assert_eq!(queue.turn(2, None, at(1)), Turn::Ask, "at once: the turn is not over");
    }
    // What rests on the first node alone is not passed on either.
    let mut queue = held_by_1(&[2]);
    let mut weak = Lease::new(terms(), Basis::FirstNode, at(0), at(3_000));
    assert_eq!(queue.hand_over(1, &mut weak, false, at(1)), None);
}

#[test]
fn the_longest_hold_counts_anew_for_each_holder() {
    let mut queue = queue();
    let short = Terms { max_hold: Some(Duration::from_millis(60)), ..terms() };
    queue.enter(1, short, false, ());
    queue.won(1, (), at(0));
    let long = Terms { max_hold: Some(Duration::from_millis(1_000)), ..terms() };
    queue.enter(2, long, false, ());
    assert!(matches!(queue.turn(2, Some(at(60)), at(0)), Turn::Wait(_)));
    let mut lease = Lease::new(terms(), Basis::Majority, at(0), at(3_000));
    assert_eq!(queue.hand_over(1, &mut lease, false, at(50)), Some((2, 1)));
    assert_eq!(lease.loss(at(1_049)), None);
    assert_eq!(lease.loss(at(1_050)), Some(LossReason::MaxHold));
}

/// With less, the next holder would get a lock that is about to end.
#[test]
fn without_the_minimum_of_validity_a_lock_is_handed_out_at_its_end() {
    let left = || {
        let terms = terms();
        let mut lease = lease(terms);
        lease.hand_over(terms, at(2_999)).then(|| lease.remaining(at(2_999)))
    };
    assert_eq!(left(), None);
    assert_eq!(without(&[Mechanism::HandOverNeedsValidity], left), Some(Duration::from_millis(1)));
    let mut half = lease(terms());
    assert!(!half.hand_over(terms(), at(1_501)));
    assert!(half.hand_over(terms(), at(1_500)));
}

/// Somebody else may have a lock that was lost, whatever the clock says of it.
#[test]
fn without_the_look_at_the_state_a_lost_lock_is_handed_over() {
    let valid = |renewed| {
        let terms = terms();
        let mut lease = lease(terms);
        lease.renewed(renewed, at(1_000));
        lease.hand_over(terms, at(1_001)) && !lease.remaining(at(1_001)).is_zero()
    };
    assert!(!valid(Renewed::Gone));
    assert!(without(&[Mechanism::HandOverOnlyWhileHeld], || valid(Renewed::Gone)), "two have it");
    assert!(!valid(Renewed::Unknown), "the nodes are in trouble");
    assert!(valid(Renewed::Until(at(3_900), Basis::Majority)));
}

/// A caller that was handed the lock and leaves at the same instant must not take it along.
#[test]
fn without_passing_on_the_lock_goes_with_the_one_who_leaves() {
    let run = || {
        let mut queue = held_by_1(&[2, 3]);
        let mut lease = lease(terms());
        assert_eq!(queue.hand_over(1, &mut lease, false, at(1)), Some((2, 1)));
        let (gives_back, _) = queue.leave(2);
        gives_back.then(|| queue.hand_over(1, &mut lease, false, at(1)))
    };
    assert_eq!(run(), Some(Some((3, 2))));
    assert_eq!(
        without(&[Mechanism::ChosenWhoLeavesPassesOn], run),
        None,
        "nobody has it, and nobody gives it back"
    );
}

/// Other processes have to get in.
#[test]
fn without_an_end_of_turns_a_process_never_lets_go() {
    let hand_overs = || {
        let mut queue = held_by_1(&[]);
        let mut lease = lease(terms());
        let all = (2..400).take_while(|ticket| {
            let now = at(*ticket);
            queue.enter(*ticket, terms(), false, ());
            assert!(matches!(queue.turn(*ticket, Some(at(3_000)), now), Turn::Wait(_)));
            let handed = queue.hand_over(1, &mut lease, false, now).is_some();
            if handed {
                takes(&mut queue, *ticket, now);
            }
            handed
        });
        (all.count(), queue)
    };
    let (count, mut queue) = hand_overs();
    assert_eq!(count, 100, "from 2 ms on, for 100 ms");
    assert_eq!(queue.gone(1, false, false, at(102)), Wake::One(102));
    assert_eq!(queue.turn(102, None, at(102)), Turn::Wait(at(106)), "others come first");
    queue.enter(900, terms(), true, ());
    assert_eq!(queue.turn(900, None, at(102)), Turn::Held, "nor does a try barge in");
    assert_eq!(queue.turn(102, None, at(106)), Turn::Ask);
    assert_eq!(without(&[Mechanism::TurnsEnd], hand_overs).0, 398);
}

#[test]
fn a_lease_has_as_many_tokens_as_there_are_sequences_and_no_more() {
    let mut queue = held_by_1(&[]);
    let mut lease = lease(terms());
    for ticket in 2.. {
        queue.enter(ticket, terms(), false, ());
        assert!(matches!(queue.turn(ticket, Some(at(3_000)), at(1)), Turn::Wait(_)));
        match queue.hand_over(1, &mut lease, false, at(1)) {
            Some((chosen, sequence)) => {
                assert_eq!((chosen, sequence), (ticket, ticket - 1));
                takes(&mut queue, ticket, at(1));
            }
            None => {
                assert_eq!(ticket - 2, LAST_SEQUENCE);
                return;
            }
        }
    }
}

/// A leaked guard, whose lock was lost, blocks nobody, even if nobody was told of the loss.
#[test]
fn the_first_in_the_queue_asks_as_soon_as_the_lease_is_over() {
    let mut queue = held_by_1(&[2]);
    assert_eq!(queue.turn(2, Some(at(3_000)), at(2_500)), Turn::Wait(at(3_000)));
    assert_eq!(queue.turn(2, Some(at(3_000)), at(3_000)), Turn::Ask);
    assert_eq!(queue.gone(1, true, false, at(3_000)), Wake::One(2));
    assert_eq!(queue.turn(2, None, at(3_000)), Turn::Ask);
    queue.won(2, (), at(0));
    assert_eq!(queue.gone(1, true, false, at(3_002)), Wake::Nobody, "that is another lease");
    assert!(!queue.is_idle());
}

#[test]
fn one_try_waits_for_nobody_and_overtakes_nobody() {
    let mut queue = held_by_1(&[2]);
    queue.enter(3, terms(), true, ());
    assert_eq!(queue.turn(3, Some(at(3_000)), at(1)), Turn::Held);
    assert_eq!(queue.turn(3, None, at(1)), Turn::Held, "2 is before it");
    queue.leave(3);
    queue.leave(2);
    queue.enter(4, terms(), true, ());
    assert_eq!(queue.turn(4, None, at(1)), Turn::Ask, "the holder does not hold it any more");
}

/// Each call reports what it sees, in its own time: no quorum is no queue.
#[test]
fn while_the_lock_cannot_be_had_everybody_asks() {
    let mut queue = queue();
    for ticket in [1, 2] {
        queue.enter(ticket, terms(), false, ());
    }
    queue.enter(3, terms(), true, ());
    assert_eq!(queue.turn(1, None, at(0)), Turn::Ask);
    assert!(matches!(queue.turn(2, None, at(0)), Turn::Wait(_)));
    assert_eq!(queue.turn(3, None, at(0)), Turn::Ask, "nobody knows yet what 1 will see");
    assert_eq!(queue.concluded(Conclusion::Unreachable), Wake::All);
    assert_eq!(queue.concluded(Conclusion::Unreachable), Wake::Nobody, "they know");
    assert_eq!(queue.turn(2, None, at(1)), Turn::Ask);
    assert_eq!(queue.concluded(HELD), Wake::Nobody);
    assert!(matches!(queue.turn(2, None, at(2)), Turn::Wait(_)), "back into the queue");
    assert_eq!(queue.turn(3, None, at(2)), Turn::Held);
}

#[test]
fn a_caller_that_was_handed_a_lock_that_was_lost_since_keeps_its_place() {
    let handed_to_2 = || {
        let mut queue = held_by_1(&[2, 3]);
        let handed = queue.hand_over(1, &mut lease(terms()), false, at(1));
        assert_eq!(handed, Some((2, 1)));
        queue
    };
    let mut queue = handed_to_2();
    queue.gone(1, true, false, at(2));
    assert_eq!(queue.turn(2, None, at(2)), Turn::Ask);
    assert!(matches!(queue.turn(3, None, at(2)), Turn::Wait(_)));
    // By the clock; nobody was told of the loss yet.
    assert_eq!(handed_to_2().turn(2, Some(at(2)), at(2)), Turn::Ask);
    // Another caller has the lock by another lease since.
    let mut queue = handed_to_2();
    queue.won(3, (), at(0));
    assert_eq!(queue.turn(2, Some(at(4_000)), at(2)), Turn::Wait(at(1_002)));
}

/// Other processes come first, except for a caller that is to be told at once.
#[test]
fn the_first_in_the_queue_gives_way_and_one_try_does_not() {
    let mut fairness = Fairness::new();
    fairness.heard(1, at(0));
    fairness.given_back("owner", at(0));
    for (once, turn) in [(false, Turn::GiveWay(at(8))), (true, Turn::Ask)] {
        let mut queue = queue();
        queue.enter(1, terms(), once, ());
        let place = Place { turn, is_held: false };
        assert_eq!(queue.look(1, Some(&fairness), at(1)), (place, None));
    }
}

/// A process with many threads is one among others, and all of them have been waiting.
#[test]
fn where_others_wait_each_caller_in_the_queue_has_it_once() {
    let mut queue = held_by_1(&[2, 3]);
    let mut lease = lease(terms());
    let comes = |queue: &mut LocalQueue<()>, ticket, now| {
        queue.enter(ticket, terms(), false, ());
        assert!(matches!(queue.turn(ticket, Some(at(3_000)), now), Turn::Wait(_)));
    };
    for (ticket, now) in [(2, at(1)), (3, at(2)), (4, at(2))] {
        let handed = queue.hand_over(1, &mut lease, true, now);
        assert_eq!(handed, Some((ticket, ticket - 1)), "the way to others takes longer than 1 ms");
        takes(&mut queue, ticket, now);
        comes(&mut queue, ticket + 2, now);
    }
    assert_eq!(queue.hand_over(1, &mut lease, true, at(3)), None, "5 has come since it began");
    assert_eq!(queue.gone(1, false, true, at(3)), Wake::One(5));
    assert_eq!(queue.turn(5, None, at(3)), Turn::Ask, "whether to give way is asked elsewhere");
}
