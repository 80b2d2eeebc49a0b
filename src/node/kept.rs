//! Releases that wait for a node to come back.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::job::Release;
use crate::observe;
use crate::quorum::Time;

/// The most releases that are kept for one node. What is beyond it goes by the keys' own TTL.
const CAPACITY: usize = 65_536;

/// The releases of one node that could not be delivered, in the order in which they came. Each is
/// kept while its key can still be there.
#[derive(Default)]
pub(super) struct Kept(Mutex<VecDeque<Release>>);

impl Kept {
    /// Keeps `release`; its asker has been told, and nobody waits for its answer any more.
    pub(super) fn keep(&self, mut release: Release, node: &Arc<str>, now: Time) {
        release.sink = None;
        release.unanswered = None;
        let mut kept = self.0.lock();
        if kept.len() >= CAPACITY {
            kept.retain(|release| can_be_there(release, now));
        }
        let dropped = (kept.len() >= CAPACITY).then(|| kept.pop_front());
        kept.push_back(release);
        drop(kept);
        if dropped.is_some() {
            observe::release_dropped(node);
        }
    }

    /// Takes out up to `most` releases whose keys can still be there.
    pub(super) fn take(&self, most: usize, now: Time) -> Vec<Release> {
        let mut kept = self.0.lock();
        let some = most.min(kept.len());
        let mut taken: Vec<_> = kept.drain(..some).collect();
        drop(kept);
        taken.retain(|release| can_be_there(release, now));
        taken
    }

    /// Until when one of them may be of use, `unknown` for those of which that is not known; `None`
    /// if there is none.
    pub(super) fn needed_until(&self, unknown: Time) -> Option<Time> {
        self.0.lock().iter().map(|release| release.until.unwrap_or(unknown)).max()
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
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
        Release { request, sink: None, until, unanswered: None }
    }

    #[test]
    fn a_release_is_kept_while_its_key_can_be_there() {
        let (kept, node) = (Kept::default(), Arc::from("redis://a"));
        kept.keep(release(Some(at(100))), &node, at(0));
        kept.keep(release(Some(at(200))), &node, at(0));
        kept.keep(release(None), &node, at(0));
        assert_eq!(kept.needed_until(at(150)), Some(at(200)));
        assert_eq!(kept.needed_until(at(900)), Some(at(900)));
        assert_eq!(kept.take(10, at(100)).len(), 2, "the first key has ended");
        assert_eq!((kept.len(), kept.needed_until(at(900))), (0, None));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for_and_the_useless_go_first() {
        let (kept, node) = (Kept::default(), Arc::from("redis://a"));
        (0..CAPACITY).for_each(|_| kept.keep(release(Some(at(100))), &node, at(0)));
        kept.keep(release(None), &node, at(99));
        assert_eq!(kept.len(), CAPACITY);
        kept.keep(release(None), &node, at(100));
        assert_eq!(kept.len(), 2);
    }
}
