//! A set of nodes in some state, and its clients that want a kind of lock.

use std::ops::Range;
use std::time::Duration;

use quorlock::{Builder, HoldClass, Quorlock};

use crate::clients::{Client, Rival};
use crate::masters::Masters;
use crate::support::kinds::{AnyKind, KINDS};
use crate::support::{access, wait_until};

/// Long enough for a busy machine to keep every lock of a test alive.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// The longest extension in any test.
const LONGEST_TTL: Duration = Duration::from_secs(60);

/// The shortest TTL that the node timeout allows, for the tests that wait for the end of a lock.
pub(crate) const SHORT_TTL: Duration = Duration::from_millis(2_000);

const NODE_TIMEOUT: Duration = Duration::from_millis(1_000);

/// The set-up of clients.
#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    prefix: &'static str,
    local_queue: bool,
}

pub(crate) const VARIANTS: [Variant; 2] = [
    Variant { name: "prefixed", prefix: "quorlock:", local_queue: true },
    Variant { name: "bare_without_local_queues", prefix: "", local_queue: false },
];

/// The number of nodes, and the faults of some of them.
#[derive(Clone, Copy)]
pub(crate) struct Topology {
    pub(crate) name: &'static str,
    nodes: usize,
    dead: usize,
    hung: usize,
    /// True if the hung nodes stop before the first client connects to them, false if after that.
    hung_first: bool,
    /// True if restarted nodes have a quarantine, as by default. The nodes of these worlds are fresh and have
    /// forgotten nothing, so clients admit them, or switch the quarantine off.
    quarantine: bool,
    start: fn(usize) -> Masters,
}

const fn healthy(name: &'static str, nodes: usize) -> Topology {
    Topology {
        name,
        nodes,
        dead: 0,
        hung: 0,
        hung_first: false,
        quarantine: false,
        start: Masters::servers,
    }
}

pub(crate) const TOPOLOGIES: &[Topology] = &[
    healthy("1", 1),
    healthy("3", 3),
    healthy("4", 4),
    Topology { quarantine: true, ..healthy("5", 5) },
    Topology { dead: 1, ..healthy("3_with_1_dead", 3) },
    Topology { hung: 2, hung_first: true, ..healthy("5_with_2_hung_before", 5) },
    Topology { hung: 2, ..healthy("5_with_2_hung_after", 5) },
    #[cfg(feature = "embedded")]
    Topology {
        dead: 1,
        hung: 1,
        quarantine: true,
        start: Masters::embedded,
        ..healthy("5_embedded_with_1_dead_and_1_hung", 5)
    },
];

impl Topology {
    /// The hung nodes, which follow the dead ones.
    fn hung(&self) -> Range<usize> {
        self.dead..self.dead + self.hung
    }
}

/// The user name of operators.
const OPERATOR: &str = "operator";

/// The servers of one topology, and a kind of lock. The faulty servers come first, so that a client that asks one
/// node after the other meets them.
pub(crate) struct World {
    pub(crate) servers: Masters,
    pub(crate) kind: &'static dyn AnyKind,
    topology: Topology,
    variant: Variant,
}

impl World {
    pub(crate) fn new(kind: &'static dyn AnyKind, topology: Topology, variant: Variant) -> Self {
        let mut servers = (topology.start)(topology.nodes);
        for kind in KINDS {
            let commands = [access::EVERY_CLIENT, kind.commands()].concat();
            servers.set_user(&access::user(kind.label(), variant.prefix, &commands));
        }
        let operators = [access::EVERY_CLIENT, access::OPERATORS].concat();
        servers.set_user(&access::user(OPERATOR, variant.prefix, &operators));
        (0..topology.dead).for_each(|i| servers.kill(i));
        if topology.hung_first {
            topology.hung().for_each(|i| servers.hang(i));
        }
        Self { servers, kind, topology, variant }
    }

    /// Another client with connections of its own, like one of another process.
    pub(crate) fn client(&mut self) -> Client {
        Client::new(self.quorlock(self.kind), self.kind)
    }

    /// Another client, whose locks exclude those of the world's kind. They are of that kind if it is exclusive,
    /// or else of the first exclusive kind.
    pub(crate) fn rival(&mut self) -> Rival {
        let is_exclusive = |kind: &&dyn AnyKind| kind.hold_class() == HoldClass::Exclusive;
        let all = [self.kind].into_iter().chain(KINDS.iter().copied());
        let kind = all.into_iter().find(is_exclusive).expect("the exclusive lock");
        Rival::new(self.quorlock(kind), kind, self.kind)
    }

    /// Another client, which also has an operator's permissions.
    pub(crate) fn operator(&mut self) -> Client {
        Client::new(self.client_of(OPERATOR), self.kind)
    }

    /// A client with the permissions that every client and the kind need. On real servers it has no more.
    pub(crate) fn quorlock(&mut self, kind: &dyn AnyKind) -> Quorlock {
        self.client_of(kind.label())
    }

    fn client_of(&mut self, user: &str) -> Quorlock {
        let locks = self.builder_of(user).build().expect("the settings are valid");
        let Topology { dead, hung, hung_first, .. } = self.topology;
        if hung > 0 && !hung_first {
            self.topology.hung().for_each(|i| self.servers.resume(i));
            wait_until("the client is connected", Duration::from_secs(10), || {
                locks.node_stats().iter().skip(dead).all(|node| node.connected)
            });
            self.admit(&locks);
            self.topology.hung().for_each(|i| self.servers.hang(i));
        } else {
            self.admit(&locks);
        }
        locks
    }

    fn admit(&self, locks: &Quorlock) {
        if self.topology.quarantine {
            locks.admit().expect("a majority can be reached");
        }
    }

    pub(crate) fn builder(&self, kind: &dyn AnyKind) -> Builder {
        self.builder_of(kind.label())
    }

    fn builder_of(&self, user: &str) -> Builder {
        Quorlock::builder()
            .nodes(self.servers.urls_of(user))
            .key_prefix(self.variant.prefix)
            .local_queue(self.variant.local_queue)
            .ttl(TTL)
            .node_timeout(NODE_TIMEOUT)
            .max_ttl(LONGEST_TTL)
            .restart_quarantine(self.topology.quarantine)
    }

    /// Returns true if threads of one client wait for each other without asking nodes.
    pub(crate) fn has_local_queues(&self) -> bool {
        self.variant.local_queue
    }

    /// The key of a lock on the nodes.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.variant.prefix)
    }

    /// Runs a command on every node that can answer, as another program would.
    pub(crate) fn command_everywhere(&self, command: &[&str]) -> Vec<redis::Value> {
        self.healthy().map(|i| self.servers.command(i, command)).collect()
    }

    /// The healthy nodes.
    fn healthy(&self) -> Range<usize> {
        self.topology.dead + self.topology.hung..self.servers.len()
    }

    /// Makes all healthy nodes hang.
    pub(crate) fn hang_healthy(&mut self) {
        self.healthy().for_each(|i| self.servers.hang(i));
    }

    /// Ends the hang of the healthy nodes.
    pub(crate) fn resume_healthy(&mut self) {
        self.healthy().for_each(|i| self.servers.resume(i));
    }

    /// Waits until no node has a key of a lock. Hung nodes wake up for it.
    pub(crate) fn end(mut self) {
        self.servers.wait_no_keys();
        self.topology.hung().for_each(|i| self.servers.resume(i));
        self.servers.wait_no_keys();
    }
}
