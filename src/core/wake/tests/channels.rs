use super::super::super::base::{Allowance, without};
use super::super::super::vote::{Attempt, Ballot, Vote};
use super::*;

const NODES: usize = 3;
const ONE: &[u8] = b"one";
const OTHER: &[u8] = b"other";

fn at(ms: u64) -> Time {
    Time::from_start(Duration::from_millis(ms))
}

fn subscribe(channels: &[&[u8]]) -> Option<Changes> {
    let subscribe = channels.iter().map(|channel| channel.to_vec()).collect();
    Some(Changes { subscribe, unsubscribe: Vec::new() })
}

fn unsubscribe(channels: &[&[u8]]) -> Option<Changes> {
    let unsubscribe = channels.iter().map(|channel| channel.to_vec()).collect();
    Some(Changes { subscribe: Vec::new(), unsubscribe })
}

/// Waiter 1 waits on channel `ONE`, and its attempt began after all nodes had confirmed that.
fn listening() -> (Channels<u32>, WaiterId) {
    let mut channels = Channels::new(NODES);
    let Joined { id, .. } = channels.join(vec![ONE.to_vec()], None, 1);
    for node in 0..NODES {
        assert_eq!(channels.changes(node, true, at(0)), subscribe(&[ONE]));
        let _ = channels.listening(node, &[ONE.to_vec()]);
    }
    tries(heard(&mut channels, id));
    (channels, id)
}

fn heard(channels: &mut Channels<u32>, id: WaiterId) -> &mut ReleaseTracker {
    channels.tracker(id).expect("it waits")
}

/// An attempt that asks all nodes, in vain.
fn tries(tracker: &mut ReleaseTracker) {
    tracker.attempt_begins();
    let (start, ttl) = (Time::default(), Duration::from_secs(1));
    let mut attempt = Attempt::new(NODES, start, start, ttl, Allowance::FOR_DRIFT);
    (0..NODES).for_each(|node| attempt.vote(node, Vote::Refused(None)));
    tracker.attempt_ended(&attempt, 0, false);
}

#[test]
fn the_first_channel_starts_the_subscribers_and_a_further_one_wakes_them() {
    let mut channels = Channels::new(NODES);
    let joined = channels.join(vec![ONE.to_vec()], None, 1);
    assert_eq!((joined.start, joined.wake), (vec![0, 1, 2], vec![]));
    let joined = channels.join(vec![ONE.to_vec()], None, 2);
    assert_eq!((joined.start, joined.wake), (vec![], vec![]), "the channel is known");
    let joined = channels.join(vec![OTHER.to_vec()], None, 3);
    assert_eq!((joined.start, joined.wake), (vec![], vec![0, 1, 2]));
}

#[test]
fn a_subscriber_that_could_not_be_started_is_started_for_the_next_channel() {
    let mut channels = Channels::new(NODES);
    channels.join(vec![ONE.to_vec()], None, 1);
    channels.not_started(1);
    let joined = channels.join(vec![OTHER.to_vec()], None, 2);
    assert_eq!((joined.start, joined.wake), (vec![1], vec![0, 2]));
    assert_eq!(channels.changes(1, true, at(0)), subscribe(&[ONE, OTHER]));
}

#[test]
fn listeners_are_bounded_and_make_room_when_they_leave() {
    let mut channels = Channels::new(NODES);
    let one = [ONE.to_vec()];
    let first = channels.listen(&one, &0).expect("it is the first");
    assert!((1..MOST_LISTENERS).all(|_| channels.listen(&one, &1).is_some()));
    assert!(channels.listen(&one, &1).is_none());
    channels.listen_no_more(first.id, &one, at(0));
    assert!(channels.listen(&one, &1).is_some());
}

/// A holder listens to requests of other callers.
#[test]
fn listeners_hear_of_every_message_and_of_each_node_that_begins_to_tell_until_they_leave() {
    let mut channels = Channels::new(NODES);
    let both = [ONE.to_vec(), OTHER.to_vec()];
    let mut listens = |to: &[Vec<u8>], wake| channels.listen(to, &wake).expect("there are few");
    let first = listens(&both[..1], 1);
    assert_eq!((first.start, first.wake), (vec![0, 1, 2], vec![]));
    let second = listens(&both, 2);
    assert_eq!((second.start, second.wake), (vec![], vec![0, 1, 2]), "for the other channel");
    assert_eq!(channels.changes(0, true, at(0)), subscribe(&[ONE, OTHER]));
    assert_eq!(channels.listening(0, &both[..1]), [1, 2], "messages of before were not heard");
    assert_eq!(channels.listening(0, &both), [1, 2], "once each");
    assert_eq!(channels.released(0, ONE, b"1"), [1, 2]);
    assert_eq!(channels.released(0, OTHER, b"1"), [2]);
    channels.listen_no_more(first.id, &both[..1], at(1));
    assert_eq!(channels.released(0, ONE, b"1"), [2]);
    channels.listen_no_more(second.id, &both, at(1));
    assert_eq!(channels.released(0, ONE, b"1"), [0; 0]);
    assert_eq!(channels.changes(0, false, at(200)), subscribe(&[]), "for a moment");
    assert_eq!(channels.changes(0, false, at(201)), unsubscribe(&[ONE, OTHER]));
}

/// Readers that come and go want to hear of writers, and nobody waits for a release.
#[test]
fn a_channel_is_watched_for_a_while_from_the_last_time_on_that_somebody_wanted_it() {
    let mut channels = Channels::new(NODES);
    let all = vec![0, 1, 2];
    let sought = channels.watch(ONE.to_vec(), 1, at(0));
    assert_eq!(sought, Sought { start: all.clone(), wake: vec![] });
    assert_eq!(channels.changes(0, true, at(0)), subscribe(&[ONE]));
    assert_eq!(channels.watch(ONE.to_vec(), 2, at(1_000)), Sought::default(), "it is known");
    assert_eq!(channels.changes(0, false, at(2_999)), subscribe(&[]));
    assert_eq!(channels.released(0, ONE, b"writer:1:write"), [2]);
    assert_eq!(channels.released(0, OTHER, b"writer:1:write"), [0; 0]);
    assert!(channels.tidy(at(2_999)) && !channels.tidy(at(3_000)));
    assert_eq!(channels.changes(0, false, at(3_000)), unsubscribe(&[ONE]));
    assert_eq!(channels.released(0, ONE, b"writer:1:write"), [0; 0]);
    assert_eq!(channels.watch(ONE.to_vec(), 3, at(3_001)), Sought { start: vec![], wake: all });
}

/// Two messages announce a release of ours. A message on a watched channel is neither of them.
#[test]
fn what_is_told_to_a_watcher_is_no_release() {
    let (mut channels, id) = listening();
    let _ = channels.watch(OTHER.to_vec(), 2, at(0));
    assert_eq!(channels.released(0, OTHER, b"writer:1:write"), [2]);
    assert!(!heard(&mut channels, id).has_heard());
    channels.leave(id, at(0));
    assert_eq!(
        channels.changes(0, false, at(300)),
        Some(Changes { subscribe: vec![OTHER.to_vec()], unsubscribe: vec![ONE.to_vec()] })
    );
}

#[test]
fn each_subscriber_is_told_each_change_once_and_everything_on_a_new_connection() {
    let (mut channels, _) = listening();
    assert_eq!(channels.changes(0, false, at(0)), subscribe(&[]), "it has them all");
    channels.join(vec![OTHER.to_vec()], None, 2);
    for node in [0, 1] {
        assert_eq!(channels.changes(node, false, at(0)), subscribe(&[OTHER]));
        assert_eq!(channels.changes(node, false, at(0)), subscribe(&[]));
    }
    assert_eq!(channels.changes(2, true, at(0)), subscribe(&[ONE, OTHER]));
    assert_eq!(channels.changes(2, false, at(0)), subscribe(&[]));
}

#[test]
fn a_channel_stays_for_a_moment_after_its_last_waiter() {
    let (mut channels, id) = listening();
    let other = channels.join(vec![ONE.to_vec()], None, 2).id;
    channels.leave(id, at(0));
    assert_eq!(channels.changes(0, false, at(1_000)), subscribe(&[]), "one still waits");
    channels.leave(other, at(1_000));
    assert_eq!(channels.changes(0, false, at(1_199)), subscribe(&[]));
    assert!(channels.knows(ONE));
    assert_eq!(channels.changes(0, false, at(1_200)), unsubscribe(&[ONE]));
    assert_eq!(channels.changes(1, false, at(1_200)), unsubscribe(&[ONE]));
    assert!(!channels.knows(ONE) && channels.is_empty());
    assert_eq!(channels.listened_to(0), 0);
}

#[test]
fn a_waiter_that_comes_while_its_channel_stays_hears_at_once() {
    let (mut channels, id) = listening();
    channels.leave(id, at(0));
    let Joined { id, start, wake } = channels.join(vec![ONE.to_vec()], None, 2);
    assert_eq!((start, wake), (vec![], vec![]));
    let tracker = heard(&mut channels, id);
    tries(tracker);
    assert!(tracker.is_covered());
    assert_eq!(channels.changes(0, false, at(1_000)), subscribe(&[]), "the channel is in use");
}

/// A client that has had the lock would hear of each release by the many that wait for it.
#[test]
fn a_channel_is_forgotten_early_if_messages_for_nobody_go_on_coming() {
    let (mut channels, id) = listening();
    let mut told = 0;
    let mut tell = |channels: &mut Channels<u32>, times| {
        for _ in 0..times {
            told += 1;
            let _ = channels.released(told % NODES, ONE, b"other");
        }
        channels.is_heard_in_vain(ONE)
    };
    assert!(!tell(&mut channels, 100), "somebody waits");
    channels.leave(id, at(0));
    assert!(!tell(&mut channels, 3 * NODES - 1));
    let id = channels.join(vec![ONE.to_vec()], None, 2).id;
    channels.leave(id, at(0));
    assert!(!tell(&mut channels, 3 * NODES - 1), "a waiter came in between");
    assert_eq!(channels.changes(0, false, at(1)), subscribe(&[]));
    assert!(tell(&mut channels, 1));
    assert_eq!(channels.changes(0, false, at(1)), unsubscribe(&[ONE]));
    assert!(channels.is_heard_in_vain(ONE), "the other nodes' subscribers are to look as well");
    assert_eq!(channels.changes(1, false, at(1)), unsubscribe(&[ONE]));
}

#[test]
fn a_channel_with_a_watcher_or_a_listener_is_not_heard_in_vain() {
    let mut channels = Channels::new(NODES);
    let _ = channels.watch(ONE.to_vec(), 1, at(0));
    let other = [OTHER.to_vec()];
    let listener = channels.listen(&other, &2).expect("it is the first one").id;
    let tell = |channels: &mut Channels<u32>, channel| {
        for told in 0..3 * NODES {
            let _ = channels.released(told % NODES, channel, b"other");
        }
        channels.is_heard_in_vain(channel)
    };
    assert!(!tell(&mut channels, ONE) && !tell(&mut channels, OTHER));
    assert_eq!(channels.changes(0, false, at(1)), subscribe(&[ONE, OTHER]));
    channels.listen_no_more(listener, &other, at(1));
    assert!(tell(&mut channels, OTHER));
    assert_eq!(channels.changes(0, false, at(1)), unsubscribe(&[OTHER]));
}

/// The node was not asked to forget the channel. It confirms the channel again nevertheless.
#[test]
fn a_channel_that_went_and_came_is_confirmed_again() {
    let (mut channels, id) = listening();
    channels.leave(id, at(0));
    assert_eq!(channels.changes(0, false, at(200)), unsubscribe(&[ONE]));
    let Joined { id, wake, .. } = channels.join(vec![ONE.to_vec()], None, 2);
    assert_eq!(wake, [0, 1, 2]);
    tries(heard(&mut channels, id));
    assert!(!heard(&mut channels, id).is_covered(), "nobody has confirmed it");
    for node in 0..NODES {
        assert_eq!(channels.changes(node, false, at(200)), subscribe(&[ONE]), "node {node}");
    }
    assert_eq!(channels.listened_to(1), 0);
    let _ = channels.listening(1, &[ONE.to_vec()]);
    assert_eq!(channels.listened_to(1), 1);
}

#[test]
fn subscribers_stay_for_a_while_after_the_last_channel() {
    let (mut channels, id) = listening();
    channels.leave(id, at(0));
    assert_eq!(channels.changes(0, false, at(200)), unsubscribe(&[ONE]));
    assert_eq!(channels.changes(1, false, at(2_199)), unsubscribe(&[ONE]));
    for node in [0, 1] {
        assert_eq!(channels.changes(node, false, at(2_200)), None, "node {node}");
    }
    let Joined { start, wake, .. } = channels.join(vec![ONE.to_vec()], None, 2);
    assert_eq!((start, wake), (vec![0, 1], vec![2]), "the last one has not ended yet");
    assert_eq!(channels.changes(2, false, at(2_200)), subscribe(&[ONE]));
}

#[test]
fn the_end_of_the_client_ends_its_subscribers() {
    let (mut channels, _) = listening();
    channels.close();
    assert_eq!(channels.changes(0, false, at(0)), None);
    assert_eq!(channels.changes(1, true, at(0)), None);
}

#[test]
fn releases_wake_the_waiters_of_their_channel() {
    let (mut channels, _) = listening();
    channels.join(vec![OTHER.to_vec()], None, 2);
    let Joined { id, .. } = channels.join(vec![ONE.to_vec()], None, 3);
    tries(heard(&mut channels, id));
    assert_eq!(channels.released(0, ONE, b"owner"), [3; 0], "it is one node of three");
    assert_eq!(channels.released(1, ONE, b"owner"), [1, 3]);
    assert_eq!(channels.released(1, b"unknown", b"owner"), [3; 0]);
}

/// Two callers wait for a fair lock, and a third one for a lock of another kind with the same name. Returns the waiters that
/// are woken by a node's message.
fn woken_by(told: &[u8]) -> Vec<u32> {
    let mut channels = Channels::new(1);
    for (caller, wake) in [(Some("a#queued"), 1), (Some("b#queued"), 2), (None, 3)] {
        let called = caller.map(|caller| caller.as_bytes().to_vec());
        let Joined { id, .. } = channels.join(vec![ONE.to_vec()], called, wake);
        let _ = channels.listening(0, &[ONE.to_vec()]);
        tries(heard(&mut channels, id));
    }
    channels.released(0, ONE, told)
}

#[test]
fn a_message_that_names_the_next_caller_wakes_no_other_one_in_the_queue() {
    assert_eq!(woken_by(b"a#queued"), [1, 3]);
    assert_eq!(woken_by(b"b#queued"), [2, 3]);
    assert_eq!(woken_by(b"of-another-client#queued"), [3]);
}

#[test]
fn a_message_that_names_an_owner_wakes_all_in_the_queue() {
    assert_eq!(woken_by(b"owner"), [1, 2, 3]);
    assert_eq!(woken_by(b"owner:1"), [1, 2, 3]);
    NO_OWNERS.into_iter().for_each(|somebody| assert_eq!(woken_by(somebody), [1, 2, 3]));
}

#[test]
fn a_waiter_that_has_left_is_not_woken() {
    let (mut channels, id) = listening();
    channels.leave(id, at(0));
    assert!((0..NODES).all(|node| channels.released(node, ONE, b"owner").is_empty()));
    assert!(channels.tracker(id).is_none());
}

/// A client gives a lock back and leaves it to others; then its nodes announce that release.
fn is_woken_by_its_own_release() -> bool {
    let (mut channels, id) = listening();
    channels.gives_way(id, Some(b"ours"));
    let is_woken = (0..NODES).any(|node| !channels.released(node, ONE, b"ours").is_empty());
    assert!((0..NODES).any(|node| !channels.released(node, ONE, b"another's").is_empty()));
    is_woken
}

#[test]
fn a_waiter_does_not_take_its_own_release_for_that_of_others() {
    assert!(!is_woken_by_its_own_release());
    assert!(without(&[Mechanism::OwnReleaseIsNoNews], is_woken_by_its_own_release));
}

/// A node announces a release on both channels that a waiter listens to. Then the waiter gives way, and its own release is
/// announced in the same way. `first` is the owner in the message on the first channel, and `theirs` the message on the second.
fn takes_a_second_message_for_a_release(first: &[u8], theirs: &[u8]) -> bool {
    let mut channels = Channels::new(1);
    let both = vec![ONE.to_vec(), OTHER.to_vec()];
    let Joined { id, .. } = channels.join(both.clone(), None, 1);
    let _ = channels.listening(0, &both);
    tries(heard(&mut channels, id));
    assert_eq!(channels.released(0, ONE, first), [1]);
    heard(&mut channels, id).attempt_begins();
    let wakes_again = !channels.released(0, OTHER, theirs).is_empty();
    channels.gives_way(id, Some(b"ours:1"));
    assert_eq!(channels.released(0, ONE, b"ours:1"), [1; 0]);
    let is_woken = !channels.released(0, OTHER, theirs).is_empty();
    assert_eq!(wakes_again, is_woken);
    // Another library's release names nobody, and has no message before it.
    for _ in 0..2 {
        channels.gives_way(id, Some(b"ours:1"));
        assert_eq!(channels.released(0, OTHER, theirs), [1]);
    }
    is_woken
}

#[test]
fn a_waiter_does_not_take_two_messages_of_one_release_for_two_releases() {
    for first in [&b"another:1"[..], b"web-3:4711#another:1", b"a#b#another:1:write"] {
        for theirs in NO_OWNERS {
            let takes = || takes_a_second_message_for_a_release(first, theirs);
            assert!(!takes());
            assert!(without(&[Mechanism::SecondMessagesAreNoNews], takes));
        }
        let names_an_owner = || takes_a_second_message_for_a_release(first, b"another:2");
        assert!(names_an_owner(), "it names an owner");
    }
}

#[test]
fn only_the_message_right_behind_is_the_second_one_of_a_release() {
    let both = vec![ONE.to_vec(), OTHER.to_vec()];
    let between: [fn(&mut Channels<u32>); 3] = [
        |_| {},
        |channels| _ = channels.released(0, b"third", b"owner:1"),
        |channels| _ = channels.deaf(0),
    ];
    let is_news = between.map(|between| {
        let mut channels = Channels::new(1);
        let Joined { id, .. } = channels.join(both.clone(), None, 1);
        channels.join(vec![b"third".to_vec()], None, 2);
        let _ = channels.listening(0, &both);
        tries(heard(&mut channels, id));
        channels.gives_way(id, Some(b"ours:1"));
        let _ = channels.released(0, ONE, b"ours:1");
        between(&mut channels);
        assert!(!heard(&mut channels, id).has_heard());
        let _ = channels.released(0, OTHER, NO_OWNERS[0]);
        heard(&mut channels, id).has_heard()
    });
    assert_eq!(is_news, [false, true, true]);
}

/// A mutex of the same name is given back, which is announced on one channel. The next message is another library's release.
#[test]
fn an_owner_that_is_written_in_another_way_has_no_second_message() {
    for owner in [b"web-3:4711#8f14e45f".as_slice(), b"a:1#b:2#8f14e45f", b"8f14e45f"] {
        let mut channels = Channels::new(1);
        let both = vec![ONE.to_vec(), OTHER.to_vec()];
        let Joined { id, .. } = channels.join(both.clone(), None, 1);
        let _ = channels.listening(0, &both);
        tries(heard(&mut channels, id));
        assert_eq!(channels.released(0, ONE, owner), [1]);
        heard(&mut channels, id).attempt_begins();
        assert_eq!(channels.released(0, OTHER, NO_OWNERS[0]), [1]);
    }
}

#[test]
fn a_waiter_is_woken_when_a_lost_subscription_is_there_again() {
    let (mut channels, id) = listening();
    assert_eq!(channels.deaf(1), [1; 0]);
    assert_eq!((channels.listened_to(0), channels.listened_to(1)), (1, 0));
    assert_eq!(channels.listening(1, &[OTHER.to_vec()]), [1; 0], "it does not concern it");
    assert_eq!(channels.listening(1, &[ONE.to_vec()]), [1]);
    tries(heard(&mut channels, id));
    assert_eq!(channels.listening(1, &[ONE.to_vec()]), [1; 0], "nothing was missed");
}

/// A late confirmation counts once a subscription that the last attempt relied on is lost.
#[test]
fn the_loss_of_a_subscription_can_wake_as_well() {
    let mut channels = Channels::new(NODES);
    let Joined { id, .. } = channels.join(vec![ONE.to_vec()], None, 1);
    for node in [0, 1] {
        let _ = channels.listening(node, &[ONE.to_vec()]);
    }
    tries(heard(&mut channels, id));
    assert_eq!(channels.listening(2, &[ONE.to_vec()]), [1; 0]);
    assert_eq!(channels.deaf(0), [1]);
}

#[test]
fn our_own_subscription_is_nobody_who_waits() {
    let (mut channels, id) = listening();
    let others = |channels: &Channels<u32>, told| channels.others_told(0, &[ONE.to_vec()], told);
    // The waiter itself is one of those that wait behind the lock that is given back.
    assert_eq!([0, 1, 2, 3].map(|told| others(&channels, told)), [0, 1, 2, 3]);
    let another = channels.join(vec![ONE.to_vec()], None, 2).id;
    assert_eq!(others(&channels, 1), 2);
    [id, another].into_iter().for_each(|id| channels.leave(id, at(0)));
    assert_eq!([0, 1, 2].map(|told| others(&channels, told)), [0, 0, 1]);
    let _ = channels.deaf(0);
    assert_eq!(others(&channels, 1), 1, "that was another client's connection");
    assert_eq!(channels.others_told(0, &[OTHER.to_vec()], 2), 2);
    assert_eq!(others(&channels, u64::MAX), u32::MAX);
}

#[test]
fn channels_are_forgotten_also_where_no_subscriber_could_be_started() {
    let mut channels = Channels::new(NODES);
    let Joined { id, start, .. } = channels.join(vec![ONE.to_vec()], None, 1);
    start.into_iter().for_each(|node| channels.not_started(node));
    assert!(channels.tidy(at(0)), "somebody waits");
    channels.leave(id, at(1_000));
    assert!(channels.tidy(at(1_199)), "somebody may wait again");
    assert!(!channels.tidy(at(1_200)));
    assert!(channels.is_empty() && channels.waiters.is_empty());
    assert!(channels.subscribers.iter().all(|subscriber| subscriber.changed.is_empty()));
}
