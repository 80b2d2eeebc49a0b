//! What a call makes of others who want the same lock: how long it sleeps, and whom it asks first.

use std::time::Duration;

use super::{Backoff, Cue, Mechanisms};

/// How often a lock is looked at whose release would be told: the most that a lost message costs, if the
/// longest pause is not longer.
const POLL: Duration = Duration::from_secs(1);

/// Contenders that are woken together, or have split the nodes among them, try again within that time;
/// twice as long with each try in vain, up to the most.
const SPREAD: Duration = Duration::from_micros(500);
const MOST_SPREAD: Duration = Duration::from_millis(4);

/// So many split votes in a row are followed by another try almost at once. If there are more, it is
/// somebody who holds the lock, on other nodes than those that grant it.
const QUICK_TRIES: u32 = 3;

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
    /// Attempts in a row that were made for a cue.
    cued: u32,
    /// The next attempt begins with one node.
    begins_alone: bool,
    /// How long the last attempt took.
    took: Duration,
}

impl Contention {
    pub(crate) const fn new(ordered: bool, mechanisms: Mechanisms) -> Self {
        Self {
            ordered: ordered && mechanisms.ordered_tries,
            covered: false,
            splits: 0,
            cued: 0,
            begins_alone: false,
            took: Duration::ZERO,
        }
    }

    /// An attempt `took` so long and was in vain, although some nodes granted it (`split`); whether the
    /// release would be told (`covered`).
    pub(crate) const fn tried(&mut self, split: bool, took: Duration, covered: bool) {
        self.splits = if split { self.splits.saturating_add(1) } else { 0 };
        self.begins_alone = split;
        self.took = took;
        self.covered = covered;
    }

    /// How long to wait, if nothing is told meanwhile, after `tries` of them; `random` is in `0.0..1.0`.
    pub(crate) fn pause(&self, backoff: Backoff, tries: u32, random: f64) -> Duration {
        if (1..=QUICK_TRIES).contains(&self.splits) {
            spread(self.splits, random)
        } else if self.covered {
            // Apart from each other, for all of them are woken together.
            POLL.max(backoff.max).mul_f64(0.75 + random.clamp(0.0, 1.0) / 4.0)
        } else {
            backoff.pause(tries, random)
        }
    }

    /// How long to wait after `cue`, lest everybody who was woken asks at one instant, and again.
    pub(crate) fn cued(&mut self, cue: Cue, random: f64) -> Duration {
        let pause = if self.cued == 0 { Duration::ZERO } else { spread(self.cued, random) };
        self.cued = self.cued.saturating_add(1);
        self.begins_alone |= cue == Cue::Released;
        pause
    }

    /// The wait has ended with its time, and without a cue.
    pub(crate) const fn slept(&mut self) {
        self.cued = 0;
    }

    /// The node that the next attempt asks alone at first: of those that answered the last one, the first
    /// in `order`. `None`: it asks all of them.
    ///
    /// It costs a second round trip. But if many are woken by one release, one node decides among them,
    /// with one request each; asked all at once, the nodes would be shared out so that nobody gets enough.
    pub(crate) fn begins_with(
        &self,
        order: &[usize],
        answered: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let alone = self.ordered && self.begins_alone && order.len() > 1;
        order.iter().copied().find(|node| alone && answered(*node))
    }

    /// How long that node may take before the others are asked all the same: it may have begun to hang.
    pub(crate) fn patience(&self) -> Duration {
        self.took.saturating_mul(PATIENCE).max(LEAST_PATIENCE)
    }
}

fn spread(times: u32, random: f64) -> Duration {
    let most = SPREAD.saturating_mul(2_u32.saturating_pow(times.min(10))).min(MOST_SPREAD);
    most.mul_f64(random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff =
        Backoff { min: Duration::from_millis(10), max: Duration::from_millis(100) };
    const MOMENT: Duration = Duration::from_millis(1);

    fn contention() -> Contention {
        Contention::new(true, Mechanisms::ALL)
    }

    #[test]
    fn a_lock_whose_release_is_told_is_looked_at_rarely() {
        let mut contention = contention();
        contention.tried(false, MOMENT, false);
        assert_eq!(contention.pause(BACKOFF, 9, 1.0), BACKOFF.max);
        contention.tried(false, MOMENT, true);
        assert_eq!(contention.pause(BACKOFF, 9, 1.0), POLL);
        assert_eq!(contention.pause(BACKOFF, 9, 0.0), POLL * 3 / 4);
        let rarely = Backoff { max: POLL * 9, ..BACKOFF };
        assert_eq!(contention.pause(rarely, 9, 1.0), POLL * 9, "the user's word counts");
    }

    #[test]
    fn after_a_split_vote_the_tries_are_quick_and_ordered_and_soon_not_quick_any_more() {
        let mut contention = contention();
        for _ in 0..QUICK_TRIES {
            contention.tried(true, MOMENT, true);
            assert!(contention.pause(BACKOFF, 1, 1.0) <= MOST_SPREAD);
            assert_eq!(contention.begins_with(&[2, 0, 1], |_| true), Some(2));
        }
        contention.tried(true, MOMENT, true);
        assert_eq!(contention.pause(BACKOFF, 1, 1.0), POLL);
        contention.tried(false, MOMENT, false);
        assert_eq!(contention.begins_with(&[2, 0, 1], |_| true), None, "it is held, by one");
        contention.tried(true, MOMENT, true);
        assert!(contention.pause(BACKOFF, 1, 1.0) <= MOST_SPREAD, "counted anew");
    }

    #[test]
    fn who_is_woken_by_a_release_begins_with_a_node_that_answers() {
        let mut contention = contention();
        contention.tried(false, MOMENT, true);
        contention.cued(Cue::Listening, 0.5);
        assert_eq!(contention.begins_with(&[2, 0, 1], |_| true), None, "nothing was released");
        contention.cued(Cue::Released, 0.5);
        assert_eq!(contention.begins_with(&[2, 0, 1], |node| node != 2), Some(0));
        assert_eq!(contention.begins_with(&[2, 0, 1], |_| false), None);
        assert_eq!(contention.begins_with(&[0], |_| true), None, "there are no others");
        let mut all_at_once = Contention::new(false, Mechanisms::ALL);
        all_at_once.tried(true, MOMENT, true);
        assert_eq!(all_at_once.begins_with(&[2, 0, 1], |_| true), None);
    }

    /// Three contenders, each of them nearest to another node, try again and again at one instant. How
    /// many rounds it takes until one of them has a majority of the three nodes, if ten are enough.
    fn rounds(mechanisms: Mechanisms) -> Option<usize> {
        let mut contenders = [(); 3].map(|()| Contention::new(true, mechanisms));
        (1..=10).find(|_| {
            let first = contenders.each_ref().map(|one| one.begins_with(&[0, 1, 2], |_| true));
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
        assert_eq!(rounds(Mechanisms::ALL), Some(2), "the first vote is split");
        assert_eq!(rounds(Mechanisms { ordered_tries: false, ..Mechanisms::ALL }), None);
    }

    #[test]
    fn the_first_cue_is_followed_at_once_and_those_that_follow_are_spread() {
        let mut contention = contention();
        assert_eq!(contention.cued(Cue::Released, 1.0), Duration::ZERO);
        let pauses = [(); 5].map(|()| contention.cued(Cue::Released, 1.0));
        assert_eq!(pauses, [1, 2, 4, 4, 4].map(Duration::from_millis));
        contention.slept();
        assert_eq!(contention.cued(Cue::Released, 1.0), Duration::ZERO);
    }
}
