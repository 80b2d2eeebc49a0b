use proptest::prelude::*;

use super::*;

const TOLERANCE: Duration = Duration::from_millis(50);

fn at(us: u64) -> Time {
    Time::from_start(Duration::from_micros(us))
}

/// A reading of a clock that says `server_us`: the question goes out at `sent_us`, and the answer takes `way_us`.
fn reading(server_us: i64, sent_us: u64, way_us: u64) -> Offset {
    Offset::new(server_us, at(sent_us), at(sent_us + way_us))
}

/// The verdict of the last reading, where all others fit; a step in whole milliseconds.
#[derive(Debug, PartialEq, Eq)]
enum Says {
    Fits,
    Doubtful,
    Forward(u128),
    Back(u128),
}

fn last(readings: &[Offset]) -> Says {
    let mut tracker = ClockTracker::new(readings[0]);
    let read = readings[1..].iter().map(|reading| tracker.read(*reading, TOLERANCE));
    let read: Vec<_> = read.collect();
    let (last, others) = read.split_last().expect("there are at least two");
    assert!(others.iter().all(|reading| *reading == Reading::Fits), "{others:?}");
    match last {
        Reading::Fits => Says::Fits,
        Reading::Doubtful => Says::Doubtful,
        Reading::Stepped(ClockStep::Forward(by)) => Says::Forward(by.as_millis()),
        Reading::Stepped(ClockStep::Back(by)) => Says::Back(by.as_millis()),
    }
}

#[test]
fn doubt_is_between_what_fits_and_a_step() {
    let first = reading(5_000_000, 1_000_000, 1_000);
    // After a second, each clock may be ten milliseconds wrong, and each answer took one.
    for (server_us, says) in [
        (6_000_000, Says::Fits),
        (6_037_000, Says::Fits),
        (6_040_000, Says::Doubtful),
        (6_060_000, Says::Doubtful),
        (6_065_000, Says::Forward(53)),
        (36_000_000, Says::Forward(29_988)),
        (5_941_000, Says::Fits),
        (5_935_000, Says::Back(53)),
        (0, Says::Back(5_988)),
    ] {
        assert_eq!(last(&[first, reading(server_us, 2_000_000, 1_000)]), says, "{server_us}");
    }
}

#[test]
fn a_round_trip_beyond_the_tolerance_leaves_a_doubt() {
    let first = reading(5_000_000, 1_000_000, 1_000);
    let slow = reading(6_060_000, 2_000_000, 60_000);
    assert_eq!(last(&[first, slow]), Says::Doubtful);
    // A faster reading ends the doubt, and nothing was forgotten because of it.
    let mut tracker = ClockTracker::new(first);
    assert_eq!(tracker.read(slow, TOLERANCE), Reading::Doubtful);
    assert_eq!(tracker.read(reading(6_061_000, 2_060_000, 1_000), TOLERANCE), Reading::Fits);
    let mut tracker = ClockTracker::new(first);
    assert_eq!(tracker.read(slow, TOLERANCE), Reading::Doubtful);
    let stepped = tracker.read(reading(6_161_000, 2_061_000, 1_000), TOLERANCE);
    assert!(matches!(stepped, Reading::Stepped(ClockStep::Forward(_))));
}

/// Each step is less than a third of the step that would be noticed.
#[test]
fn small_steps_add_up() {
    let at_step = |i: i64| reading(i * 16_000 + i * 1_000, 1_000 * i.unsigned_abs(), 10);
    let readings: Vec<_> = (0..5).map(at_step).collect();
    assert_eq!(last(&readings[..4]), Says::Fits);
    assert_eq!(last(&readings), Says::Forward(63));
}

/// The clock may be 40 ms ahead of its mark already; one per cent of the time makes up for that.
#[test]
fn what_a_clock_had_gained_before_counts_along() {
    let step = |after_us: i64| {
        let mut tracker = ClockTracker::new(reading(0, 0, 10));
        tracker.count_gains_from(-40_000, at(0));
        let mut read = |at_us: i64, ahead_us| {
            tracker.read(reading(at_us + ahead_us, at_us.unsigned_abs(), 10), TOLERANCE)
        };
        assert_eq!(read(after_us, 0), Reading::Fits);
        read(after_us + 1_000, 30_000)
    };
    assert_eq!(step(10_000), Reading::Doubtful);
    assert_eq!(step(2_500_000), Reading::Fits);
}

#[test]
fn what_was_set_is_tracked_from_there() {
    let mut tracker = ClockTracker::new(reading(0, 0, 10));
    let read = |tracker: &mut ClockTracker, server_us, sent_us| {
        tracker.read(reading(server_us, sent_us, 10), TOLERANCE)
    };
    assert!(matches!(
        read(&mut tracker, 30_000_000, 1_000),
        Reading::Stepped(ClockStep::Forward(_))
    ));
    assert_eq!(read(&mut tracker, 30_001_000, 2_000), Reading::Fits);
    assert!(matches!(read(&mut tracker, 3_000, 3_000), Reading::Stepped(ClockStep::Back(_))));
    // The clock is set back by less than the tolerance, and forward again: the latter step counts in full.
    assert_eq!(read(&mut tracker, -36_000, 4_000), Reading::Fits);
    assert!(matches!(read(&mut tracker, 25_000, 5_000), Reading::Stepped(ClockStep::Forward(_))));
}

/// A doubt about the bounds protects locks that were granted before.
#[test]
fn bounds_that_a_reading_has_fitted_stay() {
    let mut tracker = ClockTracker::new(reading(15_000, 0, 30_000));
    assert!(tracker.is_vague(TOLERANCE) && tracker.has_to_restart(at(31_000), TOLERANCE));
    assert!(!ClockTracker::new(reading(12_000, 0, 24_000)).is_vague(TOLERANCE));
    assert_eq!(tracker.read(reading(45_000, 30_000, 30_000), TOLERANCE), Reading::Fits);
    assert!(!tracker.is_vague(TOLERANCE) && !tracker.has_to_restart(at(1_200_000), TOLERANCE));
    assert!(tracker.has_to_restart(at(1_400_000), TOLERANCE));
}

#[test]
fn what_is_known_of_a_clock_gets_old() {
    let tracker = ClockTracker::new(reading(0, 0, 0));
    assert!(!tracker.is_old(at(1_200_000), TOLERANCE));
    assert!(tracker.is_old(at(1_300_000), TOLERANCE));
}

proptest! {
    /// A clock that is no more wrong than allowed is never accused, however it is read. If it is read fast and often, it is never
    /// in doubt.
    #[test]
    fn a_clock_within_its_rate_takes_no_step(
        rate_ppm in -9_990_i64..9_990, start_us in -1_000_000_i64..1_000_000,
        reads in prop::collection::vec((0_u64..1_000_000, 0_u64..20_000, 0_u64..100), 2..300),
    ) {
        let mut now_us = 0;
        let mut tracker: Option<ClockTracker> = None;
        for (pause, way, share) in reads {
            now_us += pause;
            let ran_us = now_us + way * share / 100;
            let ran = i64::try_from(ran_us).expect("short");
            let server_us = start_us + ran + ran * rate_ppm / 1_000_000;
            let reading = reading(server_us, now_us, way);
            now_us += way;
            match &mut tracker {
                None => tracker = Some(ClockTracker::new(reading)),
                Some(tracker) => {
                    prop_assert_eq!(tracker.read(reading, Duration::from_millis(85)), Reading::Fits);
                    let (least, most) = tracker.bounds_us(at(now_us));
                    let ran = i64::try_from(now_us).expect("short");
                    let offset_us = start_us + ran * rate_ppm / 1_000_000;
                    prop_assert!(least <= offset_us && offset_us <= most);
                }
            }
        }
    }

    /// One step beyond the tolerance never fits, neither at once nor later, however the clock is read, and whatever its drift.
    #[test]
    fn a_step_beyond_the_tolerance_never_fits(
        rate_ppm in -5_000_i64..5_000, step_us in 50_001_i64..80_000, steps_at in 1_usize..30,
        reads in prop::collection::vec((0_u64..1_500_000, 0_u64..60_000, 0_u64..100), 31..60),
    ) {
        let mut now_us = 0;
        let mut tracker: Option<ClockTracker> = None;
        for (i, (pause, way, share)) in reads.into_iter().enumerate() {
            now_us += pause;
            let ran = i64::try_from(now_us + way * share / 100).expect("short");
            let step_us = if i >= steps_at { step_us } else { 0 };
            let reading = reading(ran + ran * rate_ppm / 1_000_000 + step_us, now_us, way);
            now_us += way;
            let Some(known) = &mut tracker else {
                tracker = Some(ClockTracker::new(reading));
                continue;
            };
            // A client whose tracking begins anew compares with the other clocks.
            if known.has_to_restart(at(now_us), TOLERANCE) && i >= steps_at {
                break;
            }
            match known.read(reading, TOLERANCE) {
                Reading::Fits => prop_assert!(i < steps_at, "a step of {step_us} fits"),
                Reading::Doubtful if known.has_to_restart(at(now_us), TOLERANCE) => {
                    *known = ClockTracker::new(reading);
                }
                Reading::Doubtful => {}
                Reading::Stepped(_) if i >= steps_at => break,
                stepped => prop_assert!(false, "{stepped:?} without a step"),
            }
        }
    }
}
