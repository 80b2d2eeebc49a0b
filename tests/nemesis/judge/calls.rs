//! The calls that waited for a lock, with their times.

use std::collections::HashMap;
use std::time::Duration;

use crate::witness::{Event, History, Kind, Stamp};

/// One call that wanted a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) who: String,
    /// The kind of the lock. `None` if the contender did not report it.
    pub(crate) kind: Option<Kind>,
    pub(crate) names: Vec<String>,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
    pub(crate) result: CallResult,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallResult {
    Granted,
    Without(String),
    /// The contender was killed, or its call had no end when the history ended.
    Unknown,
}

impl Call {
    pub(crate) fn took(&self) -> Duration {
        self.end - self.begin
    }
}

/// All calls, by their beginning.
pub(crate) fn calls(history: &History) -> Vec<Call> {
    let mut pending: HashMap<&str, (&[String], Option<&Kind>, Stamp)> = HashMap::new();
    let mut calls = Vec::new();
    let mut end = |who: &str, pending: Option<(&[String], Option<&Kind>, Stamp)>, stamp, result| {
        if let Some((names, kind, begin)) = pending {
            let (who, kind, names) = (who.to_owned(), kind.cloned(), names.to_vec());
            calls.push(Call { who, kind, names, begin, end: stamp, result });
        }
    };
    for record in &history.0 {
        let (who, stamp) = (record.who.as_str(), record.stamp);
        match &record.event {
            Event::Wants { names, kind, .. } => {
                pending.insert(who, (names, kind.as_ref(), stamp));
            }
            Event::Inside { kind, .. } => {
                let call = pending.remove(who);
                let call = call.map(|(names, told, begin)| (names, told.or(Some(kind)), begin));
                end(who, call, stamp, CallResult::Granted);
            }
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
