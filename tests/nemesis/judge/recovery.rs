//! How long nobody was let in although somebody wanted to be, and whether everybody got a lock again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::witness::{Event, History, Stamp};

use super::calls::Call;
use super::faults::Fault;
use super::holds::Hold;
use super::violation::Violation;

/// A contender that asks again after so long has wanted the lock in between.
const SAME_WISH: Duration = Duration::from_millis(100);

/// A time in which a lock was wanted, and nobody was inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) name: String,
    pub(crate) begin: Stamp,
    pub(crate) end: Stamp,
}

/// All outages, name by name. `holds` are by name and beginning.
pub(crate) fn outages(holds: &[Hold], calls: &[Call]) -> Vec<Outage> {
    let mut wanted: BTreeMap<&str, Vec<(Stamp, Stamp)>> = BTreeMap::new();
    for call in calls {
        let spans = wanted.entry(&call.name).or_default();
        match spans.last_mut().filter(|(_, end)| call.begin <= *end + SAME_WISH) {
            Some((_, end)) => *end = call.end.max(*end),
            None => spans.push((call.begin, call.end)),
        }
    }
    let mut outages = Vec::new();
    for (name, spans) in wanted {
        let held: Vec<&Hold> = holds.iter().filter(|hold| hold.name == name).collect();
        for (begin, end) in spans {
            let mut free_from = begin;
            for hold in held.iter().filter(|hold| hold.end > begin && hold.begin < end) {
                if hold.begin > free_from {
                    outages.push(Outage {
                        name: name.to_owned(),
                        begin: free_from,
                        end: hold.begin,
                    });
                }
                free_from = free_from.max(hold.end);
            }
            if end > free_from {
                outages.push(Outage { name: name.to_owned(), begin: free_from, end });
            }
        }
    }
    outages
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
