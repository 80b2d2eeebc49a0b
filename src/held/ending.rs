//! How a held lock changes hands, and how it ends.

use std::sync::Arc;

use super::Held;
use crate::clock;
use crate::contention_sink::ContentionSink;
use crate::core::{Lease, LossReason, QueueTicket, ReleaseResult};
use crate::error::Error;
use crate::hold::{Hold, HoldState};
use crate::loss::Callbacks;
use crate::node::Sink;
use crate::observe;
use crate::queue::Queues;

impl Held {
    /// The lease is over: tells the holder, and hands out who is to be called, unless somebody else has
    /// told it. `None` if it had ended before. Otherwise [`clear_away`](Self::clear_away) is still to be
    /// done.
    pub(crate) fn lose(&self, reason: LossReason) -> Option<Option<Callbacks>> {
        self.end(None).map(|hold_state| hold_state.notice.lost(reason))
    }

    /// Gives back what the lost lock has left on the nodes. Whoever was the `first` to tell the holder
    /// tells it as an event, too.
    pub(crate) fn clear_away(&self, reason: LossReason, first: bool) {
        self.claim.release(self.longest_ttl(), None);
        self.queues().gone(&self.lease_id, self.claim.owner(), true);
        if first {
            observe::lost(self.claim.name(), reason);
        }
    }

    /// The holder itself has seen that the lock is lost, before the timetable has: there is one message for
    /// each loss, however it is found. Calls nothing here, since the holder must not be held up.
    fn tell(&self, hold_state: &HoldState, reason: LossReason) {
        let Some(callbacks) = hold_state.notice.lost(reason) else { return };
        if let Err(callbacks) = callbacks.call_apart() {
            self.claim.coordinator().timetable().leave(callbacks);
        }
        observe::lost(self.claim.name(), reason);
    }

    /// The present holder has seen it.
    pub(super) fn tell_holder(&self, reason: LossReason) {
        let hold_state = self.hold_state.lock().clone();
        self.tell(&hold_state, reason);
    }

    /// The holder gives the lock back without waiting.
    pub(crate) fn give_back(self: &Arc<Self>, hold_state: &Arc<HoldState>) {
        if self.hand_over(hold_state) {
            return;
        }
        let lost = self.lease().loss(clock::now());
        if let Some(reason) = lost {
            self.tell(hold_state, reason);
        }
        if self.end(Some(hold_state)).is_some() {
            hold_state.notice.given_back();
            self.claim.release(self.longest_ttl(), Some(&self.contention_sink(None)));
            // Behind the releases, for who is next asks the same nodes over the same connections.
            self.queues().gone(&self.lease_id, self.claim.owner(), lost.is_some());
        }
    }

    /// The holder gives the lock back, and hears whether it was ours until then.
    pub(crate) fn give_back_and_wait(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
    ) -> Result<(), Error> {
        let lost = self.check();
        if lost.is_ok() && self.hand_over(hold_state) {
            return Ok(());
        }
        self.end(Some(hold_state));
        let sent = || self.queues().gone(&self.lease_id, self.claim.owner(), lost.is_err());
        let (longest_ttl, basis, no_wait) = (self.longest_ttl(), self.basis(), lost.is_err());
        let sink = |round| self.contention_sink(Some(round));
        let released = self.claim.release_and_wait(longest_ttl, basis, no_wait, sink, sent);
        lost?;
        if matches!(released, Ok(ReleaseResult::WasLost)) {
            self.tell(hold_state, LossReason::KeysGone);
            return Err(self.lost("its keys were gone from the nodes before it was given back"));
        }
        // Not before that is known: there would be no message about the loss.
        hold_state.notice.given_back();
        released.map(|_| ())
    }

    /// Hands the lock to the next thread of this process that waits for it, if there is
    /// one to whom it can pass.
    fn hand_over(self: &Arc<Self>, hold_state: &Arc<HoldState>) -> bool {
        let handed_over = self.queues().hand_over(self, hold_state);
        if handed_over {
            // The next one may hold it for less long. First, for what a callback owns that is not called
            // any more may do anything when it is dropped.
            self.check_again();
            hold_state.notice.given_back();
        }
        handed_over
    }

    /// The lock passes from its holder to the waiter that is chosen for its lease, with its sequence number;
    /// renewal goes on. `None`: to nobody.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
        choose: impl FnOnce(&mut Lease) -> Option<(QueueTicket, u64)>,
    ) -> Option<(QueueTicket, Hold)> {
        let rounds = self.rounds.lock();
        let mut current = self.hold_state.lock();
        if rounds.ended() || !Arc::ptr_eq(&current, hold_state) {
            return None;
        }
        let (ticket, sequence) = choose(&mut self.lease())?;
        let next = HoldState::new(self.claim.token(sequence));
        current.clone_from(&next);
        drop(current);
        drop(rounds);
        Some((ticket, Hold::new(self.clone(), next)))
    }

    /// Hears whether somebody elsewhere is told of the release.
    fn contention_sink(&self, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        let coordinator = self.claim.coordinator();
        let (queues, subscriptions) =
            (coordinator.queues().clone(), coordinator.subscriptions().clone());
        Arc::new(ContentionSink {
            queues,
            subscriptions,
            key: self.claim.name().key().into(),
            inner,
        })
    }

    fn queues(&self) -> &Arc<Queues> {
        self.claim.coordinator().queues()
    }

    /// Ends the renewal, if the lock is still that of the holder that gives it back. Returns whose it was, if
    /// this was the first call to do so.
    fn end(&self, given_back_by: Option<&Arc<HoldState>>) -> Option<Arc<HoldState>> {
        let mut rounds = self.rounds.lock();
        let hold_state = self.hold_state.lock().clone();
        if given_back_by.is_some_and(|by| !Arc::ptr_eq(by, &hold_state))
            || !self.claim.round().with(|attempt| rounds.end(attempt))
        {
            return None;
        }
        drop(rounds);
        *self.poke.lock() = None;
        if let Some(entry) = self.entry.lock().take() {
            self.claim.coordinator().timetable().strike(entry);
        }
        Some(hold_state)
    }
}
