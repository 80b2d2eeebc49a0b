//! A client's clock: it runs a little too fast or too slow, and starts at any time.

use std::time::Duration;

use super::node::at_rate;
use crate::core::base::Time;

#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) started: Duration,
    pub(super) rate_ppm: i64,
    pub(super) has_stood_still: bool,
}

impl Clock {
    /// Returns the time that it shows at that true time.
    pub(super) fn at(&self, now: Duration) -> Time {
        Time::from_start(self.started + at_rate(now, self.rate_ppm))
    }

    /// Notes that it has just stood still for so long, in true time.
    pub(super) fn stood_still(&mut self, lasted: Duration) {
        self.started -= at_rate(lasted, self.rate_ppm);
        self.has_stood_still = true;
    }

    /// Returns a true time at which it shows `time`, or up to two microseconds more.
    pub(super) fn when(&self, time: Time) -> Duration {
        let shown = time.since(Time::from_start(self.started)).as_nanos().div_ceil(1_000) as i128;
        let us = (shown * 1_000_000).div_euclid(1_000_000 + i128::from(self.rate_ppm)) + 1;
        Duration::from_micros(us as u64)
    }
}
