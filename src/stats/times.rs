//! Durations, counted in buckets.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The buckets between two powers of two, as a power of two. Below 2^3 µs each microsecond has a bucket of its own.
const BITS: u32 = 3;

/// Durations of about 2^36 µs (18 hours) and more share the last bucket.
const POWERS: u32 = 36;

const BUCKETS: usize = ((POWERS - BITS + 1) << BITS) as usize;

/// Durations of one kind, such as the times that callers waited: how many there were, their sum, and how they are distributed.
///
/// They are counted in 272 buckets. The end of a bucket is above its beginning by at most an eighth, or by a microsecond, and so is
/// [`quantile`](Self::quantile) above the true value. From 18 hours on they share the last one.
#[derive(Clone, PartialEq, Eq)]
pub struct Times {
    counts: Box<[u64]>,
    sum: Duration,
    longest: Duration,
}

impl Times {
    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all durations, to the microsecond below for each of them.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// The longest duration; zero if there is none.
    #[must_use]
    pub const fn longest(&self) -> Duration {
        self.longest
    }

    /// The duration that the share `q` of all durations does not exceed: 0.5 for the median, 0.99 for what all but one in a
    /// hundred stay below. `None` if there are no durations.
    ///
    /// A `q` below 0 counts as 0, and one above 1 as 1.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the rank is within the count"
    )]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count.max(1));
        let mut so_far = 0;
        let bucket = self.counts.iter().position(|bucket| {
            so_far += bucket;
            so_far >= rank
        })?;
        Some(self.end_of(bucket))
    }

    /// The buckets that are not empty: the end of each, which its durations are below, and their number. For exporters: a bucket has
    /// the same end each time. The last one has durations beyond its end, too.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let ends = (0..).map(end);
        ends.zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Values that stand for the durations, and their numbers: one for each bucket that is not empty, within it. Their sum is the
    /// sum of the durations.
    #[cfg(feature = "metrics")]
    #[allow(clippy::cast_precision_loss, reason = "the values are no more exact than that")]
    pub(crate) fn values(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let begin = |bucket: usize| bucket.checked_sub(1).map_or(0.0, |it| end(it).as_secs_f64());
        let filled = || (0..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0);
        let sum_of = |value: &dyn Fn(usize) -> f64| -> f64 {
            filled().map(|(bucket, count)| value(bucket) * count as f64).sum()
        };
        let (least, most) = (sum_of(&begin), sum_of(&|it| end(it).as_secs_f64()));
        // Each duration may lie anywhere in its bucket. Threads that count meanwhile may have changed the sum first.
        let share = ((self.sum.as_secs_f64() - least) / (most - least)).clamp(0.0, 1.0);
        let within = move |bucket: usize| {
            let (begin, end) = (begin(bucket), end(bucket).as_secs_f64());
            share.mul_add(end - begin, begin)
        };
        // The last bucket has longer ones: all that the others leave.
        let last = BUCKETS - 1;
        let others = sum_of(&|bucket| if bucket == last { 0.0 } else { within(bucket) });
        let long = (self.sum.as_secs_f64() - others) / self.counts[last] as f64;
        filled().map(move |(bucket, count)| {
            (if bucket == last { long.max(begin(bucket)) } else { within(bucket) }, count)
        })
    }

    /// The end of a bucket, or the longest duration if that is in the bucket.
    fn end_of(&self, bucket: usize) -> Duration {
        if bucket + 1 >= BUCKETS {
            return self.longest;
        }
        // The longest one may not be known yet, while threads count.
        let has_longest = bucket == 0 || self.longest >= end(bucket - 1);
        if has_longest { end(bucket).min(self.longest) } else { end(bucket) }
    }

    /// The durations that are not in `earlier`, an older value of the same client: those of the time between.
    /// [`longest`](Self::longest) is the end of their highest bucket then.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[cfg(feature = "embedded")] {
    /// let (locks, _nodes) = quorlock::Quorlock::embedded(3)?;
    /// let before = locks.stats();
    /// locks.lock("orders/42")?.unlock()?;
    /// let since = locks.stats().holds.since(&before.holds);
    /// assert_eq!(since.count(), 1);
    /// # }
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts: Box<[u64]> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let highest = counts.iter().rposition(|count| *count > 0);
        let longest = highest.map_or(Duration::ZERO, |bucket| self.end_of(bucket));
        Self { counts, sum: self.sum.saturating_sub(earlier.sum), longest }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS].into(), sum: Duration::ZERO, longest: Duration::ZERO }
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Times")
            .field("count", &self.count())
            .field("median", &self.quantile(0.5).unwrap_or_default())
            .field("p99", &self.quantile(0.99).unwrap_or_default())
            .field("longest", &self.longest)
            .finish()
    }
}

/// Counts durations, for threads that share it.
#[derive(Debug)]
pub(super) struct TimesRecorder {
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
    longest_us: AtomicU64,
}

impl TimesRecorder {
    pub(super) fn new() -> Self {
        Self {
            counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_us: AtomicU64::new(0),
            longest_us: AtomicU64::new(0),
        }
    }

    pub(super) fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        // Nearly all stay below it, and only read.
        if us > self.longest_us.load(Ordering::Relaxed) {
            self.longest_us.fetch_max(us, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.counts[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Times {
        let of = |us: &AtomicU64| Duration::from_micros(us.load(Ordering::Relaxed));
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Times { counts, sum: of(&self.sum_us), longest: of(&self.longest_us) }
    }
}

/// The bucket of a duration of so many microseconds.
fn bucket(us: u64) -> usize {
    let power = us.checked_ilog2().unwrap_or(0);
    let index = match power.checked_sub(BITS) {
        None => us,
        Some(shift) => (u64::from(shift) << BITS) + (us >> shift),
    };
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// The end of that bucket: the shortest duration that is in a later one.
fn end(bucket: usize) -> Duration {
    let next = u64::try_from(bucket).unwrap_or(u64::MAX).saturating_add(1);
    let us = match (next >> BITS).checked_sub(1) {
        None | Some(0) => next,
        Some(shift) => ((1 << BITS) + (next & ((1 << BITS) - 1))) << shift,
    };
    Duration::from_micros(us)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(durations_us: &[u64]) -> Times {
        let recorder = TimesRecorder::new();
        durations_us.iter().for_each(|us| recorder.record(Duration::from_micros(*us)));
        recorder.snapshot()
    }

    #[test]
    fn the_buckets_follow_each_other_without_a_gap() {
        for bucket_index in 0..BUCKETS - 1 {
            let first_of_next = u64::try_from(end(bucket_index).as_micros()).expect("short");
            assert_eq!(bucket(first_of_next - 1), bucket_index);
            assert_eq!(bucket(first_of_next), bucket_index + 1);
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_of_nothing_and_of_one() {
        assert_eq!(times(&[]).quantile(0.5), None);
        let one = times(&[1_000]);
        for q in [-1.0, 0.0, 0.5, 1.0, 2.0, f64::NAN] {
            assert_eq!(one.quantile(q), Some(Duration::from_millis(1)), "{q}");
        }
        assert_eq!(
            (one.sum(), one.longest()),
            (Duration::from_millis(1), Duration::from_millis(1))
        );
        let days = Duration::from_secs(3 * 24 * 3_600);
        let long = times(&[u64::try_from(days.as_micros()).expect("some days")]);
        assert_eq!(long.quantile(0.5), Some(days), "the last bucket has no end");
        assert_eq!(long.buckets().collect::<Vec<_>>(), [(end(BUCKETS - 1), 1)]);
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn values_lie_in_their_buckets_and_have_the_sum_of_the_durations() {
        let us = [0, 3, 7, 8, 1_000, 1_000, 1_200, 40_000, 3_000_000];
        let times = times(&us);
        let values: Vec<_> = times.values().collect();
        #[allow(clippy::cast_precision_loss, reason = "there are few")]
        let sum: f64 = values.iter().map(|(value, count)| value * *count as f64).sum();
        assert!((sum - times.sum().as_secs_f64()).abs() < 1e-9, "{sum} in place of {times:?}");
        let buckets: Vec<_> = times.buckets().collect();
        assert_eq!(values.len(), buckets.len());
        for ((value, count), (end, expected)) in values.into_iter().zip(buckets) {
            let (end, width) = (end.as_secs_f64(), (end.as_secs_f64() / 8.0).max(1e-6));
            assert!(value <= end && value >= end - width, "{value} of a bucket that ends at {end}");
            assert_eq!(count, expected);
        }
        assert_eq!(Times::default().values().count(), 0);
        let days = [259_200_000_000, 345_600_000_000];
        let long: Vec<_> = self::times(&days).values().collect();
        assert_eq!(long, [(302_400.0, 2)], "three days and four");
    }

    #[test]
    fn a_difference_has_what_came_later() {
        let recorder = TimesRecorder::new();
        recorder.record(Duration::from_secs(9));
        let before = recorder.snapshot();
        recorder.record(Duration::from_millis(3));
        let since = recorder.snapshot().since(&before);
        assert_eq!((since.count(), since.sum()), (1, Duration::from_millis(3)));
        assert!(since.longest() < Duration::from_millis(4), "{since:?}");
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_most_an_eighth_too_long(
            mut durations_us in prop::collection::vec(0_u64..1 << 36, 1..50),
            q in 0.0..1.0_f64,
        ) {
            let found = times(&durations_us).quantile(q).expect("there are some").as_micros();
            durations_us.sort_unstable();
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few")]
            let rank = ((q * durations_us.len() as f64).ceil() as usize).max(1);
            let right = u128::from(durations_us[rank - 1]);
            prop_assert!((right..=right + right / 8 + 1).contains(&found), "{found} {right}");
        }
    }
}
