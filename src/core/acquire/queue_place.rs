//! The place of one call in the queue that each node keeps for a fair lock.
//!
//! ```text
//! no ticket --- an attempt finds the lock held ---> a ticket: the time at which the call began, in milliseconds; or the
//!     ^                                                |  ^   largest that a majority knows, and one more, if that is larger
//!     |                                                |  +--- each further attempt asks with it again
//!     +--- too few nodes have said that it is there ---+
//! ```
//!
//! All nodes order the callers by their tickets, and each grants the lock only to the first one. A caller that comes at least
//! two round trips after another one finds that caller's ticket on a majority, and takes a larger one. The queues decide only
//! the order: exclusion depends on the lock's key.
//!
//! A caller that reaches too few nodes leaves their queues: it would keep out others that reach more. It comes back with
//! the ticket that it had. Callers that came meanwhile have larger tickets, even if all queues were empty by then.

use std::time::Duration;

use super::super::base::{Mechanism, POLL, Rule};
use super::super::vote::Attempt;

/// Least and greatest lifetime of an entry on a node if the caller does not ask again. A caller that dies keeps those behind
/// it waiting for that long.
const SHORTEST_LIFE: Duration = Duration::from_secs(3);
const LONGEST_LIFE: Duration = Duration::from_secs(60);

/// The place of one call's caller in the nodes' queues.
#[derive(Debug)]
pub(super) struct QueuePlace {
    /// Identifies the caller: the upper half of the random numbers of its owners.
    caller: Option<u64>,
    ticket: Option<u64>,
    /// The first ticket that the caller had. Others that came later have larger ones.
    first: Option<u64>,
    /// Lifetime of the entry on a node.
    lives: Duration,
}

/// The effect of an attempt on the caller's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlaceNews {
    /// No change.
    Same,
    /// The caller has a ticket now. It asks again at once, so that the nodes learn the ticket.
    HasTicket,
    /// Too few nodes have reported their queues, so the caller has no ticket. It asks again soon, since others overtake it.
    HasNoTicket,
    /// Too few nodes know the caller's ticket. They are told to forget the caller, which comes back with the same ticket.
    GivesUpTicket,
}

impl QueuePlace {
    /// Creates the place of a call whose attempts may take `attempt_timeout` each.
    pub(super) fn new(attempt_timeout: Duration) -> Self {
        // The caller asks again at intervals below half of this lifetime.
        let lives = (POLL + attempt_timeout).saturating_mul(2).clamp(SHORTEST_LIFE, LONGEST_LIFE);
        Self { caller: None, ticket: None, first: None, lives }
    }

    /// Returns the caller's name, which is taken from the first `random` number.
    pub(super) fn caller(&mut self, random: u128) -> u64 {
        let upper = u64::try_from(random >> 64).unwrap_or(u64::MAX);
        *self.caller.get_or_insert(upper)
    }

    /// Returns the owner id of the next attempt, made of a random one: its upper half names the caller.
    pub(super) fn owner(&mut self, random: u128) -> u128 {
        let lower = random & u128::from(u64::MAX);
        u128::from(self.caller(random)) << 64 | lower
    }

    pub(super) const fn lives(&self) -> Duration {
        self.lives
    }

    /// Takes the caller out of the queues. Returns its name, and the time limit for telling the nodes; `None` if it is in no queue.
    ///
    /// That time is at least the lifetime of its entries: a node that is away may run the caller's last request late.
    pub(super) fn leave(&mut self) -> Option<(u64, Duration)> {
        let (caller, _) = self.caller.zip(self.ticket.take())?;
        Some((caller, LONGEST_LIFE))
    }

    /// Returns the ticket with which the next attempt asks.
    pub(super) const fn ticket(&self) -> Option<u64> {
        self.ticket
    }

    /// Notes the end of an attempt. `is_held`: somebody else holds the lock, or another caller comes first. `began_ms`: the start
    /// of the call in the set's time, if that is known.
    pub(super) fn tried(
        &mut self,
        attempt: &Attempt,
        is_held: bool,
        began_ms: Option<u64>,
    ) -> PlaceNews {
        match (self.ticket, attempt.largest_ticket()) {
            (Some(_), _) if !attempt.is_queued() && Mechanism::TicketsNeedMajority.is_on() => {
                PlaceNews::GivesUpTicket
            }
            (Some(_), _) => {
                self.ticket = self.ticket.if_off(Mechanism::TicketsStay, None);
                PlaceNews::Same
            }
            (None, Some(largest)) if is_held => {
                let next = largest.saturating_add(1).max(began_ms.unwrap_or(0));
                let first = *self.first.get_or_insert(next);
                self.ticket = Some(first.if_off(Mechanism::TicketsAreKept, next));
                PlaceNews::HasTicket
            }
            (None, None) if is_held => PlaceNews::HasNoTicket,
            _ => PlaceNews::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::base::{Allowance, Time, without};
    use super::super::super::vote::{Ballot, Failure, Vote};
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    fn queued(ticket: u64) -> Vote {
        Vote::Queued { remaining: Some(TIMEOUT), ticket }
    }

    /// An attempt at three nodes; `None`: that node cannot be reached.
    fn attempt(votes: [Option<Vote>; 3]) -> Attempt {
        let (start, ttl) = (Time::default(), Duration::from_secs(3));
        let mut attempt = Attempt::new(3, start, start.after(TIMEOUT), ttl, Allowance::FOR_DRIFT);
        attempt.asks_for_queues();
        for (node, vote) in votes.into_iter().enumerate() {
            match vote {
                Some(vote) => attempt.vote(node, vote),
                None => attempt.fail(node, Failure::Unknown),
            }
        }
        attempt
    }

    fn place(ticket: Option<u64>) -> QueuePlace {
        QueuePlace { ticket, ..QueuePlace::new(TIMEOUT) }
    }

    #[test]
    fn a_ticket_is_larger_than_those_that_a_majority_knows() {
        let mut place = place(None);
        let votes = [Some(queued(4)), None, Some(queued(7))];
        assert_eq!(place.tried(&attempt(votes), true, None), PlaceNews::HasTicket);
        assert_eq!(place.ticket(), Some(8));
        let mut timed = super::tests::place(None);
        assert_eq!(timed.tried(&attempt(votes), true, Some(1_000)), PlaceNews::HasTicket);
        assert_eq!(timed.ticket(), Some(1_000), "the time of its call is larger");
        // A node that would have granted the lock has nobody in its queue.
        let mut place = super::tests::place(None);
        let votes = [Some(Vote::Granted(1)), None, Some(queued(0))];
        assert_eq!(place.tried(&attempt(votes), true, None), PlaceNews::HasTicket);
        assert_eq!(place.ticket(), Some(1));
    }

    #[test]
    fn too_few_nodes_give_no_ticket() {
        for votes in [
            [Some(queued(4)), None, None],
            [Some(queued(4)), Some(Vote::NotAdmitted), None],
            [Some(queued(4)), Some(Vote::Refused(None)), Some(Vote::NotAdmitted)],
        ] {
            let mut place = place(None);
            assert_eq!(place.tried(&attempt(votes), true, None), PlaceNews::HasNoTicket);
            assert_eq!((place.ticket(), place.leave()), (None, None));
        }
    }

    #[test]
    fn a_ticket_stays_the_same_until_too_few_nodes_know_of_it() {
        let mut place = place(Some(5));
        let owner = place.owner(u128::MAX);
        for votes in [
            [Some(queued(5)), Some(queued(5)), None],
            // Nodes that are not admitted grant nothing to anybody, and keep their queues.
            [Some(queued(5)), Some(Vote::NotAdmitted), Some(Vote::NotAdmitted)],
            [Some(queued(5)), Some(Vote::Granted(1)), None],
        ] {
            assert_eq!(place.tried(&attempt(votes), true, None), PlaceNews::Same, "{votes:?}");
        }
        let changed = without(&[Mechanism::TicketsStay], || {
            let mut place = super::tests::place(Some(5));
            for _ in 0..2 {
                place.tried(&attempt([Some(queued(5)); 3]), true, None);
            }
            place.ticket()
        });
        assert_eq!(changed, Some(6), "the mutation bites");
        // Others can reach the third node. They win with it and the first one, if nobody is ahead of them there.
        for cut_off in
            [[Some(queued(5)), None, None], [Some(queued(5)), Some(Vote::NotAdmitted), None]]
        {
            assert_eq!(place.tried(&attempt(cut_off), true, None), PlaceNews::GivesUpTicket);
        }
        let upper = u64::try_from(owner >> 64).expect("64 bits");
        assert_eq!(place.leave(), Some((upper, LONGEST_LIFE)));
        assert_eq!(place.leave(), None, "it has left");
    }

    #[test]
    fn a_caller_comes_back_with_the_ticket_that_it_had() {
        let comes_back = || {
            let mut place = place(None);
            place.caller(7 << 64);
            place.tried(&attempt([Some(queued(4)); 3]), true, Some(1_000));
            let cut_off = [Some(queued(1_000)), None, None];
            assert_eq!(
                place.tried(&attempt(cut_off), false, Some(1_000)),
                PlaceNews::GivesUpTicket
            );
            assert!(place.leave().is_some() && place.ticket().is_none());
            // Another caller came meanwhile, and finds the queues empty.
            let mut later = super::tests::place(None);
            later.tried(&attempt([Some(queued(0)); 3]), true, Some(2_000));
            place.tried(&attempt([Some(queued(2_000)); 3]), true, Some(1_000));
            place.ticket() < later.ticket()
        };
        assert!(comes_back());
        assert!(!without(&[Mechanism::TicketsAreKept], comes_back));
    }

    #[test]
    fn the_owners_of_one_caller_have_their_upper_half_in_common() {
        let mut place = place(None);
        let [one, two] = [1_u128 << 100 | 7, 3 << 90 | 9].map(|random| place.owner(random));
        assert_eq!(one >> 64, two >> 64);
        assert_eq!((one as u64, two as u64), (7, 9));
        assert_eq!(u128::from(place.caller(0)), one >> 64);
    }

    /// No live caller drops out of the queue because its next attempt takes long.
    #[test]
    fn an_entry_lives_for_twice_the_time_until_it_is_asked_for_again() {
        for timeout_ms in [200, 3_000, 20_000] {
            let timeout = Duration::from_millis(timeout_ms);
            let lives = QueuePlace::new(timeout).lives();
            assert!(lives >= (POLL + timeout) * 2, "{timeout:?}: {lives:?}");
        }
        assert_eq!(QueuePlace::new(Duration::from_secs(600)).lives(), LONGEST_LIFE);
    }
}
