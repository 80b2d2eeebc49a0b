//! The one error type, its kinds, and what each node had to say.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a call failed.
///
/// A lock that somebody else holds is never an error: the `try_` calls answer `Ok(None)` then.
/// [`kind`](Self::kind) is for programs; the message says what happened, on which node, and what to
/// do. It never shows a password.
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
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    faults: Vec<NodeFault>,
}

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting or an argument is wrong: a bad URL, an empty name, a TTL out of range; or clients with
    /// other settings use the same nodes. Trying again does not help.
    Config,
    /// Too few nodes could be reached in time to decide anything. [`Error::node_faults`] says what
    /// is wrong with each of them.
    NoQuorum,
    /// The nodes answer, but so many of them may have forgotten locks, since they are new, or were
    /// restarted, emptied or promoted, that none can be granted now. That ends by itself;
    /// [`Quorlock::admit`](crate::Quorlock::admit) ends it at once where nothing can be held.
    Quarantined {
        /// In how much time a majority will grant locks again, as far as is known now.
        ready_in: Duration,
    },
    /// The lock was held, and is not certainly ours any more.
    Lost,
    /// The caller's own cancel channel fired.
    Cancelled,
    /// The [`Quorlock`](crate::Quorlock) was closed; or this process is a child, by `fork`, of one that had
    /// built one.
    Closed,
    /// On so many nodes the name belongs to something that is no lock that it can never be locked; or
    /// there is no number left for its [`FencingToken`](crate::FencingToken).
    WrongKind,
}

/// A few words, the same for all errors of the kind: for the labels of figures, and behind a colon.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Config => "wrong configuration",
            Self::NoQuorum => "no quorum",
            Self::Quarantined { .. } => "quarantined",
            Self::Lost => "lock lost",
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::WrongKind => "wrong kind of key",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), faults: Vec::new() }))
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    pub(crate) fn with_faults(mut self, faults: Vec<NodeFault>) -> Self {
        self.0.faults = faults;
        self
    }

    /// What sort of failure it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was wrong with which node, in the order of the configuration; only nodes that did not
    /// give a usable answer are listed. Empty for failures that have nothing to do with nodes.
    #[must_use]
    pub fn node_faults(&self) -> &[NodeFault] {
        &self.0.faults
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (i, fault) in self.0.faults.iter().enumerate() {
            f.write_str(if i == 0 { ": " } else { "; " })?;
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("node_faults", &self.0.faults)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.faults.first().map(|fault| fault as &(dyn StdError + 'static))
    }
}

/// What was wrong with one node.
#[derive(Clone)]
pub struct NodeFault(Arc<FaultInner>);

struct FaultInner {
    node: Arc<str>,
    what: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl NodeFault {
    pub(crate) fn new(node: &Arc<str>, what: impl Into<String>) -> Self {
        Self(Arc::new(FaultInner { node: node.clone(), what: what.into(), source: None }))
    }

    pub(crate) fn caused_by(
        node: &Arc<str>,
        what: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> Self {
        let source = Some(Box::new(source) as Box<dyn StdError + Send + Sync>);
        Self(Arc::new(FaultInner { node: node.clone(), what: what.into(), source }))
    }

    /// The node, as it was configured, without user and password.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.0.node
    }

    /// What was wrong, and where it can be told, what to do.
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

impl StdError for NodeFault {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
