//! More time for answers for which nobody waits.

use std::time::Duration;

use super::super::base::Time;
use super::{Awaited, GRACE, Link, Phase, Request, Step, Surroundings};

/// The least time that a node has for a login, and for a question about it while no request waits for the answer.
///
/// A server with very many clients may be slow for a moment. If each of them gave up its connection then, the new ones would cost
/// the server more than the answers, and it would never catch up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

impl<R: Request, Q> Link<R, Q> {
    /// Reads the answer to a question about the node. If it does not come in time, and no request waits, the node gets more time.
    /// So a request that comes meanwhile waits for the question no longer than otherwise.
    pub(super) fn poll_asking(&mut self, now: Time, around: &mut impl Surroundings<R>) -> Step {
        let has_waiting = self.has_unsent();
        let limit = self.timeout.saturating_add(GRACE);
        let Phase::Asking { sent, deadline, .. } = &mut self.phase else { return Step::End };
        if *deadline <= now && !has_waiting && !around.has_waiting() {
            *deadline = now.after(limit).min(sent.after(PATIENCE)).max(*deadline);
        }
        Step::Read(Awaited::Question, *deadline)
    }

    /// Returns true if only the answer to a question about the node is missing.
    pub(crate) const fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. })
    }

    /// Returns the time limit of an answer that is no request's. Over a new connection it is longer: requests fail at once
    /// as a rule while the node is down, and otherwise wait no longer than their callers do.
    pub(super) fn limit_of_question(&self) -> Duration {
        let limit = self.timeout.saturating_add(GRACE);
        if self.is_up() { limit } else { limit.max(PATIENCE) }
    }
}
