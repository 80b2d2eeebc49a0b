//! Clocks that move away from their marks while clients are busy, and clocks that are set right.

use super::super::base::without;
use super::clock_tests::newcomer;
use super::model::{MAX_TTL, World, configuration};
use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The first `clients` take locks on all nodes all the time, and also do everything that is due.
fn busy(world: &mut World, clients: usize, time: Duration, mut each: impl FnMut(&mut World)) {
    let end = world.now.after(time);
    while world.now < end {
        for client in 0..clients {
            (0..world.servers.len()).for_each(|node| _ = world.takes(client, node));
            world.visit(client);
        }
        each(world);
        world.advance(ms(200));
    }
}

/// A clock gains or loses 300 ms, slower than clocks may drift, while a client is busy. Returns true if a process that begins
/// then accuses the master, which has done nothing wrong.
fn accused_for_drift(each_ms: i64) -> bool {
    let mut world = World::settled(3, 1);
    busy(&mut world, 1, ms(60_000), |world| world.servers[2].clock_ms += each_ms);
    let other = newcomer(&mut world);
    (0..3).for_each(|_| world.visit(other));
    !world.takes(other, 2) || !world.servers[2].is_admitted()
}

#[test]
fn a_clock_that_drifts_under_load_is_noted_too() {
    assert!(!accused_for_drift(1));
    assert!(!accused_for_drift(-1));
    assert!(without(&[Mechanism::BusyNodesAreProbed], || accused_for_drift(1)));
}

/// A clock falls behind while clients are busy, and a lock is granted on its node. The clock is set right in one step, which ends
/// that lock early. Returns true if another lock is granted there, to an old client or to one that begins then.
fn grants_once_set_right(nodes: usize) -> bool {
    let mut world = World::settled(nodes, 2);
    let mut behind = 0;
    busy(&mut world, 2, ms(20_000), |world| {
        world.servers[0].clock_ms -= 10;
        behind += 10;
    });
    busy(&mut world, 2, ms(2_000), |_| ());
    assert!(world.takes(0, 0), "it grants by its new mark");
    world.servers[0].clock_ms += behind;
    let other = newcomer(&mut world);
    world.visit(other);
    let mut granted = false;
    for _ in 0..5 {
        for client in [other, 1] {
            granted |= world.takes(client, 0);
            world.visit(client);
        }
    }
    granted
}

#[test]
fn a_clock_that_fell_behind_under_load_is_found_out_when_it_is_set_right() {
    for nodes in [3, 5] {
        assert!(!grants_once_set_right(nodes), "{nodes} nodes");
        assert!(without(&[Mechanism::BusyNodesAreProbed], || grants_once_set_right(nodes)));
    }
}

#[test]
fn nodes_are_probed_often_enough_however_often_their_clocks_are_read() {
    for (tolerance, pause) in [(10, 100), (50, 500), (100, 1_000), (1_000, 10_000), (5_000, 10_000)]
    {
        let configuration = Configuration { clock_tolerance: ms(tolerance), ..configuration(3) };
        let mut world = World::new(3, &[configuration]);
        world.run(MAX_TTL + ms(2_000));
        world.advance(ms(pause));
        world.visit(0);
        let due = world.clients[0].now(world.now).after(ms(pause));
        world.advance(ms(50));
        assert!(world.takes(0, 0), "and its clock is read");
        let until = world.clients[0].admission.settled_until(0).expect("it is admitted");
        assert_eq!(until, due, "{tolerance}");
    }
}

/// The settings do not allow so small a tolerance: marks are rounded by more. The machine bears it, and grants nothing in doubt.
#[test]
fn a_tolerance_below_the_rounding_of_marks_is_borne() {
    for tolerance in 1..10 {
        let configuration = Configuration { clock_tolerance: ms(tolerance), ..configuration(3) };
        let mut world = World::new(3, &[configuration]);
        world.run(MAX_TTL + ms(2_000));
        world.run(ms(10_000));
        (0..3).for_each(|node| _ = world.takes(0, node));
    }
}

/// A clock is set back and right again before any client has probed the node. Returns true if the node grants within the time for
/// which locks could live, to a client that has seen the step. The third node is away, or only a part of the step back is undone.
fn grants_after_a_step_below_the_mark(third: bool, step_ms: i64) -> bool {
    let mut world = World::settled(3, 2);
    world.run(ms(5_000));
    if !third {
        (0..2).for_each(|client| world.reach(client, 2, false));
    }
    (0..2).for_each(|client| world.visit(client));
    for _ in 0..2 {
        world.servers[0].clock_ms -= 90;
        assert!((0..2).all(|client| world.takes(client, 0) && world.takes(client, 1)));
        world.advance(ms(100));
    }
    world.servers[0].clock_ms += step_ms;
    let mut granted = world.takes(1, 0);
    for _ in 0..9 {
        world.visit(1);
        granted |= world.takes(1, 0);
        let mark = world.servers[0].mark.clone();
        world.visit(0);
        granted |= world.takes(0, 0);
        assert_eq!(world.servers[0].mark, mark, "one quarantine is enough");
        assert!(world.takes(1, 1) && world.servers[1].is_admitted(), "nothing is wrong with it");
        world.advance(ms(1_000));
    }
    world.run(MAX_TTL);
    assert!(world.takes(0, 0) && world.takes(1, 0), "the vote comes back");
    granted
}

#[test]
fn a_step_that_was_seen_counts_although_the_mark_would_hide_it() {
    for (third, step_ms) in [(true, 180), (true, 130), (false, 180)] {
        let grants = || grants_after_a_step_below_the_mark(third, step_ms);
        assert!(!grants(), "{third} {step_ms}");
        assert!(without(&[Mechanism::SeenStepsCount], grants), "{third} {step_ms}");
    }
}

/// Lets `client` do all that is due now, with round trips of that length.
fn visit_slowly(world: &mut World, client: usize, round_trip: Duration) {
    for _ in 0..6 {
        let nodes = world.servers.len();
        let asked = (0..nodes).filter(|node| world.ask(client, *node)).count();
        if asked == 0 {
            return;
        }
        world.advance(round_trip / 2);
        (0..nodes).for_each(|node| world.arrive(client, node));
        world.advance(round_trip - round_trip / 2);
        (0..nodes).for_each(|node| world.answer(client, node));
    }
}

/// A client far away is granted locks by a node whose clock has fallen behind its mark, and cannot tell. A process nearby begins
/// after a step that sets the clock right. `docs/guarantees.md` lists the steps that it does not notice.
#[test]
fn a_round_trip_hides_no_more_of_a_step_than_it_takes() {
    let tolerance_ms = 100;
    for round_trip_ms in [4, 20, 32, 60] {
        for behind_ms in (0..100).step_by(7) {
            let mut world = World::settled(3, 1);
            world.clients.clear();
            world.servers[0].clock_ms -= behind_ms;
            let far = newcomer(&mut world);
            for _ in 0..5 {
                visit_slowly(&mut world, far, ms(round_trip_ms));
                world.advance(ms(1_000));
            }
            if world.clients[far].admission.grants(0) == Grants::Nothing {
                continue;
            }
            world.servers[0].clock_ms +=
                tolerance_ms + i64::try_from(round_trip_ms).expect("short");
            let near = newcomer(&mut world);
            world.visit(near);
            assert!(!world.takes(near, 0), "{round_trip_ms} ms, {behind_ms} ms behind");
        }
    }
}
