//! The spans of calls and holds, through `tracing`, at the level of debugging. Without a subscriber there are none, nor records of
//! the crate `log` in their place.

use std::time::Duration;

use tracing::Span;
use tracing::dispatcher::has_been_set;
use tracing::field::{Empty, display};

use crate::core::base::rounded;
use crate::ident::Names;

/// The span of a call for a lock. [`call_ends`] adds the outcome.
pub(crate) fn of_call(kind: &str, names: &Names) -> Span {
    if !has_been_set() {
        return Span::none();
    }
    let (outcome, waited) = (Empty, Empty);
    tracing::debug_span!(target: "quorlock", "quorlock.lock", kind, %names, outcome, waited)
}

pub(crate) fn call_ends(span: &Span, outcome: &str, waited: Duration) {
    if !span.is_disabled() {
        span.record("outcome", outcome).record("waited", display(rounded(waited)));
    }
}

/// The span of a hold, from the guard to its end. [`hold_ends`] adds how it ended.
///
/// It has no parent, since a guard may outlive the span in which it was taken. It follows from that one.
pub(crate) fn of_hold(kind: &str, names: &Names, owner: &str) -> Span {
    if !has_been_set() {
        return Span::none();
    }
    let lost = Empty;
    let span = tracing::debug_span!(target: "quorlock", parent: None, "quorlock.held", kind, %names, owner, lost);
    span.follows_from(Span::current());
    span
}

pub(crate) fn hold_ends(span: &Span, is_lost: impl FnOnce() -> bool) {
    if !span.is_disabled() {
        span.record("lost", is_lost());
    }
}
