//! What a lock keeps of its present holder.

use std::sync::Arc;

use super::loss::LossNotice;
use crate::core::FencingToken;

/// What a lock keeps of its present holder, and nobody else gets.
pub(crate) struct HoldState {
    pub(crate) notice: LossNotice,
    /// `None` without fencing.
    pub(crate) token: Option<FencingToken>,
    /// How often the lock was handed over before.
    pub(crate) sequence: u64,
}

impl HoldState {
    pub(crate) fn new(token: Option<FencingToken>, sequence: u64) -> Arc<Self> {
        Arc::new(Self { notice: LossNotice::new(), token, sequence })
    }
}
