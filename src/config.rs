//! The builder, its defaults and its checks.

use std::time::Duration;

use crate::client::Quorlock;
use crate::error::Error;
use crate::ident;
#[cfg(feature = "tls")]
use crate::node::Certificates;
use crate::node::{Address, GRACE, Replicas};
use crate::quorum::{Backoff, Mechanisms};

#[cfg(feature = "tls")]
mod tls;

/// Of a shorter lease the allowance for drift would leave next to nothing.
const SHORTEST_TTL: Duration = Duration::from_millis(20);

/// Longer leases are more likely seconds taken for milliseconds than meant.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// With a longer pause between two tries a lock could be free for minutes before a waiter looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const LONGEST_PREFIX: usize = 1_024;

/// Settings of a [`Quorlock`], from [`Quorlock::builder`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use quorlock::Quorlock;
///
/// let locks = Quorlock::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .ttl(Duration::from_secs(10))
///     .build()?;
/// # drop(locks);
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    nodes: Vec<String>,
    #[cfg(feature = "tls")]
    certificates: Certificates,
    settings: Settings,
}

/// Whether a lock is renewed while it is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Renewal {
    /// Each time a third of the TTL is gone, by a thread that is started when it is first due. The
    /// lock is lost only if a majority of the nodes cannot be reached for the rest of the TTL, or
    /// lost its data.
    #[default]
    Auto,
    /// Only by [`Guard::extend`](crate::Guard::extend): the lock ends with its TTL. The end is told
    /// all the same.
    Manual,
}

/// What to do while no majority of the nodes can be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Grant nothing: `NoQuorum`.
    #[default]
    Never,
    /// Take locks on the first configured node alone, once no attempt of this client has reached a
    /// majority for as long as `after`.
    ///
    /// **Weaker, and it says so**: [`Guard::mode`](crate::Guard::mode) is
    /// [`Fallback`](crate::Mode::Fallback), and an event tells. Clients that fall back exclude each
    /// other, since all of them name the same first node. But where the network is cut so that one
    /// client reaches only the first node and another one a majority of the others, **both get the
    /// lock**. The renewal takes the lock on the other nodes as they come back: with a majority the
    /// mode turns into `Quorum`; if somebody else has it on one of them, the lock is lost.
    ///
    /// For jobs that had better run twice than not at all.
    SingleNode {
        /// For how long no majority must have been reached.
        after: Duration,
    },
}

/// What the rest of the crate needs to know of the configuration. Checked by [`Builder::build`].
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) no_quorum_timeout: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) fallback: Fallback,
    pub(crate) wait_replicas: Option<(u32, Duration)>,
    pub(crate) key_prefix: Vec<u8>,
    pub(crate) mechanisms: Mechanisms,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            #[cfg(feature = "tls")]
            certificates: Certificates::default(),
            settings: Settings {
                ttl: Duration::from_secs(30),
                node_timeout: Duration::from_millis(200),
                no_quorum_timeout: Duration::from_secs(10),
                renewal: Renewal::Auto,
                max_hold: None,
                backoff: Backoff { min: Duration::from_millis(5), max: Duration::from_millis(100) },
                fallback: Fallback::Never,
                wait_replicas: None,
                key_prefix: b"quorlock:".to_vec(),
                mechanisms: Mechanisms::ALL,
            },
        }
    }
}

impl Builder {
    /// A builder whose nodes come from the environment variable `QUORLOCK_NODES`: their URLs,
    /// separated by commas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the variable is not set, is not text, or names
    /// no node.
    pub fn from_env() -> Result<Self, Error> {
        let nodes = std::env::var("QUORLOCK_NODES").map_err(|error| {
            Error::config(format!(
                "the environment variable QUORLOCK_NODES cannot be read ({error}); set it to the \
                 URLs of the nodes, separated by commas"
            ))
        })?;
        let nodes: Vec<_> =
            nodes.split(',').map(str::trim).filter(|node| !node.is_empty()).collect();
        if nodes.is_empty() {
            return Err(Error::config(
                "the environment variable QUORLOCK_NODES names no node; set it to the URLs of the \
                 nodes, separated by commas",
            ));
        }
        Ok(Self::default().nodes(nodes))
    }

    /// The URLs of the Redis masters, `redis://[user:password@]host[:port][/database]` or
    /// `unix:///path`; with the feature `tls` also `rediss://`, which is the same with TLS. They
    /// replace those set before.
    ///
    /// Use an odd number of masters on machines that fail independently, without replication among
    /// them: 3 tolerate the loss of one, 5 of two. An even number tolerates no more than the odd
    /// one below it. A single one works too, and is only as safe as that one server. All clients
    /// must name the same set. There is no default.
    pub fn nodes<I>(mut self, urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.nodes = urls.into_iter().map(Into::into).collect();
        self
    }

    /// How long a lock lives without being extended: at least 20 ms and twice the
    /// [`node_timeout`](Self::node_timeout), at most 24 hours, in whole milliseconds.
    ///
    /// Defaults to 30 s, as in Redisson and most others. It is how long a lock stays taken after
    /// its holder crashed, and how long a holder may be cut off before it loses the lock.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// How long one node may take to answer before it counts as silent.
    ///
    /// Defaults to 200 ms: far above a healthy network's round trip, far below the TTL, so that a
    /// majority of hung nodes is told at once and a try against it costs little. A hung *minority*
    /// costs nothing, whatever this is.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = timeout;
        self
    }

    /// How long [`lock`](Quorlock::lock) goes on trying while no majority can be reached.
    ///
    /// Defaults to 10 s: long enough for restarts and most elections of a network's route, short
    /// enough for somebody to be told.
    pub fn no_quorum_timeout(mut self, timeout: Duration) -> Self {
        self.settings.no_quorum_timeout = timeout;
        self
    }

    /// Whether a lock is renewed while it is held.
    ///
    /// Defaults to [`Renewal::Auto`]: work that takes longer than anybody thought keeps its lock, and
    /// the TTL only has to cover a crash.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.settings.renewal = renewal;
        self
    }

    /// The longest that a lock may be held in all, renewals and extensions included; at least the
    /// [`node_timeout`](Self::node_timeout). At its end the lock is lost, and given back.
    ///
    /// Defaults to `None`: as long as the holder lives. Set it where a holder that hangs, but still
    /// renews, must not keep everybody out for ever.
    pub fn max_hold(mut self, max_hold: Option<Duration>) -> Self {
        self.settings.max_hold = max_hold;
        self
    }

    /// The shortest and the longest pause between two tries of a call that waits. Pauses grow from
    /// the first towards the second, with jitter, so that contenders drift apart.
    ///
    /// Defaults to 5 ms and 100 ms; the minimum is 1 ms, the maximum one minute.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.settings.backoff = Backoff { min, max };
        self
    }

    /// What to do while no majority can be reached.
    ///
    /// Defaults to [`Fallback::Never`]: no lock is granted then.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.settings.fallback = fallback;
        self
    }

    /// A node's grant counts only once `replicas` of its replicas have acknowledged it within
    /// `timeout`; otherwise it is undone. All of them are required; renewals do not wait.
    ///
    /// Defaults to no waiting. For a single master with replicas, where it makes it less likely that
    /// a replica which takes over has not heard of a lock. It does not make it impossible: only a
    /// quorum of independent masters does. While replicas are behind or gone, no lock is granted. A
    /// lock takes up to `timeout` longer, and the TTL must be at least twice the two timeouts
    /// together. Uses `WAIT`, on a connection of its own.
    pub fn wait_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        self.settings.wait_replicas = Some((replicas, timeout));
        self
    }

    /// What the key of every lock begins with, before the lock's name.
    ///
    /// Defaults to `quorlock:`, which keeps locks apart from other data. With the empty prefix the
    /// key is the bare name, and exclusive locks exclude, and are excluded by, those of other
    /// clients of the Redlock algorithm: same key, same value layout, same release.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.key_prefix = prefix.into().into_bytes();
        self
    }

    /// Checks the settings and starts one thread a node, which connects in the background.
    ///
    /// The nodes need not be up: one that cannot be reached has no vote until it can.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if there is no node, a URL is wrong, two
    /// nodes are the same server, a certificate cannot be used, a duration is out of range, or a
    /// thread cannot be started.
    pub fn build(self) -> Result<Quorlock, Error> {
        self.settings.check()?;
        #[cfg(feature = "tls")]
        self.certificates.check()?;
        let addresses = self.addresses()?;
        Quorlock::start(addresses, self.settings)
    }

    fn addresses(&self) -> Result<Vec<Address>, Error> {
        if self.nodes.is_empty() {
            return Err(Error::config(
                "no node is configured; name the Redis masters with nodes([\"redis://host:port\", \
                 ..])",
            ));
        }
        let mut addresses: Vec<Address> = Vec::with_capacity(self.nodes.len());
        for (i, url) in self.nodes.iter().enumerate() {
            let address = Address::parse(url, i + 1)?;
            #[cfg(feature = "tls")]
            let address = address.with_certificates(&self.certificates)?;
            if let Some(j) = addresses.iter().position(|other| other.same_server(&address)) {
                return Err(Error::config(format!(
                    "nodes {} and {} are the same server, {}; one server has one vote",
                    j + 1,
                    i + 1,
                    address.shown()
                )));
            }
            addresses.push(address);
        }
        Ok(addresses)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the URLs nor the certificates: they hold passwords and a key.
        f.debug_struct("Builder")
            .field("nodes", &self.nodes.len())
            .field("settings", &self.settings)
            .finish()
    }
}

impl Settings {
    /// How long the end of a client or of the process may wait for releases to be answered: until a
    /// worker that waits for a silent node gives up and sends its last words.
    pub(crate) fn flush_timeout(&self) -> Duration {
        self.node_timeout.saturating_add(GRACE * 3)
    }

    fn check(&self) -> Result<(), Error> {
        let Backoff { min, max } = self.backoff;
        if self.node_timeout < Duration::from_millis(1) {
            return Err(Error::config(format!(
                "node_timeout is {:?}; it must be at least 1 ms",
                self.node_timeout
            )));
        }
        if min < Duration::from_millis(1) || max < min || max > LONGEST_PAUSE {
            return Err(Error::config(format!(
                "backoff is {min:?} to {max:?}; the minimum must be at least 1 ms, and the maximum \
                 no less than that, and {LONGEST_PAUSE:?} at most"
            )));
        }
        if self.key_prefix.len() > LONGEST_PREFIX {
            return Err(Error::config(format!(
                "key_prefix has {} bytes; {LONGEST_PREFIX} is the most",
                self.key_prefix.len()
            )));
        }
        if let Some((replicas, timeout)) = self.wait_replicas
            && (replicas == 0 || timeout < Duration::from_millis(1))
        {
            return Err(Error::config(format!(
                "wait_replicas asks for {replicas} replicas within {timeout:?}; it must be at least \
                 one, within at least 1 ms"
            )));
        }
        self.check_max_hold(self.max_hold)?;
        self.check_ttl(self.ttl)
    }

    /// How long one try for a lock may take: for the answers, and for the replicas behind them.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        let replicas = self.wait_replicas.map_or(Duration::ZERO, |(_, timeout)| timeout);
        self.node_timeout.saturating_add(replicas)
    }

    /// After how long without a quorum the first node decides alone.
    pub(crate) fn fall_back_after(&self) -> Option<Duration> {
        match self.fallback {
            Fallback::Never => None,
            Fallback::SingleNode { after } => Some(after),
        }
    }

    pub(crate) fn replicas(&self) -> Option<Replicas> {
        let (needed, timeout) = self.wait_replicas?;
        Some(Replicas { needed, timeout, key: ident::replicated_key(&self.key_prefix) })
    }

    /// A lock that ends before it can be granted would be of no use.
    pub(crate) fn check_max_hold(&self, max_hold: Option<Duration>) -> Result<(), Error> {
        match max_hold {
            Some(max_hold) if max_hold < self.node_timeout => Err(Error::config(format!(
                "max_hold is {max_hold:?}; it must be at least the node_timeout, {:?}",
                self.node_timeout
            ))),
            _ => Ok(()),
        }
    }

    /// A TTL below twice the node timeout could be used up by a single slow try.
    pub(crate) fn check_ttl(&self, ttl: Duration) -> Result<(), Error> {
        let attempt = self.attempt_timeout();
        if ttl < attempt.saturating_mul(2).max(SHORTEST_TTL) {
            return Err(Error::config(format!(
                "the TTL is {ttl:?}; it must be at least {SHORTEST_TTL:?}, and at least twice the \
                 node_timeout (and that of wait_replicas) of {attempt:?}"
            )));
        }
        if ttl > LONGEST_TTL {
            return Err(Error::config(format!(
                "the TTL is {ttl:?}; {LONGEST_TTL:?} is the most (were milliseconds meant?)"
            )));
        }
        if !ttl.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(Error::config(format!(
                "the TTL is {ttl:?}; Redis counts in whole milliseconds"
            )));
        }
        Ok(())
    }
}
