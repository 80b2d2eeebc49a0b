//! Cases as text: the inputs of a machine and its expected outputs, step by step.
//!
//! A file of cases explains its steps at the top. A line is one of
//!
//! ```text
//! case NAME               a new case, with a new machine
//! needs MECHANISM ..      if one of these mechanisms is off, some step of the case says something else
//! INPUT -> OUTPUT         a step
//! # ..                    a comment
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use super::super::hold::Terms;
use super::{Allowance, Mechanism, Time, without};

#[derive(Default)]
struct Case<'a> {
    name: &'a str,
    needs: Vec<Mechanism>,
    /// Line number, input, and expected output.
    steps: Vec<(usize, &'a str, &'a str)>,
}

/// Plays all cases of `text`, each on a `new` machine. `step` applies one line's input to it. Each of `mechanisms` must be needed
/// by some case.
#[track_caller]
pub(crate) fn play<M>(
    text: &str,
    mechanisms: &[Mechanism],
    new: impl Fn() -> M,
    step: impl Fn(&mut M, &mut Words<'_>) -> String,
) {
    let cases = read(text, mechanisms);
    // Only the first difference counts: later ones follow from it.
    let difference = |case: &Case<'_>| {
        let mut machine = new();
        let differs = |&(line, input, expected): &(usize, &str, &str)| {
            let mut words = Words(input.split_whitespace().collect());
            let said = step(&mut machine, &mut words);
            assert!(words.0.is_empty(), "line {line}: what is {:?}?", words.0);
            (said != expected).then(|| format!("line {line}, \"{input}\": {said}"))
        };
        case.steps.iter().find_map(differs)
    };
    let mut wrong = Vec::new();
    for case in &cases {
        if let Some(found) = difference(case) {
            wrong.push(format!("case \"{}\"\n  {found}", case.name));
        }
        for mechanism in &case.needs {
            let bites = without(&[*mechanism], || difference(case)).is_some();
            assert!(bites, "case \"{}\" does not need {mechanism:?}", case.name);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for mechanism in mechanisms {
        let is_needed = cases.iter().any(|case| case.needs.contains(mechanism));
        assert!(is_needed, "no case needs {mechanism:?}");
    }
}

fn read<'a>(text: &'a str, mechanisms: &[Mechanism]) -> Vec<Case<'a>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let is_read = |line: &&str| !line.is_empty() && !line.starts_with('#');
    for (line, text) in (1..).zip(text.lines()).filter(|(_, line)| is_read(line)) {
        if let Some(name) = text.strip_prefix("case ") {
            cases.push(Case { name, ..Case::default() });
            continue;
        }
        let case = cases.last_mut().expect("a file begins with a case");
        if let Some(names) = text.strip_prefix("needs ") {
            let named = |name| {
                let found = mechanisms.iter().find(|one| format!("{one:?}") == name);
                *found.unwrap_or_else(|| panic!("line {line}: the reader does not list {name}"))
            };
            case.needs.extend(names.split_whitespace().map(named));
            continue;
        }
        let (input, output) = text.split_once("->").unwrap_or_else(|| panic!("line {line}: no ->"));
        case.steps.push((line, input.trim(), output.trim()));
    }
    assert!(cases.iter().all(|case| !case.steps.is_empty()), "a case without steps");
    cases
}

/// The unread words of an input.
pub(crate) struct Words<'a>(VecDeque<&'a str>);

impl<'a> Words<'a> {
    pub(crate) fn word(&mut self) -> &'a str {
        self.0.pop_front().expect("one more word")
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.word().parse().expect("a number")
    }

    pub(crate) fn node(&mut self) -> usize {
        self.word().parse().expect("the number of a node")
    }

    pub(crate) fn ms(&mut self) -> Duration {
        Duration::from_millis(self.number())
    }

    /// Returns so many milliseconds, or `None` if the rest of the line has `word` instead.
    pub(crate) fn ms_unless(&mut self, word: &str) -> Option<Duration> {
        (!self.has(word)).then(|| self.ms())
    }

    pub(crate) fn time(&mut self) -> Time {
        Time::from_start(self.ms())
    }

    /// Returns the nodes that the rest of the line names.
    pub(crate) fn nodes(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| (!self.0.is_empty()).then(|| self.node())).collect()
    }

    /// Returns true if `word` is among the rest, and takes it out.
    pub(crate) fn has(&mut self, word: &str) -> bool {
        let place = self.0.iter().position(|one| *one == word);
        place.and_then(|place| self.0.remove(place)).is_some()
    }

    /// Returns the milliseconds behind `word`, if it is among the rest.
    pub(crate) fn ms_of(&mut self, word: &str) -> Option<Duration> {
        let place = self.0.iter().position(|one| *one == word)?;
        let number = self.0.remove(place + 1).and_then(|number| number.parse().ok());
        self.0.remove(place);
        Some(Duration::from_millis(number.expect("a number")))
    }

    /// Returns the terms of a caller: a lock of 3 s that is renewed, unless the rest of the line says otherwise: `ttl MS`,
    /// `manual`, `max-hold MS`, `min-hold MS`, `tolerance MS`.
    pub(crate) fn terms(&mut self) -> Terms {
        let terms = Terms {
            ttl: self.ms_of("ttl").unwrap_or(Duration::from_secs(3)),
            renewed: !self.has("manual"),
            max_hold: self.ms_of("max-hold"),
            min_hold: self.ms_of("min-hold"),
            allowance: Allowance { clock_tolerance: self.ms_of("tolerance").unwrap_or_default() },
            risk_margin: None,
            one_holder: false,
        };
        terms.ending_with_the_hold()
    }
}

/// Shows a time or a duration, in milliseconds.
pub(crate) fn in_ms(duration: Duration) -> String {
    (duration.as_micros() as f64 / 1_000.0).to_string()
}

pub(crate) fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}

#[test]
#[should_panic(expected = "line 3, \"b\": b")]
fn a_step_that_says_something_else_is_told() {
    play("case one\na -> a\nb -> c", &[], || (), |(), words| words.word().to_owned());
}

#[test]
#[should_panic(expected = "does not need Majority")]
fn a_case_that_does_not_need_what_it_says_is_told() {
    let mechanisms = [Mechanism::Majority];
    play(
        "case one\nneeds Majority\na -> a",
        &mechanisms,
        || (),
        |(), words| words.word().to_owned(),
    );
}
