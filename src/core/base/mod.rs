//! The terms that all machines share: points in time and spans, pauses, majorities, and the validity of a grant.
//!
//! This module knows nothing of locks, nodes or callers. `mechanisms` names each rule that a test can switch off. `told_cases`
//! plays the cases in `../testdata`.

mod backoff;
mod basis;
mod duration;
mod hold_class;
mod mechanisms;
mod poll;
mod spare;
mod tally;
mod time;
#[cfg(test)]
pub(crate) mod told_cases;
pub(crate) mod validity;

pub(crate) use backoff::Backoff;
pub(crate) use basis::Basis;
pub(crate) use duration::{exact, rounded};
pub use hold_class::HoldClass;
#[cfg(test)]
pub(crate) use mechanisms::without;
pub(crate) use mechanisms::{Mechanism, Rule};
pub(crate) use poll::POLL;
pub(crate) use spare::give_room_back;
pub(crate) use tally::{Tally, Verdict, majority, votes_needed};
pub(crate) use time::Time;
pub(crate) use validity::{Allowance, drift};
