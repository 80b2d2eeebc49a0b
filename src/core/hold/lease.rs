//! What is known of a lock that was granted: until when it is ours, and when to renew it.

use std::fmt;
use std::time::Duration;

use super::super::base::{Allowance, Basis, Mechanism, Rule, Time};
use super::super::vote::{Kept, Renewed};

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended, and no renewal was on its way: it is not renewed, or this process or its machine was too slow.
    Expired,
    /// Its validity ended, because too few nodes confirmed its renewals in time.
    Unconfirmed,
    /// A majority of the nodes has not got our key any more, before its time: somebody deleted it,
    /// or the nodes lost their data.
    KeysGone,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
    /// The clocks of most nodes advanced more than our own: this machine was suspended, as a virtual
    /// machine does that is suspended, or those clocks were set. The time of the lock may be over, and
    /// our own clock does not show it.
    ClockStoodStill,
}

/// Half a sentence, for what comes behind "the lock is lost:".
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

/// What holding a lock was agreed to mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// Whether the lock is renewed while it is held.
    pub(crate) renewed: bool,
    /// The longest that it may be held in all.
    pub(crate) max_hold: Option<Duration>,
    /// How long the nodes keep it at least, from the grant on, also if it is given back earlier.
    pub(crate) min_hold: Option<Duration>,
    /// What its validity is shortened by.
    pub(crate) allowance: Allowance,
    /// How long before its end the holder is warned; `None`: as renewals fail.
    pub(crate) risk_margin: Option<Duration>,
    /// The lease is for one holder: it is neither handed over nor joined. A term of a leader is one hold.
    pub(crate) one_holder: bool,
}

impl Terms {
    /// These terms, with a TTL no longer than the longest hold needs: the key of a holder that crashed
    /// is in nobody's way after that.
    pub(crate) fn ending_with_the_hold(self) -> Self {
        let needed = self.max_hold.map_or(Duration::MAX, |hold| self.allowance.ttl_lasting(hold));
        Self { ttl: self.ttl.min(needed), ..self }
    }

    /// Whether callers on these terms and on `others` can hold one lease together: see [`Lease::can_be_joined`].
    pub(crate) fn share_a_lease(self, others: Self) -> bool {
        let can = |terms: Self| {
            terms.renewed && terms.max_hold.or(terms.min_hold).is_none() && !terms.one_holder
        };
        let same = self.ttl == others.ttl && self.risk_margin == others.risk_margin;
        can(self) && can(others) && same
    }
}

/// When the renewals of a lock fall due, so that the nodes get many of them in one write.
///
/// Each lock is renewed somewhat earlier than it has to be, by a part of its own. So the renewals of locks that were taken
/// at one instant spread over the time, and no other lock waits behind all of them. And they fall due at steps, so that
/// renewals that are due within some milliseconds of each other are due at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Schedule {
    /// Of the lock, in `0.0..1.0`: the part of a twelfth of the TTL by which it is renewed earlier.
    part: f64,
    /// Of the client: by how much its steps are later than those of the clock. Clients that share a clock would else ask
    /// the nodes at one time.
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

    /// How much earlier than it is due a lock with that TTL is renewed, each time.
    fn jitter(&self, ttl: Duration) -> Duration {
        (ttl / 12).mul_f64(self.part)
    }

    /// The last step that is not behind `due`.
    fn step_before(&self, due: Time, ttl: Duration) -> Time {
        let since_a_step =
            due.since(Time::default().after(self.phase)).as_nanos() % step(ttl).as_nanos();
        due.before(Duration::from_nanos(since_a_step as u64))
    }
}

/// The time between two steps: about a 256th of the TTL, and so a hundredth of the time between two renewals. It is a power
/// of two in milliseconds, so that locks with different TTLs have steps in common.
fn step(ttl: Duration) -> Duration {
    let most = Schedule::LONGEST_STEP.as_millis();
    let whole = (ttl.as_millis() / 256).clamp(1, most);
    Duration::from_millis(1 << whole.ilog2())
}

/// What the last thing that was heard of the lock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    /// Granted, and not renewed yet.
    Held,
    /// A majority confirmed the last renewal.
    Renewed,
    /// The last renewal was not confirmed. It may have happened all the same, which says nothing:
    /// the validity stays what it was.
    Unknown,
    Lost(LossReason),
}

/// What to do next about a lease, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Renew it then.
    Renew(Time),
    /// Probe it then: it ends.
    End(Time),
    /// Nothing any more.
    Over(LossReason),
}

/// The lease of a held lock.
///
/// Only a majority that confirms *this* round moves the end of validity; a reply that did not come
/// changes nothing. Once lost, it stays lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    terms: Terms,
    basis: Basis,
    state: LeaseState,
    valid_until: Time,
    /// The end that `max_hold` sets.
    ends_at: Option<Time>,
    /// Until when the nodes keep the lock, as `min_hold` says.
    keep_until: Option<Time>,
    renew_at: Time,
    schedule: Schedule,
    /// The longest time any of our keys was asked to live for.
    longest_ttl: Duration,
    /// Until when any of them was asked to live.
    keys_until: Time,
    /// The nodes were asked for a longer life, and the verdict is waited for.
    awaits_verdict: bool,
}

impl Lease {
    /// A lock that was asked for at `started`, before the first byte was sent, and is valid until
    /// then.
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

    /// The nodes have granted the lock: the time for which they keep it at least begins.
    pub(crate) fn granted(&mut self, now: Time) {
        self.keep_until = self.terms.min_hold.map(|min_hold| now.after(min_hold));
    }

    /// The nodes are not to keep the lock once it is given back.
    pub(crate) fn waive_min_hold(&mut self) {
        self.keep_until = None;
    }

    /// How the nodes keep a lock that is given back now; `None`: it is free at once.
    pub(crate) fn kept(&self, now: Time) -> Option<Kept> {
        let until = self.keep_until.filter(|until| now < *until)?;
        Some(Kept { until, by: self.valid_until })
    }

    /// Whether the last renewal was not confirmed.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state == LeaseState::Unknown
    }

    /// How much longer the lock is certainly ours; zero once it may be somebody else's.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        match self.state {
            LeaseState::Lost(_) => Duration::ZERO,
            LeaseState::Held | LeaseState::Renewed | LeaseState::Unknown => {
                self.valid_until.since(now)
            }
        }
    }

    /// Why the lock is not ours any more, if that is so. The clock decides, not the thread that asks first.
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

    /// This machine was suspended, so nobody knows what is left of the validity.
    pub(crate) fn suspended(&mut self) {
        if !matches!(self.state, LeaseState::Lost(_)) {
            self.state = LeaseState::Lost(LossReason::ClockStoodStill);
        }
    }

    /// What the lock rests on.
    pub(crate) const fn basis(&self) -> Basis {
        self.basis
    }

    /// For how long a round asks that no holder asks for: the TTL that was agreed on, or what its keys have left, if the lock
    /// is not renewed.
    pub(crate) fn renewal_ttl(&self, now: Time) -> Duration {
        let left = self.keys_until.since(now).max(Duration::from_millis(1));
        if self.terms.renewed { self.terms.ttl } else { left }
    }

    /// What its validity is shortened by.
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

    /// How long before the end its holder wants to be warned, if it has said so.
    pub(super) const fn risk_margin(&self) -> Option<Duration> {
        self.terms.risk_margin
    }

    /// The end of validity, as it is now.
    pub(crate) const fn valid_until(&self) -> Time {
        self.valid_until
    }

    /// How long the keys shall live from `now` on, where `wanted` is asked for: no longer than the
    /// longest hold needs.
    pub(crate) fn ttl(&self, wanted: Duration, now: Time) -> Duration {
        self.ends_at.map_or(wanted, |ends_at| {
            wanted.min(self.terms.allowance.ttl_lasting(ends_at.since(now)))
        })
    }

    /// Until when a node that lost the key may be given it again, if nobody else has taken it since:
    /// while the lock is certainly ours.
    pub(crate) fn repair_until(&self) -> Option<Time> {
        Some(self.valid_until).if_off(Mechanism::Repair, None)
    }

    /// The longest that a key of ours can live on, counted from the last time one was set.
    pub(crate) const fn longest_ttl(&self) -> Duration {
        self.longest_ttl
    }

    /// When to look at this lease again, and for what.
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
    /// A caller that asks for less gets less at once: no key is cut short, but the caller said that it
    /// will not use the lock any longer.
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
    /// A lease that had ended before is not revived: somebody else may have had the lock since.
    /// And a validity that is there already, from a longer extension, is not cut.
    pub(crate) fn renewed(&mut self, renewed: Renewed, now: Time) {
        let is_lost = self.loss(now).is_some();
        self.awaits_verdict = false;
        if is_lost && Mechanism::LostStaysLost.is_on() {
            return;
        }
        match renewed {
            Renewed::Until(until, basis) => {
                self.state = LeaseState::Renewed;
                // Rounds may overlap: an older one does not take a majority's word back. A majority's keys
                // have to live for as long as the lock is said to be valid. An extension in the fallback
                // may have reached further, on the first node alone.
                if self.basis == Basis::FirstNode && until >= self.valid_until {
                    self.basis = basis;
                }
                self.set_valid_until(until.max(self.valid_until));
                // However long it is valid: nodes that lost the key have to be found and repaired.
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

    /// The holder gives the lock back, and another caller wants it on `terms`, as if it had just been
    /// granted. Returns whether this lease can pass to that caller; if so, it has.
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

    /// Returns whether another caller, that wants the lock on `terms`, may hold it beside its present holders.
    ///
    /// The lease stays as it is. So a longest hold, be it theirs or the caller's, would be one for all of them.
    pub(crate) fn can_be_joined(&mut self, terms: Terms, now: Time) -> bool {
        let unlimited = self.terms.max_hold.is_none() && terms.max_hold.is_none();
        // Its holders are warned together.
        let same_margin = self.terms.risk_margin == terms.risk_margin;
        unlimited && same_margin && self.suits(terms, now)
    }

    /// Returns whether this lease is as good as a new one for a caller that wants the lock on `terms`.
    ///
    /// It is while a majority's last word on it was that it is ours, and if the new holder would have
    /// asked for the same keys. Without renewal it would not: it counts on a TTL from its own start on.
    /// And keys that were extended beyond what the new holder would ask for would be in everybody's way,
    /// should it crash.
    /// Half the TTL has to be left. A renewal is due when a third is gone, so with less left the nodes
    /// are in trouble, and it is better to ask them anew.
    /// A lock that the nodes keep is nobody's until then. And a caller that would have them keep it asks them itself:
    /// one that is handed the lease, and leaves before it looks, must not keep the lock from others.
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

    /// A renewal is due when a third of the TTL is gone, or somewhat earlier: two more tries have room
    /// before the end.
    fn set_valid_until(&mut self, until: Time) {
        self.valid_until = self.ends_at.map_or(until, |ends_at| until.min(ends_at));
        // The keys live on for as much longer as clocks may be set.
        let ttl = self.terms.ttl;
        let left = ttl * 2 / 3 + self.schedule.jitter(ttl);
        let due = until.before(left.saturating_sub(self.terms.allowance.clock_tolerance));
        self.renew_at = self.schedule.step_before(due, ttl);
    }

    /// After a round that was not confirmed: soon, but not at once.
    pub(super) fn retry_pause(&self) -> Duration {
        self.terms.ttl / 20
    }
}

#[cfg(test)]
impl Terms {
    /// The terms of a lock that is renewed, and about which nothing else is said.
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
