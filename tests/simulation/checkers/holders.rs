//! A lock is given back to the nodes by its last holder, and by no other one.

use crate::core::hold::Ended;

/// Checks the outcome for a lock that one holder has left while so many `others` hold it. Returns a violation, if there is one.
pub(in super::super) fn ended_with_its_last_holder(ended: Ended, others: usize) -> Option<String> {
    match ended {
        Ended::Now(_) if others > 0 => Some(format!("given back while {others} others hold it")),
        Ended::OthersHold { .. } if others == 0 => {
            Some("left by all, and not given back".to_owned())
        }
        _ => None,
    }
}
