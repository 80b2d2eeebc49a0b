//! The threads: they carry events into the machines of `core/`, and do what these decide.

pub(crate) mod administration;
pub(crate) mod admit;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod client_state;
pub(crate) mod coordinator;
pub(crate) mod exit;
pub(crate) mod fan_out;
mod forgetting;
pub(crate) mod held;
pub(crate) mod held_locks;
pub(crate) mod hold;
pub(crate) mod holder;
pub(crate) mod obstacles;
pub(crate) mod queue;
pub(crate) mod renewal;
pub(crate) mod reports;
pub(crate) mod subscriptions;
pub(crate) mod timetable;
