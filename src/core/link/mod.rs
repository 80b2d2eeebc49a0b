//! The connections to one master, as far as they are rules.
//!
//! It decides which requests may still run behind what a node has answered, for how long a release is repeated because of that, and
//! which old connections have to be ended on the server. It knows nothing of locks, and of no other node.

mod late;
mod old_connections;

pub(crate) use late::{Copies, LATEST, Late, Repetition, Via};
pub(crate) use old_connections::OldConnections;
