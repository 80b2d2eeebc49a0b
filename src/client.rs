//! The client: what users call.

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
use crate::kinds::{FairMutex, MultiMutex, Mutex, ReentrantMutex};
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
/// Names are texts or bytes. Turn a number into a text that also says what it numbers: `format!("orders/{}", order.id)`. Otherwise
/// order 42 and customer 42 share the lock `"42"`. Spelling matters: `"orders/42"`, `"orders/042"` and `"Orders/42"` are three
/// locks.
///
/// Cheap to clone. All clones share one connection and one thread a node, and two threads besides: one renews
/// all locks, and one calls callbacks. Make one a process and hand clones to threads. Locks are taken by name;
/// the names are any bytes, up to 4096 of them.
///
/// The end of the last clone waits until all releases that are queued are answered, at most the
/// node timeout. So does the normal end of the process, for clones in statics. Neither waits for a client
/// that was [closed](Self::close).
///
/// [`std::process::exit`] runs no destructors, so it gives back no lock whose guard is still there: such a
/// lock ends with its TTL, for nobody renews it any more. What guards have given back before is still
/// answered, as at the end of `main`. Drop the guards first, or return from `main`.
///
/// A `fork` without `exec` takes no threads along. So fork first, and build the `Quorlock` in the child: one
/// that was built before is of no use there, and no other can be built then. Each call fails at once, with
/// [`Closed`](crate::ErrorKind::Closed), and drops do nothing, those of guards included: the parent's locks stay the
/// parent's. In async code, wrap the blocking calls in `tokio::task::spawn_blocking` or the like.
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
    /// A builder with the defaults and no nodes.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn start(addresses: Vec<Address>, settings: Settings) -> Result<Self, Error> {
        let process = Process::builds()?;
        holder::ended();
        let coordinator = Coordinator::start(process, addresses, settings)?;
        exit::wait_for(coordinator.unanswered(), coordinator.settings().flush_timeout());
        let shared = Shared {
            coordinator,
            waits: AtomicBool::new(true),
            #[cfg(feature = "embedded")]
            nodes: std::sync::OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Starts `n` embedded nodes, for a unit test, and a client of them with the default settings.
    /// They live as long as the client or the second value does, whichever is longer.
    ///
    /// For other settings, and for several clients that compete, see
    /// [`Nodes`](crate::embedded::Nodes).
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
        // Nobody else knows these nodes, so nothing can be held there.
        locks.admit()?;
        // It is new, so there are none yet.
        let _ = locks.shared.nodes.set(nodes.clone());
        Ok((locks, nodes))
    }

    pub(crate) fn coordinator(&self) -> &Arc<Coordinator> {
        &self.shared.coordinator
    }

    /// A handle for the lock with these names, of the kind `K`: for code that is generic over kinds. How many
    /// names there may be, [`LockKind::most_names`] says; equal names count once. A call on a handle with none, or with more, is
    /// [`InvalidName`](crate::ErrorKind::InvalidName).
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

    /// A handle for the exclusive lock `name`, with settings of its own.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        self.handle([name])
    }

    /// A handle for the lock with all of these names, with settings of its own: 16 names at most. It is taken under all
    /// of them or none, in one round trip.
    ///
    /// It excludes every lock that has one of the names: another such lock, a [`mutex`](Self::mutex) of the name, and the
    /// locks of all other kinds. Clients that name them in different orders cannot block each other for ever, since
    /// nobody holds some of the names while waiting for others.
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

    /// A handle for the lock `name` that a thread may take again while it holds it, with settings of its own:
    /// see [`ReentrantMutex`].
    pub fn reentrant_mutex(&self, name: impl AsRef<[u8]>) -> ReentrantMutex {
        self.handle([name])
    }

    /// A handle for the lock `name` that callers get in the order in which they came, with settings of its own: see
    /// [`FairMutex`].
    pub fn fair_mutex(&self, name: impl AsRef<[u8]>) -> FairMutex {
        self.handle([name])
    }

    /// A handle for the lock `name` that any number of holders have to read, or one to write, with settings of its own: see
    /// [`RwLock`].
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        RwLock::new(self.handle([&name]), self.handle([&name]))
    }

    /// A handle for the semaphore `name` with so many `permits`, at most 1,000, with settings of its own: see [`Semaphore`].
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(self.handle([name]), permits)
    }

    /// A limit of `calls` in any period of the length `window`, by name, across machines: see [`RateLimit`]. `calls` is at most
    /// 1,000, and `window` at most 24 hours.
    pub fn rate_limit(&self, name: impl AsRef<[u8]>, calls: u32, window: Duration) -> RateLimit {
        RateLimit::new(self.semaphore(name, calls), window)
    }

    /// An election by name: of all candidates, on whatever machines, one leads at a time. See [`Election`].
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(&self.shared, name.as_ref())
    }

    /// The settings of this client, to read and to log.
    #[must_use]
    pub fn settings(&self) -> ShownSettings<'_> {
        let coordinator = self.coordinator();
        ShownSettings {
            nodes: coordinator.names(),
            owner_label: coordinator.state().owner_label(),
            settings: coordinator.settings(),
        }
    }

    /// Takes the exclusive lock `name`; waits as long as somebody else holds it.
    ///
    /// While no majority of the nodes can be reached it goes on trying for
    /// [`no_quorum_timeout`](Builder::no_quorum_timeout). Where nodes that may have forgotten locks are in
    /// the way it waits until they are ready, [`max_ttl`](Builder::max_ttl) as a rule, and an event says
    /// so.
    ///
    /// It is not reentrant; [`reentrant_mutex`](Self::reentrant_mutex) is. A thread that waits for a lock that it holds itself waits until another thread
    /// gives the lock back, or until it is lost: for ever, where it is renewed and the guard is the thread's
    /// own. That is no error, since guards can be sent to other threads. An event says so after a
    /// second, if the lock was taken by this client, or a clone of it, and the
    /// [`local_queue`](Builder::local_queue) is on.
    ///
    /// # Errors
    ///
    /// [`InvalidName`](crate::ErrorKind::InvalidName) for a name that cannot be locked; [`Config`](crate::ErrorKind::Config)
    /// if clients with other settings use the nodes, two of the nodes are one server, or so many of them
    /// reject this client that no majority is left, which is told at once;
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few
    /// nodes could be reached for too long, [`WrongKind`](crate::ErrorKind::WrongKind) if the name
    /// belongs to something that is no lock, [`Closed`](crate::ErrorKind::Closed) after
    /// [`close`](Self::close).
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<Guard, Error> {
        self.mutex(name).lock()
    }

    /// Takes the exclusive lock `name` if it is free. It does not wait for a holder, and takes the node timeout at most.
    ///
    /// If several callers ask at the same instant, the masters' votes may be split among them, and nobody has the lock. Then they
    /// ask again, up to three times and within that time, so that one of them mostly gets it. Clients with a
    /// [`fallback`](Builder::fallback) do not.
    ///
    /// It overtakes nobody: it fails, too, while threads of this client wait for a lock that is held, as
    /// [`local_queue`](Builder::local_queue) describes.
    ///
    /// # Errors
    ///
    /// [`Held`](crate::ErrorKind::Held) if another caller holds the lock: [`optional`](crate::OptionalGuard::optional) makes `None` of
    /// it. Those of [`lock`](Self::lock); [`NoQuorum`](crate::ErrorKind::NoQuorum) after this one try, and
    /// [`Quarantined`](crate::ErrorKind::Quarantined) if the nodes may have forgotten locks that are held.
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

    /// Takes the exclusive lock `name` if it becomes free within `timeout`. A `timeout` of zero is a
    /// [`try_lock`](Self::try_lock).
    ///
    /// A client that has just given the lock back, and knows that others wait for it, leaves it to them for
    /// up to 8 ms.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Self::try_lock), at the latest after `timeout`.
    pub fn try_lock_for(&self, name: impl AsRef<[u8]>, timeout: Duration) -> Result<Guard, Error> {
        self.mutex(name).try_lock_for(timeout)
    }

    /// Takes the exclusive lock `name` if it becomes free by `deadline`. A `deadline` in the past is a
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

    /// Takes the exclusive lock `name` if it becomes free within the limits of `wait`: a time, a channel that cancels, or both. See
    /// [`Wait`], which a [`Duration`], an [`Instant`] and a reference to a channel turn into. A channel alone means no limit of
    /// time.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for), where `wait` has a limit of time; otherwise those of [`lock`](Self::lock).
    /// [`Cancelled`](crate::ErrorKind::Cancelled), if the channel has fired.
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

    /// Runs `critical` while holding the exclusive lock `name`, and gives it back, also if
    /// `critical` panics.
    ///
    /// A closure that returns a `Result` goes better with [`with_lock_fallible`](Self::with_lock_fallible):
    /// here its result would be one in another.
    ///
    /// # Errors
    ///
    /// [`NotLocked`](WithLockError::NotLocked) with those of [`lock`](Self::lock), and
    /// [`Lost`](WithLockError::Lost) with the result of `critical` if the lock was lost while it ran: it has
    /// run then, but perhaps not alone. Both turn into an [`Error`], by `?` as well.
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

    /// Runs `critical` while holding the exclusive lock `name`, if that is free: the two calls
    /// [`try_lock`](Self::try_lock) and [`with_lock`](Self::with_lock) in one. A closure that may fail goes better with
    /// [`try_lock`](Self::try_lock) and a guard.
    ///
    /// # Errors
    ///
    /// [`NotLocked`](WithLockError::NotLocked) with those of [`try_lock`](Self::try_lock): `critical` has not run.
    /// [`Lost`](WithLockError::Lost) as with [`with_lock`](Self::with_lock).
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

    /// Runs `critical` while holding the exclusive lock `name`, if that becomes free within `timeout`.
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

    /// Runs `critical`, which returns a `Result`, while holding the exclusive lock `name`, and gives it back.
    /// Its errors and those of the lock are of one type, so one `?` is enough.
    ///
    /// The type is any that an [`Error`] turns into: [`Error`] itself, one of your own that implements
    /// `From<quorlock::Error>`, `Box<dyn std::error::Error>`, or that of `anyhow`. Where the compiler cannot
    /// tell which, name it: `Ok::<_, MyError>(..)`.
    ///
    /// # Errors
    ///
    /// That of `critical`, whether the lock was held to its end or not. Otherwise those of
    /// [`lock`](Self::lock), and [`Lost`](crate::ErrorKind::Lost) if the lock was lost while `critical` ran. What it
    /// returned by `Ok` is dropped then; [`with_lock`](Self::with_lock) gives it back.
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
    /// Checks the settings and starts the client's threads; one for each node connects in the background.
    ///
    /// The nodes need not be up: one that cannot be reached has no vote until it can.
    ///
    /// # Errors
    ///
    /// [`Config`](crate::ErrorKind::Config) if there is no node, a URL is wrong, two
    /// nodes are the same server, a certificate cannot be used, a duration is out of range, or a
    /// thread cannot be started.
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
