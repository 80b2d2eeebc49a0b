//! Which nodes' clocks can be relied on: one that is set forward lets locks end too early.
//!
//! Each answer of a node tells its time, which has to be where our own clock expects it ([`Pace`]). Where
//! it is not, the node grants nothing to us until all nodes have been asked anew, since one reading
//! cannot tell whose clock it was. Then its clock is compared with the others', by what their marks say
//! of how far each of them is ahead of the set: so it is with a process that has just begun, too. Keys
//! that ended early count as forgotten ones: the node goes into quarantine, for everybody.

use std::time::Duration;

use super::super::clocks::Offset;
use super::super::pace::{Pace, Step};
use super::super::{Time, majority, validity};
use super::Admission;
use super::look::{Forgot, Judgement};

/// How far two clocks may move apart unnoticed while nobody is there who would note it. Clocks that are
/// kept right stay well below; and a node is not accused for what its time service does all day.
const APART: Duration = Duration::from_millis(50);

/// What is noted is known as exactly as this, or it is read again: an answer took too long.
const EXACT: Duration = Duration::from_millis(500);

/// Between these times a clock is read again that no answer has told of: in a tenth of the shortest TTL.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What there is to tell about clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockNews {
    /// A clock is not where it was expected. All nodes have to be looked at.
    Doubt,
    /// It was this node's, which was set.
    Set(usize, Step),
    /// Most of the nodes' clocks went on by so much more than our own: this is us, who stood still, and
    /// all leases are over.
    StoodStill(Duration),
}

/// What is known of a node's clock.
#[derive(Debug, Default)]
pub(super) struct NodeClock {
    /// Kept while the node cannot be reached: it may be set meanwhile.
    pace: Option<Pace>,
    reading: Option<Offset>,
    /// How far it is ahead of the set, in milliseconds, as the node's mark says.
    pub(super) noted_ms: Option<i64>,
    /// It is where the mark says, and has gone on from there at our pace.
    pub(super) steady: bool,
    /// Since when it is in doubt: it is new to us, or was not watched for long, or took a step.
    since: Time,
    /// It was not where we expected it, and nobody knows yet whose clock that was.
    pub(super) stepped: Option<Step>,
    /// It was told that it is not where its mark says.
    told: bool,
}

/// Where a clock is, compared with the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unknown,
    Noted,
    Ahead(Duration),
    Behind(Duration),
}

/// What the time of the set is, compared with our own: between the lowest and the highest of the clocks
/// that may be in the middle, with the nodes that were not heard. Each is known between two bounds, in
/// microseconds.
#[derive(Clone, Copy, Debug)]
struct Reference {
    lowest: (i64, i64),
    highest: (i64, i64),
}

impl Admission {
    /// Locks with that TTL are in use from now on. The shorter they live, the smaller are the steps of a
    /// clock that matter.
    pub(crate) fn uses(&mut self, ttl: Duration) {
        self.shortest_ttl = self.shortest_ttl.min(ttl);
    }

    /// The node's clock was read, with the answers to what was sent along with the question. Whether locks
    /// that it has granted in these count.
    pub(crate) fn read(&mut self, node: usize, offset: Offset) -> bool {
        let (now, slack, doubt) = (offset.received, self.slack(), self.doubt);
        let clock = &mut self.nodes[node].clock;
        let before = clock.reading.replace(offset);
        let mut fits = true;
        match &mut clock.pace {
            Some(pace) if self.mechanisms.clocks_are_watched => {
                if clock.steady && pace.is_old(now, slack) {
                    clock.steady = false;
                    clock.since = now;
                }
                if let Some(step) = pace.read(offset, slack) {
                    fits = false;
                    clock.steady = false;
                    clock.stepped = Some(step);
                    clock.since = now;
                    // Nodes that are asked because of a doubt confirm it, and make no new one.
                    let confirms = doubt.zip(before).is_some_and(|(doubt, it)| it.sent < doubt);
                    if !confirms {
                        self.doubt = Some(now);
                        self.stood_still = false;
                    }
                    self.clock_news.push(ClockNews::Doubt);
                    self.suspect_ourselves();
                }
            }
            Some(_) => {}
            None => {
                clock.pace = Some(Pace::new(offset));
                clock.since = now;
            }
        }
        self.judge_clocks(now);
        fits && self.nodes[node].clock.steady || !self.quarantine
    }

    /// What there is to tell, since this was asked last.
    pub(crate) fn take_clock_news(&mut self) -> Vec<ClockNews> {
        std::mem::take(&mut self.clock_news)
    }

    /// Whether the last reading of the node's clock says anything: none does that was asked for before the
    /// doubt, for our own clock may have stood still since.
    pub(super) fn is_fresh(&self, node: usize) -> bool {
        let reading = self.nodes[node].clock.reading;
        reading.is_some_and(|reading| self.doubt.is_none_or(|doubt| reading.sent >= doubt))
    }

    /// When a node's clock has to be read again at the latest.
    pub(super) fn reading_due(&self, node: usize) -> Time {
        let pause = (self.shortest_ttl / 10).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let reading = self.nodes[node].clock.reading;
        reading.map_or_else(Time::default, |reading| reading.received.after(pause))
    }

    /// Compares the clocks that are in doubt with the others, and draws the consequences. A clock that is
    /// not where the node's mark says stays in doubt until there is another mark.
    pub(super) fn judge_clocks(&mut self, now: Time) {
        for node in 0..self.nodes.len() {
            let known = &self.nodes[node];
            if known.clock.steady || known.seen.is_none() {
                continue;
            }
            let stepped = known.clock.stepped;
            let place = self.place(node, now);
            let step = match place {
                Place::Unknown => continue,
                Place::Ahead(by) => Some(Step::Forward(by)),
                Place::Behind(by) => Some(Step::Back(by)),
                // Somebody was faster, and its mark says so already.
                Place::Noted => stepped.filter(|_| !self.stood_still),
            };
            let known = &mut self.nodes[node];
            let told = std::mem::replace(&mut known.clock.told, place != Place::Noted);
            self.clock_news.extend(step.filter(|_| !told).map(|step| ClockNews::Set(node, step)));
            if place == Place::Noted {
                known.clock.steady = true;
                known.clock.stepped = None;
            } else if let Some(seen) = known.seen.as_mut().filter(|_| self.quarantine)
                && let Judgement::Ours(state) | Judgement::Renamed(state) = seen.judgement
            {
                if matches!(place, Place::Ahead(_)) {
                    known.forgot = Some(Forgot::Clock);
                    seen.judgement = Judgement::Forgetful(Forgot::Clock);
                } else {
                    seen.judgement = Judgement::Moved(state);
                }
            }
        }
    }

    /// The node was looked at. A clock that has moved away from the set little by little is noted anew,
    /// before a process that has just begun would take that for a step.
    pub(super) fn note_drift(&mut self, node: usize, now: Time) {
        let steady = self.nodes[node].clock.steady && self.mechanisms.clocks_are_noted;
        let reference = self.reference_for(node, now).filter(|_| steady);
        let moved = reference.is_some_and(|reference| {
            let place = self.compared(node, reference, self.apart() / 2, now);
            matches!(place, Place::Ahead(_) | Place::Behind(_))
        });
        if let Some(seen) = self.nodes[node].seen.as_mut().filter(|_| moved && self.quarantine)
            && let Judgement::Ours(state) = seen.judgement
        {
            seen.judgement = Judgement::Moved(state);
        }
    }

    /// How far the node's clock is ahead of the set now, in milliseconds, for its mark; `None` while what
    /// there is to compare it with is in doubt itself.
    pub(super) fn ahead_ms(&self, node: usize, now: Time) -> Option<i64> {
        let others = |other: usize| other != node && self.nodes[other].clock.noted_ms.is_some();
        let in_doubt = |other: usize| {
            let known = &self.nodes[other];
            known.clock.stepped.is_some() || known.seen.is_some() && !self.is_fresh(other)
        };
        let reference = self.reference_for(node, now);
        if reference.is_none() && (0..self.nodes.len()).any(|it| others(it) && in_doubt(it)) {
            return None;
        }
        let clock = &self.nodes[node].clock;
        let noted = reference.or_else(|| self.reference(now, 1, others));
        let (from, to) = match noted {
            Some(Reference { lowest, highest }) => (lowest.0, highest.1),
            // Nobody has noted anything: this is how it begins.
            None => {
                let clocks = self.nodes.iter().filter_map(|known| known.clock.reading);
                let mut clocks: Vec<_> = clocks.map(Offset::middle_us).collect();
                clocks.sort_unstable();
                let middle = *clocks.get(clocks.len().checked_sub(1)? / 2)?;
                (middle, middle)
            }
        };
        let (least, most) = clock.reading?.spread(now);
        let width = most.saturating_sub(least).max(to.saturating_sub(from));
        let exact = width < EXACT.as_micros().try_into().unwrap_or(i64::MAX);
        (exact || self.is_doubted_enough(node, now))
            .then_some((least.midpoint(most) - from.midpoint(to)).div_euclid(1_000))
    }

    /// Until when a node is in doubt for the sake of which nobody can be asked.
    pub(super) fn in_doubt_until(&self, node: usize) -> Option<Time> {
        let clock = &self.nodes[node].clock;
        let alone = self.nodes.len() == 1 && matches!(clock.stepped, Some(Step::Forward(_)));
        alone.then(|| clock.since.after(self.max_ttl))
    }

    /// Whether all locks have ended that were there when the doubt began, whatever its reason was.
    fn is_doubted_enough(&self, node: usize, now: Time) -> bool {
        self.nodes[node].clock.since.after(self.max_ttl) <= now
    }

    /// Where the clock of a node in doubt is.
    fn place(&self, node: usize, now: Time) -> Place {
        let stepped = self.nodes[node].clock.stepped;
        if stepped.is_none() && !self.mechanisms.clocks_are_noted {
            return Place::Noted;
        }
        let alone = self.in_doubt_until(node).is_some();
        let reference = self.reference_for(node, now).filter(|_| !alone);
        let place = reference
            .map_or(Place::Unknown, |reference| self.compared(node, reference, self.apart(), now));
        match place {
            Place::Unknown if self.is_doubted_enough(node, now) => Place::Noted,
            place => place,
        }
    }

    /// What the node's clock is to be compared with: a majority that is not in doubt. If it is in doubt
    /// itself, one other clock that has gone on at our pace shows that it was not ours; and if none has,
    /// it was.
    fn reference_for(&self, node: usize, now: Time) -> Option<Reference> {
        let all = self.nodes.len();
        if self.nodes[node].clock.stepped.is_none() {
            return self.reference(now, all, |it| self.nodes[it].clock.stepped.is_none());
        }
        let steady = |other: usize| other != node && self.nodes[other].clock.steady;
        self.reference(now, 1, steady).or_else(|| self.reference(now, all, |_| true))
    }

    /// Where the node's clock is, compared with the set; off by more than `apart`.
    fn compared(&self, node: usize, reference: Reference, apart: Duration, now: Time) -> Place {
        let clock = &self.nodes[node].clock;
        let (Some(reading), Some(noted_ms), true) =
            (clock.reading, clock.noted_ms, self.is_fresh(node))
        else {
            return Place::Unknown;
        };
        let (least, most) = reading.spread(now);
        let noted_us = noted_ms.saturating_mul(1_000);
        let (least, most) = (least.saturating_sub(noted_us), most.saturating_sub(noted_us));
        let us = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        let ahead_of = |other: (i64, i64)| us(least.saturating_sub(other.1));
        let behind = |other: (i64, i64)| us(other.0.saturating_sub(most));
        let Reference { lowest, highest } = reference;
        if ahead_of(highest) > apart {
            Place::Ahead(ahead_of(highest))
        } else if behind(lowest) > apart {
            Place::Behind(behind(lowest))
        } else if ahead_of(lowest) > apart || behind(highest) > apart {
            Place::Unknown
        } else {
            Place::Noted
        }
    }

    /// How far the set is ahead of our own clock, by those nodes (`of`) whose clocks have been read since
    /// the doubt, each by what is noted of it: the median of so many nodes in all, of which the others
    /// may say anything. `None` if they are too few.
    fn reference(
        &self,
        now: Time,
        at_least: usize,
        of: impl Fn(usize) -> bool,
    ) -> Option<Reference> {
        let says = |node: usize| {
            let clock = &self.nodes[node].clock;
            let noted_us = clock.noted_ms?.saturating_mul(1_000);
            let (least, most) = clock.reading?.spread(now);
            Some((least.saturating_sub(noted_us), most.saturating_sub(noted_us)))
        };
        let nodes = (0..self.nodes.len()).filter(|node| of(*node) && self.is_fresh(*node));
        let (mut least, mut most): (Vec<_>, Vec<_>) = nodes.filter_map(says).unzip();
        least.sort_unstable();
        most.sort_unstable();
        let all = at_least.max(least.len());
        let highest = all.checked_sub(1)? / 2;
        let lowest = highest.checked_sub(all - least.len())?;
        let at = |i: usize| Some((*least.get(i)?, *most.get(i)?));
        Some(Reference { lowest: at(lowest)?, highest: at(highest)? })
    }

    /// If a majority of the clocks was set forward at once, it was ours that stood still.
    fn suspect_ourselves(&mut self) {
        let forward = self.nodes.iter().filter_map(|known| match known.clock.stepped {
            Some(Step::Forward(by)) => Some(by),
            _ => None,
        });
        let forward: Vec<_> = forward.collect();
        let many = forward.len() >= majority(self.nodes.len());
        if many && !self.stood_still && self.mechanisms.own_clock_is_doubted {
            self.stood_still = true;
            let by = forward.into_iter().min().unwrap_or_default();
            self.clock_news.push(ClockNews::StoodStill(by));
        }
    }

    /// What a clock may gain beyond its rate before it matters: half of what the validity of the shortest
    /// lock allows for. The other half is left for the rates of clocks, which are far below it.
    fn slack(&self) -> Duration {
        validity::drift(self.shortest_ttl) / 2
    }

    /// The same for what is noted.
    fn apart(&self) -> Duration {
        self.slack().max(APART)
    }
}
