//! One owner id's claim to a lock, as `src/claim.rs` carries it.

use std::rc::Rc;
use std::time::Duration;

use super::client::{Client, Cx, Note};
use super::round::Round;
use super::worker::Outgoing;
use crate::ident::owner_text;
use crate::kinds::{EXCLUSIVE, reply};
use crate::node::Request;
use crate::quorum::{Attempt, Duty, Extension, Terms, Time};

pub(super) struct Claim {
    pub(super) name: usize,
    key: Rc<Vec<u8>>,
    pub(super) owner: String,
    pub(super) terms: Terms,
    pub(super) started: Time,
    pub(super) attempt: Rc<Round<Attempt>>,
}

impl Claim {
    pub(super) fn new(
        client: &Client,
        cx: &mut Cx<'_>,
        name: usize,
        terms: Terms,
        owner: u128,
        answer_by: Time,
        waiter: Note,
    ) -> Self {
        let started = cx.now();
        let attempt =
            Attempt::new(cx.settings.nodes, started, answer_by, terms.ttl, terms.mechanisms);
        let owner = owner_text(owner);
        cx.net.checks.claimed(&owner, client.process);
        Self {
            name,
            key: Rc::new(format!("name-{name}").into_bytes()),
            owner,
            terms,
            started,
            attempt: Rc::new(Round::new(attempt, reply::acquire, waiter)),
        }
    }

    /// The owner, for stories.
    pub(super) fn short(&self) -> &str {
        &self.owner[..4]
    }

    /// Asks all nodes.
    pub(super) fn ask(&self, client: &mut Client, cx: &mut Cx<'_>) {
        let request = EXCLUSIVE.acquire(&self.key, &self.owner, self.terms.ttl);
        let outgoing = self.outgoing(cx, &request, "acquire");
        for worker in &mut client.workers {
            worker.ask(cx, outgoing.clone(), self.attempt.clone());
        }
    }

    /// Asks all nodes to let the keys live for `ttl`, and to set them again until `repair_until`.
    pub(super) fn extend(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        round: &Rc<Round<Extension>>,
        ttl: Duration,
        repair_until: Option<Time>,
    ) {
        for worker in &mut client.workers {
            let until_ms = repair_until.map_or(0, |until| worker.clock_ms(until));
            let request = EXCLUSIVE.extend(&self.key, &self.owner, ttl, until_ms);
            let outgoing = self.outgoing(cx, &request, "extend");
            worker.ask(cx, outgoing, round.clone());
        }
    }

    pub(super) fn release_call(&self, cx: &Cx<'_>) -> Outgoing {
        self.outgoing(cx, &EXCLUSIVE.release(&self.key, &self.owner), "release")
    }

    pub(super) fn close(&self) -> Vec<Duty> {
        self.attempt.with(Attempt::close)
    }

    fn outgoing(&self, cx: &Cx<'_>, request: &Request, what: &'static str) -> Outgoing {
        Outgoing {
            command: Rc::new(cx.net.switches.applied(request.eval())),
            key: self.key.clone(),
            owner: Rc::new(self.owner.clone().into_bytes()),
            what,
        }
    }
}
