//! When a waiter should try again: what the nodes have told since its last attempt.

use super::super::base::{Mechanism, Rule};
use super::super::vote::Attempt;

/// Why to try again before the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// So many nodes say that the lock was given back that a try may win.
    Released,
    /// Some nodes say so. Others did not answer the last attempt in time. If the lock is free there, a try may win, and they
    /// tell of no release.
    PerhapsReleased,
    /// Enough nodes are listened to only now, or again, or were not asked since. What they said before that was not
    /// heard.
    Listening,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeNews {
    /// The subscription is confirmed.
    listening: bool,
    /// It was confirmed when the last attempt began.
    confirmed: bool,
    /// It was confirmed before the last attempt began that has asked the node, so that every release since was heard.
    covered: bool,
    /// The node was listened to before, and then was not.
    missed: bool,
    /// It has told of a release since the last attempt began, or since one was left to others.
    told: bool,
    /// It told of the release that was left to others.
    left: bool,
    /// It has told of a release before the last attempt began, and was not asked since.
    hinted: bool,
    /// It granted the last attempt that has asked it, which has been given back since. Or, of a semaphore, it has room for
    /// the caller in other slots.
    granted: bool,
    /// The last attempt that has asked it ended before it had answered.
    silent: bool,
    /// Releases in a row of which most nodes have told, and this one has not.
    untold: u8,
}

impl NodeNews {
    /// Returns true if the lock may be free on the node, and nothing would be told of it: the node has not answered, or is not
    /// listened to.
    fn may_be_free(&self) -> bool {
        self.silent && Mechanism::SilentNodesMayBeFree.is_on()
            || !self.listening && Mechanism::UnheardNodesMayBeFree.is_on()
    }
}

/// A node that has not told of so many releases in a row is not preferred: perhaps it keeps the key of a holder that the
/// others have forgotten. One message alone may be late.
const MOST_UNTOLD: u8 = 2;

/// What one waiter has heard of each node.
///
/// A message is a hint and no more: it never grants anything, and if all are lost, the wait ends with
/// the poll interval.
#[derive(Debug)]
pub(crate) struct ReleaseTracker {
    nodes: Vec<NodeNews>,
    /// A subscription was lost and is there again.
    resubscribed: bool,
    /// The preferred node that refused the last attempt, until it is settled when to make the next one.
    preferred: Option<usize>,
    /// The first node has refused the last attempt. Clients may fall back to it, so nothing is won without it while it answers.
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

    /// An attempt is about to be made. What is told from now on may be news to it.
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

    /// It was in vain, and is given back on those nodes that had granted it. It may have asked one node
    /// only. `permits`: how many of a semaphore it wanted, else 0. `may_fall_back`: clients may fall back to the first node.
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
                // What it told before it was listened to, the attempt has seen.
                node.covered |= node.confirmed && node.listening;
            }
        }
    }

    /// The caller had the lock itself, and leaves it to others. It waits for a release by them, so nothing that was told
    /// before matters.
    pub(crate) fn gives_way(&mut self) {
        self.attempt_begins();
        for node in &mut self.nodes {
            (node.covered, node.granted, node.silent) = (node.listening, false, false);
        }
    }

    /// The release that was told is left to others: the next one is to be told anew. If they do not come,
    /// and the next attempt finds that it has not reached one node yet, it still holds.
    fn lets_others(&mut self) {
        self.preferred = None;
        for node in &mut self.nodes {
            node.left = std::mem::take(&mut node.told) | std::mem::take(&mut node.hinted);
        }
    }

    /// There will soon be an attempt because of `wake_reason`, or earlier for another reason.
    pub(crate) fn waits_after(&mut self, wake_reason: WakeReason) {
        match wake_reason {
            // It is the turn of others that waited for longer. If none of them gives it back until then,
            // perhaps there is none.
            WakeReason::Released => self.lets_others(),
            WakeReason::PerhapsReleased => self.heeds_perhaps = true,
            WakeReason::Listening => {}
        }
    }

    /// The subscription on `node` is confirmed.
    pub(crate) fn listening(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        self.resubscribed |= node.missed;
        node.listening = true;
        node.missed = false;
        // A waiter that does not try again misses a release that came before this.
        node.covered |= false.if_off(Mechanism::TryOnceSubscribed, true);
    }

    /// The connection on which `node` was listened to is gone.
    pub(crate) fn deaf(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.missed |= node.listening;
        node.listening = false;
        (node.confirmed, node.covered) = (false, false);
    }

    /// `node` tells that it was given the lock back.
    pub(crate) fn released(&mut self, node: usize) {
        self.nodes[node].told = true.if_off(Mechanism::HeedsReleases, false);
    }

    /// Whether any node has told of a release since the last attempt began, or since one was left to others:
    /// somebody is there.
    pub(crate) fn has_heard(&self) -> bool {
        self.nodes.iter().any(|node| node.told)
    }

    /// Whether to try again now.
    pub(crate) fn wake_reason(&self) -> Option<WakeReason> {
        let told = self.count(|node| node.told) > 0;
        let answered = self.preferred.is_some_and(|preferred| self.nodes[preferred].told);
        let needed = self.needed().if_off(Mechanism::WakeByMajority, 1);
        // A holder's releases arrive one after the other: a waiter that goes by the first one is refused
        // by the rest. `or`: other nodes that count as well.
        let is_free = |or: fn(&NodeNews) -> bool| {
            let free = self.count(|node| node.told || node.granted || or(node));
            // The others announced a release, and the attempt came too early to the preferred node.
            let hinted = self.count(|node| node.told || node.granted || node.hinted || or(node));
            // Nodes that have granted the last attempt tell of attempts of others that are given back: each waiter's would wake
            // all others.
            let is_news = |node: &NodeNews| node.told && !node.granted;
            let is_kept = self.first_refuses && !self.nodes.iter().any(is_news);
            !is_kept && (answered && hinted >= needed || told && free >= needed)
        };
        // A lock may be held on a bare majority. Then the other nodes have nothing to tell.
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

    /// Returns true if `node` tells of releases, and is heard, as a caller needs that prefers this node. Before a majority is
    /// listened to, no node is relied on.
    pub(crate) fn hears(&self, node: usize) -> bool {
        let tells = self.nodes[node].untold < MOST_UNTOLD;
        let tells = tells.if_off(Mechanism::SilentNodesAreNotPreferred, true);
        let is_heard =
            self.nodes[node].listening || self.count(|node| node.listening) < self.needed();
        tells && is_heard
    }

    /// Returns true if enough nodes tell of a release, so that there is no need to poll often. A waiter relies on the node that
    /// alone was asked, and has refused it.
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
