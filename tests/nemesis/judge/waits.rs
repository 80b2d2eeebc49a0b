//! No call waits longer than the rules of the library allow.
//!
//! A wait goes from the stamp of a call to its grant, to its end without a lock, to the death of its contender, or to the
//! end of the history. The bound of each wait follows from what the history shows of the others. It is a sum:
//!
//! - **Turns ahead.** The older of two callers goes first. So the holders at the beginning of the call, and the contenders
//!   whose calls began before it, have one turn each: their hold, as far as it falls into the wait, and [`HAND_OVER`]. An
//!   older call for several names waits for others itself, so callers of its other names are ahead as well, if they are
//!   older than the call that is judged.
//! - **Threads behind a turn.** A process hands a lease on to its other threads before it gives the lock back. So behind each
//!   turn there may be one more hold of the same kind by the same worker.
//! - **Time without order.** A caller reserves the lock only after it was refused for a while, and leaves it to others for
//!   half as long as it reserves it (`core/acquire/reservation.rs`). A caller to read or to write reserves it at once, and all
//!   the time. Time without order does not count. Callers of one process that want the same lock stand in a queue, and each
//!   of them begins to reserve it when it is the first.
//! - **Holds out of order.** A younger caller may get the lock in each time without order, and keep it. So for each of these
//!   times one hold is added, the longest of those that are left. The same holds for each older call for several names or
//!   permits, which such a hold keeps out while it keeps out this one.
//! - **One look.** A waiter that is told of nothing looks again within [`LOOK_AGAIN`].
//! - **Time without a majority** ([`absence`](super::absence)): the faults, the quarantines and the dead callers.
//!
//! A turn counts as long as it was. The longest hold that the settings allow is one and a half times the longest TTL. Twelve
//! turns of that length take almost a minute, so such a bound would find nothing in a run of half a minute.

use std::collections::BTreeMap;
use std::ptr;
use std::time::Duration;

use crate::witness::{Class, Stamp, event::worker_of};

use super::absence::{Absence, Ahead};
use super::calls::{Call, CallResult};
use super::faults::{Fault, Noticed};
use super::holds::Hold;
use super::violation::Violation;

/// The settings of a run on which the bound depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitRules {
    pub(crate) masters: usize,
    pub(crate) max_ttl: Duration,
    /// A master that is back is found by its clients within this time.
    pub(crate) reconnect: Duration,
}

/// One wait that was long enough to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) who: String,
    /// The name of its kind.
    pub(crate) kind: String,
    pub(crate) names: Vec<String>,
    pub(crate) begin: Stamp,
    pub(crate) took: Duration,
    pub(crate) result: CallResult,
    pub(crate) bound: Duration,
    /// The part of the bound in which too few masters could be used.
    pub(crate) absent: Duration,
    /// How often each contender was granted a lock of each kind with one of the names meanwhile.
    pub(crate) meanwhile: BTreeMap<(String, String), usize>,
}

/// Threads need that long to be woken up, and to get around to things.
pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// The threads of a process hand a lease to each other for a tenth of a second (`core/queue/local_queue.rs`).
const TURN: Duration = Duration::from_millis(100);

/// The time that a turn takes in addition to its hold.
const HAND_OVER: Duration = TURN.saturating_add(MOMENT);

/// A waiter that is told of nothing looks after this time (`core/acquire/attempts.rs`).
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long a caller reserves the lock at first, and at most. It does so twice as long each time.
const STANDS: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(32);

/// Every bound is longer, so a shorter wait is not looked at.
const NEVER_TOO_LONG: Duration = LOOK_AGAIN;

/// The waits that were long enough to be judged, by their beginning.
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

/// Those that were too long.
pub(crate) fn too_long(waits: &[Wait]) -> Vec<Violation> {
    let late = waits.iter().filter(|wait| wait.took > wait.bound);
    late.cloned().map(|wait| Violation::WaitedTooLong(Box::new(wait))).collect()
}

/// The waits of one kind of lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfKind {
    /// How long those took that ended with a grant, the shortest first.
    pub(crate) granted: Vec<Duration>,
    /// The wait that took the largest part of its bound, of those that were judged.
    pub(crate) nearest: Option<Wait>,
}

impl OfKind {
    /// The time within which so many per cent of the grants came.
    pub(crate) fn within(&self, percent: usize) -> Duration {
        let rank = (self.granted.len() * percent).div_ceil(100);
        rank.checked_sub(1).map_or(Duration::ZERO, |at| self.granted[at])
    }
}

/// All waits by the names of their kinds.
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

/// When callers reserve a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    /// How long they are refused before.
    pub(super) after: Duration,
    /// They leave the lock to others now and then.
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

    /// How often a caller that reserves the lock leaves it to others in that time.
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

/// The bound without faults.
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

/// As much of the hold as falls into the wait.
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

/// How often each contender was granted a lock of each kind with one of the names during the wait.
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
