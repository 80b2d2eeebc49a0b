//! The locks for which others wait elsewhere, and what is known of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock;
use crate::quorum::Courtesy;

/// By key. A lock that nobody else waits for is not in here.
#[derive(Default)]
pub(super) struct Manners {
    by_key: HashMap<Box<[u8]>, Manner>,
    /// With so many of them it is time to forget those that are over.
    sweep_at: usize,
}

pub(super) struct Manner {
    pub(super) courtesy: Courtesy,
    /// Who had the lock here last: what is told of that release is no news here.
    pub(super) last_owner: Option<Arc<str>>,
}

impl Manners {
    pub(super) fn heard(&mut self, key: &[u8], others: u32) {
        let now = clock::now();
        if let Some(manner) = self.by_key.get_mut(key) {
            return manner.courtesy.heard(others, now);
        }
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, manner| !manner.courtesy.is_over(now));
            self.sweep_at = self.by_key.len() * 2 + 16;
        }
        let mut courtesy = Courtesy::new();
        courtesy.heard(others, now);
        self.by_key.insert(key.into(), Manner { courtesy, last_owner: None });
    }

    pub(super) fn of(&mut self, key: &[u8]) -> Option<&mut Manner> {
        self.by_key.get_mut(key)
    }
}
