//! Elements that are lost from the stores.

use crate::judge::Violation;
use crate::judge::stores::{Writes, writes};
use crate::witness::Store;

use super::Check;
use super::story::Story;

pub(crate) const CHECKS: &[Check] = &[
    ("judge::elements_one_after_the_other_are_kept", elements_one_after_the_other_are_kept),
    ("judge::a_lost_element_is_a_violation", a_lost_element_is_a_violation),
    ("judge::a_late_write_is_not_the_locks_fault", a_late_write_is_not_the_locks_fault),
    ("judge::a_lost_late_write_is_not_the_locks_fault", a_lost_late_write_is_not_the_locks_fault),
    ("judge::elements_that_come_back_are_followed", elements_that_come_back_are_followed),
    (
        "judge::a_stale_write_behind_tokens_is_a_violation",
        a_stale_write_behind_tokens_is_a_violation,
    ),
];

/// Two holders both read version 1, and each adds an element to it.
fn both_write() -> Story {
    let story = Story::default().writes("w1", Store::Set, 0, 1).confirms("w1", 1);
    story.writes("w1", Store::Set, 1, 2).writes("w2", Store::Set, 1, 3)
}

fn elements_one_after_the_other_are_kept() {
    let story = Story::default().writes("w1", Store::Set, 0, 1).confirms("w1", 1);
    let story = story.writes("w2", Store::Set, 1, 2).confirms("w2", 2);
    let story = story.writes("w1", Store::Database, 0, 1).writes("w2", Store::Database, 1, 2);
    assert_eq!(writes(&story.end()), Writes { taken: 4, ..Writes::default() });
}

fn a_lost_element_is_a_violation() {
    let found = writes(&both_write().confirms("w1", 2).confirms("w2", 3).end());
    let [Violation::ElementLost { lost: 2, .. }] = found.violations.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(found.lost_to_late_writes, 0);
}

fn a_late_write_is_not_the_locks_fault() {
    let found = writes(&both_write().confirms("w1", 2).end());
    assert_eq!((found.lost_to_late_writes, found.violations), (1, vec![]));
}

fn a_lost_late_write_is_not_the_locks_fault() {
    let found = writes(&both_write().confirms("w2", 3).end());
    assert_eq!((found.lost_to_late_writes, found.violations), (1, vec![]));
}

/// Version 2 is lost to 3. It comes back with 4, which loses 3.
fn elements_that_come_back_are_followed() {
    let story = both_write().writes("w1", Store::Set, 2, 4).writes("w1", Store::Set, 4, 5);
    let found =
        writes(&[2, 3, 4, 5].into_iter().fold(story, |story, it| story.confirms("w1", it)).end());
    let lost: Vec<_> = found.violations.iter().map(lost).collect();
    assert_eq!(lost, [2, 3]);
}

fn lost(violation: &Violation) -> u64 {
    match violation {
        Violation::ElementLost { lost, .. } => *lost,
        other => panic!("{other}"),
    }
}

fn a_stale_write_behind_tokens_is_a_violation() {
    for store in [Store::GuardedSet, Store::Database] {
        let story = Story::default().writes("w1", store, 0, 1).writes("w2", store, 0, 2);
        let found = writes(&story.end());
        assert!(
            matches!(found.violations.as_slice(), [Violation::StaleWriteAccepted { .. }]),
            "{found:?}"
        );
    }
}
