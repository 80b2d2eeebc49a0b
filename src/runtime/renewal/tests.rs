use crossbeam_channel::{Receiver, Sender, bounded};

use super::*;
use crate::Quorlock;
use crate::core::acquire::Patience;
use crate::core::base::HoldClass;
use crate::core::hold::LossReason;
use crate::embedded::Nodes;
use crate::process::ThreadNumber;
use crate::runtime::call;
use crate::runtime::held::LocalWaiters;
use crate::runtime::held::tests::{hold_before, wanted};
use crate::runtime::hold::Hold;
use crate::runtime::holder::HoldState;

const LIMIT: Duration = Duration::from_secs(10);
/// Long enough that no renewal is due before a test is over.
const TTL: Duration = Duration::from_secs(600);

/// The threads of the process that want a lock. They count the holders that were told by the time its releases are under way.
struct CountTold {
    holders: Receiver<Vec<Receiver<LossReason>>>,
    told: Sender<usize>,
}

impl LocalWaiters for CountTold {
    fn hand_over(&self, _: &Arc<Held>, _: &Arc<HoldState>) -> bool {
        false
    }

    fn gone(&self, _: &str, _: bool) {
        let holders = self.holders.recv_timeout(LIMIT).expect("the test has handed them in");
        let told = holders.iter().filter(|lost| !lost.is_empty()).count();
        self.told.send(told).expect("the test waits for it");
    }

    fn downgraded(&self) {}

    fn left(&self, _: ThreadNumber, _: HoldClass) {}

    fn guard_downgraded(&self, _: ThreadNumber) {}

    fn heard(&self, _: u32) {}
}

fn entries(locks: &Quorlock) -> DueEntries<Held> {
    locks.coordinator().timetable().all()
}

fn renewals(locks: &Quorlock) -> Renewals {
    Renewals::new(Arc::downgrade(locks.coordinator().state()))
}

/// With a thousand locks lost together, releasing their keys takes as long as telling their holders, and a holder that still
/// works cannot wait.
#[test]
fn all_holders_are_told_of_a_loss_before_anything_is_given_back() {
    const LOCKS: usize = 20;
    let (locks, _nodes) = Quorlock::embedded(3).expect("ports are free");
    let (hand_in, holders) = bounded(LOCKS);
    let (told, is_told) = bounded(LOCKS);
    let waiters = Arc::new(CountTold { holders, told });
    let holds: Vec<_> = (0..LOCKS)
        .map(|i| {
            let hold = hold_before(&locks, &wanted(&format!("orders/{i}"), TTL), waiters.clone());
            hold.held().enter();
            hold
        })
        .collect();
    for _ in 0..LOCKS {
        let receivers = holds.iter().map(|hold| hold.notice.receiver().clone()).collect();
        hand_in.send(receivers).expect("there is room");
    }
    let due = entries(&locks);
    assert_eq!(due.len(), LOCKS, "nothing was due so far");
    holds.iter().for_each(|hold| hold.held().suspend());
    renewals(&locks).check(due);
    let told: Vec<_> = is_told.try_iter().collect();
    assert_eq!(told, [LOCKS; LOCKS]);
}

/// Waiters that panic when the lock is released, as a subscriber of an event may.
struct Panics(Sender<()>);

impl LocalWaiters for Panics {
    fn hand_over(&self, _: &Arc<Held>, _: &Arc<HoldState>) -> bool {
        false
    }

    fn gone(&self, _: &str, _: bool) {
        self.0.send(()).expect("the test counts them");
        std::panic::resume_unwind(Box::new("in a subscriber"));
    }

    fn downgraded(&self) {}

    fn left(&self, _: ThreadNumber, _: HoldClass) {}

    fn guard_downgraded(&self, _: ThreadNumber) {}

    fn heard(&self, _: u32) {}
}

/// A panic would end the timer, and no lock of the client would be renewed any more.
#[test]
fn a_panic_while_a_lost_lock_is_given_back_ends_no_timer() {
    const LOCKS: usize = 3;
    let (locks, _nodes) = Quorlock::embedded(3).expect("ports are free");
    let (given_back, are_given_back) = bounded(LOCKS);
    let waiters = Arc::new(Panics(given_back));
    let holds: Vec<_> = (0..LOCKS)
        .map(|i| {
            let hold = hold_before(&locks, &wanted(&format!("orders/{i}"), TTL), waiters.clone());
            hold.held().enter();
            hold
        })
        .collect();
    let due = entries(&locks);
    holds.iter().for_each(|hold| hold.held().suspend());
    renewals(&locks).check(due);
    assert_eq!(are_given_back.try_iter().count(), LOCKS, "each of them, behind the first panic");
}

fn hold(locks: &Quorlock, i: usize) -> Hold {
    let wanted = wanted(&format!("orders/{i}"), TTL);
    let hold = call::acquire(locks.coordinator(), &wanted, Patience::Forever, None);
    hold.expect("nobody else wants it")
}

/// A lock whose renewal waits for a place among those under way is still reported as lost in time, and not renewed twice.
#[test]
fn no_more_renewals_than_the_bound_are_on_their_way_and_the_others_are_watched() {
    const MORE: usize = 10;
    let nodes = Nodes::start(1).expect("a port is free");
    // Missing answers are awaited for as long as the test takes on a busy machine.
    let builder = Quorlock::builder().nodes(nodes.urls()).node_timeout(LIMIT).ttl(LIMIT * 3);
    let locks = builder.max_ttl(TTL).build().expect("the settings are valid");
    locks.admit().expect("the node is there");
    let holds: Vec<_> = (0..MOST_UNDER_WAY + MORE).map(|i| hold(&locks, i)).collect();
    let due = entries(&locks);
    assert_eq!(due.len(), holds.len(), "nothing was due so far");
    // Silent, so that none of the renewals ends at once.
    nodes[0].hang();
    for hold in &holds {
        hold.held().make_due();
    }
    let mut renewals = renewals(&locks);
    renewals.check(due);
    assert_eq!((renewals.under_way.len(), renewals.waiting.len()), (MOST_UNDER_WAY, MORE));

    let due = entries(&locks);
    assert_eq!(due.len(), holds.len(), "each one is looked at when it ends");
    renewals.check(due);
    assert_eq!((renewals.under_way.len(), renewals.waiting.len()), (MOST_UNDER_WAY, MORE));

    let last = holds.last().expect("there are some");
    last.held().suspend();
    let due = entries(&locks);
    renewals.check(due);
    assert_eq!(last.notice.receiver().try_recv(), Ok(LossReason::ClockStoodStill));
}

#[test]
fn room_for_many_renewals_is_given_back() {
    let mut renewals = Renewals::new(Weak::new());
    renewals.waiting.extend((0..1_000).map(|_| Weak::new()));
    renewals.under_way.reserve(1_000);
    renewals.carry_on();
    renewals.give_room_back();
    assert!(renewals.waiting.capacity() < 100 && renewals.under_way.capacity() < 100);
}
