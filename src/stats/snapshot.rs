//! The figures of a client at one moment.

use std::time::Duration;

use super::times::Times;

/// The figures of one client since it was built, from [`Quorlock::stats`](crate::Quorlock::stats).
///
/// All clones of a client share them. They are counted one by one while threads go on, so a snapshot may show a call in one
/// figure and not yet in another.
///
/// Counting takes no mutex and makes no system call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The calls for locks that have ended, for each kind of lock.
    pub kinds: Vec<KindStats>,
    /// The figures of each [`metrics_label`](crate::Handle::metrics_label), in the order in which they were used first.
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// let (locks, _nodes) = quorlock::Quorlock::embedded(3)?;
    /// for order in [41, 42] {
    ///     let _guard = locks.mutex(format!("orders/{order}")).metrics_label("orders").lock()?;
    /// }
    /// assert_eq!(locks.stats().labels[0].calls.acquired, 2);
    /// # }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub labels: Vec<LabelStats>,
    /// The calls for locks that have not ended yet, those that only ask once included.
    pub waiting: u64,
    /// The guards that exist now. A lock that threads share or take again has several.
    pub holding: u64,
    /// The times from a call to its guard, of calls that got their lock.
    pub waits: Times,
    /// The times from getting a guard to giving it back.
    pub holds: Times,
    /// The times that `unlock` took.
    pub unlocks: Times,
    /// The attempts of calls: one call may make several.
    pub attempts: AttemptStats,
    /// The locks that calls got without asking the nodes.
    pub local_grants: LocalGrantStats,
    /// The reasons for which callers that waited for a release tried again.
    pub wake_ups: WakeUpStats,
    /// The renewals of held locks.
    pub renewals: RenewalStats,
    /// The locks that were lost while they were held.
    pub losses: LossStats,
    /// The number of nodes that must grant a lock: more than half of them.
    pub majority: usize,
    /// The figures of each node, in the order of the configuration.
    pub nodes: Vec<NodeStats>,
}

impl Stats {
    /// The number of nodes that are connected and grant locks, as far as the client knows. While there are fewer than
    /// [`majority`](Self::majority), no lock is granted, except by a [`Fallback`](crate::Fallback).
    #[must_use]
    pub fn granting(&self) -> usize {
        let grants = |node: &&NodeStats| node.connected && node.grants_in == Some(Duration::ZERO);
        self.nodes.iter().filter(grants).count()
    }
}

/// The calls for locks of one kind that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStats {
    /// The [label](crate::LockKind::label) of the kind, such as `"mutex"`.
    pub kind: &'static str,
    /// The number of calls with each outcome.
    pub calls: CallStats,
}

/// The figures of the handles with one [`metrics_label`](crate::Handle::metrics_label).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LabelStats {
    /// The label.
    pub label: String,
    /// The number of calls with each outcome.
    pub calls: CallStats,
    /// The times from a call to its guard, of calls that got their lock.
    pub waits: Times,
    /// The times from getting a guard to giving it back.
    pub holds: Times,
}

/// Calls for locks that have ended, by outcome. Calls with an invalid name or setting are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallStats {
    /// The calls that got their lock.
    pub acquired: u64,
    /// The calls that ended with [`Held`](crate::ErrorKind::Held).
    pub held: u64,
    /// The calls that ended with [`NoQuorum`](crate::ErrorKind::NoQuorum).
    pub no_quorum: u64,
    /// The calls that ended with [`Quarantined`](crate::ErrorKind::Quarantined).
    pub quarantined: u64,
    /// The calls that their callers cancelled.
    pub cancelled: u64,
    /// The calls that ended because the client was closed.
    pub closed: u64,
    /// The calls that ended with any other error, such as [`Config`](crate::ErrorKind::Config).
    pub error: u64,
}

/// The attempts to get a lock from the nodes, by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AttemptStats {
    /// The attempts that were granted.
    pub granted: u64,
    /// The attempts that found the lock held.
    pub refused: u64,
    /// The attempts that ended without a winner, because contenders shared the nodes among them.
    pub split: u64,
    /// The attempts that too few nodes answered in time, or that were granted too late to be of use. Those that the caller's own
    /// deadline cut short are in no figure, nor are those that were cancelled.
    pub unanswered: u64,
    /// The attempts that failed because too many nodes were in quarantine, or had a doubtful clock.
    pub quarantined: u64,
    /// The attempts that nodes answered with an error that does not pass by itself.
    pub rejected: u64,
}

/// The locks that calls got without asking the nodes, by the way in which they got them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalGrantStats {
    /// Another thread of the process handed the lock over.
    pub handed_over: u64,
    /// Another thread of the process had the lock, and shares it.
    pub joined: u64,
    /// The calling thread had the lock, and took it again.
    pub reentered: u64,
}

/// The reasons for which callers that waited for a release tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WakeUpStats {
    /// Nodes announced a release.
    pub messages: u64,
    /// The keys of the lock had ended, no release was announced, and the lock was free: the holder died or was cut off; or a
    /// [`min_hold`](crate::Builder::min_hold) ended, or the window of a [`RateLimit`](crate::RateLimit).
    pub expiries: u64,
    /// A pause was over without a message: about a second, or 5 to 100 ms ([`backoff`](crate::Builder::backoff)) while too few
    /// nodes announce releases. Many of them mean that locks are held for seconds; or, if there are no messages, that these do
    /// not arrive.
    pub polls: u64,
}

/// The renewals of held locks that the client makes by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RenewalStats {
    /// The renewals that a majority of the nodes confirmed.
    pub confirmed: u64,
    /// The renewals that too few nodes confirmed in time. Each is made again while the lock is valid.
    pub unconfirmed: u64,
    /// The validity that was left when a renewal was confirmed. Two thirds of the TTL are usual; short ones are the early sign
    /// of losses.
    pub validity_left: Times,
}

/// The locks that were lost while they were held, by [`LossReason`](crate::LossReason).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LossStats {
    /// [`Expired`](crate::LossReason::Expired).
    pub expired: u64,
    /// [`Unconfirmed`](crate::LossReason::Unconfirmed).
    pub unconfirmed: u64,
    /// [`KeysGone`](crate::LossReason::KeysGone).
    pub keys_gone: u64,
    /// [`MaxHold`](crate::LossReason::MaxHold).
    pub max_hold: u64,
    /// [`ClockStoodStill`](crate::LossReason::ClockStoodStill).
    pub suspended: u64,
}

impl LossStats {
    /// The number of all losses.
    #[must_use]
    pub const fn total(&self) -> u64 {
        let Self { expired, unconfirmed, keys_gone, max_hold, suspended } = self;
        *expired + *unconfirmed + *keys_gone + *max_hold + *suspended
    }
}

/// A client's view of a node: its part in the granting of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeCondition {
    /// It has not been examined since it was reached last, or its clock is in doubt.
    Unknown,
    /// It may grant locks.
    Admitted,
    /// It may have forgotten locks, and grants none until these have ended.
    Quarantined,
    /// Clients with other settings use it.
    OtherSettings,
    /// It is the same server as another node.
    SameServer,
    /// Several servers answer under its address.
    SeveralServers,
    /// It is a replica.
    Replica,
    /// It is a node of a Redis Cluster.
    Cluster,
}

impl NodeCondition {
    /// All values.
    #[cfg(feature = "metrics")]
    pub(crate) const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Admitted,
        Self::Quarantined,
        Self::OtherSettings,
        Self::SameServer,
        Self::SeveralServers,
        Self::Replica,
        Self::Cluster,
    ];

    /// One word, the same for each value: for labels of figures.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Admitted => "admitted",
            Self::Quarantined => "quarantined",
            Self::OtherSettings => "other_settings",
            Self::SameServer => "same_server",
            Self::SeveralServers => "several_servers",
            Self::Replica => "replica",
            Self::Cluster => "cluster",
        }
    }
}

/// The figures of one node since the client was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The node's URL, without user and password.
    pub node: String,
    /// True if the connection is up.
    pub connected: bool,
    /// The reason for which the node cannot be used at present, and the remedy: it cannot be reached, or it has a problem, such
    /// as several servers under its address. `None` if nothing is wrong with it, as far as the client knows. It may be in
    /// quarantine.
    pub fault: Option<String>,
    /// The client's view of the node.
    pub condition: NodeCondition,
    /// The time until the node grants locks: zero if it grants them now. `None` if that is not known, or does not happen by
    /// itself.
    pub grants_in: Option<Duration>,
    /// The number of microseconds by which the node's clock is ahead of the median of all nodes' clocks; negative if it is
    /// behind. It is exact to some milliseconds and half a round trip. `None` before the clocks of a majority are known.
    pub clock_ahead_us: Option<i64>,
    /// The time that the latest reading of the node's clock took: a round trip, and the wait for the server.
    pub round_trip: Option<Duration>,
    /// The connections that came up so far. Each one after the first is a reconnect.
    pub connections: u64,
    /// Number of writes to the connection. Each write carries all requests that were waiting.
    pub writes: u64,
    /// Number of requests in those writes; a repeated request counts each time. Each request is one call of a script, but
    /// one call makes as many as it can of several waiting requests.
    pub scripts: u64,
    /// Number of releases that wait for the node to come back, or that it has refused and gets again.
    pub kept_releases: usize,
    /// Number of releases that the node has not answered: those on their way, and the kept ones. While there are any, a key of
    /// this client may be in the way of other clients. A release counts before the call that has caused it returns.
    pub unanswered_releases: usize,
    /// Number of locks whose releases the node announces to this client, because a caller waits for them or did a moment ago.
    /// If there are none, there is no connection for these messages either.
    pub listened_to: usize,
}

impl NodeStats {
    /// The figures of a node that nothing is known of.
    pub(crate) fn unknown(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            connected: false,
            fault: None,
            condition: NodeCondition::Unknown,
            grants_in: None,
            clock_ahead_us: None,
            round_trip: None,
            connections: 0,
            writes: 0,
            scripts: 0,
            kept_releases: 0,
            unanswered_releases: 0,
            listened_to: 0,
        }
    }
}
