//! Detection of threads that wait for a lock that they took themselves, most likely for ever.
//!
//! If the kind of lock counts the holds of threads, such a call ends at once: see [`ThreadHolds::again`](super::ThreadHolds::again).
//! For other kinds another thread may have the guard and give it back. So the call goes on, and is reported once the wait lasts.

use std::time::Duration;

use super::super::base::Time;

/// Time after which such a wait is reported. It is no fault where guards are sent to other threads, and given back there
/// soon. The event comes with the next look at the queue, of which there is one a second.
const BEFORE_TELLING: Duration = Duration::from_millis(500);

/// The wait of one call for a lock that its own thread has taken.
#[derive(Debug, Default)]
pub(crate) struct SelfWait {
    since: Option<Time>,
    told: bool,
}

impl SelfWait {
    /// Notes that the caller goes on waiting for the lock; `for_itself`: perhaps for its own thread. Returns true, once a call,
    /// if that is to be reported.
    pub(crate) fn goes_on(&mut self, for_itself: bool, now: Time) -> bool {
        if !for_itself {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let tells = !self.told && now.since(since) >= BEFORE_TELLING;
        self.told |= tells;
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn it_is_told_once_when_it_lasts() {
        let mut wait = SelfWait::default();
        assert!(!wait.goes_on(true, at(0)) && !wait.goes_on(true, at(499)));
        assert!(!wait.goes_on(false, at(500)), "the guard was given back elsewhere");
        assert!(!wait.goes_on(true, at(600)) && !wait.goes_on(true, at(1_099)));
        assert!(wait.goes_on(true, at(1_100)) && !wait.goes_on(true, at(2_100)));
    }
}
