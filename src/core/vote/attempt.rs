//! One attempt to take a lock: N nodes are asked once, under one owner id.

pub(super) mod first;
mod permits;
mod preferred;
mod queues;

use std::time::Duration;

use super::super::base::{Allowance, Mechanism, Rule, Time, drift, validity};
use super::super::base::{Tally, Verdict, votes_needed};
use super::super::link::{Copies, Late, Repetition, Via};
use super::fencing::number_of;
use super::{Ballot, Failure, Heard, LARGEST_NUMBER, Proposal, Slots};

/// A number that is so far above the proposed one needs more than one node's word: ten seconds of the set's
/// time, of which numbers are made. Proposals of other clients are not that far apart.
const FAR_ABOVE: u64 = 1_000_000;

/// A node's answer to `acquire`. The shape is the wire contract of every kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// The key is ours on that node; the node's number of this grant (0 where it counts none).
    Granted(u64),
    /// Somebody else's key is there, for that long still (`None`: it has no expiry).
    Refused(Option<Duration>),
    /// The same, of a fair lock, or somebody is ahead of the caller for that long still. A caller with a ticket is in the
    /// node's queue. `ticket`: the largest one there.
    Queued { remaining: Option<Duration>, ticket: u64 },
    /// The same, of a semaphore: one of the permits that were asked for is somebody else's, and the first of all holds ends in
    /// that time. `free`: those that are nobody's there.
    Taken { remaining: Duration, free: Slots },
    /// The semaphore has another number of permits there, as long as it has holds. The first of them ends in that time.
    OtherPermits { permits: u64, remaining: Duration },
    /// The node may have forgotten locks and grants nothing to newcomers for now.
    NotAdmitted,
    /// Under that name the node holds something that is no lock.
    WrongKind,
    /// What the node keeps as the name's number has no next one: it is the largest that there is.
    Spent,
    /// What the node keeps as the name's number is none.
    NoNumber,
}

impl Vote {
    /// For how long the node says that the lock is held by somebody else, or is another one's to take.
    pub(super) const fn refusal(self) -> Option<Option<Duration>> {
        match self {
            Self::Refused(remaining) | Self::Queued { remaining, .. } => Some(remaining),
            Self::Taken { remaining, .. } | Self::OtherPermits { remaining, .. } => {
                Some(Some(remaining))
            }
            _ => None,
        }
    }
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
    /// The node said that our key is there: of several, all of them.
    pub(crate) granted: bool,
    /// A copy of the request is unanswered: it may still run at any later time, so the
    /// time at which its key ends is not known.
    pub(crate) in_flight: bool,
    /// Which requests those are.
    pub(crate) late: Late,
}

/// How the nodes keep a lock that its holder has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) until: Time,
    /// By when a node has to begin: while the lock would have been valid. A node that is told later does not know whether
    /// somebody has taken the lock by force meanwhile, for its tombstones may have ended.
    pub(crate) by: Time,
}

/// How a release is sent to a node, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct ReleasePlan {
    /// The longest time that our keys live on.
    pub(crate) longest_ttl: Duration,
    /// The number to which it raises the lock's fence.
    pub(crate) raise_to: Option<u64>,
    /// How the node keeps the lock all the same.
    pub(crate) kept: Option<Kept>,
    /// Until when it is kept for a node that is down; `None`: until it is answered.
    pub(crate) until: Option<Time>,
    /// How it is repeated, if something may follow it.
    pub(crate) repetition: Option<Repetition>,
}

impl Cleanup {
    /// The clean-ups of a lock that is `kept` by the nodes: those of `cleanups`, and one for each other node. A
    /// node without a key of ours keeps the lock as well, if it is free there. So one more of them may forget it. Where
    /// nothing is to be cleaned up, the lock has been given back before.
    pub(crate) fn with_kept(nodes: usize, cleanups: Vec<Self>, kept: Option<Kept>) -> Vec<Self> {
        if kept.is_none() || cleanups.is_empty() {
            return cleanups;
        }
        let on = |node| {
            let late = Late::default();
            let other = Self { node, granted: false, in_flight: false, late };
            cleanups.iter().find(|cleanup| cleanup.node == node).copied().unwrap_or(other)
        };
        (0..nodes).map(on).collect()
    }

    /// The plan for a release at `now` of keys that live for `longest_ttl` at most. The node keeps the lock as `kept`
    /// says.
    pub(crate) fn plan(&self, longest_ttl: Duration, kept: Option<Kept>, now: Time) -> ReleasePlan {
        // On the node's clock, which may be slower than ours.
        let gone_at = now.after(longest_ttl).after(drift(longest_ttl));
        ReleasePlan {
            longest_ttl,
            raise_to: self.late.raises_to,
            kept,
            until: (!self.in_flight).then_some(gone_at),
            repetition: self.late.is_something().then(|| Repetition::new(self.late, gone_at)),
        }
    }
}

/// One attempt: counts the votes, says when the matter is settled, and knows at every moment which
/// nodes must be cleaned up if it is given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    started: Time,
    answer_by: Time,
    ttl: Duration,
    allowance: Allowance,
    slots: Vec<NodeVote>,
    tally: Tally,
    proposed: Option<Proposal>,
    /// The number that is being written back, and whether a majority has confirmed it.
    chosen: Option<u64>,
    confirmed: bool,
    expired: bool,
    closed: bool,
    /// The node that is asked alone, while the others are not asked.
    preferred: Option<usize>,
    /// The first node can be reached, if it has failed, and says that it can do nothing for now.
    first_says_no: bool,
    /// The lock is a fair one, and the caller waits.
    asks_for_queues: bool,
}

/// What a node has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Open,
    Voted(Vote),
    Failed(Failure),
}

impl Answer {
    /// The node says nothing of the lock: it cannot, or need not any more.
    const fn is_failure(self) -> bool {
        matches!(self, Self::Failed(failure) if !matches!(failure, Failure::NotAdmitted))
    }

    /// The node rejects us for good.
    const fn is_rejected(self) -> bool {
        matches!(self, Self::Failed(Failure::Rejected))
    }

    /// For how long the node says that somebody else is in the way, if it says so.
    const fn refusal(self) -> Option<Option<Duration>> {
        match self {
            Self::Voted(vote) => vote.refusal(),
            _ => None,
        }
    }

    /// The node grants nothing to newcomers, by its own word or by what is known of it.
    const fn is_not_admitted(self) -> bool {
        matches!(self, Self::Voted(Vote::NotAdmitted) | Self::Failed(Failure::NotAdmitted))
    }
}

/// What an attempt knows of one node.
#[derive(Clone, Copy, Debug)]
struct NodeVote {
    answer: Answer,
    copies: Copies,
    /// The node said that our key is there, and has not said otherwise since.
    ours: bool,
    /// It said of our key, or of some of several, that it is not there. It does not count as ours, and gets a release all
    /// the same: some keys may be left, or a late copy may have set the key after it had been taken by force.
    denied: bool,
    /// It is not known whether an earlier copy was granted. A node that does not admit us does not check
    /// for our key, and one that refuses a lock with several names may have some of our keys. So an answer
    /// to a later copy does not tell.
    earlier_copy_unknown: bool,
    /// Repairs of the lock, once it was held, that the node has not answered.
    repairs: u32,
    /// The oldest connection over which an extension of the lock was written that may still run, and the
    /// largest fence under which one sets the key again.
    extensions: Option<u64>,
    repair_up_to: u64,
}

impl NodeVote {
    fn new() -> Self {
        Self {
            answer: Answer::Open,
            copies: Copies::default(),
            ours: false,
            denied: false,
            earlier_copy_unknown: false,
            repairs: 0,
            extensions: None,
            repair_up_to: 0,
        }
    }

    /// What may still run on the node, once nothing more is sent for the lock of that number.
    fn late(&self, number: u64) -> Late {
        let raised = number.max(self.repair_up_to) + 1;
        let raises =
            number > 0 && raised <= LARGEST_NUMBER && Mechanism::ReleasesRaiseTheFence.is_on();
        Late {
            acquires: self.copies.unanswered(),
            extensions: self.extensions,
            raises_to: self.extensions.filter(|_| raises).map(|_| raised),
        }
    }
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
            slots: vec![NodeVote::new(); nodes],
            tally: Tally::new(nodes, votes_needed(nodes)),
            proposed: None,
            chosen: None,
            confirmed: false,
            expired: false,
            closed: false,
            preferred: None,
            first_says_no: false,
            asks_for_queues: false,
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
    /// A grant that comes later still needs no further release: its node is on the list, as a silent one.
    /// Every node to which a copy was sent is on the list unless it answered "no" to each: the
    /// silent ones too, since a timeout is not a refusal. `number` is that of the lock that was won;
    /// 0 if there is none.
    pub(crate) fn close(&mut self, number: u64) -> Vec<Cleanup> {
        if std::mem::replace(&mut self.closed, true) {
            return Vec::new();
        }
        (0..self.slots.len())
            .zip(&self.slots)
            .filter_map(|(node, slot)| {
                let (granted, late) = (slot.ours, slot.late(number));
                let in_flight =
                    late.is_something() || slot.repairs > 0 || slot.earlier_copy_unknown;
                let silent = in_flight && Mechanism::ReleaseSilent.is_on();
                let denied = slot.denied && Mechanism::ReleaseDenied.is_on();
                (granted || denied || silent).then_some(Cleanup { node, granted, in_flight, late })
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
                Some(Heard::Ours) => (slot.ours, slot.denied) = (true, false),
                Some(Heard::NotOurs | Heard::InPart) => (slot.ours, slot.denied) = (false, true),
                Some(Heard::Free) => (slot.ours, slot.denied) = (false, false),
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
        let is_endless = |slot: &NodeVote| slot.answer.refusal() == Some(None);
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
        let refused = self.count(|answer| answer.refusal().is_some());
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
        self.slots.iter().filter_map(|slot| slot.answer.refusal().flatten()).min()
    }

    fn count(&self, is: impl Fn(&Answer) -> bool) -> usize {
        self.slots.iter().filter(|slot| is(&slot.answer)).count()
    }
}

/// The number of the lock, as the nodes that grant it have answered.
impl Attempt {
    /// That number is proposed to the nodes.
    pub(crate) const fn proposes(&mut self, proposal: Proposal) {
        self.proposed = Some(proposal);
    }

    /// The number that has to be written back before the lock may be used: it was won, and too few nodes
    /// know its number.
    pub(crate) fn number_to_write_back(&mut self) -> Option<u64> {
        if self.tally.verdict() != Verdict::Won || self.known() || self.is_far_above() {
            return None;
        }
        let number = self.number();
        self.chosen = Some(number);
        Some(number)
    }

    /// A majority has confirmed what [`number_to_write_back`](Self::number_to_write_back) named.
    pub(crate) const fn written_back(&mut self) {
        self.confirmed = true;
    }

    /// The largest number that so many nodes have answered, or a larger one, that a majority is not
    /// without one of them; 0 if they are too few. What fewer of them say may be of a single server that is
    /// out of its mind: proposed from then on, it would use up the numbers that there are.
    pub(crate) fn number_of_several(&self) -> u64 {
        let mut numbers: Vec<_> = self.numbers().collect();
        numbers.sort_unstable();
        let others = self.slots.len() - votes_needed(self.slots.len());
        numbers.into_iter().rev().nth(others).unwrap_or(0)
    }

    /// The lock's number. Once it is being written back it stays what it is.
    fn number(&self) -> u64 {
        let needed = votes_needed(self.slots.len());
        self.chosen.unwrap_or_else(|| number_of(self.numbers(), needed))
    }

    /// Whether a majority of the nodes knows the lock's number while our keys are there.
    fn known(&self) -> bool {
        let number = self.number();
        let known_by = self.numbers().filter(|known| *known >= number).count();
        let known = self.confirmed || known_by >= votes_needed(self.slots.len());
        known.if_off(Mechanism::FenceWriteBack, true)
    }

    /// Whether the lock's number would be so far above what was proposed, or several have said, by the word of one,
    /// that the other nodes are to be heard first. It is never written back: that would raise the
    /// numbers of nodes that know better.
    ///
    /// A number that the clocks of several nodes have reached is not far. The set's time of a client may be years
    /// behind, if the clocks of a wrong minority came first. It would never believe a node that knows a number of today.
    fn is_far_above(&self) -> bool {
        let Some(Proposal { number, reached }) = self.proposed else { return false };
        let reached = reached.if_off(Mechanism::ReachedNumbersAreNear, 0);
        let highest = number.max(reached).max(self.number_of_several()).saturating_add(FAR_ABOVE);
        self.number() > highest && !self.known() && Mechanism::FarNumbersNeedSeveral.is_on()
    }

    /// What the nodes that granted have answered.
    fn numbers(&self) -> impl Iterator<Item = u64> + Clone {
        self.slots.iter().filter_map(|slot| match slot.answer {
            Answer::Voted(Vote::Granted(number)) => Some(number),
            _ => None,
        })
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
            !self.slots[node].ours && self.slots[node].copies.sent() > 1;
        if open && !self.expired {
            match vote {
                Vote::Granted(_) => self.tally.yes(),
                Vote::Refused(_)
                | Vote::Queued { .. }
                | Vote::Taken { .. }
                | Vote::OtherPermits { .. }
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
                // Nodes in quarantine vote, and have no queues.
                let hears_more = self.asks_for_queues && self.largest_ticket().is_none();
                voted >= needed && !(hears_more && open > 0) || self.slots.len() - failed < needed
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/attempt.rs"]
mod tests;
