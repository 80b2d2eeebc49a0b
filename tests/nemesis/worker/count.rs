//! The figures of the worker's clients, for the witness.

use std::collections::BTreeMap;
use std::time::Duration;

use quorlock::Quorlock;

use crate::witness::Event;

/// The figures of all these clients together.
pub(crate) fn counted(clients: &[Quorlock]) -> Event {
    let mut calls: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let (mut waited, mut losses) = (Duration::ZERO, 0);
    for stats in clients.iter().map(Quorlock::stats) {
        for kind in &stats.kinds {
            let ended = &kind.calls;
            // The words of a contender, which are those of the errors.
            let by_ending = [
                ("acquired", ended.acquired),
                ("held by another", ended.held),
                ("no quorum", ended.no_quorum),
                ("quarantined", ended.quarantined),
                ("cancelled", ended.cancelled),
                ("closed", ended.closed),
                ("error", ended.error),
            ];
            for (ending, n) in by_ending.into_iter().filter(|(_, n)| *n > 0) {
                let of_kind = calls.entry(kind.kind.to_owned()).or_default();
                *of_kind.entry(ending.to_owned()).or_default() += n;
            }
        }
        waited += stats.waits.sum();
        losses += stats.losses.total();
    }
    Event::Counted { calls, waited, losses }
}
