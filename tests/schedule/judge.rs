//! Judges the hosts' reports, round by round. It knows nothing of locks.

use std::fmt;
use std::time::Duration;

use crate::host::{Answer, Told};
use crate::settings::KEPT;

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Once,
    /// The job was done again while the masters keep the lock.
    Twice,
    /// The job was done again after that time, by a late host.
    AgainLater,
    /// No host did the job, since the hosts found too few masters.
    NoMajority,
    /// No host did the job, although one was told that another host does it.
    Missed,
}

/// Judges the reports of one round.
pub(crate) fn judge(told: &[Told]) -> Verdict {
    let with = |answer| told.iter().filter(move |told| told.answer == answer);
    let mut inside: Vec<_> = with(Answer::Inside).collect();
    inside.sort_unstable_by_key(|told| told.answered);
    match inside.as_slice() {
        [] => {
            let no_majority = with(Answer::NoMajority).next().is_some();
            let explained = with(Answer::Held).all(|held| meets_another(held, told));
            if no_majority && explained { Verdict::NoMajority } else { Verdict::Missed }
        }
        [_] => Verdict::Once,
        several => {
            // The lock was not held before it was asked for. The masters' clocks may be faster than ours.
            let ends = |first: &Told| first.asked + KEPT.mul_f64(0.98);
            let too_early = several.windows(2).any(|pair| pair[1].answered < ends(pair[0]));
            if too_early { Verdict::Twice } else { Verdict::AgainLater }
        }
    }
}

/// Returns true if an attempt of another host of the round had not settled. Its key on a master may have caused the refusal.
fn meets_another(held: &Told, all: &[Told]) -> bool {
    let meets = |other: &&Told| other.asked <= held.answered && held.asked <= other.settled();
    // The report meets itself.
    all.iter().filter(meets).count() > 1
}

/// The results of all rounds.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) verdicts: Vec<Verdict>,
    /// The reports of the rounds that should not have come out like this.
    wrong: Vec<Vec<Told>>,
    /// The number of times that the job was done, in all rounds.
    pub(crate) done: usize,
    pub(crate) killed_hosts: usize,
    pub(crate) killed_masters: usize,
}

impl Figures {
    pub(crate) fn new(rounds: Vec<Vec<Told>>, killed_hosts: usize, killed_masters: usize) -> Self {
        let is_inside = |told: &&Told| told.answer == Answer::Inside;
        let done = rounds.iter().flatten().filter(is_inside).count();
        let verdicts = rounds.iter().map(|told| judge(told)).collect();
        let is_wrong = |told: &Vec<Told>| matches!(judge(told), Verdict::Twice | Verdict::Missed);
        let wrong = rounds.into_iter().filter(is_wrong).collect();
        Self { verdicts, wrong, done, killed_hosts, killed_masters }
    }

    /// The figures, and the reports of the rounds that should not have come out like this.
    pub(crate) fn in_full(&self) -> String {
        format!("{self}\n{:#?}", self.wrong)
    }

    pub(crate) fn count(&self, wanted: Verdict) -> usize {
        self.verdicts.iter().filter(|verdict| **verdict == wanted).count()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds, the job done {} times: once in {}, twice in {}, again later in {}; not at all in {} without a \
             majority, and in {} with one; {} hosts and {} masters were killed",
            self.verdicts.len(),
            self.done,
            self.count(Verdict::Once),
            self.count(Verdict::Twice),
            self.count(Verdict::AgainLater),
            self.count(Verdict::NoMajority),
            self.count(Verdict::Missed),
            self.killed_hosts,
            self.killed_masters,
        )
    }
}

/// The judge tells good and bad rounds apart.
pub(crate) fn judges_rounds() {
    let told = |answer, asked_ms| {
        let asked = Duration::from_millis(asked_ms);
        let answered = asked + Duration::from_millis(5);
        Told { asked, answered, answer, settled: Some(answered + Duration::from_millis(20)) }
    };
    let late = |settled, told: Told| Told { settled, ..told };
    let inside = |asked_ms| told(Answer::Inside, asked_ms);
    let held = |asked_ms| told(Answer::Held, asked_ms);
    let no_majority = |asked_ms| told(Answer::NoMajority, asked_ms);
    let kept = KEPT.as_millis() as u64;
    let rounds = [
        (vec![held(100), inside(0), no_majority(200)], Verdict::Once),
        (vec![inside(900), inside(0), held(100)], Verdict::Twice),
        (vec![inside(kept - 100), inside(0)], Verdict::Twice),
        (vec![inside(0), inside(kept), inside(kept + 10)], Verdict::Twice),
        (vec![inside(0), inside(kept)], Verdict::AgainLater),
        (vec![no_majority(0), no_majority(100)], Verdict::NoMajority),
        (vec![no_majority(0), held(4), no_majority(100)], Verdict::NoMajority),
        (vec![no_majority(0), held(24), no_majority(100)], Verdict::NoMajority),
        (vec![no_majority(0), held(26), no_majority(100)], Verdict::Missed),
        (vec![no_majority(0), held(100), no_majority(200)], Verdict::Missed),
        (
            vec![late(Some(Duration::from_millis(110)), no_majority(0)), held(100)],
            Verdict::NoMajority,
        ),
        (vec![late(None, no_majority(0)), held(kept)], Verdict::NoMajority),
        (vec![late(None, no_majority(0)), held(kept + 100)], Verdict::Missed),
        (vec![held(0), held(1)], Verdict::Missed),
        (vec![], Verdict::Missed),
    ];
    for (told, verdict) in rounds {
        assert_eq!(judge(&told), verdict, "{told:?}");
    }
}
