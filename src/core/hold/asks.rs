//! The requests to the holders of a lock to give it up, as far as nodes have told of them.

use std::mem;

use super::super::base::Time;

/// A request, as a node keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    /// Two requests never have the same.
    pub(crate) id: String,
    pub(crate) reason: String,
}

/// The state of one lock whose holders want to be told.
///
/// A node keeps the last request. It is read when the node tells that there is one, when a message may have been missed, and along
/// with each renewal.
#[derive(Debug)]
pub(super) struct Asks {
    /// The request that the holders were told last.
    told: Option<ReadRequest>,
    nodes: Vec<AskedNode>,
}

#[derive(Clone, Debug, Default)]
struct AskedNode {
    /// The last request that was read there. Nodes may keep different ones.
    seen: Option<ReadRequest>,
    /// Until when a read is on its way.
    reads_until: Option<Time>,
    /// There was a further sign since it was sent.
    again: bool,
}

impl Asks {
    pub(super) fn new(nodes: usize) -> Self {
        Self { told: None, nodes: vec![AskedNode::default(); nodes] }
    }

    /// There may be a request at that node. Returns whether to read it now, which is answered until `until`; otherwise
    /// a read is on its way, and a further one may follow it.
    pub(super) fn handle_sign(&mut self, node: usize, now: Time, until: Time) -> bool {
        let read = &mut self.nodes[node];
        let is_under_way = read.reads_until.is_some_and(|until| now < until);
        read.again = is_under_way;
        if !is_under_way {
            read.reads_until = Some(until);
        }
        !is_under_way
    }

    /// The node has answered; `None`: it keeps no request, or did not say. Returns the request if the holders are to be told, and
    /// whether to read the node once more.
    pub(super) fn handle_read(
        &mut self,
        node: usize,
        request: Option<ReadRequest>,
    ) -> (Option<&ReadRequest>, bool) {
        let again = mem::take(&mut self.nodes[node].again);
        self.nodes[node].reads_until = None;
        let Some(request) = request else { return (None, again) };
        let is_news = !self.nodes.iter().any(|node| node.seen.as_ref() == Some(&request));
        self.nodes[node].seen = Some(request.clone());
        (is_news.then(|| &*self.told.insert(request)), again)
    }

    /// Returns the request that the holders were told last.
    pub(super) const fn told(&self) -> Option<&ReadRequest> {
        self.told.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn request(id: &str) -> ReadRequest {
        ReadRequest { id: id.to_owned(), reason: "deploy".to_owned() }
    }

    #[test]
    fn one_request_on_several_nodes_is_told_once_and_another_one_as_well() {
        let mut asks = Asks::new(3);
        assert_eq!(asks.handle_read(0, None), (None, false));
        assert_eq!(asks.handle_read(1, Some(request("a"))).0, Some(&request("a")));
        assert_eq!(asks.handle_read(2, Some(request("a"))).0, None);
        assert_eq!(asks.handle_read(0, None).0, None, "it is over there");
        assert_eq!(asks.handle_read(1, Some(request("a"))).0, None, "it was told");
        assert_eq!(asks.handle_read(1, Some(request("b"))).0, Some(&request("b")));
        assert_eq!(asks.told(), Some(&request("b")));
    }

    #[test]
    fn different_requests_at_different_nodes_are_told_once_each() {
        let mut asks = Asks::new(2);
        for turn in 0..3 {
            let news = asks.handle_read(0, Some(request("a"))).0.cloned();
            assert_eq!(news, (turn == 0).then(|| request("a")));
            let news = asks.handle_read(1, Some(request("b"))).0.cloned();
            assert_eq!(news, (turn == 0).then(|| request("b")));
        }
    }

    #[test]
    fn a_sign_during_a_read_leads_to_one_further_read() {
        let mut asks = Asks::new(2);
        assert!(asks.handle_sign(0, at(0), at(200)));
        assert!(!asks.handle_sign(0, at(10), at(210)) && !asks.handle_sign(0, at(20), at(220)));
        assert!(asks.handle_sign(1, at(20), at(220)), "another node");
        assert_eq!(asks.handle_read(0, None), (None, true));
        assert!(asks.handle_sign(0, at(30), at(230)));
        assert_eq!(asks.handle_read(0, None), (None, false));
    }

    #[test]
    fn a_read_that_is_not_answered_holds_no_other_one_up_for_long() {
        let mut asks = Asks::new(1);
        assert!(asks.handle_sign(0, at(0), at(200)));
        assert!(!asks.handle_sign(0, at(199), at(399)));
        assert!(asks.handle_sign(0, at(200), at(400)));
    }
}
