//! The interface between the machine of a call and its driver.

use std::time::Duration;

use super::super::base::Time;
use super::super::vote::{Attempt, Conclusion, Grant, Permits, Quorum, QuorumHealth, Shared};
use super::super::wake::ReleaseTracker;
use super::attempts::Outcome;
use super::obstacle::Obstacle;
use super::reservation::Priority;
use super::waits::Waits;

/// An attempt that the driver shares with the threads that receive the nodes' answers.
pub(crate) trait SharedAttempt: Shared<Attempt> {
    /// Opens the attempt again if `f` returns true. Its next verdict is then reported.
    fn reopen(&self, f: impl FnOnce(&mut Attempt) -> bool) -> bool;
}

/// A call's view of its client: knowledge that all calls share, time, and chance.
pub(crate) trait Surroundings {
    fn now(&self) -> Time;

    /// Returns the number of suspensions of this machine, as far as its client knows.
    fn suspensions(&mut self) -> u64;

    /// Returns a random number in `0.0..1.0`.
    fn random(&mut self) -> f64;

    /// Returns a random owner id.
    fn random_owner(&mut self) -> u128;

    /// Returns true if the nodes are known not to form one set of ours, so that no lock may be taken.
    fn nodes_disagree(&self) -> bool;

    /// Returns true if it is worth waiting for the clocks of more nodes before any of them is asked.
    fn waits_for_clocks(&self) -> bool;

    /// Returns true if the node is known to be down.
    fn is_down(&self, node: usize) -> bool;

    /// Returns true if the node voted in the attempt that was given back last.
    fn voted(&self, node: usize) -> bool;

    /// Returns the nodes in the order in which this lock's contenders prefer them.
    fn asking_order(&self) -> Vec<usize>;

    /// Returns true if threads of this process wait for the lock's releases, or did a moment ago.
    fn others_subscribed(&self) -> bool;

    /// Returns the set's time in milliseconds, if it is known.
    fn set_time_ms(&self) -> Option<u64>;

    fn quorum_health(&self) -> QuorumHealth;

    /// Returns true if the first node can be reached, and says that it is loading, busy, or takes
    /// no writes.
    fn first_says_no(&self) -> bool;

    /// Returns the time until a majority will grant locks, as far as is known.
    fn ready_in(&self, now: Time) -> Option<Duration>;

    /// Runs `f` on the record of announced releases; returns `None` before [`Action::Subscribe`].
    fn releases<R>(&mut self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R>;
}

/// An attempt that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) owner: u128,
    /// The number of suspensions of this machine before it started: see
    /// [`HeldLock::handle_suspensions`](super::super::hold::HeldLock::handle_suspensions).
    pub(crate) suspensions: u64,
    pub(crate) started: Time,
    pub(crate) answer_by: Time,
    pub(crate) waits: Waits,
    /// The permits of a semaphore that it asks for.
    pub(crate) permits: Permits,
}

/// The driver's next action. `C` is the driver's claim to the lock, which shares an attempt.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a call has few actions at a time")]
pub(crate) enum Action<C> {
    /// Look at the place in the local queue, and call [`Acquire::handle_turn`](super::Acquire::handle_turn).
    Look,
    /// Subscribe to the lock's releases, and call [`Acquire::handle_subscribed`](super::Acquire::handle_subscribed). The value,
    /// given for a fair lock, is the caller's name: the nodes use it to announce the next caller.
    Subscribe(Option<u64>),
    /// Leave the lock to others from now on. Ignore messages about the process's own last release.
    IgnoreOwnRelease,
    /// Stop leaving the lock to others. Note whether a release was `heard` of meanwhile.
    GivingWayIsOver { heard: bool },
    /// Begin an attempt, and call [`Acquire::handle_begun`](super::Acquire::handle_begun).
    Begin(Begin),
    /// Ask those nodes for the lock: [`Acquire::claim`](super::Acquire::claim).
    Ask(Whom),
    /// Note that several nodes know this number of the lock.
    SawNumber(u64),
    /// Tell the nodes the lock's number, and call [`Acquire::handle_confirmation`](super::Acquire::handle_confirmation).
    WriteBack(u64),
    /// Report that something other than an ordinary holder is in the way.
    TellObstacle(Obstacle),
    /// Give back all keys that the attempt may have left on the nodes. Keep its answers: faults and votes are read from them.
    GiveBack(C),
    /// Tell all nodes to take that caller out of the queue that they keep for a fair lock. Send this behind the call's earlier
    /// requests. The duration is the time limit for telling a node.
    LeaveQueue(u64, Duration),
    /// Tell all nodes but those of `granted_by` to withdraw the reservations of that priority. Send this behind the call's
    /// earlier requests. `within`: the time limit for telling a node.
    Withdraw { priority: Priority, granted_by: Vec<usize>, within: Duration },
    /// Note the result of the attempt that was given back.
    Failed(Failed),
    /// Report that the call waits until the nodes grant locks, and how long that takes.
    TellNotAdmitted(Duration),
    /// Return the lock that was granted.
    Granted(C, Grant),
    /// Return the lock that a thread of this process handed over, or that the caller has joined or taken again.
    HandedOver,
    /// Return without a lock.
    Refuse(Outcome),
}

/// The nodes to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    All,
    Only(usize),
    AllBut(usize),
}

impl Whom {
    pub(crate) fn includes(self, node: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(one) => node == one,
            Self::AllBut(one) => node != one,
        }
    }
}

/// An attempt that has come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The conclusion that the threads behind this one in the local queue are shown. `None`: the caller's own deadline cut
    /// the attempt short, which says nothing about the nodes.
    pub(crate) conclusion: Option<Conclusion>,
    pub(crate) quorum: Quorum,
    pub(crate) started: Time,
}

/// The event that ends the wait before [`Acquire::poll_timeout`](super::Acquire::poll_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// A change in the local queue: [`Acquire::handle_queue_changed`](super::Acquire::handle_queue_changed).
    Queue,
    /// The nodes' clocks: [`Acquire::handle_clocks`](super::Acquire::handle_clocks), whenever more of them are known, or a node
    /// is down.
    Clocks,
    /// The verdict on the attempt: [`Acquire::handle_verdict`](super::Acquire::handle_verdict).
    Verdict,
    /// The verdict on the write-back, or the end of its time: [`Acquire::handle_confirmation`](super::Acquire::handle_confirmation).
    Confirmation,
    /// Further answers to the attempt: [`Acquire::handle_answers`](super::Acquire::handle_answers), with each of them.
    Answers,
    /// News of releases: [`Acquire::handle_releases`](super::Acquire::handle_releases).
    Releases,
    /// No event but the end of the time.
    Time,
}

/// The reason why a call is stopped before it has its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its caller has cancelled it.
    Cancelled,
    /// Its client was closed.
    Closed,
}
