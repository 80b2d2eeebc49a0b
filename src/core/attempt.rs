//! One attempt to take a lock: N nodes are asked once, under one owner id.

mod first;
mod number;
mod preferred;
mod slot;

use std::time::Duration;

use self::slot::{Answer, Slot};
use super::tally::{Tally, Verdict, votes_needed};
use super::{Allowance, Ballot, Failure, Heard, Late, Mechanism, Time, Via, validity};

pub(crate) use first::FirstWord;

/// A node's answer to `acquire`. The shape is the wire contract of every kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// The key is ours on that node; the node's number of this grant (0 where it counts none).
    Granted(u64),
    /// Somebody else's key is there, for that long still (`None`: it has no expiry).
    Refused(Option<Duration>),
    /// The node may have forgotten locks and grants nothing to newcomers for now.
    NotAdmitted,
    /// Under that name the node holds something that is no lock.
    WrongKind,
    /// What the node keeps as the name's number has no next one: it is the largest that there is.
    Spent,
    /// What the node keeps as the name's number is none.
    NoNumber,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// Ours until `valid_until`, under that number (0: the nodes count none).
    Won { valid_until: Time, number: u64 },
    /// A majority granted, and too few nodes know the lock's number.
    Unconfirmed,
    /// A majority granted, but so late that next to nothing of the lease is left.
    TooLate,
    /// Another holder is in the way; the shortest time that one of its keys has left, if known.
    Held { remaining: Option<Duration> },
    /// So many nodes hold something that is no lock that waiting cannot help.
    WrongKind,
    /// So many nodes have no number left for the name that waiting cannot help.
    Spent,
    /// The same, and what one of them keeps in its place is no number.
    NoNumber,
    /// Enough nodes answer, but too many of them admit nobody for now.
    NotAdmitted,
    /// So many nodes reject us for good that waiting cannot help.
    Rejected,
    /// Too few nodes answered to decide anything.
    Unreachable,
}

/// A node that has to be told to forget an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cleanup {
    pub(crate) node: usize,
    /// The node said that our key is there.
    pub(crate) granted: bool,
    /// A copy of the request is unanswered: it may still run at any later time, so the
    /// time at which its key ends is not known.
    pub(crate) in_flight: bool,
    /// Which requests those are.
    pub(crate) late: Late,
}

/// One attempt: counts the votes, says when the matter is settled, and knows at every moment which
/// nodes must be cleaned up if it is given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    started: Time,
    answer_by: Time,
    ttl: Duration,
    allowance: Allowance,
    slots: Vec<Slot>,
    tally: Tally,
    proposed: Option<u64>,
    /// The number that is being written back, and whether a majority has confirmed it.
    chosen: Option<u64>,
    confirmed: bool,
    expired: bool,
    closed: bool,
    /// The node that is asked alone, while the others are not asked.
    preferred: Option<usize>,
    /// The first node can be reached, if it has failed, and says that it can do nothing for now.
    first_says_no: bool,
}

impl Attempt {
    /// An attempt that began at `started`, *before* anything is sent. Nothing is sent for it any
    /// more from `answer_by` on: nobody would count the answer, and the key would only be in the
    /// way.
    pub(crate) fn new(
        nodes: usize,
        started: Time,
        answer_by: Time,
        ttl: Duration,
        allowance: Allowance,
    ) -> Self {
        Self {
            started,
            answer_by,
            ttl,
            allowance,
            slots: vec![Slot::new(); nodes],
            tally: Tally::new(nodes, votes_needed(nodes)),
            proposed: None,
            chosen: None,
            confirmed: false,
            expired: false,
            closed: false,
            preferred: None,
            first_says_no: false,
        }
    }

    /// The time for answers is over. Votes that come later are remembered for the clean-up, and do
    /// not count.
    pub(crate) fn expire(&mut self) {
        self.expired = true;
    }

    /// Gives the attempt up, or ends the lock that it won: nothing more is sent for it, and the
    /// nodes returned must get a release. The second call returns nothing.
    ///
    /// Every node to which a copy was sent is on the list unless it answered "no" to each: the
    /// silent ones too, since a timeout is not a refusal. `number` is that of the lock that was won;
    /// 0 if there is none.
    pub(crate) fn close(&mut self, number: u64) -> Vec<Cleanup> {
        if std::mem::replace(&mut self.closed, true) {
            return Vec::new();
        }
        let silent_too = Mechanism::ReleaseSilent.is_on();
        (0..self.slots.len())
            .zip(&self.slots)
            .filter_map(|(node, slot)| {
                let (granted, late) = (slot.ours, slot.late(number));
                let in_flight =
                    late.is_something() || slot.repairs > 0 || slot.earlier_copy_unknown;
                (granted || in_flight && silent_too).then_some(Cleanup {
                    node,
                    granted,
                    in_flight,
                    late,
                })
            })
            .collect()
    }

    /// The lock that was won is about to be extended on all nodes, and repaired on those that lost
    /// it: any of them may hold our key from now on.
    pub(crate) fn repairing(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.repairs += 1);
    }

    /// What nodes have said of our key in a round that [`repairing`](Self::repairing) announced; each
    /// node's answer comes once. A node that never answers keeps its release for good: nobody knows
    /// when that request will run.
    pub(crate) fn repaired(&mut self, news: &[Option<Heard>]) {
        for (slot, heard) in self.slots.iter_mut().zip(news) {
            match heard {
                None | Some(Heard::Nothing) => continue,
                Some(Heard::Ours) => slot.ours = true,
                Some(Heard::NotOurs | Heard::Free) => slot.ours = false,
                Some(Heard::NotAsked) => {}
            }
            slot.repairs -= 1;
        }
    }

    /// A round that [`repairing`](Self::repairing) announced is not looked at any more. For each node: the
    /// oldest connection over which a copy may still run, and the largest fence under which that sets
    /// the key again.
    pub(crate) fn repairs_left(&mut self, left: &[(Option<u64>, u64)]) {
        for (slot, (oldest, up_to)) in self.slots.iter_mut().zip(left) {
            if let Some(oldest) = *oldest {
                slot.extensions = Some(slot.extensions.map_or(oldest, |known| known.min(oldest)));
                slot.repair_up_to = slot.repair_up_to.max(*up_to);
            }
        }
    }

    /// The nodes on which a key without expiry is in the way.
    pub(crate) fn held_for_ever(&self) -> impl Iterator<Item = usize> {
        let is_endless = |slot: &Slot| slot.answer == Answer::Voted(Vote::Refused(None));
        (0..self.slots.len()).filter(move |node| is_endless(&self.slots[*node]))
    }

    pub(crate) const fn started(&self) -> Time {
        self.started
    }

    pub(crate) const fn answer_by(&self) -> Time {
        self.answer_by
    }

    pub(crate) fn some_are_silent(&self) -> bool {
        self.count(|answer| *answer == Answer::Open) > 0
    }

    /// Whether a node that was asked has not answered yet.
    pub(crate) fn awaits_answers(&self) -> bool {
        match self.preferred {
            Some(node) => self.slots[node].answer == Answer::Open,
            None => self.some_are_silent(),
        }
    }

    /// Whether a majority answered, be it with errors.
    pub(crate) fn majority_reached(&self) -> bool {
        let reached = self.count(|answer| {
            let answered = matches!(answer, Answer::Voted(_) | Answer::Failed(Failure::Error));
            answered || answer.is_rejected() || answer.is_not_admitted()
        });
        reached >= votes_needed(self.slots.len())
    }

    /// What came of it, judged at `now`. Meaningful once it is decided or its time is over.
    pub(crate) fn conclude(&self, now: Time) -> Conclusion {
        if self.tally.verdict() == Verdict::Won {
            return match self.conclude_won(now, self.number()) {
                Conclusion::Won { .. } if !self.known() => Conclusion::Unconfirmed,
                conclusion => conclusion,
            };
        }
        let needed = votes_needed(self.slots.len());
        let no_vote = if self.expired {
            self.count(|answer| answer.is_failure() || *answer == Answer::Open)
        } else {
            self.count(|answer| answer.is_failure())
        };
        let votes_of = |wanted: Vote| self.count(|answer| *answer == Answer::Voted(wanted));
        let refused = self.count(|answer| matches!(answer, Answer::Voted(Vote::Refused(_))));
        let (spent, no_number) = (votes_of(Vote::Spent), votes_of(Vote::NoNumber));
        let never = match (no_number, spent) {
            (1.., _) => Conclusion::NoNumber,
            (0, 1..) => Conclusion::Spent,
            (0, 0) => Conclusion::WrongKind,
        };
        let never_votes = votes_of(Vote::WrongKind) + spent + no_number;
        let rejected = self.count(|answer| answer.is_rejected());
        if self.slots.len() - rejected < needed {
            Conclusion::Rejected
        } else if self.slots.len() - no_vote < needed {
            Conclusion::Unreachable
        } else if self.slots.len() - never_votes < needed {
            never
        } else if refused > 0 {
            Conclusion::Held { remaining: self.shortest_remaining() }
        } else if self.count(|answer| answer.is_not_admitted()) > 0 {
            Conclusion::NotAdmitted
        } else if never_votes > 0 {
            never
        } else {
            Conclusion::Unreachable
        }
    }

    fn conclude_won(&self, now: Time, number: u64) -> Conclusion {
        let valid_until = self.allowance.valid_until(self.started, now, self.ttl);
        if valid_until.since(now) < validity::minimum(self.ttl) {
            return Conclusion::TooLate;
        }
        Conclusion::Won { valid_until, number }
    }

    fn shortest_remaining(&self) -> Option<Duration> {
        let remaining = self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::Refused(remaining)) => remaining,
            _ => None,
        });
        remaining.min()
    }

    fn count(&self, is: impl Fn(&Answer) -> bool) -> usize {
        self.slots.iter().filter(|slot| is(&slot.answer)).count()
    }
}

impl Ballot for Attempt {
    type Vote = Vote;

    fn sending(&mut self, node: usize, via: Via, now: Time) -> bool {
        let send = !self.closed && !self.expired && now < self.answer_by;
        if send {
            self.slots[node].copies.sending(via);
        }
        send
    }

    fn unsent(&mut self, node: usize) {
        self.slots[node].copies.unsent();
    }

    fn vote(&mut self, node: usize, vote: Vote) {
        let open = self.slots[node].answer == Answer::Open;
        self.slots[node].answer = Answer::Voted(vote);
        self.slots[node].copies.answered();
        self.slots[node].ours = matches!(vote, Vote::Granted(_));
        self.slots[node].earlier_copy_unknown =
            vote == Vote::NotAdmitted && self.slots[node].copies.sent() > 1;
        if open && !self.expired {
            match vote {
                Vote::Granted(_) => self.tally.yes(),
                Vote::Refused(_)
                | Vote::NotAdmitted
                | Vote::WrongKind
                | Vote::Spent
                | Vote::NoNumber => self.tally.no(),
            }
        }
    }

    fn fail(&mut self, node: usize, failure: Failure) {
        // Whether something was sent is known from `sending`.
        if self.slots[node].answer == Answer::Open {
            self.slots[node].answer = Answer::Failed(failure);
            if !self.expired {
                self.tally.no();
            }
        }
    }

    fn decided(&self) -> bool {
        if let Some(node) = self.preferred {
            return self.slots[node].answer != Answer::Open;
        }
        match self.tally.verdict() {
            Verdict::Won => {
                !self.is_far_above() || self.count(|answer| *answer == Answer::Open) == 0
            }
            Verdict::Pending => false,
            // Lost for certain. But whether to somebody else, or because there is no quorum, is known
            // only when as many nodes have voted, or so many have failed that they cannot.
            Verdict::Lost => {
                let needed = votes_needed(self.slots.len());
                let failed = self.count(|answer| answer.is_failure());
                let open = self.count(|answer| *answer == Answer::Open);
                let voted = self.slots.len() - failed - open;
                voted >= needed || self.slots.len() - failed < needed
            }
        }
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
