//! The exclusive lock: one string a node, the layout of the Redlock algorithm.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::clock;
use crate::core::{Patience, Terms};
use crate::error::Error;
use crate::guard::Guard;
use crate::ident::{Name, NameText, fence_key, release_channel};
use crate::node::{Part, Request, Script};
use crate::runtime::call;
use crate::runtime::claim::Wanted;
use crate::runtime::kind::{Kind, Raise, Repair};
use crate::runtime::settings::{Renewal, limit};
use crate::shared::Shared;
use crate::with_lock::WithLockError;

static ACQUIRE: Script =
    Script::batched(include_str!("../../lua/mutex/acquire.lua"), "acquire", &BATCH);
static CONFIRM: Script = Script::new(include_str!("../../lua/mutex/confirm.lua"));
static EXTEND: Script =
    Script::batched(include_str!("../../lua/mutex/extend.lua"), "extend", &BATCH);
static RELEASE: Script =
    Script::batched(include_str!("../../lua/mutex/release.lua"), "release", &BATCH);

/// The scripts themselves are part of it, so that there is one text of each.
static BATCH: Script = Script::new(concat!(
    "local function acquire(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/acquire.lua"),
    "end\nlocal function extend(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../../lua/mutex/release.lua"),
    "end\n",
    include_str!("../../lua/mutex/batch.lua"),
));

/// How much longer than the lock its fence lives; the other scripts have it as `DAY`.
const FENCE_OUTLIVES: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(super) struct MutexKind;

impl Kind for MutexKind {
    fn label(&self) -> &'static str {
        "mutex"
    }

    fn acquire(
        &self,
        key: &[u8],
        mark_key: &[u8],
        owner: &str,
        ttl: Duration,
        proposal: Option<u64>,
    ) -> Request {
        let fence = proposal.map(|_| fence_key(key));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(mark_key)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), Part::Mark]);
        if let Some(proposal) = proposal {
            parts.extend([Part::from(proposal), Part::from(ttl + FENCE_OUTLIVES)]);
        }
        Request::new(&ACQUIRE, keys, &parts)
    }

    fn confirm(&self, key: &[u8], owner: &str, number: u64) -> Request {
        let fence = fence_key(key);
        let parts =
            [Part::Bytes(key), Part::Bytes(&fence), Part::Bytes(owner.as_bytes()), number.into()];
        Request::new(&CONFIRM, 2, &parts)
    }

    fn extend(&self, key: &[u8], owner: &str, ttl: Duration, repair: Repair<'_>) -> Request {
        let fence = repair.fence.map(|_| fence_key(key));
        let mut parts = vec![Part::Bytes(key), Part::Bytes(repair.mark_key)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        let (until, quarantine) = (Part::Number(repair.until_ms), repair.quarantine.into());
        parts.extend([Part::Bytes(owner.as_bytes()), ttl.into(), until, Part::Number(quarantine)]);
        if let Some(fence) = repair.fence {
            parts.extend([Part::from(fence.number), Part::from(fence.up_to)]);
        }
        Request::new(&EXTEND, keys, &parts)
    }

    fn release(&self, key: &[u8], owner: &str, raise: Option<Raise>) -> Request {
        let (channel, fence) = (release_channel(key), raise.map(|_| fence_key(key)));
        let mut parts = vec![Part::Bytes(key)];
        parts.extend(fence.as_deref().map(Part::Bytes));
        let keys = parts.len();
        parts.extend([Part::Bytes(owner.as_bytes()), Part::Bytes(&channel)]);
        if let Some(Raise { to, lasts }) = raise {
            parts.extend([Part::from(to), Part::from(lasts + FENCE_OUTLIVES)]);
        }
        Request::new(&RELEASE, keys, &parts)
    }
}

/// An exclusive lock by name, from [`Quorlock::mutex`](crate::Quorlock::mutex): the same calls as on the [`Quorlock`](crate::Quorlock),
/// without the name, and with settings of its own.
///
/// It is only a handle: making one asks nobody, and any number of them, in any number of threads,
/// stand for the same lock.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use quorlock::Quorlock;
///
/// let locks = Quorlock::builder().nodes(["redis://a", "redis://b", "redis://c"]).build()?;
/// let report = locks.mutex("nightly-report").ttl(Duration::from_secs(5));
/// if let Some(guard) = report.try_lock()? {
///     // .. nobody else writes the report now ..
///     guard.unlock()?;
/// }
/// # Ok::<(), quorlock::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a handle does nothing until one of its calls is made"]
pub struct Mutex {
    shared: Arc<Shared>,
    /// As it was given: a name that cannot be locked is told by the first call that uses it.
    name: Box<[u8]>,
    ttl: Duration,
    renewal: Renewal,
    max_hold: Option<Duration>,
}

impl Mutex {
    pub(crate) fn new(shared: &Arc<Shared>, name: &[u8]) -> Self {
        let settings = shared.coordinator.settings();
        Self {
            shared: shared.clone(),
            name: name.into(),
            ttl: settings.ttl,
            renewal: settings.renewal,
            max_hold: settings.max_hold,
        }
    }

    /// The name of the lock, without the key prefix: as it was given, also if it cannot be locked.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name of the lock as text; `None` if it is none, since names may be any bytes.
    #[must_use]
    pub fn name_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.name).ok()
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

    /// Takes the lock, as [`Quorlock::lock`](crate::Quorlock::lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock`](crate::Quorlock::lock).
    pub fn lock(&self) -> Result<Guard, Error> {
        self.acquire_at_last(None)
    }

    /// Takes the lock if it is free, as [`Quorlock::try_lock`](crate::Quorlock::try_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock(&self) -> Result<Option<Guard>, Error> {
        self.acquire(Patience::Once, None)
    }

    /// Takes the lock if it becomes free within `timeout`, as [`Quorlock::try_lock_for`](crate::Quorlock::try_lock_for) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock_for(&self, timeout: Duration) -> Result<Option<Guard>, Error> {
        if timeout.is_zero() {
            return self.try_lock();
        }
        self.acquire(Patience::Until(clock::now().after(timeout)), None)
    }

    /// Takes the lock if it becomes free until `deadline`, as [`Quorlock::try_lock_until`](crate::Quorlock::try_lock_until) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::try_lock`](crate::Quorlock::try_lock).
    pub fn try_lock_until(&self, deadline: Instant) -> Result<Option<Guard>, Error> {
        self.try_lock_for(clock::until(deadline))
    }

    /// Takes the lock unless `cancel` fires first, as [`Quorlock::lock_cancellable`](crate::Quorlock::lock_cancellable) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::lock_cancellable`](crate::Quorlock::lock_cancellable).
    pub fn lock_cancellable(&self, cancel: &Receiver<()>) -> Result<Guard, Error> {
        self.acquire_at_last(Some(cancel))
    }

    /// Runs `critical` while holding the lock, as [`Quorlock::with_lock`](crate::Quorlock::with_lock) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock`](crate::Quorlock::with_lock).
    pub fn with_lock<R>(&self, critical: impl FnOnce(&Guard) -> R) -> Result<R, WithLockError<R>> {
        let guard = self.lock().map_err(WithLockError::NotLocked)?;
        let result = critical(&guard);
        match guard.finish() {
            Ok(()) => Ok(result),
            Err(error) => Err(WithLockError::Lost { error, result }),
        }
    }

    /// Runs `critical`, which returns a `Result`, while holding the lock, as
    /// [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible) does.
    ///
    /// # Errors
    ///
    /// Those of [`Quorlock::with_lock_fallible`](crate::Quorlock::with_lock_fallible).
    pub fn with_lock_fallible<T, E: From<Error>>(
        &self,
        critical: impl FnOnce(&Guard) -> Result<T, E>,
    ) -> Result<T, E> {
        match self.with_lock(critical) {
            Ok(result) | Err(WithLockError::Lost { result: result @ Err(_), .. }) => result,
            Err(error) => Err(Error::from(error).into()),
        }
    }

    fn acquire_at_last(&self, cancel: Option<&Receiver<()>>) -> Result<Guard, Error> {
        // Endless patience is never answered with "held"; were it, going on would be right.
        loop {
            if let Some(guard) = self.acquire(Patience::Forever, cancel)? {
                return Ok(guard);
            }
        }
    }

    fn acquire(
        &self,
        patience: Patience,
        cancel: Option<&Receiver<()>>,
    ) -> Result<Option<Guard>, Error> {
        let coordinator = &self.shared.coordinator;
        let settings = coordinator.settings();
        settings.check_ttl(self.ttl)?;
        settings.check_max_hold(self.max_hold)?;
        let terms = Terms {
            ttl: self.ttl,
            renewed: self.renewal == Renewal::Auto,
            max_hold: self.max_hold,
            allowance: settings.allowance(),
        };
        let terms = terms.ending_with_the_hold();
        let name = Name::new(&settings.key_prefix, &self.name)?;
        let wanted = Wanted { kind: &MutexKind, name, terms };
        Ok(call::acquire(coordinator, &wanted, patience, cancel)?.map(Guard::new))
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex")
            .field("name", &NameText(&self.name))
            .field("ttl", &self.ttl)
            .field("renewal", &self.renewal)
            .field("max_hold", &self.max_hold)
            .finish_non_exhaustive()
    }
}
