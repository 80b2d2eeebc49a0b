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
    attempt.begin_with(node);
    attempt.vote(node, Vote::Refused(None));
    attempt
}

/// A waiter that listens to all nodes, and whose attempt was granted by those.
fn watch(nodes: usize, granted_by: &[usize]) -> Watch {
    let mut watch = Watch::new(nodes);
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
        let mut watch = watch(nodes, granted_by);
        assert_eq!(woken_by(&mut watch, messages), expected, "{nodes} {granted_by:?} {messages:?}");
    }
}

/// An attempt that was granted by a majority, and too late, does not follow itself at once.
#[test]
fn without_a_message_nobody_is_woken() {
    assert_eq!(watch(3, &[0, 1, 2]).cue(), None);
}

/// The tooth: at the first message, the others still refuse.
#[test]
fn without_counting_it_takes_the_first_message() {
    let woken = || woken_by(&mut watch(3, &[]), &[0, 1]);
    assert_eq!(without(&[Mechanism::WakeByMajority], woken), Some(1));
}

#[test]
fn what_was_told_before_an_attempt_says_nothing_after_it() {
    let mut watch = watch(3, &[]);
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
    let mut watch = watch(3, &[]);
    assert_eq!(woken_by(&mut watch, &[0, 1]), Some(2));
    let alone = refused_by(2);
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

/// A waiter that joins others of its process: it listens, and node 2 has refused it, alone.
fn joined() -> Watch {
    let mut watch = Watch::new(3);
    (0..3).for_each(|node| watch.listening(node));
    watch.attempt_begins();
    watch.attempt_ended(&refused_by(2));
    watch
}

/// The others may have told before it came.
#[test]
fn the_word_of_the_node_that_refused_alone_is_enough_after_a_moment() {
    let mut watch = joined();
    assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    watch.released(0);
    assert_eq!(watch.cue(), None, "2 will tell");
    let mut watch = joined();
    watch.released(2);
    assert_eq!(watch.cue(), Some(Cue::Perhaps));
    watch.waits_after(Cue::Perhaps);
    assert_eq!(watch.cue(), None, "the moment has begun");
    watch.released(1);
    assert_eq!(watch.cue(), Some(Cue::Released), "and need not end");
    // Whoever gives way to others tries when it has done so.
    let mut watch = joined();
    watch.attempt_begins();
    watch.released(2);
    assert_eq!(watch.cue(), None);
}

/// The tooth: it sleeps through that release.
#[test]
fn without_that_word_the_wait_is_a_long_one() {
    without(&[Mechanism::HeedsWhoRefused], || {
        let mut watch = joined();
        watch.released(2);
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    });
}

/// A node that is not heard is not asked alone; one that is lost later is not waited for.
#[test]
fn nobody_relies_on_the_word_of_a_node_that_is_not_heard() {
    let mut watch = Watch::new(3);
    assert!((0..3).all(|node| watch.hears(node)), "there is nothing to rely on yet");
    watch.listening(0);
    watch.listening(1);
    assert_eq!([0, 1, 2].map(|node| watch.hears(node)), [true, true, false]);
    let mut watch = joined();
    watch.deaf(2);
    assert_eq!((watch.cue(), watch.is_covered()), (Some(Cue::Listening), false));
    // Whatever the next attempt comes to, if it does not ask that node alone.
    for last in [granted(3, &[]), granted(3, &[2]), refused_by(0)] {
        watch.attempt_begins();
        watch.attempt_ended(&last);
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    }
}

#[test]
fn what_was_left_to_others_holds_until_it_has_reached_all_nodes() {
    let mut watch = watch(3, &[]);
    assert_eq!(woken_by(&mut watch, &[0, 1]), Some(2));
    watch.waits_after(Cue::Released);
    assert_eq!(watch.cue(), None, "it is theirs");
    // Nobody has come, and 2 has not been told by the holder yet.
    let alone = refused_by(2);
    watch.attempt_begins();
    watch.attempt_ended(&alone);
    assert_eq!(watch.cue(), None);
    watch.released(2);
    assert_eq!(watch.cue(), Some(Cue::Released));
    watch.waits_after(Cue::Released);
    watch.released(2);
    assert_eq!(watch.cue(), None, "one of three, of the next one");
    watch.released(1);
    assert_eq!(watch.cue(), Some(Cue::Released));
}

#[test]
fn one_message_is_no_cue_but_shows_that_somebody_is_there() {
    let mut watch = watch(3, &[]);
    assert!(!watch.has_heard());
    watch.released(1);
    assert!(watch.has_heard() && watch.cue().is_none());
    watch.attempt_begins();
    assert!(!watch.has_heard());
}

#[test]
fn there_is_one_more_try_once_a_majority_is_listened_to() {
    let mut watch = Watch::new(3);
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
    without(&[Mechanism::TryOnceSubscribed], || {
        let mut watch = Watch::new(3);
        watch.attempt_begins();
        (0..3).for_each(|node| watch.listening(node));
        assert_eq!((watch.cue(), watch.is_covered()), (None, true));
    });
}

#[test]
fn a_subscription_that_comes_back_wakes_everybody() {
    let mut watch = watch(3, &[]);
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
