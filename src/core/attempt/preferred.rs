//! Asking one node before the others.

use super::{Answer, Attempt, Time, Vote};

impl Attempt {
    /// Only `node` is asked at first. Contenders that all begin with the same one are sorted out there,
    /// instead of sharing the nodes among them so that nobody gets a majority.
    pub(crate) fn prefer(&mut self, node: usize) {
        self.preferred = Some(node);
    }

    /// The node that was asked alone has answered, or has had its time: whether to ask the others now,
    /// which have until `answer_by`. Not if it refused. If it said nothing that counts, they are asked
    /// as if it had not been.
    pub(crate) fn goes_on(&mut self, answer_by: Time) -> bool {
        let refused =
            |node: usize| matches!(self.slots[node].answer, Answer::Voted(Vote::Refused(_)));
        let goes_on = !self.closed && self.preferred.is_some_and(|node| !refused(node));
        if goes_on {
            self.preferred = None;
            self.answer_by = answer_by;
        }
        goes_on
    }

    /// The one node that was asked, if it ended with that, or waits for it.
    pub(crate) const fn preferred(&self) -> Option<usize> {
        self.preferred
    }

    /// Whether the node has granted it.
    pub(crate) fn is_granted_by(&self, node: usize) -> bool {
        self.slots[node].ours
    }

    /// Whether the node has voted, so that it can be expected to do so again.
    pub(crate) fn has_vote_of(&self, node: usize) -> bool {
        matches!(self.slots[node].answer, Answer::Voted(vote) if vote != Vote::NotAdmitted)
    }

    /// Whether some node granted it, all the same.
    pub(crate) fn is_split(&self) -> bool {
        self.slots.iter().any(|slot| slot.ours)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::{
        Allowance, Ballot, Conclusion, Failure, Judged, Quorum, QuorumHealth, Via,
    };
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn attempt() -> Attempt {
        let ttl = Duration::from_secs(10);
        let mut attempt = Attempt::new(3, at(0), at(200), ttl, Allowance::FOR_DRIFT);
        attempt.prefer(1);
        assert!(attempt.sending(1, Via::unfenced(1), at(0)) && !attempt.decided());
        attempt
    }

    #[test]
    fn a_refusal_by_the_first_one_is_the_end_of_it() {
        let mut attempt = attempt();
        let remaining = Some(Duration::from_millis(700));
        attempt.vote(1, Vote::Refused(remaining));
        assert!(attempt.decided() && !attempt.goes_on(at(300)) && !attempt.is_split());
        let Judged::Concluded(judgement) =
            QuorumHealth::new(None, TIMEOUT).judge(&mut attempt, at(1))
        else {
            panic!("nobody falls back")
        };
        assert_eq!(judgement.conclusion, Conclusion::Held { remaining });
        assert_eq!(judgement.quorum, Quorum::Untold, "one node is no majority");
        assert!(attempt.close(0).is_empty(), "nobody has anything of it");
    }

    #[test]
    fn with_its_grant_the_others_are_asked() {
        let mut attempt = attempt();
        attempt.vote(1, Vote::Granted(7));
        assert!(attempt.decided() && attempt.goes_on(at(300)) && !attempt.decided());
        assert_eq!(attempt.answer_by(), at(300));
        assert!(attempt.sending(0, Via::unfenced(1), at(250)));
        attempt.vote(0, Vote::Granted(7));
        assert!(attempt.decided());
        assert!(matches!(attempt.conclude(at(2)), Conclusion::Won { number: 7, .. }));
    }

    #[test]
    fn one_that_says_nothing_of_use_does_not_keep_the_others_from_being_asked() {
        let fail = |failure| move |attempt: &mut Attempt| attempt.fail(1, failure);
        let vote = |vote| move |attempt: &mut Attempt| attempt.vote(1, vote);
        let answers: [&dyn Fn(&mut Attempt); 5] = [
            &|_| {},
            &fail(Failure::NotSent),
            &fail(Failure::NotAdmitted),
            &vote(Vote::NotAdmitted),
            &vote(Vote::WrongKind),
        ];
        for answer in answers {
            let mut attempt = attempt();
            answer(&mut attempt);
            assert!(attempt.goes_on(at(300)) && !attempt.has_vote_of(0));
            attempt.vote(0, Vote::Granted(7));
            attempt.vote(2, Vote::Granted(7));
            assert!(attempt.decided());
            assert!(matches!(attempt.conclude(at(2)), Conclusion::Won { .. }));
        }
    }

    /// A caller's deadline that ends it before the first one has answered says nothing.
    #[test]
    fn what_is_cut_short_shows_nothing() {
        let mut attempt = attempt();
        attempt.answer_by = at(50);
        let judged = QuorumHealth::new(None, TIMEOUT).judge(&mut attempt, at(50));
        let Judged::Concluded(judgement) = judged else { panic!("nobody falls back") };
        assert_eq!(judgement.conclusion, Conclusion::Unreachable);
        assert_eq!(judgement.quorum, Quorum::Untold);
    }
}
