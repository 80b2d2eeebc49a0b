//! Counting votes: won, lost, or still open.

use super::{Mechanism, Rule};

/// Returns the majority of `nodes`: more than half, so `N/2 + 1` for even `N` too.
///
/// Two majorities of one set always share a node; all exclusion rests on that.
pub(crate) const fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

/// Returns the votes that win a lock on so many nodes.
pub(crate) fn votes_needed(nodes: usize) -> usize {
    majority(nodes).if_off(Mechanism::Majority, 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The outstanding votes can still decide either way.
    Pending,
    /// Enough nodes said yes.
    Won,
    /// Enough nodes said no, or cannot be asked: `needed` is out of reach.
    Lost,
}

/// Votes for and against, out of a fixed number of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    nodes: usize,
    needed: usize,
    yes: usize,
    no: usize,
}

impl Tally {
    pub(crate) const fn new(nodes: usize, needed: usize) -> Self {
        Self { nodes, needed, yes: 0, no: 0 }
    }

    pub(crate) const fn yes(&mut self) {
        self.yes += 1;
    }

    pub(crate) const fn no(&mut self) {
        self.no += 1;
    }

    /// Returns true if `more` further yes votes are enough.
    pub(crate) const fn wins_with(&self, more: usize) -> bool {
        self.yes + more >= self.needed
    }

    /// Returns the verdict. Once it is not `Pending`, further votes do not change it.
    ///
    /// Success and failure have thresholds of their own. With four nodes two noes settle it, since
    /// three yeses are out of reach then.
    pub(crate) const fn verdict(&self) -> Verdict {
        if self.yes >= self.needed {
            Verdict::Won
        } else if self.nodes.saturating_sub(self.no) < self.needed {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }
}
