//! The figures of the clients are compared with the history.

use std::collections::BTreeMap;

use crate::judge::count::Both;
use crate::judge::{Verdict, Violation};
use crate::witness::Event;

use super::Check;
use super::story::{RULES, Story, ms};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::figures_that_agree_are_none", figures_that_agree_are_none),
    ("judge::figures_that_differ_are_a_violation", figures_that_differ_are_a_violation),
    ("judge::a_killed_process_has_no_figures", a_killed_process_has_no_figures),
];

/// One contender gets a lock after 10 ms, another does not, and a third one belongs to another process.
fn story() -> Story {
    let story = Story::default().wants(10, "w1/a/0").wants(12, "w1/a/1").wants(13, "w1/b/0");
    let story = story.valid(20, "w1/a/0", 1, 50).without(30, "w1/a/1").leaves(40, "w1/a/0");
    story.valid(50, "w1/b/0", 2, 50).leaves(60, "w1/b/0")
}

fn counts(story: Story, kind: &str, acquired: u64, held: u64) -> Vec<Violation> {
    let ended = [("acquired", acquired), ("held by another", held)];
    let ended: BTreeMap<_, _> = ended.map(|(ending, n)| (ending.to_owned(), n)).into();
    let calls = BTreeMap::from([(kind.to_owned(), ended)]);
    let counted = Event::Counted { calls, waited: ms(9), losses: 0 };
    Verdict::of(&story.tell(100, "w1/a/count", counted).end(), &RULES).violations
}

fn figures_that_agree_are_none() {
    assert_eq!(counts(story(), "mutex", 1, 1), []);
}

fn figures_that_differ_are_a_violation() {
    let found = counts(story(), "mutex", 2, 1);
    let [Violation::Miscounted { process, what, both }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((process.as_str(), *both), ("w1/a", Both { seen: 1, counted: 2 }));
    assert!(what.contains("acquired"), "{what}");
    assert_eq!(counts(story(), "mutex", 0, 0).len(), 2, "fewer");
    assert_eq!(counts(story(), "fair", 1, 1).len(), 4, "of another kind");
}

fn a_killed_process_has_no_figures() {
    let verdict = Verdict::of(&story().end(), &RULES);
    assert_eq!(verdict.violations, []);
    assert!(verdict.to_string().contains("0 processes"));
}
