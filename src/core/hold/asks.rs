//! The requests to the holders of a lock to release it, as far as nodes have reported them.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use super::super::base::Time;

/// Time after which a node that did not answer is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// The largest number of requests that are remembered as told. A node keeps one for each name of the lock.
const MOST_TOLD: usize = 64;

/// A request as a node keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// The id of the request, different for each.
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// The requests to release one lock whose holders listen for them.
///
/// A node keeps the last request for each name. It is read when it reports a new request, when a message may have been
/// missed, and along with each renewal.
#[derive(Debug)]
pub(super) struct Asks {
    /// The requests that the holders were told, the latest one last.
    told: VecDeque<ReadRequest>,
    nodes: Vec<AskedNode>,
}

#[derive(Clone, Debug, Default)]
struct AskedNode {
    /// End of the time for which a read is under way.
    reads_until: Option<Time>,
    /// True if a further sign of a request came after the read was sent.
    again: bool,
    /// Time at which a read is due again, since the last one was not answered.
    due_at: Option<Time>,
}

impl Asks {
    pub(super) fn new(nodes: usize) -> Self {
        Self { told: VecDeque::new(), nodes: vec![AskedNode::default(); nodes] }
    }

    /// There may be a request at that node. Returns true if the node is to be read now, which takes until `until` at
    /// most. Otherwise a read is under way, and a further one may follow it.
    pub(super) fn handle_sign(&mut self, node: usize, now: Time, until: Time) -> bool {
        let read = &mut self.nodes[node];
        let is_under_way = read.reads_until.is_some_and(|until| now < until);
        read.again = is_under_way;
        if !is_under_way {
            (read.reads_until, read.due_at) = (Some(until), None);
        }
        !is_under_way
    }

    /// The node has answered with the requests that it keeps. Returns those that the holders are to be told, and true
    /// if the node is to be read once more.
    pub(super) fn handle_read(
        &mut self,
        node: usize,
        mut requests: Vec<ReadRequest>,
    ) -> (Vec<ReadRequest>, bool) {
        let again = mem::take(&mut self.nodes[node].again);
        self.nodes[node].reads_until = None;
        requests.retain(|request| {
            let is_news = !self.told.contains(request);
            if is_news {
                self.told.push_back(request.clone());
            }
            is_news
        });
        let forgotten = self.told.len().saturating_sub(MOST_TOLD);
        self.told.drain(..forgotten);
        (requests, again)
    }

    /// The node has not answered, or was not asked.
    pub(super) fn handle_missed(&mut self, node: usize, now: Time) {
        self.nodes[node] =
            AskedNode { due_at: Some(now.after(READ_AGAIN)), ..AskedNode::default() };
    }

    /// Returns the earliest time at which a node that did not answer is due.
    pub(super) fn look_at(&self) -> Option<Time> {
        self.nodes.iter().filter_map(|node| node.due_at).min()
    }

    /// Returns the nodes that are due by `now`.
    pub(super) fn due(&self, now: Time) -> Vec<usize> {
        let is_due = |node: &usize| self.nodes[*node].due_at.is_some_and(|at| at <= now);
        (0..self.nodes.len()).filter(is_due).collect()
    }

    /// Returns the request that the holders were told last.
    pub(super) fn told(&self) -> Option<&ReadRequest> {
        self.told.back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn request(id: &str) -> ReadRequest {
        ReadRequest { id: id.to_owned(), reason: "deploy".to_owned() }
    }

    /// The ids of the requests that are told when the node answers with these.
    fn told(asks: &mut Asks, node: usize, ids: &[&str]) -> Vec<String> {
        let requests = ids.iter().map(|id| request(id)).collect();
        asks.handle_read(node, requests).0.into_iter().map(|request| request.id).collect()
    }

    #[test]
    fn each_request_is_told_once_whichever_nodes_keep_it() {
        let mut asks = Asks::new(3);
        assert!(told(&mut asks, 0, &[]).is_empty());
        assert_eq!(told(&mut asks, 1, &["a"]), ["a"]);
        assert!(told(&mut asks, 2, &["a"]).is_empty());
        assert_eq!(told(&mut asks, 1, &["b"]), ["b"]);
        assert!(told(&mut asks, 0, &["a"]).is_empty(), "a node that was away keeps the old one");
        assert_eq!(asks.told(), Some(&request("b")));
        assert_eq!(told(&mut asks, 2, &["c", "b", "d"]), ["c", "d"], "for several names");
        for i in 0..MOST_TOLD * 2 {
            assert_eq!(told(&mut asks, 0, &[&i.to_string()]).len(), 1);
        }
        assert_eq!(asks.told.len(), MOST_TOLD);
    }

    #[test]
    fn a_sign_during_a_read_leads_to_one_further_read() {
        let mut asks = Asks::new(2);
        assert!(asks.handle_sign(0, at(0), at(200)));
        assert!(!asks.handle_sign(0, at(10), at(210)) && !asks.handle_sign(0, at(20), at(220)));
        assert!(asks.handle_sign(1, at(20), at(220)), "another node");
        assert_eq!(asks.handle_read(0, Vec::new()), (Vec::new(), true));
        assert!(asks.handle_sign(0, at(30), at(230)));
        assert_eq!(asks.handle_read(0, Vec::new()), (Vec::new(), false));
    }

    #[test]
    fn a_node_that_does_not_answer_is_read_again() {
        let mut asks = Asks::new(2);
        assert!(asks.handle_sign(0, at(0), at(200)));
        assert!(!asks.handle_sign(0, at(199), at(399)));
        assert!(asks.handle_sign(0, at(200), at(400)), "it holds no other read up for long");
        assert_eq!(asks.look_at(), None);
        asks.handle_missed(0, at(300));
        assert_eq!(asks.look_at(), Some(at(1_300)));
        assert!(asks.due(at(1_299)).is_empty());
        assert_eq!(asks.due(at(1_300)), [0]);
        assert!(asks.handle_sign(0, at(1_300), at(1_500)));
        assert_eq!((asks.look_at(), asks.due(at(9_000)).len()), (None, 0), "it is on its way");
    }
}
