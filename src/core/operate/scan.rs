//! The scan of all nodes for the keys that may be locks, step by step.

use std::time::Duration;

use super::super::base::{Time, majority};
use super::super::link::Via;
use super::super::vote::{Ballot, Failure};

/// A node's answer in one step of its scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanVote {
    /// The cursor from which its scan goes on; `None` at the end.
    pub(crate) cursor: Option<String>,
    pub(crate) keys: Vec<Vec<u8>>,
    /// At the end: the time for which the node says it has kept all its keys; zero if it was emptied in this run.
    pub(crate) whole_for: Duration,
}

/// One step of the scans of several nodes. It hears all of them, within its time.
#[derive(Debug)]
pub(crate) struct ScanStep {
    answer_by: Time,
    votes: Vec<Option<ScanVote>>,
    /// The number of nodes that have neither answered nor failed.
    open: usize,
}

impl ScanStep {
    /// Returns the answer of each node.
    pub(crate) fn take_votes(&mut self) -> Vec<Option<ScanVote>> {
        self.votes.iter_mut().map(Option::take).collect()
    }
}

impl Ballot for ScanStep {
    type Vote = ScanVote;

    fn sending(&mut self, _node: usize, _via: Via, now: Time) -> bool {
        now < self.answer_by
    }

    fn unsent(&mut self, _node: usize) {}

    fn vote(&mut self, node: usize, vote: ScanVote) {
        self.votes[node] = Some(vote);
        self.open = self.open.saturating_sub(1);
    }

    fn fail(&mut self, _node: usize, _failure: Failure) {
        self.open = self.open.saturating_sub(1);
    }

    fn decided(&self) -> bool {
        self.open == 0
    }
}

/// The progress of the scan of one node.
#[derive(Debug)]
enum Progress {
    /// The scan goes on from that cursor.
    From(String),
    /// The scan has ended. The node has kept all its keys for that time.
    Ended(Duration),
    /// The node has not answered a step of the scan, and is asked no more.
    Failed,
}

/// The scan of all nodes. The caller decides which of their keys are locks.
#[derive(Debug)]
pub(crate) struct Scan {
    nodes: Vec<Progress>,
}

impl Scan {
    pub(crate) fn new(nodes: usize) -> Self {
        Self { nodes: (0..nodes).map(|_| Progress::From("0".to_owned())).collect() }
    }

    /// Returns the cursor from which the scan of the node goes on; `None` if it does not.
    pub(crate) fn cursor(&self, node: usize) -> Option<&str> {
        match &self.nodes[node] {
            Progress::From(cursor) => Some(cursor),
            Progress::Ended(_) | Progress::Failed => None,
        }
    }

    /// Begins a step of all nodes whose scan goes on.
    pub(crate) fn step(&self, answer_by: Time) -> ScanStep {
        let open = (0..self.nodes.len()).filter(|node| self.cursor(*node).is_some()).count();
        ScanStep { answer_by, votes: vec![None; self.nodes.len()], open }
    }

    /// Takes the nodes' answers in a step. Returns the keys that they have named.
    pub(crate) fn handle_votes(&mut self, votes: Vec<Option<ScanVote>>) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for (node, vote) in self.nodes.iter_mut().zip(votes) {
            if !matches!(node, Progress::From(_)) {
                continue;
            }
            *node = match vote {
                None => Progress::Failed,
                Some(ScanVote { cursor, keys: named, whole_for }) => {
                    keys.extend(named);
                    cursor.map_or(Progress::Ended(whole_for), Progress::From)
                }
            };
        }
        keys
    }

    /// Returns the time for which the node says it has kept all its keys; `None` if it was not scanned to its end.
    pub(crate) fn whole_for(&self, node: usize) -> Option<Duration> {
        match self.nodes[node] {
            Progress::Ended(whole_for) => Some(whole_for),
            Progress::From(_) | Progress::Failed => None,
        }
    }

    /// Returns true if a majority of the nodes has answered every step so far.
    pub(crate) fn is_answered(&self) -> bool {
        let failed = self.nodes.iter().filter(|node| matches!(node, Progress::Failed)).count();
        self.nodes.len() - failed >= majority(self.nodes.len())
    }

    /// Returns true if no node is left to be asked, or too few can be scanned to the end.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_answered() || (0..self.nodes.len()).all(|node| self.cursor(node).is_none())
    }

    /// Returns true if a majority of the nodes has answered every step so far, and has forgotten nothing. If clients
    /// may fall back to the first node, that node must be among them.
    pub(crate) fn is_heard(
        &self,
        first_decides: bool,
        has_forgotten: impl Fn(usize) -> bool,
    ) -> bool {
        let is_failed = |node: usize| matches!(self.nodes[node], Progress::Failed);
        self.is_majority(first_decides, |node| !is_failed(node) && !has_forgotten(node))
    }

    /// Returns true if every lock that was held all the time has been named: a majority of the nodes was scanned to
    /// the end, and has forgotten nothing. If clients may fall back to the first node, that node must be among them.
    pub(crate) fn is_complete(
        &self,
        first_decides: bool,
        has_forgotten: impl Fn(usize) -> bool,
    ) -> bool {
        let is_ended = |node: usize| self.whole_for(node).is_some();
        self.is_majority(first_decides, |node| is_ended(node) && !has_forgotten(node))
    }

    fn is_majority(&self, first_decides: bool, counts: impl Fn(usize) -> bool) -> bool {
        let counting = (0..self.nodes.len()).filter(|node| counts(*node)).count();
        counting >= majority(self.nodes.len()) && (counts(0) || !first_decides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(cursor: &str, keys: &[&str]) -> Option<ScanVote> {
        let cursor = (cursor != "0").then(|| cursor.to_owned());
        let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        Some(ScanVote { cursor, keys, whole_for: Duration::from_secs(7) })
    }

    #[test]
    fn each_node_is_scanned_to_its_own_end() {
        let mut scan = Scan::new(3);
        assert_eq!((scan.cursor(0), scan.is_over()), (Some("0"), false));
        let named =
            scan.handle_votes(vec![vote("0", &["a"]), vote("7", &["b"]), vote("5", &["a"])]);
        assert_eq!(named, [b"a", b"b", b"a"]);
        assert_eq!([0, 1, 2].map(|node| scan.cursor(node)), [None, Some("7"), Some("5")]);
        let whole_for = [Some(Duration::from_secs(7)), None, None];
        assert_eq!([0, 1, 2].map(|node| scan.whole_for(node)), whole_for);
        assert!(!scan.is_over() && !scan.is_complete(false, |_| false), "one of three");
        // The first node was not asked, so this cannot be its answer.
        assert!(
            scan.handle_votes(vec![vote("9", &["x"]), vote("0", &[]), vote("6", &[])]).is_empty()
        );
        assert!(!scan.is_over() && scan.is_complete(false, |_| false), "two of three");
        assert!(!scan.is_complete(false, |node| node == 1), "it may have forgotten some");
        scan.handle_votes(vec![None, None, vote("0", &[])]);
        assert!(scan.is_over() && scan.is_complete(false, |node| node == 1));
    }

    #[test]
    fn nodes_that_fail_are_asked_no_more() {
        let mut scan = Scan::new(3);
        scan.handle_votes(vec![None, vote("7", &[]), vote("0", &[])]);
        assert!(scan.is_answered() && !scan.is_over());
        scan.handle_votes(vec![vote("8", &["late"]), vote("0", &[]), None]);
        assert!(scan.is_over() && scan.cursor(0).is_none());
        assert!(scan.is_complete(false, |_| false));
        assert!(!scan.is_complete(true, |_| false), "the first one may have more");
        assert!(scan.is_heard(false, |_| false) && !scan.is_heard(true, |_| false));
        assert!(!scan.is_heard(false, |node| node == 1), "one of three remembers");
        let mut scan = Scan::new(3);
        scan.handle_votes(vec![None, None, vote("7", &[])]);
        assert!(scan.is_over() && !scan.is_answered());
    }

    #[test]
    fn a_step_is_over_once_all_are_heard_that_were_asked() {
        let mut scan = Scan::new(3);
        scan.handle_votes(vec![vote("0", &[]), vote("7", &[]), vote("7", &[])]);
        let end = Time::from_start(Duration::from_secs(1));
        let mut step = scan.step(end);
        assert!(
            step.sending(1, Via::unfenced(1), Time::default())
                && !step.sending(1, Via::unfenced(1), end)
        );
        step.fail(1, Failure::Unknown);
        assert!(!step.decided());
        step.vote(
            2,
            ScanVote { cursor: None, keys: Vec::new(), whole_for: Duration::from_secs(7) },
        );
        assert!(step.decided());
        assert_eq!(step.take_votes(), [None, None, vote("0", &[])]);
    }
}
