//! Requests that a node runs, watched by the checkers.

use std::time::Duration;

use super::{Conn, ConnId, Event, Message, Network, Part, Way};
use crate::core::base::majority;
use crate::embedded::Reply;
use crate::simulation::checkers::{
    Ran, admitted_early, comes_back, is_back, left_behind, open_to_others, side_by_side, wrong_mark,
};
use crate::simulation::claim::{MARK, short};
use crate::simulation::node::SimNode;

/// For each key of a request's lock: true if its owner has it on a node.
fn has(at: &mut SimNode, part: &Part, now: Duration) -> Vec<bool> {
    part.keys.iter().map(|key| at.has(key, &part.owner, now)).collect()
}

impl Network {
    /// Runs the next request on the connection.
    pub(super) fn run(&mut self, id: ConnId) {
        let conn = &mut self.conns[id];
        let Some(message) = conn.requests.pop_front() else { return };
        let purpose = message.what();
        let Message { command, parts, by_hash } = message;
        let (client, node, open) = (conn.client, conn.node, conn.open && conn.reset.is_none());
        let now = self.now;
        let wall = self.nodes[node].wall(now);
        if command[0] == b"CLIENT" {
            let ended = self.end_others(node, &command[1..]);
            return self.answer(id, open, (ended, purpose), wall);
        }
        let at = &mut self.nodes[node];
        if !parts.is_empty() && !at.knows_script(&command[1], !by_hash) {
            self.unknown += 1;
            self.tell(|| format!("node {node}: NOSCRIPT to client {client}"));
            return self.answer(id, open, (Reply::Error("NOSCRIPT".to_owned()), purpose), wall);
        }
        let at = &mut self.nodes[node];
        let keys = parts.iter().flat_map(|part| part.keys.iter().map(move |key| (part, key)));
        let before: Vec<_> = keys
            .clone()
            .map(|(part, key)| (at.owners(key, now), at.end_ms(key, &part.owner, now)))
            .collect();
        let had: Vec<_> = parts.iter().map(|part| has(at, part, now)).collect();
        let reply = at.call(&command, now);
        if self.checks.promise_admission && matches!(purpose, "probe" | "change") {
            let identity = at.identity(now);
            if let (Reply::List(said), Some(identity)) = (&reply, &identity)
                && said.first() == Some(&Reply::Int(1))
            {
                let mark = at.value(MARK, now).unwrap_or_default();
                let left = at.forgot_until.saturating_sub(now);
                let found = admitted_early(&mark, identity, left);
                found.into_iter().for_each(|what| {
                    self.checks.report(now, "admission", format!("node {node} {what}"));
                });
            }
            self.conns[id].probed = identity;
        }
        for (part, had) in parts.iter().zip(&had) {
            let has = has(at, part, now);
            self.checks.changed(node, (&part.owner, part.what), had, &has, now);
        }
        let set_back = at.was_set_back;
        for ((Part { owner, what, .. }, key), (_, ended)) in keys.zip(&before) {
            let at = &mut self.nodes[node];
            let twice =
                at.slot_of_two(key, now).map(|slot| format!("node {node} has slot {slot} twice"));
            let found = side_by_side(node, key, &at.classes(key, now)).or(twice);
            let ends = at.end_ms(key, owner, now);
            let (in_flight, ended) = (!open, *ended);
            let closed_until = at.closed_until(key, owner, now);
            let ran =
                Ran { node, key, owner, what, in_flight, ended, ends, closed_until, set_back };
            self.checks.ran(&ran, now);
            found.into_iter().for_each(|what| self.checks.report(now, "nodes", what));
            if in_flight && ended.is_none() && ends.is_some() {
                comes_back(self, key, owner);
            }
            if *what == "extend" && ends.is_some() && ends != ended {
                is_back(self, key, owner);
            }
        }
        for Part { owner, what, .. } in &parts {
            self.checks.asked(node, owner, what, !open, now);
        }
        if let Reply::Error(text) = &reply
            && self.nodes[node].full == 0
            && !self.nodes[node].lacks_replicas
        {
            let what = parts.iter().map(|part| part.what).collect::<Vec<_>>().join(", ");
            self.checks.report(now, "errors", format!("node {node} answers {what} with {text}"));
        }
        before.into_iter().flat_map(|(owners, _)| owners).for_each(|owner| self.check_room(owner));
        self.deliver_published(node);
        parts.iter().flat_map(|part| part.keys.iter()).for_each(|key| self.check_whether_free(key));
        self.tell_of(node, client, open, &parts, &reply);
        self.check_end_of(id);
        self.answer(id, open, (reply, purpose), wall);
    }

    /// Checks a node that has run all that a client wrote over a connection before it gave that up.
    fn check_end_of(&mut self, id: ConnId) {
        let Conn { node, given_up_at, ref requests, .. } = self.conns[id];
        if let Some(given_up_at) = given_up_at.filter(|_| requests.is_empty())
            && let Some(what) = left_behind(self, node, given_up_at)
        {
            self.checks.report(self.now, "final", what);
        }
    }

    /// Notes that the client goes by the last probe over that connection.
    pub(in super::super) fn is_probed(&mut self, id: ConnId) {
        let Conn { client, node, ref probed, .. } = self.conns[id];
        self.links[client][node].probed.clone_from(probed);
    }

    /// Checks a client that takes a node for one that grants locks, since its mark is that one.
    pub(in super::super) fn check_mark(&mut self, client: usize, node: usize, mark: &str) {
        let probed = self.links[client][node].probed.as_ref();
        if let Some(what) = probed.and_then(|identity| wrong_mark(mark, identity)) {
            let what = format!("client {client} takes locks on node {node}, {what}");
            self.checks.report(self.now, "admission", what);
        }
    }

    /// Ends those connections to the node, if they are still there.
    fn end_others(&mut self, node: usize, ids: &[Vec<u8>]) -> Reply {
        for id in ids {
            let id: ConnId = String::from_utf8_lossy(id).parse().expect("an id of ours");
            let conn = &mut self.conns[id];
            conn.ended = true;
            conn.requests.clear();
            let client = conn.client;
            self.tell(|| format!("node {node}: client {client} ends its connection {id}"));
        }
        Reply::Int(1)
    }

    fn answer(
        &mut self,
        id: ConnId,
        open: bool,
        (reply, what): (Reply, &'static str),
        wall: Duration,
    ) {
        let Conn { client, node, .. } = self.conns[id];
        let now = self.now;
        if open {
            let at = now + self.delay(client, node, Way::ToClient);
            let at = at.max(self.conns[id].last_reply);
            let conn = &mut self.conns[id];
            conn.last_reply = at;
            conn.replies.push_back((reply, wall, what));
            self.schedule(at, Event::AtClient { conn: id });
            // The request has run, and its client will not know.
            if self.happens(self.flaky) {
                self.break_off(id);
            }
        }
    }

    fn tell_of(&mut self, node: usize, client: usize, open: bool, parts: &[Part], reply: &Reply) {
        self.batches += usize::from(parts.len() > 1);
        for (i, Part { owner, what, .. }) in parts.iter().enumerate() {
            self.tell(|| {
                let in_flight = if open { "" } else { " (in flight)" };
                let owner = short(owner.as_slice());
                let reply = match reply {
                    Reply::List(replies) if parts.len() > 1 => &replies[i],
                    reply => reply,
                };
                let answer = match reply {
                    // Answers to probes are long. Their first part says whether a change was made.
                    Reply::List(said) if *what == "change" => match said.first() {
                        Some(Reply::Int(1)) => String::new(),
                        _ => ": not made".to_owned(),
                    },
                    _ if *what == "probe" => String::new(),
                    reply => format!(" as {owner}: {reply:?}"),
                };
                let batch = if parts.len() > 1 { " in a batch" } else { "" };
                format!("node {node}: {what} of client {client}{batch}{answer}{in_flight}")
            });
        }
    }

    /// Checks an owner whose key was on a node before that node ran a request.
    fn check_room(&mut self, owner: String) {
        let lease = self.checks.lease_of(&owner).filter(|(_, until)| *until > self.now);
        if let Some((lock, until)) = lease {
            let found = open_to_others(self, lock, &owner, until);
            let now = self.now;
            found.into_iter().for_each(|what| self.checks.report(now, "exclusion", what));
        }
    }

    /// Notes whether a lock could be taken now.
    fn check_whether_free(&mut self, key: &[u8]) {
        if self.pair && key != MARK {
            let now = self.now;
            let owners = self.nodes.iter_mut().map(|node| node.owners(key, now));
            let taken = owners.filter(|owners| !owners.is_empty()).count();
            self.checks.is_free(self.nodes.len() - taken >= majority(self.nodes.len()), now);
        }
    }
}
