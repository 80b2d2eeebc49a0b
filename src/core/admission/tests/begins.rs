//! The beginning of a set whose masters' clocks disagree: each client hears of the masters in an order of its own, and requests
//! overlap.

use super::super::base::without;
use super::clock_tests::newcomer;
use super::model::{Server, World, configuration};
use super::*;

const NODES: usize = 5;

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// A set that begins.
struct Beginning {
    world: World,
    random: Random,
    /// The most time that passes between two steps of a client, in microseconds.
    pace_us: usize,
    /// The number of clients that take steps. A round trip takes the same time for any number of them.
    active: usize,
}

impl Beginning {
    /// Two of five masters are a minute ahead.
    fn new(seed: u64, clients: usize) -> Self {
        let mut world = World::new(NODES, &vec![configuration(NODES); clients]);
        (0..2).for_each(|node| world.servers[node].clock_ms = 60_000);
        let mut random = Random(seed);
        let pace_us = 200 + random.below(1_000);
        Self { world, random, pace_us, active: clients }
    }

    /// Sends a request of the client to a node, has it arrive, or has it answered.
    fn step(&mut self, client: usize) {
        let node = self.random.below(NODES);
        match self.random.below(3) {
            0 => {
                self.world.ask(client, node);
            }
            1 => self.world.arrive(client, node),
            _ => self.world.answer(client, node),
        }
        let passed_us = self.random.below(self.pace_us) / self.active;
        self.world.advance(Duration::from_micros(passed_us as u64));
    }

    /// Lets the clients act until all nodes grant to all of them.
    fn begin(&mut self) {
        let clients = self.world.clients.len();
        for _ in 0..200_000 {
            let client = self.random.below(clients);
            self.step(client);
            end_quarantines(&mut self.world, client);
            let mut all =
                (0..NODES).flat_map(|node| (0..clients).map(move |client| (node, client)));
            if all.all(|(node, client)| self.world.takes(client, node)) {
                return;
            }
        }
        panic!("not all nodes grant")
    }

    /// Returns the set's time, in milliseconds, from which a client that does not reach those nodes makes its first number.
    fn first_number(&mut self, away: [usize; 2]) -> i64 {
        let client = newcomer(&mut self.world);
        self.active = 1;
        away.into_iter().for_each(|node| self.world.reach(client, node, false));
        for _ in 0..200_000 {
            self.step(client);
            if self.world.locks(client) {
                let client = &self.world.clients[client];
                let time_us = client.admission.time_us(client.now(self.world.now), false);
                return time_us.expect("a majority is known") / 1_000;
            }
        }
        panic!("it can take no lock")
    }
}

/// The next holder's number is larger, whatever a client hears first, although only the first master has the lock's number, and
/// forgets it.
#[test]
fn numbers_rise_from_the_first_one_on() {
    for seed in 0..60 {
        let mut set = Beginning::new(seed, 1 + seed as usize % 3);
        set.begin();
        let first = set.first_number([3, 4]);
        set.world.restart(0, false);
        let second = set.first_number([1, 2]);
        assert!(second > first, "seed {seed}: {first} {second}");
    }
}

/// Returns the largest difference between the set's times that the nodes' clocks and marks yield.
fn marks_differ_by(world: &World) -> i64 {
    let set_ms = |server: &Server| {
        let mark = Mark::parse(server.mark.as_deref()?)?;
        Some(server.clock_ms - mark.noted.ahead_ms)
    };
    let noted: Vec<_> = world.servers.iter().filter_map(set_ms).collect();
    noted.iter().max().zip(noted.iter().min()).map_or(0, |(most, least)| most - least)
}

/// Lets the client finish its next request to the node.
fn hear(world: &mut World, node: usize) {
    world.ask(0, node);
    world.arrive(0, node);
    world.answer(0, node);
}

/// A client that begins has heard of the first three masters, and is about to write the marks of those in `first`. Before these
/// marks arrive, it hears of a fourth master, and asks that one and those in `then`.
fn overlapping(first: &[usize], then: &[usize]) -> World {
    let Beginning { mut world, .. } = Beginning::new(0, 1);
    (0..3).for_each(|node| hear(&mut world, node));
    for node in first {
        world.ask(0, *node);
    }
    hear(&mut world, 3);
    for node in then {
        world.ask(0, *node);
    }
    for node in 0..4 {
        world.arrive(0, node);
        world.answer(0, node);
    }
    world
}

/// Ends the quarantines by order: no lock can be held.
fn end_quarantines(world: &mut World, client: usize) {
    let admission = &mut world.clients[client].admission;
    for node in 0..NODES {
        if let Some((id, _)) = admission.quarantine(node) {
            admission.admit(node, id);
        }
    }
}

#[test]
fn the_second_mark_is_measured_by_the_first_one() {
    let differ_by = || marks_differ_by(&overlapping(&[0], &[3]));
    assert_eq!(differ_by(), 0);
    assert_eq!(without(&[Mechanism::FirstNotesTakeTurns], differ_by), 60_000);
}

/// The other nodes do not wait for ever for a mark that is not answered.
#[test]
fn a_first_mark_that_does_not_arrive_is_waited_for_no_longer_than_until_it_is_sent_again() {
    let Beginning { mut world, .. } = Beginning::new(0, 1);
    (0..3).for_each(|node| hear(&mut world, node));
    assert!(world.ask(0, 0) && !world.ask(0, 1), "it waits for the first one's answer");
    world.advance(Duration::from_millis(1_100));
    (0..4).for_each(|_| hear(&mut world, 1));
    assert!(world.servers[1].mark.is_some());
}

/// The answer to each question arrives before another node is asked, 10 ms later.
#[test]
fn a_node_that_takes_no_mark_keeps_the_others_waiting_once() {
    let Beginning { mut world, .. } = Beginning::new(0, 1);
    world.servers[0].takes_marks = false;
    let began = world.now;
    while world.servers[1].mark.is_none() || world.servers[2].mark.is_none() {
        let waited = world.now.since(began);
        assert!(waited < Duration::from_millis(1_200), "they wait");
        (0..3).for_each(|node| {
            world.ask(0, node);
        });
        world.advance(Duration::from_millis(10));
        for node in 0..3 {
            world.arrive(0, node);
            world.answer(0, node);
        }
    }
}

/// Two clients that begin at the same time may write marks that contradict each other. (This test has one client, which does not
/// take turns.) No lock is granted by such marks.
#[test]
fn marks_that_contradict_each_other_are_set_right_before_all_nodes_grant() {
    let differ_by = || {
        let mut world =
            without(&[Mechanism::FirstNotesTakeTurns], || overlapping(&[0, 1], &[2, 3]));
        assert_eq!(marks_differ_by(&world), 60_000);
        for node in (0..NODES).cycle().take(10_000) {
            world.advance(Duration::from_millis(10));
            end_quarantines(&mut world, 0);
            hear(&mut world, node);
            if (0..NODES).all(|node| world.takes(0, node)) {
                return marks_differ_by(&world);
            }
        }
        panic!("not all nodes grant")
    };
    assert!(differ_by() < 100, "but for what the clocks may drift before it is noted");
    // The mark of the next node that is heard may also settle it.
    let settles = Mechanism::ContradictionsAreNotWaitedFor;
    assert!(without(&[settles], differ_by) < 100);
    assert!(without(&[settles, Mechanism::AllMarksAreCompared], differ_by) >= 60_000);
}
