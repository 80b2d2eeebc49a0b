//! The lead of a node's clock over the set's time, compared with what its mark says.
//!
//! The set's time has no clock of its own. Each node's clock, less the lead that its mark states, is one estimate of it. The
//! set's time is the median of these estimates.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, majority};
use super::super::vote::LARGEST_NUMBER;
use super::clocks::{DRIFT, Offset, median, microseconds};
use super::mark::Noted;
use super::node::{Knowledge, Seen};
use super::node_clock::NodeClock;
use super::probe::{PROBE_AGAIN, ProbeJudgement};
use super::set_time::SetTime;
use super::{Admission, Grants};

/// A clock is noted anew once it has moved away from its mark by the tolerance divided by this, or by what marks are
/// rounded by, if that is more.
const NOTE_ANEW: u32 = 8;
pub(super) const ROUNDING: Duration = Duration::from_millis(2);

/// The year 2326: by then half of the fencing numbers, which are made of time, are used up.
const LATEST_US: i64 = (LARGEST_NUMBER / 2 * 10).cast_signed();

/// The place of a clock, compared with the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockPlace {
    Unknown,
    Noted,
    Ahead(Duration),
    Behind(Duration),
}

/// The set's time, compared with our own: between the lowest and the highest clock that may be the median. Nodes that were not
/// heard may have any clock. Each of the two is known between two bounds, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    lowest: (i64, i64),
    highest: (i64, i64),
}

/// The deviation of a clock from what its mark says, for every possible error of the set's time.
pub(super) struct Off {
    /// At least so far ahead, or behind.
    pub(super) ahead: Duration,
    pub(super) behind: Duration,
    /// Perhaps so far ahead, or behind.
    perhaps_ahead: Duration,
    perhaps_behind: Duration,
}

impl NodeClock {
    /// Returns how far the set is ahead of our own clock at `now`, by this node's clock and mark, at least and at most, in
    /// microseconds.
    fn set_bounds_us(&self, now: Time) -> Option<(i64, i64)> {
        let noted_us = self.noted?.ahead_ms.saturating_mul(1_000);
        let (least, most) = self.bounds_us(now)?;
        let (least, most) = (least.saturating_sub(noted_us), most.saturating_sub(noted_us));
        (is_time(least, now) && is_time(most, now)).then_some((least, most))
    }
}

/// Returns true if the set's time can be `ahead_us` ahead of our own clock. A node whose clock and mark yield an impossible time
/// does not count: the first node's time determines the marks of new nodes.
fn is_time(ahead_us: i64, now: Time) -> bool {
    let is_possible = (0..LATEST_US).contains(&microseconds(now).saturating_add(ahead_us));
    is_possible.if_off(Mechanism::TimesAreBounded, true)
}

impl Admission {
    /// Returns the note on its clock that the node's mark must get now; `None` while the clock is in doubt.
    ///
    /// The gain of a clock is noted little by little. When a step of less than the tolerance is in the mark, the locks granted
    /// before the step have used up their allowance for drift, or are over. So several such steps add up against the mark, even
    /// if clients began between them. After a quarantine all locks are over.
    pub(super) fn new_note(&self, node: usize, now: Time) -> Option<Noted> {
        let ahead_ms = self.ahead_ms(node, now)?;
        let at_ms = u64::try_from(self.time_us(now, false)? / 1_000).ok()?;
        let is_moved = |seen: &Seen| matches!(seen.judgement, ProbeJudgement::Moved(_));
        let moved = self.nodes[node].seen.as_ref().is_some_and(is_moved);
        let noted = self.nodes[node].clock.noted.filter(|_| moved);
        let highest = noted.map_or(i64::MAX, |noted| {
            let rise = i64::try_from(self.allowed_rise(node, now).as_millis()).unwrap_or(i64::MAX);
            noted.ahead_ms.saturating_add(rise)
        });
        Some(Noted { ahead_ms: ahead_ms.min(highest), at_ms })
    }

    /// Returns by how much the node's mark may rise now: by the drift of clocks in the time since its note. It rises at once by
    /// no more than the deviation that is noted anew.
    pub(super) fn allowed_rise(&self, node: usize, now: Time) -> Duration {
        let since = || {
            let noted_us = self.nodes[node].clock.noted?.at_ms.saturating_mul(1_000);
            u64::try_from(self.time_us(now, false)?).ok()?.checked_sub(noted_us)
        };
        let drifted = Duration::from_micros(since().unwrap_or(0)) / DRIFT;
        drifted.min(self.noted_anew()).if_off(Mechanism::MarksRiseSlowly, Duration::MAX)
    }

    /// Counts the gains of the node's clock from its mark on, once the clock is nearly where the mark says. So its gain before
    /// the first reading is added to its later gains.
    ///
    /// A lock that is still held may have been granted while the clock was behind its mark, by less than the deviation that is
    /// noted anew. The mark may have risen by as much at once.
    pub(super) fn count_gains_from_mark(&mut self, node: usize, reference: Reference, now: Time) {
        let before = i64::try_from((self.noted_anew() * 2).as_micros()).unwrap_or(i64::MAX);
        let clock = &mut self.nodes[node].clock;
        if let (Some(tracker), Some(noted)) = (&mut clock.tracker, clock.noted)
            && Mechanism::TrackersBeginAtMarks.is_on()
        {
            let marked_us = reference.lowest.0.saturating_add(noted.ahead_ms.saturating_mul(1_000));
            tracker.count_gains_from(marked_us.saturating_sub(before), now);
        }
    }

    /// Returns the least by which the node's clock is ahead of the set now, in milliseconds; `None` while the clocks to compare
    /// it with are in doubt themselves.
    ///
    /// It is the least, since a mark that is too high would hide a step.
    fn ahead_ms(&self, node: usize, now: Time) -> Option<i64> {
        let others = |other: usize| other != node && self.nodes[other].clock.noted.is_some();
        let in_doubt = |other: usize| {
            let known = &self.nodes[other];
            known.clock.stepped.is_some() || known.seen.is_some() && !self.is_fresh(other)
        };
        let reference = self.reference_for(node, now);
        let doubt = (0..self.nodes.len()).any(|it| others(it) && in_doubt(it));
        // A clock that is set again and again, or whose node has gone, is in doubt for ever. It was not our clock that moved if
        // this node's clock has gone on at our rate for as long as any lock lives.
        if reference.is_none() && doubt && !self.is_doubted_enough(node, now) {
            return None;
        }
        let noted = reference.or_else(|| self.reference(now, 1, |it| others(it) && !in_doubt(it)));
        let (from, to) = match noted {
            Some(Reference { lowest, highest }) => (lowest.0, highest.1),
            // No mark has a note yet: a set begins like this.
            None if self.is_first_note_sent(node, now) => return None,
            None => {
                let middle_us = self.ahead_of_us(now, !doubt)?;
                (middle_us, middle_us)
            }
        };
        let (least, most) = self.nodes[node].clock.bounds_us(now)?;
        // Other clocks may contradict each other. A node that begins its quarantine does not wait until they agree: its own clock
        // may decide which of them is right. It grants nothing before all locks have ended that are held now.
        let contradiction = match self.begins_quarantine(node) {
            true => 0,
            false => to.saturating_sub(from),
        };
        let width = most.saturating_sub(least).saturating_add(contradiction);
        let exact = width < i64::try_from(self.clock_tolerance.as_micros()).unwrap_or(i64::MAX);
        (exact || self.is_doubted_enough(node, now))
            .then_some(least.saturating_sub(to).div_euclid(1_000))
    }

    /// Returns true if the next mark of the node is the first one of a quarantine.
    fn begins_quarantine(&self, node: usize) -> bool {
        let seen = self.nodes[node].seen.as_ref();
        let is_forgetful =
            seen.is_some_and(|seen| matches!(seen.judgement, ProbeJudgement::Forgetful(_)));
        (self.quarantine && is_forgetful).if_off(Mechanism::ContradictionsAreNotWaitedFor, false)
    }

    /// Returns true if a mark with a note was sent to another node just now. While no mark has a note, that mark is the measure
    /// for the next one. Otherwise two nodes could get the same note although their clocks differ: the median of the clocks
    /// changes with each clock that is read.
    ///
    /// A node that takes no mark is waited for once, until it would be asked again if it did not answer.
    fn is_first_note_sent(&self, node: usize, now: Time) -> bool {
        let is_sent = |other: usize| {
            let sent = self.nodes[other].clock.note_sent;
            other != node && sent.is_some_and(|sent| now < sent.after(PROBE_AGAIN))
        };
        (0..self.nodes.len()).any(is_sent).if_off(Mechanism::FirstNotesTakeTurns, false)
    }

    /// Returns the set's time in microseconds since 1970: the median over the last known clocks of all nodes, each corrected by
    /// the lead that its mark states. So it does not depend on which nodes were heard last, and a clock that is wrong all the
    /// time does not move it. `None` unless the clocks of a majority are known; with `any`, one clock is enough.
    pub(crate) fn time_us(&self, now: Time, any: bool) -> Option<i64> {
        Some(microseconds(now).saturating_add(self.ahead_of_us(now, any)?))
    }

    /// The number of microseconds by which the clock of `node` is ahead of the set's time. `None` unless the clocks of a majority
    /// are known.
    pub(crate) fn clock_ahead_us(&self, node: usize, now: Time) -> Option<i64> {
        let reading = self.nodes[node].clock.reading?;
        Some(reading.middle_us().saturating_sub(self.ahead_of_us(now, false)?))
    }

    /// Returns the time that the clocks of several nodes have reached, without corrections, in microseconds since 1970. Several
    /// are so many that every majority contains one of them. `None` while the clocks of fewer nodes are known.
    pub(crate) fn time_of_several_us(&self, now: Time) -> Option<i64> {
        let readings = self.nodes.iter().filter_map(|known| known.clock.reading);
        let mut ahead_us: Vec<_> = readings.map(Offset::middle_us).collect();
        ahead_us.sort_unstable();
        let others = self.nodes.len() - majority(self.nodes.len());
        let ahead_us = ahead_us.into_iter().rev().nth(others)?;
        Some(microseconds(now).saturating_add(ahead_us))
    }

    /// Returns the set's time for the ends of quarantines. It covers two estimates: by the clocks as they are, and by the clocks
    /// corrected by the leads that their marks state. A quarantine ends when it is over by both.
    ///
    /// If clocks are far apart, a clock that is set forward past the one in the middle moves the uncorrected median by that
    /// distance. A mark that was written in doubt may be far too low, which moves the corrected one.
    pub(crate) fn set_time(&self, now: Time) -> Option<SetTime> {
        let median = |correction_ms: fn(&NodeClock) -> Option<i64>| {
            let range = |known: &Knowledge| {
                let ahead_ms = correction_ms(&known.clock)?;
                Some(known.clock.reading?.range(now).set_back(ahead_ms))
            };
            SetTime::of(&self.nodes.iter().map(range).collect::<Vec<_>>())
        };
        let time = median(|_| Some(0))?;
        let corrected = median(|clock| clock.last_noted_ms);
        Some(match corrected.if_off(Mechanism::TimeIsCorrected, None) {
            Some(corrected) => time.or(corrected),
            None => time,
        })
    }

    /// Returns how far the set's time is ahead of our own clock, in microseconds. If too few nodes have ever had marks, it is
    /// made of the uncorrected clocks.
    fn ahead_of_us(&self, now: Time, any: bool) -> Option<i64> {
        let enough = |known: usize| known >= majority(self.nodes.len()) || any && known > 0;
        let corrected = self.nodes.iter().filter_map(|known| {
            let correction_us = known.clock.last_noted_ms?.saturating_mul(1_000);
            let ahead_us = known.clock.reading?.middle_us().saturating_sub(correction_us);
            is_time(ahead_us, now).then_some(ahead_us)
        });
        if enough(corrected.clone().count()) && Mechanism::TimeIsCorrected.is_on() {
            return median(corrected);
        }
        let readings = self.nodes.iter().filter_map(|known| known.clock.reading);
        median(readings.clone().map(Offset::middle_us)).filter(|_| enough(readings.count()))
    }

    /// Returns the reference for the node's clock: a majority that is not in doubt. If this node's clock is in doubt itself, one
    /// other clock that has gone on at our rate shows that our own clock did not move. If none has, our own clock moved.
    ///
    /// For a node that is admitted, nodes in quarantine do not count. Their marks may have been measured by that very node, after
    /// its clock was set. When such a quarantine is over, so are all locks that the step has ended early.
    pub(super) fn reference_for(&self, node: usize, now: Time) -> Option<Reference> {
        let is_admitted = self.is_marked_admitted(node);
        self.reference_by(node, now, |other| {
            let is_witness = other == node || !is_admitted || self.is_marked_admitted(other);
            is_witness.if_off(Mechanism::QuarantinedClocksAreNoWitnesses, true)
        })
    }

    /// Returns the place of the node's clock, compared with those of nodes in quarantine as well. These can show that it was set,
    /// but not that it was not set.
    pub(super) fn place_by_all(&self, node: usize, now: Time) -> ClockPlace {
        let reference = self.reference_by(node, now, |_| true);
        reference.map_or(ClockPlace::Unknown, |it| self.compared(node, it, now))
    }

    /// Returns true if `node` has forgotten no lock. Either it grants locks, or its mark says that it does and no other clock,
    /// even of a node in quarantine, contradicts its own.
    pub(crate) fn remembers(&self, node: usize, now: Time) -> bool {
        let known = &self.nodes[node];
        let is_in_doubt = known.doubted || known.clock.stepped.is_some();
        let is_marked = self.is_marked_admitted(node) && !self.has_several_servers(node);
        let fits = || self.place_by_all(node, now) == ClockPlace::Noted;
        self.grants(node) != Grants::Nothing || is_marked && !is_in_doubt && fits()
    }

    fn reference_by(
        &self,
        node: usize,
        now: Time,
        counts: impl Fn(usize) -> bool,
    ) -> Option<Reference> {
        let all = self.nodes.len();
        if self.nodes[node].clock.stepped.is_none() {
            let counts = |it: usize| counts(it) && self.nodes[it].clock.stepped.is_none();
            return self.reference(now, all, counts);
        }
        let steady = |other: usize| {
            let clock = &self.nodes[other].clock;
            other != node && counts(other) && clock.steady && !clock.doubtful
        };
        self.reference(now, 1, steady).or_else(|| self.reference(now, all, counts))
    }

    /// Returns the place of the node's clock, compared with the set.
    pub(super) fn compared(&self, node: usize, reference: Reference, now: Time) -> ClockPlace {
        let Some(off) = self.off_mark(node, reference, now) else { return ClockPlace::Unknown };
        let tolerance = self.clock_tolerance;
        let noted_anew = self.noted_anew();
        if off.ahead > tolerance {
            ClockPlace::Ahead(off.ahead)
        } else if off.behind > noted_anew {
            ClockPlace::Behind(off.behind)
        } else if off.perhaps_ahead > tolerance.saturating_sub(noted_anew * 2)
            && Mechanism::DoubtHasNoVote.is_on()
            || off.perhaps_behind > tolerance
        {
            ClockPlace::Unknown
        } else {
            ClockPlace::Noted
        }
    }

    /// Returns the deviation from its mark above which a clock is noted anew.
    pub(super) fn noted_anew(&self) -> Duration {
        (self.clock_tolerance / NOTE_ANEW).max(ROUNDING)
    }

    /// Returns the deviation of the node's clock from its mark; `None` if the clock must be read first.
    pub(super) fn off_mark(&self, node: usize, reference: Reference, now: Time) -> Option<Off> {
        let (least, most) =
            self.nodes[node].clock.set_bounds_us(now).filter(|_| self.is_fresh(node))?;
        let us = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
        let Reference { lowest, highest } = reference;
        Some(Off {
            ahead: us(least.saturating_sub(highest.1)),
            behind: us(lowest.0.saturating_sub(most)),
            perhaps_ahead: us(most.saturating_sub(lowest.0)),
            perhaps_behind: us(highest.0.saturating_sub(most)),
        })
    }

    /// Returns how far the set is ahead of our own clock: the median over all nodes. The nodes `of` count with their clocks as
    /// read since the doubt, less what their marks say; the other nodes may have any clock. `None` if the nodes that count are
    /// too few.
    fn reference(
        &self,
        now: Time,
        at_least: usize,
        of: impl Fn(usize) -> bool,
    ) -> Option<Reference> {
        let nodes = (0..self.nodes.len()).filter(|node| of(*node) && self.is_fresh(*node));
        let bounds = nodes.filter_map(|node| self.nodes[node].clock.set_bounds_us(now));
        let (mut least, mut most): (Vec<_>, Vec<_>) = bounds.unzip();
        least.sort_unstable();
        most.sort_unstable();
        let all = at_least.max(least.len());
        let highest = all.checked_sub(1)? / 2;
        let lowest = highest.checked_sub(all - least.len())?;
        let at = |i: usize| Some((*least.get(i)?, *most.get(i)?));
        Some(Reference { lowest: at(lowest)?, highest: at(highest)? })
    }
}
