//! The holder learns of a loss in time, and never without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::hold::{GivenBack, LossNotice, LossReason, Terms};
use crate::simulation::claim::Claim;

/// Largest delay of a message about a loss.
const LATE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Losses {
    /// The locks that are held: their client, and the end of their validity.
    held: BTreeMap<u64, (usize, Duration)>,
    /// Locks whose keys somebody has deleted on all nodes: the time, and the time by which the holder must know.
    deleted: BTreeMap<u64, (Duration, Duration)>,
}

impl Losses {
    pub(super) fn lease(&mut self, lock: u64, client: usize, until: Duration) {
        self.held.insert(lock, (client, until));
    }

    pub(super) fn ended(&mut self, lock: u64) {
        self.held.remove(&lock);
        self.deleted.remove(&lock);
    }

    /// Notes that the keys of a lock are gone. A client that renews it must find out by then.
    pub(super) fn deleted(&mut self, lock: u64, by: Duration, now: Duration) {
        self.deleted.entry(lock).or_insert((now, by));
    }

    pub(super) fn is_deleted(&self, lock: u64) -> bool {
        self.deleted.contains_key(&lock)
    }

    /// Returns a violation if the holder of a lock should know by now that its keys were deleted.
    pub(super) fn goes_on(&self, lock: u64, now: Duration) -> Option<String> {
        let (at, by) = self.deleted.get(&lock)?;
        (*by < now).then(|| format!("a lock is held {:?} after its keys were deleted", now - *at))
    }

    /// Returns a violation if a lock is over, and its holder does not know.
    pub(super) fn untold(&self, now: Duration) -> Option<String> {
        let untold = self.held.values().find(|(_, until)| *until + LATE < now);
        untold.map(|(client, until)| {
            format!("client {client} was never told of a loss {:?} ago", now - *until)
        })
    }
}

/// Returns a violation in a message about a loss, if there is one. The validity ended at `ended`. The process last
/// began to run at `woken`. `gone`: keys may have gone for good.
pub(super) fn told(
    claim: &Claim,
    terms: Terms,
    reason: LossReason,
    gone: bool,
    ended: Duration,
    woken: Duration,
    now: Duration,
) -> Option<String> {
    let name = claim.short();
    if now > ended.max(woken) + LATE {
        Some(format!("{name}: told {:?} too late", now - ended.max(woken)))
    } else if reason == LossReason::KeysGone && !gone && now < ended {
        Some(format!("{name}: told {reason:?}, and nobody else can have had it"))
    } else if reason == LossReason::MaxHold && terms.max_hold.is_none() {
        Some(format!("{name}: told {reason:?}, and it may be held for ever"))
    } else if reason != LossReason::KeysGone && now + Duration::from_micros(10) < ended {
        Some(format!("{name}: told {reason:?} with {:?} of its validity left", ended - now))
    } else {
        None
    }
}

/// Checks the notice of a holder that has given its lock back with that result. Returns a violation, if there is one.
pub(in super::super) fn heard_of_its_end(
    given_back: GivenBack,
    notice: &LossNotice<()>,
) -> Option<String> {
    match (given_back.loss(), notice) {
        (Some(_), LossNotice::Lost(_)) | (None, LossNotice::GivenBack) => None,
        (Some(reason), _) => {
            Some(format!("given back after {reason:?}, which its holder never heard"))
        }
        (None, _) => Some(format!("given back, and its holder heard: {notice:?}")),
    }
}
