//! The lease of a granted lock: the end of its validity, and the time of its next renewal.

use std::fmt;
use std::time::Duration;

use super::super::base::{Allowance, Basis, Mechanism, Rule, Time};
use super::super::vote::{Kept, Renewed};

/// The reason for which a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended, and no renewal was under way: the lock is not renewed, or this process or its machine
    /// was too slow.
    Expired,
    /// Its validity ended, because too few nodes confirmed its renewals in time.
    Unconfirmed,
    /// Our key was gone from a majority of the nodes before its time: somebody deleted it, or an eviction policy dropped it.
    /// A restart or a flush does not cause that, unless [`restart_quarantine`](crate::Builder::restart_quarantine) is off.
    KeysGone,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// The clocks of most nodes advanced more than our own. Either this machine was suspended, as virtual machines
    /// are, or those clocks were set. The time of the lock may be over, and our own clock does not show it.
    ClockStoodStill,
}

/// The second half of a sentence that begins with "the lock is lost:".
impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Expired => "its validity ended",
            Self::Unconfirmed => "too few nodes confirmed its renewals, and its validity ended",
            Self::KeysGone => "its keys were gone from a majority of the nodes too early",
            Self::MaxHold => "it was held for the longest time allowed",
            Self::ClockStoodStill => {
                "the clocks of most nodes advanced more than ours, so its time may be over"
            }
        })
    }
}

/// The agreed terms on which a lock is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// True if the lock is renewed while it is held.
    pub(crate) renewed: bool,
    /// The longest time for which it may be held in all.
    pub(crate) max_hold: Option<Duration>,
    /// The shortest time, from the grant on, for which the nodes keep the lock, even if it is given back earlier.
    pub(crate) min_hold: Option<Duration>,
    /// The time by which its validity is shortened.
    pub(crate) allowance: Allowance,
    /// Time before the end of the lock at which the holder is warned; `None`: it depends on the failed renewals.
    pub(crate) risk_margin: Option<Duration>,
    /// True if the lease is for one holder: it is neither handed over nor joined. A term of a leader is one hold.
    pub(crate) one_holder: bool,
}

impl Terms {
    /// These terms, with a TTL no longer than the longest hold needs. So the key of a crashed holder blocks nobody
    /// after that.
    pub(crate) fn ending_with_the_hold(self) -> Self {
        let needed = self.max_hold.map_or(Duration::MAX, |hold| self.allowance.ttl_lasting(hold));
        Self { ttl: self.ttl.min(needed), ..self }
    }

    /// Returns true if callers on these terms and on `others` can hold one lease together: see
    /// [`Lease::can_be_joined`].
    pub(crate) fn share_a_lease(self, others: Self) -> bool {
        let can = |terms: Self| {
            terms.renewed && terms.max_hold.or(terms.min_hold).is_none() && !terms.one_holder
        };
        let same = self.ttl == others.ttl && self.risk_margin == others.risk_margin;
        can(self) && can(others) && same
    }
}

/// The times at which the renewals of a lock fall due, so that one write to a node carries many of them.
///
/// Each lock is renewed somewhat earlier than necessary, by a part of its own. So the renewals of locks that were
/// taken at one instant spread over time, and no other lock waits behind all of them. Renewals fall due at steps,
/// so those that are due within some milliseconds of each other are made together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    /// The lock's part, in `0.0..1.0`, of a twelfth of the TTL by which it is renewed earlier.
    part: f64,
    /// The client's delay of its steps relative to those of the clock. Without it, clients that share a clock would
    /// ask the nodes at one time.
    phase: Duration,
}

impl Schedule {
    const LONGEST_STEP: Duration = Duration::from_millis(64);

    pub(crate) fn new(part: f64, phase: Duration) -> Self {
        Self { part: part.clamp(0.0, 1.0), phase }
    }

    /// A phase for a client; `part` is in `0.0..1.0`.
    pub(crate) fn phase(part: f64) -> Duration {
        Self::LONGEST_STEP.mul_f64(part.clamp(0.0, 1.0))
    }

    /// Time by which a lock with that TTL is renewed earlier than it is due, at each renewal.
    fn jitter(&self, ttl: Duration) -> Duration {
        (ttl / 12).mul_f64(self.part)
    }

    /// The last step that is not later than `due`.
    fn step_before(&self, due: Time, ttl: Duration) -> Time {
        let since_a_step =
            due.since(Time::default().after(self.phase)).as_nanos() % step(ttl).as_nanos();
        due.before(Duration::from_nanos(since_a_step as u64))
    }
}

/// The time between two steps: about a 256th of the TTL, and so a hundredth of the time between two renewals. It is
/// a power of two in milliseconds, so that locks with different TTLs have steps in common.
fn step(ttl: Duration) -> Duration {
    let most = Schedule::LONGEST_STEP.as_millis();
    let whole = (ttl.as_millis() / 256).clamp(1, most);
    Duration::from_millis(1 << whole.ilog2())
}

/// The state of a lease by its last news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    /// Granted, and not renewed yet.
    Held,
    /// A majority confirmed the last renewal.
    Renewed,
    /// The last renewal was not confirmed. It may have happened, but that changes nothing: the validity stays as it
    /// was.
    Unknown,
    Lost(LossReason),
}

/// The next thing to do about a lease, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Renew it at that time.
    Renew(Time),
    /// Check it at that time: it ends then.
    End(Time),
    /// Nothing any more: it is lost.
    Over(LossReason),
}

/// The lease of a held lock.
///
/// Only a majority that confirms *this* round moves the end of validity. A reply that did not come changes nothing.
/// Once lost, the lease stays lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    terms: Terms,
    basis: Basis,
    state: LeaseState,
    valid_until: Time,
    /// The end that `max_hold` sets.
    ends_at: Option<Time>,
    /// End of the time for which the nodes keep the lock because of `min_hold`.
    keep_until: Option<Time>,
    renew_at: Time,
    schedule: Schedule,
    /// The longest time for which any of our keys was asked to live.
    longest_ttl: Duration,
    /// The latest time until which any of our keys was asked to live.
    keys_until: Time,
    /// True if the nodes were asked for a longer life of the keys, and the verdict is not reached.
    awaits_verdict: bool,
}

impl Lease {
    /// The lease of a lock that was asked for at `started`, before the first byte was sent, and is valid until
    /// `valid_until`.
    pub(crate) fn new(
        terms: Terms,
        basis: Basis,
        started: Time,
        valid_until: Time,
        schedule: Schedule,
    ) -> Self {
        let ends_at = terms.max_hold.map(|max_hold| started.after(max_hold));
        let mut lease = Self {
            terms,
            basis,
            state: LeaseState::Held,
            valid_until: Time::default(),
            ends_at,
            keep_until: None,
            renew_at: Time::default(),
            schedule,
            longest_ttl: terms.ttl,
            keys_until: started.after(terms.ttl),
            awaits_verdict: false,
        };
        lease.set_valid_until(valid_until);
        lease
    }

    /// The nodes have granted the lock. The time for which they keep it at least begins.
    pub(crate) fn granted(&mut self, now: Time) {
        self.keep_until = self.terms.min_hold.map(|min_hold| now.after(min_hold));
    }

    /// Cancels `min_hold`: the nodes are not to keep the lock once it is given back.
    pub(crate) fn waive_min_hold(&mut self) {
        self.keep_until = None;
    }

    /// The terms on which the nodes keep a lock that is given back now; `None`: it is free at once.
    pub(crate) fn kept(&self, now: Time) -> Option<Kept> {
        let until = self.keep_until.filter(|until| now < *until)?;
        Some(Kept { until, by: self.valid_until })
    }

    /// Returns true if the last renewal was not confirmed.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state == LeaseState::Unknown
    }

    /// The time for which the lock is still certainly ours; zero once another owner may have it.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        match self.state {
            LeaseState::Lost(_) => Duration::ZERO,
            LeaseState::Held | LeaseState::Renewed | LeaseState::Unknown => {
                self.valid_until.since(now)
            }
        }
    }

    /// Returns the reason for which the lock is not ours any more, if it is not. The clock decides, not the thread
    /// that asks first.
    pub(crate) fn loss(&mut self, now: Time) -> Option<LossReason> {
        if !matches!(self.state, LeaseState::Lost(_)) && self.remaining(now).is_zero() {
            let is_unconfirmed = self.awaits_verdict || self.state == LeaseState::Unknown;
            let is_unconfirmed = self.terms.renewed && is_unconfirmed;
            let reason = match (self.ends_by_max_hold(), is_unconfirmed) {
                (true, _) => LossReason::MaxHold,
                (false, true) => LossReason::Unconfirmed,
                (false, false) => LossReason::Expired,
            };
            self.state = LeaseState::Lost(reason);
        }
        match self.state {
            LeaseState::Lost(reason) => Some(reason),
            LeaseState::Held | LeaseState::Renewed | LeaseState::Unknown => None,
        }
    }

    /// Returns true if the validity reaches as far as `max_hold` allows, so that no renewal makes it any longer.
    pub(crate) fn ends_by_max_hold(&self) -> bool {
        self.ends_at.is_some_and(|ends_at| ends_at <= self.valid_until)
    }

    /// This machine was suspended, so the rest of the validity is unknown.
    pub(crate) fn suspended(&mut self) {
        if !matches!(self.state, LeaseState::Lost(_)) {
            self.state = LeaseState::Lost(LossReason::ClockStoodStill);
        }
    }

    /// The nodes that the lock rests on.
    pub(crate) const fn basis(&self) -> Basis {
        self.basis
    }

    /// The TTL of a round that no holder asks for: the agreed TTL, or the time that the keys have left, if the lock
    /// is not renewed.
    pub(crate) fn renewal_ttl(&self, now: Time) -> Duration {
        let left = self.keys_until.since(now).max(Duration::from_millis(1));
        if self.terms.renewed { self.terms.ttl } else { left }
    }

    /// The time by which its validity is shortened.
    pub(crate) const fn allowance(&self) -> Allowance {
        self.terms.allowance
    }

    /// Returns true if the lock is renewed while it is held.
    pub(super) const fn is_renewed(&self) -> bool {
        self.terms.renewed
    }

    /// The TTL that was agreed on.
    pub(super) const fn agreed_ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// Time before the end at which the holder wants to be warned, if it has set one.
    pub(super) const fn risk_margin(&self) -> Option<Duration> {
        self.terms.risk_margin
    }

    /// The end of validity, as it is now.
    pub(crate) const fn valid_until(&self) -> Time {
        self.valid_until
    }

    /// Time for which the keys shall live from `now` on, if `wanted` is asked for: no longer than the longest hold
    /// needs.
    pub(crate) fn ttl(&self, wanted: Duration, now: Time) -> Duration {
        self.ends_at.map_or(wanted, |ends_at| {
            wanted.min(self.terms.allowance.ttl_lasting(ends_at.since(now)))
        })
    }

    /// End of the time for which a node that lost the key may set it again, if no other owner has taken it since:
    /// the lock is certainly ours until then.
    pub(crate) fn repair_until(&self) -> Option<Time> {
        Some(self.valid_until).if_off(Mechanism::Repair, None)
    }

    /// The longest time for which one of our keys can live on, counted from the last time one was set.
    pub(crate) const fn longest_ttl(&self) -> Duration {
        self.longest_ttl
    }

    /// The next thing to do about this lease, and its time.
    pub(crate) fn next(&mut self, now: Time) -> Next {
        if let Some(reason) = self.loss(now) {
            return Next::Over(reason);
        }
        let worth_it = self.ends_at.is_none_or(|ends_at| self.valid_until < ends_at);
        if self.terms.renewed && worth_it && self.renew_at < self.valid_until {
            Next::Renew(self.renew_at)
        } else {
            Next::End(self.valid_until)
        }
    }

    /// The caller asks for `ttl` from `now` on, which would be valid until `until` at most.
    ///
    /// A caller that asks for less gets less at once. No key is cut short, but the caller has said that it will not
    /// use the lock any longer.
    pub(crate) fn extending(&mut self, ttl: Duration, now: Time, until: Time) {
        self.longest_ttl = self.longest_ttl.max(ttl);
        self.keys_until = self.keys_until.max(now.after(ttl));
        if until < self.valid_until {
            self.set_valid_until(until);
        }
    }

    /// A round of renewal or extension is about to be sent.
    pub(super) fn handle_asked(&mut self) {
        self.awaits_verdict = true;
    }

    /// A round of renewal or extension is over; its last vote that counts came at `now`.
    ///
    /// A lease that had ended before is not revived: another owner may have had the lock since. And a longer
    /// validity, from an earlier extension, is not cut.
    pub(crate) fn renewed(&mut self, renewed: Renewed, now: Time) {
        let is_lost = self.loss(now).is_some();
        self.awaits_verdict = false;
        if is_lost && Mechanism::LostStaysLost.is_on() {
            return;
        }
        match renewed {
            Renewed::Until(until, basis) => {
                self.state = LeaseState::Renewed;
                // Rounds may overlap: an older one does not revoke a majority's confirmation. The keys of a
                // majority must live for the whole validity of the lock. An extension in the fallback may have
                // reached further, on the first node alone.
                if self.basis == Basis::FirstNode && until >= self.valid_until {
                    self.basis = basis;
                }
                self.set_valid_until(until.max(self.valid_until));
                // This holds for any length of validity: nodes that lost the key must be found and repaired.
                let ttl = self.terms.ttl;
                let due = now.after((ttl / 3).saturating_sub(self.schedule.jitter(ttl)));
                self.renew_at = self.renew_at.min(self.schedule.step_before(due, ttl));
            }
            Renewed::Unknown => {
                self.state = LeaseState::Unknown;
                let due = now.after(self.retry_pause());
                self.renew_at = self.schedule.step_before(due, self.terms.ttl);
                if !Mechanism::UnknownDoesNotExtend.is_on() {
                    self.set_valid_until(now.after(self.terms.ttl));
                }
            }
            Renewed::Gone => self.state = LeaseState::Lost(LossReason::KeysGone),
        }
    }

    /// The holder gives the lock back, and another caller wants it on `terms`, as if it had just been granted.
    /// Returns true if this lease has passed to that caller.
    pub(crate) fn hand_over(&mut self, terms: Terms, now: Time) -> bool {
        if !self.suits(terms, now) {
            return false;
        }
        self.state = LeaseState::Held;
        self.terms = terms;
        self.keep_until = None;
        self.ends_at = terms.max_hold.map(|max_hold| now.after(max_hold));
        self.valid_until = self.ends_at.map_or(self.valid_until, |end| end.min(self.valid_until));
        true
    }

    /// Returns true if another caller may hold the lock on `terms`, together with its present holders.
    ///
    /// The lease keeps its terms. So a longest hold of either side would be one for all holders.
    pub(crate) fn can_be_joined(&mut self, terms: Terms, now: Time) -> bool {
        let unlimited = self.terms.max_hold.is_none() && terms.max_hold.is_none();
        // All holders of a lease are warned together.
        let same_margin = self.terms.risk_margin == terms.risk_margin;
        unlimited && same_margin && self.suits(terms, now)
    }

    /// Returns true if this lease is as good as a new one for a caller that wants the lock on `terms`.
    ///
    /// A majority's last answer must be that the lock is ours. The new holder's own request must be for the same
    /// keys. A holder without renewal would ask for others: it counts on a TTL from its own start on. Keys that
    /// were extended beyond the new holder's own request would block everybody if it crashed.
    ///
    /// Half the TTL must be left. A renewal is due when a third is gone, so with less left the nodes are in
    /// trouble, and it is better to ask them again.
    ///
    /// A lock that the nodes must keep goes to no holder before that time is over. A caller with a `min_hold` asks
    /// the nodes itself: a caller that is handed the lease, and leaves before it notices, must not keep the lock
    /// from others.
    fn suits(&mut self, terms: Terms, now: Time) -> bool {
        let one_holder = self.terms.one_holder || terms.one_holder;
        let same = self.terms.renewed && terms.renewed && self.terms.ttl == terms.ttl;
        let lost = self.loss(now).is_some();
        let held = !lost && self.state != LeaseState::Unknown && self.basis == Basis::Majority;
        let keys_left = self.valid_until.since(now) + terms.allowance.clock_tolerance;
        let enough = keys_left >= terms.ttl / 2;
        let in_time = self.keys_until <= now.after(terms.ttl);
        let kept = self.kept(now).is_some() || terms.min_hold.is_some();
        !one_holder
            && same
            && held.if_off(Mechanism::HandOverOnlyWhileHeld, true)
            && enough.if_off(Mechanism::HandOverNeedsValidity, true)
            && in_time.if_off(Mechanism::HandOverKeepsToTerms, true)
            && !kept.if_off(Mechanism::KeptLocksAreNotHandedOver, false)
    }

    /// Sets the end of validity. A renewal is due when a third of the TTL is gone, or somewhat earlier: two more
    /// tries fit before the end.
    fn set_valid_until(&mut self, until: Time) {
        self.valid_until = self.ends_at.map_or(until, |ends_at| until.min(ends_at));
        // The keys live longer than the validity, by the tolerance for set clocks.
        let ttl = self.terms.ttl;
        let left = ttl * 2 / 3 + self.schedule.jitter(ttl);
        let due = until.before(left.saturating_sub(self.terms.allowance.clock_tolerance));
        self.renew_at = self.schedule.step_before(due, ttl);
    }

    /// Pause after a round that was not confirmed: short, but not zero.
    pub(super) fn retry_pause(&self) -> Duration {
        self.terms.ttl / 20
    }
}

#[cfg(test)]
impl Terms {
    /// The terms of a renewed lock, with defaults for everything else.
    pub(crate) const fn renewed(ttl: Duration, allowance: Allowance) -> Self {
        Self {
            ttl,
            renewed: true,
            max_hold: None,
            min_hold: None,
            allowance,
            risk_margin: None,
            one_holder: false,
        }
    }
}

#[cfg(test)]
impl Lease {
    /// The next renewal is due.
    pub(super) fn make_due(&mut self) {
        self.renew_at = Time::default();
    }
}

#[cfg(test)]
#[path = "tests/lease.rs"]
mod tests;
