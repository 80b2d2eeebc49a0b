//! Waits that are too long.

use std::time::Duration;

use crate::judge::calls::{CallResult, calls};
use crate::judge::faults::{Noticed, faults};
use crate::judge::holds::holds;
use crate::judge::waits::{Wait, WaitRules, too_long, waits};
use crate::judge::{Rules, Verdict};
use crate::kinds::KINDS;
use crate::witness::{Class, Event, History};

use super::Check;
use super::story::{self, Story, ms};

pub(crate) const CHECKS: &[Check] = &[
    ("judge::a_wait_that_is_too_long_is_found_for_each_kind", each_kind_has_a_bound),
    ("judge::a_wait_that_does_not_end_is_found", a_wait_that_does_not_end_is_found),
    ("judge::a_kind_may_be_told_later", a_kind_may_be_told_later),
    ("judge::a_wait_that_is_too_long_is_told", a_wait_that_is_too_long_is_told),
    ("judge::those_ahead_have_one_turn_each", those_ahead_have_one_turn_each),
    ("judge::those_ahead_may_wait_for_others", those_ahead_may_wait_for_others),
    (
        "judge::each_older_call_for_several_names_allows_one_hold_more",
        each_older_call_for_several_names_allows_one_more,
    ),
    ("judge::a_younger_caller_has_its_turn_out_of_order_once", a_younger_caller_has_one_turn),
    ("judge::each_rest_allows_one_hold_more", each_rest_allows_one_hold_more),
    ("judge::a_worker_hands_its_turn_on", a_worker_hands_its_turn_on),
    ("judge::threads_of_a_process_reserve_one_after_the_other", threads_reserve_one_by_one),
    ("judge::a_wait_without_a_majority_is_excused", a_wait_without_a_majority_is_excused),
    ("judge::a_minority_is_no_excuse", a_minority_is_no_excuse),
    ("judge::a_slow_majority_excuses_a_wait", a_slow_majority_excuses_a_wait),
    ("judge::faults_of_its_own_worker_excuse_a_wait", faults_of_its_own_worker_excuse_a_wait),
    ("judge::what_others_leave_behind_excuses_a_wait", what_others_leave_behind_excuses_a_wait),
    ("judge::what_others_keep_when_cut_off_excuses_a_wait", what_is_kept_when_cut_off_excuses),
    ("judge::waits_are_reported_by_kind", waits_are_reported_by_kind),
];

const WAITS: WaitRules =
    WaitRules { masters: 5, max_ttl: Duration::from_secs(3), reconnect: Duration::from_secs(2) };

/// The contender whose waits are judged.
const X: &str = "w0/1/0";

fn judged(history: &History) -> Vec<Wait> {
    judged_by(&WAITS, history)
}

fn judged_by(rules: &WaitRules, history: &History) -> Vec<Wait> {
    let (holds, calls) = (holds(history), calls(history));
    let faults = faults(history, &holds, &calls);
    waits(&holds, &calls, &faults, &Noticed::of(history), rules)
}

/// The bound of the wait of `X`, and the excused part of it, in milliseconds.
fn bound(story: Story) -> (u128, u128) {
    let waits = judged(&story.end());
    let wait = waits.iter().find(|wait| wait.who == X).expect("it is judged");
    (wait.bound.as_millis(), wait.absent.as_millis())
}

fn is_too_long(story: Story) -> bool {
    !too_long(&judged(&story.end())).is_empty()
}

/// A lock that its callers reserve at once and without rests. The bound of a lone caller is one second.
fn write() -> Story {
    Story::default().kind("write", Class::Exclusive)
}

/// The history with all records in the order of their stamps.
fn sorted(mut history: History) -> History {
    history.0.sort_by_key(|record| record.stamp);
    history
}

/// The bound of a lone caller: the time until it reserves the lock, a third of the rest for its rests, and one look.
fn each_kind_has_a_bound() {
    for kind in KINDS.iter().map(|kind| kind.label()) {
        let permits = |count| Class::Permits { count, of: 2 };
        let (class, most) = match kind {
            "read" => (Class::Shared, 1_000),
            "write" => (Class::Exclusive, 1_000),
            "semaphore" => (permits(1), 2_500),
            _ => (Class::Exclusive, 2_500),
        };
        let mut cases = vec![(class, &["a"][..], most)];
        if kind == "semaphore" {
            cases.push((permits(2), &["a"], 1_600));
        }
        if kind == "multi_mutex" {
            cases.push((class, &["a", "b"], 1_600));
        }
        for (class, names, most) in cases {
            let waits = || Story::default().kind(kind, class).of(names).wants(1_000, X);
            let ends: [fn(Story, u64) -> Story; 4] = [
                |story, at| story.valid(at, X, 1, 10),
                |story, at| story.without(at, X),
                |story, at| story.tell(at, X, Event::Gone),
                |story, at| story.tell(at, "nemesis", Event::Healed { id: 9 }),
            ];
            for (i, end) in ends.into_iter().enumerate() {
                let case = format!("{kind} of {names:?}, {class:?}, end {i}");
                assert!(!is_too_long(end(waits(), 1_000 + most)), "{case}");
                assert!(is_too_long(end(waits(), 1_001 + most)), "{case}");
            }
        }
    }
}

fn a_wait_that_does_not_end_is_found() {
    let story = write().wants(0, X).wants(500, "w1/1/0").wants(1_200, "w2/1/0");
    let found = judged(&story.end());
    let [wait] = found.as_slice() else { panic!("{found:?}") };
    let unknown = (X, ms(1_200), &CallResult::Unknown);
    assert_eq!((wait.who.as_str(), wait.took, &wait.result), unknown);
    assert_eq!(too_long(&found).len(), 1);
}

/// A contender may report the kind with its guard alone.
fn a_kind_may_be_told_later() {
    let wants = || {
        let (names, call) = (vec!["a".to_owned()], "lock".to_owned());
        write().tell(0, X, Event::Wants { names, call, kind: None })
    };
    let found = judged(&wants().valid(1_200, X, 1, 10).end());
    assert_eq!(found.iter().map(|wait| wait.kind.as_str()).collect::<Vec<_>>(), ["write"]);
    assert_eq!(judged(&wants().without(1_200, X).end()), []);
}

/// The message names the kind, the names, the contender, the times, and the holders of one of the names.
fn a_wait_that_is_too_long_is_told() {
    let story = || Story::default().kind("multi_mutex", Class::Exclusive).of(&["a", "b"]);
    let story = || story().wants(1_000, X);
    let lone = || format!("{X} waited 2.000 s for multi_mutex of \"a\" and \"b\" from 1.0000 s on");
    let told = |story: Story| -> Vec<String> {
        let rules = Rules { waits: Some(WAITS), ..story::RULES };
        let verdict = Verdict::of(&sorted(story.end()), &rules);
        verdict.violations.iter().map(ToString::to_string).collect()
    };
    let expected = format!(
        "{}, and got it; the rules allow 1.733 s, 0.000 s of them without a majority; meanwhile nobody was \
         granted any of that",
        lone()
    );
    assert_eq!(told(story().valid(3_000, X, 9_000, 10)), [expected]);
    let others = |story: Story| {
        let story = story.of(&["b"]).kind("mutex", Class::Exclusive);
        let one = |story: Story, at, who| story.valid(at, who, at, 10).leaves(at + 5, who);
        let story = one(one(one(story, 1_100, "w1/1/0"), 1_200, "w1/1/0"), 1_300, "w2/1/0");
        let story = one(story, 990, "w2/1/0");
        story.of(&["c"]).valid(1_400, "w2/1/1", 1, 10).leaves(1_410, "w2/1/1")
    };
    let ends = [
        (Event::Without { why: "no quorum".to_owned() }, "ended without it (no quorum)"),
        (Event::Gone, "that did not end"),
    ];
    for (event, end) in ends {
        let told = told(others(story()).tell(3_000, X, event));
        let [told] = told.as_slice() else { panic!("{told:?}") };
        assert!(told.starts_with(&format!("{}, and {end}; the rules allow ", lone())), "{told}");
        let meanwhile = "; meanwhile 2 x mutex to w1/1/0, 1 x mutex to w2/1/0";
        assert!(told.ends_with(meanwhile), "{told}");
    }
    // A run without a rule for waits has no bounds.
    let verdict = Verdict::of(&story().valid(3_000, X, 9_000, 10).end(), &story::RULES);
    assert!(verdict.violations.is_empty(), "{verdict}");
}

/// Adds a hold from `from` to `to`, by a call that began at `called`.
fn holds_it(story: Story, who: &str, called: u64, from: u64, to: u64) -> Story {
    let story = story.wants(called, who).valid(from, who, 1, to - from);
    story.leaves(to, who)
}

fn those_ahead_have_one_turn_each() {
    let history = |end| {
        let story = holds_it(write(), "w1/1/0", 0, 10, 1_500);
        // This call began after that of `X`, by less than the tolerance for clocks and messages.
        let story = holds_it(story, "w2/1/0", 1_099, 1_600, 3_000);
        let story = holds_it(story, "w3/1/0", 1_101, 3_100, 3_200);
        sorted(story.wants(1_000, X).valid(end, X, 9, 10).end())
    };
    // 500 ms of the first hold, the second hold, a hand-over for each, the last hold out of order, and one look.
    let most = 500 + 1_400 + 2 * 200 + 100 + 1_000;
    let found = judged(&history(1_000 + most));
    assert_eq!(found.iter().find(|it| it.who == X).map(|it| it.bound), Some(ms(most)));
    assert!(too_long(&found).is_empty());
    assert_eq!(too_long(&judged(&history(1_001 + most))).len(), 1);
}

/// An older call for `a` and `b` waits for a holder of `b`.
fn those_ahead_may_wait_for_others() {
    let story = |older: u64| {
        let story = write().of(&["b"]).valid(0, "w1/1/0", 1, 9_000).of(&["a", "b"]);
        let mut history = story.kind("multi_mutex", Class::Exclusive).wants(older, "w2/1/0").end();
        let x = write().of(&["a"]).wants(1_000, X).without(4_000, X).leaves(5_000, "w1/1/0");
        history.0.extend(x.end().0);
        judged(&sorted(history)).iter().find(|it| it.who == X).map(|it| it.bound)
    };
    assert_eq!(story(900), Some(ms(1_000 + 3_000 + 200)));
    assert_eq!(story(1_200), Some(ms(1_000)));
}

/// A younger caller that delays an older call for several names also delays the calls behind it.
fn each_older_call_for_several_names_allows_one_more() {
    let story = write().of(&["a", "b"]).wants(900, "w1/1/0").of(&["a"]).wants(1_000, X);
    let story = (0..3).fold(story.of(&["b"]), |story, i| {
        let from = 1_300 + i * 200;
        holds_it(story, "w2/1/0", from, from + 10, from + 110)
    });
    assert_eq!(bound(story.without(3_000, X)).0, 1_200);
}

fn a_younger_caller_has_one_turn() {
    let story = write().wants(0, X);
    let story = holds_it(story, "w1/1/0", 200, 300, 1_000);
    let story = holds_it(story, "w1/1/0", 1_010, 1_100, 1_900);
    let story = holds_it(story, "w2/1/0", 250, 2_000, 2_600);
    assert_eq!(bound(story.valid(2_700, X, 1, 10)), (1_800, 0));
}

/// One more hold is allowed until the call reserves the lock, and one in each rest.
fn each_rest_allows_one_hold_more() {
    // The second hold is allowed at 2 s, after 1 s of reservation, the third at 4.5 s, after 0.5 s of rest and 2 s of reservation.
    for (took, holds) in [(1_990, 1), (2_020, 2), (4_490, 2), (4_520, 3)] {
        let story = Story::default().wants(0, X);
        let story = (0..4).fold(story, |story, i| {
            let from = 300 + i * 200;
            holds_it(story, "w1/1/0", from, from + 10, from + 110)
        });
        let rests = u128::from(took - 1_000) / 3;
        let expected = 1_000 + rests + holds * 100 + 1_000;
        let (found, _) = bound(story.valid(took, X, 1, 10));
        assert!(found.abs_diff(expected) <= 1, "{took}: {found} and not {expected}");
    }
}

fn a_worker_hands_its_turn_on() {
    let story = |who: &str, from: u64, kind: &str| {
        let story =
            holds_it(write().valid(0, "w1/1/0", 1, 5_000).wants(10, X), "w3/1/0", 150, 160, 161);
        let story = story.leaves(1_010, "w1/1/0").kind(kind, Class::Exclusive);
        bound(holds_it(story, who, 1_010, from, from + 700).valid(3_000, X, 9_000, 10)).0
    };
    // One hold out of order is allowed, the longest of the remaining ones.
    assert_eq!(story("w1/1/1", 1_020, "write"), 1_000 + 200 + 700 + 1 + 1_000);
    assert_eq!(story("w1/1/1", 1_210, "write"), 1_000 + 200 + 700 + 1 + 1_000);
    assert_eq!(story("w1/1/1", 1_211, "write"), 1_000 + 200 + 700 + 1_000);
    assert_eq!(story("w2/1/1", 1_020, "write"), 1_000 + 200 + 700 + 1_000);
    assert_eq!(story("w1/1/1", 1_020, "mutex"), 1_000 + 200 + 700 + 1_000);
}

fn threads_reserve_one_by_one() {
    let bound_behind = |who: &str, kind: &str| {
        let story = Story::default().kind(kind, Class::Exclusive).wants(0, who);
        let story = story.kind("mutex", Class::Exclusive).wants(200, X);
        bound(story.valid(5_200, X, 1, 10)).0
    };
    assert_eq!(bound_behind("w0/1/1", "mutex"), 2_000 + 1_000 + 1_000);
    for (who, kind) in [("w0/1/1", "reentrant"), ("w1/1/1", "mutex")] {
        assert_eq!(bound_behind(who, kind), 1_000 + 4_000 / 3 + 1_000);
    }
}

/// The excused part of a wait from 1 s to 21 s, with a fault of each of the targets from 2 s to 4 s.
fn excused(others: Story, targets: &[&str], forgets: bool) -> u128 {
    excused_by(&WAITS, others, targets, forgets)
}

fn excused_by(rules: &WaitRules, others: Story, targets: &[&str], forgets: bool) -> u128 {
    let mut history = others.end();
    let mut story = write().wants(1_000, X).without(21_000, X);
    for (id, target) in targets.iter().enumerate() {
        let fault = if forgets { Story::forgets } else { Story::fault };
        story = fault(story, 2_000, id as u64, target).healed(4_000, id as u64);
    }
    history.0.extend(story.end().0);
    let waits = judged_by(rules, &sorted(history));
    let wait = waits.iter().find(|wait| wait.who == X).expect("it is judged");
    wait.absent.as_millis()
}

fn a_wait_without_a_majority_is_excused() {
    let targets = ["master 0", "master 1", "links to 1 2"];
    assert_eq!(excused(Story::default(), &targets, false), 2_000 + 2_000);
    // A quarantine follows the fault.
    assert_eq!(excused(Story::default(), &targets, true), 2_000 + 2_000 + 3_000);
    // A fault in the middle extends the bound by the fault's length.
    let story = |end| {
        let story = write().wants(0, X).fault(500, 1, "links to 0 1 2").healed(700, 1);
        is_too_long(story.valid(end, X, 1, 10))
    };
    assert!(!story(1_000 + 200 + 2_000) && story(1_001 + 200 + 2_000));
    // The fault does not count beyond the end of the wait.
    let story = write().wants(0, X).fault(1_500, 1, "links to 0 1 2");
    assert_eq!(bound(story.valid(2_000, X, 1, 10)), (1_500, 500));
}

fn a_minority_is_no_excuse() {
    for targets in [&["master 0", "master 1"][..], &["master 0", "links to 0 1"]] {
        assert_eq!(excused(Story::default(), targets, true), 0);
    }
}

/// The excuse lasts as long as the slowness, and as long again.
fn a_slow_majority_excuses_a_wait() {
    let slow = |masters: &[usize]| {
        let story = write().wants(1_000, X);
        let slow = masters.iter().fold(story, |story, master| {
            let slow = Event::Slow { master: *master, took: ms(300) };
            story.tell(1_500 + *master as u64, "probe", slow)
        });
        slow.valid(2_500, X, 1, 10).leaves(2_505, X)
    };
    assert!(is_too_long(slow(&[])) && is_too_long(slow(&[0, 1])));
    // The majority is missing from the time when the third master is slow until the first one has recovered.
    assert_eq!(bound(slow(&[0, 1, 2])), (1_000 + 598, 598));
    assert!(!is_too_long(slow(&[0, 1, 2])));
}

fn faults_of_its_own_worker_excuse_a_wait() {
    let none = Story::default;
    assert_eq!(excused(none(), &["worker w0"], false), 2_000);
    assert_eq!(excused(none(), &["worker w0 to masters 0 1 2"], false), 2_000 + 2_000);
    assert_eq!(excused(none(), &["worker w0 to masters 0", "master 1", "master 2"], false), 4_000);
    assert_eq!(excused(none(), &["worker w0 to masters 0 1"], false), 0);
    for other in ["worker w1", "worker w1 to masters 0 1 2"] {
        assert_eq!(excused(none(), &[other], false), 0, "it has nothing to do with the names");
    }
}

fn what_others_leave_behind_excuses_a_wait() {
    let killed = |at| write().wants(at, "w1/1/0").tell(2_010, "w1/1/0", Event::Gone);
    let fault = &["worker w1"];
    // The keys of an attempt stay for the longest TTL.
    assert_eq!(excused(killed(1_500), fault, false), 3_000);
    let granted = |story: Story, at| story.valid(at, "w2/1/0", 1, 10).leaves(at + 5, "w2/1/0");
    assert_eq!(excused(granted(killed(1_500), 2_500), fault, false), 500);
    // An older call may have reserved the lock for 2 s.
    assert_eq!(excused(granted(killed(500), 2_500), fault, false), 2_000);
    // A shared grant does not prove that the dead caller's keys are gone.
    let shares = granted(killed(1_500).kind("read", Class::Shared), 2_500);
    assert_eq!(excused(shares, fault, false), 3_000);
    // The killed caller waits for another name.
    let other = write().of(&["b"]).wants(1_500, "w1/1/0").tell(2_010, "w1/1/0", Event::Gone);
    assert_eq!(excused(other.clone(), fault, false), 0);
    // An older call waited for that name as well, until it gave up.
    let older = other.of(&["a", "b"]).wants(500, "w3/1/0").without(2_600, "w3/1/0");
    assert_eq!(excused(older, fault, false), 600);
    // The caller was only stopped, and goes on.
    let stopped = |at| write().wants(at, "w1/1/0").tell(20_000, "w1/1/0", Event::Gone);
    assert_eq!(excused(stopped(1_500), fault, false), 2_100);
    // The holder's release may not have been sent.
    let left = |at| write().valid(1_500, "w1/1/0", 1, 5_000).leaves(at, "w1/1/0");
    assert_eq!(excused(left(1_900), fault, false), 2_100);
    assert_eq!(excused(left(1_899), fault, false), 0);
    let killed_then = left(1_900).tell(2_010, "w1/1/0", Event::Gone);
    assert_eq!(excused(killed_then, fault, false), 3_000, "its key stays");
    // The killed process is the predecessor of the caller's own.
    let before = write().wants(300, "w0/0/1").fault(500, 1, "worker w0");
    let before = before.tell(510, "w0/0/1", Event::Gone).healed(600, 1);
    let waits = judged(&sorted(before.wants(1_000, X).without(21_000, X).end()));
    let wait = waits.iter().find(|wait| wait.who == X).expect("it is judged");
    assert_eq!(wait.absent.as_millis(), 500 + 3_000 - 1_000);
    // A caller that was killed before this call began may have reserved the lock as well.
    let before = write().wants(300, "w1/1/0").fault(500, 1, "worker w1");
    let before = before.tell(510, "w1/1/0", Event::Gone).healed(600, 1).wants(1_000, X);
    let waits = judged(&sorted(granted(before, 1_100).without(21_000, X).end()));
    let wait = waits.iter().find(|wait| wait.who == X).expect("it is judged");
    assert_eq!(wait.absent.as_millis(), 500 + 2_000 - 1_000);
    // A mutex caller reserves the lock after it has waited for a second.
    let mutex = |at| Story::default().wants(at, "w1/1/0").tell(2_010, "w1/1/0", Event::Gone);
    assert_eq!(excused(granted(mutex(1_000), 2_500), fault, false), 2_000);
    assert_eq!(excused(granted(mutex(1_001), 2_500), fault, false), 500);
    // It reserves the lock earlier if others share it.
    let shared = mutex(1_001).kind("read", Class::Shared).valid(1_500, "w3/1/0", 1, 450);
    let shared = shared.leaves(1_950, "w3/1/0").kind("mutex", Class::Exclusive);
    assert_eq!(excused(granted(shared, 2_500), fault, false), 2_000);
}

fn what_is_kept_when_cut_off_excuses() {
    let held = || write().valid(1_500, "w1/1/0", 1, 5_000).leaves(2_500, "w1/1/0");
    let cut = "worker w1 to masters 0 1";
    // A lock that was not given back lives for the longest TTL at most, and until a while after the links are healed.
    assert_eq!(excused(held(), &[cut, "worker w0 to masters 2"], false), 2_500 + 3_000 - 2_000);
    assert_eq!(excused(held(), &[cut, "worker w0 to masters 1"], false), 0);
    assert_eq!(excused(held(), &[cut], false), 0);
    // A reservation lives longer than a lock of a short TTL.
    let short = WaitRules { max_ttl: ms(500), ..WAITS };
    let targets = [cut, "worker w0 to masters 2"];
    assert_eq!(excused_by(&short, held(), &targets, false), 2_500 + 2_000 - 2_000);
    // The holder's release may not have been sent before the cut.
    let left = |at| write().valid(1_500, "w1/1/0", 1, 5_000).leaves(at, "w1/1/0");
    assert_eq!(excused(left(1_900), &[cut, "worker w0 to masters 2"], false), 1_900 + 1_000);
    assert_eq!(excused(left(1_899), &[cut, "worker w0 to masters 2"], false), 0);
    let other = write().of(&["b"]).valid(1_500, "w1/1/0", 1, 5_000).leaves(2_500, "w1/1/0");
    assert_eq!(excused(other, &[cut, "worker w0 to masters 2"], false), 0);
    let wants = write().wants(1_500, "w1/1/0").tell(3_000, "w1/1/0", Event::Gone);
    assert_eq!(excused(wants, &["worker w1 to masters 0 1 2"], false), 4_000);
    let other = write().of(&["b"]).valid(1_500, "w1/1/0", 1, 5_000).leaves(2_500, "w1/1/0");
    let older = other.of(&["a", "b"]).wants(500, "w3/1/0").without(2_600, "w3/1/0");
    assert_eq!(excused(older, &["worker w1 to masters 0 1 2"], false), 600);
    // The masters that are missing for one name are not added to those that are missing for another.
    let two = write().of(&["a", "b"]).wants(500, "w3/1/0").of(&["b"]);
    let two = two.valid(1_500, "w1/1/0", 1, 5_000).of(&["a"]).valid(1_600, "w2/1/0", 1, 5_000);
    let cuts = ["worker w1 to masters 0 1", "worker w2 to masters 2"];
    assert_eq!(excused(two, &cuts, false), 0);
}

fn waits_are_reported_by_kind() {
    let mut story = Story::default();
    for i in 1..=200_u64 {
        let at = i * 1_000;
        story = story.wants(at, X).valid(at + i, X, 1, 10).leaves(at + i + 5, X);
    }
    let story = story.kind("read", Class::Shared).wants(300_000, X).without(301_500, X);
    let story = story.wants(302_000, X).without(303_100, X).wants(304_000, X);
    let story = story.without(305_400, X);
    let rules = Rules { waits: Some(WAITS), ..story::RULES };
    let verdict = Verdict::of(&story.end(), &rules).to_string();
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = verdict.lines().map(squeezed).collect();
    let expected = [
        "kind | grants | 99 % within | longest wait | nearest to its bound | without majority",
        "mutex | 200 | 0.198 s | 0.200 s | - | -",
        "read | 0 | 0.000 s | 0.000 s | 1.50 s of 1.00 s | 0.00 s",
    ];
    assert!(lines.windows(3).any(|lines| lines == expected), "{verdict}");
}
