//! The length of a node's quarantine, and its end.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time};
use super::clocks::milliseconds;
use super::mark::MarkState;
use super::node::Knowledge;
use super::old_master::OLD_MASTER_WRITES;
use super::set_time::SetTime;
use super::{Admission, Chance};

/// The largest difference between two clients' estimates of the same set's time.
const SLACK_MS: u64 = 1_000;

/// The longest that clients wait beyond the end of a quarantine, so that not all of them ask at once.
const JITTER: Duration = Duration::from_millis(50);

impl Admission {
    /// Returns the first state of a node that may have forgotten locks.
    ///
    /// The end is set in a second step, when the node has confirmed that it refuses grants. If one change did both and was held
    /// up on its way, the time would count from before that change. Locks that the node forgets in between would not be waited
    /// for.
    pub(super) fn begun(&self, id: u64) -> MarkState {
        if self.quarantine && Mechanism::Quarantine.is_on() {
            MarkState::Quarantined { until_ms: None, id }
        } else {
            MarkState::Admitted
        }
    }

    /// Returns the next state of a node in quarantine, or the time of its next probe.
    pub(super) fn next_of_quarantine(
        &self,
        known: &Knowledge,
        until_ms: Option<u64>,
        id: u64,
        now: Time,
        set_time: Option<SetTime>,
        chance: Chance,
    ) -> (Option<MarkState>, Option<Time>) {
        if known.begun != Some(id) && !Mechanism::QuarantineIsJoined.is_on() {
            return (Some(self.begun(chance.id)), None);
        }
        let left = self.left(known, until_ms, id, now, set_time);
        if left.is_zero() || known.by_order == Some(id) {
            // Not while its clock may have been set: locks that ended early because of that may still be held.
            return (known.clock.steady.then_some(MarkState::Admitted), None);
        }
        if let Some(set_time) = set_time {
            let time = self.quarantine_time(known);
            let end_ms = set_time.most_ms.saturating_add(milliseconds(time));
            // The end is not set yet, or it was set by a time that cannot have been the set's.
            if until_ms.is_none_or(|until_ms| until_ms > end_ms.saturating_add(SLACK_MS)) {
                return (Some(MarkState::Quarantined { until_ms: Some(end_ms), id }), None);
            }
        }
        let jitter = JITTER.min(self.max_ttl / 20).mul_f64(chance.jitter);
        (None, Some(now.after(left).after(jitter)))
    }

    /// Returns the remaining time of the quarantine, as far as this client can know.
    ///
    /// The quarantine has ended when the set's time has certainly reached its end. The node's own clock does not count, since it
    /// may be the wrong one. The quarantine has also ended for a client that has watched this very quarantine for the full time
    /// on its own clock, whatever the servers' clocks say. With one node or two there is no other end: it takes three clocks to
    /// tell which one is wrong.
    pub(super) fn left(
        &self,
        known: &Knowledge,
        until_ms: Option<u64>,
        id: u64,
        now: Time,
        set_time: Option<SetTime>,
    ) -> Duration {
        let watched = known.watched(id, now);
        let by_own_clock = self.quarantine_time(known).saturating_sub(watched);
        let nodes_own = known.seen.as_ref().map(|seen| seen.node_time_ms(now));
        let time_ms = set_time.map(|set_time| set_time.least_ms);
        let time_ms = time_ms.if_off(Mechanism::EndsByTheSetsTime, nodes_own);
        let few = self.nodes.len() < 3 && Mechanism::FewClocksAreWatched.is_on();
        match until_ms.zip(time_ms).filter(|_| !few) {
            Some((until_ms, time_ms)) => {
                by_own_clock.min(Duration::from_millis(until_ms.saturating_sub(time_ms)))
            }
            None => by_own_clock,
        }
    }

    /// Returns the length of the node's quarantine.
    ///
    /// In a partition, the old master of a promoted server goes on granting to clients that still reach it, until it misses its
    /// replicas. Those locks live for `max_ttl` from then on. All quarantines of a server that has shown a promotion are longer: so
    /// their marks need not say what has begun them.
    pub(super) fn quarantine_time(&self, known: &Knowledge) -> Duration {
        let max_ttl = self.max_ttl.if_off(Mechanism::FullMaxTtl, self.max_ttl / 2);
        let is_longer = known.was_promoted.if_off(Mechanism::PromotionsOutlastOldMasters, false);
        max_ttl.saturating_add(if is_longer { OLD_MASTER_WRITES } else { Duration::ZERO })
    }
}
