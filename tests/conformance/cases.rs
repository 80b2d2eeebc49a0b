//! The test cases: promises, kinds and worlds.
//!
//! All combinations are some thousand tests. A fault that needs three conditions at once is rare, so the tests
//! have a covering array of strength two: any two values of the four parameters (promise, kind, topology, variant)
//! occur together in some test. See Kuhn, Kacker and Lei, "Practical Combinatorial Testing", NIST SP 800-142.

use std::collections::BTreeSet;

use crate::world::{TOPOLOGIES, VARIANTS};

/// A test: its promise, and the numbers of its kind, its topology and its variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) promise: &'static str,
    pub(crate) kind: usize,
    pub(crate) topology: usize,
    pub(crate) variant: usize,
}

/// All combinations. `promises` has the list of each kind.
pub(crate) fn product(promises: &[Vec<&'static str>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for (kind, promises) in promises.iter().enumerate() {
        for topology in 0..TOPOLOGIES.len() {
            for variant in 0..VARIANTS.len() {
                let case = |promise: &&'static str| Case { promise, kind, topology, variant };
                cases.extend(promises.iter().map(case));
            }
        }
    }
    cases
}

/// Cases that contain each pair of the product. Each promise goes through its kinds and through all topologies at
/// once. The next promise begins one topology later, so that kinds and topologies form pairs as well.
pub(crate) fn pairwise(promises: &[Vec<&'static str>]) -> Vec<Case> {
    let all: BTreeSet<_> = promises.iter().flatten().copied().collect();
    let mut cases = Vec::new();
    for (nth, promise) in all.into_iter().enumerate() {
        let kinds: Vec<_> =
            (0..promises.len()).filter(|kind| promises[*kind].contains(&promise)).collect();
        for row in 0..kinds.len().max(TOPOLOGIES.len()) {
            cases.push(Case {
                promise,
                kind: kinds[row % kinds.len()],
                topology: (row + nth) % TOPOLOGIES.len(),
                // After one round through the topologies, the variant changes. Otherwise each topology would meet only one.
                variant: (row + nth / TOPOLOGIES.len()) % VARIANTS.len(),
            });
        }
    }
    cases
}

/// Fails if `chosen` lacks a pair that `all` have.
pub(crate) fn check_pairs(chosen: &[Case], all: &[Case]) {
    let covered: BTreeSet<_> = chosen.iter().flat_map(pairs).collect();
    let missing: BTreeSet<_> =
        all.iter().flat_map(pairs).filter(|pair| !covered.contains(pair)).collect();
    assert!(missing.is_empty(), "no test has both: {missing:?}");
}

fn pairs(case: &Case) -> Vec<[String; 2]> {
    let Case { promise, kind, topology, variant } = case;
    let values = [
        format!("promise {promise}"),
        format!("kind {kind}"),
        format!("topology {topology}"),
        format!("variant {variant}"),
    ];
    let later = |first: usize| (first + 1..values.len()).map(move |second| (first, second));
    let both = (0..values.len()).flat_map(later);
    both.map(|(first, second)| [values[first].clone(), values[second].clone()]).collect()
}
