//! The token of each holder is larger than that of every holder of its name before.

use std::collections::BTreeMap;

use crate::core::FencingToken;
use crate::simulation::claim::Claim;

#[derive(Default)]
pub(super) struct Tokens {
    /// The largest token of each name, and whose it was.
    largest: BTreeMap<usize, (Option<FencingToken>, String)>,
}

impl Tokens {
    /// `claim` is held by the one to whom it was handed as the `sequence`-th.
    pub(super) fn granted(&mut self, claim: &Claim, sequence: u64) -> Option<String> {
        let token = FencingToken::new(claim.number, sequence);
        let owner = format!("{} {sequence}", claim.short());
        let name = claim.name;
        match self.largest.get(&name) {
            Some((before, whose)) if token <= *before => {
                Some(format!("name {name}: {owner} has {token:?}, and {whose} had {before:?}"))
            }
            _ => {
                self.largest.insert(name, (token, owner));
                None
            }
        }
    }
}
