//! Carries the local queues of one client: callers on their threads, and the leases that they hand over or share.

use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use parking_lot::Mutex;

use crate::clock;
use crate::core::acquire::Patience;
use crate::core::base::{HoldClass, Time};
use crate::core::hold::{LossReason, Terms};
use crate::core::queue::{
    Askers, LocalLease, LocalQueues, OfThread, Passed, Place, QueueKey, QueueTicket, SelfWait,
    Turn, Wake,
};
use crate::core::vote::{Conclusion, Grant};
use crate::ident::Names;
use crate::observe;
use crate::process::{ThreadNumber, this_thread};
use crate::runtime::claim::{Claim, Wanted};
use crate::runtime::fan_out::{Interrupts, Woken};
use crate::runtime::held::{Held, LocalWaiters};
use crate::runtime::hold::Hold;
use crate::runtime::holder::HoldState;
use crate::runtime::timetable::Timetable;

/// The local queues of one client.
///
/// A waiter is chosen, and leaves, under one mutex. A [`Hold`] is never dropped under it, since its drop calls this module.
pub(crate) struct Queues {
    state: Mutex<LocalQueues<Arc<Key>, QueuedThread, Won>>,
}

/// A lock by its kind and its names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KindAndNames {
    kind: &'static str,
    names: Names,
}

/// The lock of a queue, and of the knowledge about other processes that want it.
type Key = QueueKey<KindAndNames>;

/// Returns the key of the queue of a caller.
fn key_of(wanted: &Wanted) -> Arc<Key> {
    let lock = KindAndNames { kind: wanted.kind.label, names: wanted.names.clone() };
    Arc::new(QueueKey::new(lock, wanted.permits))
}

/// Returns the key by which the holds of threads are counted, for a caller whose queue is `queue`.
fn of_group(wanted: &Wanted, queue: &Arc<Key>) -> Arc<Key> {
    let kind = wanted.kind.group;
    match kind == queue.lock.kind {
        true => queue.clone(),
        false => Arc::new(queue.with_lock(KindAndNames { kind, names: wanted.names.clone() })),
    }
}

/// The data of each caller in a queue.
#[derive(Default)]
struct QueuedThread {
    /// Wakes the caller, if it has ever waited.
    wake: Option<Sender<()>>,
}

/// The data of each lease that was won.
#[derive(Clone)]
struct Won {
    held: Weak<Held>,
    /// The thread that got the lock last, from the nodes or from another thread. Yet another thread may have the guard by
    /// now.
    taken_by: Option<ThreadNumber>,
}

impl LocalLease for Won {
    type Hold = Hold;
    type Thread = ThreadNumber;

    fn held_until(&self, now: Time) -> Option<Time> {
        self.held.upgrade()?.in_queue_until(now)
    }

    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Hold> {
        let held = self.held.upgrade()?;
        let hold_state = held.join(terms, sequence, now)?;
        Some(Hold::new(held, hold_state))
    }

    fn reenter(&self, sequence: u64, class: HoldClass, now: Time) -> Result<Hold, LossReason> {
        // The thread's guards, without which nobody asks for this, keep the lease alive.
        let held = self.held.upgrade().ok_or(LossReason::Expired)?;
        let hold_state = held.reenter(sequence, class, now)?;
        Ok(Hold::new(held, hold_state))
    }
}

/// A caller's place in a queue, and the lease that it won from that place.
#[derive(Clone)]
struct LeaseId {
    queues: Arc<Queues>,
    key: Arc<Key>,
    /// The key by which the holds of threads are counted.
    lock: Arc<Key>,
    ticket: QueueTicket,
}

/// A caller in its queue. Dropping it leaves the queue.
pub(crate) struct QueuedCaller<'a> {
    names: &'a Names,
    lease_id: LeaseId,
    patience: Patience,
    /// The class in which the caller wants to hold the lock.
    class: HoldClass,
    askers: Askers,
    /// The caller's thread, if it may take the lock again.
    thread: Option<ThreadNumber>,
    woken: Option<Receiver<()>>,
    self_wait: SelfWait,
}

impl Queues {
    /// If `alone`, each caller asks the nodes by itself.
    pub(crate) fn new(alone: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(LocalQueues::new(alone)) })
    }

    /// Adds a caller that wants the lock.
    pub(crate) fn enter<'a>(
        self: &Arc<Self>,
        wanted: &'a Wanted,
        patience: Patience,
    ) -> QueuedCaller<'a> {
        let key = key_of(wanted);
        let lock = of_group(wanted, &key);
        let once = patience == Patience::Once;
        let class = wanted.kind.hold_class;
        let askers = wanted.waiting().askers();
        let mut queues = self.state.lock();
        let ticket = queues.enter(&key, class, askers, wanted.terms, once, QueuedThread::default());
        drop(queues);
        QueuedCaller {
            names: &wanted.names,
            lease_id: LeaseId { queues: self.clone(), key, lock, ticket },
            patience,
            class,
            askers,
            thread: this_thread().filter(|_| wanted.kind.is_reentrant),
            woken: None,
            self_wait: SelfWait::default(),
        }
    }
}

impl Queues {
    /// Returns the number of guards of a lock that the calling thread has, if it may take that lock again, and 0 if it may
    /// not. In a lock group, only guards of the wanted kind count.
    pub(crate) fn hold_count(&self, wanted: &Wanted) -> usize {
        let (lock, class) = (of_group(wanted, &key_of(wanted)), wanted.kind.hold_class);
        let guards = |thread| OfThread { thread, lock: &lock, class };
        this_thread().map_or(0, |me| self.state.lock().guards(guards(me)))
    }

    /// Returns true if the calling thread holds such a lock, as far as is known now.
    pub(crate) fn is_held_by_this_thread(&self, wanted: &Wanted) -> bool {
        let lock = of_group(wanted, &key_of(wanted));
        let lease_of = |me| self.state.lock().lease_of(&lock, me).cloned();
        let lease = this_thread().and_then(lease_of);
        let held = lease.filter(|_| self.hold_count(wanted) > 0).and_then(|it| it.held.upgrade());
        held.is_some_and(|held| held.held_until(clock::now()).is_some())
    }

    /// Forgets the locks that nobody wants any more, and returns true if any are left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        self.state.lock().tidy(now)
    }
}

#[cfg(all(test, feature = "embedded"))]
impl Queues {
    /// Returns the number of locks that have a queue.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }
}

impl LeaseId {
    /// Changes the queues, and wakes the callers of this queue that have to look again.
    fn change<R>(
        &self,
        change: impl FnOnce(&mut LocalQueues<Arc<Key>, QueuedThread, Won>) -> (R, Wake),
    ) -> R {
        let mut queues = self.queues.state.lock();
        let (result, wake) = change(&mut queues);
        let woken = queues.woken(&self.key, wake).filter_map(|waiter| waiter.wake.clone());
        let woken: Vec<_> = woken.collect();
        drop(queues);
        for wake in woken {
            // If the channel is full, the caller is about to look anyway.
            let _ = wake.try_send(());
        }
        result
    }
}

impl LocalWaiters for LeaseId {
    fn hand_over(&self, held: &Arc<Held>, hold_state: &Arc<HoldState>) -> bool {
        let Self { key, ticket: lease, .. } = self;
        let handed_over = self.change(|queues| {
            let now = clock::now();
            let choose = |state: &mut _| queues.hand_over(key, *lease, state, now);
            let Some((ticket, next)) = held.pass_on(hold_state, choose) else {
                return (None, Wake::Nobody);
            };
            if let Some(won) = queues.lease(key) {
                won.taken_by = None;
            }
            let hold = Hold::new(held.clone(), next);
            (Some(queues.handed(key, ticket, hold)), Wake::One(ticket))
        });
        handed_over.is_some()
    }

    fn gone(&self, owner: &str, lost: bool) {
        let Self { key, ticket: lease, .. } = self;
        self.change(|queues| ((), queues.gone(key, *lease, owner, lost, clock::now())));
    }

    fn downgraded(&self) {
        self.change(|queues| ((), queues.downgraded(&self.key)));
    }

    fn left(&self, thread: ThreadNumber, class: HoldClass) {
        self.queues.state.lock().left(OfThread { thread, lock: &self.lock, class });
    }

    fn guard_downgraded(&self, thread: ThreadNumber) {
        self.queues.state.lock().guard_downgraded(&self.lock, thread);
    }

    fn heard(&self, others: u32) {
        self.queues.state.lock().heard(&self.key, others, clock::now());
    }
}

impl QueuedCaller<'_> {
    /// Returns the caller's place, and the lock if it was handed over to the caller, or the caller has joined it or taken it
    /// again.
    pub(crate) fn look(&mut self) -> (Place, Option<Hold>) {
        let Self { lease_id: LeaseId { queues, key, lock, ticket }, class, thread, woken, .. } =
            self;
        let mut queues = queues.state.lock();
        let now = clock::now();
        let caller = thread.map(|thread| OfThread { thread, lock: &*lock, class: *class });
        let (place, Passed { takes, gives_back }) = queues.look(key, *ticket, caller, now);
        let mut lost = None;
        let mut for_itself = false;
        match place.turn {
            Turn::HandedOver => {
                if let Some(won) = queues.lease(key) {
                    won.taken_by = this_thread();
                }
            }
            Turn::Wait(_) => {
                let won = queues.lease(key).filter(|won| won.held_until(now).is_some());
                let taken_by = won.and_then(|won| won.taken_by);
                for_itself = taken_by.is_some() && taken_by == this_thread();
                if let (None, Some(waiter)) = (&woken, queues.waiter(key, *ticket)) {
                    let (sender, receiver) = bounded(1);
                    waiter.wake = Some(sender);
                    *woken = Some(receiver);
                }
            }
            Turn::Lost(_) => {
                let lease = thread.and_then(|thread| queues.lease_of(lock, thread));
                lost = lease.and_then(|lease| lease.held.upgrade());
            }
            Turn::Joined
            | Turn::Reentered
            | Turn::WaitsForItself
            | Turn::Ask
            | Turn::GiveWay(_)
            | Turn::Held => {}
        }
        drop(queues);
        if let (Turn::Joined, Some(hold)) = (place.turn, &takes) {
            self.joined(hold);
        }
        // Perhaps nobody has noticed the loss before: in that case the guards get their messages now.
        lost.into_iter().for_each(|held| _ = held.check());
        // Its drop calls the queues.
        drop(gives_back);
        if let Turn::Wait(_) = place.turn {
            let for_itself = for_itself && self.patience == Patience::Forever;
            if self.self_wait.goes_on(for_itself, now) {
                observe::waits_for_itself(self.names);
            }
        }
        (place, takes.map(|hold| self.counted(hold)))
    }

    /// The caller has joined a lease. The first one to join makes the nodes announce writers that wait for the end of that
    /// lease. Only joins keep these waiting, so one request for all joins is enough.
    fn joined(&self, hold: &Hold) {
        let claim = hold.held().claim();
        let channel = || claim.kind().waiting_channel(claim.names());
        let Some(channel) = (hold.sequence == 1).then(channel).flatten() else { return };
        let (queues, key) = (Arc::downgrade(&self.lease_id.queues), self.lease_id.key.clone());
        let a_writer_waits = move |_node| {
            if let Some(queues) = queues.upgrade() {
                queues.state.lock().writer_waits(&key, clock::now());
            }
        };
        let client = claim.state();
        client.subscriptions().watch(channel, Arc::new(a_writer_waits), client.nodes());
    }

    /// Counts a hold that the caller has got, if its thread may take the lock again.
    fn counted(&self, hold: Hold) -> Hold {
        let Some(thread) = self.thread else { return hold };
        let LeaseId { queues, lock, .. } = &self.lease_id;
        let lease = Won { held: Arc::downgrade(hold.held()), taken_by: Some(thread) };
        let of = OfThread { thread, lock, class: self.class };
        queues.state.lock().took(of, lease, hold.sequence);
        hold.of_thread(thread, self.class)
    }

    /// Waits for a change in the queue, at most until `until`.
    pub(crate) fn wait(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        interrupts.wait(self.woken.as_ref().unwrap_or(&never()), until)
    }

    /// Returns the number of waiters for the lock in other processes, as far as is known.
    pub(crate) fn others(&self) -> u32 {
        self.lease_id.queues.state.lock().others(&self.lease_id.key, clock::now())
    }

    /// Returns the owner that gave the lock back last in this process.
    pub(crate) fn last_owner(&self) -> Option<Arc<str>> {
        self.lease_id.queues.state.lock().last_owner(&self.lease_id.key)
    }

    /// The caller has left the lock to others for a while. `heard` is true if a release was announced meanwhile.
    pub(crate) fn giving_way_is_over(&self, heard: bool) {
        self.lease_id.queues.state.lock().giving_way_is_over(&self.lease_id.key, heard);
    }

    /// The nodes were asked, and did not grant the lock.
    pub(crate) fn concluded(&self, conclusion: Conclusion) {
        self.lease_id.change(|queues| ((), queues.concluded(&self.lease_id.key, conclusion)));
    }

    /// The nodes have granted the lock.
    pub(crate) fn won(&self, claim: Claim, grant: Grant, timetable: &Arc<Timetable<Held>>) -> Hold {
        let LeaseId { key, ticket, .. } = &self.lease_id;
        let local_waiters = Arc::new(self.lease_id.clone());
        let (held, hold_state) = Held::granted(claim, grant, local_waiters, timetable);
        // Nobody waits for a shared lock to be handed over, nor for one of several permits.
        let is_waited_for = self.class == HoldClass::Exclusive && self.askers == Askers::First;
        let taken_by = this_thread().filter(|_| is_waited_for);
        let won = Won { held: Arc::downgrade(&held), taken_by };
        self.lease_id.change(|queues| {
            ((), queues.won(key, *ticket, grant.refused_before, won, clock::now()))
        });
        let hold = Hold::new(held, hold_state);
        // Only now: the end of the hold has to find the lease in the queues.
        hold.held().enter();
        self.counted(hold)
    }
}

impl Drop for QueuedCaller<'_> {
    fn drop(&mut self) {
        let LeaseId { key, ticket, .. } = &self.lease_id;
        let gives_back = self.lease_id.change(|queues| queues.leave(key, *ticket));
        // Like a holder, to the next in the queue. The drop calls the queues.
        drop(gives_back);
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
