//! Figures about a client and its nodes, for monitoring.

mod recorder;
mod snapshot;
mod times;

pub(crate) use recorder::{LocalGrant, Recorder};
pub use snapshot::{
    AttemptStats, KindStats, LocalGrantStats, LossStats, NodeCondition, NodeStats, RenewalStats,
    Stats, WakeUpStats,
};
pub use times::Times;
