//! The line of one client for one name, as `src/runtime/queue.rs` carries it.

use std::rc::Rc;

use super::caller::Caller;
use super::checkers::outlives;
use super::client::{Client, Cx};
use super::fairness::FairnessEntry;
use super::held::Held;
use super::subscriptions::owner_number;
use crate::core::{Conclusion, Grant, Lease, LocalQueue, Looked, QueueTicket, Terms, Turn, Wake};

pub(super) struct Line {
    queue: LocalQueue<Slot>,
    holder: Option<Rc<Held>>,
}

/// A caller in line.
struct Slot {
    caller: usize,
    terms: Terms,
    once: bool,
    /// The lock, if it was handed over.
    handed: Option<Rc<Held>>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { queue: LocalQueue::new(), holder: None }
    }
}

impl Client {
    /// A caller comes, who wants the lock.
    pub(super) fn stand_in_line(
        &mut self,
        cx: &mut Cx<'_>,
        name: usize,
        terms: Terms,
        once: bool,
        caller: usize,
    ) -> QueueTicket {
        let ticket = cx.net.fresh();
        self.lines[name].queue.enter(
            ticket,
            terms,
            once,
            Slot { caller, terms, once, handed: None },
        );
        ticket
    }

    /// What there is to see for a caller in line; and the lock, if it was handed over. Where the lock is
    /// to be left to others, who had it here last.
    pub(super) fn look(
        &mut self,
        cx: &mut Cx<'_>,
        name: usize,
        ticket: QueueTicket,
        last_owner: &mut Option<u128>,
    ) -> (Looked, Option<Rc<Held>>) {
        let now = cx.now();
        let Line { queue, holder } = &mut self.lines[name];
        let held_until = holder.as_ref().and_then(|held| held.held_until(now));
        if let Some(held) = queue.with(ticket).and_then(|slot| slot.handed.take()) {
            let valid = held.held_until(now).is_some();
            queue.take(ticket, valid);
            return match valid {
                true => (Looked::HandedOver, Some(held)),
                false => (Looked::HandedOverTooLate, None),
            };
        }
        let mut fairness = cx.shared.fairness.borrow_mut();
        let entry = fairness.of(name);
        let fairness = entry.as_ref().map(|entry| &entry.fairness);
        let place = match queue.with(ticket) {
            // Each caller has a line for itself.
            Some(Slot { terms, once, .. }) if !cx.settings.local_queues => {
                let mut own_queue = LocalQueue::new();
                own_queue.enter(ticket, *terms, *once, ());
                own_queue.place(ticket, None, fairness, now)
            }
            _ => queue.place(ticket, held_until, fairness, now),
        };
        if let Turn::GiveWay(_) = place.turn {
            *last_owner = entry.and_then(|entry| entry.last_owner);
        }
        (Looked::Place(place), None)
    }

    /// A caller has left the lock to others, until its time was over or a release was told (`heard`).
    pub(super) fn gave_way(&mut self, cx: &mut Cx<'_>, name: usize, heard: bool) {
        if let Some(entry) = cx.shared.fairness.borrow_mut().of(name) {
            entry.fairness.gave_way(heard);
        }
    }

    /// The nodes were asked by a caller, who did not get the lock.
    pub(super) fn concluded(&mut self, cx: &mut Cx<'_>, name: usize, conclusion: Conclusion) {
        if let (Some(entry), Conclusion::Held { .. }) =
            (cx.shared.fairness.borrow_mut().of(name), conclusion)
        {
            entry.fairness.refused();
        }
        let wake = self.lines[name].queue.concluded(conclusion);
        self.wake(cx, name, wake);
    }

    /// A caller has got the lock from the nodes.
    pub(super) fn won(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, grant: Grant) {
        let (name, now) = (held.claim.name, cx.now());
        let mut fairness = cx.shared.fairness.borrow_mut();
        if grant.refused_before {
            fairness.heard(name, 0, now);
        }
        if let Some(entry) = fairness.of(name) {
            entry.fairness.granted(now);
        }
        let line = &mut self.lines[held.claim.name];
        line.queue.won(held.ticket);
        line.holder = Some(held.clone());
    }

    /// The holder gives the lock back: whether it was handed to the next in line.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>) -> bool {
        if !cx.settings.local_queues {
            return false;
        }
        let (name, now) = (held.claim.name, cx.now());
        let queue = &mut self.lines[name].queue;
        let others = cx.shared.fairness.borrow().others_wait(name, now);
        let mut lock = held.lock.borrow_mut();
        let from = lock.holder();
        let choose = |lease: &mut Lease| queue.hand_over(held.ticket, lease, others, now);
        let Some(ticket) = lock.hand_over(from, choose) else { return false };
        drop(lock);
        let Some(slot) = queue.with(ticket) else { return false };
        slot.handed = Some(held.clone());
        let terms = slot.terms;
        held.handed_over(terms, now);
        let (who, caller) = (cx.client, slot.caller);
        cx.net
            .tell(|| format!("client {who}: {} is handed to caller {caller}", held.claim.short()));
        if let Some(what) = outlives(cx.net, &held.claim, terms) {
            cx.net.checks.report(cx.net.now, "terms", what);
        }
        held.sleep_anew(cx);
        self.wake(cx, name, Wake::One(ticket));
        true
    }

    /// The lock has been given back to the nodes, or was `lost`.
    pub(super) fn gone(&mut self, cx: &mut Cx<'_>, held: &Rc<Held>, lost: bool) {
        let (name, now) = (held.claim.name, cx.now());
        if let Some(FairnessEntry { fairness, last_owner }) =
            cx.shared.fairness.borrow_mut().of(name)
            && !lost
        {
            fairness.given_back(now);
            *last_owner = owner_number(held.claim.owner.as_bytes());
        }
        let others = cx.shared.fairness.borrow().others_wait(name, now);
        let line = &mut self.lines[name];
        line.holder.take_if(|holder| Rc::ptr_eq(holder, held));
        let wake = line.queue.gone(held.ticket, lost, others, now);
        self.wake(cx, name, wake);
    }

    /// A caller wants the lock no longer, or has got it.
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>, name: usize, ticket: QueueTicket) {
        let queue = &mut self.lines[name].queue;
        let handed = queue.with(ticket).and_then(|slot| slot.handed.take());
        let (gives_back, wake) = queue.leave(ticket);
        self.wake(cx, name, wake);
        if let Some(held) = handed.filter(|_| gives_back) {
            held.drop_guard(self, cx);
        }
    }

    fn wake(&mut self, cx: &mut Cx<'_>, name: usize, wake: Wake) {
        let queue = &mut self.lines[name].queue;
        let callers: Vec<_> = match wake {
            Wake::Nobody => Vec::new(),
            Wake::One(ticket) => queue.with(ticket).map(|slot| slot.caller).into_iter().collect(),
            Wake::All => queue.all().map(|slot| slot.caller).collect(),
        };
        for caller in callers {
            if let Some(note) = self.callers.get(caller).and_then(Caller::waits_in_line) {
                cx.wake(note);
            }
        }
    }
}
