//! The handle that users hold: the same calls for every kind of lock.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::settings::{Renewal, limit, minimum};
use crate::core::base::HoldClass;
use crate::core::hold::Terms;
use crate::core::operate::LockState;
use crate::core::vote::{MOST_PERMITS, PermitsWanted};
use crate::error::Error;
use crate::holders::HolderReport;
use crate::ident::{Name, NameText, Names, write_with_names};
use crate::lock_guard::{self, LockGuard};
use crate::runtime::administration;
use crate::runtime::call;
use crate::runtime::claim::Wanted;
use crate::runtime::queue::Queues;
use crate::shared::Shared;
use crate::stats::{LabelRecorder, check_label};
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// A kind of lock. Only this crate implements it.
#[allow(private_bounds, reason = "what a handle needs of a kind is nobody else's")]
pub trait LockKind: sealed::Kind {
    /// The guard of a lock of this kind.
    type Guard: LockGuard;

    /// Returns the name of the kind.
    #[must_use]
    fn label() -> &'static str {
        Self::kind().label
    }

    /// Returns the number of holders that such a lock may have at a time.
    #[must_use]
    fn hold_class() -> HoldClass {
        Self::kind().hold_class
    }

    /// Returns true if a thread that holds such a lock may take it again. The guards then stay on their thread.
    #[must_use]
    fn is_reentrant() -> bool {
        Self::kind().is_reentrant
    }

    /// Returns true if the guards have [tokens](crate::Guard::token), unless [`fencing`](crate::Builder::fencing) is off.
    #[must_use]
    fn has_tokens() -> bool {
        Self::kind().has_numbers()
    }

    /// Returns the commands that a server's access list has to allow for this kind, in addition to those that every client
    /// needs: see [`operations`](crate::operations).
    #[must_use]
    fn commands() -> &'static [&'static str] {
        Self::kind().layout.commands
    }

    /// Returns the largest number of names of one lock. A lock with several names is taken under all of them or none.
    #[must_use]
    fn most_names() -> usize {
        Self::kind().most_names
    }
}

/// A kind whose locks have one name each.
pub trait OneName: LockKind {}

pub(crate) mod sealed {
    use crate::kinds::contract::kind;

    /// The facts about a kind that the handle needs.
    pub(crate) trait Kind: Sized + 'static {
        /// The name of the handle's type.
        const HANDLE: &'static str;

        fn kind() -> &'static kind::Kind;
    }
}

/// A lock by name: the same calls as on the [`Quorlock`](crate::Quorlock), without the name, and with settings of its own.
/// [`Mutex`](crate::Mutex) is the handle of exclusive locks.
///
/// It is only a handle: creating one sends no request, and any number of handles, in any number of threads, stand for the
/// same lock.
#[must_use = "a handle does nothing until one of its calls is made"]
pub struct Handle<K> {
    shared: Arc<Shared>,
    /// As given by the user. The first call that uses a name reports that it cannot be locked.
    names: Box<[Box<[u8]>]>,
    ttl: Duration,
    renewal: Renewal,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    risk_margin: Option<Duration>,
    /// For a semaphore: as given by the user, like the names.
    permits: Option<PermitsWanted>,
    /// The recorder of its label; `Err` if the text that was given is no label.
    metrics_label: Option<Result<Arc<LabelRecorder>, Error>>,
    /// For a candidate for a leadership: the label of its owner.
    candidate: Option<Arc<str>>,
    /// A handle owns nothing of its kind.
    kind: PhantomData<fn() -> K>,
}

impl<K: LockKind> Handle<K> {
    pub(crate) fn new(shared: &Arc<Shared>, names: impl IntoIterator<Item: AsRef<[u8]>>) -> Self {
        let settings = shared.coordinator.settings();
        Self {
            shared: shared.clone(),
            names: names.into_iter().map(|name| name.as_ref().into()).collect(),
            ttl: settings.ttl,
            renewal: settings.renewal,
            max_hold: settings.max_hold,
            // A minimum applies only to locks that have one holder at a time.
            min_hold: settings.min_hold.filter(|_| K::hold_class() == HoldClass::Exclusive),
            risk_margin: settings.risk_margin,
            permits: K::kind().permits(),
            metrics_label: None,
            candidate: None,
            kind: PhantomData,
        }
    }

    /// The same handle, for that number of permits of a semaphore.
    pub(crate) fn permits(mut self, permits: PermitsWanted) -> Self {
        self.permits = Some(permits);
        self
    }

    /// The same handle, for a candidate: its owner has that label, and its hold is not handed to other threads.
    pub(crate) fn of_candidate(mut self, label: Arc<str>) -> Self {
        self.candidate = Some(label);
        self
    }

    /// Returns the TTL of this lock.
    pub(crate) fn lives_for(&self) -> Duration {
        self.ttl
    }

    /// Returns the error of a name or a setting that is wrong.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.wanted().map(drop)
    }

    /// Returns the names of the lock, without the key prefix: as they were given, also if they cannot be locked.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// Sets the time for which this lock lives without being extended, in the range that
    /// [`Builder::ttl`](crate::Builder::ttl) states. Defaults to the client's setting.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets the renewal of this lock while it is held, as [`Builder::renewal`](crate::Builder::renewal) describes. Defaults
    /// to the client's setting.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = renewal;
        self
    }

    /// Sets the longest time for which this lock may be held in all, as [`Builder::max_hold`](crate::Builder::max_hold)
    /// describes. Defaults to the client's setting; [`Duration::MAX`] removes the limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = limit(max_hold);
        self
    }

    /// Sets the shortest time for which this lock is kept, even if it is given back earlier, as
    /// [`Builder::min_hold`](crate::Builder::min_hold) describes. Defaults to the client's setting; [`Duration::ZERO`]
    /// removes the minimum.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use quorlock::OptionalGuard as _;
    ///
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// // All hosts start this at midnight, by their own clocks.
    /// let report = locks.mutex("nightly-report").min_hold(Duration::from_secs(5 * 60));
    /// if let Some(guard) = report.try_lock_for(Duration::from_secs(1)).optional()? {
    ///     // .. one of them comes here ..
    ///     guard.unlock()?;
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.min_hold = minimum(min_hold);
        self
    }

    /// Sets the time before the end of its validity from which this lock is at risk, as
    /// [`Builder::risk_margin`](crate::Builder::risk_margin) describes. Defaults to the client's setting.
    pub fn risk_margin(mut self, margin: Duration) -> Self {
        self.risk_margin = Some(margin);
        self
    }

    /// Counts the calls and holds of this handle under that label as well: see [`Stats::labels`](crate::Stats::labels), and the
    /// series of the feature `metrics`. Defaults to none. A label names a use of locks, such as `"orders"`, and not a single lock:
    /// 1 to 64 characters of printable ASCII, or the first call fails. Beyond 100 labels a client counts all as `"other"`.
    pub fn metrics_label(mut self, label: &str) -> Self {
        let coordinator = &self.shared.coordinator;
        // In a forked child the parent's threads may have the mutex of the labels, and no call of the handle works.
        if coordinator.process.is_this() {
            let recorder = |()| coordinator.recorder().label(label);
            self.metrics_label = Some(check_label(label).map(recorder));
        }
        self
    }

    /// Takes the lock, as [`Quorlock::lock`](crate::Quorlock::lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock).
    pub fn lock(&self) -> Result<K::Guard, Error> {
        self.lock_within(Wait::forever())
    }

    /// Takes the lock if it is free, as [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock(&self) -> Result<K::Guard, Error> {
        self.lock_within(Duration::ZERO)
    }

    /// Takes the lock if it becomes free within `timeout`, as [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock_for(&self, timeout: Duration) -> Result<K::Guard, Error> {
        self.lock_within(timeout)
    }

    /// Takes the lock if it becomes free by `deadline`, as [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock_until(&self, deadline: Instant) -> Result<K::Guard, Error> {
        self.lock_within(deadline)
    }

    /// Takes the lock if it becomes free within the limits of `wait`, as
    /// [`Quorlock::lock_within`](crate::Quorlock::lock_within) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock_within`](crate::Quorlock::lock_within).
    pub fn lock_within<'a>(&self, wait: impl Into<Wait<'a>>) -> Result<K::Guard, Error> {
        let coordinator = &self.shared.coordinator;
        let wait = wait.into();
        let wanted = self.wanted()?;
        let hold = call::acquire(coordinator, &wanted, wait.patience(), wait.cancel())?;
        Ok(lock_guard::sealed::Guard::new(hold))
    }

    /// Runs `critical` while holding the lock, as [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock`](crate::Quorlock::with_lock).
    pub fn with_lock<R>(
        &self,
        critical: impl FnOnce(&K::Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        run(self.lock(), critical)
    }

    /// Runs `critical` while holding the lock, if it is free, as [`Quorlock::try_with_lock`](crate::Quorlock::try_with_lock)
    /// does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_with_lock`](crate::Quorlock::try_with_lock).
    pub fn try_with_lock<R>(
        &self,
        critical: impl FnOnce(&K::Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        run(self.try_lock(), critical)
    }

    /// Runs `critical` while holding the lock, if it becomes free within `timeout`, as
    /// [`Quorlock::try_with_lock_for`](crate::Quorlock::try_with_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_with_lock`](crate::Quorlock::try_with_lock).
    pub fn try_with_lock_for<R>(
        &self,
        timeout: Duration,
        critical: impl FnOnce(&K::Guard) -> R,
    ) -> Result<R, WithLockError<R>> {
        run(self.try_lock_for(timeout), critical)
    }

    /// Runs `critical`, which returns a `Result`, while holding the lock, as
    /// [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible).
    pub fn with_lock_fallible<T, E: From<Error>>(
        &self,
        critical: impl FnOnce(&K::Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.with_lock(critical) {
            Ok(result) | Err(WithLockError::Lost { result: result @ Err(_), .. }) => result,
            Err(error) => Err(Error::from(error).into()),
        }
    }

    /// Returns the nodes' report on the lock, whatever its kind is: the owner, the time it has left without a renewal, the
    /// token, and the answer of each node.
    ///
    /// The call does not affect the lock. It waits for all nodes that answer within the
    /// [`node_timeout`](crate::Builder::node_timeout). The report may be out of date when the call returns.
    ///
    /// A node that was restarted or emptied may have forgotten locks. Its answer counts if it names a holder, and does not
    /// count if it names none. While a majority of the nodes is in that state, the lock is [`Unclear`](LockState::Unclear).
    ///
    /// # Errors
    ///
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) if no majority of the nodes answers in time, with a cause for each.
    /// - [`Config`](crate::ErrorKind::Config) if the nodes reject this client, or clients with other settings use them.
    /// - [`InvalidName`](crate::ErrorKind::InvalidName), and [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let report = locks.mutex("orders/42").holder()?;
    /// println!("{report}"); // for an operator
    /// for holder in report.holders() {
    ///     println!("{} has it on {} nodes", holder.owner, holder.nodes);
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn holder(&self) -> Result<HolderReport, Error> {
        administration::holders(self.shared.coordinator.state(), &self.checked_names()?)
    }

    /// Returns true if the lock may be held, and false only if a majority of the nodes says that it is free. An
    /// [`Unclear`](LockState::Unclear) lock counts as locked: see [`holder`](Self::holder).
    ///
    /// The answer may be out of date when the call returns. To do something if the lock is free, take it with
    /// [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder).
    pub fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.holder()?.state() != LockState::Free)
    }

    /// Returns the time after which the lock may be free if its holder does not renew it. `None` if the lock is free now, or
    /// if the time cannot be determined. A live holder normally renews its lock.
    /// [`NameReport::remaining_ttl`](crate::NameReport::remaining_ttl) describes how the time is determined.
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder).
    pub fn remaining_ttl(&self) -> Result<Option<Duration>, Error> {
        Ok(self.holder()?.remaining_ttl())
    }

    /// Asks the holders of the lock to give it up, whatever its kind is: to do something else first, or to stop a host.
    /// Returns true if an owner was asked, and false if nobody has the lock.
    ///
    /// **It forces nothing, and does not wait for the holder.** A holder is told only if it listens
    /// ([`Guard::asked`](crate::Guard::asked)), and gives the lock up when it can, or not at all. To get the lock, take it
    /// as usual, preferably before this call: the process of a holder that was asked leaves the lock for a moment to callers
    /// that wait elsewhere.
    ///
    /// `reason` is shown to the holder: at most 256 bytes, without control characters; it may be empty. The call first asks
    /// the nodes for the owners of the lock. Then each node keeps the request for exactly those owners, for as long as the
    /// lock's key lives without a renewal, and sends a message. So a holder that renews receives the request even if the
    /// message was lost, and a later holder does not receive it. A further request replaces an earlier one. If the lock has
    /// more than a hundred holders, a hundred of them are asked.
    ///
    /// # Errors
    ///
    /// - Those of [`holder`](Self::holder): nobody was asked.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) also if fewer than a majority of the nodes answered, or none that has the
    ///   lock, so that the holder may not receive the request. The same if there may be a holder that no node has named,
    ///   since too many nodes may have forgotten locks.
    /// - [`WrongKind`](crate::ErrorKind::WrongKind) if the name belongs to something that is not a lock.
    /// - [`Config`](crate::ErrorKind::Config) if the reason is too long, or has control characters.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let imports = locks.mutex("imports");
    /// if imports.ask_to_release("the database is upgraded")? {
    ///     println!("its holder was asked");
    /// }
    /// let guard = imports.lock()?;
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn ask_to_release(&self, reason: impl AsRef<str>) -> Result<bool, Error> {
        let (state, names) = (self.shared.coordinator.state(), self.checked_names()?);
        administration::ask_to_release(state, &names, reason.as_ref())
    }

    /// Takes the lock away from every owner that has it on any node. The next caller gets it at once, with a larger token.
    /// Returns true if anybody had the lock. For operators, when a holder hangs but still renews.
    ///
    /// **It breaks mutual exclusion, on purpose.** The holder is not asked, and continues to work until it learns of the
    /// loss. A lock that is renewed is lost at its next renewal, usually after a third of its TTL
    /// ([`KeysGone`](crate::LossReason::KeysGone)). A lock that is not renewed is lost at its next
    /// [`extend`](crate::Guard::extend), or else at its end. Until then its [`check`](crate::Guard::check) finds nothing
    /// wrong, and threads of its process may hand the lock to each other. So two holders may be at work at once; a storage
    /// that compares [tokens](crate::Guard::token) refuses the first one. Stop the holder first, if you can.
    ///
    /// The call first asks the nodes for the owners of the lock. Then each node deletes the keys of exactly those owners,
    /// including keys of attempts, but not those of an owner that came later. The node remembers these owners for a little
    /// more than [`max_ttl`](crate::Builder::max_ttl), so that no extension under way gives the lock back to them. Waiters
    /// are told. A lock that nobody holds any more, and that nodes keep for [`min_hold`](crate::Builder::min_hold), becomes
    /// free as well. Nodes that are down are told when they come back, as long as this client lives and keys can be there. A
    /// node that is emptied within that time forgets the owners.
    ///
    /// If more than a hundred owners share the lock, it is taken away from a hundred of them; call again while it [is
    /// locked](Self::is_locked).
    ///
    /// # Errors
    ///
    /// - Those of [`holder`](Self::holder): nothing was changed.
    /// - [`NoQuorum`](crate::ErrorKind::NoQuorum) also if nodes named the owners, and fewer than a majority could be told in
    ///   time, with a cause for each of the others. The same if there may be a holder that no node has named, since too many
    ///   nodes may have forgotten locks. The holder may then keep the lock.
    /// - [`WrongKind`](crate::ErrorKind::WrongKind) if nobody has the lock, and the name belongs to something that is no
    ///   lock, or has no expiry.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let locks = quorlock::Quorlock::builder().nodes(["redis://a"]).build()?;
    /// let report = locks.mutex("nightly-report");
    /// println!("{}", report.holder()?);
    /// if report.force_unlock()? {
    ///     println!("it was taken from its holder");
    /// }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn force_unlock(&self) -> Result<bool, Error> {
        administration::force_unlock(self.shared.coordinator.state(), &self.checked_names()?)
    }

    /// Takes the lock away from that [owner](crate::Guard::owner) alone, as [`force_unlock`](Self::force_unlock) does; other
    /// owners keep it. For the program `quorlock`, which gives back the lock of its own killed process. Requests that the
    /// process has written may still reach the nodes, and set no key again.
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder), and [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes could be told.
    #[doc(hidden)]
    pub fn take_from(&self, owner: &str) -> Result<(), Error> {
        administration::take_from(self.shared.coordinator.state(), &self.checked_names()?, owner)
    }

    /// Returns the names if they can be locked.
    fn checked_names(&self) -> Result<Names, Error> {
        let prefix = &self.shared.coordinator.settings().key_prefix;
        let names = self.names().map(|name| Name::new(prefix, name));
        Names::new(K::most_names(), names)
    }

    /// Returns the number of guards of this lock that the calling thread has, if it may take the lock again.
    pub(crate) fn hold_count_of_this_thread(&self) -> usize {
        self.ask_queues(Queues::hold_count).unwrap_or_default()
    }

    /// Returns true if the calling thread holds this lock, if it may take the lock again.
    pub(crate) fn is_held_by_this_thread(&self) -> bool {
        self.ask_queues(Queues::is_held_by_this_thread).unwrap_or_default()
    }

    /// Returns `None` for a name that cannot be locked, and in a forked child.
    fn ask_queues<R>(&self, ask: impl FnOnce(&Queues, &Wanted) -> R) -> Option<R> {
        let coordinator = &self.shared.coordinator;
        let wanted = self.wanted().ok().filter(|_| coordinator.process.is_this())?;
        Some(ask(coordinator.queues(), &wanted))
    }

    pub(crate) fn wanted(&self) -> Result<Wanted, Error> {
        let settings = self.shared.coordinator.settings();
        settings.check_ttl(self.ttl)?;
        settings.check_max_hold(self.max_hold)?;
        settings.check_min_hold(self.min_hold, K::hold_class())?;
        self.permits.map_or(Ok(()), check_permits)?;
        let terms = Terms {
            ttl: self.ttl,
            renewed: self.renewal == Renewal::Auto,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            allowance: settings.allowance(),
            risk_margin: self.risk_margin,
            one_holder: self.candidate.is_some(),
        };
        let terms = terms.ending_with_the_hold();
        let names = self.checked_names()?;
        let figures = self.metrics_label.clone().transpose()?;
        let label = self.candidate.clone();
        Ok(Wanted { kind: K::kind(), names, terms, permits: self.permits, label, figures })
    }
}

/// Runs `critical` under the guard, and gives the lock back.
fn run<G: LockGuard, R>(
    locked: Result<G, Error>,
    critical: impl FnOnce(&G) -> R,
) -> Result<R, WithLockError<R>> {
    let guard = locked.map_err(WithLockError::NotLocked)?;
    let result = critical(&guard);
    match lock_guard::sealed::Guard::finish(guard) {
        Ok(()) => Ok(result),
        Err(error) => Err(WithLockError::Lost { error, result }),
    }
}

fn check_permits(wanted: PermitsWanted) -> Result<(), Error> {
    let PermitsWanted { count, of } = wanted;
    match (count, of) {
        (_, 0) => Err(Error::config("a semaphore needs a permit, and 0 were given")),
        (_, of) if of > MOST_PERMITS => Err(Error::config(format!(
            "the semaphore has {of} permits; {MOST_PERMITS} are the most (share the work among several semaphores)"
        ))),
        (0, _) => Err(Error::config("0 permits of a semaphore cannot be taken; 1 is the least")),
        (count, of) if count > of => Err(Error::config(format!(
            "{count} permits of a semaphore that has {of} can never be taken"
        ))),
        _ => Ok(()),
    }
}

impl<K: OneName> Handle<K> {
    /// Returns the name of the lock, without the key prefix: as it was given, also if it cannot be locked.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.names.first().map_or(&[], AsRef::as_ref)
    }

    /// Returns the name of the lock as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        std::str::from_utf8(self.name()).ok()
    }
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        let (shared, names) = (self.shared.clone(), self.names.clone());
        let (candidate, metrics_label) = (self.candidate.clone(), self.metrics_label.clone());
        Self { shared, names, candidate, metrics_label, ..*self }
    }
}

/// The kind and the quoted names, for messages.
impl<K: LockKind> fmt::Display for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_with_names(f, K::label(), self.names())
    }
}

impl<K: LockKind> fmt::Debug for Handle<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names().map(NameText).collect();
        let mut handle = f.debug_struct(K::HANDLE);
        match names.as_slice() {
            [name] => handle.field("name", name),
            names => handle.field("names", &names),
        };
        handle
            .field("ttl", &self.ttl)
            .field("renewal", &self.renewal)
            .field("max_hold", &self.max_hold)
            .field("min_hold", &self.min_hold)
            .field("risk_margin", &self.risk_margin);
        if let Some(permits) = self.permits {
            handle.field("permits", &permits.of);
        }
        handle.finish_non_exhaustive()
    }
}
