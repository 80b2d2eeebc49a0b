//! The values of which requests to nodes are made.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::vote::Permits;
use crate::ident::Names;

/// The channel of the lock with that key.
pub(crate) type ChannelOf = fn(&[u8]) -> Vec<u8>;

/// The values of which all keys and arguments of a call are made.
#[derive(Clone, Copy)]
pub(crate) struct CallValues<'a> {
    pub(crate) names: &'a Names,
    pub(crate) mark_key: &'a [u8],
    pub(crate) owner: &'a str,
    pub(crate) redissons_channel: Option<ChannelOf>,
    pub(crate) ttl: Duration,
    pub(crate) waits: Waits,
    /// The name of a caller in the queue. `None`: the owner's.
    pub(crate) queued: Option<&'a str>,
    /// The number of the grant, or the one proposed for it.
    pub(crate) number: Option<u64>,
    /// The TTL of the lock whose fence this call sets. `None`: it gets no fence.
    pub(crate) fence_for: Option<Duration>,
    pub(crate) permits: Option<Permits>,
    pub(crate) repair: Option<Repair<'a>>,
    pub(crate) keep: Option<Keep>,
    pub(crate) raise: Option<Raise>,
}

impl<'a> CallValues<'a> {
    pub(crate) fn new(names: &'a Names, mark_key: &'a [u8], owner: &'a str) -> Self {
        Self {
            names,
            mark_key,
            owner,
            redissons_channel: None,
            ttl: Duration::ZERO,
            waits: Waits::default(),
            queued: None,
            number: None,
            fence_for: None,
            permits: None,
            repair: None,
            keep: None,
            raise: None,
        }
    }
}

/// The owner on whose behalf a node is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant<'a> {
    pub(crate) owner: &'a str,
    /// For a semaphore: the owner's slots.
    pub(crate) permits: Permits,
}

#[cfg(test)]
impl<'a> Claimant<'a> {
    /// The owner of a lock that is no semaphore.
    pub(crate) fn of(owner: &'a str) -> Self {
        Self { owner, permits: Permits::default() }
    }
}

/// The time until which a node keeps a lock that was given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep {
    /// The time in milliseconds of the node's own clock.
    pub(crate) until_ms: i64,
    /// The latest time at which the keeping may begin, by the same clock. A release that arrives later gives the lock
    /// back, and no more.
    pub(crate) by_ms: i64,
}

/// The number to which a release raises the lock's fence, so that no later extension sets the key again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raise {
    pub(crate) to: u64,
    /// The longest time for which such an extension may be under way.
    pub(crate) lasts: Duration,
}

/// The conditions under which an extension sets our key again if it is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair<'a> {
    /// The time until which the key may be set again, in milliseconds of the node's own clock.
    pub(crate) until_ms: i64,
    /// The key under which the node keeps its mark.
    pub(crate) mark_key: &'a [u8],
    /// True if newcomers are granted locks only under an admitted mark.
    pub(crate) quarantine: bool,
    /// The lock's number and its limit; `None` without fencing.
    pub(crate) fence: Option<Fence>,
}

/// The number of a held lock, and the largest number that a node may know if the key is to be set there again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fence {
    pub(crate) number: u64,
    pub(crate) up_to: u64,
}
