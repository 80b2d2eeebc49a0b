//! One round of extension of a held lock, and of repairs on the nodes that lost it.

use std::time::Duration;

use super::super::base::{Allowance, Basis, Mechanism, Rule, Time};
use super::super::base::{Tally, Verdict, votes_needed};
use super::super::link::{Copies, Via};
use super::{Ballot, Failure};

/// The result of asking the nodes to let the keys live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// Enough nodes confirmed the round. The lock is valid until that time, on that basis.
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
    /// The same, on a node that has forgotten its keys and grants nothing to newcomers.
    RepairedInQuarantine,
    /// The key is free, and it is too late to set it: the node's clock is past the end of our lock, by our last reading of that
    /// clock.
    Free,
    /// The key is free, and the node knows that number. It is above the largest number that the repair
    /// allows, so the node has granted the lock to another client since.
    FreeAbove(u64),
    /// The key is another owner's.
    NotOurs,
    /// For a lock with several names: some of our keys are there, and the others cannot be set. The largest
    /// number that the node knows for the missing ones, if nothing else prevents setting them. 0: one of
    /// them is another owner's, or it is too late.
    InPart(u64),
}

/// A node's answer about our key in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Our key is there.
    Ours,
    /// Another owner's key is there.
    NotOurs,
    /// Some of our keys are there, and some are not. The node counts as not ours, and must be told to forget
    /// them.
    InPart,
    /// No key is there.
    Free,
    /// Nothing was sent to the node.
    NotAsked,
    /// No answer: the request may have run, or may run later.
    Nothing,
}

impl Heard {
    /// Returns true if another owner may have the lock on the node, or one of its names.
    fn is_not_ours(self) -> bool {
        matches!(self, Self::NotOurs | Self::InPart)
    }
}

/// Number of further repairs, in one renewal, of a node that contenders keep taking. A contender has the node
/// for one round trip, and then not for as long as it waits. So a few tries almost always succeed.
const MORE_REPAIRS: u32 = 5;

/// One round of `extend`. It counts only if a majority confirmed *this* round by the presence of our key. Its
/// validity counts from before its first send. The answers to an earlier round say nothing about this one.
///
/// A node that was repaired in this round does not count for it: its key was gone, and another owner may have
/// had it in between. It counts from the next round on. Only a node in quarantine counts at once: it has
/// forgotten our key, for example in a restart, and has granted it to nobody since. Otherwise the restart of
/// a majority between two renewals would end the lock, although nobody else could get it.
///
/// A node whose clock has just moved does not deny our lock either. Our key may have ended there early, and
/// the grants of such a node count for nobody (`Admission::read`). So the round treats the node as silent:
/// the validity decides by time, and the next round repairs the node, by its new clock. That lasts until our
/// key is found there again, since the clock may show the right time by then.
///
/// A node that finds it too late to set the key does not deny our lock in this round: it compares its clock with the end of
/// the validity by our last reading of that clock, and that reading may have taken long. The answer comes with a new
/// reading, so the next round has a better time for the repair, and then the node denies the lock or does not.
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
    /// For each node that this round repairs although its number is above ours: the largest number that is allowed.
    up_to: Vec<u64>,
    /// Number of nodes that have our key and may have got it in this very round, or that are without it and
    /// whose clocks have moved, or that find it too late to set it.
    doubtful: usize,
    /// The nodes whose clocks have moved, now or when they lost our key.
    moved: Vec<bool>,
    /// For each node: `Some(true)` if it was without our key in this round because its clock had moved,
    /// `Some(false)` if our key was there.
    gone_by_the_clock: Vec<Option<bool>>,
    /// The numbers of the nodes that are free, and know a number above ours.
    above: Vec<Option<u64>>,
    /// The end of validity of the last round, this one or an earlier one, that a majority confirmed by
    /// presence.
    sound_until: Option<Time>,
    /// Number of further rounds of repair that may rely on the confirmed round.
    tries_left: u32,
    /// `first_repaired`: the first node had lost our key. `first_kept`: it had our key all the time. `first_late`: it finds it
    /// too late to set our key.
    first_repaired: bool,
    first_kept: bool,
    first_late: bool,
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
            first_late: false,
            first_heard: false,
            closed: false,
        }
    }

    /// Ends the sending for this round, since the lock is about to be given back. A copy that a node did not
    /// run at once, and that is sent again behind the release, would set the key again.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns another round, which tries again to repair the nodes that contenders have, or had. It asks
    /// those nodes alone, each up to the number that it was free with. There is one only if a majority has
    /// confirmed this round, or the round that it relies on, by the presence of our key.
    ///
    /// Such a node has granted the lock to a contender without a majority, since we had the majority: from
    /// the start of that round to the end of its validity. Contenders do so all the time. If their numbers
    /// kept us out, a lock in demand could never be repaired. If a contender gets the node after this answer,
    /// it raises the number again, and the node refuses this repair. Then there is another one.
    ///
    /// Nodes whose clocks have moved count here. Their grants count for no majority, and the nodes with our key
    /// grant nothing to others, so no other owner can have a majority.
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

    /// The result of the round, from the answers so far.
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

    /// The result while the lock rests on the first node. No other owner may have it on any node. The other
    /// nodes are repaired meanwhile. Once a majority confirms, the lock rests on that majority.
    fn result_on_first(&self, until: Time) -> Renewed {
        let counted = self.heard.iter().zip(&self.moved).filter(|(_, moved)| !**moved);
        let others = counted.filter(|(heard, _)| heard.is_not_ours()).count();
        match self.heard[0] {
            // A moved clock does not excuse another owner's key. Our own clock may have stood still, and no
            // third clock can tell: then the node granted the lock to the other owner rightly.
            Heard::NotOurs | Heard::InPart => Renewed::Gone,
            _ if others == 0 && self.moved[0] && !self.first_kept => Renewed::Unknown,
            Heard::Free if others == 0 && self.first_late => Renewed::Unknown,
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

    /// The time for which the keys shall live.
    pub(crate) const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns true if the round was not confirmed because requests were sent twice, clocks have moved, or nodes found it too
    /// late to set our key. Another round may be confirmed: its connections exist by now, and it uses the clocks as they are now.
    /// Or it finds that the lock is gone, as answers may show that came behind the verdict.
    pub(crate) fn is_doubtful(&self, now: Time) -> bool {
        self.doubtful > 0 && !matches!(self.result(now), Renewed::Until(..))
    }

    /// The nodes' answers about our key since the last call.
    pub(crate) fn news(&mut self) -> Vec<Option<Heard>> {
        let told = self.heard.iter().zip(&mut self.told);
        let news = told.map(|(heard, told)| {
            let new =
                *heard != Heard::Nothing && !std::mem::replace(told, *heard != Heard::Nothing);
            new.then_some(*heard)
        });
        news.collect()
    }

    /// Notes the nodes that had lost our key when their clocks moved, in an earlier round. `moved` has the
    /// end of the time for which that excuses them.
    pub(crate) fn moved_before(&mut self, moved: &[Option<Time>]) {
        for (now, before) in self.moved.iter_mut().zip(moved) {
            *now |= before.is_some_and(|until| self.started < until);
        }
    }

    /// For each node that has answered: true if our key was gone because its clock had moved.
    pub(crate) fn gone_by_the_clock(&self) -> Vec<Option<bool>> {
        self.gone_by_the_clock.clone()
    }

    fn sent_twice(&self, node: usize) -> bool {
        self.copies[node].sent() > 1
    }

    /// For each node: the oldest connection over which a copy may still run, and the largest fence above our
    /// number under which that copy sets the key again.
    pub(crate) fn left(&self) -> Vec<(Option<u64>, u64)> {
        self.copies
            .iter()
            .map(|copies| copies.unanswered())
            .zip(self.up_to.iter().copied())
            .collect()
    }

    /// Returns true if a node that was asked has not answered yet.
    pub(crate) fn awaits_answers(&self) -> bool {
        self.silent.iter().any(|silent| *silent)
    }

    /// Returns true if all possible answers have been returned by [`news`](Self::news).
    pub(crate) fn all_told(&self) -> bool {
        self.told.iter().all(|told| *told)
    }
}

impl Ballot for Extension {
    type Vote = ExtensionVote;

    fn sending(&mut self, node: usize, via: Via, now: Time) -> bool {
        // This holds after a majority has confirmed, too: the slower nodes shall extend the key as well.
        let send = !self.closed && now < self.answer_by;
        if send {
            self.copies[node].sending(via);
        }
        send
    }

    fn unsent(&mut self, node: usize) {
        self.copies[node].unsent();
    }

    /// A clock step longer ago than the TTL of the keys is no excuse any more. A node that has lost our key
    /// since then had it, or was repaired, in an earlier round.
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
        let is_late = vote == ExtensionVote::Free && Mechanism::LateRepairsDoNotDeny.is_on();
        self.first_late |= node == 0 && is_late;
        self.first_repaired |= node == 0 && self.heard[0] == Heard::Ours && !kept && !moved;
        self.first_kept |= node == 0 && kept;
        self.gone_by_the_clock[node] = (kept || moved).then_some(moved);
        self.above[node] = match vote {
            ExtensionVote::FreeAbove(number) | ExtensionVote::InPart(number @ 1..) => Some(number),
            _ => None,
        };
        match vote {
            // The first copy, whose reply was lost, may have repaired the node. Then the second one found
            // that key.
            ExtensionVote::Extended if self.sent_twice(node) => {
                self.doubtful += 1;
                self.present.no();
                self.missing.no();
            }
            _ if kept => {
                self.present.yes();
                self.missing.no();
            }
            _ if moved || is_late => {
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
        // If no majority can confirm any more, the round is decided once it is known whether the lock is
        // gone, or the nodes are only silent.
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
