//! Early warning: the message that a lock may be lost soon.

use std::fmt;
use std::time::Duration;

use crate::core::base::rounded;
use crate::core::hold::RiskReason;
use crate::error::{Grouped, NodeFault};

/// A message of [`Guard::at_risk`](crate::Guard::at_risk).
///
/// `Display` shows it as a sentence without the lock's name, for a log: "at risk of being lost in 2.3 s: too few nodes
/// confirm its renewals (redis://10.0.0.1: connection refused; ..)".
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Risk {
    /// The lock is lost when that time is over, unless a renewal is confirmed before. Renewals continue.
    #[non_exhaustive]
    AtRisk {
        /// The validity left at the time of this message, as [`Guard::remaining`](crate::Guard::remaining) reported it then.
        remaining: Duration,
        /// The reason why it is at risk.
        reason: RiskReason,
        /// The fault of each node that has not confirmed the last renewal, or is known to be down; empty if the renewal is late.
        faults: Vec<NodeFault>,
    },
    /// A majority has confirmed a renewal, or an [`extend`](crate::Guard::extend), since the warning.
    #[non_exhaustive]
    Recovered {
        /// The validity left at the time of this message.
        remaining: Duration,
    },
}

impl Risk {
    /// Returns true for [`AtRisk`](Self::AtRisk).
    #[must_use]
    pub const fn is_at_risk(&self) -> bool {
        matches!(self, Self::AtRisk { .. })
    }

    /// Returns the validity left at the time of this message.
    #[must_use]
    pub const fn remaining(&self) -> Duration {
        match self {
            Self::AtRisk { remaining, .. } | Self::Recovered { remaining } => *remaining,
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtRisk { remaining, reason, faults } => {
                write!(f, "at risk of being lost in {}: {reason}", rounded(*remaining))?;
                if faults.is_empty() { Ok(()) } else { write!(f, " ({})", Grouped(faults)) }
            }
            Self::Recovered { remaining } => {
                write!(f, "confirmed again, and valid for {}", rounded(*remaining))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn it_is_a_sentence_with_the_time_that_is_left_the_reason_and_the_nodes_faults() {
        let fault = NodeFault::new(&Arc::from("redis://a"), "connection refused");
        let at_risk = |faults| Risk::AtRisk {
            remaining: Duration::from_millis(2_345),
            reason: RiskReason::NotConfirmed,
            faults,
        };
        let shown = at_risk(vec![fault]).to_string();
        let (time, reason) =
            ("at risk of being lost in 2.3 s", "too few nodes confirm its renewals");
        assert_eq!(shown, format!("{time}: {reason} (redis://a: connection refused)"));
        assert_eq!(at_risk(Vec::new()).to_string(), format!("{time}: {reason}"));
        let recovered = Risk::Recovered { remaining: Duration::from_secs(10) };
        assert_eq!(recovered.to_string(), "confirmed again, and valid for 10 s");
        assert!(!recovered.is_at_risk() && at_risk(Vec::new()).is_at_risk());
        assert_eq!(recovered.remaining(), Duration::from_secs(10));
    }
}
