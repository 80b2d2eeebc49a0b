//! Among the waiters for a fair lock, the one whose call began first gets it first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::lock_id::LockId;

/// A caller: its client, and its index among that client's threads.
type Caller = (usize, usize);

#[derive(Default)]
pub(in super::super) struct Order {
    /// Shortest time between the beginnings of two calls for which order is promised.
    apart: Option<Duration>,
    /// The calls that wait, with their beginnings.
    waiting: BTreeMap<Caller, (LockId, Duration)>,
    /// Callers that have called before. The first call of a process waits for connections, for an unknown time.
    called: BTreeSet<Caller>,
}

impl Order {
    pub(in super::super) fn new(apart: Option<Duration>) -> Self {
        Self { apart, waiting: BTreeMap::new(), called: BTreeSet::new() }
    }

    /// Notes that a caller waits for a fair lock.
    pub(super) fn begins(&mut self, caller: Caller, lock: LockId, now: Duration) {
        if !self.called.insert(caller) {
            self.waiting.insert(caller, (lock, now));
        }
    }

    /// Notes that its call ends, with the lock or without it. Returns a violation, if there is one.
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

    /// Removes a caller whose first attempt has not found out the lock's holder. It has no place among the waiters.
    pub(super) fn has_no_place(&mut self, caller: Caller) {
        self.waiting.remove(&caller);
    }

    /// Removes the waiters of a process that is gone.
    pub(super) fn crashed(&mut self, client: usize) {
        self.waiting.retain(|(of, _), _| *of != client);
        self.called.retain(|(of, _)| *of != client);
    }
}
