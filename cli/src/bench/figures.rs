//! The times of one measurement.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::exit::Failure;

/// Upper limit of a recorded time, in nanoseconds: one hour. Longer times count as one hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Precision of the times, in digits: one part in a thousand.
const DIGITS: u8 = 3;

/// The percentiles that are shown, with their names in text and in JSON.
const PERCENTILES: [(&str, &str, f64); 5] = [
    ("p50", "p50", 50.0),
    ("p90", "p90", 90.0),
    ("p99", "p99", 99.0),
    ("p99.9", "p99_9", 99.9),
    ("max", "max", 100.0),
];

#[derive(Debug)]
pub(super) struct Figures {
    pub(super) lock: Times,
    pub(super) unlock: Times,
    /// Number of locks that were not granted in time, or were lost.
    pub(super) failed: u64,
    pub(super) took: Duration,
}

impl Figures {
    pub(super) fn new() -> Result<Self, Failure> {
        let (lock, unlock) = (Times::new()?, Times::new()?);
        Ok(Self { lock, unlock, failed: 0, took: Duration::ZERO })
    }

    pub(super) fn record(&mut self, lock: Duration, unlock: Duration) {
        self.lock.record(lock);
        self.unlock.record(unlock);
    }

    /// Number of locks that were taken and given back.
    pub(super) fn count(&self) -> u64 {
        self.lock.0.len()
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count() as f64 / self.took.as_secs_f64()
    }
}

/// The distribution of the times.
#[derive(Debug)]
pub(super) struct Times(Histogram<u64>);

/// A class of times of similar length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) count: u64,
}

impl Times {
    fn new() -> Result<Self, Failure> {
        Histogram::new_with_max(LONGEST_NS, DIGITS).map(Self).map_err(Failure::own)
    }

    fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(LONGEST_NS));
    }

    /// The percentiles, each with its names in text and in JSON.
    pub(super) fn percentiles(&self) -> [(&'static str, &'static str, Duration); 5] {
        PERCENTILES.map(|(text, json, percentile)| {
            (text, json, Duration::from_nanos(self.0.value_at_percentile(percentile)))
        })
    }

    /// The classes from that of the shortest time to that of the longest one. Their bounds are 1, 2, 5, 10, and so on.
    pub(super) fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = Vec::new();
        let mut bounds = bounds().peekable();
        for step in self.0.iter_recorded() {
            let time = step.value_iterated_to();
            while let Some((from, to)) = bounds.next_if(|(from, _)| *from <= time) {
                if to > time || !classes.is_empty() {
                    let (from, to) = (Duration::from_nanos(from), Duration::from_nanos(to));
                    classes.push(Class { from, to, count: 0 });
                }
            }
            if let Some(class) = classes.last_mut() {
                class.count += step.count_since_last_iteration();
            }
        }
        classes
    }
}

/// The bounds of all classes: 0 to 1 ns, 1 to 2 ns, 2 to 5 ns, and so on.
fn bounds() -> impl Iterator<Item = (u64, u64)> {
    let ends = (0..13).flat_map(|zeros| [1, 2, 5].map(|digit| digit * 10_u64.pow(zeros)));
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_class_that_it_belongs_to() {
        let mut times = Times::new().expect("bounds that fit");
        for ns in [1_500, 1_900, 2_000, 30_000] {
            times.record(Duration::from_nanos(ns));
        }
        let us = Duration::from_micros;
        let classes: Vec<_> =
            times.classes().iter().map(|class| (class.from, class.to, class.count)).collect();
        let expected = [
            (us(1), us(2), 2),
            (us(2), us(5), 1),
            (us(5), us(10), 0),
            (us(10), us(20), 0),
            (us(20), us(50), 1),
        ];
        assert_eq!(classes, expected);
    }

    #[test]
    fn no_times_have_no_classes() {
        assert!(Times::new().expect("bounds that fit").classes().is_empty());
    }
}
