//! How long nobody was let in although somebody wanted to be, and whether everybody got a lock again.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use crate::witness::{Event, History, Stamp};

use super::calls::Call;
use super::faults::Fault;
use super::holds::Hold;
use super::violation::Violation;

/// A contender that asks again after so long has wanted the lock in between.
const SAME_WISH: Duration = Duration::from_millis(100);

/// A time in which somebody wanted a lock with that name, and nobody was inside who had one of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) name: String,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

/// From when to when.
type Span = (Stamp, Stamp);

/// All outages, name by name.
pub(crate) fn outages(holds: &[Hold], calls: &[Call]) -> Vec<Outage> {
    let mut held: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for hold in holds {
        for name in &hold.names {
            held.entry(name).or_default().push((hold.begin, hold.end));
        }
    }
    for spans in held.values_mut() {
        *spans = joined(mem::take(spans), Duration::ZERO);
    }
    let held = |name: &str| held.get(name).map_or(&[][..], Vec::as_slice);

    let mut wanted: BTreeMap<&str, Vec<Span>> = BTreeMap::new();
    for call in calls {
        for name in &call.names {
            // While another one of its names is held, the call waits for that one.
            let others = call.names.iter().filter(|other| *other != name);
            let spans = others.fold(vec![(call.begin, call.end)], |spans, other| {
                spans.into_iter().flat_map(|span| without(span, held(other))).collect()
            });
            wanted.entry(name).or_default().extend(spans);
        }
    }
    let mut outages = Vec::new();
    for (name, spans) in wanted {
        for span in joined(spans, SAME_WISH) {
            let outage = |(begin, end)| Outage { name: name.to_owned(), begin, end };
            outages.extend(without(span, held(name)).into_iter().map(outage));
        }
    }
    outages
}

/// The spans in their order. Those that are not more than `gap` apart become one.
fn joined(mut spans: Vec<Span>, gap: Duration) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (begin, end) in spans {
        match joined.last_mut().filter(|(_, last)| begin <= *last + gap) {
            Some((_, last)) => *last = end.max(*last),
            None => joined.push((begin, end)),
        }
    }
    joined
}

/// What is left of a span without the `taken` ones, which are in order and apart.
fn without((begin, end): Span, taken: &[Span]) -> Vec<Span> {
    let mut left = Vec::new();
    let mut free_from = begin;
    let first = taken.partition_point(|(_, taken_end)| *taken_end <= begin);
    for (taken_begin, taken_end) in taken[first..].iter().take_while(|taken| taken.0 < end) {
        if *taken_begin > free_from {
            left.push((free_from, *taken_begin));
        }
        free_from = *taken_end;
    }
    if end > free_from {
        left.push((free_from, end));
    }
    left
}

/// What one kind of fault did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) faults: usize,
    pub(crate) hit: usize,
    /// The longest outage that had not ended when such a fault began, or began before its effect was over. Other
    /// faults of that time may have had a part in it.
    pub(crate) outage: Duration,
    /// As much of an outage as came after the fault was healed.
    pub(crate) after_healing: Duration,
}

/// The effects by kind of fault. A fault has effects until `aftermath` after it is healed.
pub(crate) fn effects(
    faults: &[Fault],
    outages: &[Outage],
    aftermath: Duration,
) -> BTreeMap<String, Effect> {
    let mut effects: BTreeMap<String, Effect> = BTreeMap::new();
    for fault in faults {
        let effect = effects.entry(fault.kind.clone()).or_default();
        effect.faults += 1;
        effect.hit += usize::from(fault.hit);
        let until = fault.healed + aftermath;
        for outage in outages.iter().filter(|it| it.end > fault.begin && it.begin < until) {
            effect.outage = effect.outage.max(outage.end - outage.begin);
            let after = outage.end.saturating_sub(fault.healed.max(outage.begin));
            effect.after_healing = effect.after_healing.max(after);
        }
    }
    effects
}

/// The contenders that were still there, and were not inside with a valid lock within `limit` after the last fault was healed.
pub(crate) fn not_recovered(
    history: &History,
    faults: &[Fault],
    limit: Duration,
) -> Vec<Violation> {
    let Some(healed) = faults.iter().map(|fault| fault.healed).max() else { return Vec::new() };
    let (mut there, mut got) = (BTreeSet::new(), BTreeSet::new());
    for record in history.0.iter().take_while(|record| record.stamp <= healed + limit) {
        let who = record.who.as_str();
        match &record.event {
            Event::Wants { .. } => drop(there.insert(who)),
            Event::Valid { at, .. } if *at > healed => drop(got.insert(who)),
            // Later, all of them go at the end of the run.
            Event::Gone if record.stamp <= healed => drop(there.remove(who)),
            _ => {}
        }
    }
    let late = there.difference(&got);
    late.map(|who| Violation::NotRecovered { who: (*who).to_owned(), healed, limit }).collect()
}
