//! The request of a contender for a lock, and the call that makes it.

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::{Receiver, bounded};
use quorlock::{
    Error, Exclusive, HoldClass, LockKind, OptionalGuard as _, Permits, Quorlock, Renewal,
};

use crate::kinds::{AnyGuard, AnyKind};
use crate::witness::{Class, Kind};

use super::Failure;

/// A contender's request for a lock.
pub(crate) struct Wish {
    pub(crate) kind: &'static dyn AnyKind,
    /// The names, in order and without duplicates.
    pub(crate) names: Vec<String>,
    /// The same names as the library gets them: in any order.
    pub(crate) asked_as: Vec<String>,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) call: Call,
    /// The number of [`PERMITS`] that the contender wants of a semaphore.
    pub(crate) permits: Option<u32>,
    /// The contender stands for election: the lock is a term of a leader.
    pub(crate) stands: bool,
    /// The contender first asks the holders to give the lock back.
    pub(crate) asks: bool,
}

/// The permits of each semaphore. All its contenders must state the same number.
pub(crate) const PERMITS: u32 = 2;

/// Returns true for the kind of semaphores.
pub(crate) fn has_permits(kind: &dyn AnyKind) -> bool {
    kind.label() == Permits::label()
}

/// Returns true if a term of a leader is a lock of that kind.
pub(crate) fn is_of_elections(kind: &dyn AnyKind) -> bool {
    kind.label() == Exclusive::label()
}

/// The way to make the request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Lock,
    TryLock,
    TryLockFor(Duration),
    /// A call that is cancelled after that time.
    LockCancellable(Duration),
}

impl Call {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::TryLock => "try_lock",
            Self::TryLockFor(_) => "try_lock_for",
            Self::LockCancellable(_) => "lock_cancellable",
        }
    }
}

impl Wish {
    /// The name of the call.
    pub(crate) fn call(&self) -> &'static str {
        if self.stands { "campaign" } else { self.call.name() }
    }

    /// Makes the call. Returns `None` if another contender holds the lock.
    pub(crate) fn take(&self, locks: &Quorlock) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        if self.asks {
            // A failure to ask is the effect of a fault.
            let _ = locks.mutex(&self.names[0]).ask_to_release("nemesis");
        }
        if self.stands {
            return self.campaign(locks);
        }
        if let Some(count) = self.permits {
            return self.take_permits(locks, count);
        }
        let names: Vec<_> = self.asked_as.iter().map(String::as_bytes).collect();
        let lock = self.kind.of(locks, &names).ttl(self.ttl).renewal(self.renewal);
        match self.call {
            Call::Lock => lock.lock().map(Some),
            Call::TryLock => lock.try_lock(),
            Call::TryLockFor(time) => lock.try_lock_for(time),
            Call::LockCancellable(time) => lock.lock_cancellable(&cancelled_after(time)).map(Some),
        }
    }

    fn take_permits(
        &self,
        locks: &Quorlock,
        count: u32,
    ) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        let semaphore = locks.semaphore(&self.names[0], PERMITS);
        let semaphore = semaphore.ttl(self.ttl).renewal(self.renewal).many(count);
        let guard = match self.call {
            Call::Lock => semaphore.acquire(),
            Call::TryLock => semaphore.try_acquire(),
            Call::TryLockFor(time) => semaphore.try_acquire_for(time),
            Call::LockCancellable(time) => semaphore.acquire_within(&cancelled_after(time)),
        };
        Ok(guard.optional()?.map(|guard| Box::new(guard) as Box<dyn AnyGuard>))
    }
}

impl Wish {
    fn campaign(&self, locks: &Quorlock) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        let election = locks.election(&self.names[0]).ttl(self.ttl).value("nemesis");
        let leads = match self.call {
            Call::Lock => election.campaign(),
            Call::TryLock => election.try_campaign_for(Duration::ZERO),
            Call::TryLockFor(time) => election.try_campaign_for(time),
            Call::LockCancellable(time) => election.campaign_within(&cancelled_after(time)),
        };
        Ok(leads.optional()?.map(|leads| Box::new(leads.into_guard()) as Box<dyn AnyGuard>))
    }
}

fn cancelled_after(time: Duration) -> Receiver<()> {
    let (cancel, cancelled) = bounded(0);
    thread::spawn(move || {
        thread::sleep(time);
        drop(cancel);
    });
    cancelled
}

/// The kind, as it is reported to the witness.
pub(crate) fn told(wish: &Wish) -> Result<Kind, Failure> {
    let kind = wish.kind;
    let class = match (wish.permits, kind.hold_class()) {
        (Some(count), _) => Class::Permits { count, of: PERMITS },
        (None, HoldClass::Exclusive) => Class::Exclusive,
        (None, HoldClass::Shared) => Class::Shared,
        (None, other) => return Err(format!("the judge has no rule for {other:?} holds").into()),
    };
    Ok(Kind { label: kind.label().to_owned(), class })
}
