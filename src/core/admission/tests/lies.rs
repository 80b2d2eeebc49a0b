//! Clocks and marks that are completely wrong: they cost their own node its vote, and no other node.

use super::super::base::without;
use super::clocks::Offset;
use super::mark::{Identity, Noted};
use super::model::{MAX_TTL, World, configuration};
use super::*;

/// A clock was set, and its node has gone since: nobody can tell any more whose clock it was. Another node has lost its mark, and
/// is needed.
fn locks_although_a_doubted_node_has_gone() -> bool {
    let mut world = World::settled(3, 1);
    world.clients[0].admission.take_clock_news();
    world.set_clock(2, world.servers[2].clock_ms + 30_000);
    // The step is seen in an answer, and the node is never probed again.
    world.takes(0, 2);
    world.reach(0, 2, false);
    world.restart(1, false);
    world.run(Duration::from_secs(1));
    assert!(!world.locks(0), "the locks that it has forgotten may be held");
    world.run(MAX_TTL * 3);
    world.locks(0)
}

#[test]
fn without_its_end_a_doubt_about_a_node_that_has_gone_keeps_another_one_away_for_ever() {
    assert!(locks_although_a_doubted_node_has_gone());
    assert!(!without(&[Mechanism::DoubtsEnd], locks_although_a_doubted_node_has_gone));
}

/// The first mark of a new set says what the set's time is by that node's clock.
fn first_mark(ahead_ms: i64) -> World {
    let mut world = World::new(3, &[configuration(3)]);
    let identity = Identity::new("liar", "liar").expect("ids");
    let noted = Noted { ahead_ms, at_ms: 0 };
    let state = MarkState::Admitted;
    let mark = Mark { configuration: configuration(3), identity, noted, state };
    let now = world.clients[0].now(world.now);
    let probe = Probe {
        changed: false,
        role: Role::Master,
        identity: mark.identity.clone(),
        promoted: false,
        clock: Offset::new(true_us(&world), now, now),
        mark: Some(mark.to_string()),
    };
    world.clients[0].admission.probed(0, probe, now);
    world.reach(0, 0, false);
    world.run(MAX_TTL * 4);
    world
}

/// Returns the first marks that keep a client from its locks, or make it believe in another time.
fn believed_marks() -> Vec<i64> {
    let mut marks = vec![i64::MIN, -20_000_000_000_000, 20_000_000_000_000, i64::MAX];
    marks.retain(|ahead_ms| {
        let mut world = first_mark(*ahead_ms);
        let now = world.clients[0].now(world.now);
        let time_us = world.clients[0].admission.time_us(now, false).expect("two are known");
        !world.locks(0) || time_us.abs_diff(true_us(&world)) >= 1_000_000
    });
    marks
}

#[test]
fn without_bounds_a_mark_that_says_that_it_is_no_time_at_all_is_believed() {
    assert!(believed_marks().is_empty());
    assert!(!without(&[Mechanism::TimesAreBounded], believed_marks).is_empty());
}

/// The set's time falls with two clocks of five, if these are the first that a client reads.
#[test]
fn the_time_that_several_clocks_have_reached_does_not_fall_with_the_sets_time() {
    const BEHIND_MS: i64 = 500_000_000;
    let mut world = World::new(5, &[configuration(5)]);
    (0..2).for_each(|node| world.servers[node].clock_ms = -BEHIND_MS);
    (3..5).for_each(|node| world.reach(0, node, false));
    world.run(MAX_TTL * 2);
    let several = |world: &World| {
        world.clients[0].admission.time_of_several_us(world.clients[0].now(world.now))
    };
    let behind_us = |world: &World, time_us: Option<i64>| true_us(world) - time_us.expect("known");
    assert!(behind_us(&world, several(&world)) > BEHIND_MS * 900, "that of three clocks");
    (3..5).for_each(|node| world.reach(0, node, true));
    world.run(MAX_TTL * 4);
    let set = world.clients[0].admission.time_us(world.clients[0].now(world.now), false);
    assert!(behind_us(&world, set) > BEHIND_MS * 900, "it goes on as it has begun");
    assert!(behind_us(&world, several(&world)).abs() < 1_000_000);
}

/// Returns the time of all clocks of the world that are right.
fn true_us(world: &World) -> i64 {
    i64::try_from(world.now.since(Time::default()).as_micros()).expect("short")
}
