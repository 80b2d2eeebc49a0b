//! The events that this crate tells, through `tracing`.

use std::sync::Arc;

use crate::error::NodeFault;

pub(crate) fn node_up(node: &Arc<str>) {
    tracing::info!(target: "quorlock", node = &**node, "node is up");
}

pub(crate) fn node_down(fault: &NodeFault) {
    tracing::warn!(target: "quorlock", node = fault.node(), reason = fault.what(), "node is down");
}

/// Too many releases wait for a node that is down.
pub(crate) fn release_dropped(node: &Arc<str>) {
    tracing::warn!(
        target: "quorlock",
        node = &**node,
        "too many releases wait for this node; the oldest is dropped and its key ends with its TTL"
    );
}

/// A node does not want to forget a lock, and asking again would not help.
pub(crate) fn release_refused(fault: &NodeFault) {
    tracing::warn!(
        target: "quorlock",
        node = fault.node(),
        reason = fault.what(),
        "a release was refused; its key ends with its TTL"
    );
}

pub(crate) fn quorum_lost(faults: &[NodeFault]) {
    let reasons: Vec<_> = faults.iter().map(ToString::to_string).collect();
    tracing::warn!(target: "quorlock", reasons = reasons.join("; "), "no quorum can be reached");
}

pub(crate) fn quorum_back() {
    tracing::info!(target: "quorlock", "a quorum can be reached again");
}
