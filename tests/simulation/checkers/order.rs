//! Of those who wait for a fair lock, the one gets it first whose call began first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::lock_id::LockId;

/// A caller, by its client and its place among the threads of that.
type Caller = (usize, usize);

#[derive(Default)]
pub(in super::super) struct Order {
    /// How far apart calls have to begin, where order is promised.
    apart: Option<Duration>,
    /// The calls that wait, and since when.
    waiting: BTreeMap<Caller, (LockId, Duration)>,
    /// Those that have called before. The first call of a process waits for connections, and for how long is not known.
    called: BTreeSet<Caller>,
}

impl Order {
    pub(in super::super) fn new(apart: Option<Duration>) -> Self {
        Self { apart, waiting: BTreeMap::new(), called: BTreeSet::new() }
    }

    /// A caller waits for a fair lock.
    pub(super) fn begins(&mut self, caller: Caller, lock: LockId, now: Duration) {
        if !self.called.insert(caller) {
            self.waiting.insert(caller, (lock, now));
        }
    }

    /// Its call ends, with the lock or without it. Returns what is wrong with that.
    pub(super) fn ends(&mut self, caller: Caller, has_lock: bool) -> Option<String> {
        let (lock, began) = self.waiting.remove(&caller)?;
        let apart = self.apart.filter(|_| has_lock)?;
        let is_before = |(_, (other, since)): &(&Caller, &(LockId, Duration))| {
            *other == lock && *since + apart < began
        };
        let ((client, thread), (_, since)) = self.waiting.iter().find(is_before)?;
        let (before, now) = (since.as_secs_f64(), began.as_secs_f64());
        Some(format!(
            "client {}, caller {} has {lock}, for which client {client}, caller {thread} waits since \
             {before:.4} s, and it since {now:.4} s",
            caller.0, caller.1
        ))
    }

    /// Its first attempt has not found out who holds the lock, so that it has no place among those who wait.
    pub(super) fn has_no_place(&mut self, caller: Caller) {
        self.waiting.remove(&caller);
    }

    /// The process is gone, and who waits in it.
    pub(super) fn crashed(&mut self, client: usize) {
        self.waiting.retain(|(of, _), _| *of != client);
        self.called.retain(|(of, _)| *of != client);
    }
}
