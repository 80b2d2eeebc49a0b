//! The rounds of extension of one held lock, and their end: no extension follows a release.

use super::super::base::{Mechanism, Time};
use super::super::vote::{Attempt, Extension, Shared};

/// Number of rounds that stay open for late answers.
const OPEN_ROUNDS: usize = 8;

/// The rounds of extension of one held lock that some node has not answered.
///
/// The driver sends a round after `begin`, and the releases after `end`, both under one mutex. A round that is
/// sent after the release would set the key once more, for no holder.
#[derive(Debug)]
pub(super) struct Rounds<R> {
    /// The lock has been given back, or was lost.
    ended: bool,
    open: Vec<R>,
    /// For each node that lost the key when its clock moved, and has not been found with it since: the end of
    /// the time for which that excuses the node. That time is at most a TTL, in which the node grants nothing
    /// to anybody.
    moved: Vec<Option<Time>>,
}

impl<R: Shared<Extension>> Rounds<R> {
    pub(super) fn new() -> Self {
        Self { ended: false, open: Vec::new(), moved: Vec::new() }
    }

    /// Returns true if no round may begin any more, since the lock has ended.
    pub(super) fn are_closed(&self) -> bool {
        self.ended && Mechanism::RenewalStopsBeforeRelease.is_on()
    }

    /// `round` is about to be put to the nodes, for the lock that `attempt` won.
    pub(super) fn begin(&mut self, round: R, attempt: &mut Attempt) {
        self.hear(attempt);
        round.with(|extension| extension.moved_before(&self.moved));
        // A node that has not answered so many rounds will not answer the oldest of them.
        let surplus = (self.open.len() + 1).saturating_sub(OPEN_ROUNDS);
        for round in self.open.drain(..surplus) {
            // Otherwise copies could still go out, and the end of the lock would not know of them.
            round.with(Extension::close);
            attempt.repairs_left(&round.with(|extension| extension.left()));
        }
        self.open.push(round);
        attempt.repairing();
    }

    /// Tells `attempt` the nodes' new answers about its key. They decide which nodes need a release in the end.
    fn hear(&mut self, attempt: &mut Attempt) {
        for round in &self.open {
            let (news, gone, until) = round
                .with(|round| (round.news(), round.gone_by_the_clock(), round.valid_at_most()));
            attempt.repaired(&news);
            self.moved.resize(news.len(), None);
            for (node, _) in news.iter().enumerate().filter(|(_, heard)| heard.is_some()) {
                self.moved[node] = match gone[node] {
                    Some(true) => self.moved[node].or(Some(until)),
                    Some(false) => None,
                    None => self.moved[node],
                };
            }
        }
        self.open.retain(|round| {
            let all_told = round.with(|extension| extension.all_told());
            if all_told {
                // An answered request may have been written before as well, over another connection.
                attempt.repairs_left(&round.with(|extension| extension.left()));
            }
            !all_told
        });
    }

    /// Closes the rounds of the exclusive lock, since the rounds from now on are for a shared lock. Nothing
    /// more is sent for the closed ones, and the requests that may still run are noted.
    pub(super) fn restart(&mut self, attempt: &mut Attempt) {
        if Mechanism::DowngradesRestartRounds.is_on() {
            self.open.iter().for_each(|round| round.with(Extension::close));
            self.hear_out(attempt);
        }
    }

    /// Tells `attempt` the nodes' last answers about its key, and the requests that may still run.
    fn hear_out(&mut self, attempt: &mut Attempt) {
        self.hear(attempt);
        for round in self.open.drain(..) {
            attempt.repairs_left(&round.with(|extension| extension.left()));
        }
    }

    /// Ends the rounds, since the lock is given back, or was lost. No round begins any more, and nothing more
    /// is sent for those that have begun. Returns true for the first call.
    pub(super) fn end(&mut self, attempt: &mut Attempt) -> bool {
        if std::mem::replace(&mut self.ended, true) {
            return false;
        }
        if self.are_closed() {
            self.open.iter().for_each(|round| round.with(Extension::close));
        }
        self.hear_out(attempt);
        true
    }

    pub(super) const fn ended(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::super::super::base::{Allowance, Basis, Time, without};
    use super::super::super::link::Via;
    use super::super::super::vote::{Ballot, ExtensionVote, Failure, Renewed, Vote};
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    type Round = Rc<RefCell<Extension>>;

    fn round() -> Round {
        let (start, by) = (Time::default(), Time::default().after(TTL));
        let all = Allowance::FOR_DRIFT;
        Rc::new(RefCell::new(Extension::new(3, start, by, TTL, Basis::Majority, all)))
    }

    /// An attempt that two of three nodes granted and one refused.
    fn won() -> Attempt {
        let (start, by) = (Time::default(), Time::default().after(TTL));
        let mut attempt = Attempt::new(3, start, by, TTL, Allowance::FOR_DRIFT);
        for (node, vote) in
            [Vote::Granted(0), Vote::Granted(0), Vote::Refused(None)].into_iter().enumerate()
        {
            assert!(attempt.sending(node, Via::unfenced(1), start));
            attempt.vote(node, vote);
        }
        attempt
    }

    fn copy_goes_out(round: &Round) -> bool {
        round.with(|extension| extension.sending(0, Via::unfenced(1), Time::default()))
    }

    #[test]
    fn nothing_is_sent_once_the_lock_has_ended() {
        let (mut attempt, mut rounds) = (won(), Rounds::new());
        let under_way = round();
        rounds.begin(under_way.clone(), &mut attempt);
        assert!(copy_goes_out(&under_way));
        assert!(rounds.end(&mut attempt));
        assert!(!copy_goes_out(&under_way), "a second copy would follow the release");
        assert!(rounds.are_closed());
        assert!(!rounds.end(&mut attempt), "it ends once");
    }

    /// A node that refused the lock and took it in a repair needs a release, too. So does a node whose answer
    /// is still out.
    #[test]
    fn what_a_round_set_is_given_back_with_the_rest() {
        let (mut attempt, mut rounds) = (won(), Rounds::new());
        let repair = round();
        rounds.begin(repair.clone(), &mut attempt);
        repair.with(|extension| {
            extension.vote(0, ExtensionVote::Extended);
            extension.fail(1, Failure::Unknown);
            extension.vote(2, ExtensionVote::Repaired);
        });
        assert!(rounds.end(&mut attempt));
        let cleanups = attempt.close(0);
        let all =
            cleanups.iter().map(|cleanup| (cleanup.node, cleanup.in_flight)).collect::<Vec<_>>();
        assert_eq!(all, [(0, false), (1, true), (2, false)]);
    }

    /// An answer over the second connection says nothing about the copy that was written over the first one.
    #[test]
    fn a_copy_that_may_still_run_is_known_after_all_nodes_have_answered() {
        let (mut attempt, mut rounds) = (won(), Rounds::new());
        let sent_twice = round();
        rounds.begin(sent_twice.clone(), &mut attempt);
        sent_twice.with(|extension| {
            for (node, connection) in [(0, 1), (0, 2), (1, 1), (2, 1)] {
                assert!(extension.sending(node, Via::unfenced(connection), Time::default()));
            }
            (0..3).for_each(|node| extension.vote(node, ExtensionVote::Extended));
        });
        rounds.hear(&mut attempt);
        assert!(rounds.open.is_empty(), "there is nothing more to hear");
        assert!(rounds.end(&mut attempt));
        let late = attempt.close(0).into_iter().map(|cleanup| cleanup.late.extensions);
        assert_eq!(late.collect::<Vec<_>>(), [Some(1), None, None]);
    }

    #[test]
    fn of_a_round_that_is_not_kept_open_nothing_more_is_sent_and_what_may_still_run_is_known() {
        let (mut attempt, mut rounds) = (won(), Rounds::new());
        let all: Vec<_> = (0..=OPEN_ROUNDS).map(|_| round()).collect();
        for (round, connection) in all.iter().zip(1..) {
            rounds.begin(round.clone(), &mut attempt);
            let via = Via::unfenced(connection);
            assert!(round.with(|extension| extension.sending(0, via, Time::default())));
        }
        assert!(!copy_goes_out(&all[0]), "it is the surplus one");
        assert!(copy_goes_out(&all[1]));
        assert!(rounds.end(&mut attempt));
        assert_eq!(attempt.close(0)[0].late.extensions, Some(1), "that of the surplus round");
    }

    /// A copy of a round for the exclusive lock that went out later would find a shared lock.
    #[test]
    fn for_rounds_of_before_a_downgrade_nothing_more_is_sent_and_what_may_still_run_is_known() {
        let goes_out = || {
            let (mut attempt, mut rounds) = (won(), Rounds::new());
            let before = round();
            rounds.begin(before.clone(), &mut attempt);
            assert!(copy_goes_out(&before));
            rounds.restart(&mut attempt);
            let goes_out = copy_goes_out(&before);
            let tells = round();
            rounds.begin(tells.clone(), &mut attempt);
            assert!(copy_goes_out(&tells), "that is for the shared lock");
            assert!(rounds.end(&mut attempt));
            assert_eq!(attempt.close(0)[0].late.extensions, Some(1));
            goes_out
        };
        assert!(!goes_out());
        assert!(without(&[Mechanism::DowngradesRestartRounds], goes_out), "the mutation bites");
    }

    #[test]
    fn no_more_rounds_are_kept_open_than_there_is_room_for() {
        let (mut attempt, mut rounds) = (won(), Rounds::new());
        for _ in 0..3 * OPEN_ROUNDS {
            rounds.begin(round(), &mut attempt);
        }
        assert_eq!(rounds.open.len(), OPEN_ROUNDS);
    }

    /// By the next round, the node's clock is read again and shows the right time. A contender, whose grant did
    /// not count, has left a larger number on the node.
    #[test]
    fn a_key_that_a_clock_has_ended_is_excused_until_it_is_found_again_and_no_longer() {
        let start = Time::default();
        let round_at = |at: Time| {
            let by = at.after(TTL);
            let all = Allowance::FOR_DRIFT;
            Rc::new(RefCell::new(Extension::new(2, at, by, TTL, Basis::Majority, all)))
        };
        let mut attempt = Attempt::new(2, start, start.after(TTL), TTL, Allowance::FOR_DRIFT);
        let mut rounds = Rounds::new();
        let mut ask = |at: Time, moved: bool, vote: ExtensionVote| {
            let round = round_at(at);
            rounds.begin(round.clone(), &mut attempt);
            round.with(|round| {
                (0..2).for_each(|node| assert!(round.sending(node, Via::unfenced(1), at)));
                if moved {
                    round.clock_moved(0, at);
                }
                round.vote(0, vote);
                round.vote(1, ExtensionVote::Extended);
                (round.result(at), round.repair_again(at, at.after(TTL)).map(|(_, up_to)| up_to))
            })
        };
        let (above, soon) = (ExtensionVote::FreeAbove(7), start.after(TTL / 2));
        assert_eq!(ask(start, true, ExtensionVote::Free), (Renewed::Unknown, None));
        assert_eq!(ask(soon, false, above), (Renewed::Unknown, Some(vec![Some(7), None])));
        assert_eq!(ask(start.after(TTL), false, above), (Renewed::Gone, None), "for long enough");
        assert!(matches!(ask(soon, false, ExtensionVote::Extended).0, Renewed::Until(..)));
        assert_eq!(ask(soon, false, above), (Renewed::Gone, None), "that was found again");
    }
}
