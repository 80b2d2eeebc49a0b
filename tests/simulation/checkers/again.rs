//! Re-entry takes effect at once, with the same token, on the same lease. A thread never takes a lost lock again, and
//! never turns a shared hold into an exclusive one.

/// Outcome of a call for a lock that its thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Again {
    Taken,
    Lost,
    /// The call is refused, because the thread would wait for itself.
    Refused,
    /// The nodes are not one set of ours.
    Disagree,
    /// The call asks nodes, waits, or is refused in another way.
    Waits,
}

/// Returns a violation in that outcome, if there is one. `upgrades`: the thread shares the lock, and wants it for
/// itself alone. `is_lost`: the lock was lost before. `same_token`: the new hold has the token of the first one.
/// `same_end`: the lease is valid for as long as before.
pub(in super::super) fn taken_again(
    what: Again,
    upgrades: bool,
    is_lost: bool,
    same_token: Option<bool>,
    same_end: bool,
) -> Option<String> {
    let wrong = match what {
        Again::Taken if upgrades => "what its thread shares is its own alone now",
        Again::Refused if !upgrades => "it is refused to the thread that has it",
        Again::Taken if is_lost => "a lost lock was taken again",
        Again::Taken if same_token != Some(true) => "it was taken again, with another token",
        Again::Lost if !is_lost => "it is said to be lost, and is not",
        Again::Waits => "its own thread waits for it",
        _ if !same_end => "its lease is another one since it was taken again",
        _ => return None,
    };
    Some(wrong.to_owned())
}
