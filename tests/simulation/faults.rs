//! Faults of nodes, clients and the network, and how each begins and ends.

use std::fmt;
use std::time::Duration;

use super::claim::MARK;
use super::network::Way;
use super::world::World;

#[derive(Clone, Debug)]
pub(super) struct Scheduled {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) fault: Fault,
}

#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The node accepts everything and does nothing (SIGSTOP); later it does all of it.
    Hung {
        node: usize,
    },
    /// The node's process is gone, and comes back with its data.
    Down {
        node: usize,
    },
    /// The node's process is started anew, and loads its data. Meanwhile it answers that it cannot serve.
    Loading {
        node: usize,
    },
    /// The node's process is gone, and comes back without its data. Without a quarantine, it stays away until every
    /// lock that it may have forgotten has ended.
    Amnesia {
        node: usize,
    },
    /// The node's data is flushed. Without a quarantine, no client can reach it while this lasts.
    Flushed {
        node: usize,
    },
    /// For a moment, the node was a replica of a copy that had only its mark. No connection has ended.
    Promoted {
        node: usize,
    },
    /// A replica is promoted in the place of the node, and has only its mark. The first `clients` still reach the old master, until
    /// this ends.
    TakenOver {
        node: usize,
        clients: usize,
    },
    /// The old master of a node that was taken over takes no writes any more.
    OldMasterStops,
    /// The node's wall clock is set forward, which ends its keys. No client can reach it while this lasts.
    WallClockForward {
        node: usize,
        by: Duration,
    },
    /// The node's wall clock is set forward, which ends its keys. Clients reach it as before.
    ClockJumps {
        node: usize,
        by: Duration,
    },
    /// Nothing gets through between the two, and neither side is told.
    Cut {
        client: usize,
        node: usize,
    },
    /// The client is cut off from all nodes but the first `split`.
    Isolated {
        client: usize,
        split: usize,
    },
    /// Requests arrive, replies do not.
    RepliesLost {
        client: usize,
        node: usize,
    },
    AllRepliesLost {
        client: usize,
    },
    /// Each message between the two takes that much longer.
    Slow {
        client: usize,
        node: usize,
        by: Duration,
    },
    /// Requests take that much longer, answers do not.
    SlowRequests {
        client: usize,
        node: usize,
        by: Duration,
    },
    /// Answers take that much longer, requests do not.
    SlowAnswers {
        client: usize,
        node: usize,
        by: Duration,
    },
    /// The connection is closed. Requests on their way may still run, even much later.
    Reset {
        client: usize,
        node: usize,
    },
    ResetAll {
        client: usize,
    },
    /// Requests that the client writes over its present connections arrive when this ends, at all nodes but the first
    /// `split`. Connections that it makes meanwhile work.
    Held {
        client: usize,
        split: usize,
    },
    /// The process does not run (SIGSTOP, a swapping machine).
    Paused {
        client: usize,
    },
    /// The client's machine is suspended, and its clock stands still.
    Asleep {
        client: usize,
    },
    /// The node's replica gets no writes, until this ends or the replica is promoted.
    ReplicaLags {
        node: usize,
    },
    /// The node's process ends, and its replica takes over with the data that it has.
    FailsOver {
        node: usize,
    },
    /// The process is killed; another one starts in its place when this ends.
    Crashed {
        client: usize,
    },
    /// The process drops all its guards and calls of the library. It begins anew when this ends.
    Dropped {
        client: usize,
    },
    /// Somebody deletes the keys of a lock, on all nodes.
    Deleted {
        name: usize,
    },
    /// An operator at the client forces the lock open.
    Forced {
        client: usize,
        name: usize,
    },
    /// An operator at the client has new nodes admitted if they show that no lock is held.
    AdmittedIfUnused {
        client: usize,
    },
    /// The holders of the lock at the client hear that somebody asks for it.
    AskedFor {
        client: usize,
        name: usize,
    },
    /// The node is out of memory: it sets no new key, and says so.
    Full {
        node: usize,
    },
    /// The node refuses new subscriptions. Existing subscribers still hear messages.
    SubscribersRefused {
        node: usize,
    },
    /// The node forgets all scripts (SCRIPT FLUSH).
    ScriptsForgotten {
        node: usize,
    },
    /// The node's wall clock is set back.
    WallClockBack {
        node: usize,
        by: Duration,
    },
    /// A client with wrong clocks has left a number of the first name on the node. The number is that far ahead of
    /// the time.
    LargeNumber {
        node: usize,
        by: Duration,
    },
}

impl Fault {
    /// Returns true if a node forgets locks; with a `quarantine`, only if that goes unnoticed.
    pub(super) fn forgets(&self, quarantine: bool) -> bool {
        match self {
            Self::WallClockForward { .. } => true,
            Self::Amnesia { .. }
            | Self::Flushed { .. }
            | Self::Promoted { .. }
            | Self::TakenOver { .. }
            | Self::ClockJumps { .. } => !quarantine,
            _ => false,
        }
    }
}

impl Fault {
    /// Returns true if keys end earlier than the clock tolerance allows for.
    fn ends_keys_early(&self, clock_tolerance: Duration) -> bool {
        !matches!(self, Self::ClockJumps { by, .. } if *by <= clock_tolerance)
    }

    /// Returns the node whose server is troubled by it, if it is about a server.
    pub(super) fn server(&self) -> Option<usize> {
        match *self {
            Self::Hung { node }
            | Self::Down { node }
            | Self::Loading { node }
            | Self::Amnesia { node }
            | Self::Flushed { node }
            | Self::Full { node }
            | Self::SubscribersRefused { node }
            | Self::ScriptsForgotten { node }
            | Self::Promoted { node }
            | Self::WallClockForward { node, .. }
            | Self::WallClockBack { node, .. }
            | Self::ClockJumps { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Returns true if it sets a node's wall clock.
    pub(super) fn steps(&self) -> bool {
        matches!(
            self,
            Self::WallClockBack { .. } | Self::WallClockForward { .. } | Self::ClockJumps { .. }
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hung { node } => write!(f, "node {node} hangs"),
            Self::Down { node } => write!(f, "node {node} is stopped, and keeps its data"),
            Self::Loading { node } => write!(f, "node {node} is started anew, and loads its data"),
            Self::Amnesia { node } => write!(f, "node {node} is stopped, and loses its data"),
            Self::Promoted { node } => write!(f, "node {node} was a replica for a moment"),
            Self::TakenOver { node, clients } => write!(
                f,
                "a replica takes over node {node}, and the first {clients} clients still reach the old master"
            ),
            Self::OldMasterStops => write!(f, "the old master takes no writes any more"),
            Self::Flushed { node } => write!(f, "node {node} is flushed"),
            Self::WallClockForward { node, by } | Self::ClockJumps { node, by } => {
                write!(f, "the wall clock of node {node} is set forward by {by:?}")
            }
            Self::Cut { client, node } => write!(f, "client {client} and node {node} are cut off"),
            Self::Isolated { client, split } => {
                write!(f, "client {client} is cut off from all nodes but the first {split}")
            }
            Self::RepliesLost { client, node } => {
                write!(f, "replies of node {node} to client {client} get lost")
            }
            Self::AllRepliesLost { client } => write!(f, "replies to client {client} get lost"),
            Self::Slow { client, node, by } => {
                write!(f, "between client {client} and node {node} everything takes {by:?} longer")
            }
            Self::SlowRequests { client, node, by } => {
                write!(f, "requests of client {client} to node {node} take {by:?} longer")
            }
            Self::SlowAnswers { client, node, by } => {
                write!(f, "answers of node {node} to client {client} take {by:?} longer")
            }
            Self::Reset { client, node } => {
                write!(f, "the connection between client {client} and node {node} is reset")
            }
            Self::ResetAll { client } => write!(f, "all connections of client {client} are reset"),
            Self::Held { client, split } => write!(
                f,
                "what client {client} writes over its present connections is held up, for all nodes \
                 but the first {split}"
            ),
            Self::Paused { client } => write!(f, "client {client} is paused"),
            Self::Asleep { client } => write!(f, "client {client} and its clock stand still"),
            Self::ReplicaLags { node } => write!(f, "the replica of node {node} gets no writes"),
            Self::FailsOver { node } => write!(f, "the replica of node {node} takes over"),
            Self::Crashed { client } => write!(f, "client {client} is killed"),
            Self::Dropped { client } => write!(f, "client {client} drops its locks"),
            Self::Full { node } => write!(f, "node {node} is out of memory"),
            Self::ScriptsForgotten { node } => write!(f, "node {node} forgets all scripts"),
            Self::SubscribersRefused { node } => write!(f, "node {node} refuses subscribers"),
            Self::Forced { client, name } => {
                write!(f, "an operator at client {client} forces name {name} open")
            }
            Self::AdmittedIfUnused { client } => {
                write!(f, "an operator at client {client} admits the nodes if no lock is held")
            }
            Self::AskedFor { client, name } => {
                write!(f, "the holders of name {name} at client {client} are asked for it")
            }
            Self::Deleted { name } => write!(f, "the keys of name {name} are deleted"),
            Self::WallClockBack { node, by } => {
                write!(f, "the wall clock of node {node} is set back by {by:?}")
            }
            Self::LargeNumber { node, by } => {
                write!(f, "node {node} has a number that is {by:?} ahead of the time")
            }
        }
    }
}

/// Begins the fault.
pub(super) fn begin(world: &mut World, fault: &Fault) {
    world.net.tell(|| format!("-- {fault}"));
    let nodes = world.net.nodes.len();
    match *fault {
        Fault::Amnesia { node }
        | Fault::Flushed { node }
        | Fault::Promoted { node }
        | Fault::TakenOver { node, .. }
        | Fault::ClockJumps { node, .. }
        | Fault::WallClockForward { node, .. }
            if fault.ends_keys_early(world.plan.clock_tolerance) =>
        {
            world.forgets(node);
            world.net.checks.unguarded |= fault.forgets(world.plan.quarantine);
            if !fault.steps() {
                // A clock that is set just before a change of the mark is found out by the next reading.
                let longest = world.plan.longest_ttl() - world.plan.clock_tolerance;
                world.net.nodes[node].forgot_until = world.net.now + longest.mul_f64(0.98);
            }
        }
        _ => {}
    }
    match *fault {
        Fault::Hung { node } => world.net.nodes[node].hung += 1,
        Fault::Full { node } => world.net.nodes[node].full += 1,
        Fault::SubscribersRefused { node } => world.net.nodes[node].refuses_listeners += 1,
        Fault::ScriptsForgotten { node } => world.net.nodes[node].forget_scripts(),
        Fault::Down { node } => world.net.stop(node, true),
        Fault::Loading { node } => {
            world.net.stop(node, true);
            world.net.start(node);
            world.net.nodes[node].loading += 1;
        }
        Fault::Amnesia { node } => world.net.stop(node, false),
        Fault::Flushed { node } => {
            world.net.flush(node);
            if !world.plan.quarantine {
                cut_off(world, node);
            }
        }
        Fault::Promoted { node } => {
            let now = world.net.now;
            world.net.nodes[node].promote(MARK, now);
        }
        Fault::TakenOver { node, clients } => {
            let until = world.net.now + world.plan.promoted_grants_nothing_for();
            let writes_until = world.plan.old_master_writes_until();
            world.net.take_over(node, clients, (writes_until, until));
        }
        Fault::OldMasterStops => world.net.stop_old_master(),
        Fault::WallClockForward { node, by } => {
            world.net.nodes[node].set_forward(by);
            cut_off(world, node);
        }
        Fault::ClockJumps { node, by } => {
            let (now, within) = (world.net.now, world.plan.away());
            if world.net.nodes[node].step(by, now, within) > world.plan.clock_tolerance {
                world.forgets(node);
                world.net.checks.unguarded |= fault.forgets(world.plan.quarantine);
            }
        }
        Fault::Cut { client, node } => world.net.link(client, node).cut += 1,
        Fault::Isolated { client, split } => {
            world.net.checks.cut_off(client, Duration::MAX);
            (split..nodes).for_each(|node| world.net.link(client, node).cut += 1);
        }
        Fault::RepliesLost { client, node } => world.net.link(client, node).deaf += 1,
        Fault::AllRepliesLost { client } => {
            (0..nodes).for_each(|node| world.net.link(client, node).deaf += 1);
        }
        Fault::Slow { client, node, by } => {
            let link = world.net.link(client, node);
            *link.slow(Way::ToNode) += by;
            *link.slow(Way::ToClient) += by;
        }
        Fault::SlowRequests { client, node, by } => {
            *world.net.link(client, node).slow(Way::ToNode) += by;
        }
        Fault::SlowAnswers { client, node, by } => {
            *world.net.link(client, node).slow(Way::ToClient) += by;
        }
        Fault::Reset { client, node } => world.net.reset(client, node),
        Fault::ResetAll { client } => (0..nodes).for_each(|node| world.net.reset(client, node)),
        Fault::Held { client, split } => world.net.hold(client, split),
        Fault::Paused { client } => world.clients[client].pause(),
        Fault::Asleep { client } => world.clients[client].falls_asleep(world.net.now),
        Fault::ReplicaLags { node } => world.net.nodes[node].replica_lags(),
        Fault::FailsOver { node } => world.net.fail_over(node),
        Fault::Crashed { client } => world.clients[client].crash(&mut world.net),
        Fault::Dropped { client } => world.clients[client].drop_all(&mut world.net),
        Fault::Deleted { name } => world.net.delete(name),
        Fault::Forced { client, name } => world.clients[client].force(name, &mut world.net),
        Fault::AdmittedIfUnused { client } => {
            world.clients[client].admit_if_unused(&mut world.net);
        }
        Fault::AskedFor { client, name } => world.clients[client].hears_ask(name, &mut world.net),
        Fault::WallClockBack { node, by } => world.net.nodes[node].set_back(by),
        Fault::LargeNumber { node, by } => {
            let now = world.net.now;
            world.net.nodes[node].leave_number(b"{name-0}:fence", by, now);
        }
    }
}

/// Ends the fault.
pub(super) fn end(world: &mut World, fault: &Fault) {
    world.net.tell(|| format!("-- over: {fault}"));
    let nodes = world.net.nodes.len();
    match *fault {
        Fault::Hung { node } => world.net.resume(node),
        Fault::Full { node } => world.net.nodes[node].full -= 1,
        Fault::SubscribersRefused { node } => world.net.nodes[node].refuses_listeners -= 1,
        Fault::Down { node } | Fault::Amnesia { node } => world.net.start(node),
        Fault::Loading { node } => world.net.nodes[node].loading -= 1,
        Fault::TakenOver { .. } => world.net.end_old_master(),
        Fault::Flushed { .. } if world.plan.quarantine => {}
        Fault::Flushed { node } | Fault::WallClockForward { node, .. } => {
            (0..world.clients.len()).for_each(|client| world.net.mend(client, node));
        }
        Fault::Cut { client, node } => world.net.mend(client, node),
        Fault::Isolated { client, split } => {
            world.net.checks.cut_off(client, world.net.now);
            (split..nodes).for_each(|node| world.net.mend(client, node));
        }
        Fault::RepliesLost { client, node } => world.net.hear_again(client, node),
        Fault::AllRepliesLost { client } => {
            (0..nodes).for_each(|node| world.net.hear_again(client, node));
        }
        Fault::Slow { client, node, by } => {
            let link = world.net.link(client, node);
            *link.slow(Way::ToNode) -= by;
            *link.slow(Way::ToClient) -= by;
        }
        Fault::SlowRequests { client, node, by } => {
            *world.net.link(client, node).slow(Way::ToNode) -= by;
        }
        Fault::SlowAnswers { client, node, by } => {
            *world.net.link(client, node).slow(Way::ToClient) -= by;
        }
        Fault::Held { client, split } => world.net.let_go(client, split),
        Fault::Paused { client } => world.clients[client].resume(&mut world.net),
        Fault::Asleep { client } => world.clients[client].wakes_up(&mut world.net),
        Fault::ReplicaLags { node } => world.net.nodes[node].replica_catches_up(),
        Fault::FailsOver { node } => world.net.start(node),
        Fault::Crashed { client } => world.clients[client].start(&mut world.net),
        Fault::Dropped { client } => world.clients[client].begin_anew(&mut world.net),
        Fault::Reset { .. }
        | Fault::ResetAll { .. }
        | Fault::Deleted { .. }
        | Fault::Forced { .. }
        | Fault::AdmittedIfUnused { .. }
        | Fault::AskedFor { .. }
        | Fault::ClockJumps { .. }
        | Fault::Promoted { .. }
        | Fault::OldMasterStops
        | Fault::ScriptsForgotten { .. }
        | Fault::WallClockBack { .. }
        | Fault::LargeNumber { .. } => {}
    }
}

fn cut_off(world: &mut World, node: usize) {
    (0..world.clients.len()).for_each(|client| world.net.link(client, node).cut += 1);
}
