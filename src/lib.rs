#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// The page has no files beside it. Of two targets of one link the first counts, so these hide the README's.
#![doc = include_str!("../docs/pictures.md")]
#![doc = include_str!("../README.md")]

mod client;
mod clock;
mod config;
mod core;
#[cfg(feature = "diagnosis")]
mod diagnosis;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
#[cfg(all(test, feature = "embedded"))]
#[allow(dead_code, unreachable_pub, reason = "the tests in the crate use a part of it")]
#[path = "../tests/support/events.rs"]
mod events;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, not(fuzzing)))]
mod fuzzing;
mod guard;
mod handle;
mod holders;
mod ident;
mod kinds;
mod node;
mod observe;
pub mod operations {
    #![doc = include_str!("../OPERATIONS.md")]
}
mod optional;
mod process;
mod random;
mod rate_limit;
mod runtime;
mod rw_lock;
mod semaphore;
mod settings;
mod shared;
#[cfg(all(test, feature = "embedded"))]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod stats;
mod terms;
mod token;
mod unwind;
mod wait;
mod with_lock;

pub use client::Quorlock;
pub use config::Builder;
pub use core::{FencingToken, HeldAs, HoldClass, KeyLayout, LockState, LossReason};
/// The channels of [`Guard::lost`] and [`Wait::cancelled_by`], in the version that this crate uses.
#[doc(no_inline)]
pub use crossbeam_channel;
#[cfg(feature = "diagnosis")]
pub use diagnosis::{Check, Diagnosis, Finding, NodeDiagnosis, Severity};
pub use error::{Error, ErrorKind, NodeFault};
pub use guard::{Guard, LockGuard, Mode};
pub use handle::{Handle, LockKind, OneName};
pub use holders::{
    HeldLocks, Holder, HolderReport, Incomplete, NameReport, NodeAnswer, NodeReport,
};
pub use ident::Owner;
pub use kinds::*;
pub use optional::OptionalGuard;
pub use rate_limit::RateLimit;
pub use runtime::{Fallback, Renewal};
pub use rw_lock::RwLock;
pub use semaphore::Semaphore;
pub use settings::Settings;
pub use stats::NodeStats;
pub use terms::{Term, set_terms};
pub use token::InvalidToken;
pub use wait::Wait;
pub use with_lock::WithLockError;
