//! The kinds of locks that contenders take. A new kind is one line in the list.

use std::thread;
use std::time::Duration;

use quorlock::crossbeam_channel::bounded;
use quorlock::{Error, Guard, LossReason, Quorlock, Renewal};

/// A kind of lock.
pub(crate) struct Kind {
    /// Names of its locks begin with this.
    pub(crate) name: &'static str,
    pub(crate) take: fn(&Quorlock, &Wish) -> Taken,
}

/// `None` if another one holds it.
pub(crate) type Taken = Result<Option<Box<dyn Held>>, Error>;

/// All kinds. Each of them excludes every other holder of the same name.
pub(crate) const KINDS: &[Kind] = &[Kind { name: "mutex", take: mutex }];

/// What a contender asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) name: String,
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

/// A guard that is not valid any more tells why at once. Generous, for busy machines.
const TELLS_WITHIN: Duration = Duration::from_secs(10);

/// A lock of any kind that is held. Dropping it gives it back.
pub(crate) trait Held {
    fn token(&self) -> Option<u64>;
    fn check(&self) -> Result<(), Error>;
    fn remaining(&self) -> Duration;
    fn extend(&self, ttl: Duration) -> Result<(), Error>;
    /// Why it was lost, once it is. `None`: it does not tell.
    fn loss(&self) -> Option<LossReason>;
    fn unlock(self: Box<Self>) -> Result<(), Error>;
}

fn mutex(locks: &Quorlock, wish: &Wish) -> Taken {
    let mutex = locks.mutex(&wish.name).ttl(wish.ttl).renewal(wish.renewal);
    let guard = match wish.call {
        Call::Lock => Some(mutex.lock()?),
        Call::TryLock => mutex.try_lock()?,
        Call::TryLockFor(time) => mutex.try_lock_for(time)?,
        Call::LockCancellable(time) => {
            let (cancel, cancelled) = bounded(0);
            thread::spawn(move || {
                thread::sleep(time);
                drop(cancel);
            });
            Some(mutex.lock_cancellable(&cancelled)?)
        }
    };
    Ok(guard.map(|guard| Box::new(guard) as Box<dyn Held>))
}

impl Held for Guard {
    fn token(&self) -> Option<u64> {
        Guard::token(self).map(u64::from)
    }

    fn check(&self) -> Result<(), Error> {
        Guard::check(self)
    }

    fn remaining(&self) -> Duration {
        Guard::remaining(self)
    }

    fn extend(&self, ttl: Duration) -> Result<(), Error> {
        Guard::extend(self, ttl)
    }

    fn loss(&self) -> Option<LossReason> {
        self.lost().recv_timeout(TELLS_WITHIN).ok()
    }

    fn unlock(self: Box<Self>) -> Result<(), Error> {
        Guard::unlock(*self)
    }
}
