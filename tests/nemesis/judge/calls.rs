//! Who waited for a lock, from when to when.

use std::collections::HashMap;
use std::time::Duration;

use crate::witness::{Event, History, Stamp};

/// One call that wanted a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) who: String,
    pub(crate) names: Vec<String>,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
    pub(crate) result: CallResult,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Granted,
    Without(String),
    /// The contender was killed, or had not come to an end when the history ended.
    Unknown,
}

impl Call {
    pub(crate) fn took(&self) -> Duration {
        self.end - self.begin
    }
}

/// All calls, by their beginning.
pub(crate) fn calls(history: &History) -> Vec<Call> {
    let mut pending: HashMap<&str, (&[String], Stamp)> = HashMap::new();
    let mut calls = Vec::new();
    let mut end = |who: &str, pending: Option<(&[String], Stamp)>, stamp, result| {
        if let Some((names, begin)) = pending {
            let (who, names) = (who.to_owned(), names.to_vec());
            calls.push(Call { who, names, begin, end: stamp, result });
        }
    };
    for record in &history.0 {
        let (who, stamp) = (record.who.as_str(), record.stamp);
        match &record.event {
            Event::Wants { names, .. } => {
                pending.insert(who, (names, stamp));
            }
            Event::Inside { .. } => end(who, pending.remove(who), stamp, CallResult::Granted),
            Event::Without { why } => {
                end(who, pending.remove(who), stamp, CallResult::Without(why.clone()));
            }
            Event::Gone => end(who, pending.remove(who), stamp, CallResult::Unknown),
            _ => {}
        }
    }
    let last = history.0.last().map_or(Stamp::ZERO, |record| record.stamp);
    for (who, call) in pending {
        end(who, Some(call), last, CallResult::Unknown);
    }
    calls.sort_by_key(|call| call.begin);
    calls
}
