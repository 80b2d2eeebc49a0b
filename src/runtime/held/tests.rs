use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};

use crate::core::acquire::{Begin, Patience, Waits, Whom};
use crate::core::base::{Allowance, Basis, HoldClass};
use crate::core::hold::{Due, Terms};
use crate::core::vote::{Conclusion, Grant, Quorum, Shared};
use crate::events::Listener;
use crate::ident::{Name, Names, random_owner};
use crate::kinds::EXCLUSIVE;
use crate::process::ThreadNumber;
use crate::runtime::call;
use crate::runtime::claim::{Claim, Wanted};
use crate::runtime::held::{Held, LocalWaiters};
use crate::runtime::hold::Hold;
use crate::runtime::holder::HoldState;
use crate::{ErrorKind, OptionalGuard as _, Quorlock, clock};

/// A limit that no test reaches.
const LIMIT: Duration = Duration::from_secs(10);

const NAME: &str = "orders/42";

/// Returns a lock that is renewed, as its guard has it.
fn hold(locks: &Quorlock) -> Hold {
    let hold = call::acquire(locks.coordinator(), &wanted(NAME, LIMIT), Patience::Forever, None);
    hold.expect("nobody else wants it")
}

pub(crate) fn wanted(name: &str, ttl: Duration) -> Wanted {
    let allowance = Allowance { clock_tolerance: Duration::from_millis(100) };
    let terms = Terms::renewed(ttl, allowance);
    let names = Names::new(1, [Name::new(b"quorlock:", name.as_bytes())]).expect("a name");
    Wanted { kind: EXCLUSIVE, names, terms, permits: None, label: None, figures: None }
}

impl Held {
    /// Returns the next due action for the lock.
    pub(crate) fn due(&self) -> Due {
        self.state().lock.due(clock::now())
    }

    /// Makes the next renewal due.
    pub(crate) fn make_due(&self) {
        self.state().lock.make_due();
    }

    /// Puts the lock into the state after a suspension of this machine that nobody has noticed yet.
    pub(crate) fn suspend(&self) {
        self.state().lock.handle_suspended();
    }
}

/// The threads of the process that want the lock. When the queue is told that the lease is gone, one of them asks the nodes
/// at once, and the test learns whether it was granted the lock.
struct AskAtOnce {
    locks: Quorlock,
    granted: Sender<bool>,
}

impl LocalWaiters for AskAtOnce {
    fn hand_over(&self, _: &Arc<Held>, _: &Arc<HoldState>) -> bool {
        false
    }

    fn gone(&self, _: &str, _: bool) {
        let (locks, granted) = (self.locks.clone(), self.granted.clone());
        let asks = move || {
            let wanted = wanted(NAME, LIMIT);
            let next = call::acquire(locks.coordinator(), &wanted, Patience::Once, None);
            let is_granted = next.optional().expect("the nodes are healthy").is_some();
            granted.send(is_granted).expect("the test waits for it");
        };
        clock::spawn("next".to_owned(), asks).expect("there are threads");
    }

    fn downgraded(&self) {}

    fn left(&self, _: ThreadNumber, _: HoldClass) {}

    fn guard_downgraded(&self, _: ThreadNumber) {}

    fn heard(&self, _: u32) {}
}

/// Returns a lock that `waiters` wait for. All nodes have granted it.
pub(crate) fn hold_before(
    locks: &Quorlock,
    wanted: &Wanted,
    waiters: Arc<impl LocalWaiters + 'static>,
) -> Hold {
    let state = locks.coordinator().state();
    let (now, owner, suspensions) = (clock::now(), random_owner(), state.set().suspensions());
    let (answer_by, waits) = (now.after(LIMIT), Waits::default());
    let begin = Begin {
        owner,
        suspensions,
        started: now,
        answer_by,
        waits,
        permits: crate::core::vote::Permits::default(),
    };
    let mut claim = Claim::new(state, wanted, begin);
    drop(claim.ask(Whom::All, state.nodes()));
    let round = claim.round().clone();
    let answered = || round.with(|attempt| !attempt.awaits_answers());
    assert!(clock::poll(now.after(LIMIT), answered), "the nodes are healthy");
    let conclusion = round.with(|attempt| attempt.conclude(clock::now()));
    let Conclusion::Won { valid_until, number } = conclusion else { panic!("{conclusion:?}") };
    let (basis, quorum, started) = (Basis::Majority, Quorum::Reached, now);
    let grant =
        Grant { valid_until, number, basis, quorum, started, known_at: now, refused_before: false };
    let timetable = locks.coordinator().timetable();
    let (held, hold_state) = Held::granted(claim, grant, waiters, timetable);
    Hold::new(held, hold_state)
}

/// The next caller in the queue asks the same nodes over the same connections, and would be refused before the releases.
#[test]
fn the_releases_are_on_their_way_when_the_queue_is_told() {
    let (locks, _nodes) = Quorlock::embedded(3).expect("ports are free");
    drop(hold(&locks));
    let ends: [(&str, &dyn Fn(Hold)); 5] = [
        ("dropped", &drop),
        ("unlocked", &|hold| hold.give_back_and_wait().expect("the nodes are healthy")),
        ("dropped when it is lost", &|hold| {
            hold.held().suspend();
            drop(hold);
        }),
        ("unlocked when it is lost", &|hold| {
            hold.held().suspend();
            assert!(hold.give_back_and_wait().is_err());
        }),
        ("lost, which the timetable sees", &|hold| {
            hold.held().suspend();
            hold.held().enter();
            assert!(clock::poll(clock::now().after(LIMIT), || {
                hold.held().due() == Due::Nothing
            }));
        }),
    ];
    for (how, end) in ends {
        let (granted, is_granted) = bounded(8);
        let waiters = Arc::new(AskAtOnce { locks: locks.clone(), granted });
        end(hold_before(&locks, &wanted(NAME, LIMIT), waiters));
        assert!(is_granted.recv_timeout(LIMIT).expect("the queue is told"), "{how}");
    }
}

/// The event's subscriber may ask for the lock itself, and the timer and all callers of the client ask for it, too.
#[test]
fn an_event_of_an_extension_is_told_while_the_lock_can_be_used() {
    let (locks, _nodes) = Quorlock::embedded(3).expect("ports are free");
    let guard = locks.lock("orders/42").expect("the nodes are healthy");
    locks.coordinator().note(Quorum::Missed, clock::now(), Vec::new);
    let ((told, is_told), (let_go, go_on)) = (bounded(1), bounded(1));
    std::thread::scope(|scope| {
        let extended = scope.spawn(|| {
            let slow = Listener(move |_| {
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

/// The thread that has noticed the loss may have a thousand other holders to tell before it sends the releases. A program
/// that hears of the loss, unlocks and exits would leave the keys on the nodes.
#[test]
fn the_releases_of_a_lost_lock_are_on_their_way_when_its_unlock_returns() {
    let (locks, nodes) = Quorlock::embedded(3).expect("ports are free");
    let hold = hold(&locks);
    // The state in the timetable's thread, which goes on to tell others.
    let held = hold.held().clone();
    held.suspend();
    assert!(held.lose().is_some(), "it is the first to see it");
    let unlocked = hold.give_back_and_wait();
    assert_eq!(unlocked.expect_err("it was lost").kind(), ErrorKind::Lost);
    let has_key = || nodes.iter().any(|node| node.keys().iter().any(|key| key.ends_with(b"/42")));
    assert!(clock::poll(clock::now().after(LIMIT / 2), || !has_key()), "a key stays");
    drop(held);
}

/// The lock's place in the local queue is given up first, since no other thread would do that.
#[test]
fn a_subscriber_that_panics_over_a_loss_leaves_nothing_behind() {
    let (locks, nodes) = Quorlock::embedded(3).expect("ports are free");
    let give_back: [fn(Hold); 2] = [drop, |hold| _ = hold.give_back_and_wait()];
    for give_back in give_back {
        let hold = hold(&locks);
        hold.held().suspend();
        let panics = Listener(|_| std::panic::resume_unwind(Box::new("in a subscriber")));
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
