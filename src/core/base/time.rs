//! Points in time, as the machines see them.

use std::time::Duration;

/// A point on the lease clock: the time since that clock's own, arbitrary start.
///
/// The machines never read a clock; the driver passes the time in. No operation can underflow or
/// overflow: leases are computed with the remaining time, and a negative rest is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(Duration);

impl Time {
    pub(crate) const fn from_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Returns the point `later` after this one; the end of time if there is no such point.
    pub(crate) const fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Returns the point `earlier` before this one; the start of time if there is no such point.
    pub(crate) const fn before(self, earlier: Duration) -> Self {
        Self(self.0.saturating_sub(earlier))
    }

    /// Returns the time since `earlier`; zero if `earlier` is still to come.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns the microseconds since the clock's start.
    pub(crate) fn in_us(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}
