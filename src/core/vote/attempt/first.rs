//! The first node's answer, where clients may fall back to it.

use super::super::super::base::{Mechanism, Rule, Time};
use super::super::Failure;
use super::{Answer, Attempt, Conclusion, Vote};

/// The first node's answer to an attempt that a majority has granted. Another client may hold the lock on that node
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstWord {
    /// It has neither voted nor failed.
    Open,
    /// It has granted the lock as well, so nobody else holds it there.
    Granted,
    /// It cannot be reached: a try to connect has failed since the attempt began, or the connection over which it was
    /// asked broke. It may be dead, or only out of our reach.
    Unreachable,
    /// It can be reached and has not granted the lock. The attempt ends with this conclusion.
    NotGranted(Conclusion),
}

impl Attempt {
    /// Notes whether the first node, should it have failed, is known to be reachable: it says that it is loading, busy, or
    /// takes no writes for now.
    pub(crate) fn first_says_no(&mut self, says_no: bool) {
        self.first_says_no = says_no;
    }

    /// The first node's answer so far.
    ///
    /// A node that can be reached and grants nothing may have forgotten the key of a client that fell back to it. Or
    /// it cannot say that the key is there. The majority of the others knows nothing of that holder.
    pub(crate) fn first_word(&self) -> FirstWord {
        let word = match self.slots[0].answer {
            Answer::Open => return FirstWord::Open,
            Answer::Voted(Vote::Granted(_)) => return FirstWord::Granted,
            Answer::Failed(Failure::NotSent | Failure::Unknown) if self.first_says_no => {
                Conclusion::Unreachable
            }
            Answer::Failed(Failure::NotSent | Failure::Unknown) => return FirstWord::Unreachable,
            Answer::Voted(Vote::Refused(remaining) | Vote::Queued { remaining, .. }) => {
                return FirstWord::NotGranted(Conclusion::Held { remaining });
            }
            Answer::Voted(Vote::Taken { remaining, .. } | Vote::OtherPermits { remaining, .. }) => {
                return FirstWord::NotGranted(Conclusion::Held { remaining: Some(remaining) });
            }
            Answer::Voted(Vote::NotAdmitted) | Answer::Failed(Failure::NotAdmitted) => {
                Conclusion::NotAdmitted
            }
            Answer::Voted(Vote::WrongKind) => Conclusion::WrongKind,
            Answer::Voted(Vote::Spent) => Conclusion::Spent,
            Answer::Voted(Vote::NoNumber) => Conclusion::NoNumber,
            Answer::Failed(Failure::Error) => Conclusion::Unreachable,
            Answer::Failed(Failure::Rejected) => Conclusion::Rejected,
        };
        FirstWord::NotGranted(word).if_off(Mechanism::FirstNodeMustGrant, FirstWord::Unreachable)
    }

    /// The conclusion if the first node's answer is enough, since no majority can be reached: won if that node
    /// granted. A key of another owner on any node still prevents it.
    pub(crate) fn conclude_on_first(&self, now: Time) -> Conclusion {
        let refused = self.count(|answer| answer.refusal().is_some());
        match self.slots[0].answer {
            // No majority knows this number. It rises as long as this node's number does, and the clocks agree.
            Answer::Voted(Vote::Granted(number)) if refused == 0 => self.conclude_won(now, number),
            answer => match answer.refusal() {
                Some(remaining) => Conclusion::Held { remaining },
                None => Conclusion::Unreachable,
            },
        }
    }
}
