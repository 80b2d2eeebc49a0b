//! The table of held locks that have to be checked at some time, without the threads that do it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::loss::Callbacks;
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
    /// Those that are renewed by a thread of their own.
    threads: HashMap<u64, Weak<L>>,
    last: u64,
    asleep_until: Time,
    /// Callbacks about losses for which there was no thread.
    callbacks: Vec<Callbacks>,
}

/// Due time and sequence number.
pub(crate) type Entry = (Time, u64);

/// Entries with the locks that they are of.
pub(crate) type DueEntries<L> = Vec<(Entry, Weak<L>)>;

impl<L> Timetable<L> {
    /// Also returns what wakes the thread that serves it.
    pub(crate) fn new() -> (Arc<Self>, Receiver<()>) {
        let (wake, woken) = bounded(1);
        let entries = Entries {
            due: BTreeMap::new(),
            threads: HashMap::new(),
            last: 0,
            asleep_until: clock::now(),
            callbacks: Vec::new(),
        };
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

    /// Has them called by the thread of the timetable. The thread that saw the loss must not be held up.
    pub(crate) fn leave(&self, callbacks: Callbacks) {
        self.entries.lock().callbacks.push(callbacks);
        // Full: it is about to check anyway.
        let _ = self.wake.try_send(());
    }

    pub(crate) fn left(&self) -> Vec<Callbacks> {
        std::mem::take(&mut self.entries.lock().callbacks)
    }

    /// Hands `held` over to a thread of its own.
    pub(crate) fn has_thread(&self, held: &Weak<L>) -> u64 {
        let mut entries = self.entries.lock();
        entries.last += 1;
        let thread = entries.last;
        entries.threads.insert(thread, held.clone());
        thread
    }

    pub(crate) fn thread_ends(&self, thread: u64) {
        self.entries.lock().threads.remove(&thread);
    }

    /// Takes out all entries: everything has to be checked now. Returns the locks with a thread as well.
    pub(crate) fn all(&self) -> (DueEntries<L>, Vec<Weak<L>>) {
        let mut entries = self.entries.lock();
        let due = std::mem::take(&mut entries.due).into_iter().collect();
        (due, entries.threads.values().cloned().collect())
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
