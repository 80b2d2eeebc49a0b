//! How the hosts' clients are set up: the right way, or a wrong one that the test has to find.

use std::time::Duration;

use quorlock::Builder;

/// How long the masters keep the lock of a round that was done, and of one whose host was killed. A restarted master
/// is in quarantine for as long. So a round may begin so late for a host on a busy machine before it is done twice.
pub(crate) const KEPT: Duration = Duration::from_secs(3);

/// How long a host waits that does not give up at once. It is much less than [`KEPT`], since the job must not be done
/// again at the end of that.
const WAIT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) min_hold: bool,
    pub(crate) quarantine: bool,
    /// Whether a host waits for a lock that is held, in place of trying once.
    pub(crate) waits: bool,
}

impl Settings {
    pub(crate) const RIGHT: Self = Self { min_hold: true, quarantine: true, waits: false };

    /// Names the settings to a host.
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

    /// How long a host waits for the lock. Zero is one try.
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
