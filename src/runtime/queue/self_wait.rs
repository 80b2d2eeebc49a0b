//! Threads that wait for a lock that they took themselves, most likely for ever.

use std::time::Duration;

use crate::clock;
use crate::core::base::Time;
use crate::ident::Names;
use crate::observe;

/// How long such a wait lasts before it is told: where guards are sent to other threads, and given back there
/// soon, it is no fault. The event comes with the next look at the queue, of which there is one a second.
const BEFORE_TELLING: Duration = Duration::from_millis(500);

/// What one call knows of it.
#[derive(Default)]
pub(super) struct SelfWait {
    since: Option<Time>,
    told: bool,
}

impl SelfWait {
    /// The caller looks, and goes on waiting for the lock; perhaps for its own thread. Told once a call.
    pub(super) fn goes_on(&mut self, for_itself: bool, names: &Names) {
        if !for_itself {
            self.since = None;
            return;
        }
        let now = clock::now();
        let since = *self.since.get_or_insert(now);
        if !self.told && now.since(since) >= BEFORE_TELLING {
            self.told = true;
            observe::waits_for_itself(names);
        }
    }
}
