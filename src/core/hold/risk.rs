//! Early warning: the time at which a lock's holder is told that its renewals fail, while the lock is still valid.

use std::fmt;
use std::time::Duration;

use super::super::base::Time;

/// The reason for which a lock is at risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RiskReason {
    /// Too few nodes confirmed the last renewals in time.
    NotConfirmed,
    /// A renewal is under way, and too few nodes have answered it so far.
    NotAnswered,
    /// A renewal is due and has not begun: this process, or its machine, is too slow.
    Late,
}

/// The second half of a sentence that begins with "the lock is at risk:".
impl fmt::Display for RiskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotConfirmed => "too few nodes confirm its renewals",
            Self::NotAnswered => "too few nodes have answered its renewal so far",
            Self::Late => "its renewal is late, because this process or its machine is too slow",
        })
    }
}

/// A message that the holders are to be told now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RiskNews {
    /// The lock ends after `remaining`, unless a renewal is confirmed before.
    AtRisk { reason: RiskReason, remaining: Duration },
    /// A renewal was confirmed since the warning.
    Recovered { remaining: Duration },
}

/// The state of the warning about one lock.
///
/// The margins are fractions of the validity that the last confirmed request has set. Each renewal begins with more
/// than half of that validity left. So with a margin of half of it, a renewal that is confirmed at once causes no
/// warning. After two failed renewals, the warning comes with two fifths left. With a TTL of 10 s, about 5 s are left
/// when a renewal after an outage of one second is confirmed, so such an outage causes no warning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Risk {
    /// The validity that the last confirmed request has set, counted from the time at which it was sent. It is no
    /// longer than the TTL: renewals go on during a longer extension, and do not move its end.
    span: Duration,
    /// Number of renewals and extensions in a row that were not confirmed.
    failed: u32,
    /// The end of validity at the warning; `None`: the holders are not warned.
    warned_of: Option<Time>,
}

impl Risk {
    /// The risk of a lock that was asked for at `started`, and is valid until `valid_until`.
    pub(super) fn new(ttl: Duration, started: Time, valid_until: Time) -> Self {
        Self { span: valid_until.since(started).min(ttl), failed: 0, warned_of: None }
    }

    /// A request that was sent at `started` has set another end of validity.
    pub(super) fn handle_new_end(&mut self, ttl: Duration, started: Time, valid_until: Time) {
        self.span = valid_until.since(started).min(ttl);
    }

    /// Too few nodes confirmed a renewal, or an extension.
    pub(super) fn handle_failed(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// A majority confirmed a renewal, or an extension.
    pub(super) fn handle_confirmed(&mut self) {
        self.failed = 0;
    }

    /// The warning is over, or the lock has another holder, which was not warned yet.
    pub(super) fn forget_warning(&mut self) {
        self.warned_of = None;
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed > 0
    }

    pub(super) fn is_warned(&self) -> bool {
        self.warned_of.is_some()
    }

    /// Returns the time from which the lock is at risk, if nothing is confirmed before. `margin` is the holder's own
    /// setting.
    pub(super) fn begins_at(&self, margin: Option<Duration>, valid_until: Time) -> Time {
        let margin = match margin {
            Some(margin) => margin.min(self.span / 2),
            None if self.failed >= 2 => self.span * 2 / 5,
            None => self.span / 3,
        };
        valid_until.before(margin)
    }

    /// The holders are being warned of that end of validity.
    pub(super) fn handle_warned(&mut self, valid_until: Time) {
        self.warned_of = Some(valid_until);
    }

    /// Returns true if a majority has moved the end since the warning, and nothing has failed since then.
    pub(super) fn is_confirmed(&self, valid_until: Time) -> bool {
        self.failed == 0 && self.warned_of.is_some_and(|end| end < valid_until)
    }
}
