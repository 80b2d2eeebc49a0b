//! Told cases of a caller that waits, in `testdata/waiting.txt`: the nodes' messages, and the time of its next try.

use std::time::Duration;

use super::super::base::told_cases::{Words, in_ms, play, yes_or_no};
use super::super::base::{Allowance, Backoff, Mechanism, Time};
use super::super::vote::{Attempt, Ballot, Vote};
use super::super::wake::{ReleaseTracker, WakeReason};
use super::contention::Contention;

/// Duration of each attempt.
const MOMENT: Duration = Duration::from_millis(1);

struct Caller {
    tracker: ReleaseTracker,
    contention: Contention,
    nodes: usize,
    backoff: Backoff,
    may_fall_back: bool,
}

impl Caller {
    fn new(nodes: usize, ordered: bool) -> Self {
        Self {
            tracker: ReleaseTracker::new(nodes),
            contention: Contention::new(ordered),
            nodes,
            backoff: Backoff { min: Duration::from_millis(10), max: Duration::from_millis(100) },
            may_fall_back: false,
        }
    }

    /// Does the same as `Acquire` after an attempt in vain.
    fn ended(&mut self, attempt: &Attempt) {
        self.tracker.attempt_ended(attempt, 0, self.may_fall_back);
        self.contention.tried(attempt.is_split(), MOMENT, self.tracker.is_covered());
        self.contention.ended_at_preferred(attempt.preferred().is_some());
    }

    /// Does the same as `Acquire` when a release is announced.
    fn wakes(&mut self, random: f64) -> String {
        let Some(reason) = self.tracker.wake_reason() else { return "sleeps".to_owned() };
        let pause = self.contention.woken(reason, random);
        if reason != WakeReason::Listening {
            self.tracker.waits_after(reason);
        }
        format!("{}, in {}", name(reason), in_ms(pause))
    }

    fn says(&self) -> String {
        let reason = self.tracker.wake_reason().map_or("sleeps", name);
        format!("{reason}, {}", if self.tracker.is_covered() { "covered" } else { "polls" })
    }
}

fn name(reason: WakeReason) -> &'static str {
    match reason {
        WakeReason::Released => "released",
        WakeReason::PerhapsReleased => "perhaps",
        WakeReason::Listening => "listening",
    }
}

/// An attempt in vain. `granted N ..` or `silent N ..`: those nodes grant it, or do not answer, and the others refuse it.
/// `refused-by N`: that node alone refuses it, before the others are asked.
fn attempt(nodes: usize, words: &mut Words<'_>) -> Attempt {
    let (start, ttl) = (Time::default(), Duration::from_secs(1));
    let mut attempt = Attempt::new(nodes, start, start, ttl, Allowance::FOR_DRIFT);
    match words.word() {
        how @ ("granted" | "silent" | "refused") => {
            let named = if how == "refused" { Vec::new() } else { words.nodes() };
            for node in 0..nodes {
                match (named.contains(&node), how) {
                    (true, "granted") => attempt.vote(node, Vote::Granted(0)),
                    (true, _) => {}
                    (false, _) => attempt.vote(node, Vote::Refused(None)),
                }
            }
        }
        "refused-by" => {
            let node = words.node();
            attempt.prefer(node);
            attempt.vote(node, Vote::Refused(None));
        }
        other => panic!("unknown attempt {other}"),
    }
    attempt
}

fn step(caller: &mut Caller, words: &mut Words<'_>) -> String {
    let Caller { tracker, contention, nodes, .. } = caller;
    match words.word() {
        "nodes" => *caller = Caller::new(words.node(), true),
        "all-at-once" => *caller = Caller::new(*nodes, false),
        "may-fall-back" => caller.may_fall_back = true,
        "backoff" => caller.backoff = Backoff { min: words.ms(), max: words.ms() },
        "listens" => words.nodes().into_iter().for_each(|node| tracker.listening(node)),
        "deaf" => words.nodes().into_iter().for_each(|node| tracker.deaf(node)),
        "begins" => tracker.attempt_begins(),
        "ends" => {
            let attempt = attempt(*nodes, words);
            caller.ended(&attempt);
        }
        "attempt" => {
            tracker.attempt_begins();
            let attempt = attempt(*nodes, words);
            caller.ended(&attempt);
        }
        "told" => words.nodes().into_iter().for_each(|node| tracker.released(node)),
        "slept" => contention.slept(),
        "gives-way" => tracker.gives_way(),
        "behind" => contention.expects(words.number().try_into().unwrap_or(u32::MAX)),
        "wakes" => {
            let random = words.number() as f64 / 100.0;
            return caller.wakes(random);
        }
        "pause" => {
            let (tries, random) = (words.number(), words.number() as f64 / 100.0);
            let tries = tries.try_into().expect("few");
            return in_ms(contention.pause(caller.backoff, tries, random));
        }
        "asks" => {
            let order = words.nodes();
            let preferred = contention.preferred_node(&order, |node| tracker.hears(node));
            return preferred.map_or("all".to_owned(), |node| format!("{node} first"));
        }
        "heard" => return yes_or_no(tracker.has_heard()),
        "hears" => return yes_or_no(tracker.hears(words.node())),
        other => panic!("unknown input {other}"),
    }
    caller.says()
}

#[test]
fn told_cases() {
    let mechanisms = [
        Mechanism::WakeByMajority,
        Mechanism::TryOnceSubscribed,
        Mechanism::HeedsReleases,
        Mechanism::SilentNodesMayBeFree,
        Mechanism::UnheardNodesMayBeFree,
        Mechanism::AllAreAskedAgain,
        Mechanism::SilentNodesAreNotPreferred,
        Mechanism::FirstNodeMustTell,
        Mechanism::OrderedTries,
        Mechanism::EarlierWaitersFirst,
    ];
    let new = || Caller::new(3, true);
    play(include_str!("../../testdata/waiting.txt"), &mechanisms, new, step);
}
