//! Releases that a node has still to be told, or to be told again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::job::Release;
use crate::core::base::{Time, give_room_back};
use crate::observe;

/// The most releases that are kept for one node. What is beyond it goes by the keys' own TTL.
const CAPACITY: usize = 65_536;

/// The most that a node has refused and that it is told again.
const MOST_REFUSED: usize = 4_096;

/// The releases of one node that could not be delivered, in the order in which they came. Each is kept
/// while its key can still be there. Releases that are repeated are here as well, since a late request may
/// still run behind them; and those that the node has refused.
#[derive(Default)]
pub(super) struct PendingReleases(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    undelivered: VecDeque<Release>,
    /// The length at which those of no use are dropped: a node may be down for longer than keys live.
    sweep_at: usize,
    /// By when they are due, and in their order.
    repeated: BTreeMap<(Time, u64), Release>,
    /// By when the node is told again, and in their order.
    refused: BTreeMap<(Time, u64), Release>,
    /// Numbers those of both.
    last: u64,
}

impl PendingReleases {
    /// Keeps `release`; its asker has been told, and nobody waits for its answer any more.
    pub(super) fn keep(&self, mut release: Release, node: &Arc<str>, now: Time) {
        release.is_unheard();
        let mut pending = self.0.lock();
        if pending.undelivered.len() >= pending.sweep_at {
            pending.sweep(now);
        }
        let full = pending.undelivered.len() >= CAPACITY;
        let dropped = full.then(|| pending.undelivered.pop_front());
        pending.undelivered.push_back(release);
        drop(pending);
        if dropped.is_some() {
            observe::release_dropped(node);
        }
    }

    /// Keeps `release`, which was delivered, and is to be delivered again at `due`.
    pub(super) fn repeat(&self, mut release: Release, due: Time, node: &Arc<str>) {
        release.is_unheard();
        release.untold = None;
        let mut pending = self.0.lock();
        let dropped = (pending.repeated.len() >= CAPACITY).then(|| pending.repeated.pop_last());
        pending.last += 1;
        let place = (due, pending.last);
        pending.repeated.insert(place, release);
        drop(pending);
        if dropped.is_some() {
            observe::release_dropped(node);
        }
    }

    /// Keeps `release`, which the node has refused, and is told again at `due`. What is too much goes by the key's own TTL, as that
    /// event of the refusal has said.
    pub(super) fn keep_refused(&self, mut release: Release, due: Time, now: Time) {
        release.is_unheard();
        release.untold = None;
        let mut pending = self.0.lock();
        if pending.refused.len() >= MOST_REFUSED {
            pending.sweep(now);
        }
        if pending.refused.len() < MOST_REFUSED {
            pending.last += 1;
            let place = (due, pending.last);
            pending.refused.insert(place, release);
        }
    }

    /// Nothing can run any more behind what is delivered from now on: once more each, and that is it.
    pub(super) fn repeat_now(&self, now: Time) {
        let mut pending = self.0.lock();
        let repeated = std::mem::take(&mut pending.repeated);
        pending.repeated = repeated.into_iter().map(|((_, i), it)| ((now, i), it)).collect();
    }

    /// Takes out up to `most` releases: those whose keys can still be there, and those that are due again. A quarter of them at
    /// most are such as the node has refused, so that these keep no other request waiting.
    pub(super) fn take(&self, most: usize, now: Time) -> Vec<Release> {
        let mut pending = self.0.lock();
        let some = most.min(pending.undelivered.len());
        let mut taken: Vec<_> = pending.undelivered.drain(..some).collect();
        take_due(&mut pending.repeated, &mut taken, most, now);
        let most = most.min(taken.len() + most / 4);
        take_due(&mut pending.refused, &mut taken, most, now);
        drop(pending);
        taken.retain(|release| can_be_there(release, now));
        taken
    }

    /// When the next one is due that is told again.
    pub(super) fn next_due(&self) -> Option<Time> {
        let pending = self.0.lock();
        let first = |told: &BTreeMap<(Time, u64), _>| told.first_key_value().map(|(it, _)| it.0);
        let due = [first(&pending.repeated), first(&pending.refused)].into_iter().flatten().min();
        drop(pending);
        due
    }

    /// Until when one of them may be of use: `unknown` where that is not known, and no later than that for those that the node has
    /// refused. `None` if there is none.
    pub(super) fn needed_until(&self, unknown: Time) -> Option<Time> {
        let pending = self.0.lock();
        let until = |release: &Release| release.until.unwrap_or(unknown);
        let others = pending.undelivered.iter().chain(pending.repeated.values()).map(until);
        let refused = pending.refused.values().map(|release| until(release).min(unknown));
        let needed = others.chain(refused).max();
        drop(pending);
        needed
    }

    /// Drops the releases that are of no use any more, and returns whether any is left.
    pub(super) fn tidy(&self, now: Time) -> bool {
        let mut pending = self.0.lock();
        pending.sweep(now);
        give_room_back(&mut pending.undelivered);
        !(pending.undelivered.is_empty()
            && pending.repeated.is_empty()
            && pending.refused.is_empty())
    }

    /// How many have not been delivered.
    pub(super) fn len(&self) -> usize {
        let pending = self.0.lock();
        pending.undelivered.len() + pending.refused.len()
    }
}

impl Pending {
    fn sweep(&mut self, now: Time) {
        self.undelivered.retain(|release| can_be_there(release, now));
        self.refused.retain(|_, release| can_be_there(release, now));
        // The length has to double, so that a release is looked at about twice.
        self.sweep_at = (self.undelivered.len() * 2 + 16).min(CAPACITY);
    }
}

/// Moves those that are due into `taken`, until it has `most`.
fn take_due(
    from: &mut BTreeMap<(Time, u64), Release>,
    taken: &mut Vec<Release>,
    most: usize,
    now: Time,
) {
    while taken.len() < most
        && let Some(first) = from.first_entry()
        && first.key().0 <= now
    {
        taken.push(first.remove());
    }
}

fn can_be_there(release: &Release, now: Time) -> bool {
    release.until.is_none_or(|until| now < until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::{Request, Script};

    static SCRIPT: Script = Script::new("return 1");

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn release(until: Option<Time>) -> Release {
        let request = Arc::new(Request::new(&SCRIPT, 0, &[]));
        let (sink, repetition, unanswered, untold) = (None, None, None, None);
        Release { request, sink, until, repetition, unanswered, untold, refusals: Some(0) }
    }

    #[test]
    fn a_release_is_kept_while_its_key_can_be_there() {
        let (pending, node) = (PendingReleases::default(), Arc::from("redis://a"));
        pending.keep(release(Some(at(100))), &node, at(0));
        pending.keep(release(Some(at(200))), &node, at(0));
        pending.keep(release(None), &node, at(0));
        assert_eq!(pending.needed_until(at(150)), Some(at(200)));
        assert_eq!(pending.needed_until(at(900)), Some(at(900)));
        assert_eq!(pending.take(10, at(100)).len(), 2, "the first key has ended");
        assert_eq!((pending.len(), pending.needed_until(at(900))), (0, None));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_the_useless_go_first() {
        let (pending, node) = (PendingReleases::default(), Arc::from("redis://a"));
        (0..CAPACITY).for_each(|_| pending.keep(release(Some(at(100))), &node, at(0)));
        pending.keep(release(None), &node, at(99));
        assert_eq!(pending.len(), CAPACITY);
        pending.keep(release(None), &node, at(100));
        assert_eq!(pending.len(), 2);
        (0..=CAPACITY).for_each(|_| pending.repeat(release(None), at(100), &node));
        assert_eq!(pending.take(usize::MAX, at(100)).len(), 2 + CAPACITY);
    }

    #[test]
    fn a_node_that_is_down_for_long_costs_no_more_than_the_keys_that_can_be_there() {
        let (pending, node) = (PendingReleases::default(), Arc::from("redis://a"));
        for now in 0..10_000 {
            pending.keep(release(Some(at(now + 100))), &node, at(now));
            assert!(pending.len() <= 2 * 100 + 16, "{} after {now} ms", pending.len());
        }
        assert_eq!(pending.take(usize::MAX, at(10_000)).len(), 99);
    }

    #[test]
    fn of_a_node_that_stays_down_nothing_is_kept_once_the_keys_have_ended() {
        let (pending, node) = (PendingReleases::default(), Arc::from("redis://a"));
        assert!(!pending.tidy(at(0)));
        (0..1_000).for_each(|_| pending.keep(release(Some(at(100))), &node, at(0)));
        pending.keep(release(Some(at(200))), &node, at(0));
        assert!(pending.tidy(at(99)));
        assert_eq!(pending.len(), 1_001);
        assert!(pending.tidy(at(100)));
        assert_eq!(pending.len(), 1);
        assert!(pending.0.lock().undelivered.capacity() < 10);
        assert!(!pending.tidy(at(200)));
        pending.repeat(release(None), at(300), &node);
        assert!(pending.tidy(at(200)), "it is due later");
    }

    #[test]
    fn a_release_is_repeated_when_it_is_due_or_when_once_more_is_enough() {
        let (pending, node) = (PendingReleases::default(), Arc::from("redis://a"));
        pending.repeat(release(None), at(300), &node);
        pending.repeat(release(None), at(200), &node);
        assert_eq!((pending.next_due(), pending.len()), (Some(at(200)), 0));
        assert_eq!(pending.take(10, at(199)).len(), 0);
        assert_eq!(pending.take(10, at(200)).len(), 1);
        assert_eq!(pending.needed_until(at(900)), Some(at(900)));
        pending.repeat_now(at(210));
        assert_eq!(pending.take(10, at(210)).len(), 1);
        assert_eq!((pending.next_due(), pending.needed_until(at(900))), (None, None));
    }

    #[test]
    fn what_the_node_has_refused_leaves_room_for_others_and_ends_with_its_key() {
        let (pending, node) = (PendingReleases::default(), Arc::from("a:6379"));
        pending.keep_refused(release(Some(at(50))), at(100), at(0));
        (0..=MOST_REFUSED as u64).for_each(|_| {
            pending.keep_refused(release(Some(at(500))), at(100), at(60));
        });
        assert_eq!((pending.len(), pending.next_due()), (MOST_REFUSED, Some(at(100))));
        assert!(pending.take(8, at(99)).is_empty());
        pending.repeat(release(None), at(100), &node);
        assert_eq!(pending.take(8, at(100)).len(), 1 + 2);
        assert_eq!(pending.needed_until(at(300)), Some(at(300)), "and no longer");
        assert!(pending.tidy(at(499)));
        assert!(!pending.tidy(at(500)));
    }
}
