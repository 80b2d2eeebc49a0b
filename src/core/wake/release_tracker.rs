//! The decision when a waiter should try again, from the nodes' messages since its last attempt.

use super::super::base::{Mechanism, Rule};
use super::super::vote::Attempt;

/// The reason to try again before the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// So many nodes have announced a release that a try may win.
    Released,
    /// Some nodes have announced a release. Others did not answer the last attempt in time, or are not listened to: if the lock is
    /// free there, a try may win, and no release is heard from them.
    PerhapsReleased,
    /// Enough nodes are listened to only now, or again, or were not asked since. Their earlier messages were not
    /// heard.
    Listening,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeNews {
    /// The subscription is confirmed.
    listening: bool,
    /// The subscription was confirmed when the last attempt began.
    confirmed: bool,
    /// The subscription was confirmed before the start of the last attempt that asked the node. So every release since was heard.
    covered: bool,
    /// The node was listened to before, and then was not.
    missed: bool,
    /// The node has announced a release since the last attempt began, or since a release was left to others.
    told: bool,
    /// The node announced the release that was left to others.
    left: bool,
    /// The node announced a release before the last attempt began, and was not asked since.
    hinted: bool,
    /// The node granted the last attempt that asked it, which has been given back since. Or the node has room for
    /// the caller in other slots of a semaphore.
    granted: bool,
    /// The last attempt that asked the node ended before the node answered.
    silent: bool,
    /// Releases in a row that a majority has announced, and this node has not.
    untold: u8,
}

impl NodeNews {
    /// Returns true if the lock may be free on the node without an announcement: the node has not answered, or is not
    /// listened to.
    fn may_be_free(&self) -> bool {
        self.silent && Mechanism::SilentNodesMayBeFree.is_on()
            || !self.listening && Mechanism::UnheardNodesMayBeFree.is_on()
    }
}

/// Number of unannounced releases in a row after which a node is not preferred: perhaps it keeps the key of a holder that the
/// others have forgotten. One message alone may be late.
const MOST_UNTOLD: u8 = 2;

/// The messages that one waiter has heard of each node.
///
/// A message is a hint and no more: it never grants anything, and if all are lost, the wait ends with
/// the poll interval.
#[derive(Debug)]
pub(crate) struct ReleaseTracker {
    nodes: Vec<NodeNews>,
    /// A subscription was lost and is confirmed again.
    resubscribed: bool,
    /// The preferred node that refused the last attempt, until the time of the next attempt is settled.
    preferred: Option<usize>,
    /// The first node has refused the last attempt. Clients may fall back to it, so while it answers, nothing is won without it.
    first_refuses: bool,
    /// The caller knows that perhaps the lock was released, and when it tries because of that.
    heeds_perhaps: bool,
}

impl ReleaseTracker {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![NodeNews::default(); nodes],
            resubscribed: false,
            preferred: None,
            first_refuses: false,
            heeds_perhaps: false,
        }
    }

    /// Notes that an attempt begins. Messages from now on may be news to the caller.
    pub(crate) fn attempt_begins(&mut self) {
        self.resubscribed = false;
        self.preferred = None;
        self.first_refuses = false;
        self.heeds_perhaps = false;
        let is_told = self.count(|node| node.told || node.left) >= self.needed();
        for node in &mut self.nodes {
            node.untold = match node.told || node.left {
                true => 0,
                false => node.untold.saturating_add(u8::from(is_told)),
            };
            node.confirmed = node.listening;
            node.hinted |= std::mem::take(&mut node.told) | std::mem::take(&mut node.left);
        }
    }

    /// Notes that the attempt was in vain, and is given back on the nodes that granted it. It may have asked one node
    /// only. `permits`: the number it wanted of a semaphore, else 0. `may_fall_back`: clients may fall back to the first node.
    pub(crate) fn attempt_ended(&mut self, attempt: &Attempt, permits: u32, may_fall_back: bool) {
        self.preferred = attempt.preferred();
        let first_decides = may_fall_back && Mechanism::FirstNodeMustTell.is_on();
        let is_refused = attempt.is_refused_by(0) && !attempt.has_room(0, permits);
        self.first_refuses = first_decides && is_refused;
        for (i, node) in self.nodes.iter_mut().enumerate() {
            if self.preferred.is_none_or(|preferred| preferred == i) {
                node.granted = attempt.is_granted_by(i) || attempt.has_room(i, permits);
                node.silent = attempt.is_silent(i);
                node.hinted = false;
                if node.granted {
                    node.untold = 0;
                }
                // The attempt has seen the effect of releases from before the subscription.
                node.covered |= node.confirmed && node.listening;
            }
        }
    }

    /// Notes that the caller, which had the lock itself, leaves it to others. It waits for a release by them, so earlier
    /// messages do not matter.
    pub(crate) fn gives_way(&mut self) {
        self.attempt_begins();
        for node in &mut self.nodes {
            (node.covered, node.granted, node.silent) = (node.listening, false, false);
        }
    }

    /// Leaves the announced release to others: the nodes must announce the next one anew. If the others do not come,
    /// and the release has not reached one node by the next attempt, the announcement still counts.
    fn lets_others(&mut self) {
        self.preferred = None;
        for node in &mut self.nodes {
            node.left = std::mem::take(&mut node.told) | std::mem::take(&mut node.hinted);
        }
    }

    /// Notes that an attempt will soon follow because of `wake_reason`, or earlier for another reason.
    pub(crate) fn waits_after(&mut self, wake_reason: WakeReason) {
        match wake_reason {
            // Others that waited for longer come first. If none of them gives the lock back until then,
            // perhaps there is none.
            WakeReason::Released => self.lets_others(),
            WakeReason::PerhapsReleased => self.heeds_perhaps = true,
            WakeReason::Listening => {}
        }
    }

    /// Notes that the subscription on `node` is confirmed.
    pub(crate) fn listening(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        self.resubscribed |= node.missed;
        node.listening = true;
        node.missed = false;
        // A waiter that does not try again misses a release from before the confirmation.
        node.covered |= false.if_off(Mechanism::TryOnceSubscribed, true);
    }

    /// Notes that the connection on which `node` was listened to is gone.
    pub(crate) fn deaf(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.missed |= node.listening;
        node.listening = false;
        (node.confirmed, node.covered) = (false, false);
    }

    /// Notes that `node` has announced a release.
    pub(crate) fn released(&mut self, node: usize) {
        self.nodes[node].told = true.if_off(Mechanism::HeedsReleases, false);
    }

    /// Returns true if any node has announced a release since the last attempt began, or since a release was left to
    /// others. Then somebody else is there.
    pub(crate) fn has_heard(&self) -> bool {
        self.nodes.iter().any(|node| node.told)
    }

    /// Returns the reason to try again now, if there is one.
    pub(crate) fn wake_reason(&self) -> Option<WakeReason> {
        let told = self.count(|node| node.told) > 0;
        let answered = self.preferred.is_some_and(|preferred| self.nodes[preferred].told);
        let needed = self.needed().if_off(Mechanism::WakeByMajority, 1);
        // A holder's releases arrive one after the other: a waiter that relies on the first one is refused
        // by the rest. `or`: other nodes that count as well.
        let is_free = |or: fn(&NodeNews) -> bool| {
            let free = self.count(|node| node.told || node.granted || or(node));
            // The others announced a release, and the attempt reached the preferred node too early.
            let hinted = self.count(|node| node.told || node.granted || node.hinted || or(node));
            // Nodes that granted the last attempt also announce the attempts of others that are given back. Each waiter's attempt
            // would wake all others.
            let is_news = |node: &NodeNews| node.told && !node.granted;
            let is_kept = self.first_refuses && !self.nodes.iter().any(is_news);
            !is_kept && (answered && hinted >= needed || told && free >= needed)
        };
        // A lock may be held on a bare majority. Then the other nodes have nothing to announce.
        let may_be_free = || is_free(NodeNews::may_be_free);
        let listening = self.count(|node| node.listening) >= self.needed();
        let resubscribed = self.resubscribed && Mechanism::TryOnceSubscribed.is_on();
        if is_free(|_| false) {
            Some(WakeReason::Released)
        } else if !self.heeds_perhaps && may_be_free() {
            Some(WakeReason::PerhapsReleased)
        } else if resubscribed || listening && !self.is_covered() {
            Some(WakeReason::Listening)
        } else {
            None
        }
    }

    /// Returns true if `node` announces releases and is heard, as a caller that prefers this node needs. The latter is not
    /// required before a majority is listened to.
    pub(crate) fn hears(&self, node: usize) -> bool {
        let tells = self.nodes[node].untold < MOST_UNTOLD;
        let tells = tells.if_off(Mechanism::SilentNodesAreNotPreferred, true);
        let is_heard =
            self.nodes[node].listening || self.count(|node| node.listening) < self.needed();
        tells && is_heard
    }

    /// Returns true if enough nodes announce releases, so that there is no need to poll often. A waiter relies on the node that
    /// alone was asked and has refused it.
    pub(crate) fn is_covered(&self) -> bool {
        self.preferred.is_none_or(|preferred| self.nodes[preferred].covered)
            && self.count(|node| node.covered) >= self.needed()
    }

    fn needed(&self) -> usize {
        super::super::base::majority(self.nodes.len())
    }

    fn count(&self, is: impl Fn(&NodeNews) -> bool) -> usize {
        self.nodes.iter().filter(|node| is(node)).count()
    }
}
