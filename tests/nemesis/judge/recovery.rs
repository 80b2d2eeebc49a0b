//! Outages in which callers wait and nobody holds the lock, and the recovery of all contenders after the faults.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use crate::witness::{Event, History, Stamp};

use super::calls::Call;
use super::faults::Fault;
use super::holds::Hold;
use super::violation::Violation;

/// Longest pause between two calls of a contender that still count as one wish.
const SAME_WISH: Duration = Duration::from_millis(100);

/// A time in which a lock with that name was wanted, and none of the wanted names was held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) name: String,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

/// Beginning and end.
type Span = (Stamp, Stamp);

/// All outages, by name.
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
            // While another one of its names is held, the call waits for that name.
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

/// The spans in order. Spans at most `gap` apart are joined.
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

/// The rest of a span without the `taken` ones, which are in order and disjoint.
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

/// The effect of one kind of fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) faults: usize,
    pub(crate) hit: usize,
    /// The longest outage that overlaps such a fault or its aftermath. Other faults
    /// of that time may have contributed.
    pub(crate) outage: Duration,
    /// The longest part of an outage after the fault was healed.
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

/// The remaining contenders that got no valid lock within `limit` after the last fault was healed.
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
            // Contenders that go later do so because the run ends.
            Event::Gone if record.stamp <= healed => drop(there.remove(who)),
            _ => {}
        }
    }
    let late = there.difference(&got);
    late.map(|who| Violation::NotRecovered { who: (*who).to_owned(), healed, limit }).collect()
}
