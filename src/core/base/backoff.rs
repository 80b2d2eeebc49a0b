//! The pause before the next try.

use std::time::Duration;

/// Exponential backoff with jitter: contenders that started together drift apart, and a set of
/// nodes that is down is not asked in a tight loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

impl Backoff {
    /// Returns the pause after `tries` fruitless tries: at least `min`, at most the smaller of
    /// `max` and `min * 2^tries`, picked by `random` out of `0.0..1.0`.
    pub(crate) fn pause(&self, tries: u32, random: f64) -> Duration {
        let growth = 2_u32.saturating_pow(tries.min(30));
        let most = self.min.saturating_mul(growth).min(self.max).max(self.min);
        self.min + (most - self.min).mul_f64(random.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pauses_stay_between_the_bounds(
            min_ms in 1_u64..1_000, more_ms in 0_u64..100_000, tries: u32, random in 0.0..1.0_f64,
        ) {
            let min = Duration::from_millis(min_ms);
            let backoff = Backoff { min, max: min + Duration::from_millis(more_ms) };
            let pause = backoff.pause(tries, random);
            prop_assert!(backoff.min <= pause && pause <= backoff.max);
        }
    }

    #[test]
    fn pauses_grow_up_to_the_maximum() {
        let backoff = Backoff { min: Duration::from_millis(10), max: Duration::from_millis(100) };
        let most = [1, 2, 3, 4, 100].map(|tries| backoff.pause(tries, 1.0).as_millis());
        assert_eq!(most, [20, 40, 80, 100, 100]);
    }
}
