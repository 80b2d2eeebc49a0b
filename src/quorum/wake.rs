//! When somebody who waits for a lock should try again: what the nodes have told since the last try.

use super::{Attempt, Mechanisms};

/// Why to try again before the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// So many nodes say that the lock was given back that a try may win.
    Released,
    /// Only now, or once more, enough nodes are listened to: what they said before that went unheard.
    Listening,
}

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// The subscription is confirmed.
    listening: bool,
    /// It was confirmed before the last attempt began, so that no release since has gone unheard.
    covered: bool,
    /// The node was listened to before, and then was not.
    missed: bool,
    /// It has told of a release since the last attempt began, or since one was left to others.
    told: bool,
    /// It told of the release that was left to others.
    left: bool,
    /// It told so before that attempt, which did not ask it.
    hinted: bool,
    /// It granted the last attempt, which has been given back since.
    granted: bool,
}

/// What one waiter has heard of each node.
///
/// A message is a hint and no more: it never grants anything, and if all are lost, the wait ends with
/// the poll interval.
#[derive(Debug)]
pub(crate) struct Watch {
    nodes: Vec<Heard>,
    mechanisms: Mechanisms,
    /// A subscription was lost and is there again.
    resubscribed: bool,
    /// The last attempt asked that node alone.
    alone: Option<usize>,
}

impl Watch {
    pub(crate) fn new(nodes: usize, mechanisms: Mechanisms) -> Self {
        Self { nodes: vec![Heard::default(); nodes], mechanisms, resubscribed: false, alone: None }
    }

    /// An attempt is about to be made. What is told from now on may be news to it.
    pub(crate) fn attempt_begins(&mut self) {
        self.resubscribed = false;
        for node in &mut self.nodes {
            node.covered = node.listening;
            node.hinted = std::mem::take(&mut node.told) | std::mem::take(&mut node.left);
            node.granted = false;
        }
    }

    /// It was in vain, and is given back on those nodes that had granted it. It may have asked one node
    /// only.
    pub(crate) fn attempt_ended(&mut self, attempt: &Attempt) {
        self.alone = attempt.alone();
        for (i, node) in self.nodes.iter_mut().enumerate() {
            node.granted = attempt.is_granted_by(i);
            node.hinted &= self.alone.is_some_and(|alone| alone != i);
        }
    }

    /// The release that was told is left to others: the next one is to be told anew. If they do not come,
    /// and the next attempt finds that it has not reached one node yet, it still holds.
    pub(crate) fn lets_others(&mut self) {
        for node in &mut self.nodes {
            node.left = std::mem::take(&mut node.told) | std::mem::take(&mut node.hinted);
        }
    }

    /// The subscription on `node` is confirmed.
    pub(crate) fn listening(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        self.resubscribed |= node.missed;
        node.listening = true;
        node.missed = false;
        // Who does not try again sleeps through a release that came before this.
        node.covered |= !self.mechanisms.try_once_subscribed;
    }

    /// The connection on which `node` was listened to is gone.
    pub(crate) fn deaf(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.missed |= node.listening;
        node.listening = false;
        node.covered = false;
    }

    /// `node` tells that it was given the lock back.
    pub(crate) fn released(&mut self, node: usize) {
        self.nodes[node].told = true;
    }

    /// Whether any node has told of a release since the last attempt began, or since one was left to others:
    /// somebody is there.
    pub(crate) fn has_heard(&self) -> bool {
        self.nodes.iter().any(|node| node.told)
    }

    /// Whether to try again now.
    pub(crate) fn cue(&self) -> Option<Cue> {
        let told = self.count(|node| node.told);
        // A holder's releases arrive one after the other: who goes by the first one is refused by the
        // rest.
        let free = self.count(|node| node.told || node.granted);
        let needed = if self.mechanisms.wake_by_majority { self.needed() } else { 1 };
        // Who was told by the others, and came too early to the node that is asked first.
        let hinted = self.count(|node| node.told || node.hinted);
        let late = self.alone.is_some_and(|alone| self.nodes[alone].told) && hinted >= needed;
        let listening = self.count(|node| node.listening) >= self.needed();
        let resubscribed = self.resubscribed && self.mechanisms.try_once_subscribed;
        if late || told > 0 && free >= needed {
            Some(Cue::Released)
        } else if resubscribed || listening && !self.is_covered() {
            Some(Cue::Listening)
        } else {
            None
        }
    }

    /// Whether a release that lets somebody in is told by enough nodes, so that there is no need to look
    /// often.
    pub(crate) fn is_covered(&self) -> bool {
        self.count(|node| node.covered) >= self.needed()
    }

    fn needed(&self) -> usize {
        super::majority(self.nodes.len())
    }

    fn count(&self, is: impl Fn(&Heard) -> bool) -> usize {
        self.nodes.iter().filter(|node| is(node)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Ballot, Time, Vote};
    use super::*;

    /// An attempt that those nodes have granted, and the others not.
    fn granted(nodes: usize, by: &[usize]) -> Attempt {
        let (until, ttl) = (Time::default(), Duration::from_secs(1));
        let mut attempt = Attempt::new(nodes, until, until, ttl, Mechanisms::ALL);
        by.iter().for_each(|node| attempt.vote(*node, Vote::Granted(0)));
        attempt
    }

    /// A waiter that listens to all nodes, and whose attempt was granted by those.
    fn watch(nodes: usize, granted_by: &[usize], mechanisms: Mechanisms) -> Watch {
        let mut watch = Watch::new(nodes, mechanisms);
        (0..nodes).for_each(|node| watch.listening(node));
        watch.attempt_begins();
        watch.attempt_ended(&granted(nodes, granted_by));
        watch
    }

    /// How many of five messages, from nodes in that order, it takes.
    fn woken_by(watch: &mut Watch, messages: &[usize]) -> Option<usize> {
        messages.iter().enumerate().find_map(|(i, node)| {
            watch.released(*node);
            watch.cue().map(|_| i + 1)
        })
    }

    #[test]
    fn it_takes_releases_from_a_majority_of_different_nodes() {
        for (nodes, granted_by, messages, expected) in [
            (3, &[][..], &[0, 1, 2][..], Some(2)),
            (3, &[], &[1, 1, 1, 1], None),
            (5, &[], &[4, 4, 3, 3, 0], Some(5)),
            // Those that granted are free already.
            (3, &[2], &[0], Some(1)),
            (5, &[0, 1], &[1, 0, 4], Some(3)),
            (1, &[], &[0], Some(1)),
            (2, &[], &[0, 1], Some(2)),
        ] {
            let mut watch = watch(nodes, granted_by, Mechanisms::ALL);
            assert_eq!(
                woken_by(&mut watch, messages),
                expected,
                "{nodes} {granted_by:?} {messages:?}"
            );
        }
    }

    /// An attempt that was granted by a majority, and too late, does not follow itself at once.
    #[test]
    fn without_a_message_nobody_is_woken() {
        assert_eq!(watch(3, &[0, 1, 2], Mechanisms::ALL).cue(), None);
    }

    /// The tooth: at the first message, the others still refuse.
    #[test]
    fn without_counting_it_takes_the_first_message() {
        let mechanisms = Mechanisms { wake_by_majority: false, ..Mechanisms::ALL };
        assert_eq!(woken_by(&mut watch(3, &[], mechanisms), &[0, 1]), Some(1));
    }

    #[test]
    fn what_was_told_before_an_attempt_says_nothing_after_it() {
        let mut watch = watch(3, &[], Mechanisms::ALL);
        watch.released(0);
        watch.attempt_begins();
        // During it is after its beginning: nobody knows which of the two came first.
        watch.released(1);
        watch.attempt_ended(&granted(3, &[]));
        assert_eq!(watch.cue(), None);
        watch.released(2);
        assert_eq!(watch.cue(), Some(Cue::Released));
    }

    /// A release reaches the node that is asked first when the others have told of it already, and the
    /// waiter has come too early.
    #[test]
    fn what_nodes_told_that_were_not_asked_still_holds() {
        let mut watch = watch(3, &[], Mechanisms::ALL);
        assert_eq!(woken_by(&mut watch, &[0, 1]), Some(2));
        let mut alone = granted(3, &[]);
        alone.begin_with(2);
        alone.vote(2, Vote::Refused(None));
        watch.attempt_begins();
        watch.attempt_ended(&alone);
        assert_eq!(watch.cue(), None, "it refused");
        watch.released(2);
        assert_eq!(watch.cue(), Some(Cue::Released));
        // Somebody else was quicker once more. Its release counts from anew, and whichever comes first.
        watch.attempt_begins();
        watch.attempt_ended(&alone);
        watch.released(0);
        assert_eq!(watch.cue(), None, "one of three, again");
        watch.released(1);
        assert_eq!(watch.cue(), Some(Cue::Released), "the first one may hang");
        watch.attempt_begins();
        watch.attempt_ended(&granted(3, &[]));
        watch.released(2);
        assert_eq!(watch.cue(), None, "all were asked");
    }

    #[test]
    fn what_was_left_to_others_holds_until_it_has_reached_all_nodes() {
        let mut watch = watch(3, &[], Mechanisms::ALL);
        assert_eq!(woken_by(&mut watch, &[0, 1]), Some(2));
        watch.lets_others();
        assert_eq!(watch.cue(), None, "it is theirs");
        // Nobody has come, and 2 has not been told by the holder yet.
        let mut alone = granted(3, &[]);
        alone.begin_with(2);
        alone.vote(2, Vote::Refused(None));
        watch.attempt_begins();
        watch.attempt_ended(&alone);
        assert_eq!(watch.cue(), None);
        watch.released(2);
        assert_eq!(watch.cue(), Some(Cue::Released));
        watch.lets_others();
        watch.released(2);
        assert_eq!(watch.cue(), None, "one of three, of the next one");
        watch.released(1);
        assert_eq!(watch.cue(), Some(Cue::Released));
    }

    #[test]
    fn one_message_is_no_cue_but_shows_that_somebody_is_there() {
        let mut watch = watch(3, &[], Mechanisms::ALL);
        assert!(!watch.has_heard());
        watch.released(1);
        assert!(watch.has_heard() && watch.cue().is_none());
        watch.attempt_begins();
        assert!(!watch.has_heard());
    }

    #[test]
    fn there_is_one_more_try_once_a_majority_is_listened_to() {
        let mut watch = Watch::new(3, Mechanisms::ALL);
        watch.attempt_begins();
        watch.listening(0);
        assert_eq!((watch.cue(), watch.is_covered()), (None, false));
        watch.listening(1);
        assert_eq!((watch.cue(), watch.is_covered()), (Some(Cue::Listening), false));
        watch.attempt_begins();
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
        watch.listening(2);
        assert_eq!(watch.cue(), None, "the third is not needed");
    }

    /// The tooth: the release between the last try and the confirmation is slept through.
    #[test]
    fn without_that_try_the_first_sleep_is_a_long_one() {
        let mechanisms = Mechanisms { try_once_subscribed: false, ..Mechanisms::ALL };
        let mut watch = Watch::new(3, mechanisms);
        watch.attempt_begins();
        (0..3).for_each(|node| watch.listening(node));
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    }

    #[test]
    fn a_subscription_that_comes_back_wakes_everybody() {
        let mut watch = watch(3, &[], Mechanisms::ALL);
        watch.deaf(2);
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
        watch.listening(2);
        assert_eq!(watch.cue(), Some(Cue::Listening));
        watch.attempt_begins();
        assert_eq!(watch.cue(), None);
        watch.deaf(0);
        watch.deaf(1);
        assert!(!watch.is_covered(), "now it is polled again");
    }
}
