//! What a contender asks for, and how it asks.

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::bounded;
use quorlock::{Error, HoldClass, Quorlock, Renewal};

use crate::kinds::{AnyGuard, AnyKind};
use crate::witness::{Class, Kind};

use super::Failure;

/// What a contender asks for.
pub(crate) struct Wish {
    pub(crate) kind: &'static dyn AnyKind,
    /// In order, and each of them once.
    pub(crate) names: Vec<String>,
    /// The same as they are given to the library: in any order.
    pub(crate) asked_as: Vec<String>,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) call: Call,
}

/// How it asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    Lock,
    TryLock,
    TryLockFor(Duration),
    /// Cancelled after that time.
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
    /// Makes the call. `None` if another one holds the lock.
    pub(crate) fn take(&self, locks: &Quorlock) -> Result<Option<Box<dyn AnyGuard>>, Error> {
        let names: Vec<_> = self.asked_as.iter().map(String::as_bytes).collect();
        let lock = self.kind.of(locks, &names).ttl(self.ttl).renewal(self.renewal);
        match self.call {
            Call::Lock => lock.lock().map(Some),
            Call::TryLock => lock.try_lock(),
            Call::TryLockFor(time) => lock.try_lock_for(time),
            Call::LockCancellable(time) => {
                let (cancel, cancelled) = bounded(0);
                thread::spawn(move || {
                    thread::sleep(time);
                    drop(cancel);
                });
                lock.lock_cancellable(&cancelled).map(Some)
            }
        }
    }
}

/// The kind, as the witness is told.
pub(crate) fn told(kind: &dyn AnyKind) -> Result<Kind, Failure> {
    let class = match kind.hold_class() {
        HoldClass::Exclusive => Class::Exclusive,
        HoldClass::Shared => Class::Shared,
        other => return Err(format!("the judge has no rule for {other:?} holds").into()),
    };
    Ok(Kind { label: kind.label().to_owned(), class })
}
