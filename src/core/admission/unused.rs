//! The proof that no lock can be held in a set, although some of its nodes are in quarantine.
//!
//! A lock that is held has a key on each node of a majority, as long as these have not forgotten it. So nobody holds one, if no
//! node has a key of a lock, and each of them would have it. A node that grants locks would: its mark says so. And so would a
//! node that has been there, with all its keys, for longer than a lock lives without being renewed. Whatever it had before
//! has ended since.
//!
//! That a node is empty says nothing by itself. A server without persistence that was restarted a moment ago is as empty as a new one.

use std::time::Duration;

/// How much a server's word of how long it has run may be off: it counts whole seconds.
const ROUNDED_BY: Duration = Duration::from_secs(1);

/// One node's past, as far as a client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// It grants locks, or would if more of its set did: it has forgotten none.
    Remembers,
    /// It had no mark when this client came, which has begun its quarantine; and it was always a master.
    New,
    /// It is in quarantine for a reason that this client has not seen, or that its keys do not survive: its clock was set.
    Unknown,
}

/// Why a node may have forgotten a lock that is still held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayHaveForgotten {
    /// Its past is not known.
    Unknown,
    /// Its keys have not been read to the end.
    Unread,
    /// It was started within the last second, or was emptied in this run.
    JustNow,
    /// It has run for so long only, and not as long as it would have to.
    Started { ago: Duration, needed: Duration },
}

/// Says why a node may have forgotten a lock that is still held. `whole_for` is for how long it has kept all its keys, by its own
/// word: zero if it was emptied in this run; `None` if its keys were not read to the end.
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
            // By its clock, which rounds; and 1 % of drift.
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
