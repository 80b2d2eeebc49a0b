//! Figures about the nodes, for monitoring.

/// What a [`Quorlock`](crate::Quorlock) has done with one node since it was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's URL, without user and password.
    pub node: String,
    /// Whether the connection is up.
    pub connected: bool,
    /// Why the node cannot be used at present, and what to do: it cannot be reached, or it has a problem, such as several servers
    /// under its address. `None`: nothing is wrong with it, as far as is known. It may be in quarantine.
    pub fault: Option<String>,
    /// Writes to the connection. Each carries all requests that were waiting.
    pub writes: u64,
    /// Requests in those writes, each as often as it was written. Each is a call of a script, unless there
    /// were several: one call then makes all of them that it can.
    pub scripts: u64,
    /// Releases that wait for the node to come back; and those that it has refused, and is told again.
    pub kept_releases: usize,
    /// Locks of which the node tells when they are given back, since somebody waits for them, or did
    /// lately. None of them: no connection for that either.
    pub listened_to: usize,
}

impl NodeStats {
    /// Those of a node that nothing is known of.
    pub(crate) fn unknown(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            connected: false,
            fault: None,
            writes: 0,
            scripts: 0,
            kept_releases: 0,
            listened_to: 0,
        }
    }
}
