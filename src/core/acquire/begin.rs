//! The start of an attempt: the caller's priority, its owner id, and the node that is asked first.

use super::super::base::Time;
use super::super::wake::ReleaseTracker;
use super::reservation::Priority;
use super::state::CallState;
use super::{Acquire, Action, Begin, SharedAttempt, Surroundings};

impl<C: SharedAttempt> Acquire<C> {
    pub(super) fn begin_attempt(&mut self, around: &mut impl Surroundings) {
        around.releases(ReleaseTracker::attempt_begins);
        self.take_priority(around);
        let owner = self.attempts.owner(around.random_owner());
        let prefers_one = self.attempts.prefers_one(around.now());
        let preferred = if prefers_one { self.preferred(around) } else { None };
        // Before the time, so that a suspension during the attempt is seen.
        let suspensions = around.suspensions();
        self.started = around.now();
        self.answer_by = self.attempts.answer_by(self.started, self.attempt_timeout);
        let (started, answer_by) = (self.started, self.answer_by);
        let waits = self.attempts.waits(started);
        let permits = self.attempts.picks(|| around.random());
        let begin = Begin { owner, suspensions, started, answer_by, waits, permits };
        self.actions.push_back(Action::Begin(begin));
        self.state = CallState::Beginning(preferred);
    }

    /// Gives a caller that others have kept waiting its priority: it precedes calls that began later.
    fn take_priority(&mut self, around: &mut impl Surroundings) {
        let others = || around.others_subscribed();
        if !self.attempts.lacks_priority(self.refused || self.waited_for_others, others) {
            return;
        }
        // Without the set's time the caller cannot be ranked among others. It asks without a priority.
        let Some(began_ms) = self.began_ms(around) else { return };
        let id = around.random_owner() as u64;
        self.attempts.takes_priority(Priority { began_ms, id }, around.now());
    }

    /// Returns the start of the call in milliseconds of the set's time; `None` if that time is unknown.
    pub(super) fn began_ms(&self, around: &impl Surroundings) -> Option<u64> {
        let waited = around.now().since(self.began);
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        Some(around.set_time_ms()?.saturating_sub(waited_ms))
    }

    /// Returns the node that is asked alone at first, and the end of its time.
    fn preferred(&self, around: &mut impl Surroundings) -> Option<(usize, Time)> {
        let order = around.asking_order();
        let hears = |releases: &mut ReleaseTracker| {
            (0..order.len()).map(|node| releases.hears(node)).collect::<Vec<_>>()
        };
        let hears = around.releases(hears);
        let relies_on = |node: usize| {
            let answers = match self.last_votes_are_fresh {
                true => around.voted(node),
                false => !around.is_down(node),
            };
            answers && hears.as_ref().is_none_or(|hears| hears[node])
        };
        self.attempts.preferred_node(&order, relies_on, around.now())
    }
}
