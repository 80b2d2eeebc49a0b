use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crossbeam_channel::bounded;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::core::{Allowance, Patience, Quorum, Terms};
use crate::ident::{Name, Names};
use crate::kinds::EXCLUSIVE;
use crate::runtime::call;
use crate::runtime::claim::Wanted;
use crate::runtime::hold::Hold;
use crate::{ErrorKind, Quorlock, clock};

/// Never to be waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// A subscriber that does this with each event of ours.
struct OnEvent<F>(F);

impl<F: Fn() + Send + Sync + 'static> Subscriber for OnEvent<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "quorlock"
    }

    fn event(&self, _: &Event<'_>) {
        self.0();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A lock that is renewed, as its guard has it.
fn hold(locks: &Quorlock) -> Hold {
    let allowance = Allowance { clock_tolerance: Duration::from_millis(100) };
    let terms = Terms { ttl: LIMIT, renewed: true, max_hold: None, allowance };
    let names = Names::new(1, [Name::new(b"quorlock:", b"orders/42", &[])]).expect("a name");
    let wanted = Wanted { kind: EXCLUSIVE, names, terms };
    let hold = call::acquire(locks.coordinator(), &wanted, Patience::Forever, None);
    hold.expect("the nodes are healthy").expect("nobody else wants it")
}

/// Its subscriber may ask for the lock itself, and the timer and all callers of the client ask for it, too.
#[test]
fn an_event_of_a_renewal_is_told_while_the_lock_can_be_used() {
    let (locks, _nodes) = Quorlock::embedded(3).expect("ports are free");
    let guard = locks.lock("orders/42").expect("the nodes are healthy");
    locks.coordinator().note(Quorum::Missed, clock::now(), Vec::new);
    let ((told, is_told), (let_go, go_on)) = (bounded(1), bounded(1));
    std::thread::scope(|scope| {
        let extended = scope.spawn(|| {
            let slow = OnEvent(move || {
                told.send(()).expect("the test waits for it");
                go_on.recv_timeout(LIMIT).expect("the lock can be used meanwhile");
            });
            tracing::subscriber::with_default(slow, || guard.extend(LIMIT))
        });
        is_told.recv_timeout(LIMIT).expect("a quorum can be reached again");
        assert!(!guard.remaining().is_zero());
        let_go.send(()).expect("the event waits for it");
        extended.join().expect("it was let go on").expect("the nodes are healthy");
    });
}

/// The thread that has seen the loss may have a thousand others to tell before it sends the releases. A program that
/// hears of the loss, unlocks and exits would leave the keys on the nodes.
#[test]
fn the_releases_of_a_lost_lock_are_on_their_way_when_its_unlock_returns() {
    let (locks, nodes) = Quorlock::embedded(3).expect("ports are free");
    let hold = hold(&locks);
    // As the thread of the timetable has it, which goes on to tell others.
    let held = hold.held().clone();
    held.suspend();
    assert!(held.lose().is_some(), "it is the first to see it");
    let unlocked = hold.give_back_and_wait();
    assert_eq!(unlocked.expect_err("it was lost").kind(), ErrorKind::Lost);
    let has_key = || nodes.iter().any(|node| node.keys().iter().any(|key| key.ends_with(b"/42")));
    assert!(clock::poll(clock::now().after(LIMIT / 2), || !has_key()), "a key stays");
    drop(held);
}

/// Its place in the local queue is given up first, for no other thread comes to do that.
#[test]
fn a_subscriber_that_panics_over_a_loss_leaves_nothing_behind() {
    let (locks, nodes) = Quorlock::embedded(3).expect("ports are free");
    let give_back: [fn(Hold); 2] = [drop, |hold| _ = hold.give_back_and_wait()];
    for give_back in give_back {
        let hold = hold(&locks);
        hold.held().suspend();
        let panics = OnEvent(|| std::panic::resume_unwind(Box::new("in a subscriber")));
        let given_back = catch_unwind(AssertUnwindSafe(|| {
            tracing::subscriber::with_default(panics, || give_back(hold));
        }));
        assert!(given_back.is_err(), "it is told of the loss");
        assert_eq!(locks.coordinator().queues().len(), 0, "a queue stays");
        let has_key =
            || nodes.iter().any(|node| node.keys().iter().any(|key| key.ends_with(b"/42")));
        assert!(clock::poll(clock::now().after(LIMIT / 2), || !has_key()), "a key stays");
    }
}
