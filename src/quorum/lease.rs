//! What is known of a lock that was granted: until when it is ours, and when to renew it.

use std::time::Duration;

use super::validity::ttl_lasting;
use super::{Basis, Mechanisms, Time};

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its validity ended: it was not renewed, or too few nodes confirmed that in time.
    Expired,
    /// A majority of the nodes has not got our key any more, before its time: somebody deleted it,
    /// or the nodes lost their data.
    KeysGone,
    /// It was held for as long as `max_hold` allows.
    MaxHold,
}

/// What holding a lock was agreed to mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    /// Whether the lock is renewed while it is held.
    pub(crate) renewed: bool,
    /// The longest that it may be held in all.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) mechanisms: Mechanisms,
}

impl Terms {
    /// These terms, with a TTL no longer than the longest hold needs: the key of a holder that crashed
    /// is in nobody's way after that.
    pub(crate) fn ending_with_the_hold(self) -> Self {
        let needed = self.max_hold.map_or(Duration::MAX, ttl_lasting);
        Self { ttl: self.ttl.min(needed), ..self }
    }
}

/// What the last thing that was heard of the lock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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
    /// Look at it then: it ends.
    End(Time),
    /// Nothing any more.
    Over(LossReason),
}

/// What came of asking the nodes to let the keys live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Enough nodes confirmed, which makes it valid until then, on that basis.
    Until(Time, Basis),
    /// Too few nodes confirmed in time.
    Unknown,
    /// So many nodes said that our key is gone that no majority can have it.
    Gone,
}

/// The lease of a held lock.
///
/// Only a majority that confirms *this* round moves the end of validity; a reply that did not come
/// changes nothing. Once lost, it stays lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    terms: Terms,
    basis: Basis,
    state: State,
    valid_until: Time,
    /// The end that `max_hold` sets.
    ends_at: Option<Time>,
    renew_at: Time,
    /// The longest time any of our keys was asked to live for.
    longest_ttl: Duration,
}

impl Lease {
    /// A lock that was asked for at `started`, before the first byte was sent, and is valid until
    /// then.
    pub(crate) fn new(terms: Terms, basis: Basis, started: Time, valid_until: Time) -> Self {
        let ends_at = terms.max_hold.map(|max_hold| started.after(max_hold));
        let mut lease = Self {
            terms,
            basis,
            state: State::Held,
            valid_until: Time::default(),
            ends_at,
            renew_at: Time::default(),
            longest_ttl: terms.ttl,
        };
        lease.set_valid_until(valid_until);
        lease
    }

    /// Whether the last renewal was not confirmed.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state == State::Unknown
    }

    /// How much longer the lock is certainly ours; zero once it may be somebody else's.
    pub(crate) fn remaining(&self, now: Time) -> Duration {
        match self.state {
            State::Lost(_) => Duration::ZERO,
            State::Held | State::Renewed | State::Unknown => self.valid_until.since(now),
        }
    }

    /// Why the lock is not ours any more, if that is so. The clock decides, whoever looks first.
    pub(crate) fn loss(&mut self, now: Time) -> Option<LossReason> {
        if !matches!(self.state, State::Lost(_)) && self.remaining(now).is_zero() {
            let by_max_hold = self.ends_at.is_some_and(|ends_at| ends_at <= self.valid_until);
            let reason = if by_max_hold { LossReason::MaxHold } else { LossReason::Expired };
            self.state = State::Lost(reason);
        }
        match self.state {
            State::Lost(reason) => Some(reason),
            State::Held | State::Renewed | State::Unknown => None,
        }
    }

    /// What the lock rests on.
    pub(crate) const fn basis(&self) -> Basis {
        self.basis
    }

    /// The end of validity, as it is now.
    pub(crate) const fn valid_until(&self) -> Time {
        self.valid_until
    }

    /// How long the keys shall live from `now` on, where `wanted` is asked for: no longer than the
    /// longest hold needs.
    pub(crate) fn ttl(&self, wanted: Duration, now: Time) -> Duration {
        self.ends_at.map_or(wanted, |ends_at| wanted.min(ttl_lasting(ends_at.since(now))))
    }

    /// Until when a node that lost the key may be given it again, if nobody else has taken it since:
    /// while the lock is certainly ours.
    pub(crate) fn repair_until(&self) -> Option<Time> {
        self.terms.mechanisms.repair.then_some(self.valid_until)
    }

    /// How long ago the validity ended.
    pub(crate) fn ended_ago(&self, now: Time) -> Duration {
        now.since(self.valid_until)
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

    /// The caller asks for `ttl` from now on, which would be valid until `until` at most.
    ///
    /// Who asks for less gets less at once: no key is cut short, but the caller said that it will
    /// not use the lock any longer.
    pub(crate) fn extending(&mut self, ttl: Duration, until: Time) {
        self.longest_ttl = self.longest_ttl.max(ttl);
        if until < self.valid_until {
            self.set_valid_until(until);
        }
    }

    /// A round of renewal or extension is over; its last vote that counts came at `now`.
    ///
    /// A lease that had ended before is not revived: somebody else may have had the lock since.
    /// And a validity that is there already, from a longer extension, is not cut.
    pub(crate) fn renewed(&mut self, renewed: Renewed, now: Time) {
        if self.loss(now).is_some() && self.terms.mechanisms.lost_stays_lost {
            return;
        }
        match renewed {
            Renewed::Until(until, basis) => {
                self.state = State::Renewed;
                // Rounds may overlap: an older one does not take a majority's word back.
                if self.basis == Basis::FirstNode {
                    self.basis = basis;
                }
                self.set_valid_until(until.max(self.valid_until));
                // However long it is valid: nodes that lost the key have to be found and repaired.
                self.renew_at = self.renew_at.min(now.after(self.terms.ttl / 3));
            }
            Renewed::Unknown => {
                self.state = State::Unknown;
                self.renew_at = now.after(self.retry_pause());
                if !self.terms.mechanisms.unknown_does_not_extend {
                    self.set_valid_until(now.after(self.terms.ttl));
                }
            }
            Renewed::Gone => self.state = State::Lost(LossReason::KeysGone),
        }
    }

    /// A renewal is due when a third of the TTL is gone: two more tries have room before the end.
    fn set_valid_until(&mut self, until: Time) {
        self.valid_until = self.ends_at.map_or(until, |ends_at| until.min(ends_at));
        self.renew_at = until.before(self.terms.ttl * 2 / 3);
    }

    /// After a round that was not confirmed: soon, but not at once.
    fn retry_pause(&self) -> Duration {
        self.terms.ttl / 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn terms() -> Terms {
        Terms { ttl: ms(3_000), renewed: true, max_hold: None, mechanisms: Mechanisms::ALL }
    }

    fn lease() -> Lease {
        Lease::new(terms(), Basis::Majority, at(0), at(3_000))
    }

    #[test]
    fn validity_ends_by_the_clock_alone() {
        let mut lease = lease();
        assert_eq!(lease.remaining(at(400)), ms(2_600));
        assert_eq!(lease.loss(at(2_999)), None);
        assert_eq!(lease.remaining(at(3_000)), ms(0));
        assert_eq!(lease.loss(at(3_000)), Some(LossReason::Expired));
        assert_eq!(lease.ended_ago(at(3_200)), ms(200));
    }

    #[test]
    fn a_renewal_is_due_at_a_third_of_the_ttl_and_each_one_moves_the_next() {
        let mut lease = lease();
        assert_eq!(lease.next(at(0)), Next::Renew(at(1_000)));
        lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_010));
        assert_eq!(lease.next(at(1_010)), Next::Renew(at(2_000)));
    }

    #[test]
    fn unknown_does_not_extend_and_is_tried_again_soon() {
        let mut lease = lease();
        lease.renewed(Renewed::Unknown, at(1_200));
        assert_eq!(lease.remaining(at(1_200)), ms(1_800));
        assert_eq!(lease.next(at(1_200)), Next::Renew(at(1_350)));
        // Nothing is due behind the end.
        lease.renewed(Renewed::Unknown, at(2_900));
        assert_eq!(lease.next(at(2_900)), Next::End(at(3_000)));
        assert_eq!(lease.next(at(3_000)), Next::Over(LossReason::Expired));
    }

    /// Case 8 of the field's bugs: an "extend" that revives a lock already lost.
    #[test]
    fn a_confirmation_after_the_end_revives_nothing() {
        let mut lease = lease();
        lease.renewed(Renewed::Until(at(5_900), Basis::Majority), at(3_000));
        assert_eq!(lease.remaining(at(3_000)), ms(0));
        assert_eq!(lease.next(at(3_000)), Next::Over(LossReason::Expired));
    }

    #[test]
    fn a_majority_without_our_key_is_a_loss_before_the_end() {
        let mut lease = lease();
        lease.renewed(Renewed::Gone, at(1_000));
        assert_eq!(lease.loss(at(1_000)), Some(LossReason::KeysGone));
        assert_eq!(lease.remaining(at(1_000)), ms(0));
        lease.renewed(Renewed::Until(at(9_000), Basis::Majority), at(1_001));
        assert_eq!(lease.loss(at(1_001)), Some(LossReason::KeysGone), "it stays lost");
    }

    #[test]
    fn asking_for_less_cuts_the_validity_before_anything_is_sent() {
        let mut lease = lease();
        lease.extending(ms(100), at(300));
        assert_eq!(lease.remaining(at(200)), ms(100));
        assert_eq!(lease.longest_ttl(), ms(3_000), "the keys live on");
    }

    #[test]
    fn a_longer_extension_is_not_cut_by_the_renewals_after_it() {
        let mut lease = lease();
        lease.extending(ms(60_000), at(60_000));
        lease.renewed(Renewed::Until(at(60_000), Basis::Majority), at(10));
        assert_eq!(lease.next(at(10)), Next::Renew(at(1_010)), "the keys have to be looked after");
        lease.renewed(Renewed::Until(at(5_000), Basis::Majority), at(2_000));
        assert_eq!(lease.remaining(at(2_000)), ms(58_000));
    }

    #[test]
    fn the_longest_hold_ends_it_whatever_is_confirmed() {
        let terms = Terms { max_hold: Some(ms(4_500)), ..terms() };
        let mut lease = Lease::new(terms, Basis::Majority, at(0), at(3_000));
        lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_000));
        assert_eq!(lease.next(at(1_000)), Next::Renew(at(2_000)));
        lease.renewed(Renewed::Until(at(5_000), Basis::Majority), at(2_000));
        assert_eq!(lease.next(at(2_000)), Next::End(at(4_500)), "the keys live long enough");
        assert_eq!(lease.next(at(4_500)), Next::Over(LossReason::MaxHold));
    }

    /// A key that lives on after the end of the hold would be in everybody's way.
    #[test]
    fn keys_live_as_long_as_the_longest_hold_needs_and_no_longer() {
        let longest = Terms { max_hold: Some(ms(9_900)), ..terms() };
        let lease = Lease::new(longest, Basis::Majority, at(0), at(2_968));
        assert_eq!(lease.ttl(ms(3_000), at(1_000)), ms(3_000));
        assert_eq!(lease.ttl(ms(60_000), at(0)), ms(10_003), "9,900 ms, 1 % and 2 ms");
        assert_eq!(lease.ttl(ms(3_000), at(9_000)), ms(912));
        assert!(!lease.ttl(ms(3_000), at(20_000)).is_zero(), "which would delete a key");
        assert_eq!(Lease { ends_at: None, ..lease }.ttl(ms(60_000), at(0)), ms(60_000));

        assert_eq!(longest.ending_with_the_hold().ttl, ms(3_000));
        assert_eq!(Terms { ttl: ms(30_000), ..longest }.ending_with_the_hold().ttl, ms(10_003));
        assert_eq!(terms().ending_with_the_hold().ttl, ms(3_000));
    }

    /// Asking for more than the hold allows does not cost anything of it.
    #[test]
    fn an_extension_beyond_the_hold_is_valid_to_its_very_end() {
        let longest = Terms { max_hold: Some(ms(9_900)), ..terms() };
        let mut lease = Lease::new(longest, Basis::Majority, at(0), at(2_968));
        let ttl = lease.ttl(ms(60_000), at(123));
        let valid_until =
            super::super::validity::valid_until(at(123), at(123), ttl, Mechanisms::ALL);
        lease.extending(ttl, valid_until);
        lease.renewed(Renewed::Until(valid_until, Basis::Majority), at(124));
        assert_eq!(lease.valid_until(), at(9_900));
        assert_eq!(lease.loss(at(9_900)), Some(LossReason::MaxHold));
    }

    #[test]
    fn a_manual_lease_is_only_watched() {
        let mut lease =
            Lease::new(Terms { renewed: false, ..terms() }, Basis::Majority, at(0), at(3_000));
        assert_eq!(lease.next(at(0)), Next::End(at(3_000)));
        lease.renewed(Renewed::Until(at(4_000), Basis::Majority), at(1_000));
        assert_eq!(lease.next(at(1_000)), Next::End(at(4_000)));
    }
}
