//! The holder learns of a loss in time, and never without a reason.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::core::hold::{GivenBack, LossNotice, LossReason, Terms};
use crate::simulation::claim::Claim;

/// How late a loss may be told.
const LATE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Losses {
    /// The locks that are held: by whom, and until when they are valid.
    held: BTreeMap<u64, (usize, Duration)>,
    /// Locks whose keys somebody has deleted on all nodes: when, and when their holder has to know.
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

    /// The keys of a lock are gone; whoever renews it has to find out until then.
    pub(super) fn deleted(&mut self, lock: u64, by: Duration, now: Duration) {
        self.deleted.entry(lock).or_insert((now, by));
    }

    pub(super) fn is_deleted(&self, lock: u64) -> bool {
        self.deleted.contains_key(&lock)
    }

    /// Whether the holder of a lock should know by now that its keys were deleted.
    pub(super) fn goes_on(&self, lock: u64, now: Duration) -> Option<String> {
        let (at, by) = self.deleted.get(&lock)?;
        (*by < now).then(|| format!("a lock is held {:?} after its keys were deleted", now - *at))
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
/// `woken`. Keys may have been `gone` for good, or never. What is wrong with it.
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
    } else if reason == LossReason::KeysGone && !gone && now + LATE < ended {
        // Near its end a node that has forgotten the key does not set it again.
        Some(format!("{name}: told {reason:?}, and nobody else can have had it"))
    } else if reason == LossReason::MaxHold && terms.max_hold.is_none() {
        Some(format!("{name}: told {reason:?}, and it may be held for ever"))
    } else if reason != LossReason::KeysGone && now + Duration::from_micros(10) < ended {
        Some(format!("{name}: told {reason:?} with {:?} of its validity left", ended - now))
    } else {
        None
    }
}

/// A holder has given its lock back, with that result, and has heard that. What is wrong with it.
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
