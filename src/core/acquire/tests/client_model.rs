//! The client that the tests of a call use: three nodes, whose state the tests set.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::super::base::Time;
use super::super::vote::{Attempt, QuorumHealth, Shared, asking_order};
use super::super::wake::ReleaseTracker;
use super::{SharedAttempt, Surroundings};

pub(super) const TIMEOUT: Duration = Duration::from_millis(200);

pub(super) fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

/// The driver's claim. The tests give back its keys on the nodes.
#[derive(Clone, Debug)]
pub(super) struct Claim(pub(super) Rc<RefCell<Attempt>>);

impl Shared<Attempt> for Claim {
    fn with<R>(&self, f: impl FnOnce(&mut Attempt) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }
}

impl SharedAttempt for Claim {
    fn reopen(&self, f: impl FnOnce(&mut Attempt) -> bool) -> bool {
        self.with(f)
    }
}

/// A client of three nodes.
pub(super) struct Client {
    pub(super) now: Time,
    pub(super) disagrees: bool,
    pub(super) waits_for_clocks: bool,
    pub(super) others_subscribed: bool,
    pub(super) health: QuorumHealth,
    pub(super) ready_in: Option<Duration>,
    pub(super) voted: bool,
    pub(super) releases: Option<ReleaseTracker>,
    pub(super) owners: u128,
    /// Time that passes while the number of suspensions is read.
    pub(super) reading_takes: Duration,
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            now: at(1_000),
            disagrees: false,
            waits_for_clocks: false,
            others_subscribed: false,
            health: QuorumHealth::new(None, TIMEOUT),
            ready_in: None,
            voted: true,
            releases: None,
            owners: 0,
            reading_takes: Duration::ZERO,
        }
    }

    /// All nodes confirm the subscription to releases.
    pub(super) fn subscription_confirmed(&mut self) {
        let releases = self.releases.as_mut().expect("subscribed");
        (0..3).for_each(|node| releases.listening(node));
    }

    pub(super) fn released(&mut self, nodes: &[usize]) {
        let releases = self.releases.as_mut().expect("subscribed");
        nodes.iter().for_each(|node| releases.released(*node));
    }
}

impl Surroundings for Client {
    fn now(&self) -> Time {
        self.now
    }

    fn suspensions(&mut self) -> u64 {
        self.now = self.now.after(self.reading_takes);
        7
    }

    fn random(&mut self) -> f64 {
        0.5
    }

    fn random_owner(&mut self) -> u128 {
        self.owners += 1;
        self.owners
    }

    fn nodes_disagree(&self) -> bool {
        self.disagrees
    }

    fn waits_for_clocks(&self) -> bool {
        self.waits_for_clocks
    }

    fn is_down(&self, _node: usize) -> bool {
        false
    }

    fn voted(&self, _node: usize) -> bool {
        self.voted
    }

    fn asking_order(&self) -> Vec<usize> {
        asking_order(&[b"orders/42"], &["a", "b", "c"])
    }

    fn others_subscribed(&self) -> bool {
        self.others_subscribed
    }

    fn set_time_ms(&self) -> Option<u64> {
        Some(1_000_000)
    }

    fn quorum_health(&self) -> QuorumHealth {
        self.health
    }

    fn first_says_no(&self) -> bool {
        false
    }

    fn ready_in(&self, _now: Time) -> Option<Duration> {
        self.ready_in
    }

    fn releases<R>(&mut self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R> {
        self.releases.as_mut().map(f)
    }
}
