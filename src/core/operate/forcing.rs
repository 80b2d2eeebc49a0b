//! Taking a lock from its owners by an operator's order.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, drift, majority};
use super::super::base::{Tally, Verdict};
use super::super::link::Via;
use super::super::vote::{Ballot, Failure};

/// How the nodes are told, and for how long that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForcePlan {
    /// How long the owners' tombstones live.
    pub(crate) tombstones_live: Duration,
    /// Until when a node counts that answers, and until when the order is kept for one that is down.
    pub(crate) answer_by: Time,
    pub(crate) kept_until: Time,
}

impl ForcePlan {
    /// The plan for an order at `now`, where keys live for `max_ttl` at most and nodes have `timeout` to answer.
    ///
    /// The last round of extension that a majority can confirm runs before the last node of a majority has been told. What
    /// a holder asks for by that is over after `max_ttl`; until then no tombstone may end, not even that of the node
    /// that was told first.
    pub(crate) fn new(max_ttl: Duration, timeout: Duration, now: Time) -> Self {
        let lives = max_ttl.saturating_add(drift(max_ttl)).saturating_add(timeout);
        let tombstones_live = lives.if_off(Mechanism::ForcedStayOut, Duration::from_millis(1));
        Self { tombstones_live, answer_by: now.after(timeout), kept_until: now.after(lives) }
    }

    /// The plan for a name whose keys live for so long on some node: what is kept of a lock that was given back may live
    /// for longer than any lock. A node that is down is told as long as it may have such a key.
    pub(crate) fn while_keys_live(self, life: Duration, now: Time) -> Self {
        let gone_at = now.after(life).after(drift(life));
        Self { kept_until: self.kept_until.max(gone_at), ..self }
    }
}

/// The order to all nodes to forget the owners of one name of a lock.
#[derive(Debug)]
pub(crate) struct Forcing {
    told: Tally,
}

impl Forcing {
    pub(crate) const fn new(nodes: usize) -> Self {
        Self { told: Tally::new(nodes, majority(nodes)) }
    }

    /// Returns whether a majority has obeyed, so that the owners have no majority any more, and get none back.
    pub(crate) fn is_told(&self) -> bool {
        self.told.verdict() == Verdict::Won
    }
}

impl Ballot for Forcing {
    /// How many of the owners had the lock on the node.
    type Vote = u64;

    fn sending(&mut self, _node: usize, _via: Via, _now: Time) -> bool {
        // Whoever waits for it or not: the order is kept for nodes that are down.
        true
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, _node: usize, _taken: u64) {
        self.told.yes();
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.told.no();
    }

    fn decided(&self) -> bool {
        self.told.verdict() != Verdict::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::*;

    #[test]
    fn a_majority_that_was_told_is_enough_and_less_is_not() {
        let mut forcing = Forcing::new(5);
        forcing.vote(0, 1);
        forcing.fail(1, Failure::NotSent);
        forcing.vote(2, 0);
        assert!(!forcing.decided());
        forcing.vote(4, 1);
        assert!(forcing.decided() && forcing.is_told());
        let mut forcing = Forcing::new(3);
        forcing.fail(0, Failure::Unknown);
        forcing.fail(1, Failure::Error);
        assert!(forcing.decided() && !forcing.is_told());
    }

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
