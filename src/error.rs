//! The one error type, its kinds, and the faults of nodes.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::core::base::rounded;

pub(crate) mod refusal;

/// The reason why a call failed.
///
/// [`kind`](Self::kind) is for programs; the message says what happened, on which node, and what to do. The message never
/// contains a password.
///
/// A call that waits for a limited time, or not at all, fails with [`Held`](ErrorKind::Held) if the lock is held.
/// [`optional`](crate::OptionalGuard::optional) turns that into `None`.
///
/// # Examples
///
/// ```
/// use quorlock::{ErrorKind, Quorlock};
///
/// let error = Quorlock::builder().nodes(["http://localhost"]).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Config);
/// assert!(error.to_string().contains("redis://"));
/// ```
#[derive(Clone)]
pub struct Error(Repr);

#[derive(Clone)]
enum Repr {
    /// Created without an allocation, for a loop that tries again and again.
    Held {
        what: Arc<dyn fmt::Display + Send + Sync>,
        remaining_ttl: Option<Duration>,
    },
    Told(Box<Inner>),
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    faults: Vec<NodeFault>,
}

/// The kind of failure of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The client or its set of nodes is set up wrongly: a URL is bad, a TTL is out of range, clients with other settings
    /// use the same nodes, or two of the nodes are one server.
    ///
    /// The same if so many nodes reject this client that no majority is left: they refuse its login, its user lacks a
    /// permission, a TLS certificate is missing or not trusted, they are older than Redis 6.2, or they cannot run scripts as
    /// Redis does.
    ///
    /// Trying again does not help until somebody has changed something. The client keeps checking such nodes, so it need not
    /// be built again if the nodes are changed.
    Config,
    /// The name cannot be locked: it is empty, longer than 4096 bytes, or belongs to one of quorlock's own keys. The call is
    /// wrong, not the configuration.
    InvalidName,
    /// Too few nodes could be reached in time to decide anything. [`Error::node_faults`] has the fault of each of them.
    NoQuorum,
    /// The nodes answer, but no lock can be granted now, since too many nodes may have forgotten locks: they are new, or
    /// were restarted, emptied or promoted. The state ends by itself; [`Quorlock::admit`](crate::Quorlock::admit) ends it at
    /// once if no lock can be held.
    Quarantined {
        /// The time until a majority grants locks again, as far as is known now.
        ready_in: Duration,
    },
    /// Another caller holds the lock, and still held it when the time limit of the call was over. Only calls with a limit
    /// return it, such as [`try_lock`](crate::Quorlock::try_lock) and [`lock_within`](crate::Quorlock::lock_within).
    Held {
        /// The time until the lock may be free, unless its holder renews it: the end of the first key found. For a
        /// [`RateLimit`](crate::RateLimit): the time until the next call is allowed. `None` if the time is not known, for
        /// example because a thread of this client holds the lock, or waits for it.
        remaining_ttl: Option<Duration>,
    },
    /// The lock was held, and is no longer certainly ours.
    Lost,
    /// The calling thread has a [`ReadGuard`](crate::ReadGuard) of the lock that it wants to
    /// [`write`](crate::RwLock::write), so it would wait for itself. It has to drop that guard first.
    WouldDeadlock,
    /// The cancel channel of the call fired.
    Cancelled,
    /// The [`Quorlock`](crate::Quorlock) was closed, or this process was forked from one that had built a client.
    Closed,
    /// The name can never be locked. On too many nodes its key is not a lock, no number is left for its
    /// [`FencingToken`](crate::FencingToken), or the value in place of the number is not a number.
    WrongKind,
}

/// A few words, the same for all errors of the kind: for metric labels, and behind a colon.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Config => "wrong configuration",
            Self::InvalidName => "invalid name",
            Self::NoQuorum => "no quorum",
            Self::Quarantined { .. } => "quarantined",
            Self::Held { .. } => "held",
            Self::Lost => "lock lost",
            Self::WouldDeadlock => "would wait for itself",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::WrongKind => "wrong kind of key",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Repr::Told(Box::new(Inner { kind, message: message.into(), faults: Vec::new() })))
    }

    /// The error of a call for `what`, which another caller holds.
    pub(crate) fn held(
        what: Arc<dyn fmt::Display + Send + Sync>,
        remaining_ttl: Option<Duration>,
    ) -> Self {
        Self(Repr::Held { what, remaining_ttl })
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn invalid_name(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidName, message)
    }

    pub(crate) fn with_faults(mut self, faults: Vec<NodeFault>) -> Self {
        if let Repr::Told(inner) = &mut self.0 {
            inner.faults = faults;
        }
        self
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Repr::Held { remaining_ttl, .. } => ErrorKind::Held { remaining_ttl: *remaining_ttl },
            Repr::Told(inner) => inner.kind,
        }
    }

    /// Returns true if another caller holds the lock, so that the kind is [`Held`](ErrorKind::Held).
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.0, Repr::Held { .. })
    }

    /// Returns true if the channel of the call's [`Wait`](crate::Wait) has ended the wait, so that the kind is
    /// [`Cancelled`](ErrorKind::Cancelled).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.kind() == ErrorKind::Cancelled
    }

    /// Returns the faults of the nodes that gave no usable answer, in the order of the configuration. Empty for failures
    /// that have nothing to do with nodes.
    #[must_use]
    pub fn node_faults(&self) -> &[NodeFault] {
        match &self.0 {
            Repr::Held { .. } => &[],
            Repr::Told(inner) => &inner.faults,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Held { what, remaining_ttl: None } => write!(f, "{what} is held"),
            Repr::Held { what, remaining_ttl: Some(ttl) } => {
                write!(f, "{what} is held; unless it is renewed, its key ends in {}", rounded(*ttl))
            }
            Repr::Told(inner) => match inner.faults.as_slice() {
                [] => f.write_str(&inner.message),
                faults => write!(f, "{}: {}", inner.message, Grouped(faults)),
            },
        }
    }
}

/// The kind and the whole message, as programs show them that return the error from `main`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("message", &format_args!("{self}"))
            .finish()
    }
}

/// An error has no source: the message contains all of it, and a printed chain of sources would repeat it.
impl StdError for Error {}

/// The fault of one node.
#[derive(Clone)]
pub struct NodeFault(Arc<FaultInner>);

struct FaultInner {
    node: Arc<str>,
    what: String,
    cause: Cause,
}

/// The origin of a fault, as far as it matters for the reaction to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The connection to the node, or something unknown about the node.
    Way,
    /// The server's answer.
    Server,
    /// The server's refusal before it did anything: the user lacks a permission.
    NoPermission,
    /// The server's refusal of all scripts, for lack of a permission.
    NoScripts,
    /// The server is not fit for use, or does not let us use it, until somebody changes that.
    Unfit,
    /// Like `Unfit`, but the server has let us use it before: somebody is changing it, and that passes.
    Changing,
}

impl NodeFault {
    pub(crate) fn new(node: &Arc<str>, what: impl Into<String>) -> Self {
        Self::caused_by(Cause::Way, node, what)
    }

    pub(crate) fn caused_by(cause: Cause, node: &Arc<str>, what: impl Into<String>) -> Self {
        Self(Arc::new(FaultInner { node: node.clone(), what: what.into(), cause }))
    }

    pub(crate) fn cause(&self) -> Cause {
        self.0.cause
    }

    /// Returns true if the node rejects us until somebody changes something, so that waiting does not help.
    pub(crate) fn is_for_good(&self) -> bool {
        matches!(self.0.cause, Cause::NoPermission | Cause::NoScripts | Cause::Unfit)
    }

    /// Returns the node's address as configured, without user and password.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// Returns the fault and, if known, the remedy.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.0.what
    }
}

impl fmt::Display for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.node, self.0.what)
    }
}

impl fmt::Debug for NodeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeFault({self})")
    }
}

/// No source, as for [`Error`].
impl StdError for NodeFault {}

/// Several faults as one text. Nodes with the same fault are named together.
pub(crate) struct Grouped<'a>(pub(crate) &'a [NodeFault]);

impl fmt::Display for Grouped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.0.iter().enumerate() {
            let same = |other: &&NodeFault| other.what() == fault.what();
            if self.0[..i].iter().any(|other| same(&other)) {
                continue;
            }
            f.write_str(if i == 0 { "" } else { "; " })?;
            let mut nodes = self.0.iter().filter(same).map(NodeFault::node);
            while let Some(node) = nodes.next() {
                f.write_str(node)?;
                f.write_str(match nodes.clone().count() {
                    0 => ": ",
                    1 => " and ",
                    _ => ", ",
                })?;
            }
            f.write_str(fault.what())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_with_the_same_fault_are_named_together_and_in_order() {
        let fault = |(node, what): &(&str, &str)| NodeFault::new(&Arc::from(*node), *what);
        let shown = |faults: &[(&str, &str)]| {
            let faults: Vec<_> = faults.iter().map(fault).collect();
            Grouped(&faults).to_string()
        };
        assert_eq!(shown(&[]), "");
        assert_eq!(shown(&[("a", "down")]), "a: down");
        assert_eq!(shown(&[("a", "down"), ("b", "full")]), "a: down; b: full");
        assert_eq!(shown(&[("a", "down"), ("b", "full"), ("c", "down")]), "a and c: down; b: full");
        assert_eq!(shown(&[("a", "x"), ("b", "x"), ("c", "x")]), "a, b and c: x");
    }
}
