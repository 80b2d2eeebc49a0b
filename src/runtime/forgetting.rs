//! When names that are not used any more are forgotten.
//!
//! Each collection that a client keeps by name says in its `tidy` for how long an entry is of use. All of them are looked
//! through together: [`Coordinator::start`](super::coordinator::Coordinator::start) has the list.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::core::base::Time;

/// The time between two looks while anything is kept. A name is forgotten so much later than it could be.
const EVERY: Duration = Duration::from_secs(5);

/// Forgets what is of no use any more, and returns whether anything is left.
type Tidy = Box<dyn Fn(Time) -> bool + Send + Sync>;

/// The entries that one client keeps by name, and when to look through them next. Without entries they are never
/// looked through.
#[derive(Default)]
pub(super) struct Tidying {
    tidy: OnceLock<Tidy>,
    /// Something may be kept.
    wanted: AtomicBool,
    due: Mutex<Option<Time>>,
}

impl Tidying {
    /// Sets the entries that are looked through. The second call changes nothing.
    pub(super) fn tidies(&self, tidy: impl Fn(Time) -> bool + Send + Sync + 'static) {
        let _ = self.tidy.set(Box::new(tidy));
    }

    /// Something is kept of a name. Returns when to tidy, if that is news.
    pub(super) fn name_used(&self, now: impl FnOnce() -> Time) -> Option<Time> {
        // Each call of a lock comes here, and nearly always no further.
        if self.wanted.load(Ordering::Relaxed) || self.wanted.swap(true, Ordering::AcqRel) {
            return None;
        }
        let due = now().after(EVERY);
        *self.due.lock() = Some(due);
        Some(due)
    }

    /// When to tidy next; `None` while nothing is kept.
    pub(super) fn due(&self) -> Option<Time> {
        *self.due.lock()
    }

    /// Tidies if that is due, and returns whether it was.
    pub(super) fn tidy(&self, now: Time) -> bool {
        if self.due.lock().take_if(|due| *due <= now).is_none() {
            return false;
        }
        // Before the look: what is kept from here on is wanted anew.
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

    /// A name that is used while the others are looked through may have been overlooked.
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
