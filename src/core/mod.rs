//! The rules of the protocol, as pure state machines.
//!
//! No clock, no thread, no I/O and no Redis in here: time, votes and random numbers come in as
//! arguments, verdicts and clean-ups come out. Everything outside this folder only carries them, so
//! that a simulator drives the very code that ships.

mod acquire;
pub(crate) mod admission;
mod attempt;
mod backoff;
mod ballot;
mod basis;
pub(crate) mod channels;
mod clock_tracker;
pub(crate) mod clocks;
mod confirmation;
mod duration;
mod extension;
mod fairness;
mod fallback;
mod fencing;
#[cfg(test)]
mod fencing_mutations;
mod forcing;
mod give_back;
mod held_lock;
mod hold_class;
mod holders;
mod late;
mod lease;
mod local_queue;
mod local_queues;
mod loss_notice;
#[cfg(test)]
mod lost_replies;
pub(crate) mod mark;
mod mechanisms;
mod old_connections;
mod order;
mod prolong;
mod release;
mod release_tracker;
mod rounds;
mod scan;
pub(crate) mod set_time;
mod slots;
mod spare;
mod subscriber;
mod tally;
mod thread_holds;
mod time;
#[cfg(test)]
mod told_cases;
mod unused;
mod validity;

pub(crate) use acquire::{
    Acquire, Action, Begin, Failed, Grant, Obstacle, Outcome, Patience, Policy, Priority,
    Reservation, Reserves, SharedAttempt, Stop, Surroundings, Waits, WaitsFor, Whom,
};
pub(crate) use admission::{
    Admission, AsSeen, Chance, Change, Checked, ClockNews, ClockVerdict, Forgot, Grants,
    Next as NextProbe, NodeState, Probe, Role,
};
pub(crate) use attempt::{Attempt, Cleanup, Conclusion, ReleasePlan, Vote};
pub(crate) use backoff::Backoff;
pub(crate) use ballot::{Ballot, Failure, HEAR_OUT, Shared};
pub(crate) use basis::Basis;
pub(crate) use channels::{Changes, Channels, QUEUED, WaiterId};
pub(crate) use clock_tracker::Step as ClockStep;
pub(crate) use clocks::{Offset, worth_waiting};
pub(crate) use confirmation::{ConfirmVote, Confirmation};
pub(crate) use duration::{exact, rounded};
pub(crate) use extension::{Extension, ExtensionVote, Heard};
pub(crate) use fallback::{Judged, Judgement, News, Quorum, QuorumHealth, waits_for_a_try};
pub use fencing::FencingToken;
pub(crate) use fencing::{LARGEST_NUMBER, LastNumbers, Proposal, fence_outlives_ms};
pub(crate) use forcing::{ForcePlan, Forcing};
pub(crate) use give_back::{Answers, GiveBack, GiveBackStep, GivenBack, Releases};
pub(crate) use held_lock::{Due, Ended, EndedBy, Ending, HeldLock};
pub use hold_class::HoldClass;
pub use holders::{HeldAs, KeyLayout, LockState};
pub(crate) use holders::{HeldKey, HolderVote, Holders};
pub(crate) use late::{Copies, Late, Repetition, Via};
pub use lease::LossReason;
pub(crate) use lease::{Kept, Lease, Next, Renewed, Schedule, Terms};
pub(crate) use local_queue::{Askers, LocalLease, Place, QueueTicket, Turn, Wake};
pub(crate) use local_queues::{LocalQueues, OfThread, Passed};
pub(crate) use loss_notice::LossNotice;
pub(crate) use mark::{Configuration, Difference, Identity, Setting};
pub(crate) use mechanisms::Mechanism;
#[cfg(test)]
pub(crate) use mechanisms::without;
pub(crate) use old_connections::OldConnections;
pub(crate) use order::asking_order;
pub(crate) use prolong::{ExtendRequest, Prolong, ProlongStep, Prolonged};
pub(crate) use release::{Release, ReleaseResult, ReleaseVote, only_asked};
pub(crate) use release_tracker::{ReleaseTracker, WakeReason};
use rounds::Rounds;
pub(crate) use scan::{Scan, ScanVote};
pub(crate) use slots::{MOST_PERMITS, Permits, PermitsWanted, Slots};
pub(crate) use spare::give_room_back;
pub(crate) use subscriber::{Subscriber, SubscriberStep};
pub(crate) use tally::majority;
use thread_holds::{Again, ThreadHolds};
pub(crate) use time::Time;
pub(crate) use unused::{MayHaveForgotten, Past, may_have_forgotten};
pub(crate) use validity::{Allowance, drift};
