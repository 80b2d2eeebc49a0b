//! The failure of a worker is noticed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::kinds::KINDS;
use crate::processes::Process;
use crate::witness::Class;
use crate::worker::Settings;
use crate::worker::wish::{PERMITS, has_permits, told};
use crate::worker::work::Chooser;

use super::Check;
use super::witness::Running;

pub(crate) const CHECKS: &[Check] = &[
    ("worker::a_contender_that_panics_fails_its_worker", a_contender_that_panics_fails_it),
    ("worker::all_kinds_are_asked_for", all_kinds_are_asked_for),
    ("worker::locks_for_long_are_their_holders_alone", locks_for_long_are_their_holders_alone),
    (
        "worker::a_wish_has_as_many_names_as_its_kind_takes",
        a_wish_has_as_many_names_as_its_kind_takes,
    ),
];

fn settings(witness: &str, names: usize) -> Settings {
    Settings {
        worker: "w1".to_owned(),
        witness: witness.to_owned(),
        nodes: vec!["redis://127.0.0.1:1".to_owned()],
        client: "right".to_owned(),
        seed: 1,
        threads: 3,
        names,
        max_ttl: Duration::from_secs(3),
        long_holds: false,
    }
}

fn a_contender_that_panics_fails_it() {
    let witness = Running::start();
    // The worker has no name to choose from, and panics.
    let ended = Process::silent_worker(&settings(&witness.address, 0)).expect("it starts").finish();
    assert!(ended.is_err_and(|error| error.to_string().starts_with("w1 failed")));
}

fn all_kinds_are_asked_for() {
    let mut chooser = Chooser::new(&settings("", 4), 0);
    let asked: BTreeSet<_> = (0..1_000).map(|_| chooser.wish().kind.label()).collect();
    assert_eq!(asked, KINDS.iter().map(|kind| kind.label()).collect());
    let classes = (0..1_000).map(|_| told(&chooser.wish()).expect("a rule for each kind").class);
    let asked: BTreeSet<_> = classes.map(|class| format!("{class:?}")).collect();
    let permits = |count| format!("{:?}", Class::Permits { count, of: PERMITS });
    let expected = [Class::Exclusive, Class::Shared].map(|class| format!("{class:?}"));
    assert_eq!(asked, expected.into_iter().chain((1..=PERMITS).map(permits)).collect());
}

fn locks_for_long_are_their_holders_alone() {
    let mut chooser = Chooser::new(&Settings { long_holds: true, ..settings("", 1) }, 0);
    let wishes: Vec<_> = (0..1_000).map(|_| chooser.wish()).collect();
    assert!(wishes.iter().any(|wish| has_permits(wish.kind)));
    assert!(wishes.iter().all(|wish| told(wish).expect("a rule for each kind").class.is_alone()));
}

fn a_wish_has_as_many_names_as_its_kind_takes() {
    let mut chooser = Chooser::new(&settings("", 4), 0);
    let wishes: Vec<_> = (0..1_000).map(|_| chooser.wish()).collect();
    assert!(wishes.iter().any(|wish| wish.asked_as != wish.names), "in other orders");
    for mut wish in wishes {
        wish.asked_as.sort_unstable();
        assert_eq!(wish.asked_as, wish.names);
    }
    for (most, expected) in [(1, 1), (2, 2), (3, 3), (usize::MAX, 3)] {
        let chosen: Vec<_> = (0..1_000).map(|_| chooser.names(most)).collect();
        let counts: BTreeSet<_> = chosen.iter().map(Vec::len).collect();
        assert_eq!(counts, (1..=expected).collect());
        assert!(chosen.iter().all(|names| names.is_sorted_by(|a, b| a < b)), "one name twice");
        assert_eq!(chosen.into_iter().flatten().collect::<BTreeSet<_>>().len(), 4);
    }
}
