//! The reasons for which a command loses its lock.

use std::fmt;

use quorlock::LossReason;

use crate::exit::{LOST, MAX_HOLD};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The lock was held for as long as `--max-hold` allows, or is about to be.
    MaxHold,
    /// Too few masters have confirmed a renewal, and the lock's time is nearly over.
    NotRenewed,
    Lost(LossReason),
}

impl Why {
    /// Returns the reason after the library has found the lock lost for that `reason`.
    pub(super) fn after(before: Option<Self>, reason: LossReason) -> Self {
        match (before, reason) {
            (None | Some(Self::MaxHold), LossReason::MaxHold) => Self::MaxHold,
            // The first reason stays.
            (Some(before @ Self::Lost(_)), _) => before,
            (_, reason) => Self::Lost(reason),
        }
    }

    /// The exit code of `run` if the command was ended for this reason.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::MaxHold => MAX_HOLD,
            Self::NotRenewed | Self::Lost(_) => LOST,
        }
    }

    /// The state of the lock, without the reason.
    pub(super) fn in_short(self) -> &'static str {
        match self {
            Self::MaxHold => "reaches its --max-hold",
            Self::NotRenewed => "is not renewed, and is about to be lost",
            Self::Lost(_) => "is lost",
        }
    }
}

/// The text that follows the name of the lock.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.in_short())?;
        match self {
            Self::Lost(reason) => write!(f, ": {reason}"),
            Self::MaxHold | Self::NotRenewed => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_longest_hold_is_no_loss_unless_the_lock_was_lost_before() {
        use LossReason::{Expired, KeysGone, MaxHold, Unconfirmed};
        for (before, reason, after) in [
            (None, MaxHold, Why::MaxHold),
            (Some(Why::MaxHold), MaxHold, Why::MaxHold),
            (Some(Why::MaxHold), KeysGone, Why::Lost(KeysGone)),
            (Some(Why::NotRenewed), Unconfirmed, Why::Lost(Unconfirmed)),
            (Some(Why::Lost(KeysGone)), Expired, Why::Lost(KeysGone)),
            (None, KeysGone, Why::Lost(KeysGone)),
        ] {
            assert_eq!(Why::after(before, reason), after);
        }
        assert_eq!((Why::MaxHold.code(), Why::NotRenewed.code()), (124, 123));
    }
}
