//! What the threads need to know of a kind of lock: how to take, extend and give back.

use std::fmt;
use std::time::Duration;

use crate::core::HoldClass;
use crate::node::Request;

/// A kind of lock.
pub(crate) trait Kind: fmt::Debug + Send + Sync {
    /// What it is called. Names of different kinds have different local queues.
    fn label(&self) -> &'static str;

    /// How many holders of one process it lets in.
    fn hold_class(&self) -> HoldClass;

    /// Takes the lock under the mark that is written with the call, and that the node keeps at
    /// `mark_key`. `proposal`: a number for the grant; `None` without fencing.
    fn acquire(
        &self,
        key: &[u8],
        mark_key: &[u8],
        owner: &str,
        ttl: Duration,
        proposal: Option<u64>,
    ) -> Request;

    /// Tells a node that it granted the lock with that `number`.
    fn confirm(&self, key: &[u8], owner: &str, number: u64) -> Request;

    fn extend(&self, key: &[u8], owner: &str, ttl: Duration, repair: Repair<'_>) -> Request;

    /// Gives the lock back, and raises its fence as `raise` says.
    fn release(&self, key: &[u8], owner: &str, raise: Option<Raise>) -> Request;
}

/// To what a release raises the lock's fence, so that no extension behind it sets the key again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raise {
    pub(crate) to: u64,
    /// How long such an extension may be under way.
    pub(crate) lasts: Duration,
}

/// What an extension may do where our key is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair<'a> {
    /// Until when, in milliseconds of the node's own clock, the key may be set again.
    pub(crate) until_ms: i64,
    /// Where the node keeps its mark.
    pub(crate) mark_key: &'a [u8],
    /// Whether newcomers are granted nothing but under an admitted mark.
    pub(crate) quarantine: bool,
    /// `None` without fencing.
    pub(crate) fence: Option<Fence>,
}

/// The number of a lock that is held, and the largest one that a node may know for the key to be set
/// there again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) number: u64,
    pub(crate) up_to: u64,
}
