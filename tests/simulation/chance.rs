//! Random numbers out of a seed: the same seed gives the same run.

use std::ops::Range;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

#[derive(Debug)]
pub(super) struct Chance(StdRng);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random duration in whole microseconds, out of `range` milliseconds.
    pub(super) fn ms(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.0.random_range(range.start * 1_000..range.end * 1_000))
    }

    pub(super) fn number(&mut self, range: Range<i64>) -> i64 {
        self.0.random_range(range)
    }

    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A random number out of `0.0..1.0`.
    pub(super) fn share(&mut self) -> f64 {
        self.0.random()
    }

    pub(super) fn owner(&mut self) -> u128 {
        self.0.random()
    }
}
