//! The time in which a lock had no usable majority of the masters.
//!
//! A call needs a majority of the masters. A single master is of no use to the call
//!
//! - while it is faulty or cut off, until its clients have found it again; if it has forgotten locks, also for the quarantine
//!   that follows, which takes the longest TTL;
//! - while it is slow by itself, on a busy machine, and for as long again: a client whose request had no answer in time
//!   reconnects, and sleeps longer each time;
//! - while the links of the call's own worker to it are faulty, or that worker is stopped;
//! - for a name, while the links to it are faulty from another worker that holds or wants that name. That worker may leave a
//!   lock or a reservation there that it cannot take back: a lock lives for the longest TTL, a reservation for [`RESERVED`].
//!
//! All masters are of no use to the call
//!
//! - for a name, after another worker that held or wanted it was killed or stopped, or the previous process of the call's own
//!   worker: its keys stay for the longest TTL. That ends when the name is granted exclusively, or when the worker goes on;
//! - for [`RESERVED`] after another worker was killed or stopped if its call is older and may have reserved the lock. The
//!   judged call may have begun before that or after it.
//!
//! The names are those of the call, and those of the older calls while these last. The time without a majority for one of
//! these names counts. Nothing else is an excuse.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::witness::{Stamp, event::worker_of};

use super::calls::{Call, CallResult};
use super::faults::{Fault, Noticed};
use super::holds::{Ending, Hold};
use super::waits::{MOMENT, Policy, WaitRules};

/// Lifetime of a reservation that its caller does not renew (`core/acquire/reservation.rs`).
const RESERVED: Duration = Duration::from_secs(2);

/// Time after which a caller reserves a lock that others share (in the same file).
const BESIDE_SHARERS: Duration = Duration::from_millis(100);

/// The calls and holds that are ahead of a call.
pub(super) struct Ahead<'a> {
    /// The calls of others that began before it, and had not ended.
    pub(super) older: Vec<&'a Call>,
    /// The holds that lasted when the call began, and those that the `older` calls got.
    pub(super) turns: Vec<&'a Hold>,
    /// The names of the call, and those of the older calls.
    names: BTreeSet<&'a str>,
}

impl<'a> Ahead<'a> {
    pub(super) fn of(call: &'a Call, holds: &'a [Hold], calls: &'a [Call]) -> Self {
        let mut names: BTreeSet<&str> = call.names.iter().map(String::as_str).collect();
        let is_older = |it: &&Call| {
            it.who != call.who && it.begin < call.begin + MOMENT && it.end > call.begin
        };
        let all: Vec<&Call> = calls.iter().filter(is_older).collect();
        let mut older: Vec<&Call> = Vec::new();
        loop {
            let concerned = all.iter().copied().filter(|it| has_any(&it.names, &names));
            let found: Vec<&Call> = concerned.collect();
            if found.len() == older.len() {
                break;
            }
            names.extend(found.iter().flat_map(|it| &it.names).map(String::as_str));
            older = found;
        }
        let is_ahead = |hold: &&Hold| {
            let inside = hold.begin <= call.begin && call.begin < hold.end;
            let is_of = |it: &&&Call| it.result == CallResult::Granted && it.end == hold.begin;
            let is_next = || older.iter().filter(is_of).any(|it| it.who == hold.who);
            hold.who != call.who && has_any(&hold.names, &names) && (inside || is_next())
        };
        let turns = holds.iter().filter(is_ahead).collect();
        Self { older, turns, names }
    }

    /// Returns true if another contender's hold falls into the wait and has one of the names.
    pub(super) fn meets(&self, call: &Call, hold: &Hold) -> bool {
        let within = hold.begin < call.end && call.begin < hold.end;
        hold.who != call.who && within && has_any(&hold.names, &self.names)
    }

    /// The time until which the call waits for that name: for its own lock, or behind an older call.
    fn wanted_until(&self, call: &Call, name: &str) -> Stamp {
        let wants = |it: &&&Call| it.names.iter().any(|other| other == name);
        let older = self.older.iter().filter(wants).map(|it| it.end.min(call.end)).max();
        if wants(&&call) { call.end } else { older.unwrap_or(call.begin) }
    }
}

fn has_any(names: &[String], of: &BTreeSet<&str>) -> bool {
    names.iter().any(|name| of.contains(name.as_str()))
}

/// Beginning and end.
type Span = (Stamp, Stamp);

/// Masters that are of no use during a span.
struct Gap<'a> {
    masters: Masters,
    /// The name concerned. `None` stands for all names.
    name: Option<&'a str>,
    span: Span,
}

enum Masters {
    All,
    These(BTreeSet<usize>),
}

/// The facts of a run on which the absence depends.
pub(super) struct Absence<'a> {
    pub(super) holds: &'a [Hold],
    pub(super) calls: &'a [Call],
    pub(super) faults: &'a [Fault],
    pub(super) noticed: &'a Noticed,
    pub(super) rules: &'a WaitRules,
}

impl<'a> Absence<'a> {
    /// The part of the wait that passed without a majority.
    pub(super) fn within(&self, call: &Call, ahead: &Ahead<'a>) -> Duration {
        let own = worker_of(&call.who);
        let mut gaps = self.met_by(own);
        gaps.extend(self.noticed.slow.iter().map(|slow| Gap {
            masters: Masters::These(BTreeSet::from([slow.master])),
            name: None,
            span: (slow.begin, slow.end + (slow.end - slow.begin)),
        }));
        for fault in self.faults.iter().filter(|fault| fault.begin < call.end) {
            match fault.worker() {
                Some(worker) if worker == own && fault.begin >= call.begin => {}
                Some(worker) if fault.masters().next().is_none() => {
                    gaps.extend(self.left_behind(fault, worker, call, ahead));
                }
                Some(worker) => gaps.extend(self.cut_off(fault, worker, call, ahead)),
                None => {}
            }
        }
        let names: Vec<_> = ahead.names.iter().copied().collect();
        let spans = self.without_majority(&gaps, &names, (call.begin, call.end));
        spans.iter().map(|(begin, end)| *end - *begin).sum()
    }

    /// The masters that a worker cannot use because of their faults, or its own.
    fn met_by(&self, worker: &str) -> Vec<Gap<'a>> {
        let met = self.faults.iter().filter(|it| it.worker().is_none_or(|other| other == worker));
        met.map(|fault| {
            let masters: BTreeSet<_> = fault.masters().collect();
            let found_again = fault.healed + self.rules.reconnect;
            let (masters, end) = match fault.worker() {
                Some(_) if masters.is_empty() => (Masters::All, fault.healed),
                None if fault.forgets => {
                    (Masters::These(masters), found_again + self.rules.max_ttl)
                }
                _ => (Masters::These(masters), found_again),
            };
            Gap { masters, name: None, span: (fault.begin, end) }
        })
        .collect()
    }

    /// The masters on which another worker may have left keys, because it cannot reach them.
    fn cut_off(&self, fault: &Fault, worker: &str, call: &Call, ahead: &Ahead<'a>) -> Vec<Gap<'a>> {
        let mut gaps = Vec::new();
        let calls = self.calls.iter().map(|it| (&it.who, &it.names, it.begin, it.end));
        let holds = self.holds.iter().map(|it| (&it.who, &it.names, it.begin, it.end));
        let meets = |begin, end| begin <= fault.healed && fault.begin <= end + MOMENT;
        for (who, names, begin, end) in calls.chain(holds) {
            if worker_of(who) != worker || !meets(begin, end) {
                continue;
            }
            for name in ahead.names.iter().filter(|it| names.iter().any(|name| name == *it)) {
                let last = (fault.healed + self.rules.reconnect)
                    .min(end + self.rules.max_ttl.max(RESERVED));
                let span = (fault.begin.max(begin), last.min(ahead.wanted_until(call, name)));
                let masters = Masters::These(fault.masters().collect());
                gaps.push(Gap { masters, name: Some(name), span });
            }
        }
        gaps
    }

    /// The times in which keys or reservations of a stopped or killed worker block the lock.
    fn left_behind(
        &self,
        fault: &Fault,
        worker: &str,
        call: &Call,
        ahead: &Ahead<'a>,
    ) -> Vec<Gap<'a>> {
        let at = fault.begin;
        let gap = |name, end| Gap { masters: Masters::All, name, span: (at, end) };
        let mut gaps = Vec::new();
        // A worker that was only stopped gives its locks back, or renews them, when it goes on.
        let goes_on = |is_killed| if is_killed { Stamp::MAX } else { fault.healed + MOMENT };
        let calls = self.calls.iter().map(|it| (&it.who, &it.names, it.begin, it.end));
        // The holder's release may not have been sent, although the holder has reported that it leaves.
        let holds = self.holds.iter().map(|it| (&it.who, &it.names, it.begin, it.end + MOMENT));
        for (who, names, begin, end) in calls.chain(holds) {
            if worker_of(who) != worker || at < begin || end < at {
                continue;
            }
            for name in ahead.names.iter().filter(|it| names.iter().any(|name| name == *it)) {
                let granted = self.granted_alone(name, at).unwrap_or(Stamp::MAX);
                let last =
                    (at + self.rules.max_ttl).min(granted).min(goes_on(self.is_killed(who, fault)));
                gaps.push(gap(Some(*name), last.min(ahead.wanted_until(call, name))));
            }
        }
        // This includes a caller that was killed before this call began.
        let is_dead = |it: &&Call| {
            let met = it.end <= call.begin && has_any(&it.names, &ahead.names);
            met && self.is_killed(&it.who, fault)
        };
        let older = ahead.older.iter().copied().chain(self.calls.iter().filter(is_dead));
        for older in older.filter(|it| worker_of(&it.who) == worker) {
            let is_killed = self.is_killed(&older.who, fault);
            let after = Policy::of(older).after;
            let after = if self.met_sharers(older, at) { after.min(BESIDE_SHARERS) } else { after };
            if (older.begin + after..=older.end).contains(&at) {
                gaps.push(gap(None, (at + RESERVED).min(goes_on(is_killed))));
            }
        }
        gaps
    }

    /// Returns true if one of the call's names was shared before that time.
    fn met_sharers(&self, call: &Call, until: Stamp) -> bool {
        let within = |it: &&Hold| it.begin < until && call.begin < it.end;
        let shares = |it: &Hold| {
            !it.kind.class.is_alone() && it.names.iter().any(|name| call.names.contains(name))
        };
        self.holds.iter().filter(within).any(shares)
    }

    /// Returns true if the fault ended that contender, and did not only stop it.
    fn is_killed(&self, who: &str, fault: &Fault) -> bool {
        let gone = self.noticed.gone.get(who);
        gone.is_some_and(|gone| (fault.begin..=fault.healed).contains(gone))
    }

    /// The first exclusive grant of the name after that time. No key of another contender is left then.
    fn granted_alone(&self, name: &str, after: Stamp) -> Option<Stamp> {
        let alone = self.holds.iter().filter(|it| it.begin > after && it.kind.class.is_alone());
        alone.filter(|it| it.names.iter().any(|other| other == name)).map(|it| it.begin).min()
    }

    /// The parts of a span in which a majority of the masters is of no use for one of the names.
    fn without_majority(&self, gaps: &[Gap<'_>], names: &[&str], span: Span) -> Vec<Span> {
        let mut times: Vec<_> = gaps.iter().flat_map(|gap| [gap.span.0, gap.span.1]).collect();
        times.extend([span.0, span.1]);
        times.retain(|time| span.0 <= *time && *time <= span.1);
        times.sort_unstable();
        times.dedup();
        let is_absent = |part: &&[Stamp]| {
            let meets = |gap: &&Gap<'_>| gap.span.0 <= part[0] && part[1] <= gap.span.1;
            let meeting: Vec<_> = gaps.iter().filter(meets).collect();
            names.iter().any(|name| self.is_majority_of_no_use(&meeting, name))
        };
        let parts = times.windows(2).filter(is_absent);
        parts.map(|part| (part[0], part[1])).collect()
    }

    fn is_majority_of_no_use(&self, gaps: &[&Gap<'_>], name: &str) -> bool {
        let mut masters: BTreeSet<usize> = BTreeSet::new();
        for gap in gaps.iter().filter(|gap| gap.name.is_none_or(|it| it == name)) {
            match &gap.masters {
                Masters::All => return true,
                Masters::These(these) => masters.extend(these),
            }
        }
        masters.len() > (self.rules.masters - 1) / 2
    }
}
