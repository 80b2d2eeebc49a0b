//! Faults, outages, and the recovery of all contenders.

use crate::judge::calls::calls;
use crate::judge::faults::{Fault, faults};
use crate::judge::holds::holds;
use crate::judge::recovery::{Effect, effects, not_recovered, outages};
use crate::judge::{Rules, Verdict, Violation};
use crate::witness::{Class, Event, History, Kind};

use super::Check;
use super::story::{self, Story, ms};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::an_outage_is_wanted_and_free", an_outage_is_wanted_and_free),
    ("judge::a_lock_that_is_held_is_no_outage", a_lock_that_is_held_is_no_outage),
    ("judge::a_name_that_waits_for_another_is_no_outage", a_name_that_waits_is_no_outage),
    ("judge::an_outage_goes_to_the_faults_of_its_time", an_outage_goes_to_the_faults_of_its_time),
    ("judge::a_fault_hits_only_its_worker", a_fault_hits_only_its_worker),
    ("judge::a_contender_without_a_lock_is_a_violation", a_contender_without_a_lock_is_a_violation),
    ("judge::a_killed_contender_needs_no_lock", a_killed_contender_needs_no_lock),
    ("judge::a_guard_that_is_never_valid_is_no_grant", a_guard_that_is_never_valid_is_no_grant),
    ("judge::a_run_without_faults_shows_too_little", a_run_without_faults_shows_too_little),
    ("judge::locks_without_tokens_show_too_little", locks_without_tokens_show_too_little),
    ("judge::a_kind_that_nobody_held_shows_too_little", a_kind_that_nobody_held_shows_too_little),
    ("judge::a_run_without_elections_shows_too_little", a_run_without_elections_shows_too_little),
    ("judge::calls_that_are_wrong_show_too_little", calls_that_are_wrong_show_too_little),
    ("judge::a_run_can_show_too_little", a_run_can_show_too_little),
    ("judge::a_good_run_is_good", a_good_run_is_good),
];

fn found(history: &History) -> Vec<Fault> {
    faults(history, &holds(history), &calls(history))
}

/// The lock is wanted from 10 ms on, and held from 100 ms to 200 ms.
fn waited() -> Story {
    Story::default().wants(10, "w1").valid(100, "w1", 1, 1_000).leaves(200, "w1")
}

fn an_outage_is_wanted_and_free() {
    let history = waited().wants(250, "w2").valid(400, "w2", 2, 1_000).end();
    let found = outages(&holds(&history), &calls(&history));
    let found: Vec<_> = found.iter().map(|outage| (outage.begin, outage.end)).collect();
    assert_eq!(found, [(ms(10), ms(100)), (ms(250), ms(400))]);
}

fn a_lock_that_is_held_is_no_outage() {
    let history =
        Story::default().valid(0, "w2", 1, 95).wants(10, "w1").valid(100, "w1", 2, 9).end();
    let found = outages(&holds(&history), &calls(&history));
    let found: Vec<_> = found.iter().map(|outage| (outage.begin, outage.end)).collect();
    assert_eq!(found, [(ms(95), ms(100))]);
}

/// `b` is free from 0 on, but its caller waits for `a` until 100 ms.
fn a_name_that_waits_is_no_outage() {
    let story = Story::default().valid(0, "w2", 1, 100).of(&["a", "b"]).wants(10, "w1");
    let history = story.valid(150, "w1", 2, 9).end();
    let found = outages(&holds(&history), &calls(&history));
    let found: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.begin, it.end)).collect();
    assert_eq!(found, [("a", ms(100), ms(150)), ("b", ms(100), ms(150))]);
}

fn an_outage_goes_to_the_faults_of_its_time() {
    let story = Story::default().fault(0, 1, "master 1").healed(5, 1);
    let story = story.wants(10, "w1").fault(50, 2, "master 2").healed(60, 2);
    let history = story.valid(100, "w1", 1, 1_000).end();
    let (faults, outages) = (found(&history), outages(&holds(&history), &calls(&history)));
    let effects = effects(&faults, &outages, ms(0));
    let expected = Effect { faults: 2, hit: 1, outage: ms(90), after_healing: ms(40) };
    assert_eq!(effects["fault"], expected);
}

fn a_fault_hits_only_its_worker() {
    let story = waited().fault(210, 1, "master 1").wants(220, "w1");
    let story = story.fault(230, 2, "worker w1").fault(240, 3, "worker w2 and masters 1 2");
    let found = found(&story.end());
    assert_eq!(found.iter().map(|fault| fault.hit).collect::<Vec<_>>(), [false, true, false]);
}

fn a_contender_without_a_lock_is_a_violation() {
    let story = waited().fault(210, 1, "master 1").wants(220, "w1").wants(230, "w2");
    let history = story.healed(240, 1).valid(300, "w1", 2, 10).end();
    let violations = not_recovered(&history, &found(&history), ms(100));
    let [Violation::NotRecovered { who, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!(who, "w2");
    // A contender that got the lock too late has not recovered in time.
    assert_eq!(not_recovered(&history, &found(&history), ms(50)).len(), 2);
}

fn a_killed_contender_needs_no_lock() {
    let story = waited().fault(210, 1, "worker w1").wants(220, "w1").tell(230, "w1", Event::Gone);
    let history = story.healed(240, 1).end();
    assert_eq!(not_recovered(&history, &found(&history), ms(100)), []);
}

const RULES: Rules =
    Rules { recovery: Some(ms_of(500)), grants_a_second: 1.0, share_hit: 0.75, ..story::RULES };

const fn ms_of(ms: u64) -> std::time::Duration {
    std::time::Duration::from_millis(ms)
}

fn a_guard_that_is_never_valid_is_no_grant() {
    let story = Story::default().wants(10, "w1").fault(20, 1, "master 1").healed(30, 1);
    let history = story.inside(40, "w1", 1).loses(50, "w1", true).end();
    let verdict = Verdict::of(&history, &Rules { grants_a_second: 20.0, ..RULES });
    assert_eq!(verdict.too_little, ["0 grants are fewer than 1"], "{verdict}");
    assert!(
        matches!(verdict.violations.as_slice(), [Violation::NotRecovered { .. }]),
        "nobody has got a lock: {verdict}"
    );
}

fn a_run_without_faults_shows_too_little() {
    let verdict = Verdict::of(&waited().end(), &RULES);
    assert_eq!(verdict.too_little, ["there was no fault"], "{verdict}");
}

fn locks_without_tokens_show_too_little() {
    let story = Story::default().wants(10, "w1").fault(20, 1, "master 1").healed(30, 1);
    let kind = Kind { label: "mutex".to_owned(), class: Class::Exclusive };
    let inside = Event::Inside { guard: 1, kind, names: vec!["a".to_owned()], token: None };
    let history = story.tell(40, "w1", inside).proves(40, "w1", 10).end();
    assert!(Verdict::of(&history, &RULES).is_good());
    let verdict = Verdict::of(&history, &Rules { tokens: true, ..RULES });
    assert_eq!(verdict.too_little, ["1 of 1 locks had no token"], "{verdict}");
}

fn a_kind_that_nobody_held_shows_too_little() {
    let story = Story::default().wants(10, "w1").fault(20, 1, "master 1").healed(30, 1);
    let history = story.valid(40, "w1", 1, 10).end();
    let verdict = |kinds| Verdict::of(&history, &Rules { kinds, ..RULES });
    assert!(verdict(1).is_good());
    let expected = ["locks of 1 kinds were held, and there are 2"];
    assert_eq!(verdict(2).too_little, expected);
}

fn a_run_without_elections_shows_too_little() {
    let story = Story::default().fault(20, 1, "master 1").healed(30, 1);
    let rules = Rules { elections: true, ..RULES };
    let found = |call: &str| {
        let (names, kind, call) = (vec!["a".to_owned()], None, call.to_owned());
        let story = story.clone().tell(10, "w1", Event::Wants { names, call, kind });
        Verdict::of(&story.valid(40, "w1", 1, 10).end(), &rules).too_little
    };
    assert_eq!(found("lock"), ["nobody stood for election"]);
    assert!(found("campaign").is_empty());
}

fn calls_that_are_wrong_show_too_little() {
    let ended = |why: &str| {
        let story = Story::default().wants(10, "w1").fault(20, 1, "master 1").healed(30, 1);
        let story = story.tell(40, "w1", Event::Without { why: why.to_owned() }).wants(50, "w1");
        Verdict::of(&story.valid(60, "w1", 1, 10).end(), &RULES)
    };
    assert!(ended("no quorum").is_good(), "{}", ended("no quorum"));
    let expected = ["1 calls made no load: they ended with \"wrong configuration\""];
    assert_eq!(ended("wrong configuration").too_little, expected);
}

fn a_run_can_show_too_little() {
    let idle = Story::default().fault(1_000, 1, "master 1").healed(10_000, 1).end();
    let verdict = Verdict::of(&idle, &RULES);
    assert_eq!(verdict.too_little.len(), 2, "{verdict}");
    assert!(verdict.violations.is_empty() && !verdict.is_good(), "{verdict}");
}

fn a_good_run_is_good() {
    let good =
        waited().fault(210, 1, "master 1").healed(220, 1).wants(230, "w1").valid(240, "w1", 2, 9);
    let verdict = Verdict::of(&good.end(), &Rules { share_hit: 0.0, ..RULES });
    assert!(verdict.is_good(), "{verdict}");
}
