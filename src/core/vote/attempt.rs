//! One attempt to take a lock: N nodes are asked once, under one owner id.

pub(super) mod first;
mod permits;
mod preferred;
mod queues;

use std::time::Duration;

use super::super::base::{Allowance, Mechanism, Rule, Time, drift, validity};
use super::super::base::{Tally, Verdict, votes_needed};
use super::super::link::{self, Copies, Late, Repetition, Via};
use super::fencing::number_of;
use super::{Ballot, Failure, Heard, LARGEST_NUMBER, Proposal, Slots};

/// Distance above the proposed number from which one node's answer is not enough: ten seconds of the set's time, of
/// which numbers are made. Proposals of other clients do not differ by so much.
const FAR_ABOVE: u64 = 1_000_000;

/// A node's answer to `acquire`. Its shape is the wire contract of every kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    /// The key is ours on that node; the node's number of this grant (0 if the node counts none).
    Granted(u64),
    /// Another owner's key is there, with that time left (`None`: it has no expiry).
    Refused(Option<Duration>),
    /// The same for a fair lock, or another caller is ahead for that time. A caller with a ticket is in the node's
    /// queue. `ticket`: the largest one in that queue.
    Queued { remaining: Option<Duration>, ticket: u64 },
    /// The same for a semaphore: another owner has one of the permits that were asked for. The first of all holds ends
    /// after `remaining`. `free`: the permits that have no owner there.
    Taken { remaining: Duration, free: Slots },
    /// The semaphore has another number of permits on the node, until its holds end. The first of them ends after
    /// `remaining`.
    OtherPermits { permits: u64, remaining: Duration },
    /// The node may have forgotten locks and grants nothing to newcomers for now.
    NotAdmitted,
    /// The node keeps something other than a lock under that name.
    WrongKind,
    /// The node's number of the name is the largest possible one, so there is no next one.
    Spent,
    /// The node keeps a value as the name's number that is not a number.
    NoNumber,
}

impl Vote {
    /// Returns the time for which the node says that another owner holds the lock, or is ahead of the caller.
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

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// The lock is ours until `valid_until`, under that number (0: the nodes count none).
    Won { valid_until: Time, number: u64 },
    /// A majority granted, and too few nodes know the lock's number.
    Unconfirmed,
    /// A majority granted, but so late that next to nothing of the lease is left.
    TooLate,
    /// Another owner holds the lock, or is ahead; the shortest time that one of its keys has left, if known.
    Held { remaining: Option<Duration> },
    /// So many nodes hold something other than a lock that waiting cannot help.
    WrongKind,
    /// So many nodes have no number left for the name that waiting cannot help.
    Spent,
    /// The same, and one of these nodes keeps a value that is not a number.
    NoNumber,
    /// Enough nodes answer, but too many of them grant nothing to newcomers for now.
    NotAdmitted,
    /// So many nodes reject us for good that waiting cannot help.
    Rejected,
    /// Too few nodes answered to decide anything.
    Unreachable,
}

/// A node that must be told to forget an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cleanup {
    pub(crate) node: usize,
    /// The node said that our key is there; for a lock with several names, all keys.
    pub(crate) granted: bool,
    /// A copy of the request is unanswered. It may run at any later time, so the end of its key is not known.
    pub(crate) in_flight: bool,
    /// The requests that may still run.
    pub(crate) late: Late,
}

/// The terms on which the nodes keep a lock that its holder has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) until: Time,
    /// Latest time at which a node may begin to keep the lock: the end of the lock's validity. A node that is told
    /// later does not know whether somebody has taken the lock by force meanwhile, since its tombstones may have ended.
    pub(crate) by: Time,
}

/// The form in which a release is sent to a node, and the time for which it is kept.
#[derive(Clone, Debug)]
pub(crate) struct ReleasePlan {
    /// The longest time for which our keys may live.
    pub(crate) longest_ttl: Duration,
    /// The number to which the release raises the lock's fence.
    pub(crate) raise_to: Option<u64>,
    /// The terms on which the node keeps the lock despite the release.
    pub(crate) kept: Option<Kept>,
    /// End of the time for which the release is kept for a node that is down; `None`: it is kept until it is answered.
    pub(crate) until: Option<Time>,
    /// The repetition of the release, if a late request may run after it.
    pub(crate) repetition: Option<Repetition>,
}

impl ReleasePlan {
    /// Returns the terms of the release for the connection to the node.
    pub(crate) fn terms(&self) -> link::Release {
        link::Release::of_key(self.until, self.repetition)
    }
}

impl Cleanup {
    /// The clean-ups of a lock that the nodes keep (`kept`): those of `cleanups`, and one for each other node. A node
    /// without a key of ours also keeps the lock, if it is free there. So one more node may forget the lock. If
    /// `cleanups` is empty, the lock has been given back before.
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

    /// The plan for a release at `now` of keys that live for `longest_ttl` at most. The node keeps the lock on the
    /// terms of `kept`.
    pub(crate) fn plan(&self, longest_ttl: Duration, kept: Option<Kept>, now: Time) -> ReleasePlan {
        // The time runs on the node's clock, which may be slower than ours.
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

/// One attempt: counts the votes, says when they settle it, and knows at every moment which nodes need a clean-up if it
/// is given up.
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
    /// The node that is asked alone, until the others are asked as well.
    preferred: Option<usize>,
    /// True if the first node, should it have failed, can be reached and says that it can do nothing for now.
    first_says_no: bool,
    /// True if the lock is a fair one, and the caller waits.
    asks_for_queues: bool,
}

/// The state of a node's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Open,
    Voted(Vote),
    Failed(Failure),
}

impl Answer {
    /// Returns true if the node gives no vote on the lock: it cannot, or is not asked any more.
    const fn is_failure(self) -> bool {
        matches!(self, Self::Failed(failure) if !matches!(failure, Failure::NotAdmitted))
    }

    /// Returns true if the node rejects us for good.
    const fn is_rejected(self) -> bool {
        matches!(self, Self::Failed(Failure::Rejected))
    }

    /// Returns the time for which the node says that another owner holds the lock, or is ahead of the caller, if it
    /// says so.
    const fn refusal(self) -> Option<Option<Duration>> {
        match self {
            Self::Voted(vote) => vote.refusal(),
            _ => None,
        }
    }

    /// Returns true if the node grants nothing to newcomers, by its own answer or by the client's knowledge of it.
    const fn is_not_admitted(self) -> bool {
        matches!(self, Self::Voted(Vote::NotAdmitted) | Self::Failed(Failure::NotAdmitted))
    }
}

/// The knowledge of an attempt about one node.
#[derive(Clone, Copy, Debug)]
struct NodeVote {
    answer: Answer,
    copies: Copies,
    /// True if the node said that our key is there, and has not said otherwise since.
    ours: bool,
    /// True if the node said that our key, or one of several, is not there. The node does not count as ours, and still
    /// gets a release: some keys may be left, or a late copy may have set the key after the lock was taken by force.
    denied: bool,
    /// True if an earlier copy may have been granted. A node that does not admit us does not check for our key. A node
    /// that refuses a lock with several names may have some of our keys. So the answer to a later copy does not settle
    /// it.
    earlier_copy_unknown: bool,
    /// Number of repairs of the lock, once it was held, that the node has not answered.
    repairs: u32,
    /// The oldest connection over which a copy of an extension may still run, and the largest fence under which such a
    /// copy sets the key again.
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

    /// The requests that may still run on the node, once nothing more is sent for the lock with that number.
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
    /// An attempt that began at `started`, *before* anything is sent. From `answer_by` on, nothing more is sent for it:
    /// nobody would count the answer, and the key would only block other callers.
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

    /// Ends the time for answers. Later votes are remembered for the clean-up, and do not count.
    pub(crate) fn expire(&mut self) {
        self.expired = true;
    }

    /// Gives the attempt up, or ends the lock that it won. Nothing more is sent for it, and the returned nodes must get
    /// a release. The second call returns nothing.
    ///
    /// The list has every node to which a copy was sent, unless the node answered "no" to each copy. It has the silent
    /// nodes too, since a timeout is not a refusal. So a grant that comes later needs no further release. `number` is
    /// that of the lock that was won; 0 if there is none.
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

    /// Announces that the held lock is about to be extended on all nodes, and repaired on those that lost it. Any of
    /// them may hold our key from now on.
    pub(crate) fn repairing(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.repairs += 1);
    }

    /// Notes the nodes' answers about our key in a round that [`repairing`](Self::repairing) announced; each answer
    /// comes once. The release for a node that never answers is kept for good: nobody knows when that request will run.
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

    /// Ends a round that [`repairing`](Self::repairing) announced; its further answers are ignored. `left` has, for
    /// each node, the oldest connection over which a copy may still run, and the largest fence under which that copy
    /// sets the key again.
    pub(crate) fn repairs_left(&mut self, left: &[(Option<u64>, u64)]) {
        for (slot, (oldest, up_to)) in self.slots.iter_mut().zip(left) {
            if let Some(oldest) = *oldest {
                slot.extensions = Some(slot.extensions.map_or(oldest, |known| known.min(oldest)));
                slot.repair_up_to = slot.repair_up_to.max(*up_to);
            }
        }
    }

    /// The nodes that refuse the lock because of a key without expiry.
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

    /// Returns true if a node that was asked has not answered yet.
    pub(crate) fn awaits_answers(&self) -> bool {
        match self.preferred {
            Some(node) => self.slots[node].answer == Answer::Open,
            None => self.some_are_silent(),
        }
    }

    /// Returns true if a majority answered, even if with errors.
    pub(crate) fn majority_reached(&self) -> bool {
        let reached = self.count(|answer| {
            let answered = matches!(answer, Answer::Voted(_) | Answer::Failed(Failure::Error));
            answered || answer.is_rejected() || answer.is_not_admitted()
        });
        reached >= votes_needed(self.slots.len())
    }

    /// The conclusion at `now`. It is meaningful once the attempt is decided or its time is over.
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

/// The number of the lock, from the answers of the nodes that grant it.
impl Attempt {
    /// Sets the number that is proposed to the nodes.
    pub(crate) const fn proposes(&mut self, proposal: Proposal) {
        self.proposed = Some(proposal);
    }

    /// The number that must be written back before the lock may be used: the lock was won, and too few nodes know its
    /// number.
    pub(crate) fn number_to_write_back(&mut self) -> Option<u64> {
        if self.tally.verdict() != Verdict::Won || self.known() || self.is_far_above() {
            return None;
        }
        let number = self.number();
        self.chosen = Some(number);
        Some(number)
    }

    /// A majority has confirmed the number that [`number_to_write_back`](Self::number_to_write_back) returned.
    pub(crate) const fn written_back(&mut self) {
        self.confirmed = true;
    }

    /// The largest number that enough nodes have answered or exceeded: so many that every majority has one of them. 0
    /// if too few nodes answered. A number that fewer nodes answer may come from a single faulty server. If it were
    /// proposed from then on, it would use up all numbers.
    pub(crate) fn number_of_several(&self) -> u64 {
        let mut numbers: Vec<_> = self.numbers().collect();
        numbers.sort_unstable();
        let others = self.slots.len() - votes_needed(self.slots.len());
        numbers.into_iter().rev().nth(others).unwrap_or(0)
    }

    /// The lock's number. It is fixed once it is being written back.
    fn number(&self) -> u64 {
        let needed = votes_needed(self.slots.len());
        self.chosen.unwrap_or_else(|| number_of(self.numbers(), needed))
    }

    /// Returns true if a majority of the nodes knows the lock's number while our keys are there.
    fn known(&self) -> bool {
        let number = self.number();
        let known_by = self.numbers().filter(|known| *known >= number).count();
        let known = self.confirmed || known_by >= votes_needed(self.slots.len());
        known.if_off(Mechanism::FenceWriteBack, true)
    }

    /// Returns true if the lock's number is far above the proposal and above the numbers of several nodes, and too few
    /// nodes know it. Then the other nodes are heard first. Such a number is never written back: that would raise the
    /// numbers of nodes that know better.
    ///
    /// A number that the clocks of several nodes have reached is not far. A client may see the set's time as years
    /// behind, if the clocks of a wrong minority came first. Without this rule, the client would never believe a node
    /// that knows a number of today.
    fn is_far_above(&self) -> bool {
        let Some(Proposal { number, reached }) = self.proposed else { return false };
        let reached = reached.if_off(Mechanism::ReachedNumbersAreNear, 0);
        let highest = number.max(reached).max(self.number_of_several()).saturating_add(FAR_ABOVE);
        self.number() > highest && !self.known() && Mechanism::FarNumbersNeedSeveral.is_on()
    }

    /// The numbers in the answers of the nodes that granted the lock.
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
        // `sending` has noted whether something was sent.
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
            // Lost for certain. The reason is another holder, or no quorum. It is known only when a majority has voted,
            // or so many nodes have failed that no majority can vote.
            Verdict::Lost => {
                let needed = votes_needed(self.slots.len());
                let failed = self.count(|answer| answer.is_failure());
                let open = self.count(|answer| *answer == Answer::Open);
                let voted = self.slots.len() - failed - open;
                // Nodes in quarantine count as voters, and report no queues.
                let hears_more = self.asks_for_queues && self.largest_ticket().is_none();
                voted >= needed && !(hears_more && open > 0) || self.slots.len() - failed < needed
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/attempt.rs"]
mod tests;
