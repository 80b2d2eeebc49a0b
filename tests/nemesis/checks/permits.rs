//! Holders of a semaphore.

use crate::judge::exclusion::exclusion;
use crate::judge::holds::holds;
use crate::judge::permits::permits;
use crate::judge::tokens::tokens;
use crate::judge::{Rules, Verdict, Violation};
use crate::witness::{Class, Event, History, Store};

use super::Check;
use super::story::{RULES, Story};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::as_many_inside_as_there_are_permits_are_none", as_many_as_there_are_are_none),
    ("judge::more_inside_than_there_are_permits_is_a_violation", more_inside_is_a_violation),
    ("judge::several_permits_of_one_holder_count", several_permits_of_one_holder_count),
    ("judge::permits_that_are_given_back_are_free", permits_that_are_given_back_are_free),
    ("judge::a_killed_holder_keeps_its_permits_for_its_promise", a_killed_holder_keeps_its_permits),
    ("judge::each_semaphore_has_its_own_permits", each_semaphore_has_its_own_permits),
    ("judge::permits_exclude_locks_of_other_kinds", permits_exclude_locks_of_other_kinds),
    ("judge::semaphores_that_differ_exclude_each_other", semaphores_that_differ_exclude_each_other),
    ("judge::permits_need_no_tokens", permits_need_no_tokens),
    ("judge::what_changes_under_a_permit_is_a_violation", what_changes_under_a_permit),
];

/// Holders that follow have `count` of two permits.
fn takes(story: Story, count: u32) -> Story {
    of(story, count, 2)
}

fn of(story: Story, count: u32, of: u32) -> Story {
    story.kind("semaphore", Class::Permits { count, of })
}

/// The permits taken and the number of their holders, for each violation.
fn too_many(history: &History) -> Vec<(u32, usize)> {
    let holds = holds(history);
    assert_eq!(exclusion(&holds), [], "they are side by side");
    let found = permits(&holds);
    assert_eq!(Verdict::of(history, &RULES).violations, found);
    let taken = |violation: &Violation| match violation {
        Violation::TooManyPermits { of: 2, taken, inside, .. } => (*taken, inside.len()),
        other => panic!("{other}"),
    };
    found.iter().map(taken).collect()
}

/// w1 and w2 hold one permit each, from 20 ms until 100 ms.
fn full() -> Story {
    let story = takes(Story::default(), 1).valid(10, "w1", 0, 90);
    story.valid(20, "w2", 0, 80)
}

fn as_many_as_there_are_are_none() {
    assert_eq!(too_many(&full().leaves(50, "w1").leaves(60, "w2").end()), []);
}

fn more_inside_is_a_violation() {
    let history = full().valid(30, "w3", 0, 100).end();
    assert_eq!(too_many(&history), [(3, 3)]);
    let shown = Verdict::of(&history, &RULES).to_string();
    assert!(shown.contains("3 permits of \"a\" were held at once, which has 2: by w1"), "{shown}");
    // A single proof is enough, however short the hold is.
    let history = full().valid(30, "w3", 0, 100).loses(35, "w3", false).end();
    assert_eq!(too_many(&history), [(3, 3)]);
    assert_eq!(too_many(&full().valid(30, "w3", 0, 9).valid(45, "w4", 0, 9).end()), [(3, 3); 2]);
}

fn several_permits_of_one_holder_count() {
    let one = takes(Story::default(), 1).valid(10, "w1", 0, 100);
    assert_eq!(too_many(&takes(one, 2).valid(20, "w2", 0, 100).end()), [(3, 2)]);
    let both = takes(Story::default(), 2).valid(10, "w1", 0, 100);
    assert_eq!(too_many(&takes(both, 1).valid(20, "w2", 0, 100).end()), [(3, 2)]);
    assert_eq!(too_many(&takes(Story::default(), 2).valid(10, "w1", 0, 100).end()), []);
}

fn permits_that_are_given_back_are_free() {
    let history = full().leaves(50, "w1").valid(60, "w3", 0, 100).end();
    assert_eq!(too_many(&history), []);
    let both = takes(Story::default(), 2).valid(10, "w1", 0, 100).leaves(50, "w1");
    assert_eq!(too_many(&both.valid(60, "w2", 0, 100).end()), []);
}

fn a_killed_holder_keeps_its_permits() {
    let killed = || full().tell(50, "w1", Event::Gone);
    assert_eq!(too_many(&killed().valid(99, "w3", 0, 9).end()), [(3, 3)]);
    assert_eq!(too_many(&killed().valid(100, "w3", 0, 9).end()), []);
}

fn each_semaphore_has_its_own_permits() {
    assert_eq!(too_many(&full().of(&["b"]).valid(30, "w3", 0, 100).end()), []);
}

fn permits_exclude_locks_of_other_kinds() {
    for class in [Class::Exclusive, Class::Shared] {
        let after = full().kind("k", class).valid(30, "w3", 2, 9);
        let before = Story::default().kind("k", class).valid(10, "w1", 1, 90);
        for story in [after, takes(before, 1).valid(30, "w3", 0, 9)] {
            let found = exclusion(&holds(&story.end()));
            assert!(matches!(found.first(), Some(Violation::TwoInside { .. })), "{found:?}");
        }
    }
}

fn semaphores_that_differ_exclude_each_other() {
    let story = takes(Story::default(), 1).valid(10, "w1", 0, 90);
    let found = exclusion(&holds(&of(story, 1, 3).valid(20, "w2", 0, 9).end()));
    assert!(matches!(found.as_slice(), [Violation::TwoInside { .. }]), "{found:?}");
}

fn permits_need_no_tokens() {
    let story = full().leaves(50, "w1").leaves(60, "w2").fault(70, 1, "master 1");
    let story = story.kind("k", Class::Exclusive).valid(80, "w3", 1, 9);
    let history = takes(story, 2).valid(90, "w4", 0, 9).end();
    assert_eq!(tokens(&holds(&history)), []);
    let verdict = Verdict::of(&history, &Rules { tokens: true, ..RULES });
    assert!(verdict.is_good(), "{verdict}");
}

/// Only a holder of all permits may write.
fn what_changes_under_a_permit() {
    let changed = |count| {
        let story = Story::default().writes("w2", Store::Set, 0, 1).confirms("w2", 1);
        let story = takes(story, count).valid(10, "w1", 0, 90).reads("w1", Store::Set, 1);
        let story = story.writes("w2", Store::Set, 1, 2).confirms("w2", 2);
        let history = story.reads("w1", Store::Set, 2).end();
        Verdict::of(&history, &RULES).violations.len()
    };
    assert_eq!((changed(1), changed(2)), (1, 0));
}
