//! A lock is valid for as long as its holder agreed to: no longer, and no shorter because of
//! something that was heard of it.

use crate::quorum::Time;
use crate::simulation::claim::Claim;

/// What is wrong with a lock of `claim` that says that it is valid until then: its holder asked for
/// nothing beyond `wanted`, and it was valid until `promised` before.
pub(super) fn broken(
    claim: &Claim,
    valid_until: Time,
    wanted: Time,
    promised: Time,
) -> Option<String> {
    let name = claim.short();
    let longest = claim.terms.max_hold.map(|max_hold| claim.started.after(max_hold));
    if longest.is_some_and(|longest| longest < valid_until) {
        let max_hold = claim.terms.max_hold.unwrap_or_default();
        Some(format!("{name} is valid for longer than the {max_hold:?} that it may be held"))
    } else if !claim.terms.renewed && wanted < valid_until {
        let beyond = valid_until.since(wanted);
        Some(format!("{name} is not renewed, and is valid {beyond:?} longer than was asked for"))
    } else if valid_until < promised {
        Some(format!("{name} was valid {:?} longer before", promised.since(valid_until)))
    } else {
        None
    }
}
