//! The client: what users call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::clock;
use crate::config::Builder;
use crate::core::exact;
use crate::error::{Error, ErrorKind};
use crate::guard::Guard;
use crate::handle::{Handle, LockKind};
use crate::holders::HeldLocks;
use crate::kinds::{self, FairMutex, MultiMutex, Mutex, ReentrantMutex};
use crate::node::{Address, Node};
use crate::process::Process;
use crate::runtime::admit;
use crate::runtime::coordinator::Coordinator;
use crate::runtime::exit;
use crate::runtime::held_locks::{self, Wanted};
use crate::runtime::loss;
use crate::runtime::settings::Settings;
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::shared::Shared;
use crate::stats::NodeStats;
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// Distributed locks over a set of Redis masters.
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
/// [`Closed`](ErrorKind::Closed), and drops do nothing, those of guards included: the parent's locks stay the
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
        loss::prepare();
        let coordinator = Coordinator::start(process, addresses, settings)?;
        exit::wait_for(coordinator.unanswered(), coordinator.settings().flush_timeout());
        let shared = Shared {
            coordinator,
            auxiliary: kinds::auxiliary(),
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
    /// [`InvalidName`](ErrorKind::InvalidName).
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

    /// A handle for the semaphore `name`, of whose `permits` each holder has one or more, with settings of its own: see
    /// [`Semaphore`]. There are 1,000 permits at most.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore::new(self.handle([name]), permits)
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
    /// [`InvalidName`](ErrorKind::InvalidName) for a name that cannot be locked; [`Config`](ErrorKind::Config)
    /// if clients with other settings use the nodes, two of the nodes are one server, or so many of them
    /// reject this client that no majority is left, which is told at once;
    /// [`NoQuorum`](ErrorKind::NoQuorum) if too few
    /// nodes could be reached for too long, [`WrongKind`](ErrorKind::WrongKind) if the name
    /// belongs to something that is no lock, [`Closed`](ErrorKind::Closed) after
    /// [`close`](Self::close).
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Result<Guard, Error> {
        self.mutex(name).lock()
    }

    /// Takes the exclusive lock `name` if it is free. It tries once, for the node timeout at most.
    ///
    /// If several callers ask at one instant, the masters' votes may be split among them, and nobody has the lock. Then they
    /// try again, up to three times and within that time, so that one of them mostly gets it. Clients with a
    /// [`fallback`](Builder::fallback) do not.
    ///
    /// It overtakes nobody: it fails, too, while threads of this client wait for a lock that is held, as
    /// [`local_queue`](Builder::local_queue) describes.
    ///
    /// # Errors
    ///
    /// [`Held`](ErrorKind::Held) if another caller holds the lock: [`optional`](crate::OptionalGuard::optional) makes `None` of
    /// it. Those of [`lock`](Self::lock); [`NoQuorum`](ErrorKind::NoQuorum) after this one try, and
    /// [`Quarantined`](ErrorKind::Quarantined) if the nodes may have forgotten locks that are held.
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

    /// Takes the exclusive lock `name` if it becomes free until `deadline`. A `deadline` in the past is a
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

    /// Takes the exclusive lock `name` if it becomes free within the time that `wait` says, unless a channel cancels that:
    /// see [`Wait`]. A [`Duration`], an [`Instant`] and a reference to a channel are one as well.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock_for`](Self::try_lock_for), where `wait` has a limit of time; otherwise those of [`lock`](Self::lock).
    /// [`Cancelled`](ErrorKind::Cancelled), if the channel has fired.
    ///
    /// # Examples
    ///
    /// ```
    /// use quorlock::crossbeam_channel::bounded;
    /// use quorlock::{ErrorKind, Quorlock};
    ///
    /// let locks = Quorlock::builder().nodes(["redis://127.0.0.1:1"]).build()?;
    /// let (stop, stopped) = bounded(0);
    /// std::thread::spawn(move || drop(stop)); // a signal handler, for example
    /// let error = locks.lock_within("orders/42", &stopped).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
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
    /// [`try_lock`](Self::try_lock) and [`with_lock`](Self::with_lock) in one.
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
    /// [`lock`](Self::lock), and [`Lost`](ErrorKind::Lost) if the lock was lost while `critical` ran. What it
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

    /// The locks that are held, or may be, by the word of the nodes: their names, and of each who holds it. Names are those that
    /// match `pattern`, in the glob syntax of Redis: `*`, `?`, `[a-z]`, and `\` before what stands for itself. An empty
    /// pattern is all names.
    ///
    /// It is for operators and for monitoring. It takes no part in any lock, and what it says may be over when it returns.
    /// A lock that somebody holds all the time while it runs is found; one that is taken or given back meanwhile may be
    /// missing.
    ///
    /// All nodes are scanned ([`SCAN`](https://redis.io/commands/scan/)), each about 1,000 keys at a time, so that no server is kept busy for long. The scan
    /// looks at all keys of the database, those of other applications included. It ends after `within`, and before that
    /// once `most` names are known. The nodes are then asked who holds these, 64 at a time, which takes up to
    /// the [`node_timeout`](Builder::node_timeout) each time. If there may be more,
    /// [`incomplete`](HeldLocks::incomplete) says why; which names are found then is left to chance.
    ///
    /// Whatever is stored as locks are counts as one: a string or a hash with an expiry. So let locks have a key prefix that
    /// no other data has. Keys without an expiry, or of other types, are not reported.
    ///
    /// The user needs the permission for `SCAN`, which no other call does: see
    /// [`operations`](crate::operations#access-lists).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if fewer than a majority of the nodes can be scanned, with a cause for each;
    /// [`Config`](ErrorKind::Config) if the nodes reject this client, or clients with other settings use them;
    /// [`InvalidName`](ErrorKind::InvalidName) if the pattern is longer than 4096 bytes; [`Closed`](ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let held = locks.held_locks("orders/*", 1_000, Duration::from_secs(10))?;
    /// for name in &held.names {
    ///     println!("{name}"); // for an operator
    /// }
    /// if !held.is_complete() {
    ///     println!("there may be more");
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn held_locks(
        &self,
        pattern: impl AsRef<[u8]>,
        most: usize,
        within: Duration,
    ) -> Result<HeldLocks, Error> {
        let (pattern, auxiliary) = (pattern.as_ref(), &*self.shared.auxiliary);
        let wanted = Wanted { pattern, auxiliary, most, within };
        held_locks::held_locks(self.coordinator().state(), &wanted)
    }

    /// Has the nodes grant locks at once that would wait for [`max_ttl`](Builder::max_ttl) first, since they
    /// are new, or were restarted, emptied or promoted. Waits until they do: at most four times the
    /// [`node_timeout`](Builder::node_timeout), or two seconds. Returns the nodes whose wait it has ended.
    ///
    /// **Only when nothing can be held**, by any client anywhere: before the first start of what uses the
    /// locks, or after all of it has been stopped. A node waits because it may have forgotten a lock that
    /// somebody still holds; who skips the wait says that there is no such lock. What a node forgets
    /// after this call is waited for as ever. So it is for a tool that sets up masters, and never for the
    /// `main` of a service: if a master was restarted just before, a second client gets a lock that is held.
    /// For development and CI there is [`restart_quarantine(false)`](Builder::restart_quarantine).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if no majority of the nodes could be reached and admitted in
    /// time, [`Config`](ErrorKind::Config) if clients with other settings use them, or if they reject this
    /// client. Each with a cause for every node.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::Builder;
    ///
    /// // Part of setting up a new installation.
    /// let locks = Builder::from_env()?.build()?;
    /// locks.admit()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn admit(&self) -> Result<Vec<String>, Error> {
        self.coordinator().process.check()?;
        admit::admit(self.coordinator().state())
    }

    /// Does what [`admit`](Self::admit) does, if the nodes show that no lock can be held. So it is safe at any time.
    ///
    /// All nodes have to answer, and none of them may have a key that can be that of a lock. And each of them would have it: it
    /// grants locks already; or it has run for longer than [`max_ttl`](Builder::max_ttl), was not emptied in that time
    /// (`FLUSHALL`), and had no mark when this client came. Masters that were started a moment ago do not fulfil that, though
    /// they are empty: they may be masters without persistence that were restarted.
    ///
    /// It goes by what each server says of its own run (`INFO`), so by its clock. If the clocks of a majority are set forward within
    /// `max_ttl` of the servers' start, they seem to have run for longer. Where statistics are reset (`CONFIG RESETSTAT`), a server
    /// does not say any more that it was emptied.
    ///
    /// The user needs the permission for `SCAN`, as for [`held_locks`](Self::held_locks).
    ///
    /// # Errors
    ///
    /// [`Quarantined`](ErrorKind::Quarantined) if a lock may be held: it says why, and when the nodes grant locks by themselves. Those
    /// of [`admit`](Self::admit).
    pub fn admit_if_unused(&self) -> Result<Vec<String>, Error> {
        self.coordinator().process.check()?;
        admit::admit_if_unused(self.coordinator().state(), &self.shared.auxiliary)
    }

    /// Ends all use of this client, by all its clones: calls that wait end with
    /// [`Closed`](ErrorKind::Closed), and so does every later one. Locks that are held stay held
    /// until their guards are dropped.
    ///
    /// Waits up to `timeout` until what was given back before is free: until its releases are
    /// answered by all nodes that can be reached, and those are a majority. Neither the end of the other
    /// clones nor the end of the process waits any longer. So a guard that outlives this call is best given
    /// back by [`Guard::unlock`], which waits by itself.
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](ErrorKind::NoQuorum) if that was not so in time: some keys end with their TTL
    /// only. The client is closed all the same.
    pub fn close(self, timeout: Duration) -> Result<(), Error> {
        let coordinator = self.coordinator().clone();
        coordinator.process.check()?;
        let until = clock::now().after(timeout);
        coordinator.close();
        let told = exit::flush(coordinator.unanswered(), until)
            && clock::poll(until, || coordinator.majority_told());
        // How long it may take was for the caller to say, for all clones and for the end of the process.
        self.shared.waits.store(false, Ordering::SeqCst);
        exit::wait_no_more_for(coordinator.unanswered());
        if told {
            return Ok(());
        }
        let message = format!(
            "closed, but within {} too few nodes could be told of the locks that were given back; \
             their keys end with their TTL",
            exact(timeout)
        );
        let faults = coordinator.nodes().iter().filter_map(Node::fault).collect();
        Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
    }

    /// The time until a majority of the nodes grants locks, as far as is known without asking them; zero if it does, and `None`
    /// if too few of them have told. For the program `quorlock`.
    #[doc(hidden)]
    #[must_use]
    pub fn grants_locks_in(&self) -> Option<Duration> {
        let coordinator = self.coordinator();
        let is_ours = coordinator.process.is_this();
        is_ours.then(|| coordinator.state().set().ready_in(clock::now())).flatten()
    }

    /// Figures about each node, in the order of the configuration.
    #[must_use]
    pub fn node_stats(&self) -> Vec<NodeStats> {
        let coordinator = self.coordinator();
        match coordinator.process.is_this() {
            true => coordinator.node_stats(),
            false => coordinator.names().iter().map(|name| NodeStats::unknown(name)).collect(),
        }
    }
}

impl Builder {
    /// Checks the settings and starts the client's threads; one for each node connects in the background.
    ///
    /// The nodes need not be up: one that cannot be reached has no vote until it can.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] if there is no node, a URL is wrong, two
    /// nodes are the same server, a certificate cannot be used, a duration is out of range, or a
    /// thread cannot be started.
    pub fn build(self) -> Result<Quorlock, Error> {
        let (addresses, settings) = self.checked()?;
        Quorlock::start(addresses, settings)
    }
}

impl fmt::Debug for Quorlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorlock").field("nodes", self.coordinator().names()).finish()
    }
}
