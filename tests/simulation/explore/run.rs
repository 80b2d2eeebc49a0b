//! One run: the usual order of events, but for the given deviations.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use super::cases::Case;
use super::deviation::{Deviation, happen, latest};
use super::place::{At, Places};
use super::properties;
use super::trouble::{Trouble, Troubles};
use crate::core::admission::old_master::OLD_MASTER_WRITES;
use crate::core::base::{POLL, without};
use crate::simulation::checkers::Violation;
use crate::simulation::client::{Note, Phase};
use crate::simulation::network::Event;
use crate::simulation::plan::Plan;
use crate::simulation::setup::{Habit, Loop, Setup};
use crate::simulation::switches::Switches;
use crate::simulation::world::World;

/// Interval at which the end of a run looks at the clients.
const STEP: Duration = Duration::from_millis(20);

/// Locks that live so long are still there when the checkers look for what is left behind.
const LONG: Duration = Duration::from_secs(20);

/// An event at which a run may deviate, behind its last deviation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: u32,
    pub(super) troubles: Troubles,
    /// The node whose place matters, if there is one.
    pub(super) node: Option<usize>,
}

/// The result of a run.
pub(super) struct Explored {
    pub(super) violation: Option<Violation>,
    pub(super) story: Vec<String>,
    /// The events at which the run may deviate next.
    pub(super) points: Vec<Point>,
    /// The nodes of the run's deviations, in order.
    pub(super) nodes: Vec<usize>,
    pub(super) events: u64,
    pub(super) grants: usize,
    /// The same as for another run if all participants have seen the same.
    pub(super) trace: u64,
    /// The same as for another run if the same events have happened in the same order, whatever their times.
    pub(super) order: u64,
}

/// All that has happened so far.
struct Traces {
    /// For each participant: the requests, answers and wake-ups that it has seen, with their times.
    seen: Vec<DefaultHasher>,
    /// The participants of all places at which a run may deviate, in order.
    order: DefaultHasher,
}

impl Traces {
    fn of(world: &World) -> Self {
        let participants = world.clients.len() + world.net.nodes.len();
        Self { seen: vec![DefaultHasher::new(); participants], order: DefaultHasher::new() }
    }

    fn note(&mut self, world: &World, event: Event) {
        if let Some(at) = At::of(world, event, Places::ALL) {
            at.hash_purpose(&mut self.order);
        }
        let mut hasher = DefaultHasher::new();
        world.net.now.hash(&mut hasher);
        let of = match event {
            Event::ForClient { client, note } => {
                world.net.hash_note(note, &mut hasher);
                let heeds = !matches!(note, Note::Caller { .. } | Note::Renewal { .. });
                (heeds || world.clients[client].heeds(note)).then_some(client)
            }
            event => world.net.hash_message(event, &mut hasher),
        };
        if let Some(of) = of {
            self.seen[of].write_u64(hasher.finish());
        }
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.seen.iter().for_each(|trace| hasher.write_u64(trace.finish()));
        hasher.finish()
    }
}

/// Makes the run with these `deviations`, with a story of the events if `told`.
pub(super) fn run(
    case: &Case,
    deviations: &[Deviation],
    switches: Switches,
    told: bool,
) -> Explored {
    without(switches.off, || run_now(case, deviations, switches, told))
}

fn run_now(case: &Case, deviations: &[Deviation], switches: Switches, told: bool) -> Explored {
    let mut world = World::new(&case.plan, switches, told);
    world.until(case.from);
    let (mut points, mut nodes) = (Vec::new(), Vec::new());
    let mut traces = Traces::of(&world);
    let mut sleeps_since = None;
    let (mut number, mut left) = (0, deviations);
    while world.net.checks.violation().is_none() {
        let Some(event) = world.net.next(case.plan.lasts) else { break };
        let Some(at) = At::of(&world, event, case.places) else {
            traces.note(&world, event);
            world.happen(event);
            properties::check(&mut world, &mut sleeps_since);
            continue;
        };
        number += 1;
        let next = match left.split_first() {
            Some((deviation, further)) if deviation.at == number => {
                left = further;
                nodes.extend(at.node());
                happen(&mut world, deviation.trouble, at, event)
            }
            Some(_) => Some(event),
            None => {
                let troubles = at.troubles(&world);
                points.push(Point { at: number, troubles, node: at.node() });
                Some(event)
            }
        };
        if let Some(event) = next {
            traces.note(&world, event);
            world.happen(event);
        }
        properties::check(&mut world, &mut sleeps_since);
    }
    world.net.now = world.net.now.max(case.plan.lasts);
    let count = |trouble| deviations.iter().filter(|it| it.trouble == trouble).count() as u32;
    let promoted = if count(Trouble::Promoted) > 0 { OLD_MASTER_WRITES } else { Duration::ZERO };
    // A release is announced to the first caller in the queue, even to a killed one, whose place ends later and in silence. Behind
    // several of them, a waiter finds out by asking again.
    let killed = if is_fair(&case.plan) { count(Trouble::Killed) } else { 0 };
    end(&mut world, promoted + POLL * killed.saturating_sub(1));
    let run = world.ends();
    let (violation, story, events) = (run.violation, run.story, run.events);
    Explored {
        violation,
        story,
        points,
        nodes,
        events,
        grants: run.grants.len(),
        trace: traces.hash(),
        order: traces.order.finish(),
    }
}

/// Returns true if clients want a fair lock.
fn is_fair(plan: &Plan) -> bool {
    let is_fair =
        |setup: &Setup| matches!(setup.habit, Habit::Loops(Loop { kind: Some("fair_mutex"), .. }));
    plan.setups.iter().any(is_fair)
}

/// Heals everything, and lets the clients finish. Each of them that wants the lock again and again must get it once more.
/// That may take that much `longer` than twice the longest life of a lock and two seconds.
fn end(world: &mut World, longer: Duration) {
    world.net.calm = true;
    let World { clients, net, .. } = world;
    clients.iter_mut().for_each(|client| client.start(net));
    let (healed, granted) = (world.net.now, world.net.checks.grants.len());
    let mut sleeps_since = None;
    // A lock of a killed process ends first, and the quarantine of a node; a waiter may have missed each message.
    let most = world.plan.longest_ttl() * 2 + Duration::from_secs(2) + longer;
    while let Some(client) = waiting(world, granted) {
        if world.net.checks.violation().is_some() {
            return;
        }
        if world.net.now >= healed + most {
            let what =
                format!("client {client} gets no lock within {most:?} after everything was healed");
            return world.net.checks.report(world.net.now, "progress", what);
        }
        world.until(world.net.now + STEP);
        properties::check(world, &mut sleeps_since);
    }
    world.phase(Phase::Draining);
    world.idle_within(most, "waits");
    // The latest requests arrive.
    world.until((world.net.now + STEP * 4).max(healed + latest(world)));
    while let Some((client, node)) = properties::shut_out(world) {
        if world.net.checks.violation().is_some() {
            return;
        }
        if world.net.now >= healed + most * 2 {
            let what = format!(
                "node {node} grants client {client} nothing {most:?} after everything was healed"
            );
            return world.net.checks.report(world.net.now, "progress", what);
        }
        world.until(world.net.now + STEP);
    }
    let now = world.net.now;
    world.net.checks.all_told(now);
    if world.plan.ttl >= LONG {
        // Keys of late requests are excused for a while.
        world.until(now + Duration::from_secs(15));
        world.drain(now + Duration::from_secs(15));
    }
}

/// Returns a client that wants the lock again and again, and has not got it since that many grants.
fn waiting(world: &World, granted: usize) -> Option<usize> {
    let grants = &world.net.checks.grants[granted..];
    let wants = |client: &usize| world.plan.setup(*client).habit.wants_again();
    let lacks = |client: &usize| grants.iter().all(|grant| grant.client != *client);
    (0..world.clients.len()).find(|client| wants(client) && lacks(client))
}
