//! The local queues of a client, as `src/runtime/queue.rs` carries them.

use std::rc::Rc;

use super::caller::Caller;
use super::checkers::outlives;
use super::client::{Client, Cx};
use super::held::Held;
use super::lock_id::LockId;
use super::subscriptions::owner_number;
use crate::core::{Conclusion, Grant, Lease, LocalQueues, Place, QueueTicket, Terms, Turn, Wake};

pub(super) type Queues = LocalQueues<LockId, Waiter, Rc<Held>>;

/// A caller in a queue.
pub(super) struct Waiter {
    caller: usize,
    terms: Terms,
    /// The lock, if it was handed over.
    handed: Option<Rc<Held>>,
}

impl Client {
    /// A caller comes, who wants the lock.
    pub(super) fn enter_queue(
        &mut self,
        cx: &mut Cx<'_>,
        id: LockId,
        terms: Terms,
        once: bool,
        caller: usize,
    ) -> QueueTicket {
        let waiter = Waiter { caller, terms, handed: None };
        cx.shared.queues.borrow_mut().enter(&id, terms, once, waiter)
    }

    /// What a caller finds in its queue; and the lock, if it was handed over.
    pub(super) fn look(
        &mut self,
        cx: &mut Cx<'_>,
        id: LockId,
        ticket: QueueTicket,
    ) -> (Place, Option<Rc<Held>>) {
        let now = cx.now();
        let mut queues = cx.shared.queues.borrow_mut();
        let handed = queues.waiter(&id, ticket).and_then(|waiter| waiter.handed.take());
        let held_until = queues.holder(&id).and_then(|held| held.held_until(now));
        let place = queues.look(&id, ticket, held_until, now);
        (place, handed.filter(|_| place.turn == Turn::HandedOver))
    }

    /// How many others wait for the lock in other processes, as far as is known.
    pub(super) fn others(&self, cx: &Cx<'_>, id: LockId) -> u32 {
        cx.shared.queues.borrow().others(&id, cx.now())
    }

    /// The owner that has given the lock back here last.
    pub(super) fn last_owner(&self, cx: &Cx<'_>, id: LockId) -> Option<u128> {
        owner_number(cx.shared.queues.borrow().last_owner(&id)?.as_bytes())
    }

    /// A caller has left the lock to others, until its time was over or a release was told (`heard`).
    pub(super) fn giving_way_is_over(&mut self, cx: &mut Cx<'_>, id: LockId, heard: bool) {
        cx.shared.queues.borrow_mut().giving_way_is_over(&id, heard);
    }

    /// The nodes were asked by a caller, who did not get the lock.
    pub(super) fn concluded(&mut self, cx: &mut Cx<'_>, id: LockId, conclusion: Conclusion) {
        let wake = cx.shared.queues.borrow_mut().concluded(&id, conclusion);
        self.wake(cx, id, wake);
    }

    /// A caller has got the lock from the nodes.
    pub(super) fn won(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, grant: Grant) {
        let (id, now) = (held.claim.lock, cx.now());
        let mut queues = cx.shared.queues.borrow_mut();
        queues.won(&id, held.ticket, grant.refused_before, held.clone(), now);
    }

    /// The holder gives the lock back: whether it was handed to the next in the queue.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>) -> bool {
        let (id, now, shared) = (held.claim.lock, cx.now(), cx.shared.clone());
        let mut queues = shared.queues.borrow_mut();
        let mut lock = held.lock.borrow_mut();
        let from = lock.holder();
        let choose = |lease: &mut Lease| queues.hand_over(&id, held.ticket, lease, now);
        let Some(ticket) = lock.hand_over(from, choose) else { return false };
        drop(lock);
        let Some(waiter) = queues.waiter(&id, ticket) else { return false };
        waiter.handed = Some(held.clone());
        let terms = waiter.terms;
        held.handed_over(terms, now);
        let (who, caller) = (cx.client, waiter.caller);
        drop(queues);
        cx.net
            .tell(|| format!("client {who}: {} is handed to caller {caller}", held.claim.short()));
        if let Some(what) = outlives(cx.net, &held.claim, terms) {
            cx.net.checks.report(cx.net.now, "terms", what);
        }
        held.sleep_anew(cx);
        self.wake(cx, id, Wake::One(ticket));
        true
    }

    /// The lock has been given back to the nodes, or was `lost`.
    pub(super) fn gone(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, lost: bool) {
        let (id, now) = (held.claim.lock, cx.now());
        let owner = &held.claim.owner;
        let wake = cx.shared.queues.borrow_mut().gone(&id, held.ticket, owner, lost, now);
        self.wake(cx, id, wake);
    }

    /// A caller wants the lock no longer, or has got it.
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>, id: LockId, ticket: QueueTicket) {
        let mut queues = cx.shared.queues.borrow_mut();
        let handed = queues.waiter(&id, ticket).and_then(|waiter| waiter.handed.take());
        let (gives_back, wake) = queues.leave(&id, ticket);
        drop(queues);
        self.wake(cx, id, wake);
        if let Some(held) = handed.filter(|_| gives_back) {
            held.drop_guard(self, cx);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, id: LockId, wake: Wake) {
        let shared = cx.shared.clone();
        for Waiter { caller, .. } in shared.queues.borrow().woken(&id, wake) {
            if let Some(note) = self.callers.get(*caller).and_then(Caller::waits_in_queue) {
                cx.wake(note);
            }
        }
    }
}
