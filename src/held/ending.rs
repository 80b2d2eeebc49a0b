//! How a held lock changes hands, and how it ends.

use std::sync::Arc;

use super::Held;
use crate::ears::Ears;
use crate::error::Error;
use crate::loss::Callbacks;
use crate::node::Sink;
use crate::observe;
use crate::queue::Queues;
use crate::quorum::{Lease, LossReason, ReleaseResult, Ticket};
use crate::tenancy::{Tenancy, Tenant};

impl Held {
    /// The lease is over: tells the holder, and hands out who is to be called. `None` if it had been
    /// given back, or told, before. Otherwise [`clear_away`](Self::clear_away) is still to be done.
    pub(crate) fn lose(&self, reason: LossReason) -> Option<Callbacks> {
        self.end(None).map(|tenant| tenant.notice.lost(reason))
    }

    /// Gives back what the lost lock has left on the nodes.
    pub(crate) fn clear_away(&self, reason: LossReason) {
        self.claim.release(self.longest_ttl(), None);
        self.queues().gone(&self.spot, self.claim.owner(), true);
        observe::lost(self.claim.name(), reason);
    }

    /// `tenant` gives the lock back without waiting.
    pub(crate) fn give_back(self: &Arc<Self>, tenant: &Arc<Tenant>) {
        if self.hand_over(tenant) {
            return;
        }
        if self.end(Some(tenant)).is_some() {
            tenant.notice.given_back();
            self.claim.release(self.longest_ttl(), Some(&self.ears(None)));
            // Behind the releases, for who is next asks the same nodes over the same connections.
            self.queues().gone(&self.spot, self.claim.owner(), false);
        }
    }

    /// `tenant` gives the lock back. Says whether it was ours until then.
    pub(crate) fn give_back_and_wait(self: &Arc<Self>, tenant: &Arc<Tenant>) -> Result<(), Error> {
        let lost = self.check();
        if lost.is_ok() && self.hand_over(tenant) {
            return Ok(());
        }
        if self.end(Some(tenant)).is_some() {
            tenant.notice.given_back();
        }
        let sent = || self.queues().gone(&self.spot, self.claim.owner(), lost.is_err());
        let (longest_ttl, basis, no_wait) = (self.longest_ttl(), self.basis(), lost.is_err());
        let sink = |round| self.ears(Some(round));
        let released = self.claim.release_and_wait(longest_ttl, basis, no_wait, sink, sent);
        lost?;
        if released? == ReleaseResult::WasLost {
            return Err(self.lost("its keys were gone from the nodes before it was given back"));
        }
        Ok(())
    }

    /// Hands the lock of `tenant` to the next thread of this process that waits for it, if there is
    /// one to whom it can pass.
    fn hand_over(self: &Arc<Self>, tenant: &Arc<Tenant>) -> bool {
        let handed_over = self.queues().hand_over(self, tenant);
        if handed_over {
            // The next one may hold it for less long. First, for what a callback owns that is not called
            // any more may do anything when it is dropped.
            self.look_again();
            tenant.notice.given_back();
        }
        handed_over
    }

    /// The lock passes from `tenant` to the one that is chosen for its lease, as the how-manieth;
    /// renewal goes on. `None`: to nobody.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        tenant: &Arc<Tenant>,
        choose: impl FnOnce(&mut Lease) -> Option<(Ticket, u64)>,
    ) -> Option<(Ticket, Tenancy)> {
        let rounds = self.rounds.lock();
        let mut current = self.tenant.lock();
        if rounds.ended() || !Arc::ptr_eq(&current, tenant) {
            return None;
        }
        let (ticket, sequence) = choose(&mut self.lease())?;
        let next = Tenant::new(self.claim.token(sequence));
        current.clone_from(&next);
        drop(current);
        drop(rounds);
        Some((ticket, Tenancy::new(self.clone(), next)))
    }

    /// Hears whether somebody elsewhere is told of the release.
    fn ears(&self, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        let coordinator = self.claim.coordinator();
        let (queues, hub) = (coordinator.queues().clone(), coordinator.hub().clone());
        Arc::new(Ears { queues, hub, key: self.claim.name().key().into(), inner })
    }

    fn queues(&self) -> &Arc<Queues> {
        self.claim.coordinator().queues()
    }

    /// Ends the renewal, if the lock is still that of the tenant who gives it back; whose it was, if
    /// this was the first to do so.
    fn end(&self, given_back_by: Option<&Arc<Tenant>>) -> Option<Arc<Tenant>> {
        let mut rounds = self.rounds.lock();
        let tenant = self.tenant.lock().clone();
        if given_back_by.is_some_and(|by| !Arc::ptr_eq(by, &tenant))
            || !self.claim.round().with(|attempt| rounds.end(attempt))
        {
            return None;
        }
        drop(rounds);
        *self.poke.lock() = None;
        if let Some(entry) = self.entry.lock().take() {
            self.claim.coordinator().timetable().strike(entry);
        }
        Some(tenant)
    }
}
