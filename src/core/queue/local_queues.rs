//! The local queues of one client by key, and the knowledge about other processes that want those locks.
//!
//! The driver adds a mutex, the wake-ups, and the lock that is handed over. This module links each queue with its
//! [`Fairness`].

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::super::base::give_room_back;
use super::super::base::{HoldClass, Time};
use super::super::hold::{Lease, Terms};
use super::super::vote::Conclusion;
use super::fairness::Fairness;
use super::local_queue::LocalQueue;
use super::{Again, Askers, LocalLease, Place, QueueTicket, ThreadHolds, Turn, Wake};

/// The local queues of one client. `W` is the driver's data for each caller, and `H` its data for each lease.
///
/// One key names a queue and the fairness of the same lock.
pub(crate) struct LocalQueues<K, W, H: LocalLease> {
    /// True if each caller asks the nodes for itself. Fairness between processes applies nevertheless.
    alone: bool,
    last_ticket: QueueTicket,
    /// Queues of the locks that a caller of this process holds or wants.
    queues: HashMap<K, LocalQueue<Caller<W, H::Hold>, H>>,
    /// Fairness of the locks that other processes want, or wanted a moment ago.
    fairness: HashMap<K, Fairness>,
    /// Holds of threads, for the kinds of locks that a thread may take again.
    thread_holds: ThreadHolds<K, H>,
    /// Number of entries in `fairness` at which those that are over are forgotten.
    sweep_at: usize,
}

/// A caller in a queue.
struct Caller<W, T> {
    with: W,
    /// The caller's hold on the lease that it was handed.
    handed: Option<T>,
}

/// A caller whose thread may take the lock again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfThread<'a, K, T> {
    pub(crate) thread: T,
    /// The key by which the holds of threads are counted. All kinds of one lock group share it.
    pub(crate) lock: &'a K,
    /// The class of the hold that the caller wants.
    pub(crate) class: HoldClass,
}

/// The holds that pass to a caller from the leases of its process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed<T> {
    /// The hold that the caller has from now on: it was handed the lease, or has joined it.
    pub(crate) takes: Option<T>,
    /// The hold on a lease that the caller was handed, and that is over already. The driver gives it back like a holder's,
    /// before anything else.
    pub(crate) gives_back: Option<T>,
}

impl<K: Clone + Eq + Hash, W, H: LocalLease> LocalQueues<K, W, H> {
    /// Creates the queues. With `alone`, each caller asks the nodes for itself.
    pub(crate) fn new(alone: bool) -> Self {
        let (queues, fairness) = (HashMap::new(), HashMap::new());
        let thread_holds = ThreadHolds::new();
        Self { alone, last_ticket: 0, queues, fairness, thread_holds, sweep_at: 0 }
    }

    /// Adds a caller that wants the lock on these terms. With `once` it wants the lock now or not at all. All callers of one key
    /// come with the same class and `askers`.
    pub(crate) fn enter(
        &mut self,
        key: &K,
        class: HoldClass,
        askers: Askers,
        terms: Terms,
        once: bool,
        with: W,
    ) -> QueueTicket {
        self.last_ticket += 1;
        let askers = if self.alone { Askers::All } else { askers };
        let new = || LocalQueue::new(class, askers);
        let queue = self.queues.entry(key.clone()).or_insert_with(new);
        queue.enter(self.last_ticket, terms, once, Caller { with, handed: None });
        self.last_ticket
    }

    /// Returns the driver's data for that caller.
    pub(crate) fn waiter(&mut self, key: &K, ticket: QueueTicket) -> Option<&mut W> {
        self.queues.get_mut(key)?.with(ticket).map(|caller| &mut caller.with)
    }

    /// Returns the driver's data for the lease that was won last.
    pub(crate) fn lease(&mut self, key: &K) -> Option<&mut H> {
        self.queues.get_mut(key)?.lease()
    }

    /// Returns the driver's data for the callers that have to look again.
    pub(crate) fn woken(&self, key: &K, wake: Wake) -> impl Iterator<Item = &W> {
        self.queues
            .get(key)
            .into_iter()
            .flat_map(move |queue| queue.woken(wake))
            .map(|caller| &caller.with)
    }

    /// Returns the caller's place, and the holds that pass to it. `caller`: given if its thread may take the lock again.
    pub(crate) fn look(
        &mut self,
        key: &K,
        ticket: QueueTicket,
        caller: Option<OfThread<'_, K, H::Thread>>,
        now: Time,
    ) -> (Place, Passed<H::Hold>) {
        let again = caller.and_then(|OfThread { thread, lock, class }| {
            self.thread_holds.again(lock, thread, class, now)
        });
        if let Some(again) = again {
            // This comes first: the other callers of the queue may wait for this thread.
            let once = self.queues.get_mut(key).is_some_and(|queue| queue.is_once(ticket));
            let (turn, takes) = match again {
                Again::Hold(hold) => (Turn::Reentered, Some(hold)),
                Again::Lost(reason) => (Turn::Lost(reason), None),
                Again::WaitsForItself if once => (Turn::Held, None),
                Again::WaitsForItself => (Turn::WaitsForItself, None),
            };
            return (
                Place { turn, is_held: true, comes_first: true },
                Passed { takes, gives_back: None },
            );
        }
        let Some(queue) = self.queues.get_mut(key) else {
            // A queue exists as long as any caller is in it.
            let place = Place { turn: Turn::Ask, is_held: false, comes_first: true };
            return (place, Passed { takes: None, gives_back: None });
        };
        let handed = queue.with(ticket).and_then(|caller| caller.handed.take());
        let (place, joined) = queue.look(ticket, self.fairness.get(key), now);
        let (takes, gives_back) =
            if place.turn.is_served() { (handed.or(joined), None) } else { (None, handed) };
        (place, Passed { takes, gives_back })
    }

    /// Notes one more guard of a lock that a thread may take again: see [`ThreadHolds::took`].
    pub(crate) fn took(&mut self, of: OfThread<'_, K, H::Thread>, lease: H, sequence: u64) {
        self.thread_holds.took(of.lock, of.thread, of.class, lease, sequence);
    }

    /// Notes that a thread gives one of those guards back: see [`ThreadHolds::left`].
    pub(crate) fn left(&mut self, of: OfThread<'_, K, H::Thread>) {
        self.thread_holds.left(of.lock, of.thread, of.class);
    }

    /// Notes that a thread has turned one of its exclusive guards of `lock` into a shared one.
    pub(crate) fn guard_downgraded(&mut self, lock: &K, thread: H::Thread) {
        self.thread_holds.downgraded(lock, thread);
    }

    /// Notes that a lease that was won from this queue has been downgraded. Returns the waiters to wake.
    pub(crate) fn downgraded(&self, key: &K) -> Wake {
        self.queues.get(key).map_or(Wake::Nobody, LocalQueue::downgraded)
    }

    /// Returns the number of a thread's guards of such a lock.
    pub(crate) fn guards(&self, of: OfThread<'_, K, H::Thread>) -> usize {
        self.thread_holds.guards(of.lock, of.thread, of.class)
    }

    /// Returns the driver's data for the lease of such a `lock`, if the thread has a guard of it.
    pub(crate) fn lease_of(&self, lock: &K, thread: H::Thread) -> Option<&H> {
        self.thread_holds.lease(lock, thread)
    }

    /// Notes that a caller has asked the nodes, and did not get the lock.
    pub(crate) fn concluded(&mut self, key: &K, conclusion: Conclusion) -> Wake {
        if let (Conclusion::Held { .. }, Some(fairness)) = (conclusion, self.fairness.get_mut(key))
        {
            fairness.refused();
        }
        self.queues.get_mut(key).map_or(Wake::Nobody, |queue| queue.concluded(conclusion))
    }

    /// Notes that the nodes have granted the lock to that caller. Its ticket names the lease from now on.
    /// `refused_before`: the call was refused before, so somebody else wants the lock, and is likely to want it again.
    /// Returns the waiters to wake.
    pub(crate) fn won(
        &mut self,
        key: &K,
        ticket: QueueTicket,
        refused_before: bool,
        with: H,
        now: Time,
    ) -> Wake {
        if refused_before {
            self.heard(key, 0, now);
        }
        if let Some(fairness) = self.fairness.get_mut(key) {
            fairness.granted(now);
        }
        let Some(queue) = self.queues.get_mut(key) else { return Wake::Nobody };
        queue.won(ticket, with, now)
    }

    /// Notes that a node has announced a waiting writer: see [`LocalQueue::writer_waits`].
    pub(crate) fn writer_waits(&mut self, key: &K, now: Time) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.writer_waits(now);
        }
    }

    /// Gives that lease back. Returns the waiter that gets it next, and the sequence number of the hand-over;
    /// [`handed`](Self::handed) must follow. `None`: the lease must be given back to the nodes.
    pub(crate) fn hand_over(
        &mut self,
        key: &K,
        lease: QueueTicket,
        state: &mut Lease,
        now: Time,
    ) -> Option<(QueueTicket, u64)> {
        let others_wait = self.others_wait(key, now);
        self.queues.get_mut(key)?.hand_over(lease, state, others_wait, now)
    }

    /// Passes the lease to that caller, which finds its `hold` when it looks. Returns the hold if the caller is not in the
    /// queue.
    pub(crate) fn handed(
        &mut self,
        key: &K,
        ticket: QueueTicket,
        hold: H::Hold,
    ) -> Option<H::Hold> {
        match self.queues.get_mut(key).and_then(|queue| queue.with(ticket)) {
            Some(caller) => caller.handed.replace(hold),
            None => Some(hold),
        }
    }

    /// Notes that this lease, which was the `owner`'s, has been given back to the nodes, or was `lost`.
    pub(crate) fn gone(
        &mut self,
        key: &K,
        lease: QueueTicket,
        owner: &str,
        lost: bool,
        now: Time,
    ) -> Wake {
        // A lost lock may be somebody else's already, so there is nothing to leave to others.
        if let Some(fairness) = self.fairness.get_mut(key).filter(|_| !lost) {
            fairness.given_back(owner, now);
        }
        let others_wait = self.others_wait(key, now);
        let Some(queue) = self.queues.get_mut(key) else { return Wake::Nobody };
        let wake = queue.gone(lease, lost, others_wait, now);
        self.forget_if_idle(key);
        wake
    }

    /// Removes a caller that does not want the lock any more, or has got it. Returns its hold on a lease that it was handed
    /// meanwhile, which the driver gives back like a holder's, and the waiters to wake.
    pub(crate) fn leave(&mut self, key: &K, ticket: QueueTicket) -> (Option<H::Hold>, Wake) {
        let Some(queue) = self.queues.get_mut(key) else { return (None, Wake::Nobody) };
        let handed = queue.with(ticket).and_then(|caller| caller.handed.take());
        let (gives_back, wake) = queue.leave(ticket);
        self.forget_if_idle(key);
        (handed.filter(|_| gives_back), wake)
    }

    /// Notes that a node announced a release to that many `others`: see [`Fairness::heard`].
    pub(crate) fn heard(&mut self, key: &K, others: u32, now: Time) {
        if !self.fairness.contains_key(key) && self.fairness.len() >= self.sweep_at {
            self.sweep(now);
        }
        self.fairness.entry(key.clone()).or_insert_with(Fairness::new).heard(others, now);
    }

    /// Returns the number of waiters for the lock in other processes, as far as is known.
    pub(crate) fn others(&self, key: &K, now: Time) -> u32 {
        self.fairness.get(key).map_or(0, |fairness| fairness.others(now))
    }

    /// Returns the last owner of this process that has given the lock back: see [`Fairness::last_owner`].
    pub(crate) fn last_owner(&self, key: &K) -> Option<Arc<str>> {
        self.fairness.get(key)?.last_owner()
    }

    /// Notes that a caller has left the lock to others, and whether a release was `heard` of meanwhile.
    pub(crate) fn giving_way_is_over(&mut self, key: &K, heard: bool) {
        if let Some(fairness) = self.fairness.get_mut(key) {
            fairness.giving_way_is_over(heard);
        }
    }

    /// Forgets the locks that nobody wants any more. Returns true if anything is left to remember.
    pub(crate) fn tidy(&mut self, now: Time) -> bool {
        self.sweep(now);
        give_room_back(&mut self.queues);
        give_room_back(&mut self.fairness);
        let held = self.thread_holds.tidy();
        held || !self.queues.is_empty() || !self.fairness.is_empty()
    }

    /// Returns the number of queues.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Returns the driver's data for all callers.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tests that ask need embedded nodes")]
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &W> {
        self.queues.values().flat_map(|queue| queue.woken(Wake::All)).map(|caller| &caller.with)
    }

    /// Returns the ticket of the caller that has come last.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tests that ask need embedded nodes")]
    pub(crate) fn last_ticket(&self) -> QueueTicket {
        self.last_ticket
    }

    fn others_wait(&self, key: &K, now: Time) -> bool {
        self.fairness.get(key).is_some_and(|fairness| fairness.others_wait(now))
    }

    fn sweep(&mut self, now: Time) {
        self.fairness.retain(|_, fairness| !fairness.is_over(now));
        self.sweep_at = self.fairness.len() * 2 + 16;
    }

    fn forget_if_idle(&mut self, key: &K) {
        if self.queues.get(key).is_some_and(LocalQueue::is_idle) {
            self.queues.remove(key);
        }
    }
}

#[cfg(test)]
#[path = "tests/local_queues_holds.rs"]
mod holds_tests;
#[cfg(test)]
#[path = "tests/local_queues.rs"]
mod tests;
