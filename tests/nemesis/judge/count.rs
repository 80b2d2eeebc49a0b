//! The figures of the clients, beside what the witness saw.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use crate::witness::event::process_of;
use crate::witness::{Event, History};

use super::calls::{Call, CallResult};
use super::violation::Violation;

/// Two figures for one thing: as the witness saw it, and as the clients counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Both<T> {
    pub(crate) seen: T,
    pub(crate) counted: T,
}

/// The figures of all processes that told theirs. One that was killed did not.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count {
    pub(crate) processes: usize,
    /// The number of ended calls, by the label of the kind and by the way in which they ended.
    pub(crate) calls: BTreeMap<(String, String), Both<u64>>,
    /// The duration of all calls that got a lock. The witness's figure includes the times of its own messages.
    pub(crate) waited: Both<Duration>,
    /// The losses. A contender that gives a lock back at the moment of its loss does not notice it.
    pub(crate) losses: Both<u64>,
    pub(crate) violations: Vec<Violation>,
}

/// The ways in which a call may end that clients count. They do not count calls with wrong settings.
const COUNTED: [&str; 6] =
    [ACQUIRED, "held by another", "no quorum", "quarantined", "cancelled", "closed"];

/// The word for a call that got a lock.
const ACQUIRED: &str = "acquired";

/// Compares the figures, process by process. Each process must have counted all calls that the witness saw, and no others.
pub(crate) fn count(history: &History, calls: &[Call]) -> Count {
    let mut all = Count::default();
    for record in &history.0 {
        let Event::Counted { calls: counted, waited, losses } = &record.event else { continue };
        let process = process_of(&record.who);
        let seen = Seen::of(process, history, calls);
        let counted: BTreeMap<_, _> = counted
            .iter()
            .flat_map(|(kind, ended)| {
                ended.iter().map(|(ending, n)| ((kind.clone(), ending.clone()), *n))
            })
            .collect();
        let things: BTreeSet<_> = seen.calls.keys().chain(counted.keys()).collect();
        for thing in things {
            let of = |from: &BTreeMap<_, u64>| from.get(thing).copied().unwrap_or_default();
            let both = Both { seen: of(&seen.calls), counted: of(&counted) };
            all.calls.entry(thing.clone()).or_default().add(both);
            if both.seen != both.counted {
                let (kind, ending) = thing;
                all.violations.push(Violation::Miscounted {
                    process: process.to_owned(),
                    what: format!("calls of the kind {kind} that ended with \"{ending}\""),
                    both,
                });
            }
        }
        if *waited > seen.waited {
            let what = "microseconds of waits for locks".to_owned();
            let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            let both = Both { seen: us(seen.waited), counted: us(*waited) };
            all.violations.push(Violation::Miscounted { process: process.to_owned(), what, both });
        }
        all.processes += 1;
        all.waited.add(Both { seen: seen.waited, counted: *waited });
        all.losses.add(Both { seen: seen.losses, counted: *losses });
    }
    all
}

impl<T> Both<T> {
    pub(crate) fn map<U>(self, of: impl Fn(T) -> U) -> Both<U> {
        Both { seen: of(self.seen), counted: of(self.counted) }
    }
}

impl<T: AddAssign> Both<T> {
    pub(crate) fn add(&mut self, other: Self) {
        self.seen += other.seen;
        self.counted += other.counted;
    }
}

/// The part of a process in a history.
#[derive(Default)]
struct Seen {
    calls: BTreeMap<(String, String), u64>,
    waited: Duration,
    losses: u64,
}

impl Seen {
    fn of(process: &str, history: &History, calls: &[Call]) -> Self {
        let mut seen = Self::default();
        for call in calls.iter().filter(|call| process_of(&call.who) == process) {
            let ending = match &call.result {
                CallResult::Granted => ACQUIRED,
                CallResult::Without(why) => why,
                CallResult::Unknown => continue,
            };
            if !COUNTED.contains(&ending) {
                continue;
            }
            if call.result == CallResult::Granted {
                seen.waited += call.took();
            }
            let kind = call.kind.as_ref().map_or("unknown", |kind| &kind.label);
            *seen.calls.entry((kind.to_owned(), ending.to_owned())).or_default() += 1;
        }
        let is_loss = |event: &Event| matches!(event, Event::Lost { .. });
        let own = history.0.iter().filter(|record| process_of(&record.who) == process);
        seen.losses = own.filter(|record| is_loss(&record.event)).count() as u64;
        seen
    }
}
