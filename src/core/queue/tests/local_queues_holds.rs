use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::super::super::base::{Allowance, Basis, Mechanism, without};
use super::super::super::hold::{LossReason, Schedule};
use super::*;

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(1_000 + ms))
}

fn terms() -> Terms {
    let ttl = Duration::from_secs(3);
    Terms::renewed(ttl, Allowance::FOR_DRIFT)
}

/// A lease with the end of its validity. A hold has the holder's name.
#[derive(Clone)]
struct Until(Rc<Cell<Time>>);

impl LocalLease for Until {
    type Hold = &'static str;
    type Thread = u32;

    fn held_until(&self, now: Time) -> Option<Time> {
        Some(self.0.get()).filter(|until| now < *until)
    }

    fn join(&self, _: Terms, _: u64, now: Time) -> Option<&'static str> {
        self.held_until(now).map(|_| "joined")
    }

    fn reenter(&self, _: u64, _: HoldClass, now: Time) -> Result<&'static str, LossReason> {
        self.held_until(now).map(|_| "again").ok_or(LossReason::Expired)
    }
}

/// A caller of that thread that wants the lock exclusively.
fn of(thread: u32) -> OfThread<'static, &'static str, u32> {
    OfThread { thread, lock: &"a", class: HoldClass::Exclusive }
}

type Queues = LocalQueues<&'static str, (), Until>;

/// A queue in which the first of two waiters was just handed the lease; and the lease, as the queue has it.
struct Handed {
    queues: Queues,
    lease: Until,
    holder: QueueTicket,
    state: Lease,
    chosen: QueueTicket,
    next: QueueTicket,
}

fn handed() -> Handed {
    let mut queues = Queues::new(false);
    let enter = |queues: &mut Queues| {
        let ticket = queues.enter(&"a", HoldClass::Exclusive, Askers::First, terms(), false, ());
        queues.look(&"a", ticket, None, at(0));
        ticket
    };
    let (holder, lease) = (enter(&mut queues), Until(Rc::new(Cell::new(at(3_000)))));
    queues.won(&"a", holder, false, lease.clone(), at(0));
    queues.leave(&"a", holder);
    let (chosen, next) = (enter(&mut queues), enter(&mut queues));
    let mut state = Lease::new(terms(), Basis::Majority, at(0), at(3_000), Schedule::default());
    assert_eq!(queues.hand_over(&"a", holder, &mut state, at(1)), Some((chosen, 1)));
    assert_eq!(queues.handed(&"a", chosen, "chosen"), None);
    Handed { queues, lease, holder, state, chosen, next }
}

#[test]
fn a_caller_that_was_handed_the_lease_takes_it_once() {
    let Handed { mut queues, chosen, .. } = handed();
    let (place, passed) = queues.look(&"a", chosen, None, at(2));
    assert_eq!(
        (place.turn, passed.takes, passed.gives_back),
        (Turn::HandedOver, Some("chosen"), None)
    );
    assert_eq!(queues.leave(&"a", chosen), (None, Wake::Nobody));
}

/// The lease's keys are still on the nodes, where this caller is about to ask.
#[test]
fn a_lease_that_was_handed_over_and_is_over_is_given_back_before_the_nodes_are_asked() {
    let Handed { mut queues, lease, chosen, .. } = handed();
    lease.0.set(at(1));
    let (place, passed) = queues.look(&"a", chosen, None, at(2));
    assert_eq!((place.turn, passed.takes, passed.gives_back), (Turn::Ask, None, Some("chosen")));
    let (_, again) = queues.look(&"a", chosen, None, at(2));
    assert_eq!((again.takes, again.gives_back), (None, None), "it is given back once");
}

#[test]
fn a_caller_that_was_handed_the_lease_and_leaves_gives_it_back_to_the_next() {
    let Handed { mut queues, holder, mut state, chosen, next, .. } = handed();
    assert_eq!(queues.leave(&"a", chosen), (Some("chosen"), Wake::One(next)));
    assert_eq!(queues.hand_over(&"a", holder, &mut state, at(2)), Some((next, 2)));
    assert_eq!(queues.handed(&"a", chosen, "gone"), Some("gone"), "it is not in the queue");
    let taken_along = without(&[Mechanism::ChosenWhoLeavesPassesOn], || {
        let Handed { mut queues, chosen, .. } = handed();
        queues.leave(&"a", chosen).0.is_none()
    });
    assert!(taken_along, "the mutation bites");
}

/// The queue itself forgets a lease that is lost. The thread that has a guard of it is told nevertheless.
#[test]
fn a_thread_takes_its_lock_again_before_all_waiters_and_is_told_of_a_loss() {
    let Handed { mut queues, lease, holder, chosen, .. } = handed();
    queues.look(&"a", chosen, Some(of(1)), at(2));
    queues.took(of(1), lease.clone(), 1);
    let look = |queues: &mut Queues, thread, now| {
        let ticket = queues.enter(&"a", HoldClass::Exclusive, Askers::First, terms(), false, ());
        let (place, passed) = queues.look(&"a", ticket, thread, now);
        queues.leave(&"a", ticket);
        (place.turn, passed.takes)
    };
    assert_eq!(look(&mut queues, Some(of(1)), at(3)), (Turn::Reentered, Some("again")));
    assert!(matches!(look(&mut queues, Some(of(2)), at(3)), (Turn::Wait(_), None)));
    assert!(matches!(look(&mut queues, None, at(3)), (Turn::Wait(_), None)));
    lease.0.set(at(4));
    queues.gone(&"a", holder, "owner", true, at(5));
    assert_eq!(look(&mut queues, Some(of(1)), at(5)), (Turn::Lost(LossReason::Expired), None));
    assert!(queues.tidy(at(5_000)), "the thread has a guard");
    assert_eq!(queues.guards(of(1)), 1);
    queues.left(of(1));
    assert!(matches!(look(&mut queues, Some(of(1)), at(5)), (Turn::Ask | Turn::Wait(_), None)));
}

#[test]
fn a_caller_that_may_share_the_lease_takes_the_hold_with_which_it_joins() {
    let mut queues = Queues::new(false);
    let mut enter = || queues.enter(&"a", HoldClass::Shared, Askers::First, terms(), false, ());
    let (holder, second) = (enter(), enter());
    let lease = Until(Rc::new(Cell::new(at(3_000))));
    queues.won(&"a", holder, false, lease, at(0));
    let (place, passed) = queues.look(&"a", second, None, at(1));
    assert_eq!((place.turn, passed.takes, passed.gives_back), (Turn::Joined, Some("joined"), None));
}
