//! What a lock keeps of each present holder.

use std::sync::Arc;

use super::loss::Notice;
use crate::core::vote::FencingToken;

/// What a lock keeps of a present holder, and nobody else gets.
pub(crate) struct HoldState {
    pub(crate) notice: Notice,
    /// `None` without fencing.
    pub(crate) token: Option<FencingToken>,
    /// How many had the lock before that holder got it: they were handed it, or have joined it. A hold of a lock that was
    /// taken again has a number of its own.
    pub(crate) sequence: u64,
}

impl HoldState {
    pub(crate) fn new(token: Option<FencingToken>, sequence: u64) -> Arc<Self> {
        Arc::new(Self { notice: Notice::new(), token, sequence })
    }
}
