//! The contract between the threads and the scripts: a kind's own statements, the requests to its nodes, and the
//! meaning of their answers.
//!
//! The threads, the simulator and the tests know no more of a kind than this contract. It knows the requests to nodes
//! (`node`), and nothing of threads, clients and guards.

#[cfg(all(test, feature = "embedded"))]
pub(crate) mod holders;
pub(crate) mod kind;
pub(crate) mod layout;
pub(crate) mod reply;
pub(crate) mod requests;
pub(crate) mod reservations;
pub(crate) mod values;
