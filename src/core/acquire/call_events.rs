//! The events of one call that figures count.

/// An event of a call that wants a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallEvent {
    /// The nodes granted an attempt.
    Granted,
    /// An attempt found the lock held.
    Refused,
    /// Contenders shared the nodes among them, so that none of them had a majority. Where that goes on, the lock is held.
    Split,
    /// Too few nodes answered an attempt in time.
    Unanswered,
    /// Too few nodes grant locks yet.
    NotAdmitted,
    /// Nodes answered an attempt with an error that does not pass.
    Rejected,
    /// A message about a release ended a wait.
    WokenByMessage,
    /// An attempt was granted after the keys of the holder had ended, and no message had ended the wait before it.
    WokenByExpiry,
    /// A wait ended after its pause, without a message.
    WokenByPoll,
}

impl CallEvent {
    /// All events, in their order.
    pub(crate) const ALL: [Self; 9] = [
        Self::Granted,
        Self::Refused,
        Self::Split,
        Self::Unanswered,
        Self::NotAdmitted,
        Self::Rejected,
        Self::WokenByMessage,
        Self::WokenByExpiry,
        Self::WokenByPoll,
    ];
}

/// The number of each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallEvents([u32; CallEvent::ALL.len()]);

impl CallEvents {
    pub(super) fn count(&mut self, event: CallEvent) {
        self.0[event as usize] += 1;
    }

    /// Returns each event with its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CallEvent, u32)> + '_ {
        CallEvent::ALL.into_iter().zip(self.0)
    }
}
