//! Figures about a client and its nodes, for monitoring.

mod labels;
mod outcome;
mod recorder;
mod snapshot;
mod times;

pub(crate) use labels::{LabelRecorder, check_label};
pub(crate) use recorder::{LocalGrant, Recorder};
pub use snapshot::{
    AttemptStats, CallStats, KindStats, LabelStats, LocalGrantStats, LossStats, NodeCondition,
    NodeStats, RenewalStats, Stats, WakeUpStats,
};
pub use times::Times;
