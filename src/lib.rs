#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod claim;
mod client;
mod clock;
mod config;
mod coordinator;
mod error;
mod exit;
mod guard;
mod ident;
mod kinds;
mod node;
mod observe;
mod quorum;
mod round;
mod stats;

pub use client::Quorlock;
pub use config::Builder;
pub use error::{Error, ErrorKind, NodeFault};
pub use guard::{Guard, Mode};
pub use kinds::Mutex;
pub use stats::NodeStats;
