//! A ballot whose answers come in, and the rule for when its caller is woken.

use super::Failure;
use super::ballot::Ballot;

/// A ballot and its caller, who waits for the verdict and, if it says so, for the answers behind that.
pub(crate) struct Round<B> {
    ballot: B,
    /// True if the caller was woken for the verdict.
    is_told: bool,
    /// True if the caller waits for answers behind the verdict.
    hears_out: bool,
    /// True if an answer has come since the caller last looked.
    is_news: bool,
}

impl<B: Ballot> Round<B> {
    pub(crate) fn new(ballot: B) -> Self {
        Self { ballot, is_told: false, hears_out: false, is_news: false }
    }

    pub(crate) fn ballot(&mut self) -> &mut B {
        &mut self.ballot
    }

    /// Takes the one answer of a node. Returns true if the caller must be woken: once for the verdict, and for each answer behind
    /// it if the caller waits for those.
    #[must_use]
    pub(crate) fn answer(&mut self, node: usize, vote: Result<B::Vote, Failure>) -> bool {
        match vote {
            Ok(vote) => self.ballot.vote(node, vote),
            Err(failure) => self.ballot.fail(node, failure),
        }
        self.is_news = true;
        let is_decided = !self.is_told && self.ballot.decided();
        self.is_told |= is_decided;
        is_decided || self.hears_out
    }

    /// Returns true if the verdict is there.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told
    }

    /// The caller waits for answers behind the verdict from now on. Returns true if one has come since the last call.
    pub(crate) fn hear_out(&mut self) -> bool {
        self.hears_out = true;
        std::mem::take(&mut self.is_news)
    }

    /// Has a decided ballot go on, if it wants that. Then the caller waits for the next verdict.
    pub(crate) fn reopen(&mut self, reopened: impl FnOnce(&mut B) -> bool) -> bool {
        let goes_on = reopened(&mut self.ballot);
        self.is_told &= !goes_on;
        self.hears_out &= !goes_on;
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::Time;
    use super::super::super::link::Via;
    use super::*;

    /// Decided by two votes.
    #[derive(Default)]
    struct Two(usize);

    impl Ballot for Two {
        type Vote = ();

        fn sending(&mut self, _: usize, _: Via, _: Time) -> bool {
            true
        }

        fn unsent(&mut self, _: usize) {}

        fn vote(&mut self, _: usize, (): ()) {
            self.0 += 1;
        }

        fn fail(&mut self, _: usize, _: Failure) {}

        fn decided(&self) -> bool {
            self.0 >= 2
        }
    }

    #[test]
    fn the_caller_is_woken_once_for_the_verdict() {
        let mut round = Round::new(Two::default());
        let woken = [0, 1, 2].map(|node| round.answer(node, Ok(())));
        assert_eq!((woken, round.is_told()), ([false, true, false], true));
    }

    #[test]
    fn a_failure_is_an_answer_without_a_vote() {
        let mut round = Round::new(Two::default());
        assert!(!round.answer(0, Err(Failure::Unknown)));
        assert_eq!((round.ballot().0, round.is_told()), (0, false));
        assert!(round.hear_out(), "it is news");
    }

    #[test]
    fn a_caller_that_hears_out_is_woken_for_each_answer() {
        let mut round = Round::new(Two::default());
        let _ = round.answer(0, Ok(()));
        assert!(round.hear_out(), "the first one");
        assert!(!round.hear_out(), "it was seen");
        assert!(round.answer(1, Ok(())) && round.answer(2, Ok(())));
        assert!(round.hear_out() && !round.hear_out());
    }

    #[test]
    fn a_round_that_goes_on_has_another_verdict() {
        let mut round = Round::new(Two::default());
        let _ = [0, 1].map(|node| round.answer(node, Ok(())));
        let _ = round.hear_out();
        assert!(!round.reopen(|_| false), "the ballot does not want it");
        assert!(round.is_told());
        let reopened = round.reopen(|ballot| {
            ballot.0 = 1;
            true
        });
        assert!(reopened && !round.is_told());
        assert!(!round.answer(2, Err(Failure::Unknown)), "nobody hears out any more");
        assert!(round.answer(0, Ok(())), "the next verdict");
    }
}
