//! The holder learns of a loss in time, and never without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::quorum::LossReason;
use crate::simulation::claim::Claim;

/// How late a loss may be told.
const LATE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Losses {
    /// The locks that are held: by whom, and until when they are valid.
    held: BTreeMap<u64, (usize, Duration)>,
}

impl Losses {
    pub(super) fn lease(&mut self, lock: u64, client: usize, until: Duration) {
        self.held.insert(lock, (client, until));
    }

    pub(super) fn ended(&mut self, lock: u64) {
        self.held.remove(&lock);
    }

    /// Whether a lock is over, and its holder does not know.
    pub(super) fn untold(&self, now: Duration) -> Option<String> {
        let untold = self.held.values().find(|(_, until)| *until + LATE < now);
        untold.map(|(client, until)| {
            format!("client {client} was never told of a loss {:?} ago", now - *until)
        })
    }
}

/// A holder was told of a loss, whose validity ended at `ended`; its process last began to run at
/// `woken`. What is wrong with it.
pub(super) fn told(
    claim: &Claim,
    reason: LossReason,
    ended: Duration,
    woken: Duration,
    now: Duration,
) -> Option<String> {
    let name = claim.short();
    if now > ended.max(woken) + LATE {
        Some(format!("{name}: told {:?} too late", now - ended.max(woken)))
    } else if reason != LossReason::KeysGone && now + Duration::from_micros(10) < ended {
        Some(format!("{name}: told {reason:?} with {:?} of its validity left", ended - now))
    } else {
        None
    }
}
