//! Taking a lock from its owners by an operator's order.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, drift};
use super::super::link::Release;
use super::Holders;

/// The removal of one name of a lock from owners, by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Force {
    pub(crate) owners: Vec<Vec<u8>>,
    /// Time for which a key of the lock may live on some node.
    life: Duration,
}

impl Force {
    /// The removal from all owners that any node has named. `None`: no node has named one.
    pub(crate) fn of(heard: &Holders) -> Option<Self> {
        let force = Self { owners: heard.seen(), life: heard.longest_life() };
        (!force.owners.is_empty()).then_some(force)
    }

    /// The removal from that owner alone.
    pub(crate) fn of_owner(heard: &Holders, owner: &[u8]) -> Self {
        Self { owners: vec![owner.to_vec()], life: heard.longest_life() }
    }

    /// The plan for an order at `now`, where locks live for `max_ttl` at most and nodes have `timeout` to answer.
    ///
    /// The last round of extension that a majority can confirm runs before the last node of a majority has been told.
    /// The life that a holder asks for in that round is over after `max_ttl`. Until then no tombstone may end, not
    /// even that of the node that was told first.
    ///
    /// The key of a lock that was given back and is still kept may live longer than any lock. A node that is down is told as long
    /// as it may have such a key.
    pub(crate) fn plan(&self, max_ttl: Duration, timeout: Duration, now: Time) -> ForcePlan {
        let lives = max_ttl.saturating_add(drift(max_ttl)).saturating_add(timeout);
        let life = self.life.if_off(Mechanism::OrdersOutliveKeys, Duration::ZERO);
        let gone_at = now.after(life).after(drift(life));
        let tombstones_live = lives.if_off(Mechanism::ForcedStayOut, Duration::from_millis(1));
        let kept_until = now.after(lives).max(gone_at);
        ForcePlan { tombstones_live, answer_by: now.after(timeout), kept_until }
    }
}

/// The order to the nodes to take a lock by force, and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ForcePlan {
    /// Time for which the owners' tombstones live.
    pub(crate) tombstones_live: Duration,
    /// End of the time in which an answer counts.
    pub(crate) answer_by: Time,
    /// End of the time for which the order is kept for a node that is down.
    kept_until: Time,
}

impl ForcePlan {
    /// Returns the terms of the order for the connections to the nodes. Nodes that are down get the order when they come back.
    pub(crate) const fn terms(self) -> Release {
        Release::without_key(self.kept_until)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::without;
    use super::super::super::vote::Ballot;
    use super::super::{HeldAs, HeldKey, HolderVote, KeyLayout};
    use super::*;

    const MAX_TTL: Duration = Duration::from_secs(10);
    const TIMEOUT: Duration = Duration::from_millis(200);

    fn now() -> Time {
        Time::from_start(Duration::from_secs(60))
    }

    /// The answers of three nodes: a key of each of these owners lives there for that time.
    fn heard(of: &[(&str, Duration)]) -> Holders {
        let mut heard = Holders::new(3, now(), false, true);
        for (node, (owner, lives)) in of.iter().enumerate() {
            let owners = vec![owner.as_bytes().to_vec()];
            let key = HeldKey::Lock { layout: KeyLayout::String, owners, lives: Some(*lives) };
            let held_as = Some(HeldAs::Exclusive);
            heard.vote(node, HolderVote { key, number: 7, forgetful: false, held_as, waiting: 0 });
        }
        heard
    }

    fn plan(life: Duration) -> ForcePlan {
        let force = Force::of(&heard(&[("a", life), ("a", MAX_TTL / 4)])).expect("a has it");
        force.plan(MAX_TTL, TIMEOUT, now())
    }

    #[test]
    fn a_lock_is_taken_from_all_that_any_node_names_or_from_one_owner() {
        let heard = heard(&[("b", MAX_TTL), ("a", MAX_TTL / 2), ("b", MAX_TTL / 2)]);
        let owners = Force::of(&heard).map(|force| force.owners);
        assert_eq!(owners, Some(vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(Force::of(&Holders::new(3, now(), false, true)), None);
        let one = Force::of_owner(&heard, b"c");
        assert_eq!((one.owners, one.life), (vec![b"c".to_vec()], MAX_TTL));
    }

    #[test]
    fn tombstones_outlive_all_that_the_forced_have_asked_for() {
        let of_a_lock = plan(MAX_TTL / 2);
        assert!(of_a_lock.tombstones_live > MAX_TTL + TIMEOUT);
        assert_eq!(of_a_lock.answer_by, now().after(TIMEOUT));
        assert_eq!(of_a_lock.kept_until, now().after(of_a_lock.tombstones_live));
        let off = without(&[Mechanism::ForcedStayOut], || plan(MAX_TTL / 2));
        assert!(off.tombstones_live < TIMEOUT);
    }

    #[test]
    fn a_node_that_is_down_is_told_as_long_as_it_may_have_a_key() {
        let day = MAX_TTL * 8_640;
        assert!(plan(day).kept_until > now().after(day));
        assert_eq!(plan(day).tombstones_live, plan(MAX_TTL).tombstones_live);
        assert!(plan(day).terms().until.is_some_and(|until| until > now().after(day)));
        let off = without(&[Mechanism::OrdersOutliveKeys], || plan(day));
        assert!(off.kept_until < now().after(MAX_TTL * 2));
    }
}
