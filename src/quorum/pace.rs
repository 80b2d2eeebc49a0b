//! Whether a node's clock goes on at the pace of our own, or was set.

use std::time::Duration;

use super::Time;
use super::clocks::{DRIFT, Offset};

/// A clock was set, by that much at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The keys of locks end early, by that much.
    Forward(Duration),
    /// They live longer, which is in nobody's way for long.
    Back(Duration),
}

/// Where a node's clock can be by all that it has said: how far it is ahead of the lease clock, in
/// nanoseconds, so that nothing gets lost in rounding however often it is read.
///
/// The two ends move apart by one per cent of the time that passes, since no clock is wronger than
/// that: what validity allows for. A reading narrows them, and never moves them on. So a clock that is
/// set in many small steps, or slewed fast, is found out as well as one that is set at once: by what it
/// has gained since *any* earlier reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    least_ns: i64,
    most_ns: i64,
    at: Time,
}

impl Pace {
    pub(super) fn new(first: Offset) -> Self {
        // The clock was read at any time on the way, and has been drifting since.
        let drift = nanoseconds(first.received.since(first.sent) / DRIFT);
        Self {
            least_ns: first.least_us.saturating_mul(1_000).saturating_sub(drift),
            most_ns: first.most_us.saturating_mul(1_000).saturating_add(drift),
            at: first.received,
        }
    }

    /// The clock was read once more. How it was set, if it is further off than the time, the way of the
    /// answers and `slack` explain; it is watched from where it is now then.
    pub(super) fn read(&mut self, offset: Offset, slack: Duration) -> Option<Step> {
        let read = Self::new(offset);
        let drift = nanoseconds(offset.received.since(self.at) / DRIFT);
        let (least, most) =
            (self.least_ns.saturating_sub(drift), self.most_ns.saturating_add(drift));
        let (gained, lost) =
            (read.least_ns.saturating_sub(most), least.saturating_sub(read.most_ns));
        let slack = nanoseconds(slack);
        let step = if gained > slack {
            Some(Step::Forward(Duration::from_nanos(gained.unsigned_abs())))
        } else if lost > slack {
            Some(Step::Back(Duration::from_nanos(lost.unsigned_abs())))
        } else {
            None
        };
        *self = match step {
            Some(_) => read,
            None => Self {
                least_ns: least.max(read.least_ns),
                most_ns: most.min(read.most_ns),
                at: read.at,
            },
        };
        step
    }

    /// Whether the clock was last read so long ago that drift alone may hide a step that matters.
    pub(super) fn is_old(&self, now: Time, slack: Duration) -> bool {
        now.since(self.at) / DRIFT > slack
    }
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLACK: Duration = Duration::from_millis(51);

    fn at(us: u64) -> Time {
        Time::from_start(Duration::from_micros(us))
    }

    /// A clock that says `server_us` to a question of `sent_us` that takes `way_us`.
    fn reading(server_us: i64, sent_us: u64, way_us: u64) -> Offset {
        Offset::new(server_us, at(sent_us), at(sent_us + way_us))
    }

    /// The last of the readings is a step of that many milliseconds, rounded.
    fn last_step(readings: &[Offset]) -> Option<i64> {
        let mut pace = Pace::new(readings[0]);
        let steps = readings[1..].iter().map(|reading| pace.read(*reading, SLACK));
        let (last, others) =
            steps.collect::<Vec<_>>().split_last().map(|(l, o)| (*l, o.to_vec()))?;
        assert!(others.iter().all(Option::is_none), "{others:?}");
        last.map(|step| match step {
            Step::Forward(by) => i64::try_from(by.as_millis()).expect("short"),
            Step::Back(by) => -i64::try_from(by.as_millis()).expect("short"),
        })
    }

    #[test]
    fn what_the_way_and_the_time_explain_is_no_step() {
        let first = reading(5_000_000, 1_000_000, 1_000);
        // A second later, ten milliseconds may be drift.
        for (server_us, step) in [
            (6_000_000, None),
            (6_060_000, None),
            (6_064_500, Some(53)),
            (36_000_000, Some(29_988)),
            (5_941_000, None),
            (5_936_000, Some(-52)),
            (0, Some(-5_988)),
        ] {
            let second = reading(server_us, 2_000_000, 1_000);
            assert_eq!(last_step(&[first, second]), step, "{server_us}");
        }
        // A question that took half a minute says nothing about half a minute.
        assert_eq!(last_step(&[first, reading(36_000_000, 2_000_000, 30_000_000)]), None);
    }

    #[test]
    fn small_steps_add_up() {
        // Each is a third of what would be noticed.
        let at_step = |i: i64| reading(i * 17_000 + i * 1_000, 1_000 * i.unsigned_abs(), 10);
        let readings: Vec<_> = (0..5).map(at_step).collect();
        assert_eq!(last_step(&readings[..4]), None);
        assert_eq!(last_step(&readings), Some(67));
    }

    #[test]
    fn what_was_set_is_watched_from_there() {
        let mut pace = Pace::new(reading(0, 0, 10));
        assert!(matches!(pace.read(reading(30_000_000, 1_000, 10), SLACK), Some(Step::Forward(_))));
        assert_eq!(pace.read(reading(30_001_000, 2_000, 10), SLACK), None);
        assert!(matches!(pace.read(reading(3_000, 3_000, 10), SLACK), Some(Step::Back(_))));
    }

    #[test]
    fn what_is_known_of_a_clock_gets_old() {
        let pace = Pace::new(reading(0, 0, 0));
        assert!(!pace.is_old(at(5_100_000), SLACK));
        assert!(pace.is_old(at(5_200_000), SLACK));
    }

    proptest! {
        /// A clock that is no wronger than allowed is never accused, however it is read.
        #[test]
        fn a_clock_within_its_rate_takes_no_step(
            rate_ppm in -9_990_i64..9_990, start_us in -1_000_000_i64..1_000_000,
            reads in prop::collection::vec((0_u64..20_000, 0_u64..5_000, 0_u64..100), 2..300),
        ) {
            let mut now_us = 0;
            let mut pace: Option<Pace> = None;
            for (pause, way, share) in reads {
                now_us += pause;
                let ran_us = now_us + way * share / 100;
                let ran = i64::try_from(ran_us).expect("short");
                let reading = reading(start_us + ran + ran * rate_ppm / 1_000_000, now_us, way);
                now_us += way;
                match &mut pace {
                    None => pace = Some(Pace::new(reading)),
                    Some(pace) => prop_assert_eq!(pace.read(reading, Duration::from_micros(3)), None),
                }
            }
        }

        /// A step is what differs from any earlier reading by more than allowed, and nothing else: as
        /// compared with all of them one by one.
        #[test]
        fn a_step_is_what_no_earlier_reading_explains(
            reads in prop::collection::vec((1_u64..2_000_000, 0_u64..5_000, -40_000_i64..40_000), 2..40),
        ) {
            let (mut now_us, mut ahead_us) = (0, 0);
            let mut since_step: Vec<Offset> = Vec::new();
            let mut pace: Option<Pace> = None;
            for (pause, way, step) in reads {
                now_us += pause;
                ahead_us += step;
                let reading =
                    reading(i64::try_from(now_us).expect("short") + ahead_us, now_us, way);
                now_us += way;
                let gained = |before: &Offset| {
                    let drift = nanoseconds(reading.received.since(before.received) / DRIFT);
                    let (now, before) = (Pace::new(reading), Pace::new(*before));
                    let gained = now.least_ns - before.most_ns - drift;
                    let lost = before.least_ns - now.most_ns - drift;
                    (gained, lost)
                };
                let slack = nanoseconds(SLACK);
                let forward = since_step.iter().any(|before| gained(before).0 > slack);
                let back = since_step.iter().any(|before| gained(before).1 > slack);
                let seen = match &mut pace {
                    None => { pace = Some(Pace::new(reading)); None }
                    Some(pace) => pace.read(reading, SLACK),
                };
                let expected = if forward { "forward" } else if back { "back" } else { "none" };
                let seen_as = match seen {
                    Some(Step::Forward(_)) => "forward",
                    Some(Step::Back(_)) => "back",
                    None => "none",
                };
                // Rounding of the drift, once for each reading.
                let near = since_step.iter().map(gained).any(|(gained, lost)| {
                    (gained - slack).abs() < 1_000 || (lost - slack).abs() < 1_000
                });
                prop_assert!(near || seen_as == expected, "{seen_as}, not {expected}");
                if seen.is_some() {
                    since_step.clear();
                }
                since_step.push(reading);
            }
        }
    }
}
