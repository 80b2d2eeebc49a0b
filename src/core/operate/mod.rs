//! The requests of operators: a list of the holders of locks, and the removal of a lock by force.
//!
//! This module judges the answers of the nodes. It knows nothing of this client's own locks and callers.

mod forcing;
mod holders;
mod scan;
mod telling;

pub(crate) use forcing::{Force, ForcePlan};
pub use holders::{HeldAs, KeyLayout, LockState};
pub(crate) use holders::{HeldKey, HolderVote, Holders};
#[cfg(test)]
pub(crate) use scan::ScanStep;
pub(crate) use scan::{Scan, ScanVote};
pub(crate) use telling::Telling;
