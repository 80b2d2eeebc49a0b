//! The time for which a granted lock is certainly ours.

use std::time::Duration;

use super::{Mechanism, Rule, Time};

/// Returns the possible drift between two clocks during `ttl`: one per cent, and 2 ms for the
/// coarseness of Redis' expiry.
///
/// Source: the Redlock algorithm in the Redis documentation ("Distributed Locks with Redis") and
/// its reference implementations, all of which use 0.01 and 2 ms.
pub(crate) fn drift(ttl: Duration) -> Duration {
    (ttl / 100).saturating_add(Duration::from_millis(2))
}

/// Returns the least validity that is worth handing out: a tenth of the TTL. With less left, the
/// lock would be gone before the caller could use it, so the attempt counts as lost.
pub(crate) fn minimum(ttl: Duration) -> Duration {
    ttl / 10
}

/// The allowance by which every validity is shortened, in addition to the time that the attempt
/// took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// The step by which a node's clock may be set forward unnoticed, which ends its keys early. It
    /// is the same for all clients of a set.
    pub(crate) clock_tolerance: Duration,
}

impl Allowance {
    /// For clocks that drift and are never set.
    #[cfg(test)]
    pub(crate) const FOR_DRIFT: Self = Self { clock_tolerance: Duration::ZERO };

    /// Returns the end of validity of a lock whose keys live for `ttl`. The lock was asked for at
    /// `started` (*before* the first byte was sent) and granted by `decided`.
    ///
    /// A node's key starts to live no earlier than the request was sent. Counting from there allows
    /// for every delay on the way, the caller's own pauses included.
    pub(crate) fn valid_until(self, started: Time, decided: Time, ttl: Duration) -> Time {
        let Self { clock_tolerance } = self;
        let from = started.if_off(Mechanism::Elapsed, decided);
        let drift = drift(ttl).if_off(Mechanism::Drift, Duration::ZERO);
        let steps = clock_tolerance.if_off(Mechanism::ClockTolerance, Duration::ZERO);
        from.after(ttl.saturating_sub(drift).saturating_sub(steps))
    }

    /// Returns the shortest TTL whose validity lasts for `needed`, in whole milliseconds, as Redis
    /// counts.
    pub(crate) fn ttl_lasting(self, needed: Duration) -> Duration {
        // drift() takes a hundredth of the TTL, and 2 ms.
        let less = self.clock_tolerance.saturating_add(Duration::from_millis(2));
        let exact = needed.saturating_add(less).saturating_mul(100) / 99;
        let whole_ms = u64::try_from(exact.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_millis(whole_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn counts_from_before_the_first_send_and_allows_for_drift_and_steps() {
        let clock_tolerance = Duration::from_millis(100);
        let allowance = Allowance { clock_tolerance };
        let until = allowance.valid_until(at(1_000), at(1_400), Duration::from_secs(10));
        assert_eq!(until, at(1_000 + 10_000 - 100 - 2 - 100));
    }

    proptest! {
        #[test]
        fn a_ttl_that_lasts_lasts_and_is_not_a_millisecond_too_long(
            needed_us in 0..u64::MAX / 1_000, tolerance_ms in 0..10_000_u64,
        ) {
            let needed = Duration::from_micros(needed_us);
            let clock_tolerance = Duration::from_millis(tolerance_ms);
            let allowance = Allowance { clock_tolerance };
            let lasts = |ttl| allowance.valid_until(at(7), at(7), ttl) >= at(7).after(needed);
            let ttl = allowance.ttl_lasting(needed);
            prop_assert!(lasts(ttl));
            prop_assert!(needed.is_zero() || !lasts(ttl - Duration::from_millis(2)));
        }

        /// Case 14 of the field's bugs: `ttl - drift - elapsed` in unsigned numbers wrapped around
        /// and reported a validity of centuries.
        #[test]
        fn validity_never_exceeds_what_is_left(
            ttl_us in 0..u64::MAX, started_us in 0..u64::MAX, elapsed_us in 0..u64::MAX,
            tolerance_us in 0..u64::MAX,
        ) {
            let ttl = Duration::from_micros(ttl_us);
            let clock_tolerance = Duration::from_micros(tolerance_us);
            let allowance = Allowance { clock_tolerance };
            let started = Time::from_start(Duration::from_micros(started_us));
            let now = started.after(Duration::from_micros(elapsed_us));
            let left = allowance.valid_until(started, now, ttl).since(now);
            let less = now.since(started).saturating_add(drift(ttl)).saturating_add(clock_tolerance);
            prop_assert!(left <= ttl.saturating_sub(less));
        }
    }
}
