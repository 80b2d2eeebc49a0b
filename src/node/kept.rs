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
