//! The table of held locks that have to be checked at some time, without the threads that do it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::clock;
use crate::core::Time;

/// When which held lock is to be checked.
pub(crate) struct Timetable<L> {
    entries: Mutex<Entries<L>>,
    /// Wakes the thread when something is due before it would wake up by itself; ends it.
    wake: Sender<()>,
}

struct Entries<L> {
    due: BTreeMap<Entry, Weak<L>>,
    last: u64,
    asleep_until: Time,
}

/// Due time and sequence number.
pub(crate) type Entry = (Time, u64);

/// Entries with the locks that they are of.
pub(crate) type DueEntries<L> = Vec<(Entry, Weak<L>)>;

impl<L> Timetable<L> {
    /// Also returns what wakes the thread that serves it.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (wake, woken) = bounded(1);
        let entries = Entries { due: BTreeMap::new(), last: 0, asleep_until: clock::now() };
        (Arc::new(Self { entries: Mutex::new(entries), wake }), woken)
    }

    /// Has `held` checked at `due`.
    pub(crate) fn enter(&self, held: &Arc<L>, due: Time) -> Entry {
        let mut entries = self.entries.lock();
        entries.last += 1;
        let entry = (due, entries.last);
        entries.due.insert(entry, Arc::downgrade(held));
        let wake = due < entries.asleep_until;
        if wake {
            entries.asleep_until = due;
        }
        drop(entries);
        if wake {
            // Full: it is about to check anyway.
            let _ = self.wake.try_send(());
        }
        entry
    }

    /// The entry is not needed any more.
    pub(crate) fn strike(&self, entry: Entry) {
        self.entries.lock().due.remove(&entry);
    }

    /// Takes out all entries: everything has to be checked now.
    pub(crate) fn all(&self) -> DueEntries<L> {
        mem::take(&mut self.entries.lock().due).into_iter().collect()
    }

    /// Takes out what is due, and says until when to sleep after that.
    pub(crate) fn due(&self, now: Time) -> (DueEntries<L>, Time) {
        /// Without any entry. New ones wake the thread if they are due before.
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
        entries.asleep_until = next;
        drop(entries);
        (due, next)
    }
}
