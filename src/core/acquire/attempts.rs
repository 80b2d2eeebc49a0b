//! What the attempts of one call have come to: whether it ends, and when the next one is made.

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

/// How long a caller is ready to wait for a lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt, and then tell; another one within the same time, where the votes were split.
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
    /// How long to go on while no quorum can be reached.
    pub(crate) no_quorum_timeout: Duration,
    /// Attempts may begin with one node.
    pub(crate) ordered: bool,
    pub(crate) waiting: WayOfWaiting,
}

/// How a call ended that did not get its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Held by somebody else until the caller's patience was over. The first key that was in the way ends at that time, unless its
    /// holder renews it; `None`: that is not known.
    Held { until: Option<Time> },
    /// The name belongs to something that is no lock.
    WrongKind,
    /// There is no number left for the name.
    Spent,
    /// Nodes keep something for the name's number that is none.
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
    /// The caller's thread shares the lock, and wants it for itself alone.
    WaitsForItself,
    /// The caller gave up.
    Cancelled,
    /// The client was closed.
    Closed,
}

impl Outcome {
    /// The caller knows from others of its process that the lock is held.
    pub(crate) const HELD: Self = Self::Held { until: None };

    pub(crate) const fn is_held(self) -> bool {
        matches!(self, Self::Held { .. })
    }
}

/// What to do after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Tell the caller that the lock is its own.
    Granted { valid_until: Time, number: u64 },
    /// Clean up, wait until then, and ask [`Attempts::waited`].
    Wait(Time),
    /// Tell the caller.
    Finish(Outcome),
}

/// The attempts of one call that wants a lock.
#[derive(Debug)]
pub(crate) struct Attempts {
    policy: Policy,
    owner: Option<u128>,
    /// Fruitless attempts so far.
    tries: u32,
    /// Since when no attempt has reached a quorum.
    unreachable_since: Option<Time>,
    /// What to tell if the patience ends now.
    last: Option<Outcome>,
    /// Until when a caller that does not wait may try again, in the time of its first attempt.
    once_until: Option<Time>,
    /// It does so.
    tries_again: bool,
    /// The nodes were to be ready at once, and another attempt was made for that.
    tried_at_once: bool,
    contention: Contention,
    reserving: Reserving,
    /// Where a fair lock is waited for.
    place: Option<QueuePlace>,
    /// Which slots of a semaphore are asked for.
    slots: Option<SlotChoice>,
}

impl Attempts {
    /// Of a call whose attempts may take `attempt_timeout` each.
    pub(crate) fn new(policy: Policy, attempt_timeout: Duration) -> Self {
        let waits_in_queue = policy.waiting.is_in_queue() && policy.patience != Patience::Once;
        Self {
            // Each node of a majority has to know who waits.
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

    /// The owner id of the next attempt, given a random one.
    ///
    /// Each attempt has its own. With one for the whole call, a release of attempt k that is
    /// delayed on the way would delete the key that attempt k+1 was granted on the same node.
    pub(crate) fn owner(&mut self, random: u128) -> u128 {
        let first = *self.owner.get_or_insert(random);
        let random = random.if_off(Mechanism::FreshOwner, first);
        self.place.as_mut().map_or(random, |place| place.owner(random))
    }

    /// The name of the caller of a fair lock, given a random number that it is taken from if it has none yet. `None`: the
    /// nodes keep no queue for it.
    pub(crate) fn queued_caller(&mut self, random: impl FnOnce() -> u128) -> Option<u64> {
        self.place.as_mut().map(|place| place.caller(random()))
    }

    /// The caller is to leave the queues of a fair lock: see [`QueuePlace::leave`].
    pub(crate) fn leaves_queue(&mut self) -> Option<(u64, Duration)> {
        self.place.as_mut()?.leave()
    }

    /// Which permits of a semaphore the next attempt asks for; `random` gives a number in `0.0..1.0`.
    pub(crate) fn picks(&self, random: impl FnOnce() -> f64) -> Permits {
        self.slots.as_ref().map(|slots| slots.picks(random())).unwrap_or_default()
    }

    /// How many permits of a semaphore are wanted; 0: the lock is none.
    pub(crate) fn wanted_permits(&self) -> u32 {
        self.policy.waiting.permits().map_or(0, |wanted| wanted.count)
    }

    /// Whether the next attempt asks for the slots that the first refusal has named.
    pub(crate) fn goes_to_named_slot(&self) -> bool {
        self.slots.as_ref().is_some_and(SlotChoice::goes_to_first_named)
    }

    /// See [`WayOfWaiting::refusals_tell_of_others`].
    pub(crate) const fn refusals_tell_of_others(&self) -> bool {
        self.policy.waiting.refusals_tell_of_others()
    }

    /// Whether the caller waits for a fair lock.
    pub(crate) const fn is_queued(&self) -> bool {
        self.place.is_some()
    }

    /// What `attempt`, which has ended with `conclusion`, means for the caller's place among those who wait for a fair lock.
    /// The call began at `began_ms` of the set's time.
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

    /// What the nodes may know of a caller that waits for the lock from `now` on: for twice as long as its next attempt may be
    /// away, and no longer than its patience lasts.
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

    /// The caller has that priority from now on.
    pub(crate) fn takes_priority(&mut self, priority: Priority, now: Time) {
        self.reserving.takes_priority(priority);
        if self.reserving.takes_turns() {
            self.reserving.refused(now);
        }
    }

    /// Notes whether the caller asks for all of its process: see [`Reserving::comes_first`].
    pub(crate) fn comes_first(&mut self, comes_first: bool) {
        self.reserving.comes_first(comes_first);
    }

    /// Returns true if the caller withdraws its reservation although it goes on: see [`Reserving::is_out_of_reach`].
    pub(crate) const fn is_out_of_reach(&self) -> bool {
        self.reserving.is_out_of_reach()
    }

    /// The priority whose reservations are to be withdrawn: see [`Reserving::withdraws`].
    pub(crate) fn withdraws(&mut self) -> Option<(Priority, Duration)> {
        self.reserving.withdraws()
    }

    /// The end of an attempt that starts now and may take `node_timeout`: no call outlives its own
    /// deadline.
    pub(crate) fn answer_by(&mut self, now: Time, node_timeout: Duration) -> Time {
        let timeout = now.after(node_timeout);
        match self.policy.patience {
            Patience::Once => *self.once_until.get_or_insert(timeout),
            Patience::Until(_) | Patience::Forever => self.by_deadline(timeout),
        }
    }

    /// Whether the next attempt is to ask one node alone at first: see [`preferred_node`](Self::preferred_node).
    ///
    /// Where no quorum was reached, all nodes are asked: the refusal of one of them would not tell whether there is one
    /// again. It may come from another caller that is about to give that node back.
    pub(crate) fn prefers_one(&self, now: Time) -> bool {
        let in_outage =
            self.unreachable_since.is_some() && Mechanism::AllAreAskedInAnOutage.is_on();
        self.contention.prefers_one() && !self.reserving.asks_all(now) && !in_outage
    }

    /// Whom the next attempt asks alone at first, and until when: of those that it may rely on
    /// (`relies_on`), the first in the lock's `order`. `None`: it asks all at once.
    pub(crate) fn preferred_node(
        &self,
        order: &[usize],
        relies_on: impl Fn(usize) -> bool,
        now: Time,
    ) -> Option<(usize, Time)> {
        let node = self.contention.preferred_node(order, relies_on)?;
        Some((node, now.after(self.contention.patience())))
    }

    /// `attempt` has come to its end at `now`, before [`concluded`](Self::concluded) is asked what
    /// follows; a release of the lock would be told by enough nodes (`covered`), or not.
    pub(crate) fn tried(&mut self, attempt: &Attempt, now: Time, covered: bool) {
        self.contention.tried(attempt.is_split(), now.since(attempt.started()), covered);
        self.contention.ended_at_preferred(attempt.preferred().is_some());
        let asked_all = attempt.preferred().is_none();
        self.reserving.tried(attempt.started(), asked_all, attempt.is_split());
        if let Some(slots) = &mut self.slots {
            slots.refused(attempt);
        }
    }

    /// The wait begins: see [`Contention::expects`].
    pub(crate) fn expects(&mut self, others: u32) {
        // The nodes tell the first caller of their queues, and nobody else.
        self.contention.expects(if self.is_queued() { 0 } else { others });
    }

    /// The wait has ended early, by `wake_reason`: when to make the next attempt.
    pub(crate) fn woken(&mut self, wake_reason: WakeReason, now: Time, random: f64) -> Time {
        let pause = self.contention.woken(wake_reason, random);
        // The nodes leave the lock to nobody else.
        let is_ours_to_take = wake_reason == WakeReason::Released && self.reserving.is_known(now);
        self.by_deadline(now.after(if is_ours_to_take { Duration::ZERO } else { pause }))
    }

    /// An attempt that began at `started` has ended with `conclusion`; `random` is in `0.0..1.0`.
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
            // Nor does it change what a node lets us do.
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

    /// When to ask for the slots of a semaphore that the refusal has named. `None`: it has named none, or there is no time.
    fn goes_where_free(&mut self, outcome: Outcome, now: Time, random: f64) -> Option<Time> {
        let slots = self.slots.as_mut()?;
        let times = if outcome.is_held() { slots.goes_where_free() } else { None };
        let Some(times) = times else {
            slots.waits();
            return None;
        };
        self.contention.stays_with_preferred();
        // The first one alone at once: whoever comes later has met others who go there as well.
        let at = now.after(if times == 1 { Duration::ZERO } else { spread(times, random) });
        let until = match self.policy.patience {
            Patience::Once => self.once_until,
            Patience::Until(deadline) => Some(deadline),
            Patience::Forever => None,
        };
        until.is_none_or(|until| at.after(self.contention.took()) < until).then_some(at)
    }

    /// When a caller that does not wait tries again, although it did not get the lock. Where some nodes have granted it,
    /// perhaps callers have shared the nodes among them, and all of them would be told that somebody else has it.
    fn another_try(&mut self, outcome: Outcome, now: Time, random: f64) -> Option<Time> {
        let may = outcome.is_held() && self.policy.ordered;
        let may = may.if_off(Mechanism::SplitVotesAreTriedAgain, false);
        // Once it was so, the refusal of one node is that of a caller who goes on as well.
        let was_split = self.tries_again || self.contention.is_split();
        self.tries += 1;
        let pause = self.contention.pause_between(self.tries, random);
        let at = now.after(pause.filter(|_| may && was_split)?);
        // With less time than an attempt takes it would leave keys on the nodes, and come to nothing.
        let done = at.after(self.contention.took());
        self.tries_again = self.once_until.is_some_and(|until| done < until);
        self.tries_again.then_some(at)
    }

    /// An attempt has ended with [`Conclusion::NotAdmitted`], and a majority will grant locks in
    /// `ready_in`; `None`: nobody can say when.
    ///
    /// Whoever has time waits for it, for as long as it takes: unlike nodes that cannot be reached,
    /// nodes in quarantine come back by themselves, and when is known.
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
        // A mark was only written anew, and has been looked at since: that is no quarantine.
        let at_once = ready_in.is_zero() && !std::mem::replace(&mut self.tried_at_once, true);
        if at_once {
            self.once_until = None;
            return Step::Wait(now);
        }
        self.reserving.reached(false);
        // Somebody may end the quarantine before its time.
        let pause = ready_in.max(self.policy.backoff.pause(self.tries, random)).min(POLL);
        let at = now.after(pause);
        match self.policy.patience {
            // A doubt about a node's clock is over in milliseconds, which the call has.
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

    /// The wait that [`Step::Wait`] asked for is over, or one that a wake-up has ended early (`woken`).
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

    /// The caller has waited in the local queue since its last attempt, behind others of its process who reached
    /// the nodes.
    pub(crate) fn waited_in_queue(&mut self) {
        self.unreachable_since = None;
        self.reserving.reached(true);
    }

    /// The attempt had no time to hear enough answers, since the caller's deadline ended it. That
    /// says nothing about the nodes, so an earlier, complete attempt knows better, and others need
    /// not be told.
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

    /// When to try again, whatever is told of releases.
    pub(crate) fn soon(&self, now: Time, random: f64) -> Time {
        now.after(self.policy.backoff.pause(self.tries, random))
    }

    fn pause(&self, conclusion: Conclusion, now: Time, random: f64) -> Step {
        let backoff = self.policy.backoff;
        let pause = match conclusion {
            Conclusion::Held { .. } => self.contention.pause(backoff, self.tries, random),
            _ => backoff.pause(self.tries, random),
        };
        // Its entry in the nodes' queues is to be kept alive.
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
