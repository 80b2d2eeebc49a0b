//! The time at which unused names are forgotten.
//!
//! Each collection that a client keeps by name decides in its `tidy` for how long an entry is of use. All collections are
//! tidied together: [`Coordinator::start`](super::coordinator::Coordinator::start) has the list.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::core::base::Time;

/// The time between two tidyings while anything is kept, and so the longest delay in forgetting a name.
const EVERY: Duration = Duration::from_secs(5);

/// Forgets entries that are no longer of use, and returns true if any are left.
type Tidy = Box<dyn Fn(Time) -> bool + Send + Sync>;

/// The entries that one client keeps by name, and the time of the next tidying. Without entries there is none.
#[derive(Default)]
pub(super) struct Tidying {
    tidy: OnceLock<Tidy>,
    /// True if something may be kept.
    wanted: AtomicBool,
    due: Mutex<Option<Time>>,
}

impl Tidying {
    /// Sets the entries that are tidied. A second call changes nothing.
    pub(super) fn tidies(&self, tidy: impl Fn(Time) -> bool + Send + Sync + 'static) {
        let _ = self.tidy.set(Box::new(tidy));
    }

    /// Something is kept of a name. Returns the time of the next tidying if that was not set yet.
    pub(super) fn name_used(&self, now: impl FnOnce() -> Time) -> Option<Time> {
        // Each call of a lock gets to this line, and nearly always no further.
        if self.wanted.load(Ordering::Relaxed) || self.wanted.swap(true, Ordering::AcqRel) {
            return None;
        }
        let due = now().after(EVERY);
        *self.due.lock() = Some(due);
        Some(due)
    }

    /// Returns the time of the next tidying; `None` while nothing is kept.
    pub(super) fn due(&self) -> Option<Time> {
        *self.due.lock()
    }

    /// Tidies if that is due, and returns true if it was.
    pub(super) fn tidy(&self, now: Time) -> bool {
        if self.due.lock().take_if(|due| *due <= now).is_none() {
            return false;
        }
        // Before the tidying: a name that is used from here on sets it again.
        self.wanted.store(false, Ordering::Release);
        if self.tidy.get().is_some_and(|tidy| tidy(now)) {
            self.name_used(|| now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn at(s: u64) -> Time {
        Time::from_start(Duration::from_secs(s))
    }

    #[test]
    fn it_goes_on_while_anything_is_left_and_ends_then() {
        let tidying = Tidying::default();
        let left = Arc::new(AtomicUsize::new(2));
        let theirs = left.clone();
        tidying.tidies(move |_| theirs.fetch_sub(1, Ordering::SeqCst) > 1);
        assert_eq!(tidying.due(), None, "nothing is kept");
        assert!(!tidying.tidy(at(100)));
        assert_eq!(tidying.name_used(|| at(100)), Some(at(105)));
        assert_eq!(tidying.name_used(|| at(101)), None, "it is known already");
        assert!(!tidying.tidy(at(104)));
        assert!(tidying.tidy(at(105)));
        assert_eq!(tidying.due(), Some(at(110)), "something is left");
        assert!(tidying.tidy(at(111)));
        assert_eq!((left.load(Ordering::SeqCst), tidying.due()), (0, None));
        assert_eq!(tidying.name_used(|| at(200)), Some(at(205)));
    }

    /// A name that is used during a tidying may have been overlooked.
    #[test]
    fn a_name_that_is_used_meanwhile_is_looked_at_later() {
        let tidying = Arc::new(Tidying::default());
        let theirs = Arc::downgrade(&tidying);
        tidying.tidies(move |now| {
            theirs.upgrade().is_some_and(|tidying| tidying.name_used(|| now).is_none())
        });
        tidying.name_used(|| at(0));
        assert!(tidying.tidy(at(5)));
        assert_eq!(tidying.due(), Some(at(10)));
    }
}
