//! Scripted faults, for clients that are wrong in a way that random faults seldom expose.

use std::time::Duration;

use crate::links::Conditions;
use crate::plan::{Fault, Planned};

/// A script, and the wrong client that it exposes.
pub(crate) struct Script {
    pub(crate) client: &'static str,
    pub(crate) plan: fn(masters: usize, workers: usize) -> Vec<Planned>,
}

/// All scripts. The right client must pass each of them.
pub(crate) const SCRIPTS: &[Script] = &[
    Script { client: "single", plan: first_master_forgets },
    Script { client: "no-quarantine", plan: majority_forgets },
    Script { client: "fallback", plan: first_master_is_cut_off_from_the_others },
];

/// Time within which the contenders have taken locks that they hold for long.
const TAKEN: Duration = Duration::from_millis(800);

fn at(ms: u64, fault: Fault) -> Planned {
    Planned { at: TAKEN + Duration::from_millis(ms), lasts: Duration::from_millis(20), fault }
}

fn first_master_forgets(_masters: usize, _workers: usize) -> Vec<Planned> {
    vec![at(0, Fault::KillMaster { master: 0, empty: true }), at(1_500, Fault::Flush { master: 0 })]
}

/// A majority of the masters forgets, but not all: a held lock is still on a minority.
fn majority_forgets(masters: usize, _workers: usize) -> Vec<Planned> {
    let majority = 0..masters / 2 + 1;
    let kill = |master| at(10 * master as u64, Fault::KillMaster { master, empty: true });
    let flush = |master| at(1_500, Fault::Flush { master });
    majority.clone().map(kill).chain(majority.map(flush)).collect()
}

/// One worker reaches the first master alone, and falls back to it. The others reach all but that master, and get
/// the same locks from their majority. `OPERATIONS.md` and `Fallback` name this as the price of the fallback.
fn first_master_is_cut_off_from_the_others(masters: usize, workers: usize) -> Vec<Planned> {
    let conditions = Conditions { refused: true, ..Conditions::default() };
    let others = 1..masters;
    (0..workers)
        .map(|worker| {
            let masters = if worker == 0 { others.clone().collect() } else { [0].into() };
            let fault = Fault::Network { worker: Some(worker), masters, conditions };
            Planned { lasts: Duration::from_secs(6), ..at(0, fault) }
        })
        .collect()
}
