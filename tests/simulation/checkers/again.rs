//! A thread takes again what it holds: at once, with the same token, on the same lease. It never takes a lost lock.

/// What came of a call for a lock that its thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Again {
    Taken,
    Lost,
    /// The nodes are not one set of ours.
    Disagree,
    /// The call asks nodes, waits, or is refused in another way.
    Waits,
}

/// What is wrong with that. `is_lost`: the lock was lost before. `same_token`: what was taken has the token of the first hold.
/// `same_end`: the lease is valid for as long as before.
pub(in super::super) fn taken_again(
    what: Again,
    is_lost: bool,
    same_token: Option<bool>,
    same_end: bool,
) -> Option<String> {
    let wrong = match what {
        Again::Taken if is_lost => "a lost lock was taken again",
        Again::Taken if same_token != Some(true) => "it was taken again, with another token",
        Again::Lost if !is_lost => "it is said to be lost, and is not",
        Again::Waits => "its own thread waits for it",
        _ if !same_end => "its lease is another one since it was taken again",
        _ => return None,
    };
    Some(wrong.to_owned())
}
