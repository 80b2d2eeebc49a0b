//! No call takes longer than it may.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Grant;
use crate::simulation::lock_id::LockId;

/// Time that threads need to be woken up and to act.
const MOMENT: Duration = Duration::from_millis(100);

/// The longest pause between two attempts, while nodes are in quarantine.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Checks a call that has taken `bound.0`, and may have taken `bound.1`.
pub(super) fn too_long(client: usize, bound: Option<(Duration, Duration)>) -> Option<String> {
    let (took, most) = bound?;
    (took > most + MOMENT)
        .then(|| format!("a call of client {client} took {:?} longer than it may", took - most))
}

/// Checks a call that has not reached the nodes for `lasted`, and tolerates that for `timeout`. It goes on trying, or
/// gives up (`over`). `awake`: its process ran all that time.
pub(super) fn unreached(
    client: usize,
    lasted: Duration,
    timeout: Duration,
    over: bool,
    awake: bool,
) -> Option<String> {
    // Clocks may be wrong. There is also a pause before the first try that fails, of 1 s for a caller that listens,
    // and one last try.
    let (least, most) = (timeout.mul_f64(0.94), timeout.mul_f64(1.06) + LONGEST_PAUSE + MOMENT * 7);
    if over && lasted < least {
        Some(format!("a call of client {client} gave up when no node was reached for {lasted:?}"))
    } else if !over && awake && lasted > most {
        Some(format!("a call of client {client} goes on, with no node reached for {lasted:?}"))
    } else {
        None
    }
}

/// Checks a grant to a client that was waiting for a lock, which was free since then. Messages in such a run need no
/// more than a moment.
pub(super) fn overslept(client: usize, free_since: Duration, now: Duration) -> Option<String> {
    let took = now.saturating_sub(free_since);
    (took > MOMENT * 6)
        .then(|| format!("client {client} took {took:?} to get a lock that was given back"))
}

/// Checks the wait of a caller, given by its client and its index there. No caller may wait for more than `most`.
pub(super) fn starves(
    (client, index): (usize, usize),
    lock: LockId,
    waited: Duration,
    most: Duration,
) -> Option<String> {
    (waited > most)
        .then(|| format!("caller {index} of client {client} has waited {waited:?} for {lock}"))
}

/// The grants of the lock, or of a part of it, since the caller began to wait.
pub(super) fn meanwhile(grants: &[Grant], lock: LockId, since: Duration) -> String {
    let mut counts: BTreeMap<(usize, LockId), usize> = BTreeMap::new();
    let meets = |grant: &&Grant| {
        grant.at >= since && grant.lock.keys().any(|key| lock.keys().any(|other| other == key))
    };
    for grant in grants.iter().filter(meets) {
        *counts.entry((grant.client, grant.lock)).or_default() += 1;
    }
    let told =
        counts.iter().map(|((client, lock), times)| format!("{times} x {lock} to client {client}"));
    let told = told.collect::<Vec<_>>().join(", ");
    if told.is_empty() { "nobody was granted it".to_owned() } else { told }
}
