//! The table of held locks that are due for a check, without the thread that serves it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::clock;
use crate::core::base::Time;
use crate::runtime::forgetting::Tidying;

/// The times at which held locks are to be checked.
pub(crate) struct Timetable<L> {
    entries: Mutex<Entries<L>>,
    /// Wakes the thread when something is due earlier than it would wake up by itself; its drop ends the thread.
    wake: Sender<()>,
    tidying: Tidying,
}

struct Entries<L> {
    due: BTreeMap<Entry, Weak<L>>,
    last: u64,
    asleep_until: Time,
}

/// Due time and sequence number.
pub(crate) type Entry = (Time, u64);

/// Entries with their locks.
pub(crate) type DueEntries<L> = Vec<(Entry, Weak<L>)>;

impl<L> Timetable<L> {
    /// Also returns the channel that wakes the thread.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (wake, woken) = bounded(1);
        let entries = Entries { due: BTreeMap::new(), last: 0, asleep_until: clock::now() };
        let entries = Mutex::new(entries);
        (Arc::new(Self { entries, wake, tidying: Tidying::default() }), woken)
    }

    /// Sets the entries that the thread tidies now and then: see [`Tidying::tidies`].
    pub(crate) fn tidies(&self, tidy: impl Fn(Time) -> bool + Send + Sync + 'static) {
        self.tidying.tidies(tidy);
    }

    /// Something is kept of a name, and has to be forgotten some day.
    pub(crate) fn name_used(&self) {
        if let Some(due) = self.tidying.name_used(clock::now) {
            self.wake_by(self.entries.lock(), due);
        }
    }

    /// Forgets unused names if that is due, and returns true if it was.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        self.tidying.tidy(now)
    }

    /// Enters `held` for a check at `due`.
    pub(crate) fn enter(&self, held: &Arc<L>, due: Time) -> Entry {
        let mut entries = self.entries.lock();
        entries.last += 1;
        let entry = (due, entries.last);
        entries.due.insert(entry, Arc::downgrade(held));
        self.wake_by(entries, due);
        entry
    }

    /// Makes sure that the thread is awake by then.
    fn wake_by(&self, mut entries: MutexGuard<'_, Entries<L>>, due: Time) {
        let wake = due < entries.asleep_until;
        if wake {
            entries.asleep_until = due;
        }
        drop(entries);
        if wake {
            // If the channel is full, the thread is about to check anyway.
            let _ = self.wake.try_send(());
        }
    }

    /// Removes an entry that is no longer needed.
    pub(crate) fn strike(&self, entry: Entry) {
        self.entries.lock().due.remove(&entry);
    }

    /// Takes out all entries, since everything has to be checked now.
    pub(crate) fn all(&self) -> DueEntries<L> {
        mem::take(&mut self.entries.lock().due).into_iter().collect()
    }

    /// Takes out the due entries, and returns the time until which to sleep after that.
    pub(crate) fn due(&self, now: Time) -> (DueEntries<L>, Time) {
        /// The sleep without any entry. New entries wake the thread if they are due earlier.
        const FAR: std::time::Duration = std::time::Duration::from_secs(3_600);
        let mut entries = self.entries.lock();
        let mut due = Vec::new();
        while let Some(first) = entries.due.first_entry() {
            if now < first.key().0 {
                break;
            }
            due.push(first.remove_entry());
        }
        let next = entries.due.first_key_value().map_or(now.after(FAR), |((at, _), _)| *at);
        let next = self.tidying.due().map_or(next, |due| due.min(next));
        entries.asleep_until = next;
        drop(entries);
        (due, next)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    /// Returns the time for which the thread sleeps if nothing else happens.
    fn sleep(timetable: &Timetable<()>) -> Duration {
        let now = clock::now();
        timetable.due(now).1.since(now)
    }

    #[test]
    fn the_thread_is_woken_for_names_while_something_is_kept_of_them_and_sleeps_otherwise() {
        const LONG: Duration = Duration::from_secs(60);
        let (timetable, woken) = Timetable::<()>::new();
        let left = Arc::new(AtomicBool::new(true));
        let theirs = left.clone();
        timetable.tidies(move |_| theirs.load(Ordering::SeqCst));
        assert!(sleep(&timetable) > LONG);
        timetable.name_used();
        assert!(woken.try_recv().is_ok(), "it would sleep for too long");
        assert!(sleep(&timetable) < LONG);
        timetable.name_used();
        assert!(woken.try_recv().is_err(), "it is to wake up in any case");
        assert!(timetable.tidy(clock::now().after(LONG)));
        assert!(sleep(&timetable) < LONG * 2, "something is left");
        left.store(false, Ordering::SeqCst);
        assert!(timetable.tidy(clock::now().after(LONG * 3)));
        assert!(sleep(&timetable) > LONG * 10);
    }
}
