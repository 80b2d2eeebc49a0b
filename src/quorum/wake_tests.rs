//! Who waits is woken when a try may win, and not before.

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
        assert_eq!(woken_by(&mut watch, messages), expected, "{nodes} {granted_by:?} {messages:?}");
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
    watch.attempt_ended(&granted(3, &[]));
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    watch.listening(2);
    assert_eq!(watch.cue(), None, "the third is not needed");
}

/// Two of three nodes have told of a release before this one listened, and the third, which it asks
/// alone, knows nothing of it yet.
fn told_too_early(mechanisms: Mechanisms) -> Watch {
    let mut watch = Watch::new(3, mechanisms);
    (0..3).for_each(|node| watch.listening(node));
    let mut alone = granted(3, &[]);
    alone.begin_with(2);
    alone.vote(2, Vote::Refused(None));
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    watch
}

#[test]
fn there_is_one_more_try_for_the_nodes_that_were_never_asked() {
    let mut watch = told_too_early(Mechanisms::ALL);
    assert_eq!((watch.cue(), watch.is_covered()), (Some(Cue::Listening), false));
    watch.gives_way();
    assert_eq!(watch.cue(), None, "it is theirs");
    watch.attempt_begins();
    watch.attempt_ended(&granted(3, &[]));
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    // From now on all are listened to, whomever it asks.
    let mut alone = granted(3, &[]);
    alone.begin_with(0);
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
}

/// The next one of its process knows all that it has heard.
#[test]
fn a_watch_that_is_kept_up_is_as_good_as_ones_own() {
    let mut watch = watch(3, &[0, 1, 2], Mechanisms::ALL).passed_on();
    watch.gives_way();
    let mut alone = granted(3, &[]);
    alone.begin_with(2);
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    watch.released(1);
    watch.released(2);
    assert_eq!(watch.cue(), Some(Cue::Released));
    // One who came too early to the node that is told last gives up, and so does the next one.
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    let mut watch = watch.passed_on();
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    assert_eq!(watch.cue(), None);
    watch.released(2);
    assert_eq!(watch.cue(), Some(Cue::Released));
}

/// The tooth: the one message that is still to come is not enough.
#[test]
fn without_that_try_it_sleeps_through_what_came_before_it_listened() {
    let mechanisms = Mechanisms { covers_who_was_asked: false, ..Mechanisms::ALL };
    let mut watch = told_too_early(mechanisms);
    watch.released(2);
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
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
