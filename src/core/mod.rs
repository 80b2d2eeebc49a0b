//! The rules of the protocol, as pure state machines.
//!
//! This folder has no clock, no thread, no I/O and no Redis: time, votes and random numbers come in
//! as arguments, verdicts and clean-ups come out. All code outside of it only carries them, so that
//! a simulator drives the very code that ships.

pub(crate) mod acquire;
pub(crate) mod admission;
pub(crate) mod base;
pub(crate) mod hold;
pub(crate) mod link;
pub(crate) mod operate;
pub(crate) mod queue;
pub(crate) mod vote;
pub(crate) mod wake;
