//! What a call makes of others who want the same lock: how long it sleeps, and whom it asks first.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, POLL, Rule};
use super::super::wake::WakeReason;

/// Delay per waiter ahead of us: one attempt, within these bounds. So many waiters count at most.
const DELAY: Duration = Duration::from_micros(200);
const LONGEST_DELAY: Duration = Duration::from_millis(2);
const MOST_AHEAD: u32 = 8;

/// Contenders that have split the nodes among them, or are woken together again and again, try again
/// within that time; twice as long with each try in vain, up to the most.
const SPREAD: Duration = Duration::from_micros(500);
const MOST_SPREAD: Duration = Duration::from_millis(4);

/// How long a waiter waits for the messages of further nodes, when some have told of a release that may be one; twice as long
/// with each try in vain.
const UNSURE: Duration = Duration::from_millis(4);

/// So many split votes in a row are followed by another try almost at once. If there are more, it is
/// somebody who holds the lock, on other nodes than those that grant it.
pub(super) const QUICK_TRIES: u32 = 3;

/// So many attempts in a row may end with the refusal of one node alone; then all are asked. The lock may be free
/// on the others: that node may keep a key that they do not have, or lie.
const MOST_BY_PREFERRED: u32 = 4;

/// How much longer than the last attempt a node may take that is asked alone, and how long at least.
const PATIENCE: u32 = 4;
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// What the attempts of one call have shown.
#[derive(Debug)]
pub(crate) struct Contention {
    /// Attempts that begin with one node are allowed.
    ordered: bool,
    /// A release would be told by enough nodes.
    covered: bool,
    /// Attempts in a row that some node granted.
    splits: u32,
    /// Attempts in a row that were made since nodes are listened to again.
    woken: u32,
    /// Attempts in a row for which too few nodes had told of a release.
    unsure: u32,
    /// Releases that were told since the wait began.
    seen: u32,
    /// How many of them are for others, who waited before.
    expected: u32,
    /// The next attempt begins with one node.
    prefers_one: bool,
    /// Attempts in a row that one node alone has refused.
    refused_by_preferred: u32,
    /// How long the last attempt took.
    took: Duration,
}

impl Contention {
    pub(crate) fn new(ordered: bool) -> Self {
        Self {
            ordered: ordered && Mechanism::OrderedTries.is_on(),
            covered: false,
            splits: 0,
            woken: 0,
            unsure: 0,
            seen: 0,
            expected: 0,
            prefers_one: false,
            refused_by_preferred: 0,
            took: Duration::ZERO,
        }
    }

    /// An attempt `took` so long and was in vain, although some nodes granted it (`split`); whether the
    /// release would be told (`covered`).
    pub(crate) const fn tried(&mut self, split: bool, took: Duration, covered: bool) {
        self.splits = if split { self.splits.saturating_add(1) } else { 0 };
        self.prefers_one = split;
        self.took = took;
        self.covered = covered;
    }

    /// That attempt was ended by the refusal of one node, before the others were asked (`by_preferred`), or was not.
    pub(crate) const fn ended_at_preferred(&mut self, by_preferred: bool) {
        self.refused_by_preferred =
            if by_preferred { self.refused_by_preferred.saturating_add(1) } else { 0 };
    }

    /// The next attempt follows what the refusal has told. If that was the refusal of one node alone, it is asked alone again.
    pub(crate) const fn stays_with_preferred(&mut self) {
        self.prefers_one |= self.refused_by_preferred > 0;
    }

    /// How long to wait, if nothing is told meanwhile, after `tries` of them; `random` is in `0.0..1.0`.
    pub(crate) fn pause(&self, backoff: Backoff, tries: u32, random: f64) -> Duration {
        if self.is_split() {
            spread(self.splits, random)
        } else if self.covered {
            // Apart from each other, for all of them are woken together.
            POLL.max(backoff.max).mul_f64(0.75 + random.clamp(0.0, 1.0) / 4.0)
        } else {
            backoff.pause(tries, random)
        }
    }

    /// How long the last attempt took.
    pub(crate) const fn took(&self) -> Duration {
        self.took
    }

    /// Whether some nodes granted the last attempt, and not too many attempts before it.
    pub(crate) fn is_split(&self) -> bool {
        (1..=QUICK_TRIES).contains(&self.splits)
    }

    /// How long a caller that does not wait leaves the nodes to others, before another one of its `tries`; `None`: it has
    /// made as many as it has. It is not told of releases, so it comes back when those of the others have arrived.
    pub(crate) fn pause_between(&self, tries: u32, random: f64) -> Option<Duration> {
        let pause = self.took.mul_f64(0.5 + random.clamp(0.0, 1.0));
        (tries <= QUICK_TRIES).then(|| pause + spread(tries, random))
    }

    /// Whether the next attempt is to begin with one node.
    pub(crate) fn prefers_one(&self) -> bool {
        let may = self.refused_by_preferred < MOST_BY_PREFERRED;
        let may = may.if_off(Mechanism::AllAreAskedAgain, true);
        self.ordered && self.prefers_one && may
    }

    /// The wait begins, behind so many `others`: the first of them has the lock, or is about to.
    pub(crate) fn expects(&mut self, others: u32) {
        self.expected = others.saturating_sub(1).if_off(Mechanism::EarlierWaitersFirst, 0);
    }

    /// How long to wait after `wake_reason`, so that not all woken callers ask at one instant, and again.
    ///
    /// Whoever had the lock before, and was told then how many others wait, leaves it to them first: it
    /// tries a moment later, the longer the more of them are still to come. If they are gone, that moment
    /// is lost. Whoever does not know of others tries at once.
    pub(crate) fn woken(&mut self, wake_reason: WakeReason, random: f64) -> Duration {
        if wake_reason == WakeReason::Listening {
            let pause = if self.woken == 0 { Duration::ZERO } else { spread(self.woken, random) };
            self.woken = self.woken.saturating_add(1);
            return pause;
        }
        if wake_reason == WakeReason::PerhapsReleased {
            // First the messages of the other nodes get time to arrive.
            let pause = UNSURE.max(self.took).saturating_mul(2_u32.saturating_pow(self.unsure));
            self.unsure = self.unsure.saturating_add(1);
            return pause.min(POLL).mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0);
        }
        self.unsure = 0;
        self.prefers_one = true;
        let part = random.clamp(0.0, 1.0) / 2.0;
        let ahead = self.expected.saturating_sub(self.seen).min(MOST_AHEAD);
        let delay = self.took.clamp(DELAY, LONGEST_DELAY);
        let delays = if ahead == 0 { 0.0 } else { f64::from(ahead) + part };
        self.seen = self.seen.saturating_add(1);
        delay.mul_f64(delays)
    }

    /// The wait has ended with its time, and no wake-up ended it early.
    pub(crate) const fn slept(&mut self) {
        (self.woken, self.unsure) = (0, 0);
    }

    /// The node that the next attempt asks alone at first: of those that answered the last one, or can be
    /// expected to answer, and are heard (`relies_on`), the first in `order`. `None`: it asks all of them.
    ///
    /// It costs a second round trip. But if many are woken by one release, one node decides among them,
    /// with one request each; asked all at once, the nodes would be shared out so that nobody gets enough.
    pub(crate) fn preferred_node(
        &self,
        order: &[usize],
        relies_on: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let preferred = self.prefers_one() && order.len() > 1;
        order.iter().copied().find(|node| preferred && relies_on(*node))
    }

    /// How long that node may take before the others are asked all the same: it may have begun to hang.
    pub(crate) fn patience(&self) -> Duration {
        self.took.saturating_mul(PATIENCE).max(LEAST_PATIENCE)
    }
}

/// Callers that meet try again within that time, which is longer the more `times` they have met; `random` is in `0.0..1.0`.
pub(super) fn spread(times: u32, random: f64) -> Duration {
    let most = SPREAD.saturating_mul(2_u32.saturating_pow(times.min(10))).min(MOST_SPREAD);
    most.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    /// Three contenders, each of them nearest to another node, try again and again at one instant. How
    /// many rounds it takes until one of them has a majority of the three nodes, if ten are enough.
    fn rounds() -> Option<usize> {
        let mut contenders = [(); 3].map(|()| Contention::new(true));
        (1..=10).find(|_| {
            let first = contenders.each_ref().map(|one| one.preferred_node(&[0, 1, 2], |_| true));
            // Who comes to a node first, of those that ask it at once, is granted.
            let nearest = |node: usize, asks: &dyn Fn(usize) -> bool| {
                (0..3).map(|i| (node + i) % 3).find(|contender| asks(*contender))
            };
            let mut winners = [0, 1, 2].map(|node| {
                nearest(node, &|contender| first[contender].is_none_or(|first| first == node))
            });
            // Who has its first one asks the others, which are free.
            for (contender, first) in first.iter().enumerate() {
                if first.is_some_and(|node| winners[node] == Some(contender)) {
                    winners.iter_mut().for_each(|winner| *winner = winner.or(Some(contender)));
                }
            }
            let votes =
                [0, 1, 2].map(|one| winners.iter().filter(|won| **won == Some(one)).count());
            for (contention, votes) in contenders.iter_mut().zip(votes) {
                contention.tried(votes > 0, MOMENT, false);
            }
            votes.iter().any(|votes| *votes >= 2)
        })
    }

    /// The tooth: all at once, and far apart, they share the nodes out for ever.
    #[test]
    fn one_node_decides_among_contenders_and_without_that_nobody_does() {
        assert_eq!(rounds(), Some(2), "the first vote is split");
        assert_eq!(without(&[Mechanism::OrderedTries], rounds), None);
    }
}
