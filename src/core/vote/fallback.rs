//! The nodes whose answers decide an attempt, where clients may fall back to the first node.

use std::time::Duration;

use super::super::base::{Basis, Mechanism, Time};
use super::attempt::first::FirstWord;
use super::{Attempt, Ballot, Conclusion};

/// The next need of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// The first node's answer, or the end of the time for answers; then judge again.
    HearFirst,
    /// The answers of all nodes, or the end of the time for them; then judge again.
    HearAll,
    /// Nothing; the attempt is over.
    Concluded(Judgement),
}

/// The end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    pub(crate) conclusion: Conclusion,
    /// The nodes that have decided the attempt.
    pub(crate) basis: Basis,
    pub(crate) quorum: Quorum,
}

/// The evidence of an attempt about the quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quorum {
    /// A majority voted.
    Reached,
    /// A majority was reached, and part of it gave no vote: it answered with errors, or too late.
    Failing,
    /// No majority could be reached.
    Missed,
    /// No evidence: the caller's own deadline cut the attempt short.
    Untold,
}

/// A lock that the nodes have granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) valid_until: Time,
    /// The lock's number; 0 without fencing.
    pub(crate) number: u64,
    pub(crate) basis: Basis,
    pub(crate) quorum: Quorum,
    pub(crate) started: Time,
    /// The time at which the client knew of the grant.
    pub(crate) known_at: Time,
    /// An earlier attempt of the call found the lock held by another owner, which is likely to want it
    /// again.
    pub(crate) refused_before: bool,
}

/// A change of the quorum that is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Lost,
    Back,
}

/// Returns true if an attempt waits for a try to connect while `node` is down, instead of failing at once.
///
/// Clients may fall back to the first node (`may_fall_back`). A node that is down for us may be back for
/// others, since we pause between our tries. Then another client may hold the lock on that node alone. A
/// try that began before the attempt says nothing either.
pub(crate) fn waits_for_a_try(node: usize, may_fall_back: bool) -> bool {
    node == 0 && may_fall_back && Mechanism::FirstNodeIsTried.is_on()
}

/// A client's knowledge of its quorum, from all its calls, and its effect on attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuorumHealth {
    /// Time without a quorum after which the first node decides alone; `None`: never.
    fall_back_after: Option<Duration>,
    /// The time that an attempt has if its caller does not cut it short.
    attempt_timeout: Duration,
    /// Start of the time in which no attempt has reached a majority.
    missed_since: Option<Time>,
    /// The last time at which a majority was reached.
    reached_at: Time,
    told_lost: bool,
}

impl QuorumHealth {
    pub(crate) fn new(fall_back_after: Option<Duration>, attempt_timeout: Duration) -> Self {
        Self {
            fall_back_after,
            attempt_timeout,
            missed_since: None,
            reached_at: Time::default(),
            told_lost: false,
        }
    }

    /// Returns true if clients may fall back to the first node.
    pub(crate) const fn may_fall_back(&self) -> bool {
        self.fall_back_after.is_some()
    }

    /// Judges an attempt whose verdict is reached, or whose time is over.
    pub(crate) fn judge(&self, attempt: &mut Attempt, now: Time) -> Judged {
        let over = attempt.answer_by() <= now;
        let decided = attempt.decided();
        // A verdict that is reached stays; an open one is settled by the answers so far.
        if !decided {
            attempt.expire();
        }
        let cut_short = attempt.answer_by() < attempt.started().after(self.attempt_timeout);
        let conclusion = attempt.conclude(now);
        let by_majority = |conclusion, quorum| {
            Judged::Concluded(Judgement { conclusion, basis: Basis::Majority, quorum })
        };
        match conclusion {
            // Another client may have fallen back to the first node. If fallback is on, the first node is
            // heard, and nothing is won without its grant, unless it cannot be reached.
            Conclusion::Won { .. } if self.fall_back_after.is_some() => {
                match attempt.first_word() {
                    // It answers, and not with a vote.
                    FirstWord::NotGranted(
                        instead @ (Conclusion::Unreachable | Conclusion::Rejected),
                    ) => by_majority(instead, Quorum::Failing),
                    FirstWord::NotGranted(instead) => by_majority(instead, Quorum::Reached),
                    FirstWord::Open if !over => Judged::HearFirst,
                    // It had no time to answer, so its silence is no evidence.
                    FirstWord::Open if cut_short => {
                        by_majority(Conclusion::Unreachable, Quorum::Untold)
                    }
                    FirstWord::Granted | FirstWord::Unreachable | FirstWord::Open => {
                        by_majority(conclusion, Quorum::Reached)
                    }
                }
            }
            Conclusion::Unreachable if cut_short && !decided => {
                by_majority(conclusion, Quorum::Untold)
            }
            Conclusion::Unconfirmed if cut_short => by_majority(conclusion, Quorum::Untold),
            Conclusion::Unreachable if self.first_decides(attempt.started()) => {
                if attempt.some_are_silent() && !over {
                    // Any of the other nodes may know of another holder.
                    Judged::HearAll
                } else if attempt.majority_reached() {
                    // That majority may know of another holder as well, and cannot report it now. The user
                    // must get its error, instead of weaker locks without notice.
                    by_majority(conclusion, Quorum::Failing)
                } else {
                    let conclusion = attempt.conclude_on_first(now);
                    let basis = match conclusion {
                        Conclusion::Unreachable => Basis::Majority,
                        _ => Basis::FirstNode,
                    };
                    Judged::Concluded(Judgement { conclusion, basis, quorum: Quorum::Missed })
                }
            }
            Conclusion::Unreachable
            | Conclusion::Rejected
            | Conclusion::TooLate
            | Conclusion::Unconfirmed => {
                let failing = attempt.majority_reached();
                by_majority(conclusion, if failing { Quorum::Failing } else { Quorum::Missed })
            }
            // One node's answer says nothing about the others.
            _ if attempt.preferred().is_some() => by_majority(conclusion, Quorum::Untold),
            _ => by_majority(conclusion, Quorum::Reached),
        }
    }

    /// Notes the evidence of an attempt that began at `started`, by `now`. Returns a change that is to be
    /// reported.
    pub(crate) fn note(&mut self, quorum: Quorum, started: Time, now: Time) -> Option<News> {
        match quorum {
            Quorum::Untold => return None,
            Quorum::Reached | Quorum::Failing => {
                self.missed_since = None;
                self.reached_at = self.reached_at.max(now);
            }
            // Attempts overlap. An attempt that began before another one reached a majority says nothing
            // about the time before that.
            Quorum::Missed => {
                self.missed_since.get_or_insert(started.max(self.reached_at));
            }
        }
        let lost = quorum != Quorum::Reached;
        let told = std::mem::replace(&mut self.told_lost, lost);
        (told != lost).then_some(if lost { News::Lost } else { News::Back })
    }

    fn first_decides(&self, started: Time) -> bool {
        match (self.fall_back_after, self.missed_since) {
            (Some(after), Some(since)) => started.since(since) >= after,
            _ => false,
        }
    }
}

#[cfg(test)]
#[path = "tests/fallback.rs"]
mod tests;
