//! The random requests and work of a contender.

use std::time::Duration;

use quorlock::{HoldClass, Renewal};
use rand::rngs::StdRng;
use rand::seq::{SliceRandom, index};
use rand::{RngExt, SeedableRng};

use crate::kinds::{AnyKind, KINDS};
use crate::witness::Store;

use super::Settings;
use super::wish::{Call, PERMITS, Wish, has_permits, is_of_elections};

/// The maximum of names per lock. It is lower than the number of names, so that several locks are held at a time.
const MOST_NAMES: usize = 3;

/// The shortest TTL that the default node timeout of 200 ms allows: twice that.
const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// Random choices from a seed.
pub(crate) struct Chooser {
    chance: StdRng,
    /// The kinds to choose from. Their locks have the same names, so they exclude each other.
    kinds: Vec<&'static dyn AnyKind>,
    names: usize,
    max_ttl: Duration,
    long_holds: bool,
}

/// The work of one holder.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The store that the holder reads first. At the end it writes the store, or reads it again if its lock is shared.
    pub(crate) store: Store,
    /// The name that the store belongs to, one of those that the holder has.
    pub(crate) name: String,
    /// Duration of the work.
    pub(crate) takes: Duration,
    /// The holder writes without asking its guard. That is safe where the store compares tokens.
    pub(crate) careless: bool,
    /// Delay between the question to the guard and the write. Tokens exist for what happens in it.
    pub(crate) hesitates: Duration,
    /// The TTL by which the holder extends its lock in between.
    pub(crate) extends: Option<Duration>,
    /// The holder gives the lock back by dropping the guard.
    pub(crate) drops: bool,
    /// The holder gives the lock back when another contender asks for it.
    pub(crate) gives_up: bool,
}

impl Chooser {
    pub(crate) fn new(settings: &Settings, thread: usize) -> Self {
        let worker: u64 = settings.worker.bytes().map(u64::from).sum();
        let seed = settings.seed ^ (worker << 32) ^ ((thread as u64) << 48);
        let mut kinds = KINDS.to_vec();
        if settings.long_holds {
            kinds.retain(|kind| kind.hold_class() == HoldClass::Exclusive);
        }
        Self {
            chance: StdRng::seed_from_u64(seed),
            kinds,
            names: settings.names,
            max_ttl: settings.max_ttl,
            long_holds: settings.long_holds,
        }
    }

    fn chance(&mut self, of: u32) -> bool {
        self.chance.random_range(0..of) == 0
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.chance.random_range(from..=to))
    }

    /// A random TTL up to the longest one, so that TTLs of different lengths meet.
    fn ttl(&mut self) -> Duration {
        let part = [1, 1, 2, 4, 6][self.chance.random_range(0..5)];
        (self.max_ttl / part).max(SHORTEST_TTL)
    }

    /// Random different names in order, at most as many as a lock of the kind may have.
    pub(crate) fn names(&mut self, most: usize) -> Vec<String> {
        let count = self.chance.random_range(1..=most.min(MOST_NAMES).min(self.names));
        let mut chosen = index::sample(&mut self.chance, self.names, count).into_vec();
        chosen.sort_unstable();
        chosen.into_iter().map(|name| format!("lock/{name}")).collect()
    }

    pub(crate) fn wish(&mut self) -> Wish {
        let kind = self.kinds[self.chance.random_range(0..self.kinds.len())];
        let names = self.names(kind.most_names());
        let mut asked_as = names.clone();
        asked_as.shuffle(&mut self.chance);
        if self.long_holds {
            let (ttl, renewal) = (self.max_ttl, Renewal::Manual);
            // All permits, since no other contender may hold the lock meanwhile.
            let permits = has_permits(kind).then_some(PERMITS);
            let (call, stands, asks) = (Call::Lock, false, false);
            return Wish { kind, names, asked_as, ttl, renewal, call, permits, stands, asks };
        }
        let permits = has_permits(kind).then(|| self.chance.random_range(1..=PERMITS));
        let call = match self.chance.random_range(0..10) {
            0..6 => Call::Lock,
            6 => Call::TryLock,
            7 | 8 => Call::TryLockFor(self.millis(10, 2_000)),
            _ => Call::LockCancellable(self.millis(10, 2_000)),
        };
        let renewal = if self.chance(3) { Renewal::Manual } else { Renewal::Auto };
        let stands = is_of_elections(kind) && self.chance(3);
        let renewal = if stands { Renewal::Auto } else { renewal };
        let (ttl, asks) = (self.ttl(), self.chance(6));
        Wish { kind, names, asked_as, ttl, renewal, call, permits, stands, asks }
    }

    /// The work of a holder. It is `short` where every contender must get a lock soon.
    pub(crate) fn work(&mut self, wish: &Wish, has_token: bool, short: bool) -> Work {
        let store = match self.chance.random_range(0..3) {
            0 if has_token => Store::GuardedSet,
            1 if has_token => Store::Database,
            _ => Store::Set,
        };
        let takes = match self.chance.random_range(0..50) {
            _ if short => self.millis(0, 5),
            _ if self.long_holds => wish.ttl,
            // Longer than the lock lives without a renewal, or than its last renewal.
            0 => wish.ttl + wish.ttl / 2,
            1..6 => self.millis(50, 400),
            _ => self.millis(0, 20),
        };
        let name = wish.names[self.chance.random_range(0..wish.names.len())].clone();
        Work {
            store,
            name,
            takes,
            careless: store != Store::Set && self.chance(2),
            hesitates: if self.chance(4) { self.millis(1, 50) } else { Duration::ZERO },
            extends: self.chance(10).then(|| self.ttl()),
            drops: self.chance(2),
            gives_up: self.chance(3),
        }
    }

    /// The pause before the next call.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.chance(10) {
            true => self.millis(50, 200),
            false => self.millis(0, 20),
        }
    }
}
