//! Figures about the nodes, for monitoring.

/// The figures of a [`Quorlock`](crate::Quorlock) about one node since the client was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's URL, without user and password.
    pub node: String,
    /// True if the connection is up.
    pub connected: bool,
    /// The reason why the node cannot be used at present, and the remedy. Either the node cannot be reached, or it has a
    /// problem, such as several servers under its address. `None` if nothing is known to be wrong with the node; it may be
    /// in quarantine.
    pub fault: Option<String>,
    /// Number of writes to the connection. Each write carries all requests that were waiting.
    pub writes: u64,
    /// Number of requests in those writes; a repeated request counts each time. Each request is one call of a script, but
    /// one call makes as many as it can of several waiting requests.
    pub scripts: u64,
    /// Number of releases that wait for the node to come back, or that it has refused and gets again.
    pub kept_releases: usize,
    /// Number of locks whose releases the node reports, since somebody waits for them, or did lately. If there are none,
    /// there is no connection for these reports either.
    pub listened_to: usize,
}

impl NodeStats {
    /// The figures of a node about which nothing is known.
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
