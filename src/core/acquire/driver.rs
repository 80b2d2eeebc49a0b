//! What passes between the machine of a call and its driver.

use std::time::Duration;

use super::super::base::Time;
use super::super::vote::{Attempt, Conclusion, Grant, Permits, Quorum, QuorumHealth, Shared};
use super::super::wake::ReleaseTracker;
use super::attempts::Outcome;
use super::obstacle::Obstacle;
use super::reservation::Priority;
use super::waits::Waits;

/// An attempt that the driver shares with the threads that hear the nodes' answers.
pub(crate) trait SharedAttempt: Shared<Attempt> {
    /// If `f` returns true, the attempt is open again, and its next verdict is told.
    fn reopen(&self, f: impl FnOnce(&mut Attempt) -> bool) -> bool;
}

/// What a call looks up of its client: what all calls know together, time, and chance.
pub(crate) trait Surroundings {
    fn now(&self) -> Time;

    /// Returns the time at which an attempt starts. The driver notes the count of suspensions first, so that
    /// a suspension during the attempt is seen.
    fn start_attempt(&mut self) -> Time;

    /// Returns a random number in `0.0..1.0`.
    fn random(&mut self) -> f64;

    /// Returns a random owner id.
    fn random_owner(&mut self) -> u128;

    /// Returns whether the nodes are known not to be one set of ours, so that no lock may be taken.
    fn nodes_disagree(&self) -> bool;

    /// Returns whether it is worth waiting for the clocks of more nodes before any of them is asked.
    fn waits_for_clocks(&self) -> bool;

    /// Returns whether the node is known to be down.
    fn is_down(&self, node: usize) -> bool;

    /// Returns whether the node voted in the attempt that was given back last.
    fn voted(&self, node: usize) -> bool;

    /// Returns the nodes in the order in which this lock's contenders prefer them.
    fn asking_order(&self) -> Vec<usize>;

    /// Returns whether threads of this process wait for the lock's releases, or did a moment ago.
    fn others_subscribed(&self) -> bool;

    /// Returns the set's time in milliseconds, if it is known.
    fn set_time_ms(&self) -> Option<u64>;

    fn quorum_health(&self) -> QuorumHealth;

    /// Returns whether the first node can be reached, and says that it is loading, busy, or takes
    /// no writes.
    fn first_says_no(&self) -> bool;

    /// Returns in what time a majority will grant locks, as far as is known.
    fn ready_in(&self, now: Time) -> Option<Duration>;

    /// Shows what was heard of releases; `None` before [`Action::Subscribe`].
    fn releases<R>(&mut self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R>;
}

/// An attempt that is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) owner: u128,
    pub(crate) started: Time,
    pub(crate) answer_by: Time,
    pub(crate) waits: Waits,
    /// Which permits of a semaphore it asks for.
    pub(crate) permits: Permits,
}

/// What the driver has to do next. `C` is the driver's claim to the lock, which shares an attempt.
#[derive(Debug)]
pub(crate) enum Action<C> {
    /// Look at the place in the local queue, and call [`Acquire::handle_turn`](super::Acquire::handle_turn).
    Look,
    /// Subscribe to the lock's releases, and call [`Acquire::handle_subscribed`](super::Acquire::handle_subscribed). Given if
    /// the lock is a fair one: the name of the caller, whom the nodes tell that it is its turn.
    Subscribe(Option<u64>),
    /// The lock is left to others from now on. What nodes tell of the process's own last release is no news.
    IgnoreOwnRelease,
    /// The lock is left to others no longer. Note whether a release was `heard` of meanwhile.
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
    /// Give back what the attempt may have left on the nodes. What was asked is kept for faults and votes.
    GiveBack(C),
    /// Tell all nodes to take that caller out of the queue that they keep for a fair lock. It has to be told behind what the
    /// call has asked them. They are told for so long.
    LeaveQueue(u64, Duration),
    /// Tell all nodes but those of `granted_by` to take back the reservations of that priority, behind what the call has
    /// asked them. They are told for so long.
    Withdraw { priority: Priority, granted_by: Vec<usize>, within: Duration },
    /// Note what the attempt that was given back has shown.
    Failed(Failed),
    /// Report that the call waits for the nodes to grant locks, which is in that time.
    TellNotAdmitted(Duration),
    /// Return the lock that was granted.
    Granted(C, Grant),
    /// Return the lock that a thread of this process handed over, or that the caller has joined or taken again.
    HandedOver,
    /// Return without a lock.
    Refuse(Outcome),
}

/// Which nodes to ask.
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
    /// What the threads behind this one in the local queue are shown. `None`: the caller's own deadline cut the
    /// attempt short, which says nothing.
    pub(crate) conclusion: Option<Conclusion>,
    pub(crate) quorum: Quorum,
    pub(crate) started: Time,
}

/// What ends the wait before [`Acquire::poll_timeout`](super::Acquire::poll_timeout).
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
    /// What is told of releases: [`Acquire::handle_releases`](super::Acquire::handle_releases).
    Releases,
    /// Nothing but the time.
    Time,
}

/// Why a call is stopped before it has its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// By its caller.
    Cancelled,
    /// With its client.
    Closed,
}
