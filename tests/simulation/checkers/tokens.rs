//! The token of each holder is larger than the tokens of all previous holders that it excludes.

use std::collections::BTreeMap;

use crate::core::vote::FencingToken;
use crate::simulation::claim::Claim;
use crate::simulation::lock_id::LockId;

#[derive(Default)]
pub(super) struct Tokens {
    /// The largest token of each lock, and its owner.
    largest: BTreeMap<LockId, (Option<FencingToken>, String)>,
}

impl Tokens {
    /// Checks the token of the holder to which `claim` was handed as the `sequence`-th.
    pub(super) fn granted(&mut self, claim: &Claim, sequence: u64) -> Option<String> {
        let token = FencingToken::new(claim.number, sequence);
        let owner = format!("{} {sequence}", claim.short());
        let lock = claim.lock;
        let mut before = self.largest.iter().filter(|(other, _)| lock.excludes(**other));
        let found = before.find(|(_, (before, _))| token <= *before);
        let found = found.map(|(other, (before, whose))| {
            format!("{lock}: {owner} has {token:?}, and {whose} had {before:?} of {other}")
        });
        // Among holders that do not exclude each other, the largest token counts.
        if found.is_none() && self.largest.get(&lock).is_none_or(|(before, _)| *before < token) {
            self.largest.insert(lock, (token, owner));
        }
        found
    }
}
