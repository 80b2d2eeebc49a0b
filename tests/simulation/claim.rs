//! One owner id's claim to a lock, as `src/runtime/claim.rs` carries it.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use super::client::{Client, Cx, Note};
use super::fan_out::FanOut;
use super::lock_id::LockId;
use super::network::Part;
use super::queue::QueueId;
use super::worker::Outgoing;
use crate::core::acquire::{Begin, Waits};
use crate::core::base::HoldClass;
use crate::core::hold::{ExtendRequest, Releases, Terms};
use crate::core::vote::{
    Attempt, Cleanup, Confirmation, Extension, Permits, Proposal, ReleasePlan, Shared,
};
use crate::ident::Names;
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::reply;
use crate::kinds::contract::requests::OwnerRequests;
use crate::node::Request;

/// Key of the mark on each node.
pub(super) const MARK: &[u8] = b"{quorlock}:mark";

/// The label of a client's owner texts. The labels differ in length. One is empty, and one contains the `#` that
/// separates label and random part.
pub(super) fn label(client: usize) -> &'static str {
    const LABELS: [&str; 4] =
        ["", "web-3:17", "a#b", "a-host-with-a-long-name.example.com:4194304"];
    LABELS[client % LABELS.len()]
}

/// Short form of an owner for stories: the first four characters of its random part.
pub(super) fn short(owner: impl AsRef<[u8]>) -> String {
    let random = owner.as_ref().rsplit(|byte| *byte == b'#').next().unwrap_or_default();
    String::from_utf8_lossy(&random[..random.len().min(4)]).into_owned()
}

pub(super) struct Claim {
    pub(super) lock: LockId,
    /// The local queue of its caller.
    pub(super) queue: QueueId,
    names: Names,
    /// Keys of the lock on the nodes.
    pub(super) keys: Rc<[Vec<u8>]>,
    owner: String,
    /// Kind and owner of the lock since it was downgraded.
    downgraded: OnceCell<(&'static Kind, String)>,
    pub(super) terms: Terms,
    /// Data about the waiting caller that nodes may keep.
    waits: Waits,
    /// The request for the lock, once it is made.
    request: OnceCell<Outgoing>,
    /// Slots that are asked for, if the lock is a semaphore.
    permits: Permits,
    /// Start of the attempt, in true time.
    pub(super) began: Duration,
    /// Number of suspensions of the client's machine before the attempt began.
    pub(super) suspensions: u64,
    pub(super) attempt: Rc<FanOut<Attempt>>,
    /// The number of the lock that was won; 0 without fencing.
    pub(super) number: u64,
    /// Time of the grant, in true time.
    pub(super) granted_at: Duration,
    /// True if the first node could not be reached at the time of the grant.
    pub(super) without_first: bool,
}

impl Claim {
    pub(super) fn new(
        client: &Client,
        cx: &mut Cx<'_>,
        queue: QueueId,
        terms: Terms,
        begin: Begin,
        waiter: Note,
    ) -> Self {
        let Begin { owner, suspensions, started, answer_by, waits, permits } = begin;
        let attempt =
            Attempt::new(cx.settings.nodes, started, answer_by, terms.ttl, terms.allowance);
        let lock = queue.lock;
        let owner = lock.kind().owner_text(label(cx.client), owner);
        let has_numbers = cx.settings.fencing && lock.kind().has_numbers();
        cx.net.told_since[cx.client].clear();
        cx.net.checks.claimed(&owner, client.process, cx.settings.may_end, has_numbers);
        Self {
            lock,
            queue,
            names: lock.names(),
            keys: lock.keys().collect(),
            owner,
            downgraded: OnceCell::new(),
            terms,
            waits,
            request: OnceCell::new(),
            permits,
            began: cx.net.now,
            suspensions,
            attempt: Rc::new(FanOut::new(attempt, reply::acquire, waiter)),
            number: 0,
            granted_at: Duration::ZERO,
            without_first: false,
        }
    }

    /// The owner, as the nodes know it.
    pub(super) fn owner(&self) -> &str {
        self.downgraded.get().map_or(&self.owner, |(_, owner)| owner)
    }

    /// The lock as it is held now. After a downgrade its kind is another one than the caller asked for.
    pub(super) fn held_as(&self) -> LockId {
        let lock = self.lock.with(self.permits);
        self.downgraded.get().map_or(lock, |(kind, _)| lock.of_kind(kind))
    }

    /// The key by which the holds of threads are counted.
    pub(super) fn of_group(&self) -> QueueId {
        self.queue.with_lock(self.lock.of_group())
    }

    /// Makes the lock shared from now on.
    pub(super) fn downgrade(&self) {
        if let Some(downgraded) = self.lock.kind().downgraded(&self.owner) {
            self.downgraded.get_or_init(|| downgraded);
        }
    }

    /// The owner, for stories.
    pub(super) fn short(&self) -> String {
        short(self.owner())
    }

    /// Sends the request for the lock to the nodes that `whom` selects.
    pub(super) fn ask(&self, client: &mut Client, cx: &mut Cx<'_>, whom: impl Fn(usize) -> bool) {
        let outgoing = self.request.get_or_init(|| self.acquire_request(client, cx));
        for (_, worker) in client.workers.iter_mut().enumerate().filter(|(node, _)| whom(*node)) {
            worker.ask_for_grant(cx, outgoing.clone(), self.attempt.clone());
        }
    }

    /// The request for the lock, with a new proposal for its number.
    fn acquire_request(&self, client: &Client, cx: &Cx<'_>) -> Outgoing {
        let has_numbers = cx.settings.fencing && self.lock.kind().has_numbers();
        let proposed = has_numbers.then(|| {
            let last = client.numbers.last_of(self.names.keys());
            let (set_time_us, several_us) = cx.shared.times_us(cx.now());
            Proposal::new(last, set_time_us, several_us)
        });
        if let Some(proposed) = proposed {
            self.attempt.with(|attempt| attempt.proposes(proposed));
        }
        let requests = self.requests(cx, self.lock.kind().hold_class);
        let request = requests.acquire(self.terms.ttl, self.waits, proposed.map(|it| it.number));
        self.outgoing(request, "acquire")
    }

    /// Sends the lock's number to all nodes, and counts their confirmations.
    pub(super) fn write_back(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        number: u64,
        waiter: Note,
    ) -> Rc<FanOut<Confirmation>> {
        let answer_by = self.attempt.with(|attempt| attempt.answer_by());
        let confirmation = Confirmation::new(cx.settings.nodes, answer_by);
        let round = Rc::new(FanOut::new(confirmation, reply::confirm, waiter));
        let request = self.requests(cx, self.lock.kind().hold_class).confirm(number);
        let Some(request) = request else { return round };
        let outgoing = self.outgoing(request, "confirm");
        for worker in &mut client.workers {
            worker.ask_for_holder(cx, outgoing.clone(), round.clone());
        }
        round
    }

    /// Asks nodes to extend the life of the keys.
    pub(super) fn extend(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        round: &Rc<FanOut<Extension>>,
        request: &ExtendRequest,
    ) {
        let requests = self.requests(cx, request.class);
        for (node, worker) in client.workers.iter_mut().enumerate() {
            let until_ms = |until| worker.clock_ms(cx, until);
            if let Some(extend) = requests.extend(request, node, until_ms) {
                let outgoing = self.outgoing(extend, "extend");
                worker.ask_for_holder(cx, outgoing, round.clone());
            }
        }
    }

    /// Builds the requests for a lock that is held as `class` says.
    fn requests(&self, cx: &Cx<'_>, class: HoldClass) -> OwnerRequests<'_> {
        let kind = self.lock.kind();
        let downgraded = self.downgraded.get().filter(|_| class != kind.hold_class);
        let (kind, owner) = downgraded.map_or((kind, &self.owner), |(kind, owner)| (*kind, owner));
        OwnerRequests {
            kind,
            names: &self.names,
            mark_key: MARK,
            owner,
            permits: self.permits,
            number: self.number,
            quarantine: cx.settings.quarantine,
        }
    }

    /// Builds a plain release.
    pub(super) fn release_call(&self, cx: &Cx<'_>, releases: &Releases) -> Outgoing {
        self.outgoing(self.requests(cx, releases.class).release(), "release")
    }

    /// Builds a release for `node`, as `plan` says.
    pub(super) fn release_by(
        &self,
        cx: &Cx<'_>,
        node: usize,
        releases: &Releases,
        plan: &ReleasePlan,
    ) -> Outgoing {
        let requests = self.requests(cx, releases.class);
        match requests.release_by(plan, cx.shared.offset(node)) {
            Some(special) => self.outgoing(special, "release"),
            None => self.release_call(cx, releases),
        }
    }

    pub(super) fn close(&self) -> Vec<Cleanup> {
        self.attempt.with(|attempt| attempt.close(self.number))
    }

    fn outgoing(&self, request: Request, what: &'static str) -> Outgoing {
        let owner = Rc::new(self.owner().as_bytes().to_vec());
        let part = Part { keys: self.keys.clone(), owner, what };
        Outgoing { request: Rc::new(request), part }
    }
}
