//! Releases that must still be sent to a node, or sent again.

use std::collections::{BTreeMap, VecDeque};

use super::super::base::{Time, give_room_back};
use super::driver::Request;
use super::job::Job;

/// The most releases that are kept for one node. Keys beyond that end by their own TTL.
const CAPACITY: usize = 65_536;

/// The most refused releases that are sent again.
const MOST_REFUSED: usize = 4_096;

/// Releases by due time and sequence number.
type Due<R> = BTreeMap<(Time, u64), Job<R>>;

/// The releases of one node that could not be delivered, in the order in which they came. Each is kept while its key can still be
/// there. Repeated releases are kept as well, since a late request may still run behind them, and so are those that the node has
/// refused.
pub(super) struct PendingReleases<R> {
    undelivered: VecDeque<Job<R>>,
    /// The length at which useless releases are dropped: a node may be down for longer than keys live.
    sweep_at: usize,
    repeated: Due<R>,
    /// Refused releases, which are sent again.
    refused: Due<R>,
    /// The last sequence number of both.
    last: u64,
}

impl<R: Request> PendingReleases<R> {
    pub(super) const fn new() -> Self {
        Self {
            undelivered: VecDeque::new(),
            sweep_at: 0,
            repeated: BTreeMap::new(),
            refused: BTreeMap::new(),
            last: 0,
        }
    }

    /// Keeps a release; its caller has been told, and nobody waits for its answer any more. Returns true if another one had to
    /// make room.
    pub(super) fn keep(&mut self, mut release: Job<R>, now: Time) -> bool {
        drop(release.request.take_caller());
        if self.undelivered.len() >= self.sweep_at {
            self.sweep(now);
        }
        let is_full = self.undelivered.len() >= CAPACITY;
        if is_full {
            self.undelivered.pop_front();
        }
        self.undelivered.push_back(release);
        is_full
    }

    /// Keeps a release that was delivered, and is to be delivered again at `due`. Returns true if another one had to make room.
    pub(super) fn repeat(&mut self, mut release: Job<R>, due: Time) -> bool {
        drop(release.request.take_caller());
        release.request.is_told();
        let is_full = self.repeated.len() >= CAPACITY;
        if is_full {
            self.repeated.pop_last();
        }
        self.last += 1;
        self.repeated.insert((due, self.last), release);
        is_full
    }

    /// Keeps a release that the node has refused, and that is sent again at `due`. If there is no room for it, its key ends by
    /// its own TTL, as the event of the refusal has said.
    pub(super) fn keep_refused(&mut self, mut release: Job<R>, due: Time, now: Time) {
        drop(release.request.take_caller());
        release.request.is_told();
        if self.refused.len() >= MOST_REFUSED {
            self.sweep(now);
        }
        if self.refused.len() < MOST_REFUSED {
            self.last += 1;
            self.refused.insert((due, self.last), release);
        }
    }

    /// Makes each repeated release due now, for the last time: nothing can run any more behind a release that is delivered
    /// from now on.
    pub(super) fn repeat_now(&mut self, now: Time) {
        let repeated = std::mem::take(&mut self.repeated);
        self.repeated = repeated.into_iter().map(|((_, i), it)| ((now, i), it)).collect();
    }

    /// Takes out up to `most` releases: those whose keys can still be there, and those that are due again. At most a quarter are
    /// releases that the node has refused, so that these keep no other request waiting.
    pub(super) fn take(&mut self, most: usize, now: Time) -> Vec<Job<R>> {
        let some = most.min(self.undelivered.len());
        let mut taken: Vec<_> = self.undelivered.drain(..some).collect();
        take_due(&mut self.repeated, &mut taken, most, now);
        let most = most.min(taken.len() + most / 4);
        take_due(&mut self.refused, &mut taken, most, now);
        taken.retain(|release| can_be_there(release, now));
        taken
    }

    /// Returns true if any release must go out now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        !self.undelivered.is_empty() || self.next_due().is_some_and(|due| due <= now)
    }

    /// Returns the next time at which a release must be sent again.
    pub(super) fn next_due(&self) -> Option<Time> {
        let first = |told: &Due<R>| told.first_key_value().map(|(it, _)| it.0);
        [first(&self.repeated), first(&self.refused)].into_iter().flatten().min()
    }

    /// Returns the time until which a kept release may be of use; `None` if there is none. `unknown` stands for an unknown time,
    /// and is the latest time for releases that the node has refused.
    pub(super) fn needed_until(&self, unknown: Time) -> Option<Time> {
        let until = |job: &Job<R>| job.release().and_then(|it| it.until).unwrap_or(unknown);
        let others = self.undelivered.iter().chain(self.repeated.values()).map(until);
        let refused = self.refused.values().map(|release| until(release).min(unknown));
        others.chain(refused).max()
    }

    /// Drops the releases that are of no use any more. Returns true if any is left.
    pub(super) fn tidy(&mut self, now: Time) -> bool {
        self.sweep(now);
        give_room_back(&mut self.undelivered);
        !self.is_empty()
    }

    /// Returns true if no release is kept or repeated.
    pub(super) fn is_empty(&self) -> bool {
        self.undelivered.is_empty() && self.repeated.is_empty() && self.refused.is_empty()
    }

    /// Returns the number of releases that have not been delivered.
    pub(super) fn len(&self) -> usize {
        self.undelivered.len() + self.refused.len()
    }

    fn sweep(&mut self, now: Time) {
        self.undelivered.retain(|release| can_be_there(release, now));
        self.refused.retain(|_, release| can_be_there(release, now));
        // The length must double first, so that each release is checked about twice.
        self.sweep_at = (self.undelivered.len() * 2 + 16).min(CAPACITY);
    }
}

/// Moves due releases into `taken`, until it has `most`.
fn take_due<R>(from: &mut Due<R>, taken: &mut Vec<Job<R>>, most: usize, now: Time) {
    while taken.len() < most
        && let Some(first) = from.first_entry().filter(|first| first.key().0 <= now)
    {
        taken.push(first.remove());
    }
}

fn can_be_there<R>(release: &Job<R>, now: Time) -> bool {
    release.release().and_then(|it| it.until).is_none_or(|until| now < until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::job::{Purpose, Release};
    use super::super::tests::Fake;
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn release(until: Option<Time>) -> Job<Fake> {
        Job::new(Fake::default(), Purpose::Release(Release::of_key(until, None)))
    }

    #[test]
    fn a_release_is_kept_while_its_key_can_be_there() {
        let mut pending = PendingReleases::new();
        pending.keep(release(Some(at(100))), at(0));
        pending.keep(release(Some(at(200))), at(0));
        pending.keep(release(None), at(0));
        assert_eq!(pending.needed_until(at(150)), Some(at(200)));
        assert_eq!(pending.needed_until(at(900)), Some(at(900)));
        assert_eq!(pending.take(10, at(100)).len(), 2, "the first key has ended");
        assert_eq!((pending.len(), pending.needed_until(at(900))), (0, None));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_the_useless_go_first() {
        let mut pending = PendingReleases::new();
        (0..CAPACITY).for_each(|_| _ = pending.keep(release(Some(at(100))), at(0)));
        pending.keep(release(None), at(99));
        assert_eq!(pending.len(), CAPACITY);
        pending.keep(release(None), at(100));
        assert_eq!(pending.len(), 2);
        (0..=CAPACITY).for_each(|_| _ = pending.repeat(release(None), at(100)));
        assert_eq!(pending.take(usize::MAX, at(100)).len(), 2 + CAPACITY);
    }

    #[test]
    fn a_node_that_is_down_for_long_costs_no_more_than_the_keys_that_can_be_there() {
        let mut pending = PendingReleases::new();
        for now in 0..10_000 {
            pending.keep(release(Some(at(now + 100))), at(now));
            assert!(pending.len() <= 2 * 100 + 16, "{} after {now} ms", pending.len());
        }
        assert_eq!(pending.take(usize::MAX, at(10_000)).len(), 99);
    }

    #[test]
    fn of_a_node_that_stays_down_nothing_is_kept_once_the_keys_have_ended() {
        let mut pending = PendingReleases::new();
        assert!(!pending.tidy(at(0)));
        (0..1_000).for_each(|_| _ = pending.keep(release(Some(at(100))), at(0)));
        pending.keep(release(Some(at(200))), at(0));
        assert!(pending.tidy(at(99)));
        assert_eq!(pending.len(), 1_001);
        assert!(pending.tidy(at(100)));
        assert_eq!(pending.len(), 1);
        assert!(pending.undelivered.capacity() < 10);
        assert!(!pending.tidy(at(200)));
        pending.repeat(release(None), at(300));
        assert!(pending.tidy(at(200)), "it is due later");
    }

    #[test]
    fn a_release_is_repeated_when_it_is_due_or_when_once_more_is_enough() {
        let mut pending = PendingReleases::new();
        pending.repeat(release(None), at(300));
        pending.repeat(release(None), at(200));
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
        let mut pending = PendingReleases::new();
        pending.keep_refused(release(Some(at(50))), at(100), at(0));
        (0..=MOST_REFUSED as u64).for_each(|_| {
            pending.keep_refused(release(Some(at(500))), at(100), at(60));
        });
        assert_eq!((pending.len(), pending.next_due()), (MOST_REFUSED, Some(at(100))));
        assert!(pending.take(8, at(99)).is_empty());
        pending.repeat(release(None), at(100));
        assert_eq!(pending.take(8, at(100)).len(), 1 + 2);
        assert_eq!(pending.needed_until(at(300)), Some(at(300)), "and no longer");
        assert!(pending.tidy(at(499)));
        assert!(!pending.tidy(at(500)));
    }
}
