//! One held lock, from the grant to the end.
//!
//! This module decides when the lock is renewed, how long it is valid, when its holders are warned, and which requests
//! to release it they are told. It decides when the lock is lost and which holders hear of that, whether it may pass to
//! another holder, and in which steps it is given back.
//!
//! It knows how nodes are asked (`vote`). It knows nothing of waiting callers, and nothing of other locks.

mod asks;
mod give_back;
mod held_lock;
mod lease;
mod loss_notice;
#[cfg(test)]
#[path = "tests/lost_replies.rs"]
mod lost_replies;
mod prolong;
mod risk;
mod rounds;

pub(crate) use asks::ReadRequest;
pub(crate) use give_back::{Answers, GiveBack, GiveBackStep, GivenBack, Releases};
pub(crate) use held_lock::{Due, Ended, EndedBy, Ending, HeldLock};
pub use lease::LossReason;
pub(crate) use lease::{Lease, Next, Schedule, Terms};
pub(crate) use loss_notice::LossNotice;
pub(crate) use prolong::{ExtendRequest, Prolong, ProlongStep, Prolonged};
pub(crate) use risk::RiskNews;
pub use risk::RiskReason;
use rounds::Rounds;
