//! Reservations: a waiter that would starve otherwise has the nodes keep the lock for it.
//!
//! A caller that was refused has a priority: the older call goes first. After a while it leaves its priority on the nodes,
//! under each name of the lock, with every request. A node with reservations grants the lock to no call that is younger
//! than the oldest reservation. A reservation only restricts: exclusion does not depend on it.
//!
//! ```text
//! refused first --- after ---> reserves: asks all nodes, and again before it is over ---> granted, or it gives up:
//!                                  ^                                 |                    withdrawn on each node
//!                                  +---------- rests ---------------+
//! ```

use std::time::Duration;

use super::super::base::{Mechanism, POLL, Rule, Time};
use super::contention::QUICK_TRIES;

/// Least and greatest lifetime of a reservation that is not renewed. A caller that dies keeps others waiting for that long.
/// Nodes ignore longer reservations: see `lua/shared/check.lua`.
const LASTS: Duration = Duration::from_secs(2);
const LASTS_AT_MOST: Duration = Duration::from_secs(10);

/// First and longest time for which a lock is reserved. After that it is left to others for half as long, and then reserved
/// for twice as long. Without these rests, a long hold of one name would close the other names of the lock. And a thread that
/// holds one name or permit, and wants another one, would wait for a caller that waits for this thread.
const STANDS: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// Number of full-length attempts that a reservation outlives: the one that has left it, and the next one. Otherwise callers
/// whose attempts wait for silent nodes would take the lock from each other in between, while the nodes are silent.
const ATTEMPTS: u32 = 2;

/// Time for which a caller that wants no more than others is refused before it reserves the lock. Among callers of one kind,
/// the lock has changed hands fairly by then.
const PLAIN: Duration = Duration::from_secs(1);

/// The same for a caller that wants more than others, or that is refused by holders that share the lock: if there are many of
/// them, at least one is there all the time.
const WEAK: Duration = Duration::from_millis(100);

/// A caller's rank among the callers that reserve a name: the call that began first goes first. Callers' clocks that
/// differ distort the order, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority {
    /// Start of the call, in milliseconds of the set's time.
    pub(crate) began_ms: u64,
    /// Identifies the call.
    pub(crate) id: u64,
}

/// The priority of a caller that was refused before, as a request reports it to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) priority: Priority,
    /// Time for which the node keeps the lock for the caller, if it refuses the caller. Zero: no reservation. An older caller
    /// goes ahead of the reservations of younger ones in any case.
    pub(crate) lasts: Duration,
    /// True if the node does so only where another kind holds the lock, one that may have several holders.
    pub(crate) beside_sharers: bool,
}

/// The rule by which callers of a kind reserve the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reserves {
    /// Time for which the caller is refused before it reserves the lock.
    after: Duration,
    /// True if it leaves the lock to others now and then.
    rests: bool,
}

impl Reserves {
    /// A caller that wants the same as others.
    pub(crate) const AS_OTHERS: Self = Self { after: PLAIN, rests: true };
    /// A caller of a lock that some share and others want exclusively: they take turns, as long as each of them waits.
    pub(crate) const IN_TURN: Self = Self { after: Duration::ZERO, rests: false };
    /// A caller that wants several permits, which others take one by one.
    pub(crate) const SEVERAL_PERMITS: Self = Self { after: WEAK, rests: true };
    /// A caller that wants several names, which others take one by one.
    pub(crate) const SEVERAL_NAMES: Self = Self { after: WEAK, rests: true };

    /// Returns true if the caller makes extra attempts to renew its reservation.
    const fn is_eager(self) -> bool {
        self.after.as_millis() < PLAIN.as_millis()
    }
}

/// The reservations of one call.
#[derive(Debug)]
pub(super) struct Reserving {
    policy: Reserves,
    /// Lifetime of a reservation on the nodes.
    lasts: Duration,
    /// Time for which the lock is reserved at first.
    stands: Duration,
    priority: Option<Priority>,
    /// Time since which the caller is refused, or knows that it is about to be.
    refused_since: Option<Time>,
    /// Start of the first attempt that reserved the lock.
    begins: Option<Time>,
    /// Time for which the attempt under way reserves the lock, whether others share it or not.
    asked_for: Duration,
    /// The time until which all nodes have the reservation.
    known_until: Time,
    /// Attempts in a row that some nodes have granted.
    splits: u32,
    /// True if an attempt has asked all nodes since the caller reserves the lock where others share it.
    told_beside_sharers: bool,
    /// Attempts in a row that have reached no majority.
    unreached: u32,
    /// True if other callers of the process come first.
    stands_behind: bool,
    /// True if a node may have a reservation of the caller.
    is_left: bool,
}

impl Reserving {
    /// Creates the reservations of a call whose attempts may take `attempt_timeout` each.
    pub(super) fn new(policy: Reserves, attempt_timeout: Duration) -> Self {
        let (never, nothing) = (Time::from_start(Duration::ZERO), Duration::ZERO);
        let attempts = attempt_timeout.saturating_mul(ATTEMPTS);
        let attempts = attempts.if_off(Mechanism::ReservationsOutliveAttempts, nothing);
        Self {
            policy,
            lasts: LASTS.max(POLL.saturating_add(attempts)).min(LASTS_AT_MOST),
            stands: STANDS.max(attempts).min(LONGEST),
            priority: None,
            refused_since: None,
            begins: None,
            asked_for: nothing,
            known_until: never,
            splits: 0,
            told_beside_sharers: false,
            unreached: 0,
            stands_behind: false,
            is_left: false,
        }
    }

    pub(super) const fn has_priority(&self) -> bool {
        self.priority.is_some()
    }

    /// Returns true if the caller takes turns with others. It reserves the lock as soon as it knows of them.
    pub(super) const fn takes_turns(&self) -> bool {
        self.policy.after.is_zero()
    }

    /// Gives the caller precedence over younger callers from now on.
    pub(super) fn takes_priority(&mut self, priority: Priority) {
        self.priority.get_or_insert(priority);
    }

    /// Notes whether the last attempt has reached a `majority`. Without one the caller could not take the lock, and would keep
    /// out callers that can. So it reserves nothing, until others refuse it again.
    pub(super) fn reached(&mut self, majority: bool) {
        if majority.if_off(Mechanism::ReservationsNeedQuorum, true) {
            self.unreached = 0;
            return;
        }
        self.unreached = self.unreached.saturating_add(1);
        self.known_until = Time::from_start(Duration::ZERO);
        self.told_beside_sharers = false;
    }

    /// Notes whether the caller asks for all callers of its process that want the same. A caller that stands behind others
    /// reserves nothing: while it waits for them, its reservation would keep them out, along with everybody else.
    pub(super) fn comes_first(&mut self, comes_first: bool) {
        self.stands_behind = !comes_first;
    }

    /// Returns true if the caller withdraws its reservation: two attempts in a row have reached no majority. The second one may
    /// find the majority again that the first one has missed by a moment.
    pub(super) const fn is_out_of_reach(&self) -> bool {
        self.unreached >= 2
    }

    /// Notes that others have the lock, or want it.
    pub(super) fn refused(&mut self, now: Time) {
        self.refused_since.get_or_insert(now);
    }

    /// Returns the reservation that the attempt beginning now leaves on the nodes. The end of the call withdraws it.
    pub(super) fn asks(&mut self, now: Time) -> Option<Reservation> {
        // This attempt asks all nodes, if no attempt did so before: see `asks_all`.
        self.told_beside_sharers |= self.is_weak_beside_sharers(now);
        let priority = self.priority?;
        if self.may_reserve() && self.phase(now).is_some_and(|(stands, _)| stands) {
            self.begins.get_or_insert(now);
        }
        self.asked_for = self.stands(now);
        let beside_sharers = self.asked_for.is_zero() && self.is_weak_beside_sharers(now);
        self.is_left |= beside_sharers || !self.asked_for.is_zero();
        let lasts = if beside_sharers { self.lasts } else { self.asked_for };
        Some(Reservation { priority, lasts, beside_sharers })
    }

    /// Returns true if the caller reserves the lock only where others share it.
    fn is_weak_beside_sharers(&self, now: Time) -> bool {
        let is_due = |since: Time| since.after(WEAK) <= now && now < since.after(self.policy.after);
        self.refused_since.is_some_and(is_due) && self.may_reserve()
    }

    /// Notes that the attempt that began at `started` was in vain. `all`: it asked all nodes. `is_split`: some nodes granted
    /// it, which ended the reservation there.
    ///
    /// If the nodes are split for long, the other nodes belong to a holder, not to a contender. The reservation is then where it
    /// is needed: on the nodes that have refused the attempt.
    pub(super) fn tried(&mut self, started: Time, all: bool, is_split: bool) {
        self.splits = if is_split { self.splits.saturating_add(1) } else { 0 };
        if (1..=QUICK_TRIES).contains(&self.splits) {
            self.known_until = started;
        } else if all {
            self.known_until = started.after(self.asked_for);
        }
    }

    /// Returns true if the next attempt has to ask all nodes at once, so that all of them get the reservation.
    pub(super) fn asks_all(&self, now: Time) -> bool {
        let stands = self.stands(now);
        let is_due = !stands.is_zero() && self.known_until.since(now) < stands / 2;
        is_due || !self.told_beside_sharers && self.is_weak_beside_sharers(now)
    }

    /// Returns true if all nodes keep the lock for this caller.
    pub(super) fn is_known(&self, now: Time) -> bool {
        now < self.known_until
    }

    /// Returns the time of an attempt that serves the reservation; `None` if the reservation needs none. `poll`: the interval
    /// of its renewals.
    pub(super) fn next_try(&self, now: Time, poll: Duration) -> Option<Time> {
        if !self.policy.is_eager() {
            // One attempt, in case others share the lock: while their holds overlap, no release is announced.
            let (due, over) =
                (self.refused_since?.after(WEAK), self.refused_since?.after(self.policy.after));
            let is_wanted = !self.told_beside_sharers && now < over;
            return (is_wanted && Mechanism::WaitersReserve.is_on()).then_some(due.max(now));
        }
        let (stands, next) = self.phase(now)?;
        Some(match stands {
            // The next attempt takes a priority, if the set's time is known by then.
            true if !self.has_priority() => return None,
            true if self.is_known(now) => now.after(poll),
            true => now,
            false => next,
        })
    }

    /// Returns the priority to withdraw, and the time limit for telling nodes that cannot be reached.
    pub(super) fn withdraws(&mut self) -> Option<(Priority, Duration)> {
        let is_left =
            std::mem::take(&mut self.is_left) && Mechanism::ReservationsAreWithdrawn.is_on();
        self.priority.filter(|_| is_left).map(|priority| (priority, self.lasts * 2))
    }

    fn may_reserve(&self) -> bool {
        self.unreached == 0 && !self.stands_behind && Mechanism::WaitersReserve.is_on()
    }

    /// Returns the time for which the caller reserves the lock from `now` on.
    fn stands(&self, now: Time) -> Duration {
        match self.phase(now) {
            Some((true, until)) if self.has_priority() && self.may_reserve() => {
                self.lasts.min(until.since(now))
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns true while the caller reserves the lock, and the time at which that changes. `None`: it was not refused yet.
    fn phase(&self, now: Time) -> Option<(bool, Time)> {
        let due = self.refused_since?.after(self.policy.after);
        if now < due {
            return Some((false, due));
        }
        let mut begins = self.begins.unwrap_or(now);
        if !self.policy.rests.if_off(Mechanism::ReservationsRest, false) {
            return Some((true, now.after(LONGEST)));
        }
        let mut stands = self.stands;
        while stands < LONGEST && begins.after(stands * 3 / 2) <= now {
            begins = begins.after(stands * 3 / 2);
            stands *= 2;
        }
        let period = stands * 3 / 2;
        let rounds = now.since(begins).as_nanos() / period.as_nanos();
        begins = begins.after(period.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)));
        let rests_at = begins.after(stands);
        Some(if now < rests_at { (true, rests_at) } else { (false, begins.after(period)) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    const PRIORITY: Priority = Priority { began_ms: 1, id: 2 };

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(1_000_000 + ms))
    }

    /// The reservations of a caller that was refused at 0 ms.
    fn refused(policy: Reserves) -> Reserving {
        refused_by_slow_nodes(policy, Duration::from_millis(500))
    }

    /// The same, for attempts that may take that time.
    fn refused_by_slow_nodes(policy: Reserves, attempt_timeout: Duration) -> Reserving {
        let mut reserving = Reserving::new(policy, attempt_timeout);
        reserving.takes_priority(PRIORITY);
        reserving.refused(at(0));
        reserving.refused(at(500));
        reserving
    }

    /// Returns the milliseconds for which an attempt at that time reserves the lock.
    fn lasts(reserving: &mut Reserving, ms: u64) -> u128 {
        reserving.asks(at(ms)).expect("it has a priority").lasts.as_millis()
    }

    #[test]
    fn a_caller_reserves_after_a_while_and_renews_that_if_it_wants_more_than_others() {
        let poll = Duration::from_millis(750);
        for (policy, after) in [
            (Reserves::AS_OTHERS, 1_000),
            (Reserves::IN_TURN, 0),
            (Reserves::SEVERAL_PERMITS, 100),
            (Reserves::SEVERAL_NAMES, 100),
        ] {
            let mut reserving = refused(policy);
            let eager = policy != Reserves::AS_OTHERS;
            if after > 0 {
                assert_eq!(lasts(&mut reserving, 99), 0);
                assert_eq!(reserving.next_try(at(0), poll), Some(at(100)), "{policy:?}");
                assert!(!reserving.asks_all(at(99)));
            }
            assert!(reserving.asks_all(at(after)) && !reserving.is_known(at(after)));
            assert_eq!(reserving.next_try(at(after), poll), eager.then(|| at(after)));
            let stands = if policy == Reserves::IN_TURN { 2_000 } else { 1_000 };
            assert_eq!(lasts(&mut reserving, after), stands, "{policy:?}");
            // One node alone was asked.
            reserving.tried(at(after), false, false);
            assert!(reserving.asks_all(at(after)));
            reserving.tried(at(after), true, false);
            assert!(!reserving.asks_all(at(after + 10)) && reserving.is_known(at(after + 10)));
            let next = reserving.next_try(at(after + 10), poll);
            assert_eq!(next, eager.then(|| at(after + 760)), "{policy:?}");
            // Nodes that granted the attempt have ended the reservation.
            reserving.tried(at(after), true, true);
            assert!(reserving.asks_all(at(after + 10)) && !reserving.is_known(at(after + 10)));
        }
        let mut newcomer = Reserving::new(Reserves::IN_TURN, Duration::ZERO);
        newcomer.refused(at(0));
        assert_eq!((newcomer.asks(at(9)), newcomer.next_try(at(9), poll)), (None, None));
        assert!(without(&[Mechanism::WaitersReserve], || {
            lasts(&mut refused(Reserves::IN_TURN), 9) == 0
        }));
    }

    #[test]
    fn a_reservation_outlives_the_attempt_that_leaves_it_and_the_next_one() {
        let stands = |policy, attempt_ms| {
            let timeout = Duration::from_millis(attempt_ms);
            lasts(&mut refused_by_slow_nodes(policy, timeout), 1_000)
        };
        for (attempt_ms, in_turn, as_others) in [
            (0, 2_000, 1_000),
            (500, 2_000, 1_000),
            (2_500, 6_000, 5_000),
            (60_000, 10_000, 10_000),
        ] {
            assert_eq!(stands(Reserves::IN_TURN, attempt_ms), in_turn);
            assert_eq!(stands(Reserves::AS_OTHERS, attempt_ms), as_others);
        }
        let short = || stands(Reserves::AS_OTHERS, 2_500) < 2_500;
        assert!(without(&[Mechanism::ReservationsOutliveAttempts], short));
    }

    #[test]
    fn beside_sharers_a_caller_reserves_sooner() {
        let beside_sharers = |policy, ms: u64| {
            let asked = refused(policy).asks(at(ms)).expect("it has a priority");
            (asked.beside_sharers, asked.lasts.as_millis())
        };
        let plain = Reserves::AS_OTHERS;
        for (ms, expected) in
            [(99, (false, 0)), (100, (true, 2_000)), (999, (true, 2_000)), (1_000, (false, 1_000))]
        {
            assert_eq!(beside_sharers(plain, ms), expected, "{ms}");
        }
        assert!(!beside_sharers(Reserves::SEVERAL_NAMES, 99).0);
        assert!(!beside_sharers(Reserves::IN_TURN, 0).0);
        let mut caller = refused(plain);
        caller.asks(at(99));
        assert_eq!(caller.withdraws(), None);
        let poll = Duration::from_millis(750);
        assert_eq!(caller.next_try(at(99), poll), Some(at(100)), "it asks for that, once");
        assert_eq!(caller.next_try(at(105), poll), Some(at(105)), "also if an attempt took longer");
        assert!(!caller.asks_all(at(99)) && caller.asks_all(at(100)));
        assert!(caller.asks(at(99)).is_some() && caller.asks_all(at(100)));
        caller.asks(at(100));
        caller.tried(at(100), true, false);
        assert_eq!(caller.next_try(at(101), poll), None);
        assert!(!caller.asks_all(at(101)) && !caller.is_known(at(101)), "it need not be there");
        assert!(caller.withdraws().is_some(), "a node may have it");
        let never = || beside_sharers(plain, 100).0;
        assert!(!without(&[Mechanism::WaitersReserve], never));
    }

    /// The lock is held on a bare majority: each attempt gets the other nodes, and gives them back.
    #[test]
    fn nodes_that_are_split_for_long_are_not_asked_again_and_again() {
        let poll = Duration::from_millis(750);
        for policy in [Reserves::IN_TURN, Reserves::SEVERAL_NAMES, Reserves::AS_OTHERS] {
            let mut reserving = refused(policy);
            let (mut now, mut attempts) = (at(200), 0);
            while now < at(4_200) {
                attempts += 1;
                reserving.asks(now);
                let all = reserving.asks_all(now) || attempts % 2 == 0;
                reserving.tried(now, all, true);
                now = now.after(Duration::from_millis(1));
                now = reserving.next_try(now, poll).unwrap_or(now.after(poll));
            }
            assert!((5..20).contains(&attempts), "{policy:?}: {attempts}");
        }
    }

    #[test]
    fn a_lock_is_left_to_others_now_and_then() {
        let mut reserving = refused(Reserves::SEVERAL_NAMES);
        let stands = |reserving: &mut Reserving, ms| lasts(reserving, ms) > 0;
        let mut begins = 100;
        for seconds in [1, 2, 4, 8, 16, 32, 32, 32] {
            let ends = begins + seconds * 1_000;
            assert!(stands(&mut reserving, begins) && stands(&mut reserving, ends - 1));
            assert!(!stands(&mut reserving, ends) && lasts(&mut reserving, ends - 1) == 1);
            assert!(!reserving.asks_all(at(ends)));
            begins = ends + seconds * 500;
            assert!(!stands(&mut reserving, begins - 1));
            let next = reserving.next_try(at(ends), Duration::from_millis(750));
            assert_eq!(next, Some(at(begins)));
        }
        let day = 86_400_000;
        assert!((0..48).any(|s| !stands(&mut reserving, day + s * 1_000)));
        let never = || (0..48).any(|s| !stands(&mut reserving, day + s * 1_000));
        assert!(!without(&[Mechanism::ReservationsRest], never));
    }

    #[test]
    fn what_a_node_may_have_is_withdrawn_once() {
        let mut reserving = refused(Reserves::AS_OTHERS);
        assert_eq!(lasts(&mut reserving, 5), 0);
        assert_eq!(reserving.withdraws(), None, "no node has it");
        assert_eq!(lasts(&mut reserving, 1_000), 1_000);
        assert_eq!(reserving.withdraws(), Some((PRIORITY, LASTS * 2)));
        assert_eq!(reserving.withdraws(), None);
    }
}
