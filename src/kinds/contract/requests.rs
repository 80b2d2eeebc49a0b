//! The requests to the nodes under one owner id.

use std::time::Duration;

use crate::core::acquire::Waits;
use crate::core::admission::Offset;
use crate::core::base::Time;
use crate::core::hold::ExtendRequest;
use crate::core::vote::{Permits, ReleasePlan};
use crate::ident::Names;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::values::{Claimant, Fence, Keep, Raise, Repair};
use crate::node::Request;

/// Makes the requests of one owner.
#[derive(Clone, Copy)]
pub(crate) struct OwnerRequests<'a> {
    pub(crate) kind: &'static Kind,
    pub(crate) names: &'a Names,
    /// The key under which each node keeps its mark.
    pub(crate) mark_key: &'a [u8],
    pub(crate) owner: &'a str,
    /// For a semaphore: the slots that are asked for.
    pub(crate) permits: Permits,
    /// The number of the lock that was won; 0 before that, and without fencing.
    pub(crate) number: u64,
    /// True if newcomers are granted locks only under an admitted mark.
    pub(crate) quarantine: bool,
}

impl OwnerRequests<'_> {
    const fn claimant(&self) -> Claimant<'_> {
        Claimant { owner: self.owner, permits: self.permits }
    }

    /// Asks for the lock, for a caller that `waits`. `proposal`: a number for the grant; `None` without fencing.
    pub(crate) fn acquire(&self, ttl: Duration, waits: Waits, proposal: Option<u64>) -> Request {
        self.kind.acquire(self.names, self.mark_key, self.claimant(), ttl, waits, proposal)
    }

    /// Tells a node the lock's number; `None`: locks of this kind have none.
    pub(crate) fn confirm(&self, number: u64) -> Option<Request> {
        self.kind.confirm(self.names, self.owner, number)
    }

    /// Asks `node` to let the key live longer, and to set it again if it is gone. `until_ms` reads a time off that
    /// node's clock, in milliseconds. Returns `None` if `request` leaves the node out.
    pub(crate) fn extend(
        &self,
        request: &ExtendRequest,
        node: usize,
        until_ms: impl FnOnce(Time) -> i64,
    ) -> Option<Request> {
        let up_to = request.up_to[node]?;
        let number = self.number;
        let repair = Repair {
            until_ms: request.repair_until.map_or(0, until_ms),
            mark_key: self.mark_key,
            quarantine: self.quarantine,
            fence: (number > 0).then(|| Fence { number, up_to: up_to.max(number) }),
        };
        Some(self.kind.extend(self.names, self.claimant(), request.ttl, repair))
    }

    /// Gives the lock back.
    pub(crate) fn release(&self) -> Request {
        self.kind.release(self.names, self.claimant(), None, None)
    }

    /// Gives the lock back as `plan` says; `None` if a plain release does the same. A node whose `clock` is unknown
    /// does not keep the lock.
    pub(crate) fn release_by(&self, plan: &ReleasePlan, clock: Option<Offset>) -> Option<Request> {
        let keep = plan.kept.zip(clock).map(|(kept, clock)| Keep {
            until_ms: clock.at_most_ms(kept.until),
            by_ms: clock.at_least_ms(kept.by),
        });
        let raise = plan.raise_to.map(|to| Raise { to, lasts: plan.longest_ttl });
        let is_plain = keep.is_none() && raise.is_none();
        (!is_plain).then(|| self.kind.release(self.names, self.claimant(), keep, raise))
    }
}
