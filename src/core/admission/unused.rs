//! The proof that no lock can be held in a set, although some of its nodes are in quarantine.
//!
//! A held lock has a key on each node of a majority, as long as these nodes have not forgotten it. So no lock is held if no node
//! has a key of a lock, and each node would still have such a key. A node that grants locks would have it: its mark says so. So
//! would a node that has been up, with all its keys, for longer than a lock lives without being renewed. All earlier locks have
//! ended since.
//!
//! An empty node proves nothing by itself. A server without persistence that was restarted a moment ago is as empty as a new one.

use std::time::Duration;

/// The possible error of the uptime that a server states: it counts whole seconds.
const ROUNDED_BY: Duration = Duration::from_secs(1);

/// One node's past, as far as a client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// It has forgotten no lock: it grants locks, or would if more nodes of its set did.
    Remembers,
    /// It had no mark when this client came and began its quarantine, and it was always a master.
    New,
    /// It is in quarantine for another reason, such as a clock that was set, or for one that this client has not seen.
    Unknown,
}

/// The reason why a node may have forgotten a lock that is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayHaveForgotten {
    /// Its past is not known.
    Unknown,
    /// Its keys have not been read to the end.
    Unread,
    /// It was started within the last second, or was emptied in this run.
    JustNow,
    /// It has run only for `ago`, and not for the time that is `needed`.
    Started { ago: Duration, needed: Duration },
}

/// Returns the reason why a node may have forgotten a lock that is still held. `whole_for` is the time for which it has kept all
/// its keys, as it says itself: zero if it was emptied in this run, `None` if its keys were not read to the end.
pub(crate) fn may_have_forgotten(
    past: Past,
    whole_for: Option<Duration>,
    max_ttl: Duration,
) -> Option<MayHaveForgotten> {
    // Clocks may drift apart by one per cent.
    let longest = max_ttl + max_ttl / 100 + ROUNDED_BY;
    match (past, whole_for) {
        (_, None) => Some(MayHaveForgotten::Unread),
        (Past::Remembers, Some(_)) => None,
        (Past::Unknown, Some(_)) => Some(MayHaveForgotten::Unknown),
        (Past::New, Some(Duration::ZERO)) => Some(MayHaveForgotten::JustNow),
        (Past::New, Some(whole_for)) => {
            let started = MayHaveForgotten::Started { ago: whole_for, needed: longest };
            (whole_for < longest).then_some(started)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_node_remembers_what_is_held_if_it_grants_or_has_run_for_longer_than_a_lock_lives() {
        use MayHaveForgotten::{JustNow, Started, Unknown, Unread};
        let why = |past, whole_for| may_have_forgotten(past, whole_for, S * 10);
        let started = |ago| Started { ago, needed: S * 11 + S / 10 };
        for (past, whole_for, expected) in [
            (Past::Remembers, Some(S * 100), None),
            (Past::Remembers, Some(Duration::ZERO), None),
            (Past::Remembers, None, Some(Unread)),
            (Past::New, Some(S * 12), None),
            // 11 s are too short: the uptime is rounded to a second, and clocks drift by 1 %.
            (Past::New, Some(S * 11), Some(started(S * 11))),
            (Past::New, Some(S), Some(started(S))),
            (Past::New, Some(Duration::ZERO), Some(JustNow)),
            (Past::New, None, Some(Unread)),
            (Past::Unknown, Some(S * 100), Some(Unknown)),
            (Past::Unknown, None, Some(Unread)),
        ] {
            assert_eq!(why(past, whole_for), expected, "{past:?} {whole_for:?}");
        }
    }
}
