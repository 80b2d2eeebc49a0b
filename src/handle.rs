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
use crate::wait::Wait;
use crate::with_lock::WithLockError;

/// A kind of lock. Only this crate has any.
#[allow(private_bounds, reason = "what a handle needs of a kind is nobody else's")]
pub trait LockKind: sealed::Kind {
    /// What holds a lock of this kind.
    type Guard: LockGuard;

    /// What it is called.
    #[must_use]
    fn label() -> &'static str {
        Self::kind().label
    }

    /// How many holders such a lock has at a time.
    #[must_use]
    fn hold_class() -> HoldClass {
        Self::kind().hold_class
    }

    /// Whether the thread that holds such a lock may take it again. Its guards stay on their thread then.
    #[must_use]
    fn is_reentrant() -> bool {
        Self::kind().is_reentrant
    }

    /// Whether its guards have [tokens](crate::Guard::token), unless [`fencing`](crate::Builder::fencing) is off.
    #[must_use]
    fn has_tokens() -> bool {
        Self::kind().has_numbers()
    }

    /// The commands that a server's access list has to allow for it, besides those that every client needs:
    /// see [`operations`](crate::operations).
    #[must_use]
    fn commands() -> &'static [&'static str] {
        Self::kind().layout.commands
    }

    /// How many names one lock has at most: with several, it is all of them or none.
    #[must_use]
    fn most_names() -> usize {
        Self::kind().most_names
    }
}

/// A kind whose locks have one name each.
pub trait OneName: LockKind {}

pub(crate) mod sealed {
    use crate::kinds::contract::kind;

    /// What the handle needs to know of a kind.
    pub(crate) trait Kind: Sized + 'static {
        /// What the handle is called.
        const HANDLE: &'static str;

        fn kind() -> &'static kind::Kind;
    }
}

/// A lock by name: the same calls as on the [`Quorlock`](crate::Quorlock), without the name, and with settings of its
/// own. [`Mutex`](crate::Mutex) is the handle of exclusive locks.
///
/// It is only a handle: making one asks nobody, and any number of them, in any number of threads,
/// stand for the same lock.
#[must_use = "a handle does nothing until one of its calls is made"]
pub struct Handle<K> {
    shared: Arc<Shared>,
    /// As they were given: a name that cannot be locked is told by the first call that uses it.
    names: Box<[Box<[u8]>]>,
    ttl: Duration,
    renewal: Renewal,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    risk_margin: Option<Duration>,
    /// Of a semaphore: as they were given, as the names are.
    permits: Option<PermitsWanted>,
    /// Of a candidate for a leadership: the label of its owner.
    candidate: Option<Arc<str>>,
    /// It owns nothing of its kind.
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
            // It is for locks that have one holder at a time.
            min_hold: settings.min_hold.filter(|_| K::hold_class() == HoldClass::Exclusive),
            risk_margin: settings.risk_margin,
            permits: K::kind().permits(),
            candidate: None,
            kind: PhantomData,
        }
    }

    /// The same handle, for so many permits of a semaphore.
    pub(crate) fn permits(mut self, permits: PermitsWanted) -> Self {
        self.permits = Some(permits);
        self
    }

    /// The same handle, for a candidate: its owner has that label, and a hold is its own until it gives it back.
    pub(crate) fn of_candidate(mut self, label: Arc<str>) -> Self {
        self.candidate = Some(label);
        self
    }

    /// How long this lock lives without being extended.
    pub(crate) fn lives_for(&self) -> Duration {
        self.ttl
    }

    /// Returns what is wrong with the name or the settings.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.wanted().map(drop)
    }

    /// The names of the lock, without the key prefix: as they were given, also if they cannot be locked.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(AsRef::as_ref)
    }

    /// How long this lock lives without being extended, in the range that
    /// [`Builder::ttl`](crate::Builder::ttl) states. Defaults to what is set there.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Whether this lock is renewed while it is held, as [`Builder::renewal`](crate::Builder::renewal)
    /// describes. Defaults to what is set there.
    pub fn renewal(mut self, renewal: Renewal) -> Self {
        self.renewal = renewal;
        self
    }

    /// The longest that this lock may be held in all, as
    /// [`Builder::max_hold`](crate::Builder::max_hold) describes. Defaults to what is set there;
    /// [`Duration::MAX`] lifts that limit.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = limit(max_hold);
        self
    }

    /// How long this lock is kept at least, although it is given back earlier, as
    /// [`Builder::min_hold`](crate::Builder::min_hold) describes. Defaults to what is set there; [`Duration::ZERO`]
    /// lifts that minimum.
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

    /// How long before the end of its validity this lock is at risk, as [`Builder::risk_margin`](crate::Builder::risk_margin)
    /// describes. Defaults to what is set there.
    pub fn risk_margin(mut self, margin: Duration) -> Self {
        self.risk_margin = Some(margin);
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

    /// Takes the lock if it becomes free within the time that `wait` says, unless a channel cancels that, as
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

    /// Runs `critical` while holding the lock, if that becomes free within `timeout`, as
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

    /// Who holds the lock, as the nodes say, whatever its kind is: the owner, for how long without a renewal, the token, and
    /// what each node says.
    ///
    /// It takes no part in the lock, and waits for all nodes that answer within the
    /// [`node_timeout`](crate::Builder::node_timeout). What it says may be over when it returns.
    ///
    /// A node that may have forgotten locks, since it was restarted or emptied, is believed where it names a holder, and not
    /// where it knows of none. While a majority is like that, the lock is [`Unclear`](LockState::Unclear).
    ///
    /// # Errors
    ///
    /// [`NoQuorum`](crate::ErrorKind::NoQuorum) if no majority of the nodes answers in time, with a cause for each;
    /// [`Config`](crate::ErrorKind::Config) if the nodes reject this client, or clients with other settings use them;
    /// [`InvalidName`](crate::ErrorKind::InvalidName), and [`Closed`](crate::ErrorKind::Closed).
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

    /// Whether somebody may hold the lock: `false` only if a majority of the nodes says that nobody does. So it is `true`,
    /// too, where that is [`Unclear`](LockState::Unclear), which [`holder`](Self::holder) explains.
    ///
    /// It may be over when this returns. To do something if the lock is free, take it with [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder).
    pub fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.holder()?.state() != LockState::Free)
    }

    /// The time after which the lock may be free, if its holder does not renew it; `None` if it is free now, or if nobody can
    /// say. A holder that lives renews it as a rule. [`NameReport::remaining_ttl`](crate::NameReport::remaining_ttl) says how it is made out.
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder).
    pub fn remaining_ttl(&self) -> Result<Option<Duration>, Error> {
        Ok(self.holder()?.remaining_ttl())
    }

    /// Asks the holders of the lock to give it up, whatever its kind is: to do something else first, or to stop a host. Returns
    /// true if an owner was asked, and false if nobody has the lock.
    ///
    /// **It forces nothing, and waits for nobody**: a holder is told only if it listens ([`Guard::asked`](crate::Guard::asked)), and
    /// gives the lock up when it can, or not at all. To get the lock, take it as ever, best before this call: the process of a holder that
    /// was asked leaves the lock for a moment to callers that wait elsewhere.
    ///
    /// `reason` is shown to the holder: at most 256 bytes, without control characters; it may be empty. First the nodes are asked who has
    /// the lock; then each of them keeps the request for exactly those owners, for as long as the lock's key lives without a renewal, and
    /// sends a message. So a holder that renews hears of it although the message was lost, and a later holder does not. A
    /// further request replaces the one before. Of many holders a hundred are asked.
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder): then nobody was asked. [`NoQuorum`](crate::ErrorKind::NoQuorum), too, if fewer than a majority
    /// of the nodes answered, or none that has the lock, so that the holder may not hear of it; or if a holder may be there whom no node has named, since too
    /// many nodes may have forgotten locks. [`WrongKind`](crate::ErrorKind::WrongKind) if the name belongs to something that is no
    /// lock; [`Config`](crate::ErrorKind::Config) for a reason that is too long, or has control characters.
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

    /// Takes the lock from whoever has it on any node, and gives it to nobody: the next caller gets it at once, with a
    /// larger token. Returns whether anybody had it. It is for operators, where a holder hangs and still renews.
    ///
    /// **It breaks the exclusion, on purpose.** The holder is not asked, and works on until it hears of it. That is with
    /// its next renewal, after a third of its TTL as a rule, when its guard is lost
    /// ([`KeysGone`](crate::LossReason::KeysGone)). Where it is not renewed, it is with its next
    /// [`extend`](crate::Guard::extend), or not before its end. Until then its [`check`](crate::Guard::check) finds
    /// nothing wrong, and threads of its process may hand the lock to each other. So two may be at work at
    /// once; a storage that compares [tokens](crate::Guard::token) refuses the first one. Stop the holder before, where you
    /// can.
    ///
    /// First it asks who has the lock. Then each node deletes the keys of exactly those owners, also of attempts, and not
    /// those of somebody who came later. It remembers them for a little more than
    /// [`max_ttl`](crate::Builder::max_ttl), so that no extension under way gives the lock back to them. Waiters are
    /// told. A lock that nobody holds any more, and that nodes keep for [`min_hold`](crate::Builder::min_hold), is free
    /// then, too. Nodes that are down are told when they come back, as long as this client lives and keys can be there.
    /// A node that is emptied within that time forgets it.
    ///
    /// Of a lock that more than a hundred hold together, a hundred are taken from it; call again while it
    /// [is locked](Self::is_locked).
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder): then nothing was changed. [`NoQuorum`](crate::ErrorKind::NoQuorum), too, if
    /// nodes could say who has the lock, and fewer than a majority could be told in time that it is taken from them: with
    /// a cause for each of the others; or if so many nodes may have forgotten locks that a holder may be there whom none has
    /// named. The holder may keep it then. [`WrongKind`](crate::ErrorKind::WrongKind) if nobody has it, and the
    /// name belongs to something that is no lock, or has no expiry.
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

    /// Takes the lock from that [owner](crate::Guard::owner) alone, as [`force_unlock`](Self::force_unlock) does, whoever else
    /// has it. For the program `quorlock`, which gives back the lock of its own process that was killed: what that has written
    /// may still reach the nodes, and sets no key again.
    ///
    /// # Errors
    ///
    /// Those of [`holder`](Self::holder), and [`NoQuorum`](crate::ErrorKind::NoQuorum) if too few nodes could be told.
    #[doc(hidden)]
    pub fn take_from(&self, owner: &str) -> Result<(), Error> {
        administration::take_from(self.shared.coordinator.state(), &self.checked_names()?, owner)
    }

    /// The names, once they are found to be such that can be locked.
    fn checked_names(&self) -> Result<Names, Error> {
        let prefix = &self.shared.coordinator.settings().key_prefix;
        let names = self.names().map(|name| Name::new(prefix, name));
        Names::new(K::most_names(), names)
    }

    /// How many guards of this lock the calling thread has, if it may take the lock again.
    pub(crate) fn hold_count_of_this_thread(&self) -> usize {
        self.ask_queues(Queues::hold_count).unwrap_or_default()
    }

    /// Whether the calling thread holds this lock, if it may take the lock again.
    pub(crate) fn is_held_by_this_thread(&self) -> bool {
        self.ask_queues(Queues::is_held_by_this_thread).unwrap_or_default()
    }

    /// `None` for a name that cannot be locked, and in a child by fork.
    fn ask_queues<R>(&self, ask: impl FnOnce(&Queues, &Wanted) -> R) -> Option<R> {
        let coordinator = &self.shared.coordinator;
        let wanted = self.wanted().ok().filter(|_| coordinator.process.is_this())?;
        Some(ask(coordinator.queues(), &wanted))
    }

    fn wanted(&self) -> Result<Wanted, Error> {
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
        let label = self.candidate.clone();
        Ok(Wanted { kind: K::kind(), names, terms, permits: self.permits, label })
    }
}

/// Runs `critical` under the guard, and gives that back.
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
    /// The name of the lock, without the key prefix: as it was given, also if it cannot be locked.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.names.first().map_or(&[], AsRef::as_ref)
    }

    /// The name of the lock as text; `None` if it is not valid UTF-8.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        std::str::from_utf8(self.name()).ok()
    }
}

impl<K> Clone for Handle<K> {
    fn clone(&self) -> Self {
        let (shared, names) = (self.shared.clone(), self.names.clone());
        Self { shared, names, candidate: self.candidate.clone(), ..*self }
    }
}

/// The kind and the names, in quotes: for messages.
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
