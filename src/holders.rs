//! Reports on the holders of locks, as the nodes answered, for operators and for programs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::base::rounded;
use crate::core::operate::{HeldAs, HeldKey, HolderVote, Holders, KeyLayout, LockState};
use crate::core::vote::FencingToken;
use crate::error::NodeFault;
use crate::ident::{Name, NameText, Owner};

/// The most owners that are shown of many.
const SHOWN: usize = 8;

/// The holders of a lock as the nodes report them, from [`Handle::holder`](crate::Handle::holder).
///
/// The report is for people and for monitoring. It describes the state at the time when the nodes answered. To be sure that
/// nobody else is in a critical section, take the lock.
///
/// `Display` has a line for each name, and one for each node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HolderReport {
    /// A report for each name of the lock, in order. Most locks have one.
    pub names: Vec<NameReport>,
}

impl HolderReport {
    /// Returns the state of the lock: [`Free`](LockState::Free) if all of its names are free, and otherwise the first of
    /// these states that one of them has: [`Held`](LockState::Held), [`Unclear`](LockState::Unclear),
    /// [`Kept`](LockState::Kept).
    #[must_use]
    pub fn state(&self) -> LockState {
        let has = |state: &LockState| self.names.iter().any(|name| name.state == *state);
        let states = [LockState::Held, LockState::Unclear, LockState::Kept];
        states.into_iter().find(has).unwrap_or(LockState::Free)
    }

    /// Returns the owners that have one of the names on a majority of the nodes.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.names.iter().flat_map(|name| &name.holders)
    }

    /// Returns the time after which the lock may be free if it is not renewed: the longest time of its
    /// [names](NameReport::remaining_ttl). `None` if the lock is free.
    #[must_use]
    pub fn remaining_ttl(&self) -> Option<Duration> {
        self.names.iter().filter_map(|name| name.remaining_ttl).max()
    }
}

/// A report on one name of a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NameReport {
    /// The name, without the key prefix.
    pub name: Vec<u8>,
    /// The state according to a majority of the nodes.
    pub state: LockState,
    /// The owners that have the name on a majority of the nodes: one, or several if the lock is shared.
    pub holders: Vec<Holder>,
    /// The time after which a majority of the nodes may be without the name's key, if nobody renews it. `None` if the name
    /// is free, and if the time is unknown. It is unknown if so many nodes have not answered, or may have forgotten the
    /// holder, that the others are no majority.
    ///
    /// The time of one node is the `PTTL` of the key there, and zero if the key is gone or the node has not answered. A key
    /// without expiry, which no lock of quorlock's has, counts as [`Duration::MAX`]. If clients may [fall
    /// back](crate::Fallback) to the first node, that node has to be free as well.
    pub remaining_ttl: Option<Duration>,
    /// Number of callers in the queue of a fair lock, as a majority of the nodes knows. Callers that have died stay in the
    /// queue for some seconds. `None` if there is no queue: waiters for a lock of another kind are not counted.
    pub waiting: Option<u64>,
    /// The answer of each node, in the order of the configuration.
    pub nodes: Vec<NodeReport>,
}

/// The locks that are held, from [`Quorlock::held_locks`](crate::Quorlock::held_locks).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HeldLocks {
    /// A report for each name that is not [`Free`](LockState::Free), sorted by name. A lock with several names has a
    /// report for each of them.
    pub names: Vec<NameReport>,
    /// The reasons why the list may lack a lock that was held throughout the call; empty if it lacks none.
    pub incomplete: Vec<Incomplete>,
    /// The fault of each node that did not count for completeness, since it did not answer, or may have forgotten locks.
    pub faults: Vec<NodeFault>,
}

impl HeldLocks {
    /// Returns true if the list has every lock that was held throughout the call.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }
}

/// The reason why a list of locks may not be complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Incomplete {
    /// There are more names than the call asked for.
    MoreNames,
    /// The time limit was reached before the end of the scan.
    TimeOver,
    /// Too few nodes have answered to the end of the scan and cannot have forgotten any locks.
    TooFewNodes,
}

/// An owner that has a name on a majority of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner, as [`Guard::owner`](crate::Guard::owner) returns it.
    pub owner: Owner,
    /// True if the owner has given the lock back, and the nodes keep it for [`min_hold`](crate::Builder::min_hold).
    pub kept: bool,
    /// The layout of the key, which says something about the kind of the lock.
    pub layout: KeyLayout,
    /// The way in which the lock is held, such as for reading or writing; `None` if the nodes do not say so.
    pub held_as: Option<HeldAs>,
    /// Number of nodes that have the name under this owner.
    pub nodes: usize,
    /// The smallest token that the holder can have; `None` if the nodes keep no numbers.
    ///
    /// Nodes know the lock's number. They do not know how often the threads of a process have handed the lock to each other,
    /// each with the next token. If several clients have contended for the lock, nodes may know a larger number than the
    /// holder's.
    pub token: Option<FencingToken>,
}

/// The answer of one node about a name, or its fault.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node's URL, without user and password.
    pub node: String,
    /// Its answer.
    pub answer: Result<NodeAnswer, NodeFault>,
}

/// The state of a name on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAnswer {
    /// The owners that have the name on the node: at most a hundred. Keys of attempts are among them, which end in a moment.
    pub owners: Vec<Owner>,
    /// The time left of the key on the node if it is not renewed; `None` without a key, or if the key has no expiry.
    pub remaining_ttl: Option<Duration>,
    /// The smallest token of the largest number that the node knows for the name; `None` if it knows none.
    pub token: Option<FencingToken>,
    /// The way in which the lock is held on the node; `None` if nobody has it, or if the node does not say so.
    pub held_as: Option<HeldAs>,
    /// Number of callers in the queue of a fair lock on the node. Callers that have died stay in the queue for some seconds.
    /// `None` if there is no queue.
    pub waiting: Option<u64>,
    /// The type of the key if it is not a lock.
    pub no_lock: Option<String>,
    /// True if the node may have forgotten locks, since it was restarted, emptied or promoted, or since its clock was set.
    /// If nobody has the name on such a node, that does not count.
    pub may_have_forgotten: bool,
}

impl NameReport {
    /// `unanswered` returns the fault of a node that has not answered.
    pub(crate) fn new(
        name: &Name,
        said: &Holders,
        nodes: &[Arc<str>],
        unanswered: impl Fn(usize) -> NodeFault,
    ) -> Self {
        let holding = said.holdings().into_iter().map(|held| {
            let owner = Owner::new(held.owner);
            let before_keeping = owner.before_keeping();
            Holder {
                kept: before_keeping.is_some(),
                owner: before_keeping.unwrap_or(owner),
                layout: held.layout,
                held_as: held.held_as,
                nodes: held.nodes,
                token: FencingToken::new(held.number, 0),
            }
        });
        let holders: Vec<_> = holding.collect();
        let report = |(i, node): (usize, &Arc<str>)| NodeReport {
            node: node.to_string(),
            answer: said.votes()[i]
                .as_ref()
                .map_or_else(|| Err(unanswered(i)), |vote| Ok(NodeAnswer::new(vote))),
        };
        let state = match said.state() {
            LockState::Held if holders.iter().all(|holder| holder.kept) => LockState::Kept,
            state => state,
        };
        let remaining_ttl = match (state, said.free_after()) {
            // No majority has a key of anybody, but there may still be a holder.
            (LockState::Free, _) | (LockState::Unclear, Duration::ZERO) => None,
            (_, free_after) => Some(free_after),
        };
        Self {
            name: name.as_bytes().to_vec(),
            state,
            holders,
            remaining_ttl,
            waiting: counted(said.waiting()),
            nodes: nodes.iter().enumerate().map(report).collect(),
        }
    }
}

impl NodeReport {
    fn may_have_forgotten(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| answer.may_have_forgotten)
    }
}

impl NodeAnswer {
    pub(crate) fn new(vote: &HolderVote) -> Self {
        let (owners, remaining_ttl, no_lock) = match &vote.key {
            HeldKey::Nothing => (&[][..], None, None),
            HeldKey::Lock { owners, lives, .. } => (owners.as_slice(), *lives, None),
            HeldKey::NoLock(what) => (&[][..], None, Some(what.escape_debug().take(64).collect())),
        };
        Self {
            owners: owners.iter().cloned().map(Owner::new).collect(),
            remaining_ttl,
            token: FencingToken::new(vote.number, 0),
            held_as: vote.held_as,
            waiting: counted(vote.waiting),
            no_lock,
            may_have_forgotten: vote.forgetful,
        }
    }
}

/// An empty queue counts as no queue, as on the nodes.
fn counted(waiting: u64) -> Option<u64> {
    (waiting > 0).then_some(waiting)
}

impl fmt::Display for LockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Held => "held",
            Self::Kept => "kept",
            Self::Free => "free",
            Self::Unclear => "unclear",
        })
    }
}

impl fmt::Display for KeyLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::String => "string",
            Self::Hash => "hash",
        })
    }
}

impl fmt::Display for HeldAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Exclusive => "exclusive",
            Self::Reentrant => "reentrant",
            Self::Read => "read",
            Self::Write => "write",
            Self::Semaphore { permits } => return write!(f, "semaphore of {permits}"),
        })
    }
}

impl fmt::Display for HolderReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "\n" })?;
            name.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for NameReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&NameText(&self.name), f)?;
        write!(f, " is {}", self.state)?;
        for (i, holder) in self.holders.iter().take(SHOWN).enumerate() {
            f.write_str(if i == 0 { " by " } else { " and " })?;
            write!(f, "{holder}")?;
        }
        f.write_str(if self.holders.len() > SHOWN { " and others" } else { "" })?;
        match self.remaining_ttl {
            None => {}
            Some(Duration::MAX) => f.write_str("; it does not end by itself")?,
            Some(ttl) if self.state == LockState::Kept => {
                write!(f, "; it may be free in {}", rounded(ttl))?;
            }
            Some(ttl) => write!(f, "; without a renewal it may be free in {}", rounded(ttl))?,
        }
        if self.state == LockState::Unclear && self.nodes.iter().any(NodeReport::may_have_forgotten)
        {
            f.write_str("; nodes that may have forgotten its holder grant it to nobody for now")?;
        }
        if let Some(waiting) = self.waiting {
            write!(f, "; in its queue: {waiting}")?;
        }
        self.nodes.iter().try_for_each(|node| write!(f, "\n  {node}"))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = if self.nodes == 1 { "node" } else { "nodes" };
        write!(f, "{} (", self.owner)?;
        match self.held_as {
            Some(held_as) => write!(f, "{held_as}")?,
            None => write!(f, "{}", self.layout)?,
        }
        write!(f, ", {} {nodes}", self.nodes)?;
        match self.token {
            Some(token) => write!(f, ", token {token})"),
            None => f.write_str(")"),
        }
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.node)?;
        match &self.answer {
            Ok(answer) => answer.fmt(f),
            Err(fault) => f.write_str(fault.what()),
        }
    }
}

impl fmt::Display for NodeAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.no_lock, self.owners.as_slice()) {
            (Some(what), _) => write!(f, "no lock, but {what}")?,
            (None, []) => f.write_str("nobody")?,
            (None, owners) => {
                for (i, owner) in owners.iter().take(SHOWN).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    owner.fmt(f)?;
                }
                f.write_str(if owners.len() > SHOWN { ", .." } else { "" })?;
                match self.remaining_ttl {
                    Some(ttl) => write!(f, ", for {}", rounded(ttl))?,
                    None => f.write_str(", without expiry")?,
                }
            }
        }
        if let Some(token) = self.token {
            write!(f, "; token {token}")?;
        }
        f.write_str(if self.may_have_forgotten { "; it may have forgotten locks" } else { "" })
    }
}
