//! The client: the type that users call.

mod administration;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::config::Builder;
use crate::config::settings::Settings;
use crate::election::Election;
use crate::error::Error;
use crate::guard::Guard;
use crate::handle::{Handle, LockKind};
use crate::kinds::{self, FairMutex, MultiMutex, Mutex, ReentrantMutex};
use crate::node::Address;
use crate::process::Process;
use crate::rate_limit::RateLimit;
use crate::runtime::coordinator::Coordinator;
use crate::runtime::exit;
use crate::runtime::holder;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::settings::Settings as ShownSettings;
use crate::shared::Shared;
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// Distributed locks over a set of Redis masters.
///
/// Create one per process and hand clones to threads. Cloning is cheap: all clones share one connection and one thread per
/// node, and two more threads. One of these renews all locks, and the other one calls callbacks. The feature `metrics` adds one.
///
/// Locks are taken by name. A name is text or bytes: any bytes, at most 4096 of them. Turn a number into a text that also
/// says what it numbers: `format!("orders/{}", order.id)`. Otherwise order 42 and customer 42 share the lock `"42"`.
/// Spelling matters: `"orders/42"`, `"orders/042"` and `"Orders/42"` are three locks.
///
/// Dropping the last clone waits until all queued releases are answered, for at most the node timeout. The normal end of the
/// process does the same for clones in statics. Neither waits for a client that was [closed](Self::close).
///
/// [`std::process::exit`] runs no destructors, so a lock whose guard still exists is not given back. Nobody renews that lock
/// any more, and it ends with its TTL. Releases of guards that were dropped earlier are still answered, as at the end of
/// `main`. Drop the guards first, or return from `main`.
///
/// A `fork` without `exec` copies no threads, so fork first, and build the `Quorlock` in the child. A client that was built
/// before the fork does not work in the child, and the child cannot build another one. Every call fails at once with
/// [`Closed`](crate::ErrorKind::Closed). Drops do nothing in the child, including those of guards: the parent's locks stay
/// the parent's.
///
/// In async code, wrap the blocking calls in `tokio::task::spawn_blocking` or the like.
///
/// # Examples
///
/// ```no_run
/// use quorlock::Quorlock;
///
/// let locks = Quorlock::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .build()?;
/// let guard = locks.lock("orders/42")?;
/// // .. nobody else, on any machine, is in here for "orders/42" ..
/// guard.check()?;
/// guard.unlock()?;
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Quorlock {
    shared: Arc<Shared>,
}

impl Quorlock {
    /// Returns a builder with the defaults and no nodes.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(addresses: Vec<Address>, settings: Settings) -> Result<Self, Error> {
        let process = Process::builds()?;
        holder::ended();
        let coordinator = Coordinator::start(process, addresses, settings, &kinds::labels())?;
        #[cfg(feature = "metrics")]
        crate::metrics::start(coordinator.state())?;
        exit::wait_for(coordinator.unanswered(), coordinator.settings().flush_timeout());
        let shared = Shared {
            coordinator,
            waits: AtomicBool::new(true),
            #[cfg(feature = "embedded")]
            nodes: std::sync::OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Starts `n` embedded nodes, for a unit test, and a client for them with the default settings. The nodes run until both
    /// the client and the second value are dropped.
    ///
    /// For other settings, and for several clients that compete, see [`Nodes`](crate::embedded::Nodes).
    ///
    /// # Errors
    ///
    /// Those of [`Nodes::start`](crate::embedded::Nodes::start).
    ///
    /// # Examples
    ///
    /// ```
    /// use quorlock::Quorlock;
    ///
    /// let (locks, nodes) = Quorlock::embedded(3)?;
    /// let guard = locks.lock("orders/42")?;
    /// nodes[0].kill();
    /// assert!(locks.try_lock("orders/42").unwrap_err().is_held());
    /// guard.unlock()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded(n: usize) -> Result<(Self, crate::embedded::Nodes), Error> {
        let nodes = crate::embedded::Nodes::start(n)?;
        let locks = Self::builder().nodes(nodes.urls()).build()?;
        // No other client knows these nodes, so nothing can be held there.
        locks.admit()?;
        // The client is new, so no nodes are set yet.
        let _ = locks.shared.nodes.set(nodes.clone());
        Ok((locks, nodes))
    }

    pub(crate) fn coordinator(&self) -> &Arc<Coordinator> {
        &self.shared.coordinator
    }

    /// Returns a handle for the lock with these names, of the kind `K`: for code that is generic over kinds.
    /// [`LockKind::most_names`] is the largest number of names; equal names count once. Calls on a handle with no name, or
    /// with too many, fail with [`InvalidName`](crate::ErrorKind::InvalidName).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::{Exclusive, Quorlock};
    ///
    /// # let locks = Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let mutex = locks.handle::<Exclusive>(["orders/42"]);
    /// assert_eq!(mutex.name(), locks.mutex("orders/42").name());
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn handle<K: LockKind>(&self, names: impl IntoIterator<Item: AsRef<[u8]>>) -> Handle<K> {
        Handle::new(&self.shared, names)
    }

    /// Returns a handle for the exclusive lock `name`, with settings of its own.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        self.handle([name])
    }

    /// Returns a handle for the lock with all of these names, at most 16, with settings of its own. The lock is taken under
    /// all of its names or none, in one round trip.
    ///
    /// It excludes every lock that has one of the names: another such lock, a [`mutex`](Self::mutex) of the name, and the
    /// locks of all other kinds. Clients that list the names in different orders cannot deadlock, since nobody holds some of
    /// the names while waiting for others.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn transfer(_from: &str, _to: &str) {}
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let accounts = locks.multi_mutex(["accounts/7", "accounts/3"]);
    /// let guard = accounts.lock()?;
    /// transfer("accounts/7", "accounts/3");
    /// guard.unlock()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn multi_mutex(&self, names: impl IntoIterator<Item: AsRef<[u8]>>) -> MultiMutex {
        self.handle(names)
    }

    /// Returns a handle for the lock `name` that a thread may take again while it holds it, with settings of its own. See
    /// [`ReentrantMutex`].
    pub fn reentrant_mutex(&self, name: impl AsRef<[u8]>) -> ReentrantMutex {
        self.handle([name])
    }

    /// Returns a handle for the lock `name` that is granted to callers in the order in which they asked, with settings of
    /// its own. See [`FairMutex`].
    pub fn fair_mutex(&self, name: impl AsRef<[u8]>) -> FairMutex {
        self.handle([name])
    }

    /// Returns a handle for the lock `name` with any number of readers or one writer, with settings of its own. See
    /// [`RwLock`].
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        RwLock::new(self.handle([&name]), self.handle([&name]))
    }

    /// Returns a handle for the semaphore `name` with that number of `permits`, at most 1,000, with settings of its own. See
    /// [`Semaphore`].
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(self.handle([name]), permits)
    }

    /// Returns a limit of `calls` in any period of length `window`, by name, across machines. See [`RateLimit`]. `calls` is
    /// at most 1,000, and `window` at most 24 hours.
    pub fn rate_limit(&self, name: impl AsRef<[u8]>, calls: u32, window: Duration) -> RateLimit {
        RateLimit::new(self.semaphore(name, calls), window)
    }

    /// Returns an election by name: one of all candidates, on any machines, leads at a time. See [`Election`].
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(&self.shared, name.as_ref())
    }

    /// Returns the settings of this client, to read and to log.
    #[must_use]
    pub fn settings(&self) -> ShownSettings<'_> {
        let coordinator = self.coordinator();
        ShownSettings {
            nodes: coordinator.names(),
            owner_label: coordinator.state().owner_label(),
            settings: coordinator.settings(),
        }
    }

    /// Takes the exclusive lock `name`; waits while another caller holds it.
    ///
    /// While no majority of the nodes can be reached, the call keeps trying for
    /// [`no_quorum_timeout`](Builder::no_quorum_timeout). If nodes that may have forgotten locks prevent a grant, it waits
    /// until they are ready, usually for [`max_ttl`](Builder::max_ttl), and an event reports the wait.
    ///
    /// The lock is not reentrant; [`reentrant_mutex`](Self::reentrant_mutex) is. A thread that asks for a lock it already
    /// holds waits until another thread gives the lock back, or until the lock is lost. That is for ever if the lock is
    /// renewed and the guard belongs to the waiting thread. It is not an error, since guards can be sent to other threads. After
    /// one second an event reports it, if the lock was taken by this client or a clone of it, and the
    /// [`local_queue`](Builder::local_queue) is on.
    ///
    /// # Errors
    ///
    /// - [`InvalidName`](crate::ErrorKind::InvalidName) if the name cannot be locked.
    /// - [`Config`](crate::ErrorKind::Config), at once, if clients with other settings use the nodes, if two of the nodes
    ///   are one server, or if so many nodes reject this client that no majority is left.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes could be reached for too long.
    /// - [`WrongKind`](crate::ErrorKind::WrongKind) if the name belongs to something that is not a lock.
    /// - [`Closed`](crate::ErrorKind::Closed) after [`close`](Self::close).
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<Guard, Error> {
        self.mutex(name).lock()
    }

    /// Takes the exclusive lock `name` if it is free. The call does not wait for a holder, and takes at most the node
    /// timeout.
    ///
    /// If several callers ask at the same instant, the masters' votes may be split among them, so that nobody gets the lock.
    /// They then ask again, up to three times and within the node timeout, so that usually one of them gets it. Clients with
    /// a [`fallback`](Builder::fallback) do not ask again.
    ///
    /// The call overtakes nobody: it also fails while threads of this client wait for a lock that is held, as
    /// [`local_queue`](Builder::local_queue) describes.
    ///
    /// # Errors
    ///
    /// - [`Held`](crate::ErrorKind::Held) if another caller holds the lock; [`optional`](crate::OptionalGuard::optional)
    ///   turns it into `None`.
    /// - [`Quarantined`](crate::ErrorKind::Quarantined) if the nodes may have forgotten locks that are held.
    /// - Those of [`lock`](Self::lock), with [`NoQuorum`](crate::ErrorKind::NoQuorum) after this one try.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// match locks.try_lock("orders/42") {
    ///     Ok(guard) => guard.unlock()?, // .. after the work ..
    ///     Err(error) if error.is_held() => println!("another host is at it"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn try_lock(&self, name: impl AsRef<[u8]>) -> Result<Guard, Error> {
        self.mutex(name).try_lock()
    }

    /// Takes the exclusive lock `name` if it becomes free within `timeout`. A `timeout` of zero makes it a
    /// [`try_lock`](Self::try_lock).
    ///
    /// A client that has just given the lock back, and knows that other processes wait for it, leaves the lock to them for
    /// up to 8 ms.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock), at the latest after `timeout`.
    pub fn try_lock_for(&self, name: impl AsRef<[u8]>, timeout: Duration) -> Result<Guard, Error> {
        self.mutex(name).try_lock_for(timeout)
    }

    /// Takes the exclusive lock `name` if it becomes free by `deadline`. A `deadline` in the past makes it a
    /// [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for).
    pub fn try_lock_until(
        &self,
        name: impl AsRef<[u8]>,
        deadline: Instant,
    ) -> Result<Guard, Error> {
        self.mutex(name).try_lock_until(deadline)
    }

    /// Takes the exclusive lock `name` if it becomes free within the limits of `wait`: a time, a channel that cancels the
    /// wait, or both. A [`Duration`], an [`Instant`] and a reference to a channel convert into a [`Wait`]. A channel alone
    /// sets no time limit.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for) if `wait` has a time limit, otherwise those of [`lock`](Self::lock).
    /// [`Cancelled`](crate::ErrorKind::Cancelled) if the channel has fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorlock::crossbeam_channel::bounded;
    /// use quorlock::Quorlock;
    ///
    /// let locks = Quorlock::builder().nodes(["redis://127.0.0.1:1"]).build()?;
    /// let (stop, stopped) = bounded(0);
    /// std::thread::spawn(move || drop(stop)); // a signal handler, for example
    /// match locks.lock_within("orders/42", &stopped) {
    ///     Ok(guard) => guard.unlock()?, // .. after the work ..
    ///     Err(error) if error.is_cancelled() => println!("told to stop"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn lock_within<'a>(
        &self,
        name: impl AsRef<[u8]>,
        wait: impl Into<Wait<'a>>,
    ) -> Result<Guard, Error> {
        self.mutex(name).lock_within(wait)
    }

    /// Runs `critical` while holding the exclusive lock `name`, and gives the lock back, also if `critical` panics.
    ///
    /// For a closure that returns a `Result`, use [`with_lock_fallible`](Self::with_lock_fallible): here one result would be
    /// nested in another.
    ///
    /// # Errors
    ///
    /// - [`NotLocked`](WithLockError::NotLocked) with one of the errors of [`lock`](Self::lock): `critical` has not run.
    /// - [`Lost`](WithLockError::Lost) with the result of `critical` if the lock was lost while it ran: `critical` has run,
    ///   but perhaps not alone.
    ///
    /// Both convert into an [`Error`], also by `?`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn count_orders() -> usize { 0 }
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let orders = locks.with_lock("orders", |_guard| count_orders())?;
    /// # let _: usize = orders;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn with_lock<R>(
        &self,
        name: impl AsRef<[u8]>,
        critical: impl FnOnce(&Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.mutex(name).with_lock(critical)
    }

    /// Runs `critical` while holding the exclusive lock `name`, if the lock is free: [`try_lock`](Self::try_lock) and
    /// [`with_lock`](Self::with_lock) in one call. For a closure that may fail, use [`try_lock`](Self::try_lock) and a
    /// guard.
    ///
    /// # Errors
    ///
    /// - [`NotLocked`](WithLockError::NotLocked) with one of the errors of [`try_lock`](Self::try_lock): `critical` has not
    ///   run.
    /// - [`Lost`](WithLockError::Lost) as with [`with_lock`](Self::with_lock).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::{OptionalGuard as _, Quorlock};
    ///
    /// # fn clean_up() -> usize { 0 }
    /// # let locks = Quorlock::builder().nodes(["redis://a"]).build()?;
    /// match locks.try_with_lock("clean-up", |_guard| clean_up()).optional()? {
    ///     Some(removed) => println!("{removed} files removed"),
    ///     None => println!("another host is at it"),
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn try_with_lock<R>(
        &self,
        name: impl AsRef<[u8]>,
        critical: impl FnOnce(&Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.mutex(name).try_with_lock(critical)
    }

    /// Runs `critical` while holding the exclusive lock `name`, if the lock becomes free within `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`try_with_lock`](Self::try_with_lock).
    pub fn try_with_lock_for<R>(
        &self,
        name: impl AsRef<[u8]>,
        timeout: Duration,
        critical: impl FnOnce(&Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        self.mutex(name).try_with_lock_for(timeout, critical)
    }

    /// Runs `critical`, which returns a `Result`, while holding the exclusive lock `name`, and gives the lock back. Errors
    /// of `critical` and of the lock have one type, so one `?` is enough.
    ///
    /// Any type that an [`Error`] converts into will do: [`Error`] itself, one of your own that implements
    /// `From<quorlock::Error>`, `Box<dyn std::error::Error>`, or that of `anyhow`. If the compiler cannot infer the type,
    /// name it: `Ok::<_, MyError>(..)`.
    ///
    /// # Errors
    ///
    /// - The error of `critical`, also if the lock was lost while it ran.
    /// - Those of [`lock`](Self::lock).
    /// - [`Lost`](crate::ErrorKind::Lost) if `critical` returned `Ok` and the lock was lost while it ran. The value is
    ///   dropped; [`with_lock`](Self::with_lock) returns it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::Quorlock;
    /// # fn load(_: u32) -> std::io::Result<String> { Ok(String::new()) }
    /// # fn save(_: &str) -> std::io::Result<()> { Ok(()) }
    ///
    /// fn ship(locks: &Quorlock) -> Result<String, Box<dyn std::error::Error>> {
    ///     locks.with_lock_fallible("orders/42", |guard| {
    ///         let order = load(42)?; // an `std::io::Error`
    ///         guard.check()?; // a `quorlock::Error`
    ///         save(&order)?;
    ///         Ok(order)
    ///     })
    /// }
    /// ```
    pub fn with_lock_fallible<T, E: From<Error>>(
        &self,
        name: impl AsRef<[u8]>,
        critical: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.mutex(name).with_lock_fallible(critical)
    }
}

impl Builder {
    /// Checks the settings and starts the client's threads. One thread per node connects in the background.
    ///
    /// The nodes need not be up: a node that cannot be reached has no vote until it can.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) if there is no node, a URL is wrong, two nodes are the same server, a
    /// certificate cannot be used, a duration is out of range, or a thread cannot be started.
    pub fn build(self) -> Result<Quorlock, Error> {
        let (addresses, settings) = self.checked()?;
        Quorlock::start(addresses, settings)
    }
}

impl fmt::Debug for Quorlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Quorlock");
        self.settings().show(&mut shown);
        shown.finish()
    }
}
