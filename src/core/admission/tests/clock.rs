//! Clocks that are set, case by case; `search.rs` mixes them with everything else.

use super::super::base::without;
use super::clock_tracker::ClockStep;
use super::model::{MAX_TTL, World, configuration};
use super::*;

const HALF_A_MINUTE: i64 = 30_000;

fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn set_by(world: &mut World, node: usize, by_ms: i64) {
    let ahead_ms = world.servers[node].clock_ms + by_ms;
    world.set_clock(node, ahead_ms);
}

/// Adds a client that knows nothing yet.
pub(super) fn newcomer(world: &mut World) -> usize {
    let nodes = world.servers.len();
    let client = World::new(nodes, &[configuration(nodes)]).clients;
    world.clients.extend(client);
    world.clients.len() - 1
}

fn steps(world: &mut World, client: usize) -> Vec<(usize, i64)> {
    let news = world.clients[client].admission.take_clock_news();
    let ms = |by: Duration| i64::try_from(by.as_millis()).expect("short");
    let steps = news.into_iter().filter_map(|one| match one {
        ClockNews::Set(node, ClockStep::Forward(by)) => Some((node, ms(by) / 1_000)),
        ClockNews::Set(node, ClockStep::Back(by)) => Some((node, -ms(by) / 1_000)),
        ClockNews::Doubt | ClockNews::Suspended(_) => None,
    });
    steps.collect()
}

fn suspended(world: &mut World, client: usize) -> bool {
    let news = world.clients[client].admission.take_clock_news();
    news.iter().any(|one| matches!(one, ClockNews::Suspended(_)))
}

/// The locks of a majority end early on a node whose clock is set. Returns true if the node grants one within the time for which
/// they could live: to a client that has watched the clock, or to one that begins after the step.
fn grants_after_a_step(watched: bool) -> bool {
    let mut world = World::settled(3, 2);
    set_by(&mut world, 0, HALF_A_MINUTE);
    let other = if watched { 1 } else { newcomer(&mut world) };
    // The answer states the time along with the grant. The client then tries again, as soon as it may.
    let mut granted = false;
    for _ in 0..9 {
        world.advance(seconds(1));
        granted |= world.takes(other, 0);
        world.visit(other);
    }
    assert!(!world.takes(other, 0) || granted);
    world.run(MAX_TTL);
    assert!(world.takes(other, 0) && world.takes(0, 0), "the vote comes back");
    granted
}

/// The requests of a client reach the nodes after the time `after`, and the answers reach the client a time `later` after that.
/// The client has just begun, or has watched the nodes before. Returns true if a majority grants it locks half a second later.
fn grants_after_slow_answers(has_just_begun: bool, after: Duration, later: Duration) -> bool {
    let mut world = World::settled(3, 2);
    let client = if has_just_begun { newcomer(&mut world) } else { 1 };
    for node in 0..3 {
        while !world.ask(client, node) {
            world.advance(Duration::from_millis(100));
            world.visit(0);
        }
    }
    world.advance(after);
    (0..3).for_each(|node| world.arrive(client, node));
    world.advance(later);
    (0..3).for_each(|node| world.answer(client, node));
    for _ in 0..5 {
        world.visit_all();
        world.advance(Duration::from_millis(100));
    }
    (0..3).filter(|node| world.takes(client, *node)).count() >= 2
}

/// For example, a process is stopped while its requests are under way, or begins on a busy machine.
#[test]
fn answers_that_took_long_keep_nobody_from_locks_for_long() {
    let times = [1, 10, 70, 95, 110, 200, 1_000, 3_500, 60_000].map(Duration::from_millis);
    for (after, later) in times.iter().flat_map(|after| times.map(|later| (*after, later))) {
        for has_just_begun in [true, false] {
            let grants = grants_after_slow_answers(has_just_begun, after, later);
            assert!(grants, "{has_just_begun} {after:?} {later:?}");
        }
    }
    for has_just_begun in [true, false] {
        let grants = || grants_after_slow_answers(has_just_begun, seconds(4), seconds(4));
        assert!(!without(&[Mechanism::VagueBoundsAreReplaced], grants), "{has_just_begun}");
    }
}

#[test]
fn a_node_whose_clock_is_set_forward_grants_nothing_until_all_its_locks_have_ended() {
    assert!(!grants_after_a_step(true));
    assert!(!grants_after_a_step(false));
    assert!(without(&[Mechanism::ClocksAreWatched], || grants_after_a_step(true)));
    assert!(without(&[Mechanism::ClocksAreNoted], || grants_after_a_step(false)));
}

#[test]
fn everybody_is_told_by_how_much_and_in_which_direction() {
    for by_ms in [HALF_A_MINUTE, -HALF_A_MINUTE, 2_000] {
        let mut world = World::settled(3, 2);
        steps(&mut world, 0);
        steps(&mut world, 1);
        set_by(&mut world, 1, by_ms);
        world.run(seconds(3));
        for client in 0..2 {
            let by = if by_ms > 0 { (by_ms - 50) / 1_000 } else { by_ms / 1_000 + 1 };
            let told = steps(&mut world, client);
            assert!(told == [(1, by)] || told == [(1, by_ms / 1_000)], "{told:?}");
            assert!(!suspended(&mut world, client));
        }
    }
}

#[test]
fn a_node_whose_clock_is_set_back_grants_again_when_its_mark_says_so() {
    let mut world = World::settled(3, 2);
    world.run(seconds(1));
    let before = world.servers[0].mark.clone();
    set_by(&mut world, 0, -HALF_A_MINUTE);
    assert!(!world.takes(0, 0), "the mark would hide that it is set right again");
    world.visit(0);
    assert_ne!(world.servers[0].mark, before);
    assert!(
        world.servers[0]
            .mark
            .as_deref()
            .is_some_and(|mark| mark.contains("ahead_ms=-30000 ") && mark.ends_with(" admitted"))
    );
    assert!(world.takes(0, 0));
    // The clock is set right again: locks that were granted in between end early.
    set_by(&mut world, 0, HALF_A_MINUTE);
    let other = newcomer(&mut world);
    world.visit(other);
    assert!(!world.takes(other, 0));
    world.visit(1);
    assert!(!world.takes(1, 0));
}

/// A process begins. It first hears of the node whose clock was set back, and then of a node whose clock is right.
#[test]
fn of_two_clocks_of_three_nobody_is_accused() {
    let mut world = World::settled(3, 1);
    set_by(&mut world, 0, -HALF_A_MINUTE);
    let other = newcomer(&mut world);
    world.reach(other, 2, false);
    world.visit(other);
    assert!(!world.takes(other, 0) && !world.takes(other, 1), "one of them was set");
    assert!(world.servers[1].is_admitted());
    world.reach(other, 2, true);
    world.visit(other);
    assert!((0..3).all(|node| world.takes(other, node) && world.servers[node].is_admitted()));
}

/// The same, and the third node stays away. The doubt ends when all locks that may have ended early are over.
fn locks_after_a_doubt_that_nobody_can_end() -> bool {
    let mut world = World::settled(3, 1);
    set_by(&mut world, 0, HALF_A_MINUTE);
    let other = newcomer(&mut world);
    world.reach(other, 2, false);
    for _ in 0..9 {
        world.visit(other);
        assert!(!world.locks(other));
        world.advance(seconds(1));
    }
    world.advance(seconds(2));
    world.visit(other);
    world.locks(other)
}

#[test]
fn a_doubt_that_nobody_can_end_ends_with_the_locks_and_without_that_never() {
    assert!(locks_after_a_doubt_that_nobody_can_end());
    assert!(!without(&[Mechanism::DoubtsEnd], locks_after_a_doubt_that_nobody_can_end));
}

/// One of three nodes is down.
#[test]
fn one_clock_that_goes_on_shows_that_it_was_not_ours() {
    for by_ms in [HALF_A_MINUTE, -HALF_A_MINUTE] {
        let mut world = World::settled(3, 1);
        world.reach(0, 2, false);
        set_by(&mut world, 0, by_ms);
        world.run(seconds(2));
        assert_eq!(world.takes(0, 0), by_ms < 0);
        assert!(world.takes(0, 1), "nothing is wrong with it");
    }
}

/// The clocks of all nodes, or of the reachable ones, have gone on, and our own clock has not.
fn we_are_suspended(nodes: usize, reachable: usize) -> bool {
    let mut world = World::settled(nodes, 1);
    (reachable..nodes).for_each(|node| world.reach(0, node, false));
    world.clients[0].admission.take_clock_news();
    (0..nodes).for_each(|node| set_by(&mut world, node, HALF_A_MINUTE));
    assert!(!world.takes(0, 0), "what was granted across the gap does not count");
    world.run(seconds(2));
    let told = suspended(&mut world, 0);
    assert!(world.early.is_empty());
    assert!((0..nodes).all(|node| world.servers[node].is_admitted()), "nobody is accused of it");
    assert_eq!(world.locks(0), nodes > 1, "it takes locks again");
    world.run(MAX_TTL);
    assert!(world.locks(0));
    told
}

#[test]
fn if_all_clocks_are_set_at_once_it_is_us() {
    for (nodes, reachable) in [(1, 1), (2, 2), (3, 3), (3, 2), (4, 4), (5, 3)] {
        assert!(we_are_suspended(nodes, reachable), "{reachable} of {nodes}");
    }
    assert!(!without(&[Mechanism::OwnClockIsDoubted], || we_are_suspended(3, 3)));
}

/// With one node nobody can tell whose clock it was, so a client that has seen the step waits for the longest lock.
#[test]
fn a_single_node_grants_nothing_to_those_who_have_seen_its_clock_set() {
    let mut world = World::settled(1, 1);
    set_by(&mut world, 0, HALF_A_MINUTE);
    assert!(!world.takes(0, 0));
    world.run(MAX_TTL - seconds(1));
    assert!(!world.takes(0, 0));
    assert!(world.clients[0].ready_in(world.now).is_some_and(|left| left <= seconds(1)));
    world.run(seconds(2));
    assert!(world.takes(0, 0));
}

#[test]
fn of_two_nodes_the_one_that_was_set_is_found_out() {
    for node in 0..2 {
        let mut world = World::settled(2, 2);
        set_by(&mut world, node, HALF_A_MINUTE);
        world.run(seconds(2));
        assert!(!world.servers[node].is_admitted());
        assert!(world.servers[1 - node].is_admitted());
    }
}

/// A clock that runs one per cent fast, which validity allows for, is noted anew now and then.
#[test]
fn a_clock_that_drifts_is_not_accused() {
    let mut world = World::settled(3, 2);
    steps(&mut world, 0);
    for _ in 0..300 {
        world.servers[2].clock_ms += 2;
        world.run(Duration::from_millis(200));
        assert!(world.servers[2].is_admitted());
    }
    assert_eq!(steps(&mut world, 0), []);
    assert!(world.servers[2].mark.as_deref().is_some_and(|mark| !mark.contains("ahead_ms=0")));
    let other = newcomer(&mut world);
    world.visit(other);
    assert!(world.takes(other, 2), "nor by somebody who begins now");
}

/// A time service sets a clock right in small steps, faster than one per cent.
#[test]
fn a_clock_that_is_slewed_fast_is_found_out() {
    let mut world = World::settled(3, 1);
    for _ in 0..100 {
        world.servers[2].clock_ms += 2;
        world.advance(Duration::from_millis(25));
        world.takes(0, 2);
    }
    world.run(seconds(1));
    assert!(!world.servers[2].is_admitted());
}

/// A clock is set while its node is in quarantine, and a key that its holder repairs there ends too early.
#[test]
fn a_step_in_quarantine_begins_another_one() {
    let mut world = World::settled(3, 2);
    world.restart(0, false);
    world.run(MAX_TTL - seconds(1));
    assert!(!world.servers[0].is_admitted());
    set_by(&mut world, 0, HALF_A_MINUTE);
    world.run(MAX_TTL - seconds(1));
    assert!(!world.servers[0].is_admitted());
    world.run(seconds(3));
    assert!(world.servers[0].is_admitted());
}

/// A step that every validity allows for costs nobody a vote. A larger one does, for as long as any lock can live. If the two
/// cannot be told apart, the vote is lost until one per cent of the time makes up for that.
#[test]
fn the_sets_tolerance_says_which_steps_matter() {
    let votes_after = |by_ms, within| {
        let mut world = World::settled(3, 1);
        // In its first seconds a client counts the gain that the clock may have had before.
        world.run(seconds(5));
        set_by(&mut world, 0, by_ms);
        let set_at = world.now;
        // The clock was read half a second ago, so five milliseconds may be drift.
        world.advance(Duration::from_millis(500));
        let mut votes = world.takes(0, 0);
        while world.now < set_at.after(within) {
            world.advance(Duration::from_millis(200));
            votes |= world.takes(0, 0);
            world.visit(0);
        }
        votes
    };
    let (soon, late) = (seconds(1), MAX_TTL - seconds(1));
    for (by_ms, within, votes) in [
        (94, soon, true),
        (101, soon, false),
        (104, soon, false),
        (104, late, true),
        (107, late, false),
    ] {
        assert_eq!(votes_after(by_ms, within), votes, "{by_ms} within {within:?}");
    }
    assert!(without(&[Mechanism::DoubtHasNoVote], || votes_after(101, soon)));
}

/// A process begins after one small step, and notes it. Returns true if, after another such step, it takes a lock, or a process
/// does that begins then (`anew`).
fn grants_after_two_steps(anew: bool) -> bool {
    let mut world = World::settled(3, 1);
    world.run(seconds(2));
    set_by(&mut world, 0, 60);
    let between = newcomer(&mut world);
    (0..5).for_each(|_| world.visit(between));
    assert!(world.takes(between, 0), "one such step is part of every validity");
    set_by(&mut world, 0, 60);
    let last = if anew { newcomer(&mut world) } else { between };
    world.visit(last);
    world.takes(last, 0)
}

#[test]
fn small_steps_add_up_whoever_has_begun_between_them() {
    assert!(!grants_after_two_steps(true));
    assert!(!grants_after_two_steps(false));
    assert!(without(&[Mechanism::MarksRiseSlowly], || grants_after_two_steps(true)));
    assert!(without(&[Mechanism::TrackersBeginAtMarks], || grants_after_two_steps(false)));
}

/// A clock that was set by less than the tolerance, and stays there, is noted within some seconds. Then another such step costs
/// nobody a vote either.
#[test]
fn a_small_step_is_noted_little_by_little() {
    let mut world = World::settled(3, 1);
    world.run(seconds(2));
    set_by(&mut world, 0, 90);
    world.run(seconds(12));
    let noted = world.clients[0].admission.nodes[0].clock.noted.map(|noted| noted.ahead_ms);
    assert!(noted.is_some_and(|ahead_ms| (70..=90).contains(&ahead_ms)), "{noted:?}");
    set_by(&mut world, 0, 60);
    let other = newcomer(&mut world);
    (0..3).for_each(|_| world.visit(other));
    assert!(world.takes(other, 0) && world.takes(0, 0));
}

/// A node's clock is set forward. Then another node restarts, the third is away, and only a new client is there: it measures the
/// restarted node's clock by that of the first. Returns true if the first node grants while the locks that it has let go too
/// early could still live.
fn grants_by_the_word_of_a_node_in_quarantine(with_data: bool) -> bool {
    let mut world = World::settled(3, 1);
    set_by(&mut world, 0, HALF_A_MINUTE);
    world.restart(1, with_data);
    (0..3).for_each(|node| world.reach(0, node, false));
    let other = newcomer(&mut world);
    world.reach(other, 2, false);
    let mut granted = false;
    for _ in 0..9 {
        world.visit(other);
        granted |= world.takes(other, 0);
        world.advance(seconds(1));
    }
    world.run(MAX_TTL * 2);
    assert!(world.takes(other, 0) && world.takes(other, 1), "the votes come back");
    granted
}

#[test]
fn a_clock_that_was_measured_by_another_one_does_not_show_that_this_was_not_set() {
    for with_data in [true, false] {
        let granted = || grants_by_the_word_of_a_node_in_quarantine(with_data);
        assert!(!granted());
        assert!(without(&[Mechanism::QuarantinedClocksAreNoWitnesses], granted));
    }
}

/// Returns the set's time as that client knows it, in milliseconds since the true time.
fn time_ms(world: &World, client: usize) -> Option<i64> {
    let client = &world.clients[client];
    let time_us = client.admission.time_us(client.now(world.now), false)?;
    let now_us = i64::try_from(world.now.since(Time::default()).as_micros()).expect("short");
    Some((time_us - now_us).div_euclid(1_000))
}

/// Two of five masters are a minute ahead. The set's time does not depend on which of them a client knows.
#[test]
fn the_sets_time_does_not_depend_on_which_nodes_are_heard() {
    let run = || {
        let mut world = World::new(5, &[configuration(5)]);
        (0..2).for_each(|node| world.servers[node].clock_ms = 60_000);
        world.run(MAX_TTL * 3);
        let [first, second] = [[3, 4], [1, 2]].map(|away| {
            let other = newcomer(&mut world);
            away.into_iter().for_each(|node| world.reach(other, node, false));
            world.visit(other);
            time_ms(&world, other).expect("a majority is known")
        });
        assert_eq!(
            (first - second).abs() < 100,
            Mechanism::TimeIsCorrected.is_on(),
            "{first} {second}"
        );
        // One of them forgets, and can be compared only with the nodes whose clocks are right.
        world.restart(0, false);
        world.reach(0, 3, false);
        world.reach(0, 4, false);
        world.run(MAX_TTL * 2);
        let other = newcomer(&mut world);
        [1, 2].into_iter().for_each(|node| world.reach(other, node, false));
        world.visit(other);
        let third = time_ms(&world, other).expect("a majority is known");
        assert_eq!(
            (first - third).abs() < 100,
            Mechanism::TimeIsCorrected.is_on(),
            "{first} {third}"
        );
    };
    run();
    without(&[Mechanism::TimeIsCorrected], run);
}

#[test]
fn the_sets_time_takes_the_clocks_of_a_majority() {
    let mut world = World::settled(5, 1);
    let other = newcomer(&mut world);
    (1..5).for_each(|node| world.reach(other, node, false));
    world.visit(other);
    assert_eq!(time_ms(&world, other), None);
    world.reach(other, 3, true);
    world.visit(other);
    assert_eq!(time_ms(&world, other), None);
    world.reach(other, 4, true);
    world.visit(other);
    assert!(time_ms(&world, other).is_some_and(|ms| ms.abs() < 100));
    // The last reading of a node's clock still counts while the node cannot be reached.
    world.reach(other, 4, false);
    world.advance(seconds(60));
    assert!(time_ms(&world, other).is_some_and(|ms| ms.abs() < 100));
}
