//! The spans of calls and holds, through `tracing`. They are at the level of debugging, and cost nothing where it is off.

use std::time::Duration;

use tracing::Span;
use tracing::field::{Empty, display};

use crate::core::base::rounded;
use crate::ident::Names;

/// The span of a call for a lock. [`call_ends`] adds the outcome.
pub(crate) fn of_call(kind: &str, names: &Names) -> Span {
    let (outcome, waited) = (Empty, Empty);
    tracing::debug_span!(target: "quorlock", "quorlock.lock", kind, %names, outcome, waited)
}

pub(crate) fn call_ends(span: &Span, outcome: &str, waited: Duration) {
    if !span.is_disabled() {
        span.record("outcome", outcome).record("waited", display(rounded(waited)));
    }
}

/// The span of a hold, from the guard to its end. [`hold_ends`] adds how it ended.
pub(crate) fn of_hold(kind: &str, names: &Names, owner: &str) -> Span {
    let lost = Empty;
    tracing::debug_span!(target: "quorlock", "quorlock.held", kind, %names, owner, lost)
}

pub(crate) fn hold_ends(span: &Span, lost: bool) {
    span.record("lost", lost);
}
