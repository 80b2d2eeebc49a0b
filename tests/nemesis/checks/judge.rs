//! Holds, exclusion and tokens.

use crate::judge::Violation;
use crate::judge::exclusion::exclusion;
use crate::judge::holds::{Ending, Hold, holds};
use crate::judge::tokens::tokens;
use crate::witness::{Class, Event};

use super::Check;
use super::story::{Story, ms};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::a_hold_ends_when_its_holder_leaves", a_hold_ends_when_its_holder_leaves),
    ("judge::a_hold_ends_with_its_promise", a_hold_ends_with_its_promise),
    ("judge::a_later_proof_lengthens_a_hold", a_later_proof_lengthens_a_hold),
    ("judge::a_later_promise_takes_none_back", a_later_promise_takes_none_back),
    ("judge::what_is_not_proven_is_no_hold", what_is_not_proven_is_no_hold),
    ("judge::an_early_loss_takes_the_promise_back", an_early_loss_takes_the_promise_back),
    ("judge::a_loss_in_time_leaves_the_promise", a_loss_in_time_leaves_the_promise),
    ("judge::a_holder_can_ask_for_less", a_holder_can_ask_for_less),
    ("judge::two_inside_are_a_violation", two_inside_are_a_violation),
    ("judge::one_inside_a_longer_hold_is_a_violation", one_inside_a_longer_hold_is_a_violation),
    ("judge::one_proof_inside_a_hold_is_a_violation", one_proof_inside_a_hold_is_a_violation),
    ("judge::a_killed_holder_keeps_its_promise", a_killed_holder_keeps_its_promise),
    ("judge::one_after_the_other_is_none", one_after_the_other_is_none),
    ("judge::two_kinds_inside_are_a_violation", two_kinds_inside_are_a_violation),
    ("judge::shared_holds_of_one_kind_are_side_by_side", shared_holds_are_side_by_side),
    ("judge::one_inside_among_shared_holds_is_a_violation", one_inside_among_shared_is_a_violation),
    ("judge::each_kind_counts", each_kind_counts),
    ("judge::one_name_in_common_is_enough", one_name_in_common_is_enough),
    ("judge::two_names_in_common_are_one_violation", two_names_in_common_are_one_violation),
    ("judge::holds_without_a_common_name_are_apart", holds_without_a_common_name_are_apart),
    ("judge::a_token_that_falls_is_a_violation", a_token_that_falls_is_a_violation),
    ("judge::the_same_token_twice_is_a_violation", the_same_token_twice_is_a_violation),
    ("judge::a_token_below_an_older_one_is_a_violation", a_token_below_an_older_one_is_a_violation),
    ("judge::the_token_of_a_single_proof_counts", the_token_of_a_single_proof_counts),
    ("judge::tokens_of_shared_holds_are_in_any_order", tokens_of_shared_holds_are_in_any_order),
    ("judge::tokens_rise_from_kind_to_kind", tokens_rise_from_kind_to_kind),
    ("judge::tokens_rise_by_each_name", tokens_rise_by_each_name),
];

fn only(story: Story) -> Hold {
    let mut holds = holds(&story.end());
    assert_eq!(holds.len(), 1, "{holds:?}");
    holds.remove(0)
}

fn a_hold_ends_when_its_holder_leaves() {
    let hold = only(Story::default().valid(10, "w1", 1, 100).leaves(50, "w1"));
    assert_eq!((hold.begin, hold.end, hold.ending), (ms(10), ms(50), Ending::Left));
}

fn a_hold_ends_with_its_promise() {
    let hold = only(Story::default().valid(10, "w1", 1, 100).leaves(500, "w1"));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(110)));
}

fn a_later_proof_lengthens_a_hold() {
    let story = Story::default().valid(10, "w1", 1, 100).valid(90, "w1", 1, 100);
    let hold = only(story.leaves(500, "w1"));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(190)));
}

fn a_later_promise_takes_none_back() {
    let story = Story::default().valid(10, "w1", 1, 100).valid(50, "w1", 1, 10);
    assert_eq!(overlaps(story.valid(70, "w2", 2, 10)), 1);
}

fn what_is_not_proven_is_no_hold() {
    let story = Story::default().inside(10, "w1", 1).leaves(50, "w1").inside(60, "w2", 2);
    assert_eq!(holds(&story.end()), []);
}

fn an_early_loss_takes_the_promise_back() {
    let story = Story::default().valid(10, "w1", 1, 100).valid(20, "w1", 1, 100);
    let hold = only(story.loses(50, "w1", false));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(20)));
}

fn a_loss_in_time_leaves_the_promise() {
    let hold = only(Story::default().valid(10, "w1", 1, 100).loses(500, "w1", true));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(110)));
}

fn a_holder_can_ask_for_less() {
    let less = |story: Story| story.tell(30, "w1", Event::Shortens { guard: 1 });
    let hold = only(less(Story::default().valid(10, "w1", 1, 100)));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(30)));
    let hold = only(less(Story::default().valid(10, "w1", 1, 100)).valid(40, "w1", 1, 50));
    assert_eq!((hold.begin, hold.end), (ms(10), ms(90)));
}

/// The number of violations of exclusion.
fn overlaps(story: Story) -> usize {
    let found = exclusion(&holds(&story.end()));
    assert!(found.iter().all(|it| matches!(it, Violation::TwoInside { .. })), "{found:?}");
    found.len()
}

fn two_inside_are_a_violation() {
    let story = Story::default().valid(10, "w1", 1, 100).valid(20, "w2", 2, 100);
    assert_eq!(overlaps(story.leaves(30, "w1").leaves(40, "w2")), 1);
}

fn one_inside_a_longer_hold_is_a_violation() {
    let story = Story::default().valid(10, "w1", 1, 1_000);
    let story = story.valid(20, "w2", 2, 10).leaves(25, "w2").valid(40, "w3", 3, 10);
    assert_eq!(overlaps(story.leaves(45, "w3").leaves(60, "w1")), 2);
}

fn one_proof_inside_a_hold_is_a_violation() {
    let story = Story::default().valid(10, "w1", 1, 100).valid(20, "w2", 2, 100);
    assert_eq!(overlaps(story.loses(30, "w2", false).leaves(40, "w1")), 1);
}

fn a_killed_holder_keeps_its_promise() {
    let story = Story::default().valid(10, "w1", 1, 100).tell(20, "w1", Event::Gone);
    assert_eq!(overlaps(story.valid(90, "w2", 2, 100)), 1);
    let story = Story::default().valid(10, "w1", 1, 100).tell(20, "w1", Event::Gone);
    assert_eq!(overlaps(story.valid(110, "w2", 2, 100)), 0);
}

fn one_after_the_other_is_none() {
    let story = Story::default().valid(10, "w1", 1, 100).leaves(50, "w1");
    assert_eq!(overlaps(story.valid(51, "w2", 2, 100)), 0);
}

fn two_kinds_inside_are_a_violation() {
    for (first, second) in [
        (Class::Exclusive, Class::Exclusive),
        (Class::Exclusive, Class::Shared),
        (Class::Shared, Class::Exclusive),
        (Class::Shared, Class::Shared),
    ] {
        let story = Story::default().kind("k", first).valid(10, "w1", 1, 100);
        assert_eq!(overlaps(story.kind("other", second).valid(20, "w2", 2, 100)), 1);
    }
}

fn shared_holds_are_side_by_side() {
    let story = Story::default().kind("k", Class::Shared).valid(10, "w1", 1, 100);
    assert_eq!(overlaps(story.valid(20, "w2", 1, 100).valid(30, "w3", 1, 100)), 0);
}

/// The longest of the shared holds excludes the other kind even if other shared holds began later.
fn one_inside_among_shared_is_a_violation() {
    let story = Story::default().kind("k", Class::Shared).valid(10, "w1", 1, 100);
    let story = story.valid(20, "w2", 1, 10).kind("other", Class::Exclusive);
    assert_eq!(overlaps(story.valid(40, "w3", 2, 10).leaves(45, "w3")), 1);
}

/// The third hold may overlap the one that ends last, but not the second one.
fn each_kind_counts() {
    let story = Story::default().kind("k", Class::Shared).valid(10, "w1", 9, 200);
    let story = story.kind("other", Class::Exclusive).valid(20, "w2", 10, 50);
    assert_eq!(overlaps(story.kind("k", Class::Shared).valid(30, "w3", 11, 10)), 2);
    let story = Story::default().kind("other", Class::Exclusive).valid(10, "w1", 5, 10);
    let story = story.kind("k", Class::Shared).valid(30, "w2", 9, 10);
    assert_eq!(falls(story.valid(50, "w3", 4, 10)), 1);
}

fn one_name_in_common_is_enough() {
    for (first, second) in [(["a", "b"], ["b", "c"]), (["a", "b"], ["0", "a"])] {
        let story = Story::default().of(&first).valid(10, "w1", 1, 100);
        assert_eq!(overlaps(story.of(&second).valid(20, "w2", 2, 100)), 1);
    }
}

fn two_names_in_common_are_one_violation() {
    let story = Story::default().of(&["a", "b", "c"]).valid(10, "w1", 2, 100);
    let holds = holds(&story.of(&["b", "c", "d"]).valid(20, "w2", 1, 9).end());
    let found = exclusion(&holds);
    let [Violation::TwoInside { names, .. }] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(names, &["b", "c"]);
}

fn holds_without_a_common_name_are_apart() {
    let story = Story::default().of(&["a", "b"]).valid(10, "w1", 2, 100).of(&["c", "d"]);
    assert_eq!(overlaps(story.valid(20, "w2", 1, 100)), 0);
    let story = Story::default().of(&["a", "b"]).valid(10, "w1", 2, 5).of(&["c", "d"]);
    assert_eq!(falls(story.valid(20, "w2", 1, 100)), 0);
}

fn falls(story: Story) -> usize {
    let found = tokens(&holds(&story.end()));
    assert!(found.iter().all(|it| matches!(it, Violation::TokenNotLarger { .. })), "{found:?}");
    found.len()
}

fn a_token_that_falls_is_a_violation() {
    let story = Story::default().valid(10, "w1", 5, 100).leaves(50, "w1");
    assert_eq!(falls(story.valid(60, "w2", 4, 100)), 1);
    let story = Story::default().valid(10, "w1", 5, 100).leaves(50, "w1");
    assert_eq!(falls(story.valid(60, "w2", 6, 100)), 0);
}

fn the_same_token_twice_is_a_violation() {
    let story = Story::default().valid(10, "w1", 5, 10);
    assert_eq!(falls(story.valid(60, "w2", 5, 100)), 1);
}

fn a_token_below_an_older_one_is_a_violation() {
    let story = Story::default().valid(10, "w1", 9, 10).leaves(15, "w1");
    let story = story.valid(20, "w2", 7, 10).leaves(25, "w2").valid(30, "w3", 8, 10);
    assert_eq!(falls(story), 2);
}

/// The lock was lost right after its first proof, but was certainly held until then.
fn the_token_of_a_single_proof_counts() {
    let story = Story::default().valid(10, "w1", 5, 100).loses(12, "w1", false);
    assert_eq!(falls(story.valid(20, "w2", 4, 10)), 1);
    let story = Story::default().valid(10, "w1", 5, 100).loses(12, "w1", false);
    assert_eq!(falls(story), 0);
}

fn tokens_of_shared_holds_are_in_any_order() {
    let story = Story::default().kind("k", Class::Shared).valid(10, "w1", 5, 10);
    let story = story.valid(30, "w2", 5, 10).valid(50, "w3", 4, 10);
    assert_eq!(falls(story), 0);
}

fn tokens_rise_from_kind_to_kind() {
    for (first, second) in [(Class::Shared, Class::Shared), (Class::Shared, Class::Exclusive)] {
        // The largest token of the shared holds counts, which is not the last one.
        let story = Story::default().kind("k", first).valid(10, "w1", 5, 10);
        let story = story.valid(30, "w2", 3, 10).kind("other", second);
        assert_eq!(falls(story.valid(50, "w3", 4, 10)), 1);
    }
}

fn tokens_rise_by_each_name() {
    let story = Story::default().of(&["a", "b"]).valid(10, "w1", 5, 10);
    let story = story.of(&["a"]).valid(30, "w2", 7, 10).of(&["b"]).valid(50, "w3", 6, 10);
    assert_eq!(falls(story.of(&["a", "b"]).valid(70, "w4", 7, 10)), 1);
    let story = Story::default().of(&["a", "b"]).valid(10, "w1", 5, 10);
    assert_eq!(falls(story.of(&["b"]).valid(30, "w2", 4, 10)), 1);
}
