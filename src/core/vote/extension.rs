//! One round of prolonging a lock that is held, and of repairing it on nodes that lost it.

use std::time::Duration;

use super::super::base::{Allowance, Basis, Mechanism, Rule, Time};
use super::super::base::{Tally, Verdict, votes_needed};
use super::super::link::{Copies, Via};
use super::{Ballot, Failure};

/// The result of asking the nodes to let the keys live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Enough nodes confirmed, which makes it valid until then, on that basis.
    Until(Time, Basis),
    /// Too few nodes confirmed in time.
    Unknown,
    /// So many nodes said that our key is gone that no majority can have it.
    Gone,
}

/// A node's answer to `extend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionVote {
    /// Our key was there, and lives for at least the time asked for.
    Extended,
    /// The key was free, and is ours again.
    Repaired,
    /// The same, on a node that has forgotten what it knew, and grants nothing to newcomers.
    RepairedInQuarantine,
    /// The key is free.
    Free,
    /// The key is free, and the node knows that number. It is above the largest number that the repair
    /// allows, so another client has been granted the lock there since.
    FreeAbove(u64),
    /// The key is somebody else's.
    NotOurs,
    /// Some of our keys are there, of a lock with several names, and the others cannot be set. The largest number that
    /// the node knows for these, if nothing else is in the way; 0: one of them is somebody else's, or it is too late.
    InPart(u64),
}

/// What a node has said of our key in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It is there.
    Ours,
    /// Somebody else's is there.
    NotOurs,
    /// Some of ours are there, and some are not. The node counts as not ours, and has to be told to forget them.
    InPart,
    /// None is there.
    Free,
    /// Nothing was sent to the node.
    NotAsked,
    /// Nothing: the request may have run, or may run later.
    Nothing,
}

impl Heard {
    /// Whether somebody else may have the lock there, or one of its names.
    fn is_not_ours(self) -> bool {
        matches!(self, Self::NotOurs | Self::InPart)
    }
}

/// How often a node is tried again, in one renewal, that contenders keep taking. A contender has it for
/// a round trip, and then not for as long as it waits; so few tries leave a node out.
const MORE_REPAIRS: u32 = 5;

/// One round of `extend`. It counts only if a majority confirmed *this* round by the presence of our key.
/// Its validity counts from before its first send. The answers to an earlier round say nothing about this
/// one.
///
/// A node that was repaired in this round does not count for it: its key was gone, and somebody else
/// may have had it in between. It counts from the next round on. Only a node in quarantine counts at
/// once: it has forgotten our key, as a restart does, and has granted it to nobody since. Otherwise a
/// majority that restarts within the time between two renewals would end the lock, which is kept from
/// everybody else all the same.
///
/// A node whose clock has just moved says nothing against the holder either. Our key may have ended there
/// before its time, and what it grants does not count for anybody (`Admission::read`). So it is as if it
/// had not answered: the validity decides by time, and the next round repairs the node, by its new clock.
/// That lasts until our key is found there again, for the clock may be where it has to be by then.
#[derive(Debug)]
pub(crate) struct Extension {
    started: Time,
    answer_by: Time,
    ttl: Duration,
    allowance: Allowance,
    basis: Basis,
    present: Tally,
    missing: Tally,
    heard: Vec<Heard>,
    told: Vec<bool>,
    copies: Vec<Copies>,
    /// The nodes that have neither answered nor failed.
    silent: Vec<bool>,
    /// Where this round repairs although the node knows a number above ours: up to which.
    up_to: Vec<u64>,
    /// How many nodes have our key, and may have got it in this very round; or are without it, and their
    /// clocks have moved.
    doubtful: usize,
    /// The nodes whose clocks have moved, now or when they lost our key.
    moved: Vec<bool>,
    /// Those that were without our key in this round, and whether for that reason; `Some(false)` if it was
    /// there.
    gone_by_the_clock: Vec<Option<bool>>,
    /// The numbers of the nodes that are free, and know a number above ours.
    above: Vec<Option<u64>>,
    /// The end of validity of the round, this one or one before, that a majority confirmed by presence.
    sound_until: Option<Time>,
    /// How many further rounds may go back to this one.
    tries_left: u32,
    /// The first node had lost our key; or it had it all the time.
    first_repaired: bool,
    first_kept: bool,
    first_heard: bool,
    closed: bool,
}

impl Extension {
    pub(crate) fn new(
        nodes: usize,
        started: Time,
        answer_by: Time,
        ttl: Duration,
        basis: Basis,
        allowance: Allowance,
    ) -> Self {
        let needed = votes_needed(nodes);
        Self {
            started,
            answer_by,
            ttl,
            allowance,
            basis,
            present: Tally::new(nodes, needed),
            // So many nodes without our key that no majority can have it.
            missing: Tally::new(nodes, nodes + 1 - needed),
            heard: vec![Heard::Nothing; nodes],
            told: vec![false; nodes],
            copies: vec![Copies::default(); nodes],
            silent: vec![true; nodes],
            up_to: vec![0; nodes],
            doubtful: 0,
            moved: vec![false; nodes],
            gone_by_the_clock: vec![None; nodes],
            above: vec![None; nodes],
            sound_until: None,
            tries_left: MORE_REPAIRS,
            first_repaired: false,
            first_kept: false,
            first_heard: false,
            closed: false,
        }
    }

    /// The lock is about to be given back: nothing more is sent for this round. A copy that a node did
    /// not run at once, and that is sent again behind the release, would set the key again.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Another try to repair the nodes that contenders have, or had: another round, for those nodes
    /// alone, each up to the number that it was free with. Only if a majority has confirmed this round,
    /// or the one that it goes back to, by the presence of our key.
    ///
    /// Such a node has granted the lock to somebody who had no majority, as we had it: since that round
    /// began, and as long as it is valid. Contenders do so all the time, and if their numbers kept us
    /// out, a lock that many want could never be repaired. A contender that is granted it there after this
    /// answer raises the number again, and this repair is refused; then there is another one.
    ///
    /// Nodes whose clocks have moved count here: nobody's majority has any of them, nor of those that are
    /// present, so there is none without them.
    pub(crate) fn repair_again(
        &mut self,
        now: Time,
        answer_by: Time,
    ) -> Option<(Self, Vec<Option<u64>>)> {
        let by_the_clock =
            self.gone_by_the_clock.iter().filter(|gone| **gone == Some(true)).count();
        if self.present.wins_with(by_the_clock) {
            self.sound_until = Some(self.valid_at_most());
        }
        let sound = self.sound_until.is_some_and(|until| now < until);
        let tries_left = self.tries_left.if_off(Mechanism::RepairAmongContenders, 0);
        if !sound || tries_left == 0 {
            return None;
        }
        let nodes = self.heard.len();
        let above = std::mem::replace(&mut self.above, vec![None; nodes]);
        let up_to: Vec<_> = above
            .into_iter()
            .zip(&self.heard)
            .map(|(above, heard)| above.or(heard.is_not_ours().then_some(0)))
            .collect();
        if up_to.iter().all(Option::is_none) {
            return None;
        }
        let again = Self::new(nodes, now, answer_by, self.ttl, self.basis, self.allowance);
        let mut again = Self {
            sound_until: self.sound_until,
            tries_left: self.tries_left - 1,
            up_to: up_to.iter().map(|up_to| up_to.unwrap_or(0)).collect(),
            ..again
        };
        for (node, _) in up_to.iter().enumerate().filter(|(_, up_to)| up_to.is_none()) {
            again.fail(node, Failure::NotSent);
        }
        Some((again, up_to))
    }

    /// The end of validity that this round can lead to, whatever the nodes answer.
    pub(crate) fn valid_at_most(&self) -> Time {
        self.allowance.valid_until(self.started, self.started, self.ttl)
    }

    /// What the round says, as far as it has been heard.
    pub(crate) fn result(&self, now: Time) -> Renewed {
        let until = self.allowance.valid_until(self.started, now, self.ttl);
        if self.present.verdict() == Verdict::Won {
            return Renewed::Until(until, Basis::Majority);
        }
        match self.basis {
            Basis::Majority if self.missing.verdict() == Verdict::Won => Renewed::Gone,
            // Silence is never counted as "gone".
            Basis::Majority => Renewed::Unknown,
            Basis::FirstNode => self.result_on_first(until),
        }
    }

    /// The lock rests on the first node, and on nobody else having it elsewhere. The other nodes are
    /// repaired meanwhile; once a majority of them confirms, it rests on that.
    fn result_on_first(&self, until: Time) -> Renewed {
        let counted = self.heard.iter().zip(&self.moved).filter(|(_, moved)| !**moved);
        let others = counted.filter(|(heard, _)| heard.is_not_ours()).count();
        match self.heard[0] {
            // A clock that has moved is no excuse for that. Ours may have stood still, and there is no other
            // clock to tell: then somebody else was granted the lock there rightly.
            Heard::NotOurs | Heard::InPart => Renewed::Gone,
            _ if others == 0 && self.moved[0] && !self.first_kept => Renewed::Unknown,
            Heard::Free => Renewed::Gone,
            _ if others > 0 || self.first_repaired => Renewed::Gone,
            Heard::Ours if self.sent_twice(0) => Renewed::Unknown,
            Heard::Ours => Renewed::Until(until, Basis::FirstNode),
            Heard::NotAsked | Heard::Nothing => Renewed::Unknown,
        }
    }

    pub(crate) const fn started(&self) -> Time {
        self.started
    }

    pub(crate) const fn answer_by(&self) -> Time {
        self.answer_by
    }

    /// How long the keys shall live.
    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Whether the round was not confirmed because requests were sent twice, or clocks have moved. Another
    /// round may be confirmed: its connections exist by now, and it goes by the clocks as they are now.
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        self.doubtful > 0 && self.result(now) == Renewed::Unknown
    }

    /// What each node has said of our key since this was last asked.
    pub(crate) fn news(&mut self) -> Vec<Option<Heard>> {
        let told = self.heard.iter().zip(&mut self.told);
        let news = told.map(|(heard, told)| {
            let new =
                *heard != Heard::Nothing && !std::mem::replace(told, *heard != Heard::Nothing);
            new.then_some(*heard)
        });
        news.collect()
    }

    /// The nodes in `moved` had lost our key when their clocks moved, in an earlier round, which excuses them
    /// until then.
    pub(crate) fn moved_before(&mut self, moved: &[Option<Time>]) {
        for (now, before) in self.moved.iter_mut().zip(moved) {
            *now |= before.is_some_and(|until| self.started < until);
        }
    }

    /// Of each node that has answered: whether our key was gone since its clock had moved.
    pub(crate) fn gone_by_the_clock(&self) -> Vec<Option<bool>> {
        self.gone_by_the_clock.clone()
    }

    fn sent_twice(&self, node: usize) -> bool {
        self.copies[node].sent() > 1
    }

    /// For each node: the oldest connection over which a copy may still run, and the largest fence above
    /// our number under which that sets the key again.
    pub(crate) fn left(&self) -> Vec<(Option<u64>, u64)> {
        self.copies
            .iter()
            .map(|copies| copies.unanswered())
            .zip(self.up_to.iter().copied())
            .collect()
    }

    /// Whether a node that was asked has not answered yet.
    pub(crate) fn awaits_answers(&self) -> bool {
        self.silent.iter().any(|silent| *silent)
    }

    /// Whether all that can be heard has been asked for.
    pub(crate) fn all_told(&self) -> bool {
        self.told.iter().all(|told| *told)
    }
}

impl Ballot for Extension {
    type Vote = ExtensionVote;

    fn sending(&mut self, node: usize, via: Via, now: Time) -> bool {
        // Also after a majority has confirmed: the slower nodes shall have it, too.
        let send = !self.closed && now < self.answer_by;
        if send {
            self.copies[node].sending(via);
        }
        send
    }

    fn unsent(&mut self, node: usize) {
        self.copies[node].unsent();
    }

    /// A step longer ago than the keys live is no excuse any more. A node that has lost our key since then
    /// had it, or was repaired, in a round before.
    fn clock_moved(&mut self, node: usize, seen_at: Time) {
        let lately = self.started < seen_at.after(self.ttl);
        self.moved[node] |= lately && Mechanism::MovedClocksDoNotDeny.is_on();
    }

    fn vote(&mut self, node: usize, vote: ExtensionVote) {
        self.copies[node].answered();
        self.silent[node] = false;
        self.first_heard |= node == 0;
        self.heard[node] = match vote {
            ExtensionVote::Extended
            | ExtensionVote::Repaired
            | ExtensionVote::RepairedInQuarantine => Heard::Ours,
            ExtensionVote::NotOurs => Heard::NotOurs,
            ExtensionVote::InPart(_) => Heard::InPart,
            ExtensionVote::Free | ExtensionVote::FreeAbove(_) => Heard::Free,
        };
        let kept = match vote {
            ExtensionVote::Extended => true,
            ExtensionVote::RepairedInQuarantine => {
                true.if_off(Mechanism::HoldersInQuarantine, false)
            }
            _ => false,
        };
        let moved = self.moved[node] && !kept;
        self.first_repaired |= node == 0 && self.heard[0] == Heard::Ours && !kept && !moved;
        self.first_kept |= node == 0 && kept;
        self.gone_by_the_clock[node] = (kept || moved).then_some(moved);
        self.above[node] = match vote {
            ExtensionVote::FreeAbove(number) | ExtensionVote::InPart(number @ 1..) => Some(number),
            _ => None,
        };
        match vote {
            // The first copy, whose reply was lost, may have repaired the node, and the second one has
            // found what that had set.
            ExtensionVote::Extended if self.sent_twice(node) => {
                self.doubtful += 1;
                self.present.no();
                self.missing.no();
            }
            _ if kept => {
                self.present.yes();
                self.missing.no();
            }
            _ if moved => {
                self.doubtful += 1;
                self.present.no();
                self.missing.no();
            }
            _ => {
                self.present.no();
                self.missing.yes();
            }
        }
    }

    fn fail(&mut self, node: usize, failure: Failure) {
        self.silent[node] = false;
        self.first_heard |= node == 0;
        if failure == Failure::NotSent {
            self.heard[node] = Heard::NotAsked;
        }
        self.present.no();
        self.missing.no();
    }

    fn decided(&self) -> bool {
        // A majority that cannot confirm any more: decided when it is known whether the lock is gone,
        // or they are only silent.
        let known = match self.basis {
            Basis::Majority => self.missing.verdict() != Verdict::Pending,
            Basis::FirstNode => self.first_heard,
        };
        match self.present.verdict() {
            Verdict::Won => true,
            Verdict::Lost => known,
            Verdict::Pending => false,
        }
    }
}

#[cfg(test)]
#[path = "tests/extension.rs"]
mod tests;
