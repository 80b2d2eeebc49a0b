//! Deviations from the usual run: a trouble in front of one event, and its effect.

use std::fmt;
use std::time::Duration;

use super::place::At;
use super::trouble::Trouble;
use crate::simulation::faults::{self, Fault, Scheduled};
use crate::simulation::network::Event;
use crate::simulation::world::World;

/// A trouble in front of the event with that number, among those at which a run may deviate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deviation {
    pub(super) at: u32,
    pub(super) trouble: Trouble,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.trouble, self.at)
    }
}

/// Lets the trouble happen. Returns the event that follows at once, if there is one.
pub(super) fn happen(world: &mut World, trouble: Trouble, at: At, event: Event) -> Option<Event> {
    world.net.tell(|| format!("-- {trouble:?}: {at}"));
    let times = Times::of(world);
    let now = world.net.now;
    let client = at.client();
    let node = at.node();
    match (trouble, at) {
        (Trouble::RequestLost, At::Request { conn, .. }) => world.net.hold_one(conn),
        (Trouble::RequestLate, At::Request { conn, .. }) => {
            world.net.hold_one(conn);
            world.net.schedule(now + times.late, Event::LetGo { conn });
        }
        (Trouble::RequestVeryLate, At::Request { conn, .. }) => {
            world.net.hold_one(conn);
            world.net.schedule(now + times.ended, Event::LetGo { conn });
        }
        (Trouble::RequestDelayed | Trouble::AnswerDelayed | Trouble::MessageDelayed, _) => {
            world.net.schedule(now + times.behind, event);
            return None;
        }
        (Trouble::RequestSlow | Trouble::AnswerSlow, _) => {
            world.net.schedule(now + times.slow, event);
            return None;
        }
        (Trouble::AnswerLost, At::Answer { conn, .. }) => world.net.mute(conn),
        (Trouble::MessageLost, _) => return None,
        (Trouble::SubscriptionCut, At::Subscribing { node, .. } | At::Told { node, .. }) => {
            world.net.end_listening(client, node);
            return None;
        }
        (Trouble::Amnesia, _) => of_node(world, node, |node| Fault::Amnesia { node }),
        (Trouble::Restarted, _) => of_node(world, node, |node| Fault::Down { node }),
        (Trouble::Flushed, _) => of_node(world, node, |node| Fault::Flushed { node }),
        (Trouble::Promoted, _) => {
            of_node(world, node, |node| Fault::Promoted { node });
            // Until the next probe, other callers leave numbers on the node, which keep the holder's key out.
            world.net.checks.unguarded = true;
        }
        (Trouble::StepBelow, _) => step(world, node, world.plan.clock_tolerance.mul_f64(0.95)),
        (Trouble::StepJustAbove, _) => step(world, node, world.plan.clock_tolerance.mul_f64(1.5)),
        (Trouble::StepAbove, _) => step(world, node, world.plan.longest_ttl() * 2),
        (Trouble::Suspended, _) => suspend(world, client, times.late),
        (Trouble::SuspendedLong, _) => suspend(world, client, times.ended),
        (Trouble::Killed, _) => {
            world.clients[client].crash(&mut world.net);
            return None;
        }
        (Trouble::Forced, _) => {
            let other = (client + 1) % world.clients.len();
            world.clients[other].force(0, &mut world.net);
        }
        (Trouble::CallEnds, _) => world.clients[client].call_ends(&mut world.net),
        (
            Trouble::RequestLost
            | Trouble::RequestLate
            | Trouble::RequestVeryLate
            | Trouble::AnswerLost
            | Trouble::SubscriptionCut,
            _,
        ) => {}
    }
    Some(event)
}

/// Lets a fault of a node begin and end at once. The plan lists it, for the checkers.
fn of_node(world: &mut World, node: Option<usize>, fault: impl FnOnce(usize) -> Fault) {
    let Some(fault) = node.map(fault) else { return };
    let at = world.net.now;
    world.plan.faults.push(Scheduled { at, lasts: Duration::ZERO, fault: fault.clone() });
    faults::begin(world, &fault);
    faults::end(world, &fault);
}

fn step(world: &mut World, node: Option<usize>, by: Duration) {
    of_node(world, node, |node| Fault::ClockJumps { node, by });
}

fn suspend(world: &mut World, client: usize, lasts: Duration) {
    world.clients[client].pause();
    let at = world.net.now + lasts;
    world.net.schedule(at, Event::Resume { client });
}

/// The longest delay of a message.
pub(super) fn latest(world: &World) -> Duration {
    Times::of(world).ended
}

/// The few delays that a trouble may have. The machines compare times with three bounds: the arrival of the other messages,
/// the time for an answer, and the end of a lock. Each delay is on the other side of one of them.
struct Times {
    /// Behind all messages that are on their way, and behind the answers to them.
    behind: Duration,
    /// Just before the time for an answer is over, counted from now.
    slow: Duration,
    /// After the time for an answer, and after the next connection has been made.
    late: Duration,
    /// After a lock that was granted now has ended.
    ended: Duration,
}

impl Times {
    fn of(world: &World) -> Self {
        /// Behind messages that arrive at once, and the threads that they wake.
        const MOMENT: Duration = Duration::from_micros(200);
        let latency = Duration::from_millis(world.plan.latency_ms);
        let timeout = world.plan.node_timeout;
        Self {
            behind: latency.mul_f64(1.6).max(MOMENT),
            slow: timeout - latency * 2,
            late: timeout * 2,
            ended: world.plan.ttl + timeout,
        }
    }
}
