//! Trust in the nodes' clocks: a clock that is set forward lets locks end too early.
//!
//! Each answer of a node states its time, which must be where our own clock expects it ([`ClockTracker`]). A grant counts only if
//! the node's clock *cannot* have been set forward by more than the set's clock tolerance, which every validity allows for. In
//! doubt, the vote does not count. If a clock certainly was set, the node grants us nothing until all nodes have been asked anew,
//! since one reading cannot tell whose clock it was. Then its clock is compared with the other clocks, each corrected by the lead
//! over the set that its mark states. A process that has just begun makes the same comparison. Keys that ended early count as
//! forgotten: the node goes into quarantine, for all clients.

use std::time::Duration;

use super::super::base::{Mechanism, Rule, Time, majority};
use super::super::link::ClockVerdict;
use super::clock_tracker::{ClockStep, ClockTracker, Reading};
use super::clocks::Offset;
use super::comparison::{ClockPlace, Off, ROUNDING};
use super::node::Knowledge;
use super::node_clock::ClockNews;
use super::probe::{Forgot, ProbeJudgement};
use super::{Admission, NodeState};

/// The pause between two probes of a node, as a multiple of the tolerance. In that time two clocks drift apart by a fifth of the
/// tolerance, if both are as wrong as they may be.
const PROBE_AGAIN: u32 = 10;

/// The bounds of that pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Admission {
    /// Handles a reading of the node's clock, which came with the answers to a write. Returns whether the locks count that the
    /// node has granted in these answers.
    pub(crate) fn read(&mut self, node: usize, offset: Offset) -> ClockVerdict {
        let (now, tolerance, doubt) = (offset.received, self.clock_tolerance, self.doubt);
        let clock = &mut self.nodes[node].clock;
        let before = clock.reading.replace(offset);
        clock.doubtful = false;
        let reading = match &mut clock.tracker {
            Some(tracker) => tracker.read(offset, tolerance),
            None => {
                clock.tracker = Some(ClockTracker::new(offset));
                clock.since = now;
                Reading::Fits
            }
        };
        let reading = reading.if_off(Mechanism::ClocksAreWatched, Reading::Fits);
        let mut verdict = ClockVerdict::Fits;
        match reading {
            Reading::Fits if clock.stepped.is_some() => {}
            Reading::Fits => {
                clock.fitted = clock.noted.map(|noted| (now, noted)).or(clock.fitted);
                clock.vague_readings = 0;
            }
            Reading::Doubtful if Mechanism::DoubtHasNoVote.is_on() => {
                verdict = ClockVerdict::Doubtful;
                if clock.tracker.is_some_and(|tracker| tracker.has_to_restart(now, tolerance)) {
                    clock.vague_readings = clock.vague_readings.saturating_add(1);
                    clock.tracker = Some(ClockTracker::new(offset));
                    clock.steady = false;
                    clock.since = now;
                } else {
                    clock.doubtful = true;
                }
            }
            Reading::Doubtful => {}
            Reading::Stepped(step) => {
                verdict = ClockVerdict::Moved;
                clock.steady = false;
                clock.stepped = Some(step);
                if matches!(step, ClockStep::Forward(_)) {
                    clock.ahead_at = Some(now);
                }
                clock.since = now;
                // Nodes that are asked because of a doubt confirm it, and raise no new one.
                let confirms = doubt.zip(before).is_some_and(|(doubt, it)| it.sent < doubt);
                if !confirms {
                    self.doubt = Some(now);
                    self.suspended = false;
                }
                self.clock_news.push(ClockNews::Doubt);
                self.suspect_ourselves();
            }
        }
        self.judge_clocks(now);
        if !self.quarantine {
            return ClockVerdict::Fits;
        }
        match verdict {
            ClockVerdict::Fits if !self.nodes[node].clock.steady => ClockVerdict::Moved,
            verdict => verdict,
        }
    }

    /// Returns the last time at which the node's clock was found to be set forward, so that keys ended early on the node.
    pub(crate) fn ahead_at(&self, node: usize) -> Option<Time> {
        self.nodes[node].clock.ahead_at
    }

    /// Returns the news since the last call.
    pub(crate) fn take_clock_news(&mut self) -> Vec<ClockNews> {
        std::mem::take(&mut self.clock_news)
    }

    /// Returns true if the last reading of the node's clock counts. A reading that was asked for before the doubt does not, since
    /// this machine may have been suspended meanwhile.
    pub(super) fn is_fresh(&self, node: usize) -> bool {
        let reading = self.nodes[node].clock.reading;
        reading.is_some_and(|reading| self.doubt.is_none_or(|doubt| reading.sent >= doubt))
    }

    /// Returns the latest time at which a node must be probed again, however often its clock is read meanwhile. Only a probe
    /// compares the clock with the mark, and lowers a mark that is too high.
    pub(super) fn probe_due(&self, node: usize) -> Time {
        let pause = (self.clock_tolerance * PROBE_AGAIN).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let Knowledge { seen, clock, .. } = &self.nodes[node];
        let read = clock.reading.map_or_else(Time::default, |reading| reading.received);
        let probed = seen.as_ref().if_off(Mechanism::BusyNodesAreProbed, None);
        probed.map_or(read, |seen| seen.at.min(read)).after(pause)
    }

    /// Returns the time at which the clock of a node in doubt is read again because its first answer took too long to be
    /// compared: after 100 ms, then after twice as long each time. A node in doubt is probed after a second in any case.
    pub(super) fn reading_due(&self, node: usize) -> Option<Time> {
        let clock = &self.nodes[node].clock;
        let is_vague = clock.tracker.is_some_and(|it| it.is_vague(self.clock_tolerance));
        let pause = SHORTEST_PAUSE.saturating_mul(1 << clock.vague_readings.min(4));
        let reading = clock.reading.filter(|_| is_vague && self.quarantine);
        reading.map(|reading| reading.received.after(pause))
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
                ClockPlace::Unknown => continue,
                ClockPlace::Ahead(by) => Some(ClockStep::Forward(by)),
                // If it is behind by little, it has drifted.
                ClockPlace::Behind(by) => {
                    Some(ClockStep::Back(by)).filter(|_| by > self.clock_tolerance)
                }
                // Another client was faster, and the mark has the step already.
                ClockPlace::Noted => stepped.filter(|_| !self.suspended),
            };
            let known = &mut self.nodes[node];
            let told = std::mem::replace(&mut known.clock.told, place != ClockPlace::Noted);
            self.clock_news.extend(step.filter(|_| !told).map(|step| ClockNews::Set(node, step)));
            if place == ClockPlace::Noted {
                known.clock.steady = true;
                known.clock.stepped = None;
            } else if let Some(seen) = known.seen.as_mut().filter(|_| self.quarantine)
                && let ProbeJudgement::Ours(state) | ProbeJudgement::Renamed(state) = seen.judgement
            {
                if matches!(place, ClockPlace::Ahead(_)) {
                    known.clock.ahead_at = Some(now);
                    known.forgot = Some(Forgot::Clock);
                    seen.judgement = ProbeJudgement::Forgetful(Forgot::Clock);
                } else {
                    seen.judgement = ProbeJudgement::Moved(state);
                }
            }
        }
    }

    /// Handles a probe of the node: a clock that has moved away from the set little by little is noted anew. Otherwise a process
    /// that has just begun would take that for a step.
    pub(super) fn note_drift(&mut self, node: usize, now: Time) {
        let much = self.noted_anew();
        let is_moved = self.off_certainly(node, now).is_some_and(|off| {
            off.behind > much || off.ahead > much && self.allowed_rise(node, now) >= ROUNDING
        });
        if is_moved {
            self.note_anew(node);
        }
    }

    /// Handles a probe of any node. Where a set begins, the mark of that node may show that another node's mark is wrong: clients
    /// that begin at the same time may have written marks that contradict each other.
    pub(super) fn find_wrong_marks(&mut self, now: Time) {
        for node in 0..self.nodes.len() {
            let off = self.off_certainly(node, now);
            let is_wrong = off.is_some_and(|off| off.behind > self.clock_tolerance);
            if is_wrong.if_off(Mechanism::AllMarksAreCompared, false) {
                self.note_anew(node);
            }
        }
    }

    /// Returns the deviation of the node's clock from what its mark says, unless the clock is in doubt.
    fn off_certainly(&self, node: usize, now: Time) -> Option<Off> {
        let certain = !self.nodes[node].clock.doubtful && Mechanism::ClocksAreNoted.is_on();
        let reference = self.reference_for(node, now).filter(|_| certain);
        reference.and_then(|it| self.off_mark(node, it, now))
    }

    /// Demands a mark that says where the node's clock is, before the node grants anything more.
    fn note_anew(&mut self, node: usize) {
        if let Some(seen) = self.nodes[node].seen.as_mut().filter(|_| self.quarantine)
            && let ProbeJudgement::Ours(state) = seen.judgement
        {
            seen.judgement = ProbeJudgement::Moved(state);
        }
    }

    /// Returns the end of a doubt about the clock of an only node: no other node can be asked about it.
    pub(super) fn in_doubt_until(&self, node: usize) -> Option<Time> {
        let clock = &self.nodes[node].clock;
        let alone = self.nodes.len() == 1 && matches!(clock.stepped, Some(ClockStep::Forward(_)));
        alone.then(|| clock.since.after(self.max_ttl))
    }

    /// Returns true if all locks have ended that existed when the doubt began, whatever its reason was.
    pub(super) fn is_doubted_enough(&self, node: usize, now: Time) -> bool {
        self.nodes[node].clock.since.after(self.max_ttl) <= now && Mechanism::DoubtsEnd.is_on()
    }

    /// Returns the place of the clock of a node in doubt.
    fn place(&mut self, node: usize, now: Time) -> ClockPlace {
        let stepped = self.nodes[node].clock.stepped;
        if stepped.is_none() && !Mechanism::ClocksAreNoted.is_on() {
            return ClockPlace::Noted;
        }
        let alone = self.in_doubt_until(node).is_some();
        let reference = self.reference_for(node, now).filter(|_| !alone);
        let place = reference.map_or(ClockPlace::Unknown, |it| self.compared(node, it, now));
        if place == ClockPlace::Unknown
            && !alone
            && let accused @ ClockPlace::Ahead(_) = self.place_by_all(node, now)
            && Mechanism::QuarantinedClocksAccuse.is_on()
        {
            return accused;
        }
        if place == ClockPlace::Unknown && self.is_doubted_enough(node, now) {
            // All locks that exist now were granted after the doubt about the clock began.
            return ClockPlace::Noted;
        }
        if matches!(place, ClockPlace::Noted | ClockPlace::Behind(_))
            && let Some(by) = self.step_not_noted(node)
        {
            // The clock was behind its mark before the step.
            return ClockPlace::Ahead(by);
        }
        if place == ClockPlace::Noted
            && let Some(reference) = reference
        {
            self.count_gains_from_mark(node, reference, now);
        }
        place
    }

    /// Returns the step by which we have seen the node's clock go forward, if its mark does not have it. The clock was behind its
    /// mark then, which hides the step. But the step has ended keys early.
    ///
    /// Our own machine was not suspended if another clock was watched all the time and has gone on as before. Another client has
    /// noted the step already if the mark is that of a quarantine now, or has risen by more than it ever does outside of one.
    fn step_not_noted(&self, node: usize) -> Option<Duration> {
        let clock = &self.nodes[node].clock;
        let (Some(ClockStep::Forward(by)), Some((fitted_at, before)), Some(noted)) =
            (clock.stepped, clock.fitted, clock.noted)
        else {
            return None;
        };
        let is_witness = |other: usize| {
            let clock = &self.nodes[other].clock;
            other != node
                && clock.steady
                && !clock.doubtful
                && clock.since <= fitted_at
                && self.is_fresh(other)
        };
        let rise = noted.ahead_ms.saturating_sub(before.ahead_ms);
        let in_quarantine = matches!(self.node_state(node), NodeState::Quarantined(_));
        let is_noted = noted != before
            && (in_quarantine
                || Duration::from_millis(u64::try_from(rise).unwrap_or(0)) > self.noted_anew());
        let is_seen = self.quarantine && (0..self.nodes.len()).any(is_witness);
        (is_seen && !is_noted && Mechanism::SeenStepsCount.is_on()).then_some(by)
    }

    /// Concludes that our machine was suspended if a majority of the clocks was set forward at once.
    fn suspect_ourselves(&mut self) {
        let forward = self.nodes.iter().filter_map(|known| match known.clock.stepped {
            Some(ClockStep::Forward(by)) => Some(by),
            _ => None,
        });
        let forward: Vec<_> = forward.collect();
        let many = forward.len() >= majority(self.nodes.len());
        if many && !self.suspended && Mechanism::OwnClockIsDoubted.is_on() {
            self.suspended = true;
            let by = forward.into_iter().min().unwrap_or_default();
            self.clock_news.push(ClockNews::Suspended(by));
        }
    }
}
