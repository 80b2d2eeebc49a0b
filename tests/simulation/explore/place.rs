//! The events at which a run may deviate.
//!
//! A deviation of a node stands directly in front of a request that the node is about to run, and one of a client in front
//! of an event of that client. Everywhere else it would commute with the events up to there, and change nothing.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::trouble::{Trouble, Troubles};
use crate::simulation::client::Note;
use crate::simulation::network::{ConnId, Event};
use crate::simulation::subscriptions::News;
use crate::simulation::world::World;

/// The kinds of messages in front of which a run may deviate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// Requests about locks and their answers, and threads.
    pub(super) locks: bool,
    /// Questions about nodes, command by command: the script of a probe, both sections of `INFO`, readings of clocks, and the end
    /// of old connections.
    pub(super) nodes: bool,
    /// Messages between subscribers and nodes.
    pub(super) subscribers: bool,
}

impl Places {
    pub(super) const NONE: Self = Self { locks: false, nodes: false, subscribers: false };
    pub(super) const LOCKS: Self = Self { locks: true, ..Self::NONE };
    pub(super) const NODES: Self = Self { nodes: true, ..Self::NONE };
    pub(super) const SUBSCRIBERS: Self = Self { subscribers: true, ..Self::NONE };
    pub(super) const ALL: Self = Self { locks: true, nodes: true, subscribers: true };

    /// Returns true if a run may deviate at a request of that kind.
    fn has(self, what: &str) -> bool {
        match what {
            "probe" | "change" | "info" | "clock" | "end" => self.nodes,
            "check" | "" => false,
            _ => self.locks,
        }
    }
}

/// The participants that a deviation at an event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A request of a client that a node is about to run.
    Request { client: usize, node: usize, conn: ConnId, what: &'static str },
    /// An answer that a client is about to read.
    Answer { client: usize, node: usize, conn: ConnId, what: &'static str },
    /// A message of a client's subscriber that a node is about to read.
    Subscribing { client: usize, node: usize },
    /// A message of a node that a client's subscriber is about to read.
    Told { client: usize, node: usize },
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
            Self::Subscribing { client, node } => {
                write!(f, "a message of the subscriber of client {client} at node {node}")
            }
            Self::Told { client, node } => {
                write!(f, "a message of node {node} to the subscriber of client {client}")
            }
            Self::Thread { client } => write!(f, "a thread of client {client}"),
        }
    }
}

impl At {
    /// Returns the participants of an event, if a run may deviate there.
    pub(super) fn of(world: &World, event: Event, places: Places) -> Option<Self> {
        let runs = |client: usize| world.clients[client].runs();
        match event {
            Event::AtNode { conn, late: false } => {
                let (client, node, what) = world.net.next_request(conn)?;
                places.has(what).then_some(Self::Request { client, node, conn, what })
            }
            Event::AtClient { conn } => {
                let (client, node, what) = world.net.next_answer(conn)?;
                let is_read = runs(client) && places.has(what);
                is_read.then_some(Self::Answer { client, node, conn, what })
            }
            Event::Listen { client, node, session }
            | Event::Subscribe { client, node, session, .. } => {
                let arrives = world.net.arrives(client, node, session);
                (places.subscribers && arrives).then_some(Self::Subscribing { client, node })
            }
            Event::ForClient { client, note: Note::Heard { node, session, news } } => {
                let of_node = matches!(news, News::Open | News::Listening | News::Released(..));
                let is_read =
                    of_node && runs(client) && world.net.is_listening(client, node, session);
                (places.subscribers && is_read).then_some(Self::Told { client, node })
            }
            Event::ForClient {
                client,
                note: note @ (Note::Caller { .. } | Note::Renewal { .. }),
            } => {
                let is_of_use = runs(client) && world.clients[client].heeds(note);
                (places.locks && is_of_use).then_some(Self::Thread { client })
            }
            _ => None,
        }
    }

    /// Feeds `hasher` with its participants and its purpose.
    pub(super) fn hash_purpose(self, hasher: &mut impl Hasher) {
        std::mem::discriminant(&self).hash(hasher);
        (self.client(), self.node()).hash(hasher);
        if let Self::Request { what, .. } | Self::Answer { what, .. } = self {
            what.hash(hasher);
        }
    }

    /// Returns the troubles that may come in front of it.
    pub(super) fn troubles(self, world: &World) -> Troubles {
        match self {
            Self::Request { node, .. } => {
                let all = Troubles::OF_REQUESTS.and(Troubles::OF_NODES);
                all.without(unpromised(world, node))
            }
            Self::Answer { client, .. } => {
                Troubles::OF_ANSWERS.and(Self::Thread { client }.troubles(world))
            }
            Self::Subscribing { .. } | Self::Told { .. } => Troubles::OF_SUBSCRIBERS,
            Self::Thread { client } => {
                let but = if world.clients[client].calls() {
                    Troubles::default()
                } else {
                    Troubles::of(&[Trouble::CallEnds])
                };
                Troubles::OF_CLIENTS.without(but)
            }
        }
    }

    /// The node whose place among the nodes matters to the deviation.
    pub(super) fn node(self) -> Option<usize> {
        match self {
            Self::Request { node, .. }
            | Self::Answer { node, .. }
            | Self::Subscribing { node, .. }
            | Self::Told { node, .. } => Some(node),
            Self::Thread { .. } => None,
        }
    }

    pub(super) fn client(self) -> usize {
        match self {
            Self::Request { client, .. }
            | Self::Answer { client, .. }
            | Self::Subscribing { client, .. }
            | Self::Told { client, .. }
            | Self::Thread { client } => client,
        }
    }
}

/// Returns the steps of the clock of `node` with which more than one clock would be set by more than the tolerance. No lock is
/// promised then.
fn unpromised(world: &World, node: usize) -> Troubles {
    let tolerance = world.plan.clock_tolerance;
    let nodes = world.net.nodes.iter().enumerate();
    let mut others = nodes.filter(|(other, _)| *other != node).map(|(_, node)| node.gained());
    if !others.any(|gained| gained > tolerance) {
        Troubles::default()
    } else if world.net.nodes[node].gained().is_zero() {
        Troubles::of(&[Trouble::StepJustAbove, Trouble::StepAbove])
    } else {
        Troubles::of(&[Trouble::StepBelow, Trouble::StepJustAbove, Trouble::StepAbove])
    }
}
