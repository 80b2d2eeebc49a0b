//! The result of one call's attempts: the end of the call, or the time of the next attempt.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, POLL, Rule, Time};
use super::super::hold::LossReason;
use super::super::vote::{Attempt, Conclusion, Permits};
use super::super::wake::WakeReason;
use super::contention::{Contention, spread};
use super::queue_place::{PlaceNews, QueuePlace};
use super::reservation::{Priority, Reserving};
use super::slot_choice::SlotChoice;
use super::waits::Waits;
use super::way_of_waiting::WayOfWaiting;

/// The time for which a caller is ready to wait for a lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt, and another one within the same time if the votes were split.
    Once,
    /// Until that time.
    Until(Time),
    /// As long as it takes.
    Forever,
}

/// The settings of one acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    pub(crate) patience: Patience,
    pub(crate) backoff: Backoff,
    /// Time limit for going on while no quorum can be reached.
    pub(crate) no_quorum_timeout: Duration,
    /// True if attempts may begin with one node.
    pub(crate) ordered: bool,
    pub(crate) waiting: WayOfWaiting,
}

/// The end of a call that did not get its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Somebody else held the lock until the caller's patience was over. `until`: end of the first key that was in the way, unless
    /// its holder renews it; `None` if that is not known.
    Held { until: Option<Time> },
    /// The name belongs to something that is no lock.
    WrongKind,
    /// There is no number left for the name.
    Spent,
    /// Nodes keep a value for the name's number that is no number.
    NoNumber,
    /// The nodes answer, but admit nobody yet.
    NotAdmitted,
    /// So many nodes reject us for good that no majority is left.
    Rejected,
    /// No majority could be reached.
    NoQuorum,
    /// A majority granted again and again, each time too late to be of use.
    TooLate,
    /// A majority granted again and again, and too few of those nodes confirmed the lock's number.
    Unconfirmed,
    /// The nodes are not one set of ours, so no lock may be taken on any of them.
    NodesDisagree,
    /// The caller's thread has guards of the lock, which is lost.
    Lost(LossReason),
    /// The caller's thread shares the lock, and wants it exclusively.
    WaitsForItself,
    /// The caller gave up.
    Cancelled,
    /// The client was closed.
    Closed,
}

impl Outcome {
    /// The outcome of a caller that knows from others of its process that the lock is held.
    pub(crate) const HELD: Self = Self::Held { until: None };

    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// The step after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Report to the caller that it has the lock.
    Granted { valid_until: Time, number: u64 },
    /// Clean up, wait until then, and call [`Attempts::waited`].
    Wait(Time),
    /// Report the outcome to the caller.
    Finish(Outcome),
}

/// The attempts of one call that wants a lock.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: Policy,
    owner: Option<u128>,
    /// Fruitless attempts so far.
    tries: u32,
    /// Time since which no attempt has reached a quorum.
    unreachable_since: Option<Time>,
    /// The outcome to report if the patience ends now.
    last: Option<Outcome>,
    /// End of the first attempt's time. Until then a caller that does not wait may try again.
    once_until: Option<Time>,
    /// True if such a caller tries again.
    tries_again: bool,
    /// True if another attempt was made because the nodes were to be ready at once.
    tried_at_once: bool,
    contention: Contention,
    reserving: Reserving,
    /// The place in the nodes' queues, if the call waits for a fair lock.
    place: Option<QueuePlace>,
    /// The choice of slots, if the lock is a semaphore.
    slots: Option<SlotChoice>,
}

impl Attempts {
    /// Creates the record of a call whose attempts may take `attempt_timeout` each.
    pub(crate) fn new(policy: Policy, attempt_timeout: Duration) -> Self {
        let waits_in_queue = policy.waiting.is_in_queue() && policy.patience != Patience::Once;
        Self {
            // For a fair lock all nodes are asked: each node of a majority has to know the waiters.
            contention: Contention::new(policy.ordered && !waits_in_queue),
            reserving: Reserving::new(policy.waiting.reserves(), attempt_timeout),
            place: waits_in_queue.then(|| QueuePlace::new(attempt_timeout)),
            slots: policy.waiting.permits().map(SlotChoice::new),
            policy,
            owner: None,
            tries: 0,
            unreachable_since: None,
            last: None,
            once_until: None,
            tries_again: false,
            tried_at_once: false,
        }
    }

    /// Returns the owner id of the next attempt, made of a random one.
    ///
    /// Each attempt has its own id. With one id for the whole call, a release of attempt k that is
    /// delayed on the way would delete the key that attempt k+1 was granted on the same node.
    pub(crate) fn owner(&mut self, random: u128) -> u128 {
        let first = *self.owner.get_or_insert(random);
        let random = random.if_off(Mechanism::FreshOwner, first);
        self.place.as_mut().map_or(random, |place| place.owner(random))
    }

    /// Returns the name of the caller of a fair lock. It is taken from the number that `random` gives, if there is none yet.
    /// `None`: the nodes keep no queue for the lock.
    pub(crate) fn queued_caller(&mut self, random: impl FnOnce() -> u128) -> Option<u64> {
        self.place.as_mut().map(|place| place.caller(random()))
    }

    /// Takes the caller out of the queues of a fair lock: see [`QueuePlace::leave`].
    pub(crate) fn leaves_queue(&mut self) -> Option<(u64, Duration)> {
        self.place.as_mut()?.leave()
    }

    /// Returns the permits of a semaphore that the next attempt asks for; `random` gives a number in `0.0..1.0`.
    pub(crate) fn picks(&self, random: impl FnOnce() -> f64) -> Permits {
        self.slots.as_ref().map(|slots| slots.picks(random())).unwrap_or_default()
    }

    /// Returns the number of permits that are wanted of a semaphore; 0 if the lock is none.
    pub(crate) fn wanted_permits(&self) -> u32 {
        self.policy.waiting.permits().map_or(0, |wanted| wanted.count)
    }

    /// Returns true if the next attempt asks for the slots that the first refusal has named.
    pub(crate) fn goes_to_named_slot(&self) -> bool {
        self.slots.as_ref().is_some_and(SlotChoice::goes_to_first_named)
    }

    /// See [`WayOfWaiting::refusals_tell_of_others`].
    pub(crate) const fn refusals_tell_of_others(&self) -> bool {
        self.policy.waiting.refusals_tell_of_others()
    }

    /// Returns true if the caller waits for a fair lock.
    pub(crate) const fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// Notes that `attempt` has ended with `conclusion`, and returns the effect on the caller's place in the queues of a fair
    /// lock. The call began at `began_ms` of the set's time.
    pub(crate) fn placed(
        &mut self,
        attempt: &Attempt,
        conclusion: Conclusion,
        began_ms: Option<u64>,
    ) -> PlaceNews {
        let is_held = matches!(conclusion, Conclusion::Held { .. });
        let place = self.place.as_mut();
        place.map_or(PlaceNews::Same, |place| place.tried(attempt, is_held, began_ms))
    }

    /// Returns the facts that the nodes may know of a caller that waits from `now` on. They are valid for twice the time until
    /// its next attempt, and no longer than its patience lasts.
    pub(crate) fn waits(&mut self, now: Time) -> Waits {
        let next = match &self.place {
            Some(place) => place.lives(),
            None => POLL.max(self.policy.backoff.max).saturating_mul(2),
        };
        let lasts = match self.policy.patience {
            Patience::Once => Duration::ZERO,
            Patience::Until(deadline) => next.min(deadline.since(now)),
            Patience::Forever => next,
        };
        let mut reservation = self.reserving.asks(now);
        if let (Some(reservation), Patience::Until(deadline)) =
            (&mut reservation, self.policy.patience)
        {
            reservation.lasts = reservation.lasts.min(deadline.since(now));
        }
        Waits { lasts, ticket: self.place.as_ref().and_then(QueuePlace::ticket), reservation }
    }

    /// Returns true if the caller has no priority yet, and needs one: it was refused or queued (`waited`), or it takes turns
    /// with `others` that wait.
    pub(crate) fn lacks_priority(&self, waited: bool, others: impl FnOnce() -> bool) -> bool {
        let lacks = !self.reserving.has_priority() && self.policy.patience != Patience::Once;
        lacks && (waited || self.reserving.takes_turns() && others())
    }

    /// Gives the caller that priority from now on.
    pub(crate) fn takes_priority(&mut self, priority: Priority, now: Time) {
        self.reserving.takes_priority(priority);
        if self.reserving.takes_turns() {
            self.reserving.refused(now);
        }
    }

    /// Notes whether the caller asks for all callers of its process: see [`Reserving::comes_first`].
    pub(crate) fn comes_first(&mut self, comes_first: bool) {
        self.reserving.comes_first(comes_first);
    }

    /// Returns true if the caller withdraws its reservation although it goes on: see [`Reserving::is_out_of_reach`].
    pub(crate) const fn is_out_of_reach(&self) -> bool {
        self.reserving.is_out_of_reach()
    }

    /// Returns the priority whose reservations are to be withdrawn: see [`Reserving::withdraws`].
    pub(crate) fn withdraws(&mut self) -> Option<(Priority, Duration)> {
        self.reserving.withdraws()
    }

    /// Returns the end of an attempt that starts now and may take `node_timeout`. No call outlives its own
    /// deadline.
    pub(crate) fn answer_by(&mut self, now: Time, node_timeout: Duration) -> Time {
        let timeout = now.after(node_timeout);
        match self.policy.patience {
            Patience::Once => *self.once_until.get_or_insert(timeout),
            Patience::Until(_) | Patience::Forever => self.by_deadline(timeout),
        }
    }

    /// Returns true if the next attempt is to ask one node alone at first: see [`preferred_node`](Self::preferred_node).
    ///
    /// After an attempt without a quorum all nodes are asked: the refusal of one node would not show whether there is a quorum
    /// again. It may be due to another caller that is about to give that node back.
    pub(crate) fn prefers_one(&self, now: Time) -> bool {
        let in_outage =
            self.unreachable_since.is_some() && Mechanism::AllAreAskedInAnOutage.is_on();
        self.contention.prefers_one() && !self.reserving.asks_all(now) && !in_outage
    }

    /// Returns the node that the next attempt asks alone at first, and the end of its time. It is the first node in the
    /// lock's `order` that the attempt `relies_on`. `None`: the attempt asks all nodes at once.
    pub(crate) fn preferred_node(
        &self,
        order: &[usize],
        relies_on: impl Fn(usize) -> bool,
        now: Time,
    ) -> Option<(usize, Time)> {
        let node = self.contention.preferred_node(order, relies_on)?;
        Some((node, now.after(self.contention.patience())))
    }

    /// Notes that `attempt` has ended at `now`, before [`concluded`](Self::concluded) decides the next step.
    /// `covered`: enough nodes would announce a release of the lock.
    pub(crate) fn tried(&mut self, attempt: &Attempt, now: Time, covered: bool) {
        self.contention.tried(attempt.is_split(), now.since(attempt.started()), covered);
        self.contention.ended_at_preferred(attempt.preferred().is_some());
        let asked_all = attempt.preferred().is_none();
        self.reserving.tried(attempt.started(), asked_all, attempt.is_split());
        if let Some(slots) = &mut self.slots {
            slots.refused(attempt);
        }
    }

    /// Notes that the wait begins: see [`Contention::expects`].
    pub(crate) fn expects(&mut self, others: u32) {
        // For a fair lock, the nodes announce a release only to the first caller of their queues.
        self.contention.expects(if self.is_queued() { 0 } else { others });
    }

    /// Returns the time of the next attempt, after `wake_reason` has ended the wait early.
    pub(crate) fn woken(&mut self, wake_reason: WakeReason, now: Time, random: f64) -> Time {
        let pause = self.contention.woken(wake_reason, random);
        // The nodes keep the lock for this caller.
        let is_ours_to_take = wake_reason == WakeReason::Released && self.reserving.is_known(now);
        self.by_deadline(now.after(if is_ours_to_take { Duration::ZERO } else { pause }))
    }

    /// Decides the step after an attempt that began at `started` and ended with `conclusion`; `random` is in `0.0..1.0`.
    pub(crate) fn concluded(
        &mut self,
        conclusion: Conclusion,
        started: Time,
        now: Time,
        random: f64,
    ) -> Step {
        let outcome = match conclusion {
            Conclusion::Won { valid_until, number } => {
                return Step::Granted { valid_until, number };
            }
            // Waiting does not turn it into a lock.
            Conclusion::WrongKind => return Step::Finish(Outcome::WrongKind),
            Conclusion::Spent => return Step::Finish(Outcome::Spent),
            Conclusion::NoNumber => return Step::Finish(Outcome::NoNumber),
            // Nor does waiting change our permissions on a node.
            Conclusion::Rejected => return Step::Finish(Outcome::Rejected),
            Conclusion::Held { remaining } => {
                Outcome::Held { until: remaining.map(|remaining| now.after(remaining)) }
            }
            Conclusion::NotAdmitted => Outcome::NotAdmitted,
            Conclusion::Unreachable => Outcome::NoQuorum,
            Conclusion::TooLate => Outcome::TooLate,
            Conclusion::Unconfirmed => Outcome::Unconfirmed,
        };
        if self.cut_short(conclusion, now) {
            return Step::Finish(self.last.unwrap_or(outcome));
        }
        self.last = Some(outcome);
        self.reserving.reached(outcome != Outcome::NoQuorum);
        if outcome.is_held() {
            self.reserving.refused(now);
        }
        if let Some(at) = self.goes_where_free(outcome, now, random) {
            self.unreachable_since = None;
            return Step::Wait(at);
        }
        if self.policy.patience == Patience::Once {
            return match self.another_try(outcome, now, random) {
                Some(at) => Step::Wait(at),
                None => Step::Finish(outcome),
            };
        }
        match outcome {
            Outcome::NoQuorum | Outcome::TooLate | Outcome::Unconfirmed => {
                let since = *self.unreachable_since.get_or_insert(started);
                if now.since(since) >= self.policy.no_quorum_timeout {
                    return Step::Finish(outcome);
                }
            }
            _ => self.unreachable_since = None,
        }
        self.tries = self.tries.saturating_add(1);
        self.pause(conclusion, now, random)
    }

    /// Returns the time at which to ask for the slots that the refusal has named. `None`: it has named none, or there is no time.
    fn goes_where_free(&mut self, outcome: Outcome, now: Time, random: f64) -> Option<Time> {
        let slots = self.slots.as_mut()?;
        let times = if outcome.is_held() { slots.goes_where_free() } else { None };
        let Some(times) = times else {
            slots.waits();
            return None;
        };
        self.contention.stays_with_preferred();
        // Only the first such attempt is made at once. A later one has met other callers that go for these slots.
        let at = now.after(if times == 1 { Duration::ZERO } else { spread(times, random) });
        let until = match self.policy.patience {
            Patience::Once => self.once_until,
            Patience::Until(deadline) => Some(deadline),
            Patience::Forever => None,
        };
        until.is_none_or(|until| at.after(self.contention.took()) < until).then_some(at)
    }

    /// Returns the time at which a caller that does not wait tries again, although it did not get the lock. If some nodes have
    /// granted it, callers may have split the votes, and each of them would be told that somebody else has the lock.
    fn another_try(&mut self, outcome: Outcome, now: Time, random: f64) -> Option<Time> {
        let may = outcome.is_held() && self.policy.ordered;
        let may = may.if_off(Mechanism::SplitVotesAreTriedAgain, false);
        // After a split vote, the refusal of one node is due to a caller that tries again as well.
        let was_split = self.tries_again || self.contention.is_split();
        self.tries += 1;
        let pause = self.contention.pause_between(self.tries, random);
        let at = now.after(pause.filter(|_| may && was_split)?);
        // With less time than an attempt takes, the try would only leave keys on the nodes.
        let done = at.after(self.contention.took());
        self.tries_again = self.once_until.is_some_and(|until| done < until);
        self.tries_again.then_some(at)
    }

    /// Decides the step after an attempt that ended with [`Conclusion::NotAdmitted`]. A majority will grant
    /// locks in `ready_in`; `None` if that time is not known.
    ///
    /// A caller that has time waits for as long as that takes. Unlike nodes that cannot be reached, nodes in
    /// quarantine come back by themselves, at a known time.
    pub(crate) fn not_admitted(
        &mut self,
        ready_in: Option<Duration>,
        started: Time,
        now: Time,
        random: f64,
    ) -> Step {
        let Some(ready_in) = ready_in else {
            return self.concluded(Conclusion::Unreachable, started, now, random);
        };
        self.last = Some(Outcome::NotAdmitted);
        self.unreachable_since = None;
        // A mark was only rewritten, and has been read since: that is no quarantine.
        let at_once = ready_in.is_zero() && !std::mem::replace(&mut self.tried_at_once, true);
        if at_once {
            self.once_until = None;
            return Step::Wait(now);
        }
        self.reserving.reached(false);
        // An operator may end the quarantine before its time.
        let pause = ready_in.max(self.policy.backoff.pause(self.tries, random)).min(POLL);
        let at = now.after(pause);
        match self.policy.patience {
            // A doubt about a node's clock is over in milliseconds, and the call has that time.
            Patience::Once => match self.once_until {
                Some(until) if at.after(self.contention.took()) < until => {
                    self.tries += 1;
                    Step::Wait(at)
                }
                _ => Step::Finish(Outcome::NotAdmitted),
            },
            Patience::Until(_) | Patience::Forever => Step::Wait(self.by_deadline(at)),
        }
    }

    /// Returns the outcome to report after the wait of [`Step::Wait`], which a wake-up may have ended early (`woken`).
    /// `None`: make another attempt.
    pub(crate) fn waited(&mut self, now: Time, woken: bool) -> Option<Outcome> {
        if !woken {
            self.contention.slept();
        }
        match self.policy.patience {
            Patience::Until(deadline) if deadline <= now => self.last,
            _ => None,
        }
    }

    /// Returns true if the first of the keys that kept the caller out has ended, as far as the caller knows.
    pub(crate) fn is_expired(&self, now: Time) -> bool {
        matches!(self.last, Some(Outcome::Held { until: Some(until) }) if until <= now)
    }

    /// Returns true if contenders shared the nodes in the last attempt, and not in too many before it.
    pub(crate) fn is_split(&self) -> bool {
        self.contention.is_split()
    }

    /// Notes that the caller has waited in the local queue since its last attempt, behind others of its process that
    /// reached the nodes.
    pub(crate) fn waited_in_queue(&mut self) {
        self.unreachable_since = None;
        self.reserving.reached(true);
    }

    /// Returns true if the caller's deadline ended the attempt before it had enough answers. Such an attempt
    /// says nothing about the nodes. An earlier, complete attempt is more reliable, and others need not be
    /// told of this one.
    pub(crate) fn cut_short(&self, conclusion: Conclusion, now: Time) -> bool {
        let over = match self.policy.patience {
            Patience::Until(deadline) => deadline <= now,
            Patience::Once => {
                self.last.is_some() && self.once_until.is_some_and(|until| until <= now)
            }
            Patience::Forever => false,
        };
        over && matches!(conclusion, Conclusion::Unreachable | Conclusion::Unconfirmed)
    }

    /// Returns the time of a next try that does not wait for news of releases.
    pub(crate) fn soon(&self, now: Time, random: f64) -> Time {
        now.after(self.policy.backoff.pause(self.tries, random))
    }

    fn pause(&self, conclusion: Conclusion, now: Time, random: f64) -> Step {
        let backoff = self.policy.backoff;
        let pause = match conclusion {
            Conclusion::Held { .. } => self.contention.pause(backoff, self.tries, random),
            _ => backoff.pause(self.tries, random),
        };
        // The caller's entry in the nodes' queues must be kept alive.
        let pause = if self.is_queued() { pause.min(POLL) } else { pause };
        let pause = match conclusion {
            // The lock is free at the latest when its holder's keys end. The minimum is kept: a
            // key with 1 ms left must not make us spin.
            Conclusion::Held { remaining: Some(remaining) } => {
                pause.min(remaining.max(backoff.min))
            }
            _ => pause,
        };
        let mut until = now.after(pause);
        if let (Conclusion::Held { .. }, Some(next_try)) =
            (conclusion, self.reserving.next_try(now, POLL.mul_f64(0.75)))
        {
            until = until.min(next_try);
        }
        if let Some(since) = self.unreachable_since {
            until = until.min(since.after(self.policy.no_quorum_timeout));
        }
        Step::Wait(self.by_deadline(until))
    }

    /// Returns that time, or the caller's deadline if it comes first.
    fn by_deadline(&self, at: Time) -> Time {
        match self.policy.patience {
            Patience::Until(deadline) => at.min(deadline),
            Patience::Once | Patience::Forever => at,
        }
    }
}

#[cfg(test)]
#[path = "tests/attempts.rs"]
mod tests;
