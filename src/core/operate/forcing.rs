//! Taking a lock from its owners by an operator's order.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, drift};
use super::super::link::Release;

/// The order to the nodes to take a lock by force, and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForcePlan {
    /// Time for which the owners' tombstones live.
    pub(crate) tombstones_live: Duration,
    /// `answer_by`: end of the time in which an answer counts. `kept_until`: end of the time for which the order is
    /// kept for a node that is down.
    pub(crate) answer_by: Time,
    pub(crate) kept_until: Time,
}

impl ForcePlan {
    /// The plan for an order at `now`, where keys live for `max_ttl` at most and nodes have `timeout` to answer.
    ///
    /// The last round of extension that a majority can confirm runs before the last node of a majority has been told.
    /// The life that a holder asks for in that round is over after `max_ttl`. Until then no tombstone may end, not
    /// even that of the node that was told first.
    pub(crate) fn new(max_ttl: Duration, timeout: Duration, now: Time) -> Self {
        let lives = max_ttl.saturating_add(drift(max_ttl)).saturating_add(timeout);
        let tombstones_live = lives.if_off(Mechanism::ForcedStayOut, Duration::from_millis(1));
        Self { tombstones_live, answer_by: now.after(timeout), kept_until: now.after(lives) }
    }

    /// The plan for a name whose keys live for `life` on some node. The key of a lock that was given back and is
    /// still kept may live longer than any lock. A node that is down is told as long as it may have such a key.
    pub(crate) fn while_keys_live(self, life: Duration, now: Time) -> Self {
        let gone_at = now.after(life).after(drift(life));
        Self { kept_until: self.kept_until.max(gone_at), ..self }
    }

    /// Returns the terms of the order for the connections to the nodes. Nodes that are down get the order when they come back.
    pub(crate) const fn terms(self) -> Release {
        Release::without_key(self.kept_until)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    #[test]
    fn tombstones_outlive_all_that_the_forced_have_asked_for() {
        let (max_ttl, timeout) = (Duration::from_secs(10), Duration::from_millis(200));
        let now = Time::from_start(Duration::from_secs(60));
        let plan = ForcePlan::new(max_ttl, timeout, now);
        assert!(plan.tombstones_live > max_ttl + timeout);
        assert_eq!(plan.answer_by, now.after(timeout));
        assert_eq!(plan.kept_until, now.after(plan.tombstones_live));
        let day = max_ttl * 8_640;
        assert_eq!(plan.while_keys_live(max_ttl / 2, now), plan);
        assert!(plan.while_keys_live(day, now).kept_until > now.after(day));
        let off = without(&[Mechanism::ForcedStayOut], || ForcePlan::new(max_ttl, timeout, now));
        assert!(off.tombstones_live < timeout);
    }
}
