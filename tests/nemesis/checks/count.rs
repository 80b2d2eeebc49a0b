//! The figures of the clients are compared with the history.

use std::collections::BTreeMap;

use crate::judge::count::Both;
use crate::judge::{Rules, Verdict, Violation};
use crate::witness::Event;

use super::Check;
use super::story::{RULES, Story, ms};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::figures_that_agree_are_none", figures_that_agree_are_none),
    ("judge::figures_that_differ_are_a_violation", figures_that_differ_are_a_violation),
    ("judge::a_killed_process_has_no_figures", a_killed_process_has_no_figures),
    ("judge::waits_that_nobody_saw_are_a_violation", waits_that_nobody_saw_are_a_violation),
    ("judge::a_call_with_wrong_settings_is_none", a_call_with_wrong_settings_is_none),
];

/// One contender gets a lock after 10 ms, another does not, and a third one belongs to another process.
fn story() -> Story {
    let story = Story::default().wants(10, "w1/a/0").wants(12, "w1/a/1").wants(13, "w1/b/0");
    let story = story.valid(20, "w1/a/0", 1, 50).without(30, "w1/a/1").leaves(40, "w1/a/0");
    story.valid(50, "w1/b/0", 2, 50).leaves(60, "w1/b/0")
}

fn calls(kind: &str, acquired: u64, held: u64) -> BTreeMap<String, BTreeMap<String, u64>> {
    let ended = [("acquired", acquired), ("held by another", held)];
    let ended: BTreeMap<_, _> = ended.map(|(ending, n)| (ending.to_owned(), n)).into();
    BTreeMap::from([(kind.to_owned(), ended)])
}

fn counts(story: Story, kind: &str, acquired: u64, held: u64) -> Vec<Violation> {
    let calls = calls(kind, acquired, held);
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
    assert_eq!((verdict.violations.len(), verdict.too_little.len()), (0, 1));
    assert!(verdict.to_string().contains("0 processes"));
    let rules = Rules { figures: true, ..RULES };
    assert_eq!(Verdict::of(&story().end(), &rules).too_little.len(), 2, "nobody tells any");
}

/// The witness sees each call for longer than its client does.
fn waits_that_nobody_saw_are_a_violation() {
    let told = |waited| Event::Counted { calls: calls("mutex", 1, 1), waited, losses: 0 };
    let found = |waited| Verdict::of(&story().tell(100, "w1/a/count", told(waited)).end(), &RULES);
    assert_eq!(found(ms(10)).violations, []);
    assert_eq!(found(ms(11)).violations.len(), 1);
}

/// A client does not count a call that was wrong.
fn a_call_with_wrong_settings_is_none() {
    let wrong = Event::Without { why: "wrong configuration".to_owned() };
    let story = story().wants(70, "w1/a/1").tell(71, "w1/a/1", wrong);
    assert_eq!(counts(story, "mutex", 1, 1), []);
}
