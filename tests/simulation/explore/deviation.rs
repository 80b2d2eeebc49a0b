//! Deviations from the usual run: the troubles that the explorer may put in front of one event.
//!
//! A deviation of a node stands directly in front of a request that the node is about to run, and one of a client in front
//! of an event of that client. Everywhere else it would commute with the events up to there, and change nothing.

use std::fmt;
use std::time::Duration;

use crate::simulation::client::Note;
use crate::simulation::faults::{self, Fault, Scheduled};
use crate::simulation::network::{ConnId, Event};
use crate::simulation::world::World;

/// One trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Trouble {
    /// The request never arrives, nor does a later one over its connection. Nobody is told.
    RequestLost,
    /// The request, and all behind it on its connection, arrives after its client has given the connection up.
    RequestLate,
    /// As `RequestLate`, and after the lock that it is about has ended.
    RequestVeryLate,
    /// The request arrives behind all that are on their way.
    RequestDelayed,
    /// The request arrives just before the end of the time for its answer.
    RequestSlow,
    /// The answer never arrives, nor does a later one over its connection.
    AnswerLost,
    /// The answer arrives behind all messages that are on their way.
    AnswerDelayed,
    /// The node's process ends, and another one begins at once, without its data.
    Amnesia,
    /// The node's clock is set forward by a little less than the clock tolerance.
    StepBelow,
    /// The node's clock is set forward by more than any lock lives.
    StepAbove,
    /// The client does not run until its requests have timed out.
    Suspended,
    /// The client does not run until its lock has ended.
    SuspendedLong,
    /// The client's process is killed. It is started again when everything is healed.
    Killed,
    /// The call ends, as if its deadline had come.
    CallEnds,
    /// An operator at the other client forces the lock open.
    Forced,
}

impl Trouble {
    pub(super) const ALL: [Self; 15] = [
        Self::RequestLost,
        Self::RequestLate,
        Self::RequestVeryLate,
        Self::RequestDelayed,
        Self::RequestSlow,
        Self::AnswerLost,
        Self::AnswerDelayed,
        Self::Amnesia,
        Self::StepBelow,
        Self::StepAbove,
        Self::Suspended,
        Self::SuspendedLong,
        Self::Killed,
        Self::CallEnds,
        Self::Forced,
    ];

    const OF_REQUESTS: [Self; 5] = [
        Self::RequestLost,
        Self::RequestLate,
        Self::RequestVeryLate,
        Self::RequestDelayed,
        Self::RequestSlow,
    ];
    const OF_ANSWERS: [Self; 2] = [Self::AnswerLost, Self::AnswerDelayed];
    const OF_NODES: [Self; 3] = [Self::Amnesia, Self::StepBelow, Self::StepAbove];
    const OF_CLIENTS: [Self; 4] =
        [Self::Suspended, Self::SuspendedLong, Self::Killed, Self::Forced];
}

/// A set of troubles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Troubles(u16);

impl Troubles {
    /// All that may happen to a lock without anybody's order.
    pub(super) const EVERY: Self = Self((1 << Trouble::Forced as u8) - 1);

    pub(super) fn of(troubles: &[Trouble]) -> Self {
        Self(troubles.iter().fold(0, |bits, trouble| bits | 1 << *trouble as u8))
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn out_of(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn without(self, trouble: Trouble) -> Self {
        Self(self.0 & !(1 << trouble as u8))
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Trouble> {
        Trouble::ALL.into_iter().filter(move |trouble| self.0 & 1 << *trouble as u8 != 0)
    }
}

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

/// The participant that a deviation at an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A request of a client that a node is about to run.
    Request { client: usize, node: usize, conn: ConnId, what: &'static str },
    /// An answer that a client is about to read.
    Answer { client: usize, node: usize, conn: ConnId, what: &'static str },
    /// A thread of a client is about to run.
    Thread { client: usize },
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request { client, node, what, .. } => {
                write!(f, "the {what} of client {client} at node {node}")
            }
            Self::Answer { client, node, what, .. } => {
                write!(f, "the answer of node {node} to the {what} of client {client}")
            }
            Self::Thread { client } => write!(f, "a thread of client {client}"),
        }
    }
}

impl At {
    /// Returns the participant of an event at which a run may deviate.
    pub(super) fn of(world: &World, event: Event) -> Option<Self> {
        match event {
            Event::AtNode { conn, late: false } => {
                let (client, node, what) = world.net.next_request(conn)?;
                is_of_lock(what).then_some(Self::Request { client, node, conn, what })
            }
            Event::AtClient { conn } => {
                let (client, node, what) = world.net.next_answer(conn)?;
                let runs = world.clients[client].runs();
                (runs && is_of_lock(what)).then_some(Self::Answer { client, node, conn, what })
            }
            Event::ForClient {
                client,
                note: note @ (Note::Caller { .. } | Note::Renewal { .. }),
            } => {
                let is_of_use = world.clients[client].runs() && world.clients[client].heeds(note);
                is_of_use.then_some(Self::Thread { client })
            }
            _ => None,
        }
    }

    /// Returns the troubles that may come in front of it.
    pub(super) fn troubles(self, world: &World) -> Troubles {
        match self {
            Self::Request { node, .. } => {
                let all = Troubles::of(&Trouble::OF_REQUESTS).and(Troubles::of(&Trouble::OF_NODES));
                // No lock is promised if the clocks of several nodes are set by more than the tolerance.
                let is_set = |other: usize| {
                    other != node && world.net.nodes[other].was_set_far(world.plan.clock_tolerance)
                };
                let but = (0..world.net.nodes.len()).any(is_set);
                if but { all.without(Trouble::StepAbove) } else { all }
            }
            Self::Answer { client, .. } => {
                Troubles::of(&Trouble::OF_ANSWERS).and(Self::Thread { client }.troubles(world))
            }
            Self::Thread { client } => {
                let all = Troubles::of(&Trouble::OF_CLIENTS);
                let calls = world.clients[client].calls();
                if calls { all.and(Troubles::of(&[Trouble::CallEnds])) } else { all }
            }
        }
    }

    /// The node whose place among the nodes matters to the deviation.
    pub(super) fn node(self) -> Option<usize> {
        match self {
            Self::Request { node, .. } | Self::Answer { node, .. } => Some(node),
            Self::Thread { .. } => None,
        }
    }

    fn client(self) -> usize {
        match self {
            Self::Request { client, .. }
            | Self::Answer { client, .. }
            | Self::Thread { client } => client,
        }
    }
}

/// Returns true if a request is about a lock, and not about its node.
fn is_of_lock(what: &str) -> bool {
    !matches!(what, "probe" | "check" | "change" | "")
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
        (Trouble::RequestDelayed | Trouble::AnswerDelayed, _) => {
            world.net.schedule(now + times.behind, event);
            return None;
        }
        (Trouble::RequestSlow, _) => {
            world.net.schedule(now + times.slow, event);
            return None;
        }
        (Trouble::AnswerLost, At::Answer { conn, .. }) => world.net.mute(conn),
        (Trouble::Amnesia, _) => of_node(world, node, |node| Fault::Amnesia { node }),
        (Trouble::StepBelow, _) => {
            let by = world.plan.clock_tolerance.mul_f64(0.95);
            of_node(world, node, |node| Fault::ClockJumps { node, by });
        }
        (Trouble::StepAbove, _) => {
            let by = world.plan.longest_ttl() * 2;
            of_node(world, node, |node| Fault::ClockJumps { node, by });
        }
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
            | Trouble::AnswerLost,
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
        let latency = Duration::from_millis(world.plan.latency_ms);
        let timeout = world.plan.node_timeout;
        Self {
            behind: latency.mul_f64(1.6),
            slow: timeout - latency * 2,
            late: timeout * 2,
            ended: world.plan.ttl + timeout,
        }
    }
}
