//! Figures of the locks that a program has given a label.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::outcome::{Outcome, Outcomes};
use super::snapshot::LabelStats;
use super::times::TimesRecorder;
use crate::error::Error;

/// The most labels of a client. Further ones share [`OTHER`].
const MOST: usize = 100;

/// The label of all labels beyond [`MOST`].
const OTHER: &str = "other";

/// The longest label, in bytes.
const LONGEST: usize = 64;

/// Counts the calls and holds under one label.
#[derive(Debug)]
pub(crate) struct LabelRecorder {
    label: Box<str>,
    outcomes: Outcomes,
    waits: TimesRecorder,
    holds: TimesRecorder,
}

impl LabelRecorder {
    fn new(label: &str) -> Arc<Self> {
        Arc::new(Self {
            label: label.into(),
            outcomes: Outcomes::default(),
            waits: TimesRecorder::new(),
            holds: TimesRecorder::new(),
        })
    }

    pub(super) fn call_ended(&self, outcome: Outcome, took: Duration) {
        self.outcomes.count(outcome);
        if outcome == Outcome::Acquired {
            self.waits.record(took);
        }
    }

    pub(super) fn hold_ended(&self, took: Duration) {
        self.holds.record(took);
    }

    fn snapshot(&self) -> LabelStats {
        LabelStats {
            label: self.label.to_string(),
            calls: self.outcomes.snapshot(),
            waits: self.waits.snapshot(),
            holds: self.holds.snapshot(),
        }
    }
}

/// The labels of one client, in the order in which they were used first.
#[derive(Debug, Default)]
pub(super) struct Labels(Mutex<Vec<Arc<LabelRecorder>>>);

impl Labels {
    /// The recorder of that label.
    pub(super) fn of(&self, label: &str) -> Arc<LabelRecorder> {
        let mut labels = self.0.lock();
        let is_full = labels.len() >= MOST;
        let find = |wanted: &str| labels.iter().find(|known| *known.label == *wanted).cloned();
        if let Some(known) = find(label).or_else(|| find(OTHER).filter(|_| is_full)) {
            return known;
        }
        let new = LabelRecorder::new(if is_full { OTHER } else { label });
        labels.push(new.clone());
        drop(labels);
        new
    }

    pub(super) fn snapshot(&self) -> Vec<LabelStats> {
        // Handles with a label take the mutex, too.
        let labels = self.0.lock().clone();
        labels.iter().map(|label| label.snapshot()).collect()
    }
}

/// Returns the error of a text that is no label.
pub(crate) fn check_label(label: &str) -> Result<(), Error> {
    if label.is_empty()
        || label.len() > LONGEST
        || label.contains(|it: char| !matches!(it, ' '..='~'))
    {
        return Err(Error::config(format!(
            "the metrics_label \"{}\" is none: it must be 1 to {LONGEST} characters of printable ASCII",
            label.escape_default()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_beyond_the_most_share_one() {
        let labels = Labels::default();
        for i in 0..MOST * 2 {
            labels.of(&format!("label-{i}")).call_ended(Outcome::Acquired, Duration::ZERO);
        }
        let stats = labels.snapshot();
        assert_eq!(stats.len(), MOST + 1);
        let calls = |label: &str| {
            let mut found = stats.iter().filter(|it| it.label == label);
            found.next().map(|it| it.calls.acquired)
        };
        assert_eq!((calls("label-0"), calls("label-99")), (Some(1), Some(1)));
        assert_eq!((calls("label-100"), calls(OTHER)), (None, Some(100)));
        assert_eq!(*labels.of("label-7").label, *"label-7", "it was there in time");
    }

    #[test]
    fn a_text_that_is_no_label_is_an_error() {
        for label in ["", "two\nlines", "ümlaut", &"x".repeat(65)] {
            assert!(check_label(label).is_err(), "{label:?}");
        }
        for label in ["orders", "a b", &"x".repeat(64)] {
            assert!(check_label(label).is_ok(), "{label:?}");
        }
    }
}
