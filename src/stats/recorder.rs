//! Counts what a client does, for its figures. Recording takes no lock.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::labels::{LabelRecorder, Labels};
use super::outcome::{Counter, Outcome, Outcomes};
use super::snapshot::{
    AttemptStats, KindStats, LocalGrantStats, LossStats, RenewalStats, Stats, WakeUpStats,
};
use super::times::TimesRecorder;
use crate::clock;
use crate::core::acquire::{CallEvent, CallEvents};
use crate::core::base::Time;
use crate::core::hold::LossReason;
use crate::error::ErrorKind;

/// The number of what there is now.
#[derive(Debug, Default)]
struct Gauge(AtomicU64);

impl Gauge {
    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A way to get a lock without asking the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalGrant {
    HandedOver,
    Joined,
    Reentered,
}

/// The figures of one client, as its threads count them.
#[derive(Debug)]
pub(crate) struct Recorder {
    kinds: Box<[(&'static str, Outcomes)]>,
    labels: Labels,
    waiting: Gauge,
    holding: Gauge,
    waits: TimesRecorder,
    holds: TimesRecorder,
    unlocks: TimesRecorder,
    events: [Counter; CallEvent::ALL.len()],
    local_grants: [Counter; 3],
    unconfirmed: Counter,
    validity_left: TimesRecorder,
    losses: LossRecorder,
}

#[derive(Debug, Default)]
struct LossRecorder {
    expired: Counter,
    unconfirmed: Counter,
    keys_gone: Counter,
    max_hold: Counter,
    suspended: Counter,
}

impl Recorder {
    /// A recorder for locks of these kinds.
    pub(crate) fn new(kinds: &[&'static str]) -> Self {
        let kinds = kinds.iter().map(|kind| (*kind, Outcomes::default()));
        Self {
            kinds: kinds.collect(),
            labels: Labels::default(),
            waiting: Gauge::default(),
            holding: Gauge::default(),
            waits: TimesRecorder::new(),
            holds: TimesRecorder::new(),
            unlocks: TimesRecorder::new(),
            events: Default::default(),
            local_grants: Default::default(),
            unconfirmed: Counter::default(),
            validity_left: TimesRecorder::new(),
            losses: LossRecorder::default(),
        }
    }

    /// The recorder of that label.
    pub(crate) fn label(&self, label: &str) -> Arc<LabelRecorder> {
        self.labels.of(label)
    }

    /// A call for a lock of that kind begins. It counts under a label as well, if it has one.
    pub(crate) fn call_begins<'a>(
        &'a self,
        kind: &'static str,
        label: Option<&'a LabelRecorder>,
    ) -> CallRecord<'a> {
        self.waiting.one_more();
        let (began, took) = (clock::now(), Duration::ZERO);
        CallRecord { recorder: self, kind, label, began, took, error: Some(ErrorKind::Config) }
    }

    /// Counts the events of a call.
    pub(crate) fn count(&self, events: &CallEvents) {
        for (event, number) in events.iter().filter(|(_, number)| *number > 0) {
            self.events[event as usize].add(number.into());
        }
    }

    /// A call has got a lock of its own process.
    pub(crate) fn granted_locally(&self, grant: LocalGrant) {
        self.local_grants[grant as usize].add(1);
    }

    /// A hold begins. Returns the time.
    pub(crate) fn hold_begins(&self) -> Time {
        self.holding.one_more();
        clock::now()
    }

    /// A hold ends that took so long. It counts under a label as well, if it has one.
    pub(crate) fn hold_ends(&self, took: Duration, label: Option<&LabelRecorder>) {
        self.holding.one_less();
        self.holds.record(took);
        if let Some(label) = label {
            label.hold_ended(took);
        }
    }

    /// A holder has waited for the end of its release since that time.
    pub(crate) fn unlocked(&self, since: Time) {
        self.unlocks.record(clock::now().since(since));
    }

    /// A renewal was confirmed when so much was left of the validity.
    pub(crate) fn renewed(&self, validity_left: Duration) {
        self.validity_left.record(validity_left);
    }

    /// A renewal was not confirmed in time.
    pub(crate) fn not_renewed(&self) {
        self.unconfirmed.add(1);
    }

    /// A lock is lost.
    pub(crate) fn lost(&self, reason: LossReason) {
        let counter = match reason {
            LossReason::Expired => &self.losses.expired,
            LossReason::Unconfirmed => &self.losses.unconfirmed,
            LossReason::KeysGone => &self.losses.keys_gone,
            LossReason::MaxHold => &self.losses.max_hold,
            LossReason::ClockStoodStill => &self.losses.suspended,
        };
        counter.add(1);
    }

    /// The figures now, without those of the nodes.
    pub(crate) fn snapshot(&self) -> Stats {
        let event = |event: CallEvent| self.events[event as usize].get();
        let local = |grant: LocalGrant| self.local_grants[grant as usize].get();
        let validity_left = self.validity_left.snapshot();
        let of_kind =
            |(kind, calls): &(&'static str, Outcomes)| KindStats { kind, calls: calls.snapshot() };
        Stats {
            kinds: self.kinds.iter().map(of_kind).collect(),
            labels: self.labels.snapshot(),
            waiting: self.waiting.get(),
            holding: self.holding.get(),
            waits: self.waits.snapshot(),
            holds: self.holds.snapshot(),
            unlocks: self.unlocks.snapshot(),
            attempts: AttemptStats {
                granted: event(CallEvent::Granted),
                refused: event(CallEvent::Refused),
                split: event(CallEvent::Split),
                unanswered: event(CallEvent::Unanswered),
                quarantined: event(CallEvent::NotAdmitted),
                rejected: event(CallEvent::Rejected),
            },
            local_grants: LocalGrantStats {
                handed_over: local(LocalGrant::HandedOver),
                joined: local(LocalGrant::Joined),
                reentered: local(LocalGrant::Reentered),
            },
            wake_ups: WakeUpStats {
                messages: event(CallEvent::WokenByMessage),
                expiries: event(CallEvent::WokenByExpiry),
                polls: event(CallEvent::WokenByPoll),
            },
            renewals: RenewalStats {
                confirmed: validity_left.count(),
                unconfirmed: self.unconfirmed.get(),
                validity_left,
            },
            losses: LossStats {
                expired: self.losses.expired.get(),
                unconfirmed: self.losses.unconfirmed.get(),
                keys_gone: self.losses.keys_gone.get(),
                max_hold: self.losses.max_hold.get(),
                suspended: self.losses.suspended.get(),
            },
            majority: 0,
            nodes: Vec::new(),
        }
    }
}

/// The record of a call that goes on. If it ends in a panic, it counts as failed.
#[derive(Debug)]
pub(crate) struct CallRecord<'a> {
    recorder: &'a Recorder,
    kind: &'static str,
    label: Option<&'a LabelRecorder>,
    began: Time,
    took: Duration,
    error: Option<ErrorKind>,
}

impl CallRecord<'_> {
    /// The word for a call that ends so (`None`: with the lock), and how long it took.
    pub(crate) fn so_far(&self, error: Option<ErrorKind>) -> (&'static str, Duration) {
        (Outcome::of(error).as_str(), clock::now().since(self.began))
    }

    /// The call has ended so, and took that long.
    pub(crate) fn ends(mut self, error: Option<ErrorKind>, took: Duration) {
        (self.error, self.took) = (error, took);
    }

    /// The call asks for its lock now, and has another record from then on.
    pub(crate) fn goes_on(self) {
        ManuallyDrop::new(self).recorder.waiting.one_less();
    }
}

impl Drop for CallRecord<'_> {
    fn drop(&mut self) {
        let Self { recorder, kind, label, took, error, .. } = self;
        let outcome = Outcome::of(*error);
        recorder.waiting.one_less();
        if let Some((_, calls)) = recorder.kinds.iter().find(|(it, _)| it == kind) {
            calls.count(outcome);
        }
        if let Some(label) = label {
            label.call_ended(outcome, *took);
        }
        if outcome == Outcome::Acquired {
            recorder.waits.record(*took);
        }
    }
}
