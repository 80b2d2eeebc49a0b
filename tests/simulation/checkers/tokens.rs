//! The number of a grant is larger than that of every grant of its name before.

use std::collections::BTreeMap;

use crate::simulation::claim::Claim;

#[derive(Default)]
pub(super) struct Tokens {
    /// The largest number of each name, and whose it was.
    largest: BTreeMap<usize, (u64, String)>,
}

impl Tokens {
    pub(super) fn granted(&mut self, claim: &Claim) -> Option<String> {
        let (number, owner) = (claim.number, claim.short().to_owned());
        let (before, whose) = self.largest.insert(claim.name, (number, owner.clone()))?;
        (number <= before).then(|| {
            format!(
                "name {}: {owner} has the number {number}, and {whose} had {before}",
                claim.name
            )
        })
    }
}
