//! Releases that a node has still to be told, or to be told again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::job::Release;
use crate::core::base::{Time, give_room_back};
use crate::observe;

/// The most releases that are kept for one node. What is beyond it goes by the keys' own TTL.
const CAPACITY: usize = 65_536;

/// The releases of one node that could not be delivered, in the order in which they came. Each is kept
/// while its key can still be there. Releases that are repeated are here as well, since a late request may
/// still run behind them.
#[derive(Default)]
pub(super) struct PendingReleases(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    undelivered: VecDeque<Release>,
    /// The length at which those of no use are dropped: a node may be down for longer than keys live.
    sweep_at: usize,
    /// By when they are due, and in their order.
    repeated: BTreeMap<(Time, u64), Release>,
    /// Numbers those.
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

    /// Nothing can run any more behind what is delivered from now on: once more each, and that is it.
    pub(super) fn repeat_now(&self, now: Time) {
        let mut pending = self.0.lock();
        let repeated = std::mem::take(&mut pending.repeated);
        pending.repeated = repeated.into_iter().map(|((_, i), it)| ((now, i), it)).collect();
    }

    /// Takes out up to `most` releases: those whose keys can still be there, and those that are due again.
    pub(super) fn take(&self, most: usize, now: Time) -> Vec<Release> {
        let mut pending = self.0.lock();
        let some = most.min(pending.undelivered.len());
        let mut taken: Vec<_> = pending.undelivered.drain(..some).collect();
        while taken.len() < most
            && let Some(first) = pending.repeated.first_entry()
            && first.key().0 <= now
        {
            taken.push(first.remove());
        }
        drop(pending);
        taken.retain(|release| can_be_there(release, now));
        taken
    }

    /// When the next one is due that is repeated.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.lock().repeated.first_key_value().map(|((due, _), _)| *due)
    }

    /// Until when one of them may be of use, `unknown` for those of which that is not known; `None`
    /// if there is none.
    pub(super) fn needed_until(&self, unknown: Time) -> Option<Time> {
        let pending = self.0.lock();
        let until = |release: &Release| release.until.unwrap_or(unknown);
        let needed = pending.undelivered.iter().chain(pending.repeated.values()).map(until).max();
        drop(pending);
        needed
    }

    /// Drops the releases that are of no use any more, and returns whether any is left.
    pub(super) fn tidy(&self, now: Time) -> bool {
        let mut pending = self.0.lock();
        pending.sweep(now);
        give_room_back(&mut pending.undelivered);
        !pending.undelivered.is_empty() || !pending.repeated.is_empty()
    }

    /// How many have not been delivered.
    pub(super) fn len(&self) -> usize {
        self.0.lock().undelivered.len()
    }
}

impl Pending {
    fn sweep(&mut self, now: Time) {
        self.undelivered.retain(|release| can_be_there(release, now));
        // The length has to double, so that a release is looked at about twice.
        self.sweep_at = (self.undelivered.len() * 2 + 16).min(CAPACITY);
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
        Release { request, sink: None, until, repetition: None, unanswered: None, untold: None }
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
}
