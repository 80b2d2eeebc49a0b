//! The faults of the masters.

use std::time::Duration;

use crate::support::Servers;

/// Faults of one master at a time: it is restarted without its data, or hangs for about a second. Kinds and
/// masters take turns.
#[derive(Debug)]
pub(crate) struct Faults {
    every: Duration,
    begun: u32,
    hangs: Option<usize>,
}

impl Faults {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, begun: 0, hangs: None }
    }

    /// Ends a hang that the last call began; otherwise begins a fault if one is due
    /// and `more` faults are wanted. Called once a second.
    pub(crate) fn go_on(&mut self, now: Duration, more: bool, servers: &mut Servers) {
        if let Some(master) = self.hangs.take() {
            servers[master].resume();
        } else if more && now >= self.every * (self.begun + 1) {
            let master = self.begun as usize % servers.len();
            if self.begun.is_multiple_of(2) {
                servers[master].restart_empty();
            } else {
                servers[master].pause();
                self.hangs = Some(master);
            }
            self.begun += 1;
        }
    }
}
