//! Changes under a shared lock.

use crate::judge::holds::holds;
use crate::judge::readers::{Reads, reads};
use crate::judge::{Verdict, Violation};
use crate::witness::{Class, Store};

use super::Check;
use super::story::{RULES, Story};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::what_changes_under_a_shared_hold_is_a_violation", a_change_is_a_violation),
    ("judge::what_stays_under_a_shared_hold_is_none", what_stays_is_none),
    ("judge::a_late_write_under_a_shared_hold_is_none", a_late_write_is_none),
    ("judge::tokens_keep_late_writes_from_shared_holders", tokens_keep_late_writes_away),
    ("judge::a_shared_hold_that_is_over_may_see_changes", one_that_is_over_may_see_changes),
    ("judge::each_shared_hold_reads_for_itself", each_shared_hold_reads_for_itself),
    ("judge::an_exclusive_holder_may_see_its_own_write", an_exclusive_holder_may_see_its_own),
];

/// w1 holds the lock until 100 ms, and has read version 1.
fn inside(class: Class, store: Store) -> Story {
    let story = Story::default().writes("w2", store, 0, 1).confirms("w2", 1);
    story.kind("k", class).valid(10, "w1", 1, 90).reads("w1", store, 1)
}

fn found(story: Story) -> Reads {
    let history = story.end();
    reads(&history, &holds(&history))
}

fn is_changed(found: &Reads) -> bool {
    let changed = matches!(
        found.violations.as_slice(),
        [Violation::ChangedUnderSharedHold { first: (_, 1), second: (_, 2), .. }]
    );
    changed && found.changed_by_late_writes == 0
}

fn a_change_is_a_violation() {
    let story = inside(Class::Shared, Store::Set).writes("w2", Store::Set, 1, 2);
    let history = story.confirms("w2", 2).reads("w1", Store::Set, 2).end();
    let found = reads(&history, &holds(&history));
    assert!(is_changed(&found), "{found:?}");
    assert_eq!(Verdict::of(&history, &RULES).violations, found.violations);
}

fn what_stays_is_none() {
    let found = found(inside(Class::Shared, Store::Set).reads("w1", Store::Set, 1));
    assert_eq!(found, Reads { compared: 1, ..Reads::default() });
}

/// The confirmed write of version 1 came before both readings.
fn a_late_write_is_none() {
    let story = inside(Class::Shared, Store::Set).writes("w2", Store::Set, 1, 2);
    let found = found(story.reads("w1", Store::Set, 2));
    assert_eq!((found.changed_by_late_writes, found.violations), (1, vec![]));
}

/// A store that compares tokens takes no late write, so the writer must have held the lock wrongly.
fn tokens_keep_late_writes_away() {
    for store in [Store::GuardedSet, Store::Database] {
        let story = inside(Class::Shared, store).writes("w2", store, 1, 2);
        let found = found(story.reads("w1", store, 2));
        assert!(is_changed(&found), "{found:?}");
    }
}

fn one_that_is_over_may_see_changes() {
    let story = inside(Class::Shared, Store::Set).loses(50, "w1", false);
    let story = story.writes("w2", Store::Set, 1, 2).confirms("w2", 2);
    assert_eq!(found(story.reads("w1", Store::Set, 2)), Reads::default());
}

fn each_shared_hold_reads_for_itself() {
    let story = inside(Class::Shared, Store::Set).leaves(20, "w1");
    let story = story.writes("w2", Store::Set, 1, 2).confirms("w2", 2);
    let story = story.valid(30, "w3", 1, 90).reads("w3", Store::Set, 2);
    assert_eq!(found(story), Reads::default());
}

fn an_exclusive_holder_may_see_its_own() {
    let story = inside(Class::Exclusive, Store::Set).writes("w1", Store::Set, 1, 2);
    assert_eq!(found(story.confirms("w1", 2).reads("w1", Store::Set, 2)), Reads::default());
}
