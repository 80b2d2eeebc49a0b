//! Random numbers out of a seed: the same seed gives the same run. For the explorer, fixed numbers in place of random ones.

use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Golden ratio, of 2^64: its multiples are spread evenly.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) enum Chance {
    Random(Box<StdRng>),
    /// The middle of each range, and nothing that happens by chance. Shares and owners come from the number of draws.
    Fixed(u64),
}

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self::Random(Box::new(StdRng::seed_from_u64(seed)))
    }

    pub(super) const fn fixed() -> Self {
        Self::Fixed(0)
    }

    fn spread(draws: &mut u64) -> u64 {
        *draws += 1;
        draws.wrapping_mul(SPREAD)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        match self {
            Self::Random(random) => random.random_range(0..end),
            Self::Fixed(_) => end / 2,
        }
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random duration in whole microseconds, out of `range` milliseconds.
    pub(super) fn ms(&mut self, range: Range<u64>) -> Duration {
        let us = range.start * 1_000..range.end * 1_000;
        Duration::from_micros(match self {
            Self::Random(random) => random.random_range(us),
            Self::Fixed(_) => u64::midpoint(us.start, us.end),
        })
    }

    pub(super) fn number(&mut self, range: Range<i64>) -> i64 {
        match self {
            Self::Random(random) => random.random_range(range),
            Self::Fixed(_) => i64::midpoint(range.start, range.end),
        }
    }

    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A random number out of `0.0..1.0`.
    pub(super) fn share(&mut self) -> f64 {
        match self {
            Self::Random(random) => random.random(),
            Self::Fixed(draws) => (Self::spread(draws) >> 11) as f64 / (1_u64 << 53) as f64,
        }
    }

    pub(super) fn owner(&mut self) -> u128 {
        match self {
            Self::Random(random) => random.random(),
            Self::Fixed(draws) => u128::from(Self::spread(draws)) << 64 | u128::from(*draws),
        }
    }
}
