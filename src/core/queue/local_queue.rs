//! The local queue: the callers of one process that want one name.
//!
//! Threads of one process need not compete at the nodes. They wait in a queue, and only its first caller
//! asks. A holder that gives the lock back hands its lease to the next caller, if that caller can use it, which
//! costs no message. The turn of a process is bounded, so that other processes get in.
//!
//! If a kind of lock may have several holders at a time ([`HoldClass::Shared`]), a caller joins a lease that its process
//! has already, which costs no message either. Such callers never wait for holders. So a caller that can join no
//! lease asks the nodes, and there may be several leases. But it waits behind a caller that asks for a lease it can join.

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::Duration;

use super::super::base::{HoldClass, Mechanism, POLL, Rule, Time};
use super::super::hold::{Lease, LossReason, Terms};
use super::super::vote::Conclusion;
use super::super::vote::LAST_SEQUENCE;
use super::fairness::Fairness;

/// Time for which the threads of one process hand the lease to each other, from the first hand-over on, and for which
/// callers join a lease, from its grant on. It is long compared with the pause after it, and short for the waiters of
/// other processes. It is also the longest delay of a waiting writer that nobody reports.
const TURN: Duration = Duration::from_millis(100);

/// The shortest turn while other processes are known to wait. With short holds, no more than half of the
/// time is lost on the way from process to process.
const SHORT_TURN: Duration = Duration::from_millis(2);

/// Time for which a process stays away from the nodes after its turn, if it wants the lock again. Other processes
/// hear of the release within about a millisecond, or poll every few milliseconds.
const PAUSE: Duration = Duration::from_millis(4);

/// The callers of a process that ask the nodes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Askers {
    /// The first one in the queue. A lease that it wins passes to the others, or is shared with them.
    First,
    /// Each for itself, at most that many at a time. With thousands of callers the rest would only hinder each other.
    AtMost(usize),
    /// Each for itself.
    All,
}

/// The number of a place in a queue, and of the lease that was won from there. It is unique within a process.
pub(crate) type QueueTicket = u64;

/// The next step of a caller in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Take the lease that a holder of this process handed over. The caller has left the queue.
    HandedOver,
    /// Hold the lease together with its other holders in this process. The caller has joined them and left the queue.
    Joined,
    /// Hold once more the lease that the caller's thread holds.
    Reentered,
    /// Give up: the caller's thread has guards of this lock, which is lost.
    Lost(LossReason),
    /// Give up: the caller's thread shares this lock, and would wait for itself.
    WaitsForItself,
    /// Ask the nodes.
    Ask,
    /// Wait for a wake-up, at most until then, and look again.
    Wait(Time),
    /// Leave the lock to other processes until then, or until one of them gives it back.
    GiveWay(Time),
    /// Give up: another caller of this process has the lock, or comes first.
    Held,
}

impl Turn {
    /// Returns true if the caller has got a lease of this process.
    pub(crate) fn is_served(self) -> bool {
        matches!(self, Self::HandedOver | Self::Joined | Self::Reentered)
    }
}

/// The driver's data for each lease of a queue.
pub(crate) trait LocalLease {
    /// One holder's right to the lease.
    type Hold;
    /// Identifies a thread of this process. No two threads have the same name, even one after the other.
    type Thread: Copy + Eq + Hash;

    /// Returns the time until which the lease is certainly valid, as far as is known. `None`: it is not valid, or was
    /// downgraded: a caller behind it in the queue may have to tell the nodes that it waits.
    fn held_until(&self, now: Time) -> Option<Time>;

    /// Lets a caller that wants the lock on `terms` join the present holders, under that sequence number; `None`
    /// if [`HeldLock::join`](super::super::hold::HeldLock::join) refuses it.
    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Self::Hold>;

    /// Lets a thread that got the lease under that sequence number hold it once more, for a hold of that class. Fails with the
    /// reason of the loss if the lock is lost, as [`HeldLock::reenter`](super::super::hold::HeldLock::reenter) does.
    fn reenter(&self, sequence: u64, class: HoldClass, now: Time)
    -> Result<Self::Hold, LossReason>;
}

/// The place of a caller in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) turn: Turn,
    /// True if the lock is known to be held, in this process or in another one. If not, a caller without time left
    /// asks once more, and reports the result: too few nodes.
    pub(crate) is_held: bool,
    /// True if the caller asks the nodes for all callers of its process that want the same. Another one may ask while no
    /// majority is reached, and may have to wait for the first one next.
    pub(crate) comes_first: bool,
}

/// The waiters that have to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Nobody,
    One(QueueTicket),
    /// All waiters.
    All,
}

/// The queue for one name. `W` is the driver's data for each caller in it, and `H` its data for each lease.
#[derive(Debug)]
pub(crate) struct LocalQueue<W, H = ()> {
    class: HoldClass,
    askers: Askers,
    /// The waiters in the order in which they came.
    waiters: VecDeque<QueuedCall<W>>,
    /// The leases that were won from this queue, in order. With one holder at a time there is at most one.
    leases: Vec<Won<H>>,
    word: Word,
    /// Time of the first hand-over in this process, which has kept the lease since. The time of the
    /// first holder does not count.
    turn_began: Option<Time>,
    /// The last caller that was in the queue when the turn began.
    turn_is_of: QueueTicket,
    /// End of the time for other processes, after the turn of this process is over.
    pause_until: Option<Time>,
    /// Time at which a node last announced a waiting writer.
    writer_told_at: Option<Time>,
}

#[derive(Debug)]
struct QueuedCall<W> {
    ticket: QueueTicket,
    terms: Terms,
    /// True if the caller does not wait.
    once: bool,
    doing: Doing,
    /// Time at which the caller was last told to ask the nodes.
    asked_at: Time,
    with: W,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// The caller asks the nodes, or is about to: nobody hands it anything.
    Asking,
    Waiting,
    /// The caller was handed that lease, and has not taken it yet.
    Chosen {
        lease: QueueTicket,
    },
}

/// A lease that was won.
#[derive(Debug)]
struct Won<H> {
    lease: QueueTicket,
    at: Time,
    /// The last caller that was in the queue when the lease was won.
    of: QueueTicket,
    /// True if only callers that were in the queue by then may still join it, since others want the lock.
    closed: bool,
    /// The sequence number of its last holder: the number of callers that were handed the lease, or have joined it.
    sequence: u64,
    with: H,
}

impl<H> Won<H> {
    /// Returns true if one more holder would have a sequence number that no token can hold. Its token would then be that
    /// of the last holder.
    fn is_used_up(&self) -> bool {
        self.sequence >= LAST_SEQUENCE
    }

    /// Returns true if that caller may still join the lease. Other processes have to get in, but not before the callers that
    /// have waited along with the one that got the lease.
    fn is_open(&self, ticket: QueueTicket, now: Time) -> bool {
        let over = is_over(self.at, TURN, now);
        let closed = self.closed && self.of < ticket;
        !over && !closed && !self.is_used_up()
    }
}

/// Returns true if a turn that began at `began` and lasts for `turn` has ended.
fn is_over(began: Time, turn: Duration, now: Time) -> bool {
    now.since(began) >= turn && Mechanism::TurnsEnd.is_on()
}

/// The last outcome of any caller in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Nothing,
    /// The nodes answer, and somebody has the lock.
    Held,
    /// Any other outcome: too few nodes answer, or they grant nothing. To wait behind a caller that cannot
    /// get the lock is of no use, so each caller asks, and reports its own result in its own time.
    Trouble,
}

impl<W, H> LocalQueue<W, H> {
    pub(crate) fn new(class: HoldClass, askers: Askers) -> Self {
        Self {
            class,
            askers,
            waiters: VecDeque::new(),
            leases: Vec::new(),
            word: Word::Nothing,
            turn_began: None,
            turn_is_of: 0,
            pause_until: None,
            writer_told_at: None,
        }
    }

    /// Returns true if that caller wants the lock now or not at all.
    pub(crate) fn is_once(&mut self, ticket: QueueTicket) -> bool {
        self.waiter(ticket).is_some_and(|waiter| waiter.once)
    }

    /// Returns the waiters to wake after a downgrade: the first one asks the nodes, since the queue cannot give it
    /// the downgraded lease any more.
    pub(crate) fn downgraded(&self) -> Wake {
        self.first()
    }

    /// Returns true if the queue has neither callers nor leases.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiters.is_empty() && self.leases.is_empty()
    }

    /// Adds a caller that wants the lock on these terms. With `once` it wants the lock now or not at all.
    pub(crate) fn enter(&mut self, ticket: QueueTicket, terms: Terms, once: bool, with: W) {
        let (doing, asked_at) = (Doing::Asking, Time::default());
        self.waiters.push_back(QueuedCall { ticket, terms, once, doing, asked_at, with });
    }

    /// Returns the driver's data for that caller.
    pub(crate) fn with(&mut self, ticket: QueueTicket) -> Option<&mut W> {
        self.waiter(ticket).map(|waiter| &mut waiter.with)
    }

    /// Returns the driver's data for the callers that have to look again.
    pub(crate) fn woken(&self, wake: Wake) -> impl Iterator<Item = &W> {
        let is_woken = move |waiter: &&QueuedCall<W>| match wake {
            Wake::Nobody => false,
            Wake::One(ticket) => waiter.ticket == ticket,
            Wake::All => true,
        };
        self.waiters.iter().filter(is_woken).map(|waiter| &waiter.with)
    }

    /// Returns the driver's data for the lease that was won last.
    pub(crate) fn lease(&mut self) -> Option<&mut H> {
        self.leases.last_mut().map(|won| &mut won.with)
    }

    /// Returns the caller's place, and its hold on the lease that it has joined. The answer changes with time, and
    /// whenever a waiter is to be woken.
    ///
    /// A caller that wants the lock `once` leaves it to nobody.
    pub(crate) fn look(
        &mut self,
        ticket: QueueTicket,
        fairness: Option<&Fairness>,
        now: Time,
    ) -> (Place, Option<H::Hold>)
    where
        H: LocalLease,
    {
        let others_wait = fairness.is_some_and(|fairness| fairness.others_wait(now));
        if let Some(hold) = self.join(ticket, others_wait, now) {
            return (Place { turn: Turn::Joined, is_held: true, comes_first: true }, Some(hold));
        }
        let held_until = self.leases.iter().filter_map(|won| won.with.held_until(now)).max();
        let is_held = held_until.is_some_and(|until| now < until) || self.word == Word::Held;
        let once = self.is_once(ticket);
        let fairness = fairness.filter(|_| !once);
        let give_way_until = fairness.and_then(|fairness| fairness.give_way_until(now));
        let turn = match (self.turn(ticket, held_until, now), give_way_until) {
            (Turn::Ask, Some(until)) => Turn::GiveWay(until),
            (turn, _) => turn,
        };
        let comes_first = self.comes_first(ticket).if_off(Mechanism::FirstCallersReserve, true);
        (Place { turn, is_held, comes_first }, None)
    }

    /// Lets that caller join a lease of its process, if the lock may have several holders. Then the caller leaves the queue.
    ///
    /// If other processes wait (`others_wait`), a lease is closed after a short turn. It stays closed.
    fn join(&mut self, ticket: QueueTicket, others_wait: bool, now: Time) -> Option<H::Hold>
    where
        H: LocalLease,
    {
        if self.askers != Askers::First || self.class != HoldClass::Shared {
            return None;
        }
        let terms = self.waiter(ticket)?.terms;
        for won in self.leases.iter_mut().filter(|_| others_wait) {
            won.closed |= is_over(won.at, SHORT_TURN, now);
        }
        let open = self.leases.iter_mut().filter(|won| won.is_open(ticket, now));
        let hold = open.into_iter().find_map(|won| {
            let sequence = won.sequence + 1;
            let hold = won.with.join(terms, sequence, now)?;
            won.sequence = sequence;
            Some(hold)
        })?;
        self.waiters.retain(|waiter| waiter.ticket != ticket);
        Some(hold)
    }

    /// Returns the caller's next step, other processes and leases that it can join aside. Its process holds the lock until
    /// `held_until`, as far as is known.
    ///
    /// A caller that wants the lock `once` does not overtake the waiters. But while it is not known that the lock is
    /// held, it asks for itself, so that it can tell "no quorum" from "held".
    fn turn(&mut self, ticket: QueueTicket, held_until: Option<Time>, now: Time) -> Turn {
        match self.askers {
            Askers::First => {}
            Askers::AtMost(most) => return self.turn_for_itself(ticket, most, now),
            Askers::All => return Turn::Ask,
        }
        let held_until = held_until.filter(|until| now < *until);
        if self.takes_over(ticket, held_until.is_some()) {
            return Turn::HandedOver;
        }
        let first = self.waiters.front().is_some_and(|waiter| waiter.ticket == ticket);
        let (word, pause_until) = (self.word, self.pause_until.filter(|until| now < *until));
        let shares = self.shares();
        let place = self.place(ticket).filter(|_| shares);
        let somebody_asks = place.is_some_and(|place| self.somebody_asks_for(place));
        let Some(waiter) = self.waiter(ticket) else { return Turn::Held };
        let wait_until = match held_until {
            // The caller does not wait for the holders: they may wait for something that it is about to do.
            _ if shares && !waiter.once => {
                (somebody_asks && word != Word::Trouble).then(|| now.after(POLL))
            }
            Some(_) if shares => None,
            // The first caller checks by itself whether the lease is over: no other thread has to wake it.
            Some(until) => Some(if first { until } else { now.after(POLL) }),
            None => match word {
                Word::Trouble => None,
                Word::Nothing if waiter.once => None,
                Word::Nothing | Word::Held if first => pause_until,
                Word::Nothing | Word::Held => Some(now.after(POLL)),
            },
        };
        match wait_until {
            None => {
                (waiter.doing, waiter.asked_at) = (Doing::Asking, now);
                Turn::Ask
            }
            Some(_) if waiter.once => Turn::Held,
            Some(until) => {
                waiter.doing = Doing::Waiting;
                Turn::Wait(until.min(now.after(POLL)))
            }
        }
    }

    /// Returns true if callers do not wait for holders, since they may hold the lock at the same time.
    fn shares(&self) -> bool {
        self.class == HoldClass::Shared && Mechanism::SharersDoNotWait.is_on()
    }

    /// Returns true if that caller waits for no other caller of the queue to ask the nodes.
    fn comes_first(&self, ticket: QueueTicket) -> bool {
        let Some(place) = self.place(ticket) else { return true };
        match self.askers {
            Askers::All => true,
            Askers::AtMost(most) => place < most,
            Askers::First if self.shares() => !self.somebody_asks_for(place),
            Askers::First => place == 0,
        }
    }

    /// Returns the next step of a caller if `most` callers at a time ask the nodes, each for itself. A caller that wants the
    /// lock `once` leaves it to nobody. To wait behind callers that cannot get the lock is of no use.
    fn turn_for_itself(&mut self, ticket: QueueTicket, most: usize, now: Time) -> Turn {
        let is_among = self.place(ticket).is_none_or(|place| place < most);
        let in_trouble = self.word == Word::Trouble;
        let Some(waiter) = self.waiter(ticket) else { return Turn::Ask };
        if is_among || in_trouble || waiter.once {
            waiter.doing = Doing::Asking;
            return Turn::Ask;
        }
        waiter.doing = Doing::Waiting;
        Turn::Wait(now.after(POLL))
    }

    /// Returns the caller that has waited for the one at that place, which asked for itself and does not any more.
    fn next_for_itself(&self, left: Option<usize>, most: usize) -> Wake {
        let last = left.filter(|place| *place < most).and_then(|_| self.waiters.get(most - 1));
        let waiting = last.filter(|waiter| waiter.doing == Doing::Waiting);
        waiting.map_or(Wake::Nobody, |waiter| Wake::One(waiter.ticket))
    }

    /// Returns true if an earlier caller asks the nodes, or waits behind one that does, for a lease that both of them can
    /// hold. A caller that wants the lock once is not waited for: it has given up when the lock is free.
    fn somebody_asks_for(&self, place: usize) -> bool {
        let mut before = self.waiters.iter().take(place).filter(|other| !other.once);
        let shares = |terms: Terms| before.any(|other| other.terms.share_a_lease(terms));
        self.waiters.get(place).map(|waiter| waiter.terms).is_some_and(shares)
            && Mechanism::SharersWaitForAskers.is_on()
    }

    /// Returns true if that caller was handed the lease, which is still `valid`; then the caller leaves the queue. A
    /// caller whose lease is over already keeps its place.
    fn takes_over(&mut self, ticket: QueueTicket, valid: bool) -> bool {
        let current = self.leases.last().map(|won| won.lease);
        let Some(waiter) = self.waiter(ticket) else { return false };
        let Doing::Chosen { lease } = waiter.doing else { return false };
        let taken = valid && current == Some(lease);
        waiter.doing = Doing::Waiting;
        if taken {
            self.waiters.retain(|waiter| waiter.ticket != ticket);
        }
        taken
    }

    /// Notes that a caller in the queue has asked the nodes, and did not get the lock.
    pub(crate) fn concluded(&mut self, conclusion: Conclusion) -> Wake {
        let word = match conclusion {
            Conclusion::Won { .. } | Conclusion::Held { .. } => Word::Held,
            _ => Word::Trouble,
        };
        if self.leases.is_empty() {
            // Other processes have had their chance, so the next hand-over begins a new turn.
            self.turn_began = None;
        }
        let before = std::mem::replace(&mut self.word, word);
        if word == Word::Trouble && before != word { Wake::All } else { Wake::Nobody }
    }

    /// Notes that the nodes have granted the lock to that caller. Its ticket names the lease from now on. Returns the waiters
    /// that may join the lease.
    pub(crate) fn won(&mut self, ticket: QueueTicket, with: H, now: Time) -> Wake {
        let asked_at = self.waiter(ticket).map_or(now, |waiter| waiter.asked_at);
        let place = self.place(ticket);
        self.waiters.retain(|waiter| waiter.ticket != ticket);
        self.pause_until = None;
        // This lease may be the reason of the writer's refusal: its keys may have been on the nodes by then.
        let closed = self.writer_told_at.is_some_and(|told_at| asked_at <= told_at);
        let of = self.waiters.back().map_or(0, |waiter| waiter.ticket);
        let won = Won { lease: ticket, at: now, of, closed, sequence: 0, with };
        match self.class {
            HoldClass::Exclusive => {
                self.word = Word::Held;
                // The nodes have granted the lock anew, so earlier leases are over.
                self.leases = vec![won];
                match self.askers {
                    Askers::AtMost(most) => self.next_for_itself(place, most),
                    Askers::First | Askers::All => Wake::Nobody,
                }
            }
            HoldClass::Shared => {
                // The new lease excludes no caller of this queue.
                self.word = Word::Nothing;
                self.leases.push(won);
                Wake::All
            }
        }
    }

    /// Notes that a node has announced a waiting writer. Callers that come from now on do not join the present leases, since the
    /// writer would wait for them.
    pub(crate) fn writer_waits(&mut self, now: Time) {
        if Mechanism::WritersEndJoins.is_on() {
            self.writer_told_at = Some(now);
            self.leases.iter_mut().for_each(|won| won.closed = true);
        }
    }

    /// Hands that lease, which its holder gives back, to a waiter. Returns the waiter and the sequence number of
    /// the hand-over. `None`: the lease must be given back to the nodes. That is always so if several may hold the
    /// lock, since nobody waits for a lease then.
    ///
    /// If other processes wait (`others_wait`), each caller that is in the queue now has the lease once. Callers
    /// that come later wait for the next turn of this process.
    pub(crate) fn hand_over(
        &mut self,
        lease: QueueTicket,
        state: &mut Lease,
        others_wait: bool,
        now: Time,
    ) -> Option<(QueueTicket, u64)> {
        if self.class == HoldClass::Shared {
            return None;
        }
        let long = self.turn_is_over(now);
        let (began, of) = (self.turn_began, self.turn_is_of);
        let last = self.waiters.back().map_or(0, |waiter| waiter.ticket);
        let won = self.leases.iter_mut().find(|won| won.lease == lease)?;
        // Callers that ask the nodes just now do not hear of a hand-over.
        let next = self.waiters.iter_mut().find(|waiter| waiter.doing == Doing::Waiting)?;
        let short = others_wait && next.ticket > of;
        let over = long || short && began.is_some_and(|began| now.since(began) >= SHORT_TURN);
        if over || !state.hand_over(next.terms, now) {
            return None;
        }
        next.doing = Doing::Chosen { lease };
        if began.is_none() {
            (self.turn_began, self.turn_is_of) = (Some(now), last);
        }
        won.sequence += 1;
        Some((next.ticket, won.sequence))
    }

    /// Removes a caller that does not want the lock any more, or has got it. Returns true if the caller was handed the lease
    /// meanwhile and has to give it back like a holder, and the waiters to wake.
    pub(crate) fn leave(&mut self, ticket: QueueTicket) -> (bool, Wake) {
        let place = self.place(ticket);
        let left = place.and_then(|place| self.waiters.remove(place));
        let chosen = left.is_some_and(|waiter| matches!(waiter.doing, Doing::Chosen { .. }));
        let wake = match (self.askers, self.class) {
            (Askers::AtMost(most), _) => self.next_for_itself(place, most),
            (_, HoldClass::Shared) => self.next_asker(),
            (_, HoldClass::Exclusive) if place == Some(0) => self.first(),
            (_, HoldClass::Exclusive) => Wake::Nobody,
        };
        (chosen && Mechanism::ChosenWhoLeavesPassesOn.is_on(), wake)
    }

    /// Returns the caller that has waited for one that asked the nodes and does not any more. Callers on other terms have not
    /// waited for that one, so there is at most one.
    fn next_asker(&mut self) -> Wake {
        let waits = |place: &usize| self.waiters[*place].doing == Doing::Waiting;
        let mut waiting = (0..self.waiters.len()).filter(waits);
        let next = waiting.find(|place| !self.somebody_asks_for(*place));
        next.and_then(|place| self.waiters.get_mut(place)).map_or(Wake::Nobody, |waiter| {
            waiter.doing = Doing::Asking;
            Wake::One(waiter.ticket)
        })
    }

    /// Notes that this lease has been given back to the nodes, or was `lost`. If others wait and hear of it
    /// (`others_wait`), `Fairness` leaves the lock to them, not this queue.
    pub(crate) fn gone(
        &mut self,
        lease: QueueTicket,
        lost: bool,
        others_wait: bool,
        now: Time,
    ) -> Wake {
        let over = self.turn_is_over(now);
        let Some(place) = self.leases.iter().position(|won| won.lease == lease) else {
            return Wake::Nobody;
        };
        self.leases.remove(place);
        if lost || others_wait || self.class == HoldClass::Shared {
            // A lease that is shared has a turn of its own: see `Won::is_open`.
            self.turn_began = None;
        } else if over {
            self.turn_began = None;
            self.pause_until = Some(now.after(PAUSE));
        } else if self.turn_began.is_none() {
            let last = self.waiters.back().map_or(0, |waiter| waiter.ticket);
            (self.turn_began, self.turn_is_of) = (Some(now), last);
        }
        self.first()
    }

    fn turn_is_over(&self, now: Time) -> bool {
        let long = self.turn_began.is_some_and(|began| is_over(began, TURN, now));
        long || self.leases.last().is_some_and(Won::is_used_up)
    }

    fn first(&self) -> Wake {
        self.waiters.front().map_or(Wake::Nobody, |waiter| Wake::One(waiter.ticket))
    }

    fn waiter(&mut self, ticket: QueueTicket) -> Option<&mut QueuedCall<W>> {
        self.waiters.iter_mut().find(|waiter| waiter.ticket == ticket)
    }

    fn place(&self, ticket: QueueTicket) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.ticket == ticket)
    }
}

#[cfg(test)]
#[path = "tests/local_queue_model.rs"]
mod model;
#[cfg(test)]
#[path = "tests/local_queue_shared_model.rs"]
mod shared_model;
#[cfg(test)]
#[path = "tests/local_queue.rs"]
mod tests;
