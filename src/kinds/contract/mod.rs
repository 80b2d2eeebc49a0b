//! The contract between the threads and the scripts: what a kind states of itself, the requests that its nodes get, and what their answers
//! mean.
//!
//! The threads, the simulator and the tests know no more of a kind than this. It knows the nodes' requests (`node`), and nothing of
//! threads, clients and guards.

#[cfg(all(test, feature = "embedded"))]
pub(crate) mod holders;
pub(crate) mod kind;
pub(crate) mod layout;
pub(crate) mod reply;
pub(crate) mod requests;
pub(crate) mod reservations;
pub(crate) mod values;
