//! The kinds of locks, for tests that use the list of kinds: the calls of each kind, without its type.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use quorlock::crossbeam_channel::Receiver;
use quorlock::{
    Error, FencingToken, Handle, HoldClass, HolderReport, LockGuard, LockKind, LossReason, Mode,
    OptionalGuard as _, Quorlock, ReleaseRequest, Renewal, Risk,
};

/// A kind of lock.
pub(crate) trait AnyKind: Send + Sync {
    fn label(&self) -> &'static str;

    fn hold_class(&self) -> HoldClass;

    /// Returns true if the thread that holds the lock may take it again.
    fn is_reentrant(&self) -> bool;

    fn most_names(&self) -> usize;

    fn has_tokens(&self) -> bool;

    /// The commands that a server's access list must allow for the kind.
    fn commands(&self) -> &'static [&'static str];

    /// The lock with these names.
    fn of(&self, locks: &Quorlock, names: &[&[u8]]) -> Box<dyn AnyHandle>;
}

/// A lock by its names, with settings of its own.
pub(crate) trait AnyHandle: Send + Sync {
    fn ttl(self: Box<Self>, ttl: Duration) -> Box<dyn AnyHandle>;
    fn renewal(self: Box<Self>, renewal: Renewal) -> Box<dyn AnyHandle>;
    fn max_hold(self: Box<Self>, max_hold: Duration) -> Box<dyn AnyHandle>;
    fn min_hold(self: Box<Self>, min_hold: Duration) -> Box<dyn AnyHandle>;
    fn lock(&self) -> Result<Box<dyn AnyGuard>, Error>;
    fn try_lock(&self) -> Result<Option<Box<dyn AnyGuard>>, Error>;
    fn try_lock_for(&self, timeout: Duration) -> Result<Option<Box<dyn AnyGuard>>, Error>;
    fn try_lock_until(&self, deadline: Instant) -> Result<Option<Box<dyn AnyGuard>>, Error>;
    fn lock_cancellable(&self, cancel: &Receiver<()>) -> Result<Box<dyn AnyGuard>, Error>;
    /// Runs `critical` under the lock.
    fn with_lock(&self, critical: &mut dyn FnMut()) -> Result<(), Error>;
    fn holder(&self) -> Result<HolderReport, Error>;
    fn is_locked(&self) -> Result<bool, Error>;
    fn remaining_ttl(&self) -> Result<Option<Duration>, Error>;
    fn force_unlock(&self) -> Result<bool, Error>;
    fn ask_to_release(&self, reason: &str) -> Result<bool, Error>;
}

/// A lock of any kind that is held. Dropping it gives it back.
pub(crate) trait AnyGuard {
    fn names(&self) -> Vec<Vec<u8>>;
    fn owner(&self) -> &str;
    fn mode(&self) -> Mode;
    fn token(&self) -> Option<FencingToken>;
    fn remaining(&self) -> Duration;
    fn check(&self) -> Result<(), Error>;
    fn lost(&self) -> &Receiver<LossReason>;
    fn on_lost(&self, callback: Box<dyn FnOnce(LossReason) + Send>);
    fn at_risk(&self) -> &Receiver<Risk>;
    fn on_at_risk(&self, callback: Box<dyn FnMut(Risk) + Send>);
    fn asked(&self) -> &Receiver<ReleaseRequest>;
    fn on_asked(&self, callback: Box<dyn FnMut(ReleaseRequest) + Send>);
    fn extend(&self, ttl: Duration) -> Result<(), Error>;
    fn unlock(self: Box<Self>) -> Result<(), Error>;
}

macro_rules! list {
    ($($kind:ty,)*) => {
        [$(&Of::<$kind>(PhantomData) as &dyn AnyKind),*]
    };
}

/// Every kind.
pub(crate) static KINDS: &[&dyn AnyKind] = &quorlock::for_each_kind!(list);

struct Of<K>(PhantomData<fn() -> K>);

impl<K: LockKind + 'static> AnyKind for Of<K> {
    fn label(&self) -> &'static str {
        K::label()
    }

    fn hold_class(&self) -> HoldClass {
        K::hold_class()
    }

    fn is_reentrant(&self) -> bool {
        K::is_reentrant()
    }

    fn most_names(&self) -> usize {
        K::most_names()
    }

    fn has_tokens(&self) -> bool {
        K::has_tokens()
    }

    fn commands(&self) -> &'static [&'static str] {
        K::commands()
    }

    fn of(&self, locks: &Quorlock, names: &[&[u8]]) -> Box<dyn AnyHandle> {
        Box::new(locks.handle::<K>(names))
    }
}

fn any(guard: impl LockGuard + 'static) -> Box<dyn AnyGuard> {
    Box::new(guard)
}

impl<K: LockKind + 'static> AnyHandle for Handle<K>
where
    K::Guard: 'static,
{
    fn ttl(self: Box<Self>, ttl: Duration) -> Box<dyn AnyHandle> {
        Box::new(Self::ttl(*self, ttl))
    }

    fn renewal(self: Box<Self>, renewal: Renewal) -> Box<dyn AnyHandle> {
        Box::new(Self::renewal(*self, renewal))
    }

    fn max_hold(self: Box<Self>, max_hold: Duration) -> Box<dyn AnyHandle> {
        Box::new(Self::max_hold(*self, max_hold))
    }

    fn min_hold(self: Box<Self>, min_hold: Duration) -> Box<dyn AnyHandle> {
        Box::new(Self::min_hold(*self, min_hold))
    }

    fn lock(&self) -> Result<Box<dyn AnyGuard>, Error> {
        Self::lock(self).map(any)
    }

    fn try_lock(&self) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        Ok(Self::try_lock(self).optional()?.map(any))
    }

    fn try_lock_for(&self, timeout: Duration) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        Ok(Self::try_lock_for(self, timeout).optional()?.map(any))
    }

    fn try_lock_until(&self, deadline: Instant) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        Ok(Self::try_lock_until(self, deadline).optional()?.map(any))
    }

    fn lock_cancellable(&self, cancel: &Receiver<()>) -> Result<Box<dyn AnyGuard>, Error> {
        self.lock_within(cancel).map(any)
    }

    fn with_lock(&self, critical: &mut dyn FnMut()) -> Result<(), Error> {
        Ok(Self::with_lock(self, |_| critical())?)
    }

    fn holder(&self) -> Result<HolderReport, Error> {
        Self::holder(self)
    }

    fn is_locked(&self) -> Result<bool, Error> {
        Self::is_locked(self)
    }

    fn remaining_ttl(&self) -> Result<Option<Duration>, Error> {
        Self::remaining_ttl(self)
    }

    fn force_unlock(&self) -> Result<bool, Error> {
        Self::force_unlock(self)
    }

    fn ask_to_release(&self, reason: &str) -> Result<bool, Error> {
        Self::ask_to_release(self, reason)
    }
}

impl<G: LockGuard> AnyGuard for G {
    fn names(&self) -> Vec<Vec<u8>> {
        LockGuard::names(self).map(<[u8]>::to_vec).collect()
    }

    fn owner(&self) -> &str {
        LockGuard::owner(self)
    }

    fn mode(&self) -> Mode {
        LockGuard::mode(self)
    }

    fn token(&self) -> Option<FencingToken> {
        LockGuard::token(self)
    }

    fn remaining(&self) -> Duration {
        LockGuard::remaining(self)
    }

    fn check(&self) -> Result<(), Error> {
        LockGuard::check(self)
    }

    fn lost(&self) -> &Receiver<LossReason> {
        LockGuard::lost(self)
    }

    fn on_lost(&self, callback: Box<dyn FnOnce(LossReason) + Send>) {
        LockGuard::on_lost(self, callback);
    }

    fn at_risk(&self) -> &Receiver<Risk> {
        LockGuard::at_risk(self)
    }

    fn on_at_risk(&self, callback: Box<dyn FnMut(Risk) + Send>) {
        LockGuard::on_at_risk(self, callback);
    }

    fn asked(&self) -> &Receiver<ReleaseRequest> {
        LockGuard::asked(self)
    }

    fn on_asked(&self, callback: Box<dyn FnMut(ReleaseRequest) + Send>) {
        LockGuard::on_asked(self, callback);
    }

    fn extend(&self, ttl: Duration) -> Result<(), Error> {
        LockGuard::extend(self, ttl)
    }

    fn unlock(self: Box<Self>) -> Result<(), Error> {
        LockGuard::unlock(*self)
    }
}
