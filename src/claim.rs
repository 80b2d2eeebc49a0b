//! One owner id's claim to a lock: all that may have left keys on the nodes under it.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind};
use crate::ident::{Name, owner_text};
use crate::kinds::{Kind, reply};
use crate::node::{Node, Request, Sink};
use crate::quorum::{
    Attempt, Basis, Duty, Extension, Release, ReleaseResult, Terms, Time, Vote, drift,
};
use crate::round::{Interrupts, Round, Woken};

/// Which lock is wanted, and on what terms.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: &'static dyn Kind,
    pub(crate) name: Name,
    pub(crate) terms: Terms,
}

/// An attempt on its way, then perhaps a lock that is held. Dropping it, in whatever state and for
/// whatever reason, a panic included, sends the releases that are due; that never waits on the
/// network.
pub(crate) struct Claim {
    coordinator: Arc<Coordinator>,
    wanted: Wanted,
    owner: String,
    started: Time,
    attempt: Arc<Round<Attempt>>,
}

impl Claim {
    /// A claim whose attempt is about to be made: nothing has been sent yet.
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        wanted: &Wanted,
        owner: u128,
        started: Time,
        answer_by: Time,
    ) -> Self {
        let Terms { ttl, mechanisms, .. } = wanted.terms;
        let attempt = Attempt::new(coordinator.nodes().len(), started, answer_by, ttl, mechanisms);
        Self {
            coordinator: coordinator.clone(),
            wanted: wanted.clone(),
            owner: owner_text(owner),
            started,
            attempt: Round::with_replicated(
                attempt,
                reply::acquire,
                |vote| matches!(vote, Vote::Granted(_)),
                coordinator.names(),
            ),
        }
    }

    pub(crate) fn coordinator(&self) -> &Arc<Coordinator> {
        &self.coordinator
    }

    pub(crate) fn name(&self) -> &Name {
        &self.wanted.name
    }

    pub(crate) fn terms(&self) -> Terms {
        self.wanted.terms
    }

    /// When the attempt began, before anything was sent.
    pub(crate) fn started(&self) -> Time {
        self.started
    }

    pub(crate) fn round(&self) -> &Arc<Round<Attempt>> {
        &self.attempt
    }

    /// Asks all nodes, and waits for the verdict.
    pub(crate) fn attempt(&self, answer_by: Time, interrupts: Interrupts<'_>) -> Woken {
        let Wanted { kind, name, terms } = &self.wanted;
        let request = kind.acquire(name.key(), &self.owner, terms.ttl);
        self.attempt.ask(self.nodes(), &Arc::new(request));
        self.attempt.wait(answer_by, interrupts)
    }

    /// Asks all nodes to let the keys live for `ttl` from now on, and to set them again, until
    /// `repair_until`, where they are gone.
    pub(crate) fn extend(
        &self,
        round: &Arc<Round<Extension>>,
        ttl: Duration,
        repair_until: Option<Time>,
    ) {
        let Wanted { kind, name, .. } = &self.wanted;
        round.ask_each(self.nodes(), |node| {
            let repair_until_ms = repair_until.map_or(0, |until| node.clock_ms(until));
            Arc::new(kind.extend(name.key(), &self.owner, ttl, repair_until_ms))
        });
    }

    /// Gives everything back without waiting; keys may live for `longest_ttl` from now on at most.
    pub(crate) fn release(&self, longest_ttl: Duration) {
        let duties = self.close();
        if !duties.is_empty() {
            self.send_releases(&self.release_request(), &duties, longest_ttl, None);
        }
    }

    /// Gives everything back, and waits until a majority is certainly without our keys. With
    /// `no_wait` it does not.
    pub(crate) fn release_and_wait(
        &self,
        longest_ttl: Duration,
        basis: Basis,
        no_wait: bool,
    ) -> Result<ReleaseResult, Error> {
        let duties = self.close();
        let nodes = self.nodes();
        let round = Round::new(
            Release::new(nodes.len(), &duties, basis),
            reply::release,
            self.coordinator.names(),
        );
        round.expect(0..nodes.len());
        let request = self.release_request();
        let sink: Arc<dyn Sink> = round.clone();
        self.send_releases(&request, &duties, longest_ttl, Some(&sink));
        for (i, node) in nodes.iter().enumerate() {
            if duties.iter().all(|duty| duty.node != i) {
                node.ask(&request, &round);
            }
        }
        if no_wait {
            return Ok(ReleaseResult::Unconfirmed);
        }
        let answer_by = clock::now().after(self.coordinator.settings().node_timeout);
        round.wait_uninterrupted(answer_by);
        match round.with(|release| release.result()) {
            ReleaseResult::Unconfirmed => {
                let message = format!(
                    "{} was given back, but too few nodes confirmed it in time; they are told again \
                     when they come back, and its keys end with their TTL at the latest",
                    self.wanted.name
                );
                Err(Error::new(ErrorKind::NoQuorum, message)
                    .with_faults(round.faults(nodes, answer_by)))
            }
            result => Ok(result),
        }
    }

    fn nodes(&self) -> &[Node] {
        self.coordinator.nodes()
    }

    /// Nothing more is sent for the attempt from here on.
    fn close(&self) -> Vec<Duty> {
        self.attempt.with(Attempt::close)
    }

    fn release_request(&self) -> Arc<Request> {
        let Wanted { kind, name, .. } = &self.wanted;
        Arc::new(kind.release(name.key(), &self.owner))
    }

    fn send_releases(
        &self,
        request: &Arc<Request>,
        duties: &[Duty],
        longest_ttl: Duration,
        sink: Option<&Arc<dyn Sink>>,
    ) {
        // On the node's clock, which may be slower than ours.
        let gone_at = clock::now().after(longest_ttl).after(drift(longest_ttl));
        for duty in duties {
            let until = (!duty.ghost).then_some(gone_at);
            self.nodes()[duty.node].release(request, sink.cloned(), until);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release(self.wanted.terms.ttl);
    }
}
