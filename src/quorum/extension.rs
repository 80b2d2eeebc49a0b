//! One attempt to prolong a lock that is held.

use std::time::Duration;

use super::tally::{Tally, Verdict};
use super::{Ballot, Failure, Mechanisms, Time, validity};

/// A node's answer to `extend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionVote {
    /// Our key was there, and lives for at least the time asked for.
    Extended,
    /// Our key is not there.
    Missing,
}

/// One round of `extend`. It counts only if a majority confirmed *this* round, and its validity
/// counts from before its first send: what an earlier round was told says nothing about this one.
#[derive(Debug)]
pub(crate) struct Extension {
    started: Time,
    answer_by: Time,
    ttl: Duration,
    mechanisms: Mechanisms,
    tally: Tally,
    missing: Tally,
}

impl Extension {
    pub(crate) fn new(
        nodes: usize,
        started: Time,
        answer_by: Time,
        ttl: Duration,
        mechanisms: Mechanisms,
    ) -> Self {
        let needed = mechanisms.quorum(nodes);
        Self {
            started,
            answer_by,
            ttl,
            mechanisms,
            tally: Tally::new(nodes, needed),
            // So many nodes without our key that no majority can have it.
            missing: Tally::new(nodes, nodes + 1 - needed),
        }
    }

    /// The end of validity that this round can lead to, whatever the nodes answer.
    pub(crate) fn valid_at_most(&self) -> Time {
        validity::valid_until(self.started, self.started, self.ttl, self.mechanisms)
    }

    /// The new end of validity, if a majority confirmed.
    pub(crate) fn extended_until(&self, now: Time) -> Option<Time> {
        (self.tally.verdict() == Verdict::Won)
            .then(|| validity::valid_until(self.started, now, self.ttl, self.mechanisms))
    }

    /// Whether so many nodes answered that our key is gone that the lock is lost, whatever the
    /// clock says. Silence is never counted here.
    pub(crate) fn gone(&self) -> bool {
        self.missing.verdict() == Verdict::Won
    }
}

impl Ballot for Extension {
    type Vote = ExtensionVote;

    fn sending(&mut self, _node: usize, now: Time) -> bool {
        // Also after a majority has confirmed: the slower nodes shall have it, too.
        now < self.answer_by
    }

    fn vote(&mut self, _node: usize, vote: ExtensionVote) {
        match vote {
            ExtensionVote::Extended => self.tally.yes(),
            ExtensionVote::Missing => {
                self.tally.no();
                self.missing.yes();
            }
        }
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.tally.no();
    }

    fn decided(&self) -> bool {
        self.tally.verdict() != Verdict::Pending
    }
}
