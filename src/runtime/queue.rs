//! The local queues of one client: threads that want the same lock wait here, and hand it on.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use parking_lot::Mutex;

use crate::clock;
use crate::core::{
    self, Conclusion, Grant, LocalQueue, Looked, Patience, QueueTicket, Time, Turn, Wake,
};
use crate::ident::Name;
use crate::process::{ThreadNumber, this_thread};
use crate::runtime::claim::{Claim, Wanted};
use crate::runtime::fan_out::{Interrupts, Woken};
use crate::runtime::held::{Held, LocalWaiters};
use crate::runtime::hold::Hold;
use crate::runtime::hold_state::HoldState;
use crate::runtime::timetable::Timetable;
use fairness::{FairnessByName, FairnessEntry};
use self_wait::SelfWait;

mod fairness;
mod self_wait;

/// The lines of one client; a name has one for as long as somebody holds it or wants it.
///
/// Choosing a waiter, and a waiter's leaving, happen under one mutex. A [`Hold`] is never dropped
/// under it, for that comes back here.
pub(crate) struct Queues {
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    by_name: HashMap<Arc<Key>, Line>,
    last_ticket: QueueTicket,
    fairness: FairnessByName,
}

/// Of which lock a line is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: &'static str,
    name: Box<[u8]>,
    /// Without local queues each caller has a line for itself.
    alone: Option<QueueTicket>,
}

struct Line {
    queue: LocalQueue<Slot>,
    holder: Weak<Held>,
    /// The thread that has got the lock last, from the nodes or from another thread. Another one may have the
    /// guard by now.
    taken_by: Option<ThreadNumber>,
}

/// What is kept with each caller in line.
struct Slot {
    /// Wakes it up, if it has ever waited.
    wake: Option<Sender<()>>,
    /// The lock, if it was handed over.
    handed: Option<Hold>,
}

/// Which line a lease belongs to, and its number there.
#[derive(Clone)]
struct LeaseId {
    queues: Arc<Queues>,
    key: Arc<Key>,
    lease: QueueTicket,
}

/// A caller's place in line. Dropping it leaves the line.
pub(crate) struct Place<'a> {
    queues: &'a Queues,
    name: &'a Name,
    lease_id: LeaseId,
    patience: Patience,
    woken: Option<Receiver<()>>,
    /// Who had the lock here last, while it is left to others: what is told of that release is no news.
    last_owner: Option<Arc<str>>,
    self_wait: SelfWait,
}

impl Queues {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { lines: Mutex::default() })
    }

    /// A node has told so many `others` of a release of the lock with that key.
    pub(crate) fn heard(&self, key: &[u8], others: u32) {
        self.lines.lock().fairness.heard(key, others);
    }

    /// How many others wait for the lock with that key, as far as is known.
    pub(crate) fn others(&self, key: &[u8]) -> u32 {
        let mut lines = self.lines.lock();
        lines.fairness.of(key).map_or(0, |entry| entry.fairness.others(clock::now()))
    }

    /// A caller comes, who wants to wait in line for the lock, unless it wants to be `alone`.
    pub(crate) fn enter<'a>(
        self: &'a Arc<Self>,
        wanted: &'a Wanted,
        patience: Patience,
        alone: bool,
    ) -> Place<'a> {
        let mut lines = self.lines.lock();
        lines.last_ticket += 1;
        let lease = lines.last_ticket;
        let key = Arc::new(Key {
            kind: wanted.kind.label(),
            name: wanted.name.key().into(),
            alone: alone.then_some(lease),
        });
        let queue = || LocalQueue::new();
        let line = lines.by_name.entry(key.clone());
        let new = || Line { queue: queue(), holder: Weak::new(), taken_by: None };
        let line = line.or_insert_with(new);
        let slot = Slot { wake: None, handed: None };
        line.queue.enter(lease, wanted.terms, patience == Patience::Once, slot);
        drop(lines);
        let lease_id = LeaseId { queues: self.clone(), key, lease };
        Place {
            queues: self,
            name: &wanted.name,
            lease_id,
            patience,
            woken: None,
            last_owner: None,
            self_wait: SelfWait::default(),
        }
    }

    /// Changes a line, wakes who has to look again for it, and forgets the line if nobody is left.
    fn change<R>(
        &self,
        key: &Key,
        change: impl FnOnce(&mut Line, Option<&mut FairnessEntry>) -> (R, Wake),
    ) -> Option<R> {
        let mut lines = self.lines.lock();
        let Lines { by_name, fairness, .. } = &mut *lines;
        let line = by_name.get_mut(key)?;
        let (result, wake) = change(line, fairness.of(&key.name));
        let woken = line.woken(wake);
        if line.queue.is_idle() {
            by_name.remove(key);
        }
        drop(lines);
        for wake in woken {
            // Full: it is about to look anyway.
            let _ = wake.try_send(());
        }
        Some(result)
    }

    /// For how many names there is a line.
    #[cfg(all(test, feature = "embedded"))]
    fn len(&self) -> usize {
        self.lines.lock().by_name.len()
    }
}

impl LocalWaiters for LeaseId {
    fn hand_over(&self, held: &Arc<Held>, hold_state: &Arc<HoldState>) -> bool {
        let Self { queues, key, lease } = self;
        let handed_over = queues.change(key, |Line { queue, taken_by, .. }, entry| {
            let now = clock::now();
            let others = entry.is_some_and(|entry| entry.fairness.others_wait(now));
            let passed =
                held.pass_on(hold_state, |state| queue.hand_over(*lease, state, others, now));
            let Some((ticket, next)) = passed else { return (None, Wake::Nobody) };
            *taken_by = None;
            let hold = Hold::new(held.clone(), next);
            let (mut hold, wake) = (Some(hold), Wake::One(ticket));
            if let Some(slot) = queue.with(ticket) {
                slot.handed = hold.take();
            }
            (Some(hold), wake)
        });
        handed_over.flatten().is_some()
    }

    fn gone(&self, owner: &str, lost: bool) {
        let Self { queues, key, lease } = self;
        let now = clock::now();
        queues.change(key, |line, entry| {
            let others = entry.is_some_and(|FairnessEntry { fairness, last_owner }| {
                if !lost {
                    fairness.given_back(now);
                    *last_owner = Some(owner.into());
                }
                fairness.others_wait(now)
            });
            ((), line.queue.gone(*lease, lost, others, now))
        });
    }

    fn heard(&self, others: u32) {
        self.queues.heard(&self.key.name, others);
    }
}

impl Line {
    fn woken(&mut self, wake: Wake) -> Vec<Sender<()>> {
        match wake {
            Wake::Nobody => Vec::new(),
            Wake::One(ticket) => {
                let slot = self.queue.with(ticket);
                slot.and_then(|slot| slot.wake.clone()).into_iter().collect()
            }
            Wake::All => self.queue.all().filter_map(|slot| slot.wake.clone()).collect(),
        }
    }
}

impl Place<'_> {
    /// What there is to see for the caller in line; and the lock, if it was handed over, be it lost since.
    pub(crate) fn look(&mut self) -> (Looked, Option<Hold>) {
        let Self {
            queues, lease_id: LeaseId { key, lease: ticket, .. }, woken, last_owner, ..
        } = self;
        let mut by_itself = false;
        let looked = queues.change(key, |Line { queue, holder, taken_by }, entry| {
            if let Some(hold) = queue.with(*ticket).and_then(|slot| slot.handed.take()) {
                let valid = !hold.held().remaining().is_zero();
                queue.take(*ticket, valid);
                if valid {
                    *taken_by = this_thread();
                }
                let looked = if valid { Looked::HandedOver } else { Looked::HandedOverTooLate };
                return ((looked, Some(hold)), Wake::Nobody);
            }
            let held_until = holder.upgrade().and_then(|held| held.held_until());
            let fairness = entry.as_ref().map(|entry| &entry.fairness);
            let place = queue.place(*ticket, held_until, fairness, clock::now());
            if let Turn::GiveWay(_) = place.turn {
                *last_owner = entry.and_then(|entry| entry.last_owner.clone());
            }
            if let Turn::Wait(_) = place.turn {
                by_itself =
                    held_until.is_some() && taken_by.is_some() && *taken_by == this_thread();
                if let (None, Some(slot)) = (&woken, queue.with(*ticket)) {
                    let (sender, receiver) = bounded(1);
                    slot.wake = Some(sender);
                    *woken = Some(receiver);
                }
            }
            ((Looked::Place(place), None), Wake::Nobody)
        });
        let for_itself = by_itself && self.patience == Patience::Forever;
        if let Some((Looked::Place(core::Place { turn: Turn::Wait(_), .. }), _)) = looked {
            self.self_wait.goes_on(for_itself, self.name);
        }
        // A line is there for as long as there is anybody in it.
        let alone = core::Place { turn: Turn::Ask, is_held: false };
        looked.unwrap_or((Looked::Place(alone), None))
    }

    /// Waits until something has changed in line, until `until` at most.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        interrupts.wait(self.woken.as_ref().unwrap_or(&never()), until)
    }

    /// The owner that had the lock here last, when this caller was to leave it to others.
    pub(crate) fn last_owner(&mut self) -> Option<Arc<str>> {
        self.last_owner.take()
    }

    /// The caller has left the lock to others. A release was told meanwhile (`heard`), or not.
    pub(crate) fn gave_way(&self, heard: bool) {
        self.queues.change(&self.lease_id.key, |_, entry| {
            if let Some(entry) = entry {
                entry.fairness.gave_way(heard);
            }
            ((), Wake::Nobody)
        });
    }

    /// The nodes were asked, and did not grant the lock.
    pub(crate) fn concluded(&self, conclusion: Conclusion) {
        self.queues.change(&self.lease_id.key, |line, entry| {
            if let (Some(entry), Conclusion::Held { .. }) = (entry, conclusion) {
                entry.fairness.refused();
            }
            ((), line.queue.concluded(conclusion))
        });
    }

    /// The nodes have granted the lock.
    pub(crate) fn won(&self, claim: Claim, grant: Grant, timetable: &Arc<Timetable<Held>>) -> Hold {
        let local_waiters = Arc::new(self.lease_id.clone());
        let (held, hold_state) = Held::granted(claim, grant, local_waiters, timetable);
        let hold = Hold::new(held, hold_state);
        if grant.refused_before {
            self.queues.heard(&self.lease_id.key.name, 0);
        }
        self.queues.change(&self.lease_id.key, |line, entry| {
            line.queue.won(self.lease_id.lease);
            if let Some(entry) = entry {
                entry.fairness.granted(clock::now());
            }
            line.holder = Arc::downgrade(hold.held());
            line.taken_by = this_thread();
            ((), Wake::Nobody)
        });
        // Only now: its end has to find it here.
        hold.held().enter();
        hold
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let ticket = self.lease_id.lease;
        let handed = self.queues.change(&self.lease_id.key, |Line { queue, .. }, _| {
            let handed = queue.with(ticket).and_then(|slot| slot.handed.take());
            (handed, queue.leave(ticket).1)
        });
        // Who was handed the lock gives it back as a holder does: to the next in line.
        drop(handed);
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
