//! Durations as people read them, for every message and event.

use std::fmt;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Longer durations mean "without end".
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Shows a configured duration, exactly as it was set.
pub(crate) const fn exact(duration: Duration) -> impl fmt::Display {
    Exact(duration)
}

/// Shows a measured duration, with two digits.
pub(crate) fn rounded(duration: Duration) -> impl fmt::Display {
    Rounded(duration)
}

struct Exact(Duration);

struct Rounded(Duration);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = self.0;
        if duration.is_zero() {
            f.write_str("0")
        } else if duration < Duration::from_secs(1) {
            decimal(f, duration.as_nanos(), 1_000_000, "ms")
        } else if duration < MINUTE {
            decimal(f, duration.as_nanos(), 1_000_000_000, "s")
        } else if duration > ENDLESS {
            f.write_str("more than 100 years")
        } else {
            let (hours, minutes) = (duration.as_secs() / 3_600, duration.as_secs() / 60 % 60);
            let rest = duration - Duration::from_secs(duration.as_secs() / 60 * 60);
            let mut space = "";
            for (number, unit) in [(hours, "h"), (minutes, "min")] {
                if number > 0 {
                    write!(f, "{space}{number} {unit}")?;
                    space = " ";
                }
            }
            if rest.is_zero() {
                return Ok(());
            }
            f.write_str(space)?;
            decimal(f, rest.as_nanos(), 1_000_000_000, "s")
        }
    }
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_millis(1) {
            return f.write_str("less than 1 ms");
        }
        let nanos = self.0.as_nanos();
        let step = match self.0 {
            long if long >= MINUTE * 10 => MINUTE.as_nanos(),
            long if long >= MINUTE => 1_000_000_000,
            _ => 10_u128.pow(nanos.ilog10() - 1),
        };
        let nanos = nanos.saturating_add(step / 2) / step * step;
        Exact(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))).fmt(f)
    }
}

/// Writes `nanos` in a unit of `of` nanoseconds, without zeros at the end.
fn decimal(f: &mut fmt::Formatter<'_>, nanos: u128, of: u128, unit: &str) -> fmt::Result {
    let digits = of.ilog10() as usize;
    let decimals = format!("{:0digits$}", nanos % of);
    match decimals.trim_end_matches('0') {
        "" => write!(f, "{} {unit}", nanos / of),
        decimals => write!(f, "{}.{decimals} {unit}", nanos / of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_shown_as_it_was_set() {
        for (duration, text) in [
            (Duration::ZERO, "0"),
            (Duration::from_nanos(1), "0.000001 ms"),
            (Duration::from_micros(10), "0.01 ms"),
            (Duration::from_micros(500_500), "500.5 ms"),
            (Duration::from_millis(399), "399 ms"),
            (Duration::from_millis(10_001), "10.001 s"),
            (Duration::from_secs(30), "30 s"),
            (Duration::from_secs(60), "1 min"),
            (Duration::from_millis(90_500), "1 min 30.5 s"),
            (Duration::from_secs(86_400), "24 h"),
            (Duration::from_secs(86_401), "24 h 1 s"),
            (Duration::from_secs(3_660), "1 h 1 min"),
            (Duration::MAX, "more than 100 years"),
        ] {
            assert_eq!(exact(duration).to_string(), text, "{duration:?}");
        }
    }

    #[test]
    fn what_was_measured_has_two_digits() {
        for (duration, text) in [
            (Duration::ZERO, "less than 1 ms"),
            (Duration::from_micros(999), "less than 1 ms"),
            (Duration::from_micros(1_234), "1.2 ms"),
            (Duration::from_micros(18_040), "18 ms"),
            (Duration::from_millis(204), "200 ms"),
            (Duration::from_micros(999_600), "1 s"),
            (Duration::from_millis(1_234), "1.2 s"),
            (Duration::from_millis(29_970), "30 s"),
            (Duration::from_millis(59_900), "1 min"),
            (Duration::from_millis(75_432), "1 min 15 s"),
            (Duration::from_secs(3_629), "1 h"),
            (Duration::MAX, "more than 100 years"),
        ] {
            assert_eq!(rounded(duration).to_string(), text, "{duration:?}");
        }
    }
}
