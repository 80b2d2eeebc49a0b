//! The troubles that the explorer may put in front of one event.

/// One trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Trouble {
    /// The request never arrives, nor does a later one over its connection. Nobody is told.
    RequestLost,
    /// The request, and all behind it on its connection, arrives after its client has given the connection up.
    RequestLate,
    /// As `RequestLate`, and after the lock that it is about has ended.
    RequestVeryLate,
    /// The request arrives behind all that are on their way.
    RequestDelayed,
    /// The request arrives just before the end of the time for its answer.
    RequestSlow,
    /// The answer never arrives, nor does a later one over its connection.
    AnswerLost,
    /// The answer arrives behind all messages that are on their way.
    AnswerDelayed,
    /// The answer arrives just before the end of its time, so that the clock reading with it is in doubt.
    AnswerSlow,
    /// The node's process ends, and another one begins at once, without its data.
    Amnesia,
    /// The node's process ends, and another one begins at once, with its data.
    Restarted,
    /// The node's data is flushed. No connection ends.
    Flushed,
    /// For a moment, the node was a replica of a copy that had only its mark. No connection ends.
    Promoted,
    /// The node's clock is set forward by a little less than the clock tolerance.
    StepBelow,
    /// The node's clock is set forward by a little more than the clock tolerance.
    StepJustAbove,
    /// The node's clock is set forward by more than any lock lives.
    StepAbove,
    /// A message between a subscriber and its node gets lost.
    MessageLost,
    /// Such a message arrives behind all that are on their way.
    MessageDelayed,
    /// The subscriber's connection ends, and it is told so. The message gets lost.
    SubscriptionCut,
    /// The client does not run until its requests have timed out.
    Suspended,
    /// The client does not run until its lock has ended.
    SuspendedLong,
    /// The client's process is killed. It is started again when everything is healed.
    Killed,
    /// The call ends, as if it were cancelled.
    CallEnds,
    /// An operator at the other client forces the lock open.
    Forced,
}

impl Trouble {
    pub(super) const ALL: [Self; 23] = [
        Self::RequestLost,
        Self::RequestLate,
        Self::RequestVeryLate,
        Self::RequestDelayed,
        Self::RequestSlow,
        Self::AnswerLost,
        Self::AnswerDelayed,
        Self::AnswerSlow,
        Self::Amnesia,
        Self::Restarted,
        Self::Flushed,
        Self::Promoted,
        Self::StepBelow,
        Self::StepJustAbove,
        Self::StepAbove,
        Self::MessageLost,
        Self::MessageDelayed,
        Self::SubscriptionCut,
        Self::Suspended,
        Self::SuspendedLong,
        Self::Killed,
        Self::CallEnds,
        Self::Forced,
    ];
}

/// A set of troubles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Troubles(u32);

impl Troubles {
    pub(super) const OF_REQUESTS: Self = Self::of(&[
        Trouble::RequestLost,
        Trouble::RequestLate,
        Trouble::RequestVeryLate,
        Trouble::RequestDelayed,
        Trouble::RequestSlow,
    ]);
    pub(super) const OF_ANSWERS: Self =
        Self::of(&[Trouble::AnswerLost, Trouble::AnswerDelayed, Trouble::AnswerSlow]);
    pub(super) const OF_NODES: Self = Self::of(&[
        Trouble::Amnesia,
        Trouble::Restarted,
        Trouble::Flushed,
        Trouble::Promoted,
        Trouble::StepBelow,
        Trouble::StepJustAbove,
        Trouble::StepAbove,
    ]);
    pub(super) const OF_SUBSCRIBERS: Self =
        Self::of(&[Trouble::MessageLost, Trouble::MessageDelayed, Trouble::SubscriptionCut]);
    pub(super) const OF_CLIENTS: Self = Self::of(&[
        Trouble::Suspended,
        Trouble::SuspendedLong,
        Trouble::Killed,
        Trouble::CallEnds,
        Trouble::Forced,
    ]);

    pub(super) const ALL: Self = Self((1 << Trouble::ALL.len()) - 1);

    /// All that may happen to a lock without anybody's order. A promotion is noticed by the next probe only, so it is left out.
    pub(super) const EVERY: Self =
        Self((1 << Trouble::Forced as u8) - 1).without(Self::of(&[Trouble::Promoted]));

    /// Most of these: a node that was flushed, or restarted with its data, is met by the same rules as one that has lost its
    /// data, and so is a clock step a little above the tolerance by those for a long one.
    pub(super) const MOST: Self = Self::EVERY.without(Self::of(&[
        Trouble::AnswerSlow,
        Trouble::Restarted,
        Trouble::Flushed,
        Trouble::StepJustAbove,
    ]));

    /// One or two of each sort, for runs with more deviations.
    pub(super) const FEW: Self = Self::of(&[
        Trouble::RequestLost,
        Trouble::RequestLate,
        Trouble::Amnesia,
        Trouble::StepBelow,
        Trouble::SuspendedLong,
        Trouble::Killed,
    ]);

    pub(super) const fn of(troubles: &[Trouble]) -> Self {
        let (mut bits, mut i) = (0, 0);
        while i < troubles.len() {
            bits |= 1 << troubles[i] as u8;
            i += 1;
        }
        Self(bits)
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn out_of(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Trouble> {
        Trouble::ALL.into_iter().filter(move |trouble| self.0 & 1 << *trouble as u8 != 0)
    }
}
