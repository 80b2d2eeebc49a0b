//! What a contender asks for and does, by chance.

use std::time::Duration;

use quorlock::Renewal;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::witness::Store;

use super::Settings;
use super::kinds::{Call, KINDS, Kind, Wish};

/// Chooses by a seed.
pub(crate) struct Chooser {
    chance: StdRng,
    names: usize,
    max_ttl: Duration,
    long_holds: bool,
}

/// What a holder does.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// What it reads at the beginning and writes at the end.
    pub(crate) store: Store,
    /// How long it takes.
    pub(crate) takes: Duration,
    /// It writes without asking its guard. That is safe where the store compares tokens.
    pub(crate) careless: bool,
    /// Between asking its guard and writing. Tokens are for what happens then.
    pub(crate) hesitates: Duration,
    /// It extends its lock in between, by this TTL.
    pub(crate) extends: Option<Duration>,
    /// It gives back by dropping.
    pub(crate) drops: bool,
}

impl Chooser {
    pub(crate) fn new(settings: &Settings, thread: usize) -> Self {
        let worker: u64 = settings.worker.bytes().map(u64::from).sum();
        let seed = settings.seed ^ (worker << 32) ^ ((thread as u64) << 48);
        Self {
            chance: StdRng::seed_from_u64(seed),
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

    /// TTLs of different lengths are side by side, up to the longest that there may be.
    fn ttl(&mut self) -> Duration {
        let part = [1, 1, 2, 4, 6][self.chance.random_range(0..5)];
        self.max_ttl / part
    }

    pub(crate) fn wish(&mut self) -> (&'static Kind, Wish) {
        let kind = &KINDS[self.chance.random_range(0..KINDS.len())];
        let name = format!("{}/{}", kind.name, self.chance.random_range(0..self.names));
        if self.long_holds {
            let (ttl, renewal) = (self.max_ttl, Renewal::Manual);
            return (kind, Wish { name, ttl, renewal, call: Call::Lock });
        }
        let call = match self.chance.random_range(0..10) {
            0..6 => Call::Lock,
            6 => Call::TryLock,
            7 | 8 => Call::TryLockFor(self.millis(10, 2_000)),
            _ => Call::LockCancellable(self.millis(10, 2_000)),
        };
        let renewal = if self.chance(3) { Renewal::Manual } else { Renewal::Auto };
        (kind, Wish { name, ttl: self.ttl(), renewal, call })
    }

    /// What a holder of the lock does. It is `short` where everybody has to get a lock soon.
    pub(crate) fn work(&mut self, wish: &Wish, has_token: bool, short: bool) -> Work {
        let store = match self.chance.random_range(0..3) {
            0 if has_token => Store::GuardedSet,
            1 if has_token => Store::Database,
            _ => Store::Set,
        };
        let takes = match self.chance.random_range(0..50) {
            _ if short => self.millis(0, 5),
            _ if self.long_holds => wish.ttl,
            // Longer than the lock lives without being renewed, or than it was renewed for.
            0 => wish.ttl + wish.ttl / 2,
            1..6 => self.millis(50, 400),
            _ => self.millis(0, 20),
        };
        Work {
            store,
            takes,
            careless: store != Store::Set && self.chance(2),
            hesitates: if self.chance(4) { self.millis(1, 50) } else { Duration::ZERO },
            extends: self.chance(10).then(|| self.ttl()),
            drops: self.chance(2),
        }
    }

    /// Before the next call.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.chance(10) {
            true => self.millis(50, 200),
            false => self.millis(0, 20),
        }
    }
}
