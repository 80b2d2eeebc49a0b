//! Random plans stay within the guarantees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::plan::{Extent, Fault, Planned, random};

use super::Check;

pub(crate) const CHECKS: &[Check] = &[
    ("plan::a_seed_is_a_plan", a_seed_is_a_plan),
    ("plan::a_long_plan_has_faults_of_all_kinds", a_long_plan_has_faults_of_all_kinds),
    ("plan::masters_forget_by_some_faults_alone", masters_forget_by_some_faults_alone),
    ("plan::a_minority_is_impaired_at_a_time", a_minority_is_impaired_at_a_time),
    ("plan::a_clock_is_wrong_alone", a_clock_is_wrong_alone),
    (
        "plan::one_fault_at_a_time_where_that_is_asked_for",
        one_fault_at_a_time_where_that_is_asked_for,
    ),
    ("plan::all_is_healed_in_time", all_is_healed_in_time),
    ("plan::without_faketime_no_clock_is_set", without_faketime_no_clock_is_set),
];

const MAX_TTL: Duration = Duration::from_secs(3);

fn extent(seed: u64) -> Extent {
    let until = Duration::from_secs(600);
    let (apart, beyond) = (false, false);
    Extent { seed, until, masters: 5, workers: 4, max_ttl: MAX_TTL, clocks: true, apart, beyond }
}

fn plans() -> impl Iterator<Item = Vec<Planned>> {
    (0..20).map(|seed| random(extent(seed)))
}

fn a_seed_is_a_plan() {
    assert_eq!(random(extent(7)), random(extent(7)));
    assert_ne!(random(extent(7)), random(extent(8)));
}

fn a_long_plan_has_faults_of_all_kinds() {
    for plan in plans() {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for planned in &plan {
            *kinds.entry(planned.fault.kind()).or_default() += 1;
        }
        assert!(kinds.len() == 17 && kinds.values().all(|n| *n >= 3), "{kinds:#?}");
    }
}

fn masters_forget_by_some_faults_alone() {
    let (mut forget, mut others) = (BTreeSet::new(), BTreeSet::new());
    for planned in plans().flatten() {
        let kinds = if planned.fault.forgets() { &mut forget } else { &mut others };
        kinds.insert(planned.fault.kind());
    }
    let expected = [
        "clock of a master set back",
        "clock of a master set forward",
        "master flushed",
        "master killed, back empty",
        "master killed, back with its data",
    ];
    assert_eq!(forget, expected.map(str::to_owned).into());
    assert!(forget.is_disjoint(&others) && others.len() == 12, "{others:?}");
}

/// The master that the fault impairs, and the end of the impairment.
fn impaired(planned: &Planned) -> Option<(usize, Duration)> {
    let healed = planned.at + planned.lasts;
    match &planned.fault {
        Fault::KillMaster { master, .. } | Fault::Flush { master } => {
            Some((*master, healed + MAX_TTL))
        }
        Fault::SetClock { master, ahead_ms } if ahead_ms.abs() >= 100 => {
            Some((*master, healed + MAX_TTL))
        }
        Fault::SetClock { master, .. } | Fault::StopMaster { master } => Some((*master, healed)),
        Fault::Network { worker: None, masters, .. } => Some((*masters.first()?, healed)),
        _ => None,
    }
}

fn a_minority_is_impaired_at_a_time() {
    for plan in plans() {
        for now in &plan {
            let at_once = plan.iter().filter(|it| it.at <= now.at).filter_map(impaired);
            let at_once: Vec<_> = at_once.filter(|(_, until)| *until > now.at).collect();
            let different: BTreeSet<_> = at_once.iter().map(|(master, _)| master).collect();
            assert!(different.len() <= 2, "{at_once:?} at {now:?}");
            assert_eq!(different.len(), at_once.len(), "one master twice: {at_once:?} at {now:?}");
        }
    }
}

fn a_clock_is_wrong_alone() {
    for plan in plans() {
        for clock in plan.iter().filter(|it| matches!(it.fault, Fault::SetClock { .. })) {
            let (_, until) = impaired(clock).expect("it impairs one");
            let other = plan.iter().find(|other| {
                let links = matches!(other.fault, Fault::Network { .. });
                let other_until =
                    impaired(other).map_or(other.at + other.lasts, |(_, until)| until);
                *other != clock
                    && (links || impaired(other).is_some())
                    && other.at < until
                    && other_until > clock.at
            });
            assert_eq!(other, None, "beside {clock:?}");
        }
    }
}

fn one_fault_at_a_time_where_that_is_asked_for() {
    let plan = random(Extent { apart: true, ..extent(1) });
    assert!(plan.len() > 34, "each of 17 kinds twice, and not {}", plan.len());
    for two in plan.windows(2) {
        assert!(two[0].at + two[0].lasts + MAX_TTL < two[1].at, "{two:?}");
    }
}

fn all_is_healed_in_time() {
    for plan in plans() {
        assert!(plan.iter().all(|it| it.at + it.lasts <= Duration::from_secs(600)));
    }
}

fn without_faketime_no_clock_is_set() {
    let plan = random(Extent { clocks: false, ..extent(1) });
    assert!(plan.len() > 100 && plan.iter().all(|it| !matches!(it.fault, Fault::SetClock { .. })));
}
