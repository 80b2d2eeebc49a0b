//! Nodes in the process itself, for unit tests: no server to install, and none to start.
//!
//! Needs the feature `embedded`. An embedded node runs the same scripts as a Redis master, in the
//! same Lua version. Clients reach it as they reach a master: by a URL, over a connection. So a
//! test runs the very code that ships. The nodes can be killed, hung and restarted, and their clocks
//! can be moved.
//!
//! **Not for production.** The nodes live and die with the process, so they lock nothing against
//! other processes. They know only the commands that locks need. The tests of this crate compare
//! these with a real `redis-server`, on random commands and scripts.
//!
//! ```toml
//! [dev-dependencies]
//! quorlock = { version = "0.1", features = ["embedded"] }
//! ```
//!
//! # Examples
//!
//! A whole unit test. It takes milliseconds.
//!
//! ```
//! # use quorlock::Error;
//! use quorlock::{ErrorKind, OptionalGuard as _, Quorlock};
//!
//! # fn book(locks: &Quorlock, seat: &str) -> Result<bool, Error> {
//! #     Ok(locks.try_lock(seat).optional()?.is_some())
//! # }
//! # fn main() -> Result<(), Error> {
//! let (locks, nodes) = Quorlock::embedded(3)?;
//!
//! let other = locks.lock("seat/12a")?; // somebody else is about to book it
//! assert!(!book(&locks, "seat/12a")?);
//! other.unlock()?;
//!
//! nodes[0].kill(); // one of three is not missed
//! assert!(book(&locks, "seat/12a")?);
//! nodes[1].kill();
//! assert_eq!(book(&locks, "seat/12a").unwrap_err().kind(), ErrorKind::NoQuorum);
//! # Ok(())
//! # }
//! ```

mod channels;
mod commands;
mod connection;
mod convert;
mod engine;
mod keyspace;
mod machine;
mod node;
mod number;
mod reply;
mod request;
mod script;
mod state;

use std::ops::Deref;
use std::sync::Arc;

#[cfg(test)]
pub(crate) use engine::{Data, Engine};
pub use node::Node;
#[cfg(test)]
pub(crate) use reply::Reply;

use crate::error::Error;

/// Most nodes that can be started at once. No test needs more, and each node has several threads.
const MOST_NODES: usize = 32;

/// Several independent embedded nodes, over which a quorum is taken.
///
/// Dereferences to a slice of nodes: `nodes[0].kill()`, `nodes.len()`, `nodes.get(7)`. Cheap to
/// clone. The nodes and their threads end with the last clone and with the client of
/// [`Quorlock::embedded`](crate::Quorlock::embedded).
///
/// # Examples
///
/// Two clients that compete, with settings of their own:
///
/// ```
/// use std::time::Duration;
/// use quorlock::Quorlock;
/// use quorlock::embedded::Nodes;
///
/// let nodes = Nodes::start(3)?;
/// let client = || Quorlock::builder().nodes(nodes.urls()).ttl(Duration::from_secs(5)).build();
/// let one = client()?;
/// one.admit()?; // the nodes are new, so nothing can be held there
/// let other = client()?;
/// let guard = one.lock("orders/42")?;
/// assert!(other.try_lock("orders/42").unwrap_err().is_held());
/// drop(guard);
///
/// drop((one, other)); // waits until what was given back is free
/// let lock = b"quorlock:orders/42".to_vec();
/// assert!(nodes.iter().all(|node| !node.keys().contains(&lock)));
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nodes(Arc<[Node]>);

impl Nodes {
    /// Starts `n` empty nodes, 1 to 32 of them, each on a free port of 127.0.0.1. They accept
    /// connections at once.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if `n` is out of this range, or if a node gets
    /// no port or no thread.
    pub fn start(n: usize) -> Result<Self, Error> {
        if !(1..=MOST_NODES).contains(&n) {
            return Err(Error::config(format!(
                "{n} embedded nodes were asked for; 1 to {MOST_NODES} can start"
            )));
        }
        let nodes = (0..n).map(|index| {
            Node::start(index)
                .map_err(|error| Error::config(format!("an embedded node cannot start: {error}")))
        });
        Ok(Self(nodes.collect::<Result<_, _>>()?))
    }

    /// The nodes' URLs, for [`Builder::nodes`](crate::Builder::nodes).
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Node::url).collect()
    }
}

impl Deref for Nodes {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.0
    }
}
