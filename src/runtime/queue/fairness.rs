//! The locks for which others wait elsewhere, and what is known of them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::clock;
use crate::core::Fairness;

/// By key. A lock that nobody else waits for is not in here.
#[derive(Default)]
pub(super) struct FairnessByName {
    by_key: HashMap<Box<[u8]>, FairnessEntry>,
    /// With so many of them it is time to forget those that are over.
    sweep_at: usize,
}

pub(super) struct FairnessEntry {
    pub(super) fairness: Fairness,
    /// Who had the lock here last: what is told of that release is no news here.
    pub(super) last_owner: Option<Arc<str>>,
}

impl FairnessByName {
    pub(super) fn heard(&mut self, key: &[u8], others: u32) {
        let now = clock::now();
        if let Some(entry) = self.by_key.get_mut(key) {
            return entry.fairness.heard(others, now);
        }
        if self.by_key.len() >= self.sweep_at {
            self.by_key.retain(|_, entry| !entry.fairness.is_over(now));
            self.sweep_at = self.by_key.len() * 2 + 16;
        }
        let mut fairness = Fairness::new();
        fairness.heard(others, now);
        self.by_key.insert(key.into(), FairnessEntry { fairness, last_owner: None });
    }

    pub(super) fn of(&mut self, key: &[u8]) -> Option<&mut FairnessEntry> {
        self.by_key.get_mut(key)
    }
}
