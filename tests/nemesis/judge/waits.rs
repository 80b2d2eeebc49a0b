//! No call waits longer than the rules of the library allow.
//!
//! A wait lasts from the stamp of a call to its grant, to its end without a lock, to the death of its contender, or to the
//! end of the history. The bound of each wait follows from the other calls in the history. It is a sum:
//!
//! - **Turns ahead.** The older of two callers goes first. So the holders at the beginning of the call, and the contenders
//!   whose calls began before it, have one turn each: their hold, as far as it falls into the wait, and [`HAND_OVER`]. An
//!   older call for several names waits for others itself. So callers of its other names are ahead as well, if they are
//!   older than the judged call.
//! - **Threads behind a turn.** A process hands a lease on to its other threads before it gives the lock back. So each turn
//!   may be followed by one more hold of the same kind by the same worker.
//! - **Time without order.** A caller reserves the lock only after it was refused for a while. Then it leaves the lock to
//!   others for half as long as it has reserved it (`core/acquire/reservation.rs`). A read or write caller reserves it at
//!   once, and all the time. Time without order does not count. Callers of one process that want the same lock queue up, and
//!   each begins to reserve the lock when it is first.
//! - **Holds out of order.** A younger caller may get the lock in each time without order, and keep it. So each of these
//!   times adds one hold, the longest of the remaining ones. The same applies to each older call for several names or
//!   permits: a hold that delays that call also delays the judged call.
//! - **One look.** A waiter without a message looks again within [`LOOK_AGAIN`].
//! - **Time without a majority** ([`absence`](super::absence)): the faults, the quarantines and the dead callers.
//!
//! A turn counts with its actual length. The longest hold that the settings allow is one and a half times the longest TTL.
//! Twelve turns of that length take almost a minute, so a bound made of them would find nothing in a run of half a minute.

use std::collections::BTreeMap;
use std::ptr;
use std::time::Duration;

use crate::witness::{Class, Stamp, event::worker_of};

use super::absence::{Absence, Ahead};
use super::calls::{Call, CallResult};
use super::faults::{Fault, Noticed};
use super::holds::Hold;
use super::violation::Violation;

/// The settings of a run that determine the bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitRules {
    pub(crate) masters: usize,
    pub(crate) max_ttl: Duration,
    /// Time within which clients find a master that is back.
    pub(crate) reconnect: Duration,
}

/// One wait that was long enough to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) who: String,
    /// The label of the kind.
    pub(crate) kind: String,
    pub(crate) names: Vec<String>,
    pub(crate) begin: Stamp,
    pub(crate) took: Duration,
    pub(crate) result: CallResult,
    pub(crate) bound: Duration,
    /// The part of the bound that is due to time without a majority.
    pub(crate) absent: Duration,
    /// The number of grants during the wait that have one of the names, by contender and kind.
    pub(crate) meanwhile: BTreeMap<(String, String), usize>,
}

/// Time that a thread may need to wake up and act.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// The threads of a process hand a lease to each other for a tenth of a second (`core/queue/local_queue.rs`).
const TURN: Duration = Duration::from_millis(100);

/// The time that a turn takes in addition to its hold.
const HAND_OVER: Duration = TURN.saturating_add(MOMENT);

/// Time after which a waiter without a message looks again (`core/acquire/attempts.rs`).
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The first and the longest time of a reservation. Each time is twice the one before.
const STANDS: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// Every bound is longer than this, so a shorter wait is not judged.
const NEVER_TOO_LONG: Duration = LOOK_AGAIN;

/// The waits that were long enough to be judged, by beginning.
pub(crate) fn waits(
    holds: &[Hold],
    calls: &[Call],
    faults: &[Fault],
    noticed: &Noticed,
    rules: &WaitRules,
) -> Vec<Wait> {
    let absence = Absence { holds, calls, faults, noticed, rules };
    let long = calls.iter().filter(|call| call.took() > NEVER_TOO_LONG);
    long.filter_map(|call| {
        let kind = call.kind.as_ref()?.label.clone();
        let ahead = Ahead::of(call, holds, calls);
        let absent = absence.within(call, &ahead);
        Some(Wait {
            who: call.who.clone(),
            kind,
            names: call.names.clone(),
            begin: call.begin,
            took: call.took(),
            result: call.result.clone(),
            bound: ordered(call, &ahead, holds) + absent,
            absent,
            meanwhile: meanwhile(call, holds),
        })
    })
    .collect()
}

/// The waits that exceed their bounds.
pub(crate) fn too_long(waits: &[Wait]) -> Vec<Violation> {
    let late = waits.iter().filter(|wait| wait.took > wait.bound);
    late.cloned().map(|wait| Violation::WaitedTooLong(Box::new(wait))).collect()
}

/// The waits of one kind of lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfKind {
    /// The durations of the waits that ended with a grant, the shortest first.
    pub(crate) granted: Vec<Duration>,
    /// The judged wait that used the largest part of its bound.
    pub(crate) nearest: Option<Wait>,
}

impl OfKind {
    /// The time within which this percentage of the grants came.
    pub(crate) fn within(&self, percent: usize) -> Duration {
        let rank = (self.granted.len() * percent).div_ceil(100);
        rank.checked_sub(1).map_or(Duration::ZERO, |at| self.granted[at])
    }
}

/// All waits, by the label of their kind.
pub(crate) fn by_kind(calls: &[Call], waits: &[Wait]) -> BTreeMap<String, OfKind> {
    let mut kinds: BTreeMap<String, OfKind> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.result == CallResult::Granted) {
        if let Some(kind) = &call.kind {
            kinds.entry(kind.label.clone()).or_default().granted.push(call.took());
        }
    }
    for kind in kinds.values_mut() {
        kind.granted.sort_unstable();
    }
    let share = |wait: &Wait| wait.took.as_secs_f64() / wait.bound.as_secs_f64();
    for wait in waits {
        let nearest = &mut kinds.entry(wait.kind.clone()).or_default().nearest;
        if nearest.as_ref().is_none_or(|nearest| share(nearest) < share(wait)) {
            *nearest = Some(wait.clone());
        }
    }
    kinds
}

/// The conditions under which callers reserve a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// Time for which a caller is refused before it reserves the lock.
    pub(super) after: Duration,
    /// True if callers leave the lock to others now and then.
    rests: bool,
}

impl Policy {
    pub(super) fn of(call: &Call) -> Self {
        let kind = call.kind.as_ref();
        let in_turn = kind.is_some_and(|kind| ["read", "write"].contains(&kind.label.as_str()));
        let after = match wants_several(call) {
            _ if in_turn => Duration::ZERO,
            true => Duration::from_millis(100),
            false => Duration::from_secs(1),
        };
        Self { after, rests: !in_turn }
    }

    /// The number of rests that a caller with a reservation takes in that time.
    fn rests_within(self, mut time: Duration) -> usize {
        let (mut rests, mut stands) = (0, STANDS);
        while self.rests && time > stands {
            rests += 1;
            time = time.saturating_sub(stands * 3 / 2);
            stands = LONGEST.min(stands * 2);
        }
        rests
    }
}

fn wants_several(call: &Call) -> bool {
    let class = call.kind.as_ref().map(|kind| kind.class);
    call.names.len() > 1 || matches!(class, Some(Class::Permits { count: 2.., .. }))
}

/// The bound of a wait without faults.
fn ordered(call: &Call, ahead: &Ahead<'_>, holds: &[Hold]) -> Duration {
    let policy = Policy::of(call);
    let is_before = |other: &&&Call| {
        let (label, other_label) = (call.kind.as_ref(), other.kind.as_ref());
        worker_of(&other.who) == worker_of(&call.who)
            && label.map(|it| &it.label) == other_label.map(|it| &it.label)
            && other.names.iter().any(|name| call.names.contains(name))
    };
    let queue = 1 + ahead.older.iter().filter(is_before).count();
    let leads = policy.after * queue as u32;
    let reserving = call.took().saturating_sub(leads);
    let rests = if policy.rests { reserving / 3 } else { Duration::ZERO };

    let mut left: Vec<&Hold> = holds.iter().filter(|hold| ahead.meets(call, hold)).collect();
    let mut take = |picked: &Hold| left.retain(|it| !ptr::eq(*it, picked));
    let mut turns = Duration::ZERO;
    for hold in &ahead.turns {
        take(hold);
        turns += part(call, hold) + HAND_OVER;
    }
    for hold in &ahead.turns {
        let behind = left.iter().copied().filter(|it| is_handed_on(hold, it));
        if let Some(longest) = behind.max_by_key(|it| part(call, it)) {
            turns += part(call, longest);
            left.retain(|it| !ptr::eq(*it, longest));
        }
    }
    let several = ahead.older.iter().filter(|older| wants_several(older)).count();
    let out_of_order = queue * (1 + policy.rests_within(reserving)) * (1 + several);
    let mut parts: Vec<_> = left.iter().map(|hold| part(call, hold)).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let stragglers: Duration = parts.iter().take(out_of_order).sum();
    leads + rests + turns + stragglers + LOOK_AGAIN
}

/// The part of the hold that falls into the wait.
fn part(call: &Call, hold: &Hold) -> Duration {
    hold.end.min(call.end).saturating_sub(hold.begin.max(call.begin))
}

/// Returns true if the worker of `hold` may have handed its lease on to `behind`.
fn is_handed_on(hold: &Hold, behind: &Hold) -> bool {
    worker_of(&hold.who) == worker_of(&behind.who)
        && hold.kind.label == behind.kind.label
        && !hold.names_in_common(behind).is_empty()
        && (hold.end..=hold.end + HAND_OVER).contains(&behind.begin)
}

/// The number of grants during the wait that have one of the names, by contender and kind.
fn meanwhile(call: &Call, holds: &[Hold]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    let within = |hold: &&Hold| (call.begin..call.end).contains(&hold.begin);
    for hold in holds.iter().filter(within) {
        if hold.names.iter().any(|name| call.names.contains(name)) {
            *counts.entry((hold.who.clone(), hold.kind.label.clone())).or_default() += 1;
        }
    }
    counts
}
