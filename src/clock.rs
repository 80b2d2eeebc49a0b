//! The clocks and the threads: the only place that reads a clock, sleeps or spawns.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::core::base::Time;

/// The longest time for which anything blocks in one piece. Blocking waits use a clock that stops while a laptop or a
/// virtual machine is suspended, and leases do not. Slices of this length notice a suspension.
const SLICE: Duration = Duration::from_secs(1);

/// Returns the time of the lease clock.
///
/// The clock keeps running while the machine is suspended, as the servers' clocks do, and nobody can set it. `Instant` stops
/// then, and a lease would seem to last for ever. On Linux the lease clock is `CLOCK_BOOTTIME`. On macOS it is
/// `CLOCK_MONOTONIC`, by the manual page of `clock_gettime`: nobody has tried it there. Other systems use `CLOCK_MONOTONIC`,
/// whatever that does while suspended.
#[cfg(unix)]
pub(crate) fn now() -> Time {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Time::from_start(Duration::new(seconds, nanoseconds))
}

/// Returns the time of the lease clock: the monotonic clock, as the system has no better one.
#[cfg(not(unix))]
pub(crate) fn now() -> Time {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    Time::from_start(START.get_or_init(Instant::now).elapsed())
}

/// Returns the wall clock's time since the Unix epoch: a server's answer to `TIME`.
#[cfg(any(feature = "embedded", feature = "diagnosis"))]
pub(crate) fn wall() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Returns the time left until `deadline`; zero if it has passed.
pub(crate) fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Returns the longest time to block in one piece when waiting for `until`; `None` once it is past.
pub(crate) fn slice(until: Time) -> Option<Duration> {
    let left = until.since(now());
    (!left.is_zero()).then_some(left.min(SLICE))
}

/// Waits until `done`, at most until `until`, and returns true if it is done. It polls instead of being woken, for waits
/// that are rare and short, and happen at the end of a process. Blocking primitives may have lost their thread-local data
/// already at that time.
pub(crate) fn poll(until: Time, done: impl Fn() -> bool) -> bool {
    while !done() {
        if until <= now() {
            return false;
        }
        pause(until);
    }
    true
}

/// Waits for a moment, not beyond `until`.
pub(crate) fn pause(until: Time) {
    std::thread::sleep(until.since(now()).min(Duration::from_micros(100)));
}

pub(crate) fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}

/// Lets other threads run that are ready.
pub(crate) fn yield_now() {
    std::thread::yield_now();
}

pub(crate) fn spawn(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(run)
}
