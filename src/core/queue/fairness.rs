//! Giving way: a process that has just had a lock leaves it to the processes that are known to wait for it.
//!
//! A request that follows a release on the same connection is the first at every node. So a process that
//! takes the same lock again and again would keep it from all others: they learn of the release when the
//! lock is already taken again. The nodes say with each release how many connections have heard of it.

use std::sync::Arc;
use std::time::Duration;

use super::super::base::{Mechanism, Time};

/// Time for which others are believed to wait after a node has said so.
const KNOWN: Duration = Duration::from_secs(1);

/// The longest time to give way. Others hear of a release within a millisecond, but machines are busy.
const PAUSE: Duration = Duration::from_millis(8);

/// Time without giving way again if nobody came: clients go on listening for a while after their last
/// waiter. It doubles each time, up to the maximum, for a waiter may only have been slow.
const IN_VAIN: Duration = Duration::from_millis(10);
const MOST_IN_VAIN: u32 = 4;

/// Knowledge of one process about others that want one lock.
#[derive(Debug)]
pub(crate) struct Fairness {
    /// Number of others when the lock was given back last, as far as is known, and when it was given back before that.
    others: u32,
    others_before: u32,
    known_until: Time,
    /// The owner that has given the lock back here last.
    last_owner: Option<Arc<str>>,
    give_way_until: Option<Time>,
    /// True if the process has given way until the time was over, and has not heard of anybody since.
    waited: bool,
    /// Number of times in a row that giving way was in vain.
    in_vain: u32,
    not_before: Time,
}

impl Fairness {
    pub(crate) fn new() -> Self {
        let never = Time::default();
        Self {
            others: 0,
            others_before: 0,
            known_until: never,
            last_owner: None,
            give_way_until: None,
            waited: false,
            in_vain: 0,
            not_before: never,
        }
    }

    /// Notes that a node announced a release to that many `others`. 0: somebody wants the lock, but the number is not known.
    pub(crate) fn heard(&mut self, others: u32, now: Time) {
        self.others = self.others.max(others);
        self.known_until = now.after(KNOWN);
    }

    /// Returns the number of others that come first if each of them has waited for longer.
    pub(crate) fn others(&self, now: Time) -> u32 {
        if now < self.known_until { self.others.max(self.others_before) } else { 0 }
    }

    /// Returns true if others wait, as far as is known.
    pub(crate) fn others_wait(&self, now: Time) -> bool {
        now < self.known_until && self.not_before <= now && Mechanism::GivesWay.is_on()
    }

    /// Notes that the lock, which was that `owner`'s, has been given back to the nodes.
    pub(crate) fn given_back(&mut self, owner: &str, now: Time) {
        self.last_owner = Some(owner.into());
        if self.others > 0 {
            self.others_before = std::mem::take(&mut self.others);
        }
        self.give_way_until = self.others_wait(now).then(|| now.after(PAUSE));
    }

    /// Returns the time until which to leave the lock to others, unless one of them gives it back before.
    pub(crate) fn give_way_until(&self, now: Time) -> Option<Time> {
        self.give_way_until.filter(|until| now < *until)
    }

    /// Returns the last owner of this process that has given the lock back. Messages about its release are no news to the process.
    pub(crate) fn last_owner(&self) -> Option<Arc<str>> {
        self.last_owner.clone()
    }

    /// Notes that giving way is over. If a release was `heard` of meanwhile, somebody else is there.
    pub(crate) fn giving_way_is_over(&mut self, heard: bool) {
        self.give_way_until = None;
        self.waited = !heard;
        if heard {
            self.in_vain = 0;
        }
    }

    /// Notes that somebody else has the lock.
    pub(crate) fn refused(&mut self) {
        (self.waited, self.in_vain) = (false, 0);
    }

    /// Notes that the lock is ours.
    pub(crate) fn granted(&mut self, now: Time) {
        if std::mem::take(&mut self.waited) {
            self.not_before = now.after(IN_VAIN * 2_u32.pow(self.in_vain));
            self.in_vain = MOST_IN_VAIN.min(self.in_vain + 1);
        }
    }

    /// Returns true if there is nothing left to remember.
    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.known_until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(1_000 + ms))
    }

    #[test]
    fn who_knows_of_others_gives_way_and_who_does_not_goes_on() {
        let mut fairness = Fairness::new();
        fairness.given_back("x", at(0));
        assert_eq!(fairness.give_way_until(at(0)), None, "nobody waits");
        fairness.heard(1, at(1));
        fairness.given_back("x", at(2));
        assert_eq!(fairness.give_way_until(at(2)), Some(at(10)));
        assert_eq!(fairness.give_way_until(at(10)), None);
        fairness.giving_way_is_over(true);
        fairness.granted(at(4));
        fairness.given_back("x", at(5));
        assert_eq!(
            fairness.give_way_until(at(5)),
            Some(at(13)),
            "somebody came, and may come again"
        );
        assert!(fairness.is_over(at(1_001)) && !fairness.is_over(at(1_000)));
        fairness.given_back("x", at(1_001));
        assert_eq!(fairness.give_way_until(at(1_001)), None, "that was long ago");
    }

    #[test]
    fn who_gave_way_in_vain_does_not_do_it_again_at_once() {
        let mut fairness = Fairness::new();
        fairness.heard(1, at(0));
        fairness.given_back("x", at(0));
        fairness.giving_way_is_over(false);
        fairness.granted(at(5));
        fairness.given_back("x", at(6));
        assert_eq!((fairness.give_way_until(at(6)), fairness.others_wait(at(14))), (None, false));
        fairness.given_back("x", at(15));
        assert_eq!(fairness.give_way_until(at(15)), Some(at(23)));
        fairness.giving_way_is_over(false);
        fairness.granted(at(25));
        assert!(!fairness.others_wait(at(44)) && fairness.others_wait(at(45)), "twice as long");
        fairness.given_back("x", at(45));
        fairness.giving_way_is_over(false);
        fairness.refused();
        fairness.granted(at(60));
        fairness.given_back("x", at(61));
        assert!(fairness.give_way_until(at(61)).is_some(), "somebody has come all the same");
    }

    #[test]
    fn as_many_others_are_expected_as_were_told_last() {
        let mut fairness = Fairness::new();
        for others in [2, 3, 1] {
            fairness.heard(others, at(0));
        }
        assert_eq!(fairness.others(at(0)), 3, "not all are heard on all nodes");
        fairness.given_back("x", at(5));
        assert_eq!(fairness.others(at(5)), 3, "nothing is known of this one yet");
        fairness.heard(2, at(6));
        fairness.given_back("x", at(7));
        assert_eq!(fairness.others(at(7)), 2);
        assert_eq!(fairness.others(at(1_006)), 0, "that was long ago");
    }
}
