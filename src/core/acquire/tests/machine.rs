use std::cell::RefCell;
use std::rc::Rc;

use super::super::base::{Allowance, Backoff, Basis};
use super::super::hold::LossReason;
use super::super::link::Via;
use super::super::queue::Place;
use super::super::vote::{Failure, Grant, QuorumHealth, Shared, Vote};
use super::super::wake::ReleaseTracker;
use super::client_model::{Claim, Client, TIMEOUT, at};
use super::*;

mod counting;
mod fair;
mod reserving;

const TTL: Duration = Duration::from_secs(10);

/// A call and its driver. The driver notes what it was told to do.
struct Driver {
    policy: Policy,
    machine: Acquire<Claim>,
    client: Client,
    done: Vec<&'static str>,
    owner: u128,
    asked: Vec<Whom>,
    /// The place that the driver finds in the local queue.
    place: Place,
    /// The nodes that are listened to when the call subscribes.
    listening: Vec<usize>,
    outcome: Option<Outcome>,
    granted: Option<Grant>,
    /// The facts that each attempt told the nodes of the waiting caller.
    waits: Vec<Waits>,
    /// The nodes that need not be told of a withdrawal.
    granted_by: Vec<usize>,
}

const FIRST_IN_QUEUE: Place = Place { turn: Turn::Ask, is_held: false, comes_first: true };

impl Driver {
    fn new(patience: Patience) -> Self {
        Self::of(patience, true)
    }

    /// A call whose attempts may begin with one node if they are `ordered`.
    fn of(patience: Patience, ordered: bool) -> Self {
        Self::with(patience, ordered, WayOfWaiting::Unordered { names: 1 })
    }

    /// A call that wants a fair lock.
    fn fair(patience: Patience) -> Self {
        Self::with(patience, true, WayOfWaiting::InQueue)
    }

    fn with(patience: Patience, ordered: bool, waiting: WayOfWaiting) -> Self {
        let policy = Policy {
            patience,
            backoff: Backoff { min: Duration::from_millis(10), max: Duration::from_millis(100) },
            no_quorum_timeout: Duration::from_secs(10),
            ordered,
            waiting,
        };
        Self {
            policy,
            machine: Acquire::new(policy, TIMEOUT),
            client: Client::new(),
            done: Vec::new(),
            owner: 0,
            asked: Vec::new(),
            place: FIRST_IN_QUEUE,
            listening: Vec::new(),
            outcome: None,
            granted: None,
            waits: Vec::new(),
            granted_by: Vec::new(),
        }
    }

    /// A call that has asked all nodes.
    fn asking(patience: Patience) -> Self {
        let mut driver = Self::new(patience);
        driver.start();
        assert_eq!(
            (driver.asked(), driver.machine.waits_for()),
            (Some(Whom::All), WaitsFor::Verdict)
        );
        driver
    }

    /// A call whose first attempt ended in a split vote, while the nodes of `listening` are heard; and the node
    /// that it asked alone after that.
    fn after_a_split(listening: &[usize]) -> (Self, usize) {
        let mut driver = Self::asking(Patience::Forever);
        driver.done();
        driver.listening = listening.to_vec();
        driver.vote(&[(0, Vote::Granted(8)), (1, HELD), (2, HELD)]);
        if listening.is_empty() {
            driver.timeout();
        }
        let again = ["give back", "failed", "subscribe", "look", "begin", "ask"];
        assert_eq!(driver.done(), again);
        let Some(Whom::Only(node)) = driver.asked() else { panic!("one node goes first") };
        (driver, node)
    }

    fn start(&mut self) {
        self.machine.start(&self.client);
        self.carry();
    }

    /// Carries out the machine's actions.
    fn carry(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            let Self { machine, client, .. } = self;
            let (done, _) = match action {
                Action::Look => ("look", machine.handle_turn(self.place, client)),
                Action::Subscribe(_) => {
                    let mut releases = ReleaseTracker::new(3);
                    self.listening.iter().for_each(|node| releases.listening(*node));
                    client.releases = Some(releases);
                    ("subscribe", machine.handle_subscribed(0, client))
                }
                Action::IgnoreOwnRelease => ("ignore own release", ()),
                Action::GivingWayIsOver { heard: true } => ("giving way is over, heard", ()),
                Action::GivingWayIsOver { heard: false } => ("giving way is over", ()),
                Action::Begin(Begin { owner, started, answer_by, waits, .. }) => {
                    self.owner = owner;
                    self.waits.push(waits);
                    let allowance = Allowance::FOR_DRIFT;
                    let attempt = Attempt::new(3, started, answer_by, TTL, allowance);
                    let claim = Claim(Rc::new(RefCell::new(attempt)));
                    ("begin", machine.handle_begun(claim, client))
                }
                Action::Ask(whom) => ("ask", self.asked.push(whom)),
                Action::SawNumber(_) => ("saw number", ()),
                Action::WriteBack(_) => ("write back", ()),
                Action::TellObstacle(_) => ("tell obstacle", ()),
                Action::GiveBack(_) => ("give back", ()),
                Action::LeaveQueue(..) => ("leave queue", ()),
                Action::Withdraw { granted_by, .. } => ("withdraw", self.granted_by = granted_by),
                Action::Failed(_) => ("failed", ()),
                Action::TellNotAdmitted(_) => ("tell not admitted", ()),
                Action::Granted(_, grant) => ("granted", self.granted = Some(grant)),
                Action::HandedOver => ("handed over", ()),
                Action::Refuse(outcome) => ("refuse", self.outcome = Some(outcome)),
            };
            self.done.push(done);
        }
    }

    /// Returns the actions since the last call of this function.
    fn done(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.done)
    }

    fn asked(&self) -> Option<Whom> {
        self.asked.last().copied()
    }

    /// The nodes that were asked give these votes, and the driver reports the verdict.
    fn vote(&mut self, votes: &[(usize, Vote)]) {
        let claim = self.machine.claim().expect("an attempt is under way");
        let now = self.client.now;
        claim.with(|attempt| {
            for (node, vote) in votes {
                assert!(attempt.sending(*node, Via::unfenced(1), now));
                attempt.vote(*node, *vote);
            }
        });
        self.machine.handle_verdict(&mut self.client);
        self.carry();
    }

    /// These nodes fail, and the driver reports the verdict.
    fn fail(&mut self, nodes: &[usize]) {
        let claim = self.machine.claim().expect("an attempt is under way");
        nodes.iter().for_each(|node| claim.with(|one| one.fail(*node, Failure::NotSent)));
        self.machine.handle_verdict(&mut self.client);
        self.carry();
    }

    /// Nothing happens until the machine's time limit.
    fn timeout(&mut self) {
        self.client.now = self.machine.poll_timeout().expect("the machine waits");
        self.machine.handle_timeout(&mut self.client);
        self.carry();
    }

    fn cancel(&mut self) {
        self.machine.handle_stop(Stop::Cancelled);
        self.carry();
    }
}

const HELD: Vote = Vote::Refused(Some(Duration::from_secs(5)));

/// Otherwise an attempt might count a suspension as one that came before it.
#[test]
fn suspensions_are_counted_before_the_attempt_starts() {
    let mut driver = Driver::new(Patience::Once);
    driver.client.reading_takes = Duration::from_millis(5);
    let now = driver.client.now;
    driver.machine.start(&driver.client);
    assert!(matches!(driver.machine.poll_action(), Some(Action::Look)));
    driver.machine.handle_turn(FIRST_IN_QUEUE, &mut driver.client);
    let Some(Action::Begin(begin)) = driver.machine.poll_action() else { panic!("it begins") };
    assert_eq!((begin.suspensions, begin.started), (7, now.after(Duration::from_millis(5))));
}

#[test]
fn a_free_lock_is_granted_by_a_majority() {
    let mut driver = Driver::asking(Patience::Forever);
    driver.vote(&[(0, Vote::Granted(7)), (1, Vote::Granted(7))]);
    assert_eq!(driver.done(), ["look", "begin", "ask", "saw number", "granted"]);
    let grant = driver.granted.expect("granted");
    assert_eq!((grant.number, grant.started, grant.basis), (7, at(1_000), Basis::Majority));
    assert!(!grant.refused_before && driver.machine.poll_timeout().is_none());
}

#[test]
fn a_number_that_too_few_nodes_know_is_written_back() {
    for confirmed in [true, false] {
        let mut driver = Driver::asking(Patience::Once);
        driver.vote(&[(0, Vote::Granted(9)), (1, Vote::Granted(7))]);
        assert_eq!(driver.done(), ["look", "begin", "ask", "write back"]);
        assert_eq!(driver.machine.waits_for(), WaitsFor::Confirmation);
        driver.machine.handle_confirmation(confirmed, &mut driver.client);
        driver.carry();
        assert_eq!(driver.granted.map(|grant| grant.number), confirmed.then_some(9));
        assert_eq!(driver.outcome, (!confirmed).then_some(Outcome::Unconfirmed));
    }
}

/// The caller's time ends in the middle of a write-back.
#[test]
fn a_deadline_ends_a_write_back() {
    let mut driver = Driver::asking(Patience::Until(at(1_050)));
    driver.vote(&[(0, Vote::Granted(9)), (1, Vote::Granted(7))]);
    assert_eq!(driver.machine.poll_timeout(), Some(at(1_050)));
    driver.done();
    driver.timeout();
    assert_eq!(driver.done(), ["saw number", "give back", "failed", "refuse"]);
    assert_eq!(driver.outcome, Some(Outcome::Unconfirmed));
}

#[test]
fn a_held_lock_is_waited_for_until_a_majority_tells_of_its_release() {
    let mut driver = Driver::asking(Patience::Forever);
    let first = driver.owner;
    driver.vote(&[(0, HELD), (1, HELD)]);
    let done = ["look", "begin", "ask", "give back", "failed", "subscribe"];
    assert_eq!(driver.done(), done);
    // One more attempt finds out about releases that were not heard before the subscription.
    driver.client.subscription_confirmed();
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert_eq!(driver.done(), ["look", "begin", "ask"]);
    assert_ne!(driver.owner, first, "each attempt has an owner id of its own");
    driver.vote(&[(0, HELD), (1, HELD)]);
    assert_eq!(driver.machine.waits_for(), WaitsFor::Releases);
    driver.done();
    driver.client.released(&[0]);
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert!(driver.done().is_empty(), "it may be another one's, of that node only");
    driver.client.released(&[2]);
    driver.machine.handle_releases(&mut driver.client);
    driver.carry();
    assert_eq!(driver.done(), ["look", "begin", "ask"]);
    assert!(matches!(driver.asked(), Some(Whom::Only(_))), "the preferred node goes first");
    let Some(Whom::Only(node)) = driver.asked() else { panic!("one node") };
    driver.vote(&[(node, Vote::Granted(8))]);
    assert_eq!(driver.asked(), Some(Whom::AllBut(node)));
    driver.vote(&[((node + 1) % 3, Vote::Granted(8))]);
    assert!(driver.granted.is_some_and(|grant| grant.refused_before));
}

#[test]
fn a_preferred_node_that_is_silent_does_not_keep_the_others_from_being_asked() {
    let (mut driver, node) = Driver::after_a_split(&[]);
    driver.timeout();
    assert_eq!(driver.asked(), Some(Whom::AllBut(node)));
    driver.vote(&[((node + 1) % 3, Vote::Granted(8)), ((node + 2) % 3, Vote::Granted(8))]);
    assert!(driver.granted.is_some());
}

#[test]
fn a_preferred_node_that_refuses_ends_the_attempt() {
    let (mut driver, node) = Driver::after_a_split(&[]);
    driver.vote(&[(node, HELD)]);
    assert_eq!(driver.done(), ["give back", "failed"]);
    assert_eq!(driver.asked.len(), 2);
}

/// A call relies on the announcement of the node that alone has refused it.
#[test]
fn a_node_that_is_not_heard_is_not_preferred() {
    let (_, preferred) = Driver::after_a_split(&[0, 1, 2]);
    let heard: Vec<_> = (0..3).filter(|node| *node != preferred).collect();
    let (_, instead) = Driver::after_a_split(&heard);
    assert!(heard.contains(&instead));
}

#[test]
fn too_few_answers_are_reported_when_all_nodes_are_heard_or_a_moment_is_over() {
    for third in [true, false] {
        let mut driver = Driver::asking(Patience::Once);
        driver.done();
        driver.fail(&[0, 1]);
        assert_eq!((driver.done(), driver.machine.waits_for()), (vec![], WaitsFor::Answers));
        assert_eq!(driver.machine.poll_timeout(), Some(at(1_010)));
        if third {
            let claim = driver.machine.claim().expect("under way");
            claim.with(|attempt| attempt.fail(2, Failure::NotSent));
            driver.machine.handle_answers(&mut driver.client);
            driver.carry();
        } else {
            driver.timeout();
        }
        assert_eq!(driver.done(), ["give back", "failed", "refuse"]);
        assert_eq!(driver.outcome, Some(Outcome::NoQuorum));
    }
}

/// If clients may fall back, somebody may hold the lock on the first node alone.
#[test]
fn the_first_node_is_heard_where_clients_may_fall_back() {
    let mut driver = Driver::of(Patience::Once, false);
    driver.client.health = QuorumHealth::new(Some(Duration::from_secs(1)), TIMEOUT);
    driver.start();
    driver.done();
    driver.vote(&[(1, Vote::Granted(7)), (2, Vote::Granted(7))]);
    assert_eq!(driver.machine.waits_for(), WaitsFor::Answers);
    let claim = driver.machine.claim().expect("under way").clone();
    claim.with(|attempt| attempt.vote(0, HELD));
    driver.machine.handle_answers(&mut driver.client);
    driver.carry();
    assert_eq!(driver.done(), ["saw number", "give back", "failed", "refuse"]);
    assert!(driver.outcome.is_some_and(Outcome::is_held));
}

#[test]
fn nodes_that_admit_nobody_are_waited_for_and_reported_once() {
    let mut driver = Driver::asking(Patience::Forever);
    driver.client.ready_in = Some(Duration::from_secs(4));
    let votes = [(0, Vote::NotAdmitted), (1, Vote::NotAdmitted), (2, Vote::NotAdmitted)];
    driver.vote(&votes);
    assert_eq!(driver.done()[3..], ["give back", "failed", "tell not admitted"]);
    assert_eq!(driver.machine.poll_timeout(), Some(at(2_000)), "somebody may end it before");
    driver.timeout();
    driver.vote(&votes);
    assert!(!driver.done().contains(&"tell not admitted"));
}

#[test]
fn nothing_is_asked_before_the_nodes_clocks_are_known_or_the_time_is_over() {
    for known in [true, false] {
        let mut driver = Driver::new(Patience::Forever);
        driver.client.waits_for_clocks = true;
        driver.start();
        assert_eq!(driver.done(), ["look", "begin"]);
        driver.machine.handle_clocks(&driver.client);
        assert_eq!(driver.machine.waits_for(), WaitsFor::Clocks);
        if known {
            driver.client.waits_for_clocks = false;
            driver.machine.handle_clocks(&driver.client);
            driver.carry();
        } else {
            driver.timeout();
        }
        assert_eq!(driver.done(), ["ask"]);
    }
}

/// The event that the call waits for when it is cancelled, and true if it has an attempt under way then.
const CANCELLED_IN: [(WaitsFor, bool); 6] = [
    (WaitsFor::Queue, false),
    (WaitsFor::Clocks, true),
    (WaitsFor::Verdict, true),
    (WaitsFor::Confirmation, true),
    (WaitsFor::Answers, true),
    (WaitsFor::Releases, false),
];

/// A call that waits for that event.
fn waiting_for(what: WaitsFor) -> Driver {
    let mut driver = Driver::new(Patience::Forever);
    driver.client.waits_for_clocks = what == WaitsFor::Clocks;
    if what == WaitsFor::Queue {
        let turn = Turn::Wait(at(2_000));
        driver.place = Place { turn, is_held: true, comes_first: true };
    }
    driver.start();
    match what {
        WaitsFor::Confirmation => driver.vote(&[(0, Vote::Granted(9)), (1, Vote::Granted(7))]),
        WaitsFor::Answers => driver.fail(&[0, 1]),
        WaitsFor::Releases => driver.vote(&[(0, HELD), (1, HELD)]),
        _ => {}
    }
    assert_eq!(driver.machine.waits_for(), what);
    driver
}

/// A call that ends early leaves nothing on the nodes.
#[test]
fn a_call_that_is_cancelled_gives_its_attempt_back() {
    for (what, under_way) in CANCELLED_IN {
        let mut driver = waiting_for(what);
        driver.done();
        driver.cancel();
        let done: &[_] = if under_way { &["give back", "refuse"] } else { &["refuse"] };
        assert_eq!(driver.done(), done, "{what:?}");
        assert_eq!(driver.outcome, Some(Outcome::Cancelled), "{what:?}");
        driver.machine.handle_stop(Stop::Closed);
        driver.carry();
        assert!(driver.done().is_empty(), "it ends once");
    }
}

#[test]
fn a_call_whose_client_is_closed_says_so() {
    let mut driver = Driver::new(Patience::Forever);
    driver.machine.start(&driver.client);
    driver.machine.handle_stop(Stop::Closed);
    driver.carry();
    assert_eq!(driver.done(), ["look", "refuse"], "no node is asked");
    assert_eq!(driver.outcome, Some(Outcome::Closed));
}

#[test]
fn nothing_is_taken_where_the_nodes_are_not_one_set() {
    let mut driver = Driver::new(Patience::Forever);
    driver.client.disagrees = true;
    driver.start();
    assert_eq!((driver.done(), driver.outcome), (vec!["refuse"], Some(Outcome::NodesDisagree)));
    // The conflict with a node becomes known while the others grant.
    let mut driver = Driver::asking(Patience::Forever);
    driver.client.disagrees = true;
    driver.done();
    driver.vote(&[(0, Vote::Granted(7)), (1, Vote::Granted(7))]);
    assert_eq!(driver.done(), ["saw number", "give back", "refuse"]);
    // The same happens while a thread of this process hands its lock over, or has one that can be joined or taken again.
    for turn in [Turn::HandedOver, Turn::Joined, Turn::Reentered] {
        let mut driver = Driver::new(Patience::Forever);
        driver.machine.start(&driver.client);
        driver.client.disagrees = true;
        driver.place = Place { turn, is_held: true, comes_first: true };
        driver.carry();
        assert_eq!(driver.outcome, Some(Outcome::NodesDisagree));
    }
}

#[test]
fn a_lock_that_is_handed_over_joined_or_taken_again_needs_no_node() {
    for turn in [Turn::HandedOver, Turn::Joined, Turn::Reentered] {
        let mut driver = Driver::new(Patience::Forever);
        driver.place = Place { turn: Turn::Wait(at(2_000)), is_held: true, comes_first: true };
        driver.start();
        driver.place = Place { turn, is_held: true, comes_first: true };
        driver.machine.handle_queue_changed();
        driver.carry();
        assert_eq!(driver.done(), ["look", "look", "handed over"]);
    }
}

#[test]
fn a_lock_that_is_taken_again_and_lost_is_refused_whatever_the_patience() {
    for patience in [Patience::Once, Patience::Forever, Patience::Until(at(1_500))] {
        let mut driver = Driver::new(patience);
        driver.place =
            Place { turn: Turn::Lost(LossReason::Expired), is_held: true, comes_first: true };
        driver.start();
        let lost = Some(Outcome::Lost(LossReason::Expired));
        assert_eq!((driver.done(), driver.outcome), (vec!["look", "refuse"], lost));
    }
}

/// The caller's time is over. If somebody is known to hold the lock, that is the answer. If not, one
/// attempt without any time shows that too few nodes answer.
#[test]
fn a_caller_that_has_waited_in_the_queue_to_the_end_is_told_what_is_known() {
    for is_held in [true, false] {
        let mut driver = Driver::new(Patience::Until(at(1_500)));
        let turn = Turn::Wait(at(3_000));
        driver.place = Place { turn, is_held, comes_first: true };
        driver.start();
        assert_eq!(driver.machine.poll_timeout(), Some(at(1_500)));
        driver.done();
        driver.timeout();
        let done: &[_] = if is_held { &["look", "refuse"] } else { &["look", "begin", "ask"] };
        assert_eq!(driver.done(), done);
    }
}

/// Other processes come first, and one of them gives the lock back.
#[test]
fn a_caller_that_gives_way_asks_when_somebody_gave_the_lock_back() {
    for heard in [true, false] {
        let mut driver = Driver::new(Patience::Forever);
        let turn = Turn::GiveWay(at(1_008));
        driver.place = Place { turn, is_held: false, comes_first: true };
        driver.start();
        assert_eq!(driver.done(), ["look", "subscribe", "ignore own release"]);
        driver.client.releases(ReleaseTracker::attempt_begins);
        driver.place = FIRST_IN_QUEUE;
        if heard {
            driver.client.released(&[0, 1]);
            driver.machine.handle_releases(&mut driver.client);
            driver.carry();
        } else {
            driver.timeout();
        }
        let over = if heard { "giving way is over, heard" } else { "giving way is over" };
        assert_eq!(driver.done(), [over, "look", "begin", "ask"]);
    }
}

#[test]
fn a_caller_that_gave_way_until_its_deadline_is_told_that_the_lock_is_held() {
    let mut driver = Driver::new(Patience::Until(at(1_004)));
    let turn = Turn::GiveWay(at(1_008));
    driver.place = Place { turn, is_held: false, comes_first: true };
    driver.start();
    driver.place = FIRST_IN_QUEUE;
    driver.timeout();
    assert!(driver.outcome.is_some_and(Outcome::is_held));
}

/// The threads ahead of the caller have reached the nodes, however long ago the caller itself has.
#[test]
fn a_wait_in_the_queue_ends_the_time_without_a_quorum() {
    for waits in [true, false] {
        let mut driver = Driver::asking(Patience::Forever);
        driver.fail(&[0, 1, 2]);
        if waits {
            let turn = Turn::Wait(at(20_000));
            driver.place = Place { turn, is_held: true, comes_first: true };
        }
        driver.timeout();
        driver.client.now = at(12_000);
        if waits {
            // The caller gives way after its wait in the queue, which takes a moment more.
            let turn = Turn::GiveWay(at(12_008));
            driver.place = Place { turn, is_held: false, comes_first: true };
            driver.machine.handle_queue_changed();
            driver.carry();
            driver.place = FIRST_IN_QUEUE;
            driver.timeout();
        }
        driver.fail(&[0, 1, 2]);
        assert_eq!(driver.outcome, (!waits).then_some(Outcome::NoQuorum));
    }
}

/// The vote of a node whose queue ends with that ticket.
fn queued(ticket: u64) -> Vote {
    Vote::Queued { remaining: Some(Duration::from_secs(5)), ticket }
}

#[test]
fn a_fair_lock_that_is_tried_once_takes_no_ticket() {
    let mut driver = Driver::fair(Patience::Once);
    driver.start();
    driver.vote(&[(0, queued(4)), (1, queued(4))]);
    assert_eq!(driver.done(), ["look", "begin", "ask", "give back", "failed", "refuse"]);
    assert!(driver.outcome.is_some_and(Outcome::is_held));
    let waits: Vec<_> = driver.waits.iter().map(|it| (it.ticket, it.lasts)).collect();
    assert_eq!(waits, [(None, Duration::ZERO)], "it is in no queue");
}
