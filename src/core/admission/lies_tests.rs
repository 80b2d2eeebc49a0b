//! Clocks and marks that are out of their mind: they cost their own node its vote, and no other one.

use super::super::clocks::Offset;
use super::super::mark::{Identity, Noted};
use super::model::{MAX_TTL, World, configuration};
use super::*;

/// A clock was set, and its node has gone since: nobody can say any more whose clock that was. Another node
/// has lost its mark, and is needed.
#[test]
fn a_doubt_about_a_node_that_has_gone_keeps_no_other_one_away_for_ever() {
    let mut world = World::settled(3, 1);
    world.clients[0].admission.take_clock_news();
    world.set_clock(2, world.servers[2].clock_ms + 30_000);
    // It is seen by an answer, and is never probed again.
    world.takes(0, 2);
    world.reach(0, 2, false);
    world.restart(1, false);
    world.run(Duration::from_secs(1));
    assert!(!world.locks(0), "the locks that it has forgotten may be held");
    world.run(MAX_TTL * 3);
    assert!(world.locks(0));
}

/// The first mark of a new set says when it is by that node's clock.
fn first_mark(ahead_ms: i64) -> World {
    let mut world = World::new(3, &[configuration(3)]);
    let identity = Identity::new("liar", "liar").expect("ids");
    let noted = Noted { ahead_ms, at_ms: 0 };
    let state = State::Admitted;
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

#[test]
fn a_mark_that_says_that_it_is_no_time_at_all_is_not_believed() {
    for ahead_ms in [i64::MIN, -20_000_000_000_000, 20_000_000_000_000, i64::MAX] {
        let mut world = first_mark(ahead_ms);
        assert!(world.locks(0), "{ahead_ms}");
        let now = world.clients[0].now(world.now);
        let time_us = world.clients[0].admission.time_us(now, false).expect("two are known");
        assert!(time_us.abs_diff(true_us(&world)) < 1_000_000, "{ahead_ms}: {time_us}");
    }
}

/// What all clocks of the world say that are right.
fn true_us(world: &World) -> i64 {
    i64::try_from(world.now.since(Time::default()).as_micros()).expect("short")
}
