//! A node that may have forgotten locks grants none before all of them have ended, and a client takes no node for another one.

use std::time::Duration;

use crate::core::admission::Identity;
use crate::core::admission::mark::{Mark, MarkState};

/// Returns a violation in a `mark` that was just written on the server `identity`, which has forgotten locks that may be held for
/// as long as `left`.
pub(in super::super) fn admitted_early(
    mark: &[u8],
    identity: &Identity,
    left: Duration,
) -> Option<String> {
    let mark = Mark::parse(std::str::from_utf8(mark).ok()?)?;
    let admits = mark.state == MarkState::Admitted && mark.identity == *identity;
    (admits && !left.is_zero()).then(|| format!("is admitted {left:?} too early"))
}

/// Returns a violation if `mark` does not name the server on which it was read.
pub(in super::super) fn wrong_mark(mark: &str, identity: &Identity) -> Option<String> {
    let named = Mark::parse(mark)?.identity;
    (named != *identity)
        .then(|| format!("whose mark names {named:?}, and was read on {identity:?}"))
}
