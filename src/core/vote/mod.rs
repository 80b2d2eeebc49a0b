//! One request to all nodes, and the verdict from their answers.
//!
//! A `Ballot` counts the answers to one request: an attempt to take a lock, the confirmation of its number, an
//! extension, a release. It decides when the verdict is reached, what the verdict is, which number the lock has, and
//! which nodes need a clean-up afterwards. `fallback` judges by the first node's answer, where that is allowed.
//!
//! This module knows nothing of waiting callers, of repeated requests, or of the holder of a lock.

mod attempt;
mod ballot;
mod confirmation;
mod extension;
mod fallback;
mod fencing;
#[cfg(test)]
#[path = "tests/fencing_mutations.rs"]
mod fencing_mutations;
mod order;
mod release;
mod replicated;
mod round;
mod slots;

pub(crate) use super::link::Failure;
pub(crate) use attempt::{Attempt, Cleanup, Conclusion, Kept, ReleasePlan, Vote};
pub(crate) use ballot::{Ballot, HEAR_OUT, Shared};
pub(crate) use confirmation::{ConfirmVote, Confirmation};
pub(crate) use extension::{Extension, ExtensionVote, Heard, Renewed};
pub(crate) use fallback::{Grant, Judged, Judgement, News, Quorum, QuorumHealth, waits_for_a_try};
pub use fencing::FencingToken;
pub(crate) use fencing::{LARGEST_NUMBER, LAST_SEQUENCE, LastNumbers, Proposal, fence_outlives_ms};
pub(crate) use order::asking_order;
pub(crate) use release::{Release, ReleaseResult, ReleaseVote, only_asked};
pub(crate) use replicated::{enough_replicas, is_of_grantor};
pub(crate) use round::Round;
pub(crate) use slots::{MOST_PERMITS, Permits, PermitsWanted, Slots};
