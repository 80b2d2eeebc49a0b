//! Giving a lock back, and the evidence in the nodes' answers on how it was held.

use super::super::base::{Basis, Mechanism, Time, majority};
use super::super::base::{Tally, Verdict};
use super::super::link::{Late, Via};
use super::{Ballot, Cleanup, Failure};

/// A node's answer to `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseVote {
    /// Our key was there and is deleted.
    Deleted,
    /// Our key was not there.
    NotOurs,
}

/// The result of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseResult {
    /// A majority is without our key, and nothing shows that it was without the key before.
    Released,
    /// A majority is without our key, and the key was gone from so many nodes before that another owner may
    /// have had the lock already.
    WasLost,
    /// No majority confirmed in time. The lock may live on until its TTL.
    Unconfirmed,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeRelease {
    /// The node is known to have held our key.
    granted: bool,
    /// Number of copies of the release that were written to the node, and the connection of the last copy.
    sent: u32,
    via: Option<Via>,
    /// The late requests that may run after the release.
    late: Late,
    /// The node has answered, and a late request may still run after that.
    uncertain: bool,
}

/// One release, sent to all nodes. Nodes that may hold our key must get it, and the others can confirm that
/// they hold none. So a majority can confirm even if any minority hangs, and the next caller that asks that
/// majority finds the lock free.
///
/// An answer counts only if it is certain: no request that was sent over an earlier connection can run after
/// the release and set the key again.
#[derive(Debug)]
pub(crate) struct Release {
    slots: Vec<NodeRelease>,
    /// Number of nodes, from the first one on, whose answers count.
    deciding: usize,
    needed: usize,
    /// The tally of nodes that have no key of ours.
    without_key: Tally,
    /// Number of nodes that held our key and are not known to have lost it.
    intact: usize,
}

/// Returns the nodes that need no release, out of so many `nodes`. A release that is counted asks them as
/// well, since they can confirm that they hold no key.
pub(crate) fn only_asked(nodes: usize, cleanups: &[Cleanup]) -> impl Iterator<Item = usize> + '_ {
    (0..nodes).filter(|node| cleanups.iter().all(|cleanup| cleanup.node != *node))
}

impl Release {
    /// A release after which the nodes in `cleanups` hold no key of ours; the others hold none.
    pub(crate) fn new(nodes: usize, cleanups: &[Cleanup], basis: Basis) -> Self {
        let mut slots = vec![NodeRelease::default(); nodes];
        for cleanup in cleanups {
            slots[cleanup.node].granted = cleanup.granted;
            slots[cleanup.node].late = cleanup.late;
        }
        // The nodes that decide: all nodes, or the first one.
        let (deciding, needed) = match basis {
            Basis::Majority => (nodes, majority(nodes)),
            Basis::FirstNode => (1, 1),
        };
        let intact = slots.iter().take(deciding).filter(|slot| slot.granted).count();
        let without_key = Tally::new(deciding, needed);
        Self { slots, deciding, needed, without_key, intact }
    }

    /// The nodes that have answered, and on which a late request may set the key again.
    pub(crate) fn uncertain(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|node| self.slots[*node].uncertain).collect()
    }

    pub(crate) fn result(&self) -> ReleaseResult {
        if self.without_key.verdict() != Verdict::Won {
            ReleaseResult::Unconfirmed
        } else if self.intact < self.needed {
            ReleaseResult::WasLost
        } else {
            ReleaseResult::Released
        }
    }
}

impl Ballot for Release {
    type Vote = ReleaseVote;

    fn sending(&mut self, node: usize, via: Via, _now: Time) -> bool {
        self.slots[node].sent += 1;
        self.slots[node].via = Some(via);
        true
    }

    fn unsent(&mut self, node: usize) {
        let sent = &mut self.slots[node].sent;
        *sent = sent.saturating_sub(1);
    }

    fn vote(&mut self, node: usize, vote: ReleaseVote) {
        let slot = &mut self.slots[node];
        let certain = match slot.via {
            Some(via) => slot.late.is_over(via),
            None => !slot.late.is_something(),
        };
        slot.uncertain = !certain && Mechanism::OnlyCertainReleasesCount.is_on();
        if node >= self.deciding {
            return;
        }
        if slot.uncertain {
            self.without_key.no();
        } else {
            self.without_key.yes();
        }
        let slot = self.slots[node];
        // "Not ours" in reply to a second copy says nothing: the first one, whose reply was lost, may have
        // deleted the key.
        if vote == ReleaseVote::NotOurs && slot.granted && slot.sent <= 1 {
            self.intact -= 1;
        }
    }

    fn fail(&mut self, node: usize, _failure: Failure) {
        if node < self.deciding {
            self.without_key.no();
        }
    }

    fn decided(&self) -> bool {
        self.without_key.verdict() != Verdict::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    fn cleanups(granted: &[usize], in_flight: &[usize]) -> Vec<Cleanup> {
        let cleanup = |granted| {
            move |&node: &usize| Cleanup {
                node,
                granted,
                in_flight: !granted,
                late: Late::default(),
            }
        };
        granted.iter().map(cleanup(true)).chain(in_flight.iter().map(cleanup(false))).collect()
    }

    fn release_of(granted: &[usize], in_flight: &[usize]) -> Release {
        Release::new(5, &cleanups(granted, in_flight), Basis::Majority)
    }

    fn answer(release: &mut Release, node: usize, copies: u32, vote: ReleaseVote) {
        for _ in 0..copies {
            assert!(release.sending(node, Via::unfenced(2), Time::default()));
        }
        release.vote(node, vote);
    }

    #[test]
    fn a_majority_that_deleted_its_keys_confirms() {
        let mut release = release_of(&[0, 1, 2], &[3]);
        answer(&mut release, 0, 1, ReleaseVote::Deleted);
        answer(&mut release, 1, 1, ReleaseVote::Deleted);
        assert!(!release.decided());
        answer(&mut release, 3, 1, ReleaseVote::NotOurs);
        assert!(release.decided());
        assert_eq!(release.result(), ReleaseResult::Released);
    }

    /// Nodes that never had our key confirm as well: two nodes that hang right after their grant delay
    /// nothing.
    #[test]
    fn a_hung_minority_is_not_waited_for_whoever_granted() {
        let mut release = release_of(&[0, 1, 2], &[]);
        answer(&mut release, 2, 1, ReleaseVote::Deleted);
        let others: Vec<_> = only_asked(5, &cleanups(&[0, 1, 2], &[])).collect();
        assert_eq!(others, [3, 4]);
        for node in others {
            assert!(!release.decided());
            answer(&mut release, node, 1, ReleaseVote::NotOurs);
        }
        assert!(release.decided());
        assert_eq!(release.result(), ReleaseResult::Released);
    }

    #[test]
    fn too_many_keys_gone_means_that_the_lock_was_lost() {
        let mut release = release_of(&[0, 1, 2], &[3, 4]);
        answer(&mut release, 0, 1, ReleaseVote::Deleted);
        answer(&mut release, 1, 1, ReleaseVote::NotOurs);
        answer(&mut release, 2, 1, ReleaseVote::Deleted);
        assert_eq!(release.result(), ReleaseResult::WasLost);
    }

    /// Case 9 of the known bugs in this field: the reply to the unlock is lost, and the retry says "not
    /// owner".
    #[test]
    fn not_ours_after_a_lost_reply_is_no_loss() {
        let mut release = release_of(&[0, 1, 2], &[3, 4]);
        answer(&mut release, 0, 2, ReleaseVote::NotOurs);
        answer(&mut release, 1, 1, ReleaseVote::Deleted);
        answer(&mut release, 2, 1, ReleaseVote::Deleted);
        assert_eq!(release.result(), ReleaseResult::Released);
    }

    #[test]
    fn not_ours_after_a_copy_that_did_not_run_is_a_loss() {
        let mut release = release_of(&[0, 1, 2], &[3, 4]);
        assert!(release.sending(0, Via::unfenced(2), Time::default()));
        release.unsent(0);
        answer(&mut release, 0, 1, ReleaseVote::NotOurs);
        answer(&mut release, 1, 1, ReleaseVote::Deleted);
        answer(&mut release, 2, 1, ReleaseVote::Deleted);
        assert_eq!(release.result(), ReleaseResult::WasLost);
    }

    /// Five nodes, of which three have an `acquire` out over an earlier connection.
    fn behind_late_requests(late: Late) -> Release {
        let late = |node| if node < 3 { late } else { Late::default() };
        let cleanups = [0, 1, 2, 3, 4].map(|node| Cleanup {
            node,
            granted: true,
            in_flight: node < 3,
            late: late(node),
        });
        let mut release = Release::new(5, &cleanups, Basis::Majority);
        (0..5).for_each(|node| answer(&mut release, node, 1, ReleaseVote::Deleted));
        release
    }

    #[test]
    fn what_something_may_follow_confirms_nothing() {
        let late = Late { acquires: Some(1), ..Late::default() };
        let release = behind_late_requests(late);
        assert!(release.decided());
        assert_eq!(release.result(), ReleaseResult::Unconfirmed);
        assert_eq!(release.uncertain(), [0, 1, 2]);
        let without =
            without(&[Mechanism::OnlyCertainReleasesCount], || behind_late_requests(late));
        assert_eq!((without.result(), without.uncertain()), (ReleaseResult::Released, vec![]));
        // The requests run in order on the same connection.
        let late = Late { acquires: Some(2), ..Late::default() };
        let release = behind_late_requests(late);
        assert_eq!((release.result(), release.uncertain()), (ReleaseResult::Released, vec![]));
    }

    #[test]
    fn without_a_majority_of_answers_nothing_is_confirmed() {
        let mut release = release_of(&[0, 1, 2, 3], &[]);
        (0..3).for_each(|node| release.fail(node, Failure::Unknown));
        assert!(release.decided(), "two of five are free at most");
        assert_eq!(release.result(), ReleaseResult::Unconfirmed);
    }
}
