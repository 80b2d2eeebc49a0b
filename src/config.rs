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
use crate::error::Error;
use crate::node::Address;
#[cfg(feature = "tls")]
use crate::node::{Certificates, Pem};
use crate::terms::NODES;

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
    #[cfg(feature = "tls")]
    certificates: Certificates,
    settings: Settings,
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
        Self::default().nodes_from_env()
    }

    /// The nodes from the environment variable `QUORLOCK_NODES`, as [`from_env`](Self::from_env) has them. They replace those
    /// set before.
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

    /// The URLs of the Redis masters, `redis://[user:password@]host[:port][/database]` or
    /// `unix:///path`; with the feature `tls` also `rediss://`, which is the same with TLS. They
    /// replace those set before.
    ///
    /// Use an odd number of masters on machines that fail independently, without replication among
    /// them: 3 tolerate the loss of one, 5 of two. An even number tolerates no more than the odd
    /// one below it. A single one works too, and is only as safe as that one server. All clients
    /// must name the same set. There is no default.
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

    /// The password for all nodes whose URL has none, so that URLs can be written where everybody reads them: it may come
    /// from a secret store, and they from a file. The user is the URL's, or else Redis's user `default`.
    ///
    /// There is no default: a client does not log in at nodes whose URL has no password. An empty password is none.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into()).filter(|password| !password.is_empty());
        self
    }

    /// How long a lock lives without being extended: at least twice the
    /// [`node_timeout`](Self::node_timeout), and four times the
    /// [`clock_tolerance`](Self::clock_tolerance); at most [`max_ttl`](Self::max_ttl), in whole milliseconds.
    ///
    /// Defaults to 10 s. It is how long a lock stays taken after its holder crashed, and how long a
    /// holder may be cut off before it loses the lock. A lock may be held for much longer: it is
    /// [renewed](Self::renewal).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.settings.ttl = ttl;
        self
    }

    /// The longest TTL that any client of these nodes uses: by [`ttl`](Self::ttl), by
    /// [`Mutex::ttl`](crate::Mutex::ttl) or in [`Guard::extend`](crate::Guard::extend). At most one hour, in
    /// whole milliseconds. A longer TTL is a [`Config`](crate::ErrorKind::Config) error of the call that
    /// asks for it; for the TTL of the builder that is [`build`](Self::build).
    ///
    /// A node that may have forgotten locks grants nothing for that long:
    /// [`restart_quarantine`](Self::restart_quarantine). So a smaller one makes nodes ready sooner after a
    /// restart.
    ///
    /// All clients of the nodes must agree on it: those with another value get
    /// [`Config`](crate::ErrorKind::Config). Defaults to 10 s, whatever the TTL, so that clients agree that
    /// do not set it; so a `max_ttl` below 10 s needs a [`ttl`](Self::ttl) as well. [`operations`](crate::operations) says how to change it for a set that is in use.
    pub fn max_ttl(mut self, max_ttl: Duration) -> Self {
        self.settings.max_ttl = max_ttl;
        self
    }

    /// By how much a master's wall clock may be set forward at once without costing it its vote: at least
    /// 10 ms, in whole milliseconds. A step ends the keys of locks early, so every lock is valid for that much less than
    /// its TTL: [`Guard::remaining`](crate::Guard::remaining). A master whose clock takes a larger step
    /// forward grants no locks, to anybody, until all its locks have ended
    /// ([`max_ttl`](Self::max_ttl)).
    ///
    /// What a master grants counts only if its clock can be read exactly enough to be sure of that: the
    /// round trip to a master must stay below a third of it, or the vote is missing at times. The TTL is
    /// at least four times as long.
    ///
    /// All clients of the nodes must agree on it: those with another value get
    /// [`Config`](crate::ErrorKind::Config). Defaults to 100 ms: a network's round trip is far below, and
    /// what a time service corrects at once is, too. Set it lower for TTLs below 400 ms, and higher where
    /// masters are far away.
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.settings.clock_tolerance = tolerance;
        self
    }

    /// What this set of nodes is called: 1 to 64 letters, digits, `.`, `_` and `-`.
    ///
    /// Defaults to `default`. Give sets names of their own to have it noticed, by
    /// [`Config`](crate::ErrorKind::Config), when a client names the nodes of another one by mistake.
    pub fn set_name(mut self, name: impl Into<String>) -> Self {
        self.settings.set_name = name.into();
        self
    }

    /// Whether a node that may have forgotten locks, since it is new, or was restarted, emptied or
    /// promoted, or since its wall clock was set forward, grants none for [`max_ttl`](Self::max_ttl). Locks
    /// that are held go on meanwhile, and are renewed there.
    ///
    /// Defaults to on: otherwise restarts of a majority within one TTL, or a flush, let a second client
    /// have a lock that is held. The price is that a new set grants its first lock after `max_ttl`, and a
    /// single node waits that long after each restart. [`Quorlock::admit`](crate::Quorlock::admit) skips the wait once, where
    /// nothing can be held. Switch the quarantine off for development, and for CI with a throw-away server: a
    /// restart lets a second client have a lock that is held then, and nothing is noticed. All clients
    /// of the nodes must agree.
    pub fn restart_quarantine(mut self, on: bool) -> Self {
        self.settings.restart_quarantine = on;
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

    /// How long [`lock`](crate::Quorlock::lock) goes on trying while no majority can be reached; and so do the
    /// calls with a deadline, if that is not over before. A majority that rejects this client is not waited
    /// for: that is [`Config`](crate::ErrorKind::Config) at once.
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

    /// The longest that a lock may be held in all, whatever is asked for in renewals and extensions; at least the
    /// [`node_timeout`](Self::node_timeout). At its end the lock is lost, and given back. Its keys do
    /// not live longer than that either, whatever the TTL, should the holder crash.
    ///
    /// Defaults to no limit, which [`Duration::MAX`] is, too: as long as the holder lives. Set it where a holder
    /// that hangs, but still renews, must not keep everybody out for ever.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.settings.max_hold = limit(max_hold);
        self
    }

    /// How long a lock is kept at least, from its grant on, although it is given back earlier: for jobs that several hosts
    /// start at the same time. At most 24 hours, also beyond the [`max_ttl`](Self::max_ttl).
    ///
    /// Ten hosts start a job at midnight; their clocks differ by a second, and the job takes 50 ms. With a plain
    /// lock it runs several times that night. With a `min_hold` of some minutes it runs once: the lock is taken until
    /// their last clock has come to midnight. (What is `lockAtLeastFor` in `ShedLock`.)
    ///
    /// Hosts whose clocks agree ask at one instant, and the masters' votes may be split among them.
    /// [`try_lock`](crate::Quorlock::try_lock) tries again then, a few times within the node timeout. With
    /// [`try_lock_for`](crate::Quorlock::try_lock_for) and a second a host goes on for longer, so that no bad luck and no
    /// restart of a master keeps all hosts from the job. The `min_hold` is to be longer than the clocks differ and a host
    /// waits, together.
    ///
    /// While the guard lives, nothing is different: the lock is renewed, and can be lost. When the guard is dropped or
    /// unlocked, the masters set its keys to end at that time, in place of deleting them. No thread of this process is
    /// handed the lock before. From then on nobody is inside, so no exclusion rests on what the masters keep. It takes a
    /// majority of them: if so many have forgotten it, or were out of reach for longer than the TTL when it was given
    /// back, that the others are no majority, the lock can be taken earlier. A holder that crashes leaves the rest of
    /// its TTL. So choose a TTL that is longer than the hosts' clocks differ. A lock that was lost is not kept,
    /// so a [`max_hold`](Self::max_hold) is best longer than the job ever takes. A job that has failed gives it back for
    /// another host to do it with [`Guard::waive_min_hold`](crate::Guard::waive_min_hold).
    ///
    /// It applies to every lock whose holders exclude each other: also to a write, and to the permits of a
    /// [`Semaphore`](crate::Semaphore), each of which stays taken. A lock that is only read is not kept.
    ///
    /// Defaults to none, which [`Duration::ZERO`] is, too.
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.settings.min_hold = minimum(min_hold);
        self
    }

    /// How long before the end of its validity a lock is [at risk](crate::Guard::at_risk), if no renewal is confirmed before. More
    /// than half of the TTL counts as half of it, since a renewal begins when up to a third of it is gone. With
    /// [`Duration::ZERO`] nobody is warned.
    ///
    /// Defaults to two fifths of the validity after two renewals in a row that were not confirmed, and to a third of it otherwise. With
    /// the default TTL of 10 s an outage of one second is not told then.
    pub fn risk_margin(mut self, margin: Duration) -> Self {
        self.settings.risk_margin = Some(margin);
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

    /// Whether each holder of a lock gets a [`FencingToken`](crate::FencingToken), larger than those of
    /// all holders before.
    ///
    /// Defaults to on: only the storage that a lock protects can stop a holder that was paused for
    /// longer than its lock lived, and this is what it needs for that. It costs no round trip as a rule,
    /// and on each node a key of some 150 bytes a name, until ten minutes after its last use: 120 MB at
    /// 1,000 new names a second. Switch it off where names are never used again, and so many that this is too
    /// much memory; all clients of the same names should agree.
    pub fn fencing(mut self, on: bool) -> Self {
        self.settings.fencing = on;
        self
    }

    /// Whether threads of this process that want the same lock wait in a queue here, for all clones of this
    /// client, and only the first one asks the nodes. They are served in the order in which they came.
    /// Who gives the lock back hands it to the next thread at once, without a message to the nodes, and
    /// with a [`FencingToken`](crate::FencingToken) of its own.
    ///
    /// It is handed over only while it is certain to be held, with half the TTL left, between locks that
    /// are renewed and have the same TTL, and not where it was extended beyond that TTL; others are given
    /// back and taken anew. When it has gone from hand
    /// to hand for 100 ms it goes back to the nodes, and this process stays away for 4 ms, so that others
    /// get in. Where others are known to wait, it goes back as soon as each thread that was in the queue has had
    /// it once.
    ///
    /// Defaults to on: a thousand threads then cost the nodes no more than one, and changing hands takes
    /// microseconds. Switch it off where each thread has to compete with those of other processes for
    /// itself.
    pub fn local_queue(mut self, on: bool) -> Self {
        self.settings.local_queue = on;
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

    /// By what operators recognise this client where they look at who holds a lock. It is at most 64 bytes of
    /// printable ASCII; anything else is a [`Config`](crate::ErrorKind::Config) error of [`build`](Self::build).
    ///
    /// The nodes keep it as a part of the lock's owner, `LABEL#RANDOM`, which `redis-cli GET KEY` shows, or `HKEYS` where a
    /// lock of the kind is a hash. The random part follows the last `#`, and is new for each attempt. With an empty label
    /// the owner is the random part alone.
    /// Labels decide nothing: two clients may have the same one, and owners are compared as a whole. See
    /// [`Guard::owner`](crate::Guard::owner), and [`Handle::holder`](crate::Handle::holder).
    ///
    /// **Put no secret into it.** Everybody who can read the nodes' keys can read it, and it is in events and logs.
    ///
    /// Defaults to `HOST:PID`, the host's name and the process id, as they are when the client is built. In the host's
    /// name, what a label may not contain is replaced by `-`, and what is too long is cut off at its end.
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

    /// The addresses of the nodes, and the settings, once both are checked.
    pub(crate) fn checked(self) -> Result<(Vec<Address>, Settings), Error> {
        let mut wrong = self.settings.wrong();
        let addresses = self.addresses(&mut wrong);
        refuse(wrong)?;
        Ok((addresses, self.settings))
    }

    /// The addresses of the nodes, but for those that are `wrong`: it says what is.
    fn addresses(&self, wrong: &mut Vec<String>) -> Vec<Address> {
        if self.nodes.is_empty() {
            wrong.push(format!(
                "no node is configured; name the Redis masters in {NODES}, each by its URL, redis://host:port"
            ));
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
    /// The certificates, in PEM, of the CA that signed the certificates of the `rediss://` nodes:
    /// nobody else's are trusted then.
    ///
    /// Defaults to the public CAs that Mozilla trusts, which are compiled in: they are the same on
    /// every machine, also in a container without any. The system's own are not looked at; a company's CA has to be set here.
    ///
    /// TLS uses the process's default `rustls` cryptography. If there is none when the client is
    /// built, `ring` becomes it; install another one before, if you want that.
    pub fn tls_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.ca = Some(Pem::Text(pem.into()));
        self
    }

    /// [`tls_ca`](Self::tls_ca) from a file. It is read again for each new connection, so that a CA that is replaced there needs no
    /// restart of the process. While the file cannot be used, the last one that could be is used, which an event tells.
    pub fn tls_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.ca = Some(Pem::File(path.into()));
        self
    }

    /// A certificate, with those that lead to its CA, and its private key (not encrypted), both in
    /// PEM, for `rediss://` nodes that want one.
    ///
    /// Defaults to none. It does not log in: user and password stay in the URL.
    pub fn tls_client_cert(
        mut self,
        cert_pem: impl Into<Vec<u8>>,
        key_pem: impl Into<Vec<u8>>,
    ) -> Self {
        self.certificates.client = Some((Pem::Text(cert_pem.into()), Pem::Text(key_pem.into())));
        self
    }

    /// [`tls_client_cert`](Self::tls_client_cert) from files, which are read again for each new connection, as
    /// [`tls_ca_file`](Self::tls_ca_file) does. A certificate that was renewed there is used from the next connection on.
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
        // Neither the URLs, nor the password, nor the certificates: they hold what is secret.
        let mut shown = f.debug_struct("Builder");
        shown.field("nodes", &self.nodes.len());
        self.settings.show(&self.settings.owner_label, &mut shown);
        shown.finish()
    }
}
