//! The picture shows all that the history has.

use crate::judge::Verdict;
use crate::judge::picture::picture;

use crate::witness::Class;

use super::Check;
use super::story::{RULES, Story};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::a_picture_shows_holds_faults_and_violations", a_picture_shows_all),
    ("judge::a_hold_is_drawn_in_the_rows_of_its_names", a_hold_is_drawn_in_the_rows_of_its_names),
    ("judge::shared_holds_look_different", shared_holds_look_different),
];

fn drawn(story: Story) -> String {
    picture(&Verdict::of(&story.end(), &RULES))
}

fn a_picture_shows_all() {
    let story = Story::default().valid(10, "w1/1/1", 1, 100).fault(15, 1, "master 1");
    let story = story.fault(16, 2, "worker w1 to masters 0 1").healed(17, 2);
    let story = story.healed(18, 1).valid(20, "w2/1/1", 2, 100).leaves(90, "w2/1/1");
    let svg = drawn(story);
    for shown in [
        ">a, w1<",
        ">a, w2<",
        ">master 1<",
        ">worker w1, links<",
        "two were inside &quot;a&quot; at once",
    ] {
        assert_eq!(svg.matches(shown).count(), 1, "{shown} in {svg}");
    }
}

fn a_hold_is_drawn_in_the_rows_of_its_names() {
    let story = Story::default().of(&["a", "b"]).valid(10, "w1/1/1", 1, 100);
    let svg = drawn(story.leaves(50, "w1/1/1"));
    for (shown, times) in [(">a, w1<", 1), (">b, w1<", 1), ("w1/1/1, mutex of a, b 0.010 s", 2)] {
        assert_eq!(svg.matches(shown).count(), times, "{shown} in {svg}");
    }
}

fn shared_holds_look_different() {
    let story = |class| Story::default().kind("k", class).valid(10, "w1/1/1", 1, 100);
    let [exclusive, shared] =
        [Class::Exclusive, Class::Shared].map(|class| drawn(story(class).leaves(50, "w1/1/1")));
    assert!(exclusive.contains("fill-opacity") && !exclusive.contains("stroke"), "{exclusive}");
    assert!(shared.contains("stroke"), "{shared}");
}
