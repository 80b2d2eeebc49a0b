//! One lock that the nodes have granted, until it is given back or lost.
//!
//! [`HeldLock`] is the state that all threads share: the lease, its present holders, and the rounds of extension that
//! nodes have not answered. [`Prolong`](super::Prolong) is one renewal, or one call of `extend`. Both decide, and a driver
//! carries out their decisions.
//!
//! ```text
//! granted -> Held --- due: Renewal -> Prolong ---> Held, or lost
//!             |  ^--- hand_over: another thread of the process is the holder
//!             |  ^--- join: another thread of the process is one more holder
//!             |  ^--- reenter: the thread of a holder holds it once more
//!             |  ^--- downgrade: its exclusive holder shares it from now on
//!             |  ^--- one of several holders gives it back -> end(Holder)
//!             |------ due: Loss -> GiveBack -> end(Loss) -> releases
//!             +------ the last holder gives it back -> GiveBack -> end(Holder) -> releases
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::base::{Basis, HoldClass, Mechanism, Rule, Time, majority};
use super::super::vote::{Attempt, Extension, Grant, Kept, Renewed, Shared};
use super::asks::Asks;
use super::risk::Risk;
use super::{Lease, LossReason, Next, ReadRequest, RiskNews, RiskReason, Rounds, Schedule, Terms};

/// Lower bound of the numbers of re-entries. Sequence numbers of hand-overs are smaller.
const FIRST_REENTRY: u64 = 1 << 32;

/// A lock that the nodes have granted. `A` and `E` are shared by the driver and the threads that receive the nodes'
/// answers: the attempt that won the lock, and a round of extension.
///
/// The driver keeps the lock under one mutex. It holds that mutex while it sends a round, while the lock is handed over
/// or joined, and while the lock is ended.
#[derive(Debug)]
pub(crate) struct HeldLock<A, E> {
    pub(super) attempt: A,
    pub(super) lease: Lease,
    pub(super) rounds: Rounds<E>,
    /// The class of the hold that the nodes have granted.
    granted: HoldClass,
    /// The sequence numbers of the present holders, and the class of each hold. The holder that got the lock from the
    /// nodes has 0. Each later holder, by hand-over or by joining, has the next number. One thread at a time holds an
    /// exclusive lock. That thread counts as several holders if it has taken the lock again, some of them shared.
    holders: BTreeMap<u64, HoldClass>,
    /// True once the last exclusive holder of a lock that was granted as exclusive has left or downgraded it. From then
    /// on the lock is shared.
    downgraded: bool,
    /// Time at which the nodes are to be told of the downgrade, if they are.
    tell_at: Option<Time>,
    /// Number of times that threads have taken the lock again. These holds have numbers of their own, since they are no
    /// hand-overs.
    reentries: u64,
    /// True if its last holder has given it back in time.
    is_given_back: bool,
    /// True if some holder was told that the lock is lost, so that the event was reported, or is about to be.
    loss_told: bool,
    pub(super) risk: Risk,
    /// The requests to release the lock; `None`: no holder listens for them.
    asks: Option<Box<Asks>>,
    /// True if the driver has taken up a renewal that is not over.
    is_taken_up: bool,
    /// The round that decides, until its verdict is reached.
    pub(super) open_round: Option<E>,
    pub(super) nodes: usize,
    pub(super) node_timeout: Duration,
}

/// The next thing to do about a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing any more: the lock has ended.
    Nothing,
    /// One renewal: see [`Prolong::taken_up`](super::Prolong::taken_up). Then ask again.
    Renewal,
    /// A renewal at that time. Ask again then, or when the lease has changed.
    RenewalAt(Time),
    /// The end of the lock at that time. Ask again then.
    EndAt(Time),
    /// The lock is lost: see [`GiveBack::lost`](super::GiveBack::lost).
    Loss,
}

impl Due {
    /// Returns the time at which the lock must be checked, which is `now` if something is due; `None`: never again.
    pub(crate) const fn look_at(self, now: Time) -> Option<Time> {
        match self {
            Self::Nothing => None,
            Self::Renewal | Self::Loss => Some(now),
            Self::RenewalAt(at) | Self::EndAt(at) => Some(at),
        }
    }
}

/// The reason for which a lock ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndedBy {
    /// The holder with that sequence number gives it back.
    Holder(u64),
    /// It is lost.
    Loss,
}

/// The result of a holder's leaving, or of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing: the lock had ended before, or that holder does not hold it any more.
    Before,
    /// The holder has left, and others hold the lock. `lost`: the reason for the loss, if the lock is lost and its
    /// holders must still be told. `downgraded`: the lock is downgraded by that.
    OthersHold { lost: Option<LossReason>, downgraded: bool },
    /// The lock has ended, and its releases are due.
    Now(Ending),
}

/// The state of a lock that has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The reason for its loss, if it was lost. Then nobody waits for its releases.
    pub(crate) lost: Option<LossReason>,
    /// The nodes that the lock rested on; its release rests on the same.
    pub(crate) basis: Basis,
    /// The longest time that one of its keys can live on.
    pub(crate) longest_ttl: Duration,
    /// The terms on which the nodes keep the lock despite its release.
    pub(crate) kept: Option<Kept>,
    /// The class of the hold at the end.
    pub(crate) class: HoldClass,
}

impl<A: Shared<Attempt>, E: Shared<Extension>> HeldLock<A, E> {
    /// The lock of that class that `attempt` won.
    pub(crate) fn new(
        attempt: A,
        class: HoldClass,
        terms: Terms,
        grant: &Grant,
        schedule: Schedule,
        nodes: usize,
        node_timeout: Duration,
    ) -> Self {
        let mut lease = Lease::new(terms, grant.basis, grant.started, grant.valid_until, schedule);
        lease.granted(grant.known_at);
        let risk = Risk::new(terms.ttl, grant.started, lease.valid_until());
        Self {
            attempt,
            lease,
            rounds: Rounds::new(),
            granted: class,
            holders: BTreeMap::from([(0, class)]),
            downgraded: false,
            tell_at: None,
            reentries: 0,
            is_given_back: false,
            loss_told: false,
            risk,
            asks: None,
            is_taken_up: false,
            open_round: None,
            nodes,
            node_timeout,
        }
    }

    /// Takes in the number of suspensions of this machine before the lock was asked for, and their number now. After one, the
    /// rest of the validity is unknown, and the lease is over. The driver calls this whenever it takes the lock's mutex.
    /// Otherwise a thread that runs again after a suspension could use the lock before another thread has told it.
    pub(crate) fn handle_suspensions(&mut self, before: u64, now: u64) {
        if before != now && Mechanism::SuspensionsEndLeases.is_on() {
            self.lease.suspended();
        }
    }

    /// This machine was suspended after the lock was asked for.
    #[cfg(test)]
    pub(crate) fn handle_suspended(&mut self) {
        self.handle_suspensions(0, 1);
    }

    /// Returns the next thing to do about the lock. The answer changes with time, with each round of extension, with a
    /// hand-over, with a downgrade, with a suspension, and with the end.
    pub(crate) fn due(&mut self, now: Time) -> Due {
        if self.has_ended() {
            return Due::Nothing;
        }
        let next = match (self.lease.next(now), self.tell_at) {
            (Next::Renew(at), Some(tell_at)) => Next::Renew(at.min(tell_at)),
            (Next::End(end), Some(tell_at)) if tell_at < end => Next::Renew(tell_at),
            (next, _) => next,
        };
        match next {
            Next::Renew(at) if at <= now => Due::Renewal,
            Next::Renew(at) => Due::RenewalAt(at),
            Next::End(at) => Due::EndAt(at),
            Next::Over(_) => Due::Loss,
        }
    }

    /// Returns what the driver's timer does now about this lock. A renewal that it takes up is not due again before
    /// [`renewal_is_over`](Self::renewal_is_over); until then only the end of the lock can be due.
    pub(crate) fn take_up(&mut self, now: Time) -> Due {
        let due = self.due_beside_renewal(now);
        self.is_taken_up |= due == Due::Renewal;
        due
    }

    /// The renewal that was taken up has been made, or is not made.
    pub(crate) fn renewal_is_over(&mut self) {
        self.is_taken_up = false;
    }

    /// Returns the time at which the timer must check the lock: `now` if something is due; `None`: never again. The
    /// answer changes as that of [`due`](Self::due) does, with [`take_up`](Self::take_up), with
    /// [`poll_risk`](Self::poll_risk), and with each node that is read for requests.
    pub(crate) fn look_at(&mut self, now: Time) -> Option<Time> {
        let look_at = self.due_beside_renewal(now).look_at(now)?;
        let asks_at = self.asks.as_ref().and_then(|asks| asks.look_at());
        let others = [self.warn_at(), asks_at].into_iter().flatten().min();
        Some(others.map_or(look_at, |at| at.max(now).min(look_at)))
    }

    fn due_beside_renewal(&mut self, now: Time) -> Due {
        match self.due(now) {
            Due::Renewal | Due::RenewalAt(_) if self.is_taken_up => Due::EndAt(self.valid_until()),
            due => due,
        }
    }

    /// Returns the time at which the holders must be warned that the lock may be lost, if nothing is confirmed before;
    /// `None`: they are warned already, or never are.
    pub(crate) fn warn_at(&self) -> Option<Time> {
        self.at_risk_from().filter(|_| !self.risk.is_warned())
    }

    /// `None` for a lock that is not renewed, or whose validity ends at the agreed `max_hold`.
    fn at_risk_from(&self) -> Option<Time> {
        let can_be = self.lease.is_renewed() && !self.lease.ends_by_max_hold();
        let (margin, valid_until) = (self.lease.risk_margin(), self.lease.valid_until());
        let from = can_be.then(|| self.risk.begins_at(margin, valid_until));
        from.if_off(Mechanism::HoldersAreWarned, None)
    }

    /// Returns the message about the risk that the holders must be told now. The answer changes with time, with the end
    /// of each renewal or extension, and with each call: each message is returned once.
    pub(crate) fn poll_risk(&mut self, now: Time) -> Option<RiskNews> {
        if self.has_ended() || self.lease.loss(now).is_some() {
            return None;
        }
        let is_at_risk = self.at_risk_from().is_some_and(|from| from <= now);
        let (remaining, valid_until) = (self.lease.remaining(now), self.lease.valid_until());
        match (self.risk.is_warned(), is_at_risk) {
            (false, true) => {
                self.risk.handle_warned(valid_until);
                self.risk_now(now)
            }
            (true, false) if self.risk.is_confirmed(valid_until) => {
                self.risk.forget_warning();
                Some(RiskNews::Recovered { remaining })
            }
            _ => None,
        }
    }

    /// Returns the warning for a further holder, if the present ones are warned.
    pub(crate) fn risk_now(&self, now: Time) -> Option<RiskNews> {
        let reason = match (&self.open_round, self.risk.has_failed()) {
            (_, true) => RiskReason::NotConfirmed,
            (Some(_), false) => RiskReason::NotAnswered,
            (None, false) => RiskReason::Late,
        };
        let remaining = self.lease.remaining(now);
        self.risk.is_warned().then_some(RiskNews::AtRisk { reason, remaining })
    }

    /// A holder listens for requests to release the lock. Returns true if none did before: then the driver must listen to
    /// the nodes, and read them.
    pub(crate) fn hear_asks(&mut self) -> bool {
        let is_first = self.asks.is_none() && !self.has_ended();
        if is_first {
            self.asks = Some(Box::new(Asks::new(self.nodes)));
        }
        is_first
    }

    /// Returns true if some holder listens for requests to release the lock.
    pub(crate) const fn hears_asks(&self) -> bool {
        self.asks.is_some()
    }

    /// A request to release the lock may be at that node. Returns the time limit for reading it now; `None`: a read is
    /// under way, and the node is read once more if needed.
    pub(crate) fn handle_sign_of_ask(&mut self, node: usize, now: Time) -> Option<Time> {
        let (until, has_ended) = (now.after(self.node_timeout), self.has_ended());
        let asks = self.asks.as_mut().filter(|_| !has_ended)?;
        asks.handle_sign(node, now, until).then_some(until)
    }

    /// The node was read, and keeps these requests to release the lock. Returns those that the holders must be told, and
    /// true if the node is to be read once more.
    pub(crate) fn handle_ask_read(
        &mut self,
        node: usize,
        requests: Vec<ReadRequest>,
        now: Time,
    ) -> (Vec<ReadRequest>, bool) {
        let is_over = self.has_ended() || self.lease.loss(now).is_some();
        let asks = self.asks.as_mut().filter(|_| !is_over);
        asks.map_or((Vec::new(), false), |asks| asks.handle_read(node, requests))
    }

    /// The node was to be read, and has not answered.
    pub(crate) fn handle_ask_missed(&mut self, node: usize, now: Time) {
        if let Some(asks) = &mut self.asks {
            asks.handle_missed(node, now);
        }
    }

    /// Returns the nodes that must be read again by `now`, since they did not answer.
    pub(crate) fn asks_due(&self, now: Time) -> Vec<usize> {
        self.asks.as_ref().map_or_else(Vec::new, |asks| asks.due(now))
    }

    /// Returns the request to release the lock that a further holder must be told as well.
    pub(crate) fn asked(&self) -> Option<&ReadRequest> {
        self.asks.as_ref()?.told()
    }

    /// Returns the round that decides, until its verdict is reached.
    pub(crate) fn open_round(&self) -> Option<&E> {
        self.open_round.as_ref()
    }

    /// See [`Lease::waive_min_hold`].
    pub(crate) fn waive_min_hold(&mut self) {
        self.lease.waive_min_hold();
    }

    pub(crate) fn remaining(&self, now: Time) -> Duration {
        self.lease.remaining(now)
    }

    /// See [`Lease::ends_by_max_hold`].
    pub(crate) fn ends_by_max_hold(&self) -> bool {
        self.lease.ends_by_max_hold()
    }

    /// Returns the class of the hold as it is now.
    pub(crate) fn class(&self) -> HoldClass {
        if self.downgraded { HoldClass::Shared } else { self.granted }
    }

    /// Returns the time until which the lock is certainly ours, as far as is known now; `None` if it is not.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        let left = self.lease.remaining(now);
        (!left.is_zero() && !self.has_ended()).then(|| now.after(left))
    }

    /// Returns the time until which the callers in the lock's queue need not ask the nodes for a lock like it, as far as
    /// is known now; `None` if they should ask.
    pub(crate) fn in_queue_until(&self, now: Time) -> Option<Time> {
        self.held_until(now).filter(|_| !self.downgraded)
    }

    /// Returns the end of validity as it is now, or was.
    pub(crate) fn valid_until(&self) -> Time {
        self.lease.valid_until()
    }

    /// Returns the reason for which the lock is not ours any more, if it is not.
    pub(crate) fn loss(&mut self, now: Time) -> Option<LossReason> {
        self.lease.loss(now)
    }

    /// Has holders told that the lock is lost: the holder that leaves, or all present holders if none leaves. `tell` tells the
    /// holder with that sequence number, and returns true if that holder was not told before. Returns true if a holder was told
    /// just now, and none before: there is one event for each lock.
    ///
    /// A holder that leaves tells no other holder. The thread that watches the lease does that.
    pub(crate) fn tell_loss(&mut self, by: EndedBy, mut tell: impl FnMut(u64) -> bool) -> bool {
        let mut holders: Vec<_> = match by {
            EndedBy::Holder(leaving) => vec![leaving],
            EndedBy::Loss => self.holders.keys().copied().collect(),
        };
        holders.truncate(holders.len().if_off(Mechanism::AllHoldersHearOfLosses, 1));
        let told = holders.into_iter().filter(|holder| tell(*holder)).count();
        told > 0 && !std::mem::replace(&mut self.loss_told, true)
    }

    /// Returns the nodes that the lock rests on.
    pub(crate) fn basis(&self) -> Basis {
        self.lease.basis()
    }

    /// Returns the longest time that one of its keys can live on.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.lease.longest_ttl()
    }

    /// Returns true if the lock has been given back, or was lost.
    pub(crate) fn has_ended(&self) -> bool {
        self.rounds.ended()
    }

    /// Returns true if the lock has been given back, and was not lost by then.
    pub(super) const fn is_given_back(&self) -> bool {
        self.is_given_back
    }

    /// The holder with the sequence number `from` gives the lock back. `choose` picks a waiter of this process that gets
    /// the lease, with the next sequence number. Returns that waiter and its number; `None`: the lock is not handed over.
    pub(crate) fn hand_over<W>(
        &mut self,
        from: u64,
        choose: impl FnOnce(&mut Lease) -> Option<(W, u64)>,
    ) -> Option<(W, u64)> {
        let is_sole = self.holders.len() == 1 && self.holders.contains_key(&from);
        if self.has_ended() || self.downgraded || !is_sole || self.goes_to_others() {
            return None;
        }
        let (waiter, sequence) = choose(&mut self.lease)?;
        self.risk.forget_warning();
        self.holders = BTreeMap::from([(sequence, self.granted)]);
        Some((waiter, sequence))
    }

    /// Returns true if the lock goes to other processes when its present holders give it back, since one of them was
    /// asked for it.
    pub(super) fn goes_to_others(&self) -> bool {
        self.asked().is_some().if_off(Mechanism::AskedLocksGoToOthers, false)
    }

    /// A caller of this process wants to hold the lock on `terms`, together with its present holders. Returns true if the
    /// caller is one of them from now on, with that sequence number.
    pub(crate) fn join(&mut self, terms: Terms, sequence: u64, now: Time) -> bool {
        let can_be_joined = self.lease.can_be_joined(terms, now) && !self.goes_to_others();
        let joins = !self.has_ended() && can_be_joined;
        if joins {
            self.holders.insert(sequence, self.granted);
        }
        joins
    }

    /// The thread of a present holder takes the lock again, for a hold of that class. Returns the number of this further
    /// hold, or the reason for which the lock is lost. The lease keeps the terms on which it was taken first.
    pub(crate) fn reenter(&mut self, class: HoldClass, now: Time) -> Result<u64, LossReason> {
        let lost = self.lease.loss(now).if_off(Mechanism::LostLocksAreNotTakenAgain, None);
        if let Some(reason) = lost {
            return Err(reason);
        }
        self.reentries += 1;
        let number = FIRST_REENTRY + self.reentries;
        self.holders.insert(number, class);
        Ok(number)
    }

    /// The holder with that sequence number shares the lock from now on. Returns true if all holders do so now, and not
    /// all of them did before: then a round of extension is due that tells the nodes.
    ///
    /// No further extension of the exclusive lock is sent. Extensions that were sent before may still arrive.
    pub(crate) fn downgrade(&mut self, holder: u64, now: Time) -> bool {
        if let Some(class) = self.holders.get_mut(&holder) {
            *class = HoldClass::Shared;
        }
        self.is_downgraded_now(now)
    }

    /// The same for the case that the last exclusive holder has just left, or shares the lock now.
    fn is_downgraded_now(&mut self, now: Time) -> bool {
        let exclusive = self.holders.values().any(|class| *class == HoldClass::Exclusive);
        if self.class() == HoldClass::Shared || exclusive || self.has_ended() {
            return false;
        }
        self.downgraded = true;
        self.tell_at = Some(now).if_off(Mechanism::DowngradesAreTold, None);
        let rounds = &mut self.rounds;
        self.attempt.with(|attempt| rounds.restart(attempt));
        true
    }

    /// A round of extension that tells the nodes of the downgrade has begun, and too few of them have confirmed it.
    pub(super) fn not_told(&mut self, now: Time) {
        self.tell_at = Some(now.after(self.lease.retry_pause()));
    }

    /// A round of extension is about to begin. Returns true if it tells the nodes of a downgrade.
    pub(super) fn telling(&mut self) -> bool {
        self.tell_at.take().is_some()
    }

    /// A holder leaves the lock, or the lock is lost. The lock ends with its last holder, and a loss ends it for all
    /// holders. After the end, no extension is sent.
    pub(crate) fn end(&mut self, by: EndedBy, now: Time) -> Ended {
        if let EndedBy::Holder(holder) = by {
            if self.has_ended() || !self.holders.contains_key(&holder) {
                return Ended::Before;
            }
            if self.holders.len() > 1 && Mechanism::LastHolderGivesBack.is_on() {
                self.holders.remove(&holder);
                let downgraded = self.is_downgraded_now(now);
                return Ended::OthersHold { lost: self.lease.loss(now), downgraded };
            }
        }
        let rounds = &mut self.rounds;
        if !self.attempt.with(|attempt| rounds.end(attempt)) {
            return Ended::Before;
        }
        let (basis, longest_ttl) = (self.lease.basis(), self.lease.longest_ttl());
        let lost = self.lease.loss(now);
        self.is_given_back = lost.is_none();
        // Another owner may have a lock that was lost.
        let kept = self.lease.kept(now).filter(|_| lost.is_none());
        Ended::Now(Ending { lost, basis, longest_ttl, kept, class: self.class() })
    }

    /// A holder is about to ask the nodes for `ttl` from `now` on, which would be valid until `until` at most. A sole
    /// holder that asks for less gets less at once. Other holders have not agreed to a shorter time.
    pub(super) fn extending(&mut self, ttl: Duration, now: Time, until: Time) {
        let others = self.holders.len() > 1 && Mechanism::ExtensionsCutNoOther.is_on();
        let until = if others { until.max(self.lease.valid_until()) } else { until };
        let before = self.lease.valid_until();
        self.lease.extending(ttl, now, until);
        self.end_may_have_moved(before, now);
    }

    /// A round of extension that began at `started` is over.
    pub(super) fn renewed(&mut self, renewed: Renewed, started: Time, now: Time) {
        let before = self.lease.valid_until();
        self.lease.renewed(renewed, now);
        if let Renewed::Until(..) = renewed {
            self.risk.handle_confirmed();
        }
        self.end_may_have_moved(before, started);
        self.open_round = None;
    }

    fn end_may_have_moved(&mut self, before: Time, started: Time) {
        let valid_until = self.lease.valid_until();
        if valid_until != before {
            self.risk.handle_new_end(self.lease.agreed_ttl(), started, valid_until);
        }
    }

    /// Returns true if so many nodes are known to be down, all but `up`, that no round can be confirmed. Such a round
    /// would only make the other nodes keep a useless key.
    pub(super) fn is_hopeless(&self, up: usize) -> bool {
        self.basis() == Basis::Majority && up < majority(self.nodes)
    }

    /// A round in which the keys shall live for `ttl` from `now` on, or for less if `max_hold` needs no more.
    pub(super) fn extension(&self, ttl: Duration, now: Time) -> Extension {
        let ttl = self.lease.ttl(ttl, now);
        let answer_by = now.after(self.node_timeout);
        Extension::new(self.nodes, now, answer_by, ttl, self.basis(), self.lease.allowance())
    }
}

#[cfg(test)]
impl<A: Shared<Attempt>, E: Shared<Extension>> HeldLock<A, E> {
    /// The next renewal is due.
    pub(crate) fn make_due(&mut self) {
        self.lease.make_due();
    }
}

#[cfg(test)]
#[path = "tests/held_lock.rs"]
mod tests;
