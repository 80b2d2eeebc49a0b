//! The reaction of a call to contenders for its lock: the length of its sleeps, and the node that it asks first.

use std::time::Duration;

use super::super::base::{Backoff, Mechanism, POLL, Rule};
use super::super::wake::WakeReason;

/// The sleep of a waiter that does not look again by itself.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// Delay per waiter ahead of us: the time of one attempt, within these bounds. At most `MOST_AHEAD` waiters count.
const DELAY: Duration = Duration::from_micros(200);
const LONGEST_DELAY: Duration = Duration::from_millis(2);
const MOST_AHEAD: u32 = 8;

/// Time within which contenders try again if they have split the nodes among them, or are woken together
/// again and again. It doubles with each try in vain, up to the maximum.
const SPREAD: Duration = Duration::from_micros(500);
const MOST_SPREAD: Duration = Duration::from_millis(4);

/// Time for which a waiter waits for the messages of further nodes, if some have announced what may be a release. It doubles
/// with each try in vain.
const UNSURE: Duration = Duration::from_millis(4);

/// Number of split votes in a row that are followed by another try almost at once. If there are more, a
/// holder has the lock on the nodes that do not grant it.
pub(super) const QUICK_TRIES: u32 = 3;

/// Number of attempts in a row that may end with the refusal of one node alone; then all are asked. The lock may be free
/// on the others: that node may keep a key that they do not have, or lie. Among many waiters most refusals have another
/// reason: each release wakes all of them, and the node has granted another one. If they then ask all, they split the votes.
const MOST_BY_PREFERRED: u32 = 16;

/// Time limit of a node that is asked alone: a multiple of the last attempt's time, and a minimum.
const PATIENCE: u32 = 4;
const LEAST_PATIENCE: Duration = Duration::from_millis(20);

/// The contention that the attempts of one call have shown.
#[derive(Debug)]
pub(crate) struct Contention {
    /// True if attempts may begin with one node.
    ordered: bool,
    /// True if enough nodes would announce a release.
    covered: bool,
    /// Attempts in a row that some node granted.
    splits: u32,
    /// Attempts in a row that were made because nodes are listened to again.
    woken: u32,
    /// Attempts in a row for which too few nodes had announced a release.
    unsure: u32,
    /// Releases that were announced since the wait began.
    seen: u32,
    /// Number of those releases that are for earlier waiters.
    expected: u32,
    /// True if the next attempt begins with one node.
    prefers_one: bool,
    /// Attempts in a row that one node alone has refused.
    refused_by_preferred: u32,
    /// Duration of the last attempt.
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

    /// Notes an attempt that `took` that long and was in vain. `split`: some nodes granted it. `covered`: enough nodes
    /// would announce the release.
    pub(crate) const fn tried(&mut self, split: bool, took: Duration, covered: bool) {
        self.splits = if split { self.splits.saturating_add(1) } else { 0 };
        self.prefers_one = split;
        self.took = took;
        self.covered = covered;
    }

    /// Notes if the refusal of one node ended that attempt, before the others were asked (`by_preferred`).
    pub(crate) const fn ended_at_preferred(&mut self, by_preferred: bool) {
        self.refused_by_preferred =
            if by_preferred { self.refused_by_preferred.saturating_add(1) } else { 0 };
    }

    /// Prefers one node again if that node alone has refused the last attempt. The next attempt follows the hint of this refusal.
    pub(crate) const fn stays_with_preferred(&mut self) {
        self.prefers_one |= self.refused_by_preferred > 0;
    }

    /// Returns the time to wait after `tries` attempts if no release is announced meanwhile; `random` is in `0.0..1.0`.
    pub(crate) fn pause(&self, backoff: Backoff, tries: u32, random: f64) -> Duration {
        if self.is_split() {
            spread(self.splits, random)
        } else if self.covered {
            // Random, since the waiters are woken together and must not try again together.
            let longest = POLL.max(backoff.max).if_off(Mechanism::WaitersLookAgain, FOR_EVER);
            longest.mul_f64(0.75 + random.clamp(0.0, 1.0) / 4.0)
        } else {
            backoff.pause(tries, random)
        }
    }

    /// Returns the duration of the last attempt.
    pub(crate) const fn took(&self) -> Duration {
        self.took
    }

    /// Returns true if some nodes granted the last attempt, and not too many attempts before it.
    pub(crate) fn is_split(&self) -> bool {
        (1..=QUICK_TRIES).contains(&self.splits)
    }

    /// Returns the time for which a caller that does not wait leaves the nodes to others before the next of its `tries`; `None`
    /// if it has made all of them. It hears of no releases, so it comes back when the others' releases have reached the nodes.
    pub(crate) fn pause_between(&self, tries: u32, random: f64) -> Option<Duration> {
        let pause = self.took.mul_f64(0.5 + random.clamp(0.0, 1.0));
        (tries <= QUICK_TRIES).then(|| pause + spread(tries, random))
    }

    /// Returns true if the next attempt is to begin with one node.
    pub(crate) fn prefers_one(&self) -> bool {
        let may = self.refused_by_preferred < MOST_BY_PREFERRED;
        let may = may.if_off(Mechanism::AllAreAskedAgain, true);
        self.ordered && self.prefers_one && may
    }

    /// Notes that the wait begins, behind that many `others`. The first of them has the lock, or is about to get it.
    pub(crate) fn expects(&mut self, others: u32) {
        self.expected = others.saturating_sub(1).if_off(Mechanism::EarlierWaitersFirst, 0);
    }

    /// Returns the time to wait after `wake_reason`, so that woken callers do not all ask at one instant, and again.
    ///
    /// A caller that had the lock before, and learned then how many others wait, leaves it to them first. Its
    /// delay is longer the more of them are still to come. If they are gone, the delay is lost. A caller that
    /// knows of no others tries at once.
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

    /// Notes that the wait has ended with its time, not with a wake-up.
    pub(crate) const fn slept(&mut self) {
        (self.woken, self.unsure) = (0, 0);
    }

    /// Returns the node that the next attempt asks alone at first. It is the first one in `order` that is heard and has
    /// answered the last attempt, or can be expected to answer (`relies_on`). `None`: the attempt asks all nodes.
    ///
    /// This costs a second round trip. But if one release wakes many callers, one node decides among them,
    /// with one request each. If all nodes were asked at once, the votes would be split so that nobody wins.
    pub(crate) fn preferred_node(
        &self,
        order: &[usize],
        relies_on: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let preferred = self.prefers_one() && order.len() > 1;
        order.iter().copied().find(|node| preferred && relies_on(*node))
    }

    /// Returns the time limit of that node. The others are asked after it, since the node may have begun to hang.
    pub(crate) fn patience(&self) -> Duration {
        self.took.saturating_mul(PATIENCE).max(LEAST_PATIENCE)
    }
}

/// Returns the pause of a caller that has met others: a random part of a time that grows with the `times` they have met;
/// `random` is in `0.0..1.0`.
pub(super) fn spread(times: u32, random: f64) -> Duration {
    let most = SPREAD.saturating_mul(2_u32.saturating_pow(times.min(10))).min(MOST_SPREAD);
    most.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);

    /// Three contenders, each of them nearest to another node, try again and again at one instant. Returns the
    /// number of rounds until one of them has a majority of the three nodes, if ten are enough.
    fn rounds() -> Option<usize> {
        let mut contenders = [(); 3].map(|()| Contention::new(true));
        (1..=10).find(|_| {
            let first = contenders.each_ref().map(|one| one.preferred_node(&[0, 1, 2], |_| true));
            // A node grants the first one of the contenders that ask it at once.
            let nearest = |node: usize, asks: &dyn Fn(usize) -> bool| {
                (0..3).map(|i| (node + i) % 3).find(|contender| asks(*contender))
            };
            let mut winners = [0, 1, 2].map(|node| {
                nearest(node, &|contender| first[contender].is_none_or(|first| first == node))
            });
            // A contender that has its first node asks the others, which are free.
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

    /// Without the mechanism, contenders that are far apart and ask all nodes at once split the votes for ever.
    #[test]
    fn one_node_decides_among_contenders_and_without_that_nobody_does() {
        assert_eq!(rounds(), Some(2), "the first vote is split");
        assert_eq!(without(&[Mechanism::OrderedTries], rounds), None);
    }
}
