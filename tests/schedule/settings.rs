//! The settings of the hosts' clients: the right ones, or wrong ones that the test must expose.

use std::time::Duration;

use quorlock::Builder;

/// Time for which the masters keep the lock of a finished round, and of a round whose host was killed. A restarted
/// master's quarantine is as long. A host on a busy machine may be this late for a round before its job is done twice.
pub(crate) const KEPT: Duration = Duration::from_secs(3);

/// Time for which a patient host waits. It is much less than [`KEPT`], since the job must not be done
/// again when that is over.
const WAIT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) min_hold: bool,
    pub(crate) quarantine: bool,
    /// True if a host waits for a held lock, instead of trying once.
    pub(crate) waits: bool,
}

impl Settings {
    pub(crate) const RIGHT: Self = Self { min_hold: true, quarantine: true, waits: false };

    /// The environment variable with a host's settings.
    pub(crate) const VARIABLE: &str = "QUORLOCK_TEST_SETTINGS";

    pub(crate) fn to_text(self) -> String {
        format!("{} {} {}", self.min_hold, self.quarantine, self.waits)
    }

    pub(crate) fn from_env() -> Self {
        let text = std::env::var(Self::VARIABLE).expect("the test says how");
        let words: Vec<_> = text.split(' ').map(|word| word == "true").collect();
        let [min_hold, quarantine, waits] = words[..] else { panic!("three words: {text}") };
        Self { min_hold, quarantine, waits }
    }

    /// Time for which a host waits for the lock. Zero means one try.
    pub(crate) fn patience(self) -> Duration {
        if self.waits { WAIT } else { Duration::ZERO }
    }

    pub(crate) fn apply(self, builder: Builder) -> Builder {
        builder
            .ttl(KEPT)
            .max_ttl(KEPT)
            .min_hold(if self.min_hold { KEPT } else { Duration::ZERO })
            // A busy machine answers late.
            .node_timeout(KEPT / 3)
            .restart_quarantine(self.quarantine)
    }
}
