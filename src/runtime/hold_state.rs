//! What a lock keeps of its present holder.

use std::sync::Arc;

use super::loss::LossNotice;
use crate::core::FencingToken;

/// What a lock keeps of its present holder, and nobody else gets.
pub(crate) struct HoldState {
    pub(crate) notice: LossNotice,
    /// `None` without fencing.
    pub(crate) token: Option<FencingToken>,
}

impl HoldState {
    pub(crate) fn new(token: Option<FencingToken>) -> Arc<Self> {
        Arc::new(Self { notice: LossNotice::new(), token })
    }
}
