//! The builder, its defaults and its checks.

#[cfg(feature = "tls")]
use std::path::PathBuf;
use std::time::Duration;

pub(crate) mod settings;
#[cfg(feature = "serde")]
mod written;

pub use self::settings::{Fallback, Renewal};
use self::settings::{Settings, limit, minimum, refuse};
use crate::core::base::Backoff;
use crate::credentials::{CredentialProvider, Credentials};
use crate::error::Error;
use crate::node::Address;
#[cfg(feature = "tls")]
use crate::node::{Certificates, Pem};
use crate::terms::{CREDENTIALS, NODES, PASSWORD};

/// Settings of a [`Quorlock`](crate::Quorlock), from [`Quorlock::builder`](crate::Quorlock::builder).
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
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    nodes: Vec<String>,
    password: Option<String>,
    credentials: Option<CredentialProvider>,
    #[cfg(feature = "tls")]
    certificates: Certificates,
    settings: Settings,
}

impl Builder {
    /// Returns a builder whose nodes come from the environment variable `QUORLOCK_NODES`: their URLs, separated by commas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the variable is not set, is not text, or names no node.
    pub fn from_env() -> Result<Self, Error> {
        Self::default().nodes_from_env()
    }

    /// Sets the nodes from the environment variable `QUORLOCK_NODES`, as [`from_env`](Self::from_env) does. They replace
    /// those set before.
    ///
    /// # Errors
    ///
    /// Those of [`from_env`](Self::from_env).
    pub fn nodes_from_env(self) -> Result<Self, Error> {
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
        Ok(self.nodes(nodes))
    }

    /// Sets the URLs of the Redis masters: `redis://[user:password@]host[:port][/database]` or `unix:///path`. With the
    /// feature `tls` also `rediss://`, which is the same over TLS. They replace those set before.
    ///
    /// Use an odd number of masters on machines that fail independently, without replication among them: 3 tolerate the loss
    /// of one, 5 of two. An even number tolerates no more losses than the next lower odd number. A single master works too,
    /// and is only as safe as that one server. All clients must name the same set. There is no default.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorlock::Quorlock;
    /// Quorlock::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"]);
    /// let configured = vec!["redis://10.0.0.1".to_owned()];
    /// Quorlock::builder().nodes(&configured);
    /// ```
    pub fn nodes(mut self, urls: impl IntoIterator<Item: AsRef<str>>) -> Self {
        self.nodes = urls.into_iter().map(|url| url.as_ref().to_owned()).collect();
        self
    }

    /// Sets the password for all nodes whose URL has none, so that URLs need not be secret: they may come from a file, and
    /// the password from a secret store. The user is that of the URL, or else Redis's user `default`.
    ///
    /// There is no default: a client does not log in at nodes whose URL has no password. An empty password counts as none.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into()).filter(|password| !password.is_empty());
        self
    }

    /// Sets a provider of credentials for all nodes whose URL has no password: for passwords that are rotated, and for the
    /// tokens of managed servers, which end after a while. Excludes [`password`](Self::password). Defaults to none.
    ///
    /// `provider` is called with the node's URL, without user and password, on a thread of its own, and for one node of a client
    /// never twice at once. A connection that needs its answer waits at most for the [`node_timeout`](Self::node_timeout). Then
    /// the node counts as down, and the answer serves the next try. The provider needs a time limit of its own, and must not
    /// wait for a lock of the same client. If it fails or panics, the last answer is used while it is valid. Otherwise the node
    /// is down; its fault has the text of the error, which should name no secret.
    ///
    /// New connections use the last answer again for three quarters of the time for which it is
    /// [valid](Credentials::valid_for), or for ten seconds if it has no end. An answer that a server refuses is not used again
    /// until the provider gives it again.
    ///
    /// Before credentials end, the provider is asked for new ones, and each live connection to the node logs in with
    /// them (`AUTH`) before its next request. If they cannot be had or are refused, the connections keep the login that they
    /// have, an event reports it, and the provider is asked again a second later. The connections on which a client
    /// listens for releases cannot do that: a server that cuts them off gets a new one.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use quorlock::{Credentials, Quorlock};
    /// # fn signed_token(node: &str) -> std::io::Result<String> { Ok(node.to_owned()) }
    /// let builder = Quorlock::builder().nodes(["redis://locks.example.com"]).credentials(|node| {
    ///     let token = signed_token(node)?;
    ///     Ok(Credentials::new(token).user("locker").valid_for(Duration::from_secs(900)))
    /// });
    /// ```
    pub fn credentials(
        mut self,
        provider: impl Fn(&str) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.credentials = Some(CredentialProvider::new(provider));
        self
    }

    /// Sets the time for which a lock lives without being extended, in whole milliseconds. At least twice the
    /// [`node_timeout`](Self::node_timeout), and four times the [`clock_tolerance`](Self::clock_tolerance); at most
    /// [`max_ttl`](Self::max_ttl).
    ///
    /// Defaults to 10 s. A lock stays taken for that time after its holder crashed, and a holder may be cut off for that
    /// time before it loses the lock. A lock may be held for much longer: it is [renewed](Self::renewal).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// Sets the longest TTL that any client of these nodes uses: by [`ttl`](Self::ttl), by [`Mutex::ttl`](crate::Mutex::ttl)
    /// or in [`Guard::extend`](crate::Guard::extend). At most one hour, in whole milliseconds. A call that asks for a longer
    /// TTL fails with [`Config`](crate::ErrorKind::Config); for the TTL of the builder that call is [`build`](Self::build).
    ///
    /// A node that may have forgotten locks grants nothing for that time: see
    /// [`restart_quarantine`](Self::restart_quarantine). So a smaller value makes nodes ready sooner after a restart.
    ///
    /// All clients of the nodes must agree on it: clients with another value get [`Config`](crate::ErrorKind::Config).
    /// Defaults to 10 s, whatever the TTL, so that all clients that do not set it agree. So a `max_ttl` below 10 s needs a
    /// [`ttl`](Self::ttl) as well. [`operations`](crate::operations) describes how to change it for a set that is in use.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// Sets the step by which a master's wall clock may be set forward at once without costing the master its vote. At least
    /// 10 ms, in whole milliseconds. A step ends the keys of locks early, so the validity of every lock
    /// ([`Guard::remaining`](crate::Guard::remaining)) is shorter than its TTL by that much. A master whose clock takes a
    /// larger step forward grants no locks to anybody until all its locks have ended ([`max_ttl`](Self::max_ttl)).
    ///
    /// A master's grant counts only if its clock can be read exactly enough to rule out a larger step. So the round trip to
    /// a master must stay below a third of the tolerance, or its vote is missing at times. The TTL is at least four times
    /// the tolerance.
    ///
    /// All clients of the nodes must agree on it: clients with another value get [`Config`](crate::ErrorKind::Config).
    /// Defaults to 100 ms, which is far above a network's round trip and the corrections that a time service makes at
    /// once. Set it lower for TTLs below 400 ms, and higher if masters are far away.
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.settings.clock_tolerance = tolerance;
        self
    }

    /// Sets the name of this set of nodes: 1 to 64 letters, digits, `.`, `_` and `-`.
    ///
    /// Defaults to `default`. If each set has its own name, a client that names the nodes of another set by mistake gets
    /// [`Config`](crate::ErrorKind::Config).
    pub fn set_name(mut self, name: impl Into<String>) -> Self {
        self.settings.set_name = name.into();
        self
    }

    /// Turns the quarantine on or off. In quarantine, a node that may have forgotten locks grants none for
    /// [`max_ttl`](Self::max_ttl): it is new, or was restarted, emptied or promoted, or its wall clock was set forward. After a
    /// promotion the quarantine is 13 seconds longer, since the old master may have granted locks meanwhile. Held locks
    /// continue, and are renewed there (on a promoted node, after 13 seconds).
    ///
    /// Defaults to on. Otherwise a flush, or restarts of a majority within one TTL, give a held lock to a second client. The
    /// price is that a new set grants its first lock after `max_ttl`, and a single node waits that long after each restart.
    /// [`Quorlock::admit`](crate::Quorlock::admit) skips the wait once, if no lock can be held.
    ///
    /// Turn it off for development, and for CI with a throw-away server. A restart can then give a held lock to a second
    /// client, and nothing notices it. All clients of the nodes must agree on the setting.
    pub fn restart_quarantine(mut self, on: bool) -> Self {
        self.settings.restart_quarantine = on;
        self
    }

    /// Sets the time limit for the answer of one node, after which it counts as silent.
    ///
    /// Defaults to 200 ms. That is far above a healthy network's round trip and far below the TTL, so that a majority of
    /// hung nodes is detected quickly and a try against it costs little. A hung *minority* costs nothing, whatever the limit
    /// is.
    ///
    /// A login has at least a second, and so has, on Unix, the check of a node while no request waits for it. If many clients
    /// make a server slow for a moment, they keep their connections then. New ones would make it slower.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.settings.node_timeout = timeout;
        self
    }

    /// Sets the time for which [`lock`](crate::Quorlock::lock) keeps trying while no majority can be reached. Calls with a
    /// deadline do the same, unless the deadline comes first. A majority that rejects this client is not waited for: the
    /// call fails with [`Config`](crate::ErrorKind::Config) at once.
    ///
    /// Defaults to 10 s: long enough for restarts and for most route changes in a network, and short enough to report the
    /// failure in time.
    pub fn no_quorum_timeout(mut self, timeout: Duration) -> Self {
        self.settings.no_quorum_timeout = timeout;
        self
    }

    /// Sets the renewal of a lock while it is held.
    ///
    /// Defaults to [`Renewal::Auto`]: work that takes longer than expected keeps its lock, and the TTL only has to cover a
    /// crash.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.settings.renewal = renewal;
        self
    }

    /// Sets the longest time for which a lock may be held in all, regardless of renewals and extensions. At least the
    /// [`node_timeout`](Self::node_timeout). At its end the lock is lost, and given back. If the holder crashes, the keys do
    /// not live beyond it either, whatever the TTL.
    ///
    /// Defaults to no limit, as does [`Duration::MAX`]: a lock can be held as long as the holder lives. Set it if a holder
    /// that hangs, but still renews, must not keep everybody out for ever.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = limit(max_hold);
        self
    }

    /// Sets the shortest time for which a lock is kept, from its grant on, even if it is given back earlier: for jobs that
    /// several hosts start at the same time. At most 24 hours, also beyond the [`max_ttl`](Self::max_ttl).
    ///
    /// Ten hosts start a job at midnight; their clocks differ by a second, and the job takes 50 ms. With a plain lock the
    /// job runs several times that night. With a `min_hold` of some minutes it runs once: the lock stays taken until the
    /// last clock has reached midnight. (`ShedLock` calls it `lockAtLeastFor`.)
    ///
    /// Hosts whose clocks agree ask at the same instant, and the masters' votes may be split among them.
    /// [`try_lock`](crate::Quorlock::try_lock) then tries again, a few times within the node timeout. With
    /// [`try_lock_for`](crate::Quorlock::try_lock_for) and one second a host tries for longer, so that bad luck does not
    /// keep all hosts from the job. A quarantine does: after a restart of a single master, or of a majority, each host gets
    /// [`Quarantined`](crate::ErrorKind::Quarantined), and the job is not done. Choose a `min_hold` that is longer than the
    /// difference of the clocks and the time that a host waits, together.
    ///
    /// While the guard lives, nothing is different: the lock is renewed, and can be lost. When the guard is dropped or
    /// unlocked, the masters set its keys to end at that time, instead of deleting them. The lock is handed to no thread of
    /// this process before that time.
    ///
    /// From then on nobody is in the critical section, so mutual exclusion does not depend on the kept keys. The lock stays
    /// taken as long as a majority of the masters keeps its keys. It can be taken earlier if that majority is missing,
    /// because masters have forgotten the lock, or were out of reach for longer than the TTL when it was given back. A
    /// holder that crashes leaves only the rest of its TTL. So choose a TTL that is longer than the difference of the hosts'
    /// clocks and the time that a host waits, together. A lost lock is not kept, so choose a [`max_hold`](Self::max_hold)
    /// that is longer than the job ever takes. After a failed job, [`Guard::waive_min_hold`](crate::Guard::waive_min_hold)
    /// frees the lock for another host.
    ///
    /// The minimum applies to every lock whose holders exclude each other: also to a write, and to the permits of a
    /// [`Semaphore`](crate::Semaphore), each of which stays taken. A read is not kept.
    ///
    /// Defaults to no minimum, as does [`Duration::ZERO`].
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.settings.min_hold = minimum(min_hold);
        self
    }

    /// Sets the time before the end of its validity from which a lock is [at risk](crate::Guard::at_risk), if no renewal is
    /// confirmed before. More than half of the validity counts as half of it, since a renewal begins when up to a third of the
    /// TTL is gone. [`Duration::ZERO`] turns the warning off.
    ///
    /// Defaults to two fifths of the validity after two renewals in a row that were not confirmed, and to one third of it
    /// otherwise. With the default TTL of 10 s, an outage of one second is then not reported.
    pub fn risk_margin(mut self, margin: Duration) -> Self {
        self.settings.risk_margin = Some(margin);
        self
    }

    /// Sets the shortest and the longest pause between two tries of a waiting call. Pauses grow from the first towards the
    /// second, with jitter, so that contenders drift apart.
    ///
    /// Defaults to 5 ms and 100 ms; the minimum is 1 ms, the maximum one minute.
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.settings.backoff = Backoff { min, max };
        self
    }

    /// Sets the behaviour while no majority can be reached.
    ///
    /// Defaults to [`Fallback::Never`]: no lock is granted then.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.settings.fallback = fallback;
        self
    }

    /// Lets a node's grant count only once `replicas` of its replicas have acknowledged it within `timeout`; otherwise the
    /// grant is undone. All of these replicas are required; renewals do not wait.
    ///
    /// Defaults to no waiting. The setting is for a single master with replicas. There it makes it less likely that a
    /// replica which takes over lacks a lock. It does not make it impossible: only a quorum of independent masters does.
    /// While replicas are behind or gone, no lock is granted. Taking a lock takes up to `timeout` longer, and the TTL must
    /// be at least twice the two timeouts together. Uses `WAIT`, on a connection of its own.
    ///
    /// A promoted replica renews held locks only after 13 s. So a lock on a single master outlives a failover if its TTL
    /// covers that and the outage, for example 30 s.
    ///
    /// Set `min-replicas-to-write` on the master as well. Otherwise an old master that lives on after a failover renews its
    /// locks for as long as their holders reach it: see [`operations`](crate::operations), "Masters with replicas".
    pub fn wait_replicas(mut self, replicas: u32, timeout: Duration) -> Self {
        self.settings.wait_replicas = Some((replicas, timeout));
        self
    }

    /// Turns fencing on or off: each holder of a lock gets a [`FencingToken`](crate::FencingToken) that is larger than those
    /// of all earlier holders.
    ///
    /// Defaults to on. Only the storage that a lock protects can stop a holder that was paused for longer than its lock
    /// lived, and the storage needs the token for that. It usually costs no round trip. Each node keeps a key of about 150
    /// bytes per name, until ten minutes after its last use: 120 MB at 1,000 new names a second. Turn it off if names are
    /// never used again, and are so many that this is too much memory. All clients of the same names should agree.
    pub fn fencing(mut self, on: bool) -> Self {
        self.settings.fencing = on;
        self
    }

    /// Turns the local queue on or off. Threads of this process that want the same lock wait in it, for all clones of this
    /// client, and only the first one asks the nodes. They are served in the order in which they came. A thread that gives
    /// the lock back hands it to the next thread at once, without a message to the nodes, and with a
    /// [`FencingToken`](crate::FencingToken) of its own.
    ///
    /// A lock is handed over only while it is certainly held, with half the TTL left, between locks that are renewed and
    /// have the same TTL. It is not handed over if it was extended beyond that TTL. All other locks are given back and taken
    /// again. After 100 ms of hand-overs the lock goes back to the nodes, and this process stays away for 4 ms, so that
    /// other processes get it. If other processes are known to wait, the lock goes back as soon as each thread that was in
    /// the queue has had it once.
    ///
    /// Defaults to on: a thousand threads then cost the nodes no more than one, and a hand-over takes microseconds. Turn it
    /// off if each thread has to compete by itself with those of other processes.
    pub fn local_queue(mut self, on: bool) -> Self {
        self.settings.local_queue = on;
        self
    }

    /// Sets the beginning of the key of every lock, before the lock's name.
    ///
    /// Defaults to `quorlock:`, which keeps locks apart from other data. With the empty prefix the key is the bare name.
    /// Exclusive locks then exclude, and are excluded by, those of other clients of the Redlock algorithm: same key, same
    /// value layout, same release.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.key_prefix = prefix.into().into_bytes();
        self
    }

    /// Sets the label by which operators recognise this client among the holders of locks. At most 64 bytes of printable
    /// ASCII; anything else is a [`Config`](crate::ErrorKind::Config) error of [`build`](Self::build).
    ///
    /// The nodes keep it as a part of the lock's owner, `LABEL#RANDOM`. `redis-cli GET KEY` shows the owner, or `HKEYS` if a
    /// lock of the kind is a hash. The random part follows the last `#`, and is new for each attempt. With an empty label
    /// the owner is the random part alone. Labels decide nothing: two clients may have the same one, and owners are compared
    /// as a whole. See [`Guard::owner`](crate::Guard::owner), and [`Handle::holder`](crate::Handle::holder).
    ///
    /// **Do not put a secret into it.** Everybody who can read the nodes' keys can read it, and it appears in events and
    /// logs.
    ///
    /// Defaults to `HOST:PID`, the host's name and the process id at the time when the client is built. In the host's name,
    /// each character that a label may not contain is replaced by `-`, and a name that is too long is cut off at its end.
    ///
    /// # Examples
    ///
    /// ```
    /// # use quorlock::Quorlock;
    /// Quorlock::builder().owner_label("billing/worker-3");
    /// ```
    pub fn owner_label(mut self, label: impl Into<String>) -> Self {
        self.settings.owner_label = Some(label.into());
        self
    }

    /// Returns the addresses of the nodes, and the settings, after checking both.
    pub(crate) fn checked(self) -> Result<(Vec<Address>, Settings), Error> {
        let mut wrong = self.settings.wrong();
        let addresses = self.addresses(&mut wrong);
        refuse(wrong)?;
        Ok((addresses, self.settings))
    }

    /// Returns the addresses of the nodes, without wrong ones, and adds a text for each of these to `wrong`.
    fn addresses(&self, wrong: &mut Vec<String>) -> Vec<Address> {
        if self.nodes.is_empty() {
            wrong.push(format!(
                "no node is configured; name the Redis masters in {NODES}, each by its URL, redis://host:port"
            ));
        }
        if self.password.is_some() && self.credentials.is_some() {
            wrong.push(format!("both {PASSWORD} and {CREDENTIALS} are set; leave one of them out"));
        }
        #[cfg(feature = "tls")]
        let texts = match self.certificates.checked() {
            Ok(texts) => texts,
            Err(error) => {
                wrong.push(error.to_string());
                return Vec::new();
            }
        };
        let mut addresses: Vec<(usize, Address)> = Vec::with_capacity(self.nodes.len());
        for (i, url) in (1..).zip(&self.nodes) {
            let address = Address::parse(url, i).map(|address| match &self.password {
                Some(password) => address.or_password(password),
                None => address,
            });
            let address = address.map(|address| match &self.credentials {
                Some(provider) => address.or_credentials(provider),
                None => address,
            });
            #[cfg(feature = "tls")]
            let address = address
                .and_then(|address| address.with_certificates(&self.certificates, &texts, i));
            let address = match address {
                Ok(address) => address,
                Err(error) => {
                    wrong.push(error.to_string());
                    continue;
                }
            };
            let same = addresses.iter().find(|(_, other)| other.same_server(&address));
            if let Some((j, _)) = same {
                wrong.push(format!(
                    "nodes {j} and {i} are the same server, {}; one server has one vote",
                    address.shown()
                ));
            }
            addresses.push((i, address));
        }
        addresses.into_iter().map(|(_, address)| address).collect()
    }
}

#[cfg(feature = "tls")]
impl Builder {
    /// Sets the certificates, in PEM, of the CA that signed the certificates of the `rediss://` nodes. No other CA is
    /// trusted then.
    ///
    /// Defaults to the public CAs that Mozilla trusts, which are compiled in: they are the same on every machine, also in a
    /// container without any. The system's own CAs are not used; a company's CA has to be set here.
    ///
    /// TLS uses the process's default `rustls` cryptography provider. If there is none when the client is built, `ring`
    /// becomes the default; to use another one, install it before.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(Pem::Text(pem.into()));
        self
    }

    /// Sets [`tls_ca`](Self::tls_ca) from a file. The file is read again for each new connection, so that replacing the CA
    /// needs no restart of the process. While the file cannot be used, the last usable CA stays in use, and an event reports
    /// it.
    pub fn tls_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.ca = Some(Pem::File(path.into()));
        self
    }

    /// Sets a certificate, with those that lead to its CA, and its private key (not encrypted), both in PEM, for `rediss://`
    /// nodes that require one.
    ///
    /// Defaults to none. The certificate does not log in: user and password stay in the URL.
    pub fn tls_client_cert(
        mut self,
        cert_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((Pem::Text(cert_pem.into()), Pem::Text(key_pem.into())));
        self
    }

    /// Sets [`tls_client_cert`](Self::tls_client_cert) from files, which are read again for each new connection, as for
    /// [`tls_ca_file`](Self::tls_ca_file). A certificate that was renewed there is used from the next connection on.
    pub fn tls_client_cert_files(
        mut self,
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        self.certificates.client = Some((Pem::File(cert.into()), Pem::File(key.into())));
        self
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The URLs, the password and the certificates are left out, since they contain secrets.
        let mut shown = f.debug_struct("Builder");
        shown.field("nodes", &self.nodes.len());
        self.settings.show(&self.settings.owner_label, &mut shown);
        shown.finish()
    }
}
