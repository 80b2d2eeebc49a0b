//! The holders of a lock, by the answers of the nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::base::{Time, majority};
use super::super::link::Via;
use super::super::vote::{Ballot, Failure};

/// The layout in which a node keeps a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyLayout {
    /// A string with its owner as the value: the exclusive lock, and that of other clients of the Redlock algorithm.
    String,
    /// A hash with a field for each owner: locks with several holds or several holders, and those of Redisson.
    Hash,
}

/// The kind as which a node keeps a held lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeldAs {
    /// Held by one owner: a mutex, a fair lock, or one name of several. Nodes do not tell these apart.
    Exclusive,
    /// Held by one owner, whose thread may take it again.
    Reentrant,
    /// The read side of a read-write lock.
    Read,
    /// The write side of a read-write lock.
    Write,
    /// A semaphore.
    Semaphore {
        /// The number of its permits.
        permits: u32,
    },
}

/// The state of a lock, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockState {
    /// One owner, or several that hold it together, have it on a majority of the nodes.
    Held,
    /// Its holder has given it back, and the nodes keep it for a while because of `min_hold`: nobody holds it, and
    /// nobody can take it.
    Kept,
    /// A majority of the nodes says that nobody has it.
    Free,
    /// None of the other states is certain. Nodes may have keys of attempts, which end in a moment. Too few nodes may
    /// have answered. Or nodes may have forgotten locks, so that their not knowing a holder does not count.
    Unclear,
}

/// A node's answer about one name of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderVote {
    pub(crate) key: HeldKey,
    /// The largest number of a grant that the node knows; 0 if it knows none.
    pub(crate) number: u64,
    /// True if the node may have forgotten locks: then its not knowing a holder does not count.
    pub(crate) forgetful: bool,
    /// `None`: nobody has the lock there, or its kind is not known.
    pub(crate) held_as: Option<HeldAs>,
    /// The number of callers in the node's queue for the lock.
    pub(crate) waiting: u64,
}

/// The value under the lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeldKey {
    Nothing,
    Lock {
        layout: KeyLayout,
        /// The owners; empty if the value is too long for an owner.
        owners: Vec<Vec<u8>>,
        /// Time for which the key lives without a renewal; `None`: it has no expiry.
        lives: Option<Duration>,
    },
    /// A value of that type, which is no lock.
    NoLock(String),
}

/// An owner that has the lock on a majority of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) owner: Vec<u8>,
    pub(crate) layout: KeyLayout,
    pub(crate) held_as: Option<HeldAs>,
    /// The number of nodes that name the owner.
    pub(crate) nodes: usize,
    /// The lock's number, as a majority of the nodes knows it; 0 if they know none.
    pub(crate) number: u64,
}

/// A request to all nodes for the holders of one name of a lock. It hears all of them, within its time.
#[derive(Debug)]
pub(crate) struct Holders {
    answer_by: Time,
    votes: Vec<Option<HolderVote>>,
    /// The number of nodes that have neither answered nor failed.
    open: usize,
    /// True if clients may fall back to the first node, so that a client may hold the lock on that node alone.
    first_decides: bool,
    /// True if nodes that may have forgotten locks grant none for a while, so that a holder may exist that they do
    /// not know.
    quarantine: bool,
}

impl Holders {
    pub(crate) fn new(
        nodes: usize,
        answer_by: Time,
        first_decides: bool,
        quarantine: bool,
    ) -> Self {
        Self { answer_by, votes: vec![None; nodes], open: nodes, first_decides, quarantine }
    }

    /// The end of its time.
    pub(crate) const fn answer_by(&self) -> Time {
        self.answer_by
    }

    /// Returns the answer of each node.
    pub(crate) fn votes(&self) -> &[Option<HolderVote>] {
        &self.votes
    }

    /// Notes that the node may have forgotten locks, as its client knows.
    pub(crate) fn doubt(&mut self, node: usize) {
        if let Some(vote) = &mut self.votes[node] {
            vote.forgetful = self.quarantine;
        }
    }

    /// Returns true if a majority has answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.votes.iter().flatten().count() >= majority(self.votes.len())
    }

    /// Returns true if no holder can exist that no node has named: a majority of the nodes has named a holder, or has
    /// forgotten nothing.
    pub(crate) fn is_certain(&self) -> bool {
        let knows = |vote: &HolderVote| {
            let names_somebody = matches!(vote.key, HeldKey::Lock { .. });
            names_somebody || !vote.forgetful
        };
        let known = self.votes.iter().flatten().filter(|vote| knows(vote)).count();
        let first_knows = self.votes.first().and_then(Option::as_ref).is_some_and(knows);
        known >= majority(self.votes.len()) && (first_knows || !self.first_decides)
    }

    /// Returns the nodes that have answered, and may have forgotten a holder that they do not name.
    pub(crate) fn forgetful(&self) -> Vec<usize> {
        let is_forgetful =
            |vote: &HolderVote| vote.forgetful && !matches!(vote.key, HeldKey::Lock { .. });
        let of = |node: &usize| self.votes[*node].as_ref().is_some_and(is_forgetful);
        (0..self.votes.len()).filter(of).collect()
    }

    /// Returns the longest time for which a key of the lock lives on any node, without a renewal.
    pub(crate) fn longest_life(&self) -> Duration {
        let lives = self.votes.iter().flatten().filter_map(|vote| match &vote.key {
            HeldKey::Lock { lives, .. } => *lives,
            HeldKey::Nothing | HeldKey::NoLock(_) => None,
        });
        lives.max().unwrap_or_default()
    }

    /// Returns the owners that have the lock on a majority of the nodes. There are several if they hold it together.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let needed = majority(self.votes.len());
        let mut found: BTreeMap<&[u8], (Holding, Vec<u64>)> = BTreeMap::new();
        for vote in self.votes.iter().flatten() {
            let HeldKey::Lock { layout, owners, .. } = &vote.key else { continue };
            for owner in owners {
                let (layout, held_as) = (*layout, vote.held_as);
                let first =
                    || Holding { owner: owner.clone(), layout, held_as, nodes: 0, number: 0 };
                let (_, numbers) = found.entry(owner).or_insert_with(|| (first(), Vec::new()));
                numbers.push(vote.number);
            }
        }
        let holding = |(holding, mut numbers): (Holding, Vec<u64>)| {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            let number = *numbers.get(needed.checked_sub(1)?)?;
            Some(Holding { nodes: numbers.len(), number, ..holding })
        };
        found.into_values().filter_map(holding).collect()
    }

    /// Returns the state of the lock, as far as it is known.
    pub(crate) fn state(&self) -> LockState {
        if !self.holdings().is_empty() {
            return LockState::Held;
        }
        let has_nobody = |vote: &HolderVote| {
            !vote.forgetful && matches!(vote.key, HeldKey::Nothing | HeldKey::NoLock(_))
        };
        let nobody = self.votes.iter().flatten().filter(|vote| has_nobody(vote)).count();
        let first_agrees = self.votes.first().and_then(Option::as_ref).is_some_and(has_nobody);
        if nobody >= majority(self.votes.len()) && (first_agrees || !self.first_decides) {
            LockState::Free
        } else {
            LockState::Unclear
        }
    }

    /// Returns the time after which a majority of the nodes may be without a key of the lock, if it is not renewed.
    /// A node that has not answered may be without one now. The longest duration stands for a key without expiry.
    pub(crate) fn free_after(&self) -> Duration {
        let lives = |vote: &Option<HolderVote>| match vote.as_ref().map(|vote| &vote.key) {
            Some(HeldKey::Lock { lives, .. }) => lives.unwrap_or(Duration::MAX),
            _ => Duration::ZERO,
        };
        let mut all: Vec<_> = self.votes.iter().map(lives).collect();
        let first = all.first().copied().filter(|_| self.first_decides).unwrap_or_default();
        all.sort_unstable();
        let by_majority = all.get(majority(all.len()) - 1).copied().unwrap_or_default();
        by_majority.max(first)
    }

    /// Returns the largest number of waiting callers that a majority of the nodes knows.
    pub(crate) fn waiting(&self) -> u64 {
        let waiting = |vote: &Option<HolderVote>| vote.as_ref().map_or(0, |vote| vote.waiting);
        let mut all: Vec<_> = self.votes.iter().map(waiting).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.get(majority(all.len()) - 1).copied().unwrap_or_default()
    }

    /// Returns all owners that any node has named, each of them once. A key without expiry is no lock, and has none.
    pub(crate) fn seen(&self) -> Vec<Vec<u8>> {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for vote in self.votes.iter().flatten() {
            if let HeldKey::Lock { owners, lives: Some(_), .. } = &vote.key {
                seen.extend(owners.iter().cloned());
            }
        }
        seen.sort_unstable();
        seen.dedup();
        seen
    }

    /// Returns the owners that may hold the lock, and have not given it back. `is_kept` recognises the text that
    /// nodes keep in place of an owner that has. There are none if a majority says that nobody holds the lock: some
    /// node may not have been told of a release yet.
    pub(crate) fn working(&self, is_kept: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let holdings = self.holdings();
        let is_held = !holdings.is_empty();
        let is_kept_only = is_held && holdings.iter().all(|held| is_kept(&held.owner));
        if is_kept_only || self.state() == LockState::Free {
            return Vec::new();
        }
        // The other owners that nodes name belong to attempts.
        let held = holdings.into_iter().map(|held| held.owner);
        let mut owners: Vec<_> = if is_held { held.collect() } else { self.seen() };
        owners.retain(|owner| !is_kept(owner));
        owners
    }

    /// Returns true if some node has a value under the name that is no lock.
    pub(crate) fn has_no_lock(&self) -> bool {
        let is_none = |key: &HeldKey| match key {
            HeldKey::Nothing => false,
            HeldKey::NoLock(_) => true,
            HeldKey::Lock { lives, owners, .. } => lives.is_none() || owners.is_empty(),
        };
        self.votes.iter().flatten().any(|vote| is_none(&vote.key))
    }
}

impl Ballot for Holders {
    type Vote = HolderVote;

    fn sending(&mut self, _node: usize, _via: Via, now: Time) -> bool {
        now < self.answer_by
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, node: usize, vote: HolderVote) {
        let forgetful = vote.forgetful && self.quarantine;
        self.votes[node] = Some(HolderVote { forgetful, ..vote });
        self.open = self.open.saturating_sub(1);
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.open = self.open.saturating_sub(1);
    }

    fn decided(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn vote(owner: &str, lives: Option<Duration>, number: u64) -> HolderVote {
        let owners = vec![owner.as_bytes().to_vec()];
        let key = HeldKey::Lock { layout: KeyLayout::String, owners, lives };
        HolderVote { key, number, forgetful: false, held_as: Some(HeldAs::Exclusive), waiting: 0 }
    }

    fn held(owner: &str) -> HolderVote {
        vote(owner, Some(S * 9), 7)
    }

    fn nobody() -> HolderVote {
        HolderVote { key: HeldKey::Nothing, number: 7, forgetful: false, held_as: None, waiting: 0 }
    }

    /// The answer of a node that may have forgotten locks does not count if it names nobody.
    #[test]
    fn nobody_can_be_there_unseen_once_a_majority_knows() {
        let forgetful = |vote: HolderVote| HolderVote { forgetful: true, ..vote };
        let is_certain = |first_decides, votes: [Option<HolderVote>; 3]| {
            holders(first_decides, &votes).is_certain()
        };
        assert!(is_certain(false, [Some(nobody()), None, Some(nobody())]));
        assert!(!is_certain(false, [Some(nobody()), None, Some(forgetful(nobody()))]));
        assert!(is_certain(false, [Some(nobody()), None, Some(forgetful(held("a")))]));
        assert!(!is_certain(true, [None, Some(nobody()), Some(nobody())]));
        let heard = holders(false, &[Some(forgetful(nobody())), Some(held("a")), None]);
        assert_eq!((heard.forgetful(), heard.longest_life()), (vec![0], S * 9));
    }

    fn holders(first_decides: bool, votes: &[Option<HolderVote>]) -> Holders {
        let mut holders = Holders::new(votes.len(), Time::from_start(S), first_decides, true);
        for (node, vote) in votes.iter().enumerate() {
            assert!(!holders.decided());
            match vote {
                Some(vote) => holders.vote(node, vote.clone()),
                None => holders.fail(node, Failure::Unknown),
            }
        }
        assert!(holders.decided(), "all have been heard");
        holders
    }

    fn state(votes: &[Option<HolderVote>]) -> LockState {
        holders(false, votes).state()
    }

    #[test]
    fn a_majority_says_who_holds_it_or_that_nobody_does() {
        let a = || Some(held("a"));
        let b = || Some(held("b"));
        let free = || Some(nobody());
        assert_eq!(state(&[a(), a(), free()]), LockState::Held);
        assert_eq!(state(&[a(), b(), free()]), LockState::Unclear, "they have shared the nodes");
        assert_eq!(state(&[a(), free(), free()]), LockState::Free, "an attempt that failed");
        assert_eq!(state(&[a(), free(), None]), LockState::Unclear, "the silent one may have it");
        assert_eq!(state(&[free(), free(), None]), LockState::Free);
        assert_eq!(state(&[a(), a(), free(), free()]), LockState::Unclear, "half is no majority");
        assert_eq!(state(&[a()]), LockState::Held);
        assert!(holders(false, &[a(), a(), None]).is_answered());
        assert!(!holders(false, &[a(), None, None]).is_answered());
        let data = HolderVote { key: HeldKey::NoLock("list".to_owned()), ..nobody() };
        let data = holders(false, &[Some(data.clone()), Some(data), free()]);
        assert_eq!((data.state(), data.has_no_lock()), (LockState::Free, true));
    }

    #[test]
    fn owners_that_hold_the_lock_are_told_from_those_of_attempts_and_from_those_that_have_left() {
        let working = |owners: &[Option<&str>]| {
            let vote = |owner: &Option<&str>| Some(owner.map_or_else(nobody, held));
            let votes: Vec<_> = owners.iter().map(vote).collect();
            let owners = holders(false, &votes).working(|owner| owner.ends_with(b"#kept"));
            owners.into_iter().map(|owner| String::from_utf8_lossy(&owner).into_owned()).collect()
        };
        let none: [&str; 0] = [];
        let told = |owners: &[Option<&str>], expected: &[&str]| {
            let owners: Vec<String> = working(owners);
            assert_eq!(owners, expected);
        };
        told(&[Some("a"), Some("a"), Some("b")], &["a"]);
        told(&[Some("a"), Some("b"), None], &["a", "b"]);
        told(&[Some("a"), None, None], &none);
        told(&[Some("a#kept"), Some("a#kept"), Some("a")], &none);
        told(&[Some("a#kept"), Some("a"), None], &["a"]);
    }

    #[test]
    fn that_a_node_knows_of_nobody_does_not_count_where_it_may_have_forgotten() {
        let forgetful = Some(HolderVote { forgetful: true, ..nobody() });
        assert_eq!(state(&[forgetful.clone(), Some(nobody()), None]), LockState::Unclear);
        let mut known = holders(false, &[Some(nobody()), Some(nobody()), forgetful]);
        assert_eq!(known.state(), LockState::Free);
        known.doubt(0);
        assert_eq!(known.state(), LockState::Unclear);
        // If nodes grant locks at once whatever they have forgotten, the answer counts.
        let mut off = Holders::new(1, Time::from_start(S), false, false);
        off.vote(0, HolderVote { forgetful: true, ..nobody() });
        off.doubt(0);
        assert_eq!(off.state(), LockState::Free);
        // A holder has set its key there again, or the key was never gone.
        let mut kept = holders(false, &[Some(held("a")), Some(held("a")), None]);
        kept.doubt(0);
        assert_eq!(kept.state(), LockState::Held);
    }

    #[test]
    fn the_first_node_has_to_be_free_where_clients_may_fall_back_to_it() {
        let on_first = [Some(held("a")), Some(nobody()), Some(nobody())];
        assert_eq!(holders(true, &on_first).state(), LockState::Unclear);
        assert_eq!(holders(true, &on_first).free_after(), S * 9);
        assert_eq!(holders(false, &on_first).free_after(), Duration::ZERO);
        assert_eq!(
            holders(true, &[None, Some(nobody()), Some(nobody())]).state(),
            LockState::Unclear
        );
    }

    #[test]
    fn it_is_free_once_a_majority_of_its_keys_may_have_ended() {
        let lives = |s: u32| Some(vote("a", Some(S * s), 7));
        assert_eq!(holders(false, &[lives(9), lives(7), lives(8)]).free_after(), S * 8);
        assert_eq!(holders(false, &[lives(9), lives(7), None]).free_after(), S * 7);
        assert_eq!(holders(false, &[lives(9), None, None]).free_after(), Duration::ZERO);
        assert_eq!(holders(false, &[lives(4)]).free_after(), S * 4);
        let endless = || Some(vote("a", None, 0));
        let two = holders(false, &[endless(), endless(), lives(1)]);
        assert_eq!((two.free_after(), two.seen().len()), (Duration::MAX, 1));
    }

    #[test]
    fn the_number_is_what_a_majority_of_the_nodes_with_the_key_knows() {
        let with = |number| Some(vote("a", Some(S), number));
        let number = |votes: &[Option<HolderVote>]| holders(false, votes).holdings()[0].number;
        assert_eq!(number(&[with(9), with(9), with(4)]), 9);
        assert_eq!(number(&[with(20), with(9), with(4)]), 9, "one of them may know more");
        assert_eq!(number(&[with(9), Some(nobody()), with(9)]), 9);
    }

    #[test]
    fn every_owner_is_seen_wherever_it_is_named() {
        let together = HolderVote {
            key: HeldKey::Lock {
                layout: KeyLayout::Hash,
                owners: vec![b"b".to_vec(), b"a".to_vec()],
                lives: Some(S),
            },
            ..nobody()
        };
        let known = holders(false, &[Some(together.clone()), Some(together), Some(held("c"))]);
        assert_eq!(known.seen(), [b"a", b"b", b"c"].map(|owner| owner.to_vec()));
        let holdings = known.holdings();
        let owners: Vec<_> = holdings.iter().map(|held| held.owner.as_slice()).collect();
        assert_eq!(owners, [b"a", b"b"]);
        assert!(holdings.iter().all(|it| it.nodes == 2 && it.layout == KeyLayout::Hash));
    }
}
