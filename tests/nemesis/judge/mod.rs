//! The judge: pure functions over a history of the witness.
//!
//! Each check returns its findings, so that tests can feed it wrong histories. A program that
//! includes this module has the module `witness` at its root.

#![allow(
    dead_code,
    unused_imports,
    reason = "compiled into several programs, and each uses only a part of it"
)]

pub(crate) mod absence;
pub(crate) mod calls;
pub(crate) mod count;
pub(crate) mod exclusion;
pub(crate) mod faults;
pub(crate) mod foremost;
pub(crate) mod holds;
pub(crate) mod permits;
pub(crate) mod picture;
pub(crate) mod readers;
pub(crate) mod recovery;
pub(crate) mod report;
pub(crate) mod stores;
pub(crate) mod tokens;
pub(crate) mod violation;
pub(crate) mod waits;

pub(crate) use report::{Rules, Verdict};
pub(crate) use violation::Violation;
