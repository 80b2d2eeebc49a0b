//! One round of prolonging a lock that is held, and of repairing it on nodes that lost it.

use std::time::Duration;

use super::tally::{Tally, Verdict};
use super::{Ballot, Failure, Mechanisms, Renewed, Time, validity};

/// A node's answer to `extend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionVote {
    /// Our key was there, and lives for at least the time asked for.
    Extended,
    /// The key was free, and is ours again.
    Repaired,
    /// The key is free.
    Free,
    /// The key is somebody else's.
    NotOurs,
}

/// What a node has said of our key in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is there.
    Ours,
    /// It is not there.
    NotOurs,
    /// Nothing was sent to the node.
    NotAsked,
    /// Nothing: the request may have run, or may run later.
    Nothing,
}

/// One round of `extend`. It counts only if a majority confirmed *this* round by the presence of our
/// key, and its validity counts from before its first send: what an earlier round was told says
/// nothing about this one.
///
/// A node that was repaired in this round does not count for it: its key was gone, and somebody else
/// may have had it in between. It counts from the next round on.
#[derive(Debug)]
pub(crate) struct Extension {
    started: Time,
    answer_by: Time,
    ttl: Duration,
    mechanisms: Mechanisms,
    present: Tally,
    missing: Tally,
    heard: Vec<Heard>,
    closed: bool,
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
            present: Tally::new(nodes, needed),
            // So many nodes without our key that no majority can have it.
            missing: Tally::new(nodes, nodes + 1 - needed),
            heard: vec![Heard::Nothing; nodes],
            closed: false,
        }
    }

    /// The lock is about to be given back: nothing more is sent for this round. A copy that a node did
    /// not run at once, and that is sent again behind the release, would set the key again.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// The end of validity that this round can lead to, whatever the nodes answer.
    pub(crate) fn valid_at_most(&self) -> Time {
        validity::valid_until(self.started, self.started, self.ttl, self.mechanisms)
    }

    /// What the round says, as far as it has been heard.
    pub(crate) fn result(&self, now: Time) -> Renewed {
        if self.present.verdict() == Verdict::Won {
            Renewed::Until(validity::valid_until(self.started, now, self.ttl, self.mechanisms))
        } else if self.missing.verdict() == Verdict::Won {
            Renewed::Gone
        } else {
            // Silence is never counted as "gone".
            Renewed::Unknown
        }
    }

    pub(crate) const fn answer_by(&self) -> Time {
        self.answer_by
    }

    /// What each node has said of our key.
    pub(crate) fn heard(&self) -> &[Heard] {
        &self.heard
    }
}

impl Ballot for Extension {
    type Vote = ExtensionVote;

    fn sending(&mut self, _node: usize, now: Time) -> bool {
        // Also after a majority has confirmed: the slower nodes shall have it, too.
        !self.closed && now < self.answer_by
    }

    fn vote(&mut self, node: usize, vote: ExtensionVote) {
        self.heard[node] = match vote {
            ExtensionVote::Extended | ExtensionVote::Repaired => Heard::Ours,
            ExtensionVote::Free | ExtensionVote::NotOurs => Heard::NotOurs,
        };
        match vote {
            ExtensionVote::Extended => {
                self.present.yes();
                self.missing.no();
            }
            ExtensionVote::Repaired | ExtensionVote::Free | ExtensionVote::NotOurs => {
                self.present.no();
                self.missing.yes();
            }
        }
    }

    fn fail(&mut self, node: usize, failure: Failure) {
        if failure == Failure::NotSent {
            self.heard[node] = Heard::NotAsked;
        }
        self.present.no();
        self.missing.no();
    }

    fn decided(&self) -> bool {
        // A lost majority is decided only when it is known whether it is gone, or silent.
        self.present.verdict() == Verdict::Won || self.missing.verdict() != Verdict::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(votes: &[Option<ExtensionVote>]) -> Renewed {
        let ttl = Duration::from_millis(10_000);
        let start = Time::default();
        let mut extension =
            Extension::new(votes.len(), start, start.after(ttl), ttl, Mechanisms::ALL);
        for (node, vote) in votes.iter().enumerate() {
            match vote {
                Some(vote) => extension.vote(node, *vote),
                None => extension.fail(node, Failure::Unknown),
            }
        }
        assert!(extension.decided(), "all nodes were heard");
        extension.result(start.after(Duration::from_millis(5)))
    }

    const EXTENDED: Option<ExtensionVote> = Some(ExtensionVote::Extended);
    const REPAIRED: Option<ExtensionVote> = Some(ExtensionVote::Repaired);
    const NOT_OURS: Option<ExtensionVote> = Some(ExtensionVote::NotOurs);

    #[test]
    fn a_majority_of_present_keys_confirms() {
        let until = Time::default().after(Duration::from_millis(10_000 - 100 - 2));
        assert_eq!(round(&[EXTENDED, EXTENDED, None]), Renewed::Until(until));
        assert_eq!(round(&[EXTENDED, EXTENDED, NOT_OURS]), Renewed::Until(until));
    }

    #[test]
    fn silence_is_unknown_and_never_gone() {
        assert_eq!(round(&[EXTENDED, None, None]), Renewed::Unknown);
        assert_eq!(round(&[None, None, None]), Renewed::Unknown);
        assert_eq!(round(&[EXTENDED, NOT_OURS, None]), Renewed::Unknown);
    }

    #[test]
    fn a_majority_that_had_lost_the_key_means_that_the_lock_is_gone_repaired_or_not() {
        assert_eq!(round(&[EXTENDED, REPAIRED, NOT_OURS]), Renewed::Gone);
        assert_eq!(round(&[EXTENDED, REPAIRED, REPAIRED]), Renewed::Gone);
    }
}
