//! Clocks that are set during a quarantine: the evidence of each node's clock about the others, and the time that it takes.

use super::super::base::without;
use super::clock_tests::newcomer;
use super::model::{MAX_TTL, World};
use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Ends all clients.
fn end_all(world: &mut World) {
    for client in 0..world.clients.len() {
        (0..world.servers.len()).for_each(|node| world.reach(client, node, false));
    }
    world.clients.clear();
}

/// Programs come one after the other, each for a second. Returns the time until one of them gets a lock.
fn programs_wait(world: &mut World, for_at_most: Duration) -> Option<Duration> {
    let began = world.now;
    while world.now < began.after(for_at_most) {
        let program = newcomer(world);
        let ends = world.now.after(ms(1_000));
        while world.now < ends {
            world.visit(program);
            if world.locks(program) {
                return Some(world.now.since(began));
            }
            world.advance(ms(50));
        }
        end_all(world);
    }
    None
}

/// The clocks of two nodes contradict each other. The third node, which the programs hear of last, has no mark yet.
#[test]
fn programs_of_a_second_can_lock_again_after_a_quarantine_although_clocks_contradict_each_other() {
    for with_data in [true, false] {
        // A quarantine ends when it is over by all clocks.
        for (by_ms, most) in [(-200, MAX_TTL), (-30_000, MAX_TTL), (30_000, MAX_TTL + ms(30_000))] {
            let wait = || {
                let mut world = World::settled(3, 1);
                end_all(&mut world);
                world.servers[1].clock_ms += by_ms;
                world.restart(2, with_data);
                programs_wait(&mut world, MAX_TTL * 10)
            };
            let told = format!("with data: {with_data}, set by {by_ms} ms");
            assert!(wait().is_some_and(|took| took < most + ms(2_000)), "{told}");
            assert_eq!(without(&[Mechanism::ContradictionsAreNotWaitedFor], wait), None, "{told}");
        }
    }
}

/// The clock of the node in quarantine shows that the other node's clock was set.
#[test]
fn a_clock_that_is_set_beside_a_quarantine_is_accused_before_that_ends() {
    for is_set_first in [true, false] {
        let wait = || {
            let mut world = World::settled(2, 1);
            world.run(ms(3_000));
            if is_set_first {
                world.servers[0].clock_ms += 30_000;
                world.flush(1);
            } else {
                world.flush(1);
                world.run(ms(1_000));
                world.servers[0].clock_ms += 30_000;
            }
            let began = world.now;
            loop {
                world.visit_all();
                world.advance(ms(100));
                if world.locks(0) {
                    return world.now.since(began);
                }
                assert!(world.now < began.after(MAX_TTL * 10), "it gets no lock");
            }
        };
        assert!(wait() < MAX_TTL + MAX_TTL / 2);
        assert!(without(&[Mechanism::QuarantinedClocksAccuse], wait) > MAX_TTL + MAX_TTL / 2);
    }
}

/// An operator's program, which begins now, must learn which nodes have forgotten nothing.
#[test]
fn a_node_remembers_although_all_others_are_new_unless_its_clock_is_said_to_be_set() {
    for (nodes, new) in [(2, 1), (3, 2), (3, 1), (5, 3)] {
        for is_set in [false, true] {
            let mut world = World::settled(nodes, 1);
            end_all(&mut world);
            (nodes - new..nodes).for_each(|node| world.restart(node, false));
            if is_set {
                // The new nodes have been measured before.
                let before = newcomer(&mut world);
                world.visit(before);
                end_all(&mut world);
                world.servers[0].clock_ms += 30_000;
            }
            let operator = newcomer(&mut world);
            for _ in 0..100 {
                world.visit(operator);
                world.advance(ms(50));
            }
            let client = &world.clients[operator];
            let remembers = |node| client.admission.remembers(node, client.now(world.now));
            assert_eq!(remembers(0), !is_set, "{new} of {nodes}");
            assert!((nodes - new..nodes).all(|node| !remembers(node)));
        }
    }
}

/// One of two clocks was set, and the third node is new. Nobody can tell which clock it was.
#[test]
fn of_two_nodes_whose_clocks_contradict_each_other_one_at_most_remembers() {
    for by_ms in [-30_000, 30_000] {
        let mut world = World::settled(3, 1);
        end_all(&mut world);
        world.servers[1].clock_ms += by_ms;
        world.restart(2, false);
        let operator = newcomer(&mut world);
        for _ in 0..20 {
            let client = &world.clients[operator];
            let remembers = |node| client.admission.remembers(node, client.now(world.now));
            assert!(!(remembers(0) && remembers(1)), "set by {by_ms} ms");
            world.visit(operator);
            world.advance(ms(50));
        }
    }
}
