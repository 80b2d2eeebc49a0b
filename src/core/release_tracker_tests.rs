use std::time::Duration;

use super::super::{Allowance, Ballot, Time, Vote, without};
use super::*;

/// An attempt that those nodes have granted, and the others not.
fn granted(nodes: usize, by: &[usize]) -> Attempt {
    let (until, ttl) = (Time::default(), Duration::from_secs(1));
    let mut attempt = Attempt::new(nodes, until, until, ttl, Allowance::FOR_DRIFT);
    by.iter().for_each(|node| attempt.vote(*node, Vote::Granted(0)));
    attempt
}

/// An attempt that `node` has refused alone.
fn refused_by(node: usize) -> Attempt {
    let mut attempt = granted(3, &[]);
    attempt.prefer(node);
    attempt.vote(node, Vote::Refused(None));
    attempt
}

/// A waiter that listens to all nodes, and whose attempt was granted by those.
fn tracker(nodes: usize, granted_by: &[usize]) -> ReleaseTracker {
    let mut tracker = ReleaseTracker::new(nodes);
    (0..nodes).for_each(|node| tracker.listening(node));
    tracker.attempt_begins();
    tracker.attempt_ended(&granted(nodes, granted_by));
    tracker
}

/// How many of five messages, from nodes in that order, it takes.
fn woken_by(tracker: &mut ReleaseTracker, messages: &[usize]) -> Option<usize> {
    messages.iter().enumerate().find_map(|(i, node)| {
        tracker.released(*node);
        tracker.wake_reason().map(|_| i + 1)
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
        let mut tracker = tracker(nodes, granted_by);
        assert_eq!(
            woken_by(&mut tracker, messages),
            expected,
            "{nodes} {granted_by:?} {messages:?}"
        );
    }
}

/// An attempt that was granted by a majority, and too late, does not follow itself at once.
#[test]
fn without_a_message_nobody_is_woken() {
    assert_eq!(tracker(3, &[0, 1, 2]).wake_reason(), None);
}

/// The tooth: at the first message, the others still refuse.
#[test]
fn without_counting_it_takes_the_first_message() {
    let woken = || woken_by(&mut tracker(3, &[]), &[0, 1]);
    assert_eq!(without(&[Mechanism::WakeByMajority], woken), Some(1));
}

#[test]
fn what_was_told_before_an_attempt_says_nothing_after_it() {
    let mut tracker = tracker(3, &[]);
    tracker.released(0);
    tracker.attempt_begins();
    // During it is after its beginning: nobody knows which of the two came first.
    tracker.released(1);
    tracker.attempt_ended(&granted(3, &[]));
    assert_eq!(tracker.wake_reason(), None);
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released));
}

/// A release reaches the node that is asked first when the others have told of it already, and the
/// waiter has come too early.
#[test]
fn what_nodes_told_that_were_not_asked_still_holds() {
    let mut tracker = tracker(3, &[]);
    assert_eq!(woken_by(&mut tracker, &[0, 1]), Some(2));
    let one = refused_by(2);
    tracker.attempt_begins();
    tracker.attempt_ended(&one);
    assert_eq!(tracker.wake_reason(), None, "it refused");
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released));
    // Somebody else was quicker once more. Its release counts from anew, and whichever comes first.
    tracker.attempt_begins();
    tracker.attempt_ended(&one);
    tracker.released(0);
    assert_eq!(tracker.wake_reason(), None, "one of three, again");
    tracker.released(1);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released), "the first one may hang");
    tracker.attempt_begins();
    tracker.attempt_ended(&granted(3, &[]));
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), None, "all were asked");
}

/// A waiter that joins others of its process: it listens, and node 2 has refused it, alone.
fn joined() -> ReleaseTracker {
    let mut tracker = ReleaseTracker::new(3);
    (0..3).for_each(|node| tracker.listening(node));
    tracker.attempt_begins();
    tracker.attempt_ended(&refused_by(2));
    tracker
}

/// The others may have told before it came.
#[test]
fn the_word_of_the_node_that_refused_alone_is_enough_after_a_moment() {
    let mut tracker = joined();
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    tracker.released(0);
    assert_eq!(tracker.wake_reason(), None, "2 will tell");
    let mut tracker = joined();
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Perhaps));
    tracker.waits_after(WakeReason::Perhaps);
    assert_eq!(tracker.wake_reason(), None, "the moment has begun");
    tracker.released(1);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released), "and need not end");
    // A caller that gives way to others tries when it has done so.
    let mut tracker = joined();
    tracker.attempt_begins();
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), None);
}

/// The tooth: it sleeps through that release.
#[test]
fn without_that_word_the_wait_is_a_long_one() {
    without(&[Mechanism::HeedsPreferredNode], || {
        let mut tracker = joined();
        tracker.released(2);
        assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    });
}

/// A node that is not heard is not asked alone; one that is lost later is not waited for.
#[test]
fn nobody_relies_on_the_word_of_a_node_that_is_not_heard() {
    let mut tracker = ReleaseTracker::new(3);
    assert!((0..3).all(|node| tracker.hears(node)), "there is nothing to rely on yet");
    tracker.listening(0);
    tracker.listening(1);
    assert_eq!([0, 1, 2].map(|node| tracker.hears(node)), [true, true, false]);
    let mut tracker = joined();
    tracker.deaf(2);
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (Some(WakeReason::Listening), false));
    // Whatever the next attempt comes to, if it does not ask that node alone.
    for last in [granted(3, &[]), granted(3, &[2]), refused_by(0)] {
        tracker.attempt_begins();
        tracker.attempt_ended(&last);
        assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    }
}

#[test]
fn what_was_left_to_others_holds_until_it_has_reached_all_nodes() {
    let mut tracker = tracker(3, &[]);
    assert_eq!(woken_by(&mut tracker, &[0, 1]), Some(2));
    tracker.waits_after(WakeReason::Released);
    assert_eq!(tracker.wake_reason(), None, "it is theirs");
    // Nobody has come, and 2 has not been told by the holder yet.
    let one = refused_by(2);
    tracker.attempt_begins();
    tracker.attempt_ended(&one);
    assert_eq!(tracker.wake_reason(), None);
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released));
    tracker.waits_after(WakeReason::Released);
    tracker.released(2);
    assert_eq!(tracker.wake_reason(), None, "one of three, of the next one");
    tracker.released(1);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Released));
}

#[test]
fn one_message_wakes_nobody_but_shows_that_somebody_is_there() {
    let mut tracker = tracker(3, &[]);
    assert!(!tracker.has_heard());
    tracker.released(1);
    assert!(tracker.has_heard() && tracker.wake_reason().is_none());
    tracker.attempt_begins();
    assert!(!tracker.has_heard());
}

#[test]
fn there_is_one_more_try_once_a_majority_is_listened_to() {
    let mut tracker = ReleaseTracker::new(3);
    tracker.attempt_begins();
    tracker.listening(0);
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, false));
    tracker.listening(1);
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (Some(WakeReason::Listening), false));
    tracker.attempt_begins();
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    tracker.listening(2);
    assert_eq!(tracker.wake_reason(), None, "the third is not needed");
}

/// The tooth: the release between the last try and the confirmation is slept through.
#[test]
fn without_that_try_the_first_sleep_is_a_long_one() {
    without(&[Mechanism::TryOnceSubscribed], || {
        let mut tracker = ReleaseTracker::new(3);
        tracker.attempt_begins();
        (0..3).for_each(|node| tracker.listening(node));
        assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    });
}

#[test]
fn a_subscription_that_comes_back_wakes_everybody() {
    let mut tracker = tracker(3, &[]);
    tracker.deaf(2);
    assert_eq!((tracker.wake_reason(), tracker.is_covered()), (None, true));
    tracker.listening(2);
    assert_eq!(tracker.wake_reason(), Some(WakeReason::Listening));
    tracker.attempt_begins();
    assert_eq!(tracker.wake_reason(), None);
    tracker.deaf(0);
    tracker.deaf(1);
    assert!(!tracker.is_covered(), "now it is polled again");
}
