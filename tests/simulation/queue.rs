//! The local queues of a client, as `src/runtime/queue.rs` carries them.

use std::rc::Rc;
use std::sync::Arc;

use super::caller::Caller;
use super::checkers::outlives;
use super::client::{Client, Cx};
use super::held::{Held, Hold};
use super::lock_id::LockId;
use crate::core::base::HoldClass;
use crate::core::hold::{Lease, Terms};
use crate::core::queue::{
    Askers, LocalQueues, OfThread, Passed, Place, QueueKey, QueueTicket, Turn, Wake,
};
use crate::core::vote::{Conclusion, Grant};

/// A local queue, by its lock.
pub(super) type QueueId = QueueKey<LockId>;

pub(super) type Queues = LocalQueues<QueueId, Waiter, Rc<Held>>;

/// A caller in a queue.
pub(super) struct Waiter {
    caller: usize,
    terms: Terms,
}

impl Client {
    /// Queues a caller that wants the lock.
    pub(super) fn enter_queue(
        &mut self,
        cx: &mut Cx<'_>,
        (id, askers): (QueueId, Askers),
        terms: Terms,
        once: bool,
        caller: usize,
    ) -> QueueTicket {
        self.forget_names(cx);
        let waiter = Waiter { caller, terms };
        let class = cx.settings.class_of(id.lock);
        cx.shared.queues.borrow_mut().enter(&id, class, askers, terms, once, waiter)
    }

    /// Forgets names that are no longer used. In the library the timer does so at any time, in the simulator each call.
    fn forget_names(&mut self, cx: &Cx<'_>) {
        let now = cx.now();
        self.numbers.tidy(now);
        cx.shared.queues.borrow_mut().tidy(now);
        cx.shared.channels.borrow_mut().tidy(now);
    }

    /// Returns a caller's place in its queue. Also returns the lock, if it was handed over or the caller has joined it.
    pub(super) fn look(
        &mut self,
        cx: &mut Cx<'_>,
        id: QueueId,
        ticket: QueueTicket,
    ) -> (Place, Option<Hold>) {
        let (who, now, shared) = (cx.client, cx.now(), cx.shared.clone());
        let mut queues = shared.queues.borrow_mut();
        let terms = queues.waiter(&id, ticket).map(|waiter| waiter.terms);
        let caller = queues.waiter(&id, ticket).map(|waiter| waiter.caller);
        let thread = caller.and_then(|caller| self.thread_of(caller, id));
        let lock = id.with_lock(id.lock.of_group());
        let class = cx.settings.class_of(id.lock);
        let of = thread.map(|thread| OfThread { thread, lock: &lock, class });
        let (place, Passed { takes, gives_back }) = queues.look(&id, ticket, of, now);
        drop(queues);
        if let Some(hold) = gives_back {
            cx.net.tell(|| format!("client {who}: {} is over already", hold.held.claim.short()));
            hold.drop_guard(self, cx);
        }
        if let (Turn::Joined, Some(hold), Some(terms)) = (place.turn, &takes, terms) {
            let claim = &hold.held.claim;
            cx.net.tell(|| format!("client {who}: {} is joined", claim.short()));
            if let Some(what) = outlives(cx.net, claim, terms) {
                cx.net.checks.report(cx.net.now, "terms", what);
            }
        }
        if let (Turn::Joined, Some(hold), Some(channel)) =
            (place.turn, &takes, id.lock.waiting_channel())
            && hold.sequence == 1
        {
            self.watch(cx, id, channel);
        }
        if let (Some(caller), Some(hold)) = (caller, &takes) {
            self.counted(cx, caller, class, hold);
        }
        (place, takes)
    }

    /// The caller's thread, if that may take the lock again.
    fn thread_of(&self, caller: usize, id: QueueId) -> Option<u64> {
        let caller = self.callers.get(caller).filter(|_| id.lock.kind().is_reentrant)?;
        Some(caller.thread)
    }

    /// Counts a hold that a caller has got, if its thread may take the lock again.
    pub(super) fn counted(&self, cx: &Cx<'_>, caller: usize, class: HoldClass, hold: &Hold) {
        let id = hold.held.claim.queue;
        if let Some(thread) = self.thread_of(caller, id) {
            let lock = id.with_lock(id.lock.of_group());
            let lease = hold.held.clone();
            let of = OfThread { thread, lock: &lock, class };
            cx.shared.queues.borrow_mut().took(of, lease, hold.sequence);
            hold.of_thread(thread, class);
        }
    }

    /// Tells the queue that the lock is shared from now on.
    pub(super) fn downgraded(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>) {
        let id = held.claim.queue;
        let wake = cx.shared.queues.borrow().downgraded(&id);
        self.wake(cx, id, wake);
    }

    /// Returns the number of callers in other processes that are known to wait for the lock.
    pub(super) fn others(&self, cx: &Cx<'_>, id: QueueId) -> u32 {
        cx.shared.queues.borrow().others(&id, cx.now())
    }

    /// The owner under which this client has given the lock back last.
    pub(super) fn last_owner(&self, cx: &Cx<'_>, id: QueueId) -> Option<Arc<str>> {
        cx.shared.queues.borrow().last_owner(&id)
    }

    /// Ends the time for which a caller leaves the lock to others: it is over, or a release was announced (`heard`).
    pub(super) fn giving_way_is_over(&mut self, cx: &mut Cx<'_>, id: QueueId, heard: bool) {
        cx.shared.queues.borrow_mut().giving_way_is_over(&id, heard);
    }

    /// Handles the end of an attempt that did not get the lock.
    pub(super) fn concluded(&mut self, cx: &mut Cx<'_>, id: QueueId, conclusion: Conclusion) {
        let wake = cx.shared.queues.borrow_mut().concluded(&id, conclusion);
        self.wake(cx, id, wake);
    }

    /// Handles a grant of the lock by the nodes.
    pub(super) fn won(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, grant: Grant) {
        let (id, now) = (held.claim.queue, cx.now());
        let (ticket, refused_before) = (held.ticket, grant.refused_before);
        let mut queues = cx.shared.queues.borrow_mut();
        let wake = queues.won(&id, ticket, refused_before, held.clone(), now);
        drop(queues);
        self.wake(cx, id, wake);
    }

    /// Offers a lock that its holder gives back. Returns true if it was handed to the next caller in the queue.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_>, hold: &Hold) -> bool {
        let held = &hold.held;
        let (id, now, shared) = (held.claim.queue, cx.now(), cx.shared.clone());
        let mut queues = shared.queues.borrow_mut();
        let mut lock = held.lock();
        let choose = |lease: &mut Lease| queues.hand_over(&id, held.ticket, lease, now);
        let Some((ticket, sequence)) = lock.hand_over(hold.sequence, choose) else { return false };
        drop(lock);
        let Some(&mut Waiter { caller, terms }) = queues.waiter(&id, ticket) else { return false };
        queues.handed(&id, ticket, held.handed_over(sequence, terms, now));
        let who = cx.client;
        drop(queues);
        cx.net.checks.handed_over(held.id);
        cx.net
            .tell(|| format!("client {who}: {} is handed to caller {caller}", held.claim.short()));
        if let Some(what) = outlives(cx.net, &held.claim, terms) {
            cx.net.checks.report(cx.net.now, "terms", what);
        }
        self.wake(cx, id, Wake::One(ticket));
        true
    }

    /// Handles the end of a lock that was given back to the nodes, or `lost`.
    pub(super) fn gone(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, lost: bool) {
        let (id, now) = (held.claim.queue, cx.now());
        let owner = held.claim.owner();
        let wake = cx.shared.queues.borrow_mut().gone(&id, held.ticket, owner, lost, now);
        self.wake(cx, id, wake);
    }

    /// Notes that another process has asked for the lock that is given back.
    pub(super) fn others_want(&self, cx: &mut Cx<'_>, held: &Rc<Held>) {
        cx.shared.queues.borrow_mut().heard(&held.claim.queue, 0, cx.now());
    }

    /// Removes a caller that no longer wants the lock, or has got it.
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>, id: QueueId, ticket: QueueTicket) {
        let mut queues = cx.shared.queues.borrow_mut();
        let (gives_back, wake) = queues.leave(&id, ticket);
        drop(queues);
        self.wake(cx, id, wake);
        if let Some(hold) = gives_back {
            hold.drop_guard(self, cx);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, id: QueueId, wake: Wake) {
        let shared = cx.shared.clone();
        for Waiter { caller, .. } in shared.queues.borrow().woken(&id, wake) {
            if let Some(note) = self.callers.get(*caller).and_then(Caller::waits_in_queue) {
                cx.wake(note);
            }
        }
    }
}
