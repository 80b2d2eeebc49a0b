//! The events that this crate reports through `tracing`.

use std::sync::Arc;
use std::time::Duration;

use crate::core::admission::ClockStep;
use crate::core::base::{exact, rounded};
use crate::core::hold::LossReason;
use crate::error::{Error, Grouped, NodeFault};
use crate::ident::{Names, Owner};
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;
use crate::terms::{KEY_PREFIX, MAX_TTL};

/// The recorder of the crate `metrics` has panicked, on the thread that reports to it.
#[cfg(feature = "metrics")]
pub(crate) fn metrics_failed() {
    tracing::warn!(
        target: "quorlock",
        "the recorder of metrics has panicked: the figures of this client are not reported any more"
    );
}

pub(crate) fn node_up(node: &Arc<str>) {
    tracing::info!(target: "quorlock", %node, "node is up");
}

pub(crate) fn node_down(fault: &NodeFault) {
    tracing::warn!(target: "quorlock", node = %fault.node(), reason = %fault.what(), "node is down");
}

/// A node may have forgotten locks, and grants nothing to newcomers.
///
/// The reason states by how much the quarantine of a promoted node is longer than `max_ttl`.
pub(crate) fn quarantined(fault: &NodeFault, ready_in: Option<Duration>, max_ttl: Duration) {
    // Zero means that the set grants locks already, without this node.
    let ready_in = ready_in.filter(|ready_in| !ready_in.is_zero());
    let ready_in = ready_in.map(|ready_in| tracing::field::display(rounded(ready_in)));
    tracing::warn!(
        target: "quorlock",
        node = %fault.node(),
        reason = %fault.what(),
        max_ttl = %exact(max_ttl),
        set_grants_locks_in = ready_in,
        "node is in quarantine: it grants no new locks for {MAX_TTL} at most, unless the reason names a longer time; held locks \
         stay valid, and a promoted node renews them after 13 s"
    );
}

pub(crate) fn admitted(node: &str) {
    tracing::info!(target: "quorlock", %node, "node is admitted");
}

/// A node's wall clock was set, as this client has noticed.
pub(crate) fn clock_was_set(node: &str, step: ClockStep, max_ttl: Duration) {
    match step {
        ClockStep::Forward(by) => tracing::warn!(
            target: "quorlock",
            %node,
            direction = "forward",
            by = %rounded(by),
            no_vote_for = %exact(max_ttl),
            "the clock of this node was set forward: locks may have ended too early on it, so it \
             grants none to anybody until all of them have ended"
        ),
        ClockStep::Back(by) => tracing::warn!(
            target: "quorlock",
            %node,
            direction = "back",
            by = %rounded(by),
            no_vote_for = %exact(Duration::ZERO),
            "the clock of this node was set back: no lock ends too early on it, and it grants locks \
             again as soon as its mark has the new time"
        ),
    }
}

/// Most of the nodes' clocks seem to have been set forward at once.
pub(crate) fn suspended(by: Duration) {
    tracing::error!(
        target: "quorlock",
        by = %rounded(by),
        "the clocks of most nodes advanced more than ours: this machine was suspended, or they \
         were set; all locks that this client holds are lost"
    );
}

/// No lock is taken anywhere, because of this node.
pub(crate) fn conflict(fault: &NodeFault) {
    tracing::error!(
        target: "quorlock",
        node = %fault.node(),
        reason = %fault.what(),
        "node forbids locks on the whole set"
    );
}

/// Several servers answer under the node's address.
pub(crate) fn several_servers(fault: &NodeFault) {
    tracing::error!(
        target: "quorlock",
        node = %fault.node(),
        reason = %fault.what(),
        "this node has no vote, neither for new locks nor for those that are held"
    );
}

/// A call waits until nodes are admitted.
pub(crate) fn waits_for_nodes(names: &Names, why: &str, faults: &[NodeFault]) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        reasons = %Grouped(faults),
        "a lock is waited for: {why}"
    );
}

/// A call without a deadline waits for a lock that its own thread took.
pub(crate) fn waits_for_itself(names: &Names) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        "a thread waits for a lock that it took itself, and whose guard was not dropped. An exclusive lock is not \
         reentrant: if the thread still has the guard, it waits until the lock ends, so never while it is renewed; \
         drop the guard first, or hand it on to the code that needs the lock, or use a reentrant lock in all places, or \
         wait with a deadline. If another async task on this thread has the guard, make the calls of both on threads that \
         may block (spawn_blocking); a reentrant lock would let both in"
    );
}

/// The certificate files cannot be used in their present state.
#[cfg(feature = "tls")]
pub(crate) fn certificates_unusable(error: &crate::error::Error) {
    tracing::warn!(
        target: "quorlock",
        %error,
        "the files of TLS certificates cannot be used as they are now; new connections use those read before"
    );
}

/// Live connections to the node need other credentials, and have none.
pub(crate) fn credentials_not_renewed(node: &Arc<str>, reason: &str) {
    tracing::warn!(
        target: "quorlock",
        %node,
        %reason,
        "no new credentials for the connections to this node; they keep the login that they have"
    );
}

/// A provider of credentials does not answer.
pub(crate) fn provider_silent(node: &Arc<str>, waited: Duration) {
    tracing::warn!(
        target: "quorlock",
        %node,
        waited = %rounded(waited),
        "the provider of credentials does not answer; without an answer, no new connection to this node logs in, and live \
         ones keep the login that they have"
    );
}

/// A server may drop keys of locks when its memory is full.
pub(crate) fn evicts(node: &Arc<str>, policy: &str) {
    tracing::warn!(
        target: "quorlock",
        %node,
        %policy,
        "this server may drop the keys of locks that are held; set maxmemory-policy to noeviction"
    );
}

/// Too many releases wait for a node that is down.
pub(crate) fn release_dropped(node: &Arc<str>) {
    tracing::warn!(
        target: "quorlock",
        %node,
        "too many releases wait for this node; one is dropped, and its key ends with its TTL"
    );
}

/// A node refuses to forget a lock. It gets the release again for a while, without another event.
pub(crate) fn release_refused(fault: &NodeFault) {
    tracing::warn!(
        target: "quorlock",
        node = %fault.node(),
        reason = %fault.what(),
        "a release was refused; the node is told again while the key can be there"
    );
}

/// A server does not let us subscribe to releases.
pub(crate) fn not_listening(fault: &NodeFault) {
    tracing::warn!(
        target: "quorlock",
        node = %fault.node(),
        reason = %fault.what(),
        "this node does not announce releases; waiters poll instead"
    );
}

pub(crate) fn quorum_lost(faults: &[NodeFault]) {
    tracing::warn!(target: "quorlock", reasons = %Grouped(faults), "no quorum can be reached");
}

pub(crate) fn quorum_back() {
    tracing::info!(target: "quorlock", "a quorum can be reached again");
}

/// A key without expiry blocks a lock on these nodes.
pub(crate) fn endless_key(names: &Names, nodes: &[Arc<str>]) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        key = %names.keys_text(),
        nodes = %nodes.join(", "),
        "the key of this lock has no expiry on these nodes, so the lock looks held for ever; \
         quorlock writes no such key: find out who wrote it, and delete it (DEL), or use another name or \
         {KEY_PREFIX}"
    );
}

/// Holders of a semaphore's permits use another number of permits than this client, for longer than a moment.
pub(crate) fn other_permits(names: &Names, here: u32, there: u64) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        permits_here = here,
        permits_there = there,
        "this semaphore has another number of permits here than for its holders; callers with different \
         numbers take turns, and none gets a permit while the others hold one: give it the same number everywhere"
    );
}

/// A lock was taken on the first node alone.
pub(crate) fn fell_back(names: &Names, owner: &str, node: &Arc<str>) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        %owner,
        %node,
        "no quorum can be reached; the lock rests on the first node alone"
    );
}

/// A renewal was not confirmed; it is tried again while the lock is valid.
pub(crate) fn not_renewed(names: &Names, owner: &str, faults: &[NodeFault]) {
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        %owner,
        reasons = %Grouped(faults),
        "a renewal was not confirmed in time"
    );
}

/// A lock is at risk, or is confirmed again.
pub(crate) fn risk(names: &Names, owner: &str, risk: &Risk) {
    match risk {
        Risk::AtRisk { remaining, reason, faults } => tracing::warn!(
            target: "quorlock",
            lock = %names.text(),
            %owner,
            lost_in = %rounded(*remaining),
            %reason,
            reasons = shown(faults),
            "a lock that is held is at risk: it is lost soon, unless a renewal is confirmed before"
        ),
        Risk::Recovered { remaining } => tracing::info!(
            target: "quorlock",
            lock = %names.text(),
            %owner,
            valid_for = %rounded(*remaining),
            "a lock that was at risk is confirmed again"
        ),
    }
}

/// The faults, if there are any.
fn shown(faults: &[NodeFault]) -> Option<tracing::field::DisplayValue<Grouped<'_>>> {
    (!faults.is_empty()).then(|| tracing::field::display(Grouped(faults)))
}

pub(crate) fn lost(names: &Names, owner: &str, reason: LossReason, faults: &[NodeFault]) {
    tracing::error!(
        target: "quorlock",
        lock = %names.text(),
        %owner,
        %reason,
        reasons = shown(faults),
        "a lock that is held was lost: stop what it protects; somebody else may hold it now"
    );
}

/// Somebody asks the holders of a lock to give it up.
pub(crate) fn asked(names: &Names, owner: &str, request: &ReleaseRequest) {
    tracing::info!(
        target: "quorlock",
        lock = %names.text(),
        %owner,
        reason = %request.reason,
        "the holder of a lock is asked to give it up"
    );
}

/// An operator takes a lock away from these owners, as nodes have named them.
pub(crate) fn forced(names: &Names, owners: &[Owner]) {
    const SHOWN: usize = 4;
    let shown: Vec<_> = owners.iter().take(SHOWN).map(Owner::to_string).collect();
    let more = if owners.len() > SHOWN { ", .." } else { "" };
    tracing::warn!(
        target: "quorlock",
        lock = %names.text(),
        owners = %format_args!("{}{more}", shown.join(", ")),
        "a lock is forced open: until its holders notice, they work on, and somebody else may hold it, too"
    );
}

/// A candidate with a thread of its own has stopped standing.
pub(crate) fn candidate_ended(election: &[u8], error: &Error) {
    tracing::error!(
        target: "quorlock",
        election = %crate::ident::text(election),
        %error,
        "a candidate for a leadership has ended, and does not stand again"
    );
}

/// The closure of a leader has panicked. Its term has ended, and it stands again.
pub(crate) fn leader_panicked(election: &[u8]) {
    tracing::error!(
        target: "quorlock",
        election = %crate::ident::text(election),
        "the closure of a leader has panicked: its term is given back, and the candidate stands again"
    );
}

/// A subscriber of the events was so slow that too many events were waiting.
pub(crate) fn events_dropped(how_many: u64) {
    tracing::warn!(
        target: "quorlock",
        how_many,
        "events were dropped, because the program's subscriber was too slow; the holders of \
         lost locks were still told"
    );
}

/// A callback gets no thread of its own, or waiters get no subscriber.
pub(crate) fn no_thread(error: &std::io::Error) {
    tracing::warn!(
        target: "quorlock",
        %error,
        "no thread could be started; a shared one takes over, or waiters poll for locks"
    );
}
