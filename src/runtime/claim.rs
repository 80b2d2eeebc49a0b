//! One owner id's claim to a lock: everything that may have left keys on the nodes under it.

use std::sync::{Arc, OnceLock};

use crate::clock;
use crate::core::acquire::{Begin, Waits, WayOfWaiting, Whom};
use crate::core::base::{Basis, HoldClass, Time};
use crate::core::hold::{ExtendRequest, Releases, Terms};
use crate::core::vote::{
    Attempt, Cleanup, Confirmation, Extension, FencingToken, Permits, PermitsWanted, Release,
    Shared, only_asked,
};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::ident::Names;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::reply;
use crate::kinds::contract::requests::OwnerRequests;
use crate::node::{Ask, Driven, Node, Request, Sink};
use crate::runtime::client_state::ClientState;
use crate::runtime::fan_out::{Delivery, FanOut, Interrupts, Woken};
use crate::stats::LabelRecorder;
use crate::terms::{ACCESS_LISTS, MIN_HOLD};

/// The reason why a node's answer to a release does not count.
const UNCERTAIN: &str = "it has answered, but an earlier request over a broken connection may still \
                         arrive there and set the key again, so the release is repeated; with the \
                         permissions +client|id and +client|kill such connections are ended on the \
                         server";

/// The lock that is wanted, and its terms.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: &'static Kind,
    pub(crate) names: Names,
    pub(crate) terms: Terms,
    /// The permits of a semaphore that are wanted; `None`: the lock is not a semaphore.
    pub(crate) permits: Option<PermitsWanted>,
    /// The label of its owner; `None`: that of the client.
    pub(crate) label: Option<Arc<str>>,
    /// The recorder of its figures, beside that of the client.
    pub(crate) figures: Option<Arc<LabelRecorder>>,
}

impl Wanted {
    /// Returns the beginning of the owner, for operators.
    fn label<'a>(&'a self, state: &'a ClientState) -> &'a str {
        self.label.as_deref().unwrap_or_else(|| state.owner_label())
    }

    /// Returns the way in which a caller waits for the lock.
    pub(crate) fn waiting(&self) -> WayOfWaiting {
        self.kind.waiting(&self.names, self.permits)
    }
}

/// The fan-outs of an attempt.
#[derive(Clone)]
pub(crate) struct Asked {
    attempt: Arc<FanOut<Attempt>>,
    /// The write-back of the lock's number, if it was due.
    confirmation: Option<Arc<FanOut<Confirmation>>>,
}

impl Asked {
    /// Returns true if the node voted, so that it can be expected to vote again.
    pub(crate) fn has_vote_of(&self, node: usize) -> bool {
        self.attempt.with(|attempt| attempt.has_vote_of(node))
    }

    /// Returns the faults of the nodes in the last round: see [`FanOut::faults`].
    pub(crate) fn faults(&self, nodes: &[Node]) -> Vec<NodeFault> {
        let answer_by = self.attempt.with(|attempt| attempt.answer_by());
        match &self.confirmation {
            Some(round) => round.faults(nodes, answer_by),
            None => self.attempt.faults(nodes, answer_by),
        }
    }
}

/// An attempt under way, and later perhaps a held lock. Dropping it, in whatever state and for whatever reason, a panic
/// included, sends the releases that are due. The drop never waits on the network.
pub(crate) struct Claim {
    state: Arc<ClientState>,
    wanted: Wanted,
    owner: String,
    /// The owner of a lock that was downgraded, with its kind from then on.
    downgraded: OnceLock<(&'static Kind, String)>,
    /// Number of suspensions of this machine when the attempt began.
    suspensions: u64,
    /// The caller's priority and place in queues, as far as nodes may know them.
    waits: Waits,
    /// For a semaphore: the slots that are asked for.
    permits: Permits,
    asked: Asked,
    /// The request to the nodes, once some of them were asked.
    request: Option<Arc<Request>>,
    /// The number of the lock that was won; 0 without fencing.
    number: u64,
}

impl Claim {
    /// A claim whose attempt is about to be made: nothing has been sent yet.
    pub(crate) fn new(state: &Arc<ClientState>, wanted: &Wanted, begin: Begin) -> Self {
        let Begin { owner, suspensions, started, answer_by, waits, permits } = begin;
        let Terms { ttl, allowance, .. } = wanted.terms;
        let attempt = Attempt::new(state.nodes().len(), started, answer_by, ttl, allowance);
        Self {
            state: state.clone(),
            wanted: wanted.clone(),
            owner: wanted.kind.owner_text(wanted.label(state), owner),
            downgraded: OnceLock::new(),
            suspensions,
            waits,
            permits,
            asked: Asked {
                attempt: FanOut::new(attempt, reply::acquire, state.names()),
                confirmation: None,
            },
            request: None,
            number: 0,
        }
    }

    /// The lock was won under that number.
    pub(crate) fn won(&mut self, number: u64) {
        self.number = number;
    }

    /// Returns the token of the holder to which the lock was handed as the `sequence`-th; `None` without fencing.
    pub(crate) fn token(&self, sequence: u64) -> Option<FencingToken> {
        FencingToken::new(self.number, sequence)
    }

    pub(crate) fn state(&self) -> &Arc<ClientState> {
        &self.state
    }

    pub(crate) fn kind(&self) -> &'static Kind {
        self.wanted.kind
    }

    pub(crate) fn names(&self) -> &Names {
        &self.wanted.names
    }

    /// Returns the owner, as the nodes have it.
    pub(crate) fn owner(&self) -> &str {
        self.downgraded.get().map_or(&self.owner, |(_, owner)| owner)
    }

    /// The lock is shared from now on.
    pub(crate) fn downgrade(&self) {
        if let Some(downgraded) = self.kind().downgraded(&self.owner) {
            self.downgraded.get_or_init(|| downgraded);
        }
    }

    /// Returns the class in which the lock is held.
    fn class(&self) -> HoldClass {
        self.downgraded.get().map_or(self.kind(), |(kind, _)| *kind).hold_class
    }

    pub(crate) fn terms(&self) -> Terms {
        self.wanted.terms
    }

    /// Returns the number of suspensions of this machine when the attempt began.
    pub(crate) fn suspensions(&self) -> u64 {
        self.suspensions
    }

    pub(crate) fn round(&self) -> &Arc<FanOut<Attempt>> {
        &self.asked.attempt
    }

    pub(crate) fn asked(&self) -> Asked {
        self.asked.clone()
    }

    /// Asks those nodes for the lock. Returns their connections, if the caller drives these itself.
    #[must_use]
    pub(crate) fn ask<'a>(&mut self, whom: Whom, nodes: &'a [Node]) -> Option<Driven<'a>> {
        let ask = match self.request.take() {
            Some(request) => Ask::Taking(request),
            None => Ask::Taking(Arc::new(self.acquire_request())),
        };
        let asked = |node, _: &Node| whom.includes(node).then(|| ask.clone());
        let driven = self.round().ask_driving(nodes, asked);
        if let Ask::Taking(request) = ask {
            self.request = Some(request);
        }
        driven
    }

    /// Returns the requests for a lock that is held in that class.
    fn requests(&self, class: HoldClass) -> OwnerRequests<'_> {
        let Wanted { kind, names, .. } = &self.wanted;
        let downgraded = self.downgraded.get().filter(|_| class != kind.hold_class);
        let (kind, owner) = downgraded.map_or((*kind, &self.owner), |(kind, owner)| (*kind, owner));
        OwnerRequests {
            kind,
            names,
            mark_key: self.state.set().mark_key(),
            owner,
            permits: self.permits,
            number: self.number,
            quarantine: self.state.settings().restart_quarantine,
        }
    }

    /// Returns the request for the lock, with a new proposal for its number.
    fn acquire_request(&self) -> Request {
        let Wanted { names, terms, .. } = &self.wanted;
        let set = self.state.set();
        let fencing = self.state.settings().fencing && self.kind().has_numbers();
        let proposal = fencing.then(|| self.state.numbers().propose(names, set));
        if let Some(proposal) = proposal {
            self.round().with(|attempt| attempt.proposes(proposal));
        }
        self.requests(self.kind().hold_class).acquire(
            terms.ttl,
            self.waits,
            proposal.map(|proposal| proposal.number),
        )
    }

    /// Tells the nodes the lock's number.
    pub(crate) fn write_back(&mut self, number: u64) {
        let requests = self.requests(self.kind().hold_class);
        let Some(confirm) = requests.confirm(number) else { return };
        let nodes = self.nodes();
        let answer_by = self.round().with(|attempt| attempt.answer_by());
        let round = FanOut::new(
            Confirmation::new(nodes.len(), answer_by),
            reply::confirm,
            self.state.names(),
        );
        round.ask(nodes, &Ask::Holding(Arc::new(confirm)));
        self.asked.confirmation = Some(round);
    }

    /// Waits for the verdict on the write-back, at most until `until`.
    pub(crate) fn wait_for_confirmation(&self, until: Time, interrupts: Interrupts<'_>) -> Woken {
        match &self.asked.confirmation {
            Some(round) => round.wait(until, interrupts),
            None => Woken::Decided,
        }
    }

    /// Returns true if a majority has confirmed the lock's number.
    pub(crate) fn is_confirmed(&self) -> bool {
        let round = self.asked.confirmation.as_ref();
        round.is_some_and(|round| round.with(|confirmation| confirmation.confirmed()))
    }

    /// Asks the nodes to extend the keys.
    pub(crate) fn extend(
        &self,
        round: &Arc<FanOut<Extension>>,
        request: &ExtendRequest,
        delivery: Delivery,
    ) {
        let requests = self.requests(request.class);
        round.ask_some(self.nodes(), delivery, |i, node| {
            let extend = requests.extend(request, i, |until| node.clock_ms(until))?;
            Some(Ask::Holding(Arc::new(extend)))
        });
    }

    /// Gives everything back without waiting. The answers go to `sink`.
    pub(crate) fn release(&self, releases: &Releases, sink: Option<&Arc<dyn Sink>>) {
        let cleanups = self.close(releases);
        if !cleanups.is_empty() {
            let request = Arc::new(self.requests(releases.class).release());
            self.send_releases(&request, &cleanups, releases, sink, &mut None);
        }
    }

    /// Gives everything back, and counts the answers. They go through the sink that `sink` makes of the count. Also returns
    /// the nodes' connections, if the caller drives these itself.
    pub(crate) fn release_counted(
        &self,
        releases: &Releases,
        basis: Basis,
        sink: impl FnOnce(Arc<dyn Sink>) -> Arc<dyn Sink>,
    ) -> (Arc<FanOut<Release>>, Option<Driven<'_>>) {
        let nodes = self.nodes();
        // Late grants are read first, since the result of the release depends on the nodes that granted the lock.
        let mut driven = Driven::of(nodes, |_| true);
        driven.iter_mut().for_each(|driven| _ = driven.take_in());
        let cleanups = self.close(releases);
        let round = FanOut::new(
            Release::new(nodes.len(), &cleanups, basis),
            reply::release,
            self.state.names(),
        );
        round.expect(0..nodes.len());
        let request = Arc::new(self.requests(releases.class).release());
        let sink = sink(round.clone());
        self.send_releases(&request, &cleanups, releases, Some(&sink), &mut driven);
        for node in only_asked(nodes.len(), &cleanups) {
            let ask = Ask::Anyway(request.clone());
            match &mut driven {
                Some(driven) => driven.ask(&nodes[node], ask, &round),
                None => nodes[node].ask(ask, &round),
            }
        }
        (round, driven)
    }

    /// Returns the error if too few nodes have confirmed `release` until `answer_by`.
    pub(crate) fn unconfirmed(&self, release: &Arc<FanOut<Release>>, answer_by: Time) -> Error {
        let message = format!(
            "{} was given back, but too few nodes confirmed it for certain in time; these nodes are \
             told again while this process runs, and the keys of the lock end with their TTL, or with its {MIN_HOLD}, at the latest",
            self.wanted.names
        );
        let mut faults = release.faults(self.nodes(), answer_by);
        for node in release.with(|release| release.uncertain()) {
            let what = format!("{UNCERTAIN} (see {ACCESS_LISTS})");
            faults.push(NodeFault::new(&self.state.names()[node], what));
        }
        Error::new(ErrorKind::NoQuorum, message).with_faults(faults)
    }

    fn nodes(&self) -> &[Node] {
        self.state.nodes()
    }

    /// Closes the attempt: nothing more is sent for it.
    fn close(&self, releases: &Releases) -> Vec<Cleanup> {
        let cleanups = self.round().with(|attempt| attempt.close(self.number));
        Cleanup::with_kept(self.nodes().len(), cleanups, releases.kept)
    }

    fn send_releases(
        &self,
        request: &Arc<Request>,
        cleanups: &[Cleanup],
        releases: &Releases,
        sink: Option<&Arc<dyn Sink>>,
        driven: &mut Option<Driven<'_>>,
    ) {
        let &Releases { longest_ttl, kept, class, .. } = releases;
        let now = clock::now();
        for cleanup in cleanups {
            let node = &self.nodes()[cleanup.node];
            let plan = cleanup.plan(longest_ttl, kept, now);
            let special = self.requests(class).release_by(&plan, node.clock()).map(Arc::new);
            let request = special.as_ref().unwrap_or(request);
            let sink = sink.cloned();
            match driven {
                Some(driven) => driven.release(node, request, sink, plan.terms()),
                None => node.release(request, sink, plan.terms()),
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let releases = Releases::of_nobody(self.class(), self.wanted.terms, clock::now());
        self.release(&releases, None);
    }
}
