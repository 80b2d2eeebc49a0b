//! The state of a call that wants a lock, and the event that it waits for.

use super::super::base::Time;
use super::super::vote::Judgement;
use super::call_events::CallEvent;
use super::driver::WaitsFor;

/// A wait until a given time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) until: Time,
    /// True if news of a release may end the wait.
    pub(super) listens: bool,
    /// True if such news has changed the end of the wait.
    pub(super) woken: bool,
    /// The event of its end.
    pub(super) event: Option<CallEvent>,
    /// True if the lock is left to others meanwhile.
    pub(super) gives_way: bool,
}

#[derive(Debug)]
pub(super) enum CallState<C> {
    /// The driver looks at the local queue.
    Looking,
    /// The caller is behind others in the local queue.
    InLocalQueue {
        until: Time,
    },
    /// The driver subscribes to releases. The value is the step after that.
    Subscribing(AfterSubscribing),
    /// The driver begins an attempt. The value is the node that is asked alone at first, and the end of its time.
    Beginning(Option<(usize, Time)>),
    /// The attempt of that claim is under way.
    Attempting(C, AttemptStage),
    Sleeping(Sleep),
    Finished,
}

/// The stage of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptStage {
    /// The attempt waits for the nodes' clocks. The value is the node that is asked alone after that, and the end of its time.
    AwaitingClocks(Option<(usize, Time)>),
    /// The node was asked alone. It has time until `until`.
    AskingOne { node: usize, until: Time },
    /// All nodes were asked.
    AskingAll,
    /// The lock's number is written back to the nodes.
    WritingBack,
    /// The answers do not suffice to judge the attempt.
    AwaitingAnswers,
    /// The attempt is judged. Until `until` it collects faults of further nodes for the caller's error.
    HearingOut { judgement: Judgement, until: Time },
}

/// The step after a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterSubscribing {
    Attempt,
    Sleep(Sleep),
}

impl<C> CallState<C> {
    /// Returns the time at which the wait ends by itself. `answer_by`: the end of the time for answers.
    pub(super) fn ends_at(&self, answer_by: Time) -> Option<Time> {
        match self {
            Self::InLocalQueue { until }
            | Self::Attempting(_, AttemptStage::AskingOne { until, .. })
            | Self::Attempting(_, AttemptStage::HearingOut { until, .. })
            | Self::Sleeping(Sleep { until, .. }) => Some(*until),
            Self::Attempting(..) => Some(answer_by),
            Self::Looking | Self::Subscribing(_) | Self::Beginning(_) | Self::Finished => None,
        }
    }

    /// Returns the event that ends the wait before its time.
    pub(super) fn waits_for(&self) -> WaitsFor {
        match self {
            Self::InLocalQueue { .. } => WaitsFor::Queue,
            Self::Attempting(_, stage) => match stage {
                AttemptStage::AwaitingClocks(_) => WaitsFor::Clocks,
                AttemptStage::AskingOne { .. } | AttemptStage::AskingAll => WaitsFor::Verdict,
                AttemptStage::WritingBack => WaitsFor::Confirmation,
                AttemptStage::AwaitingAnswers | AttemptStage::HearingOut { .. } => {
                    WaitsFor::Answers
                }
            },
            Self::Sleeping(Sleep { listens: true, .. }) => WaitsFor::Releases,
            Self::Sleeping(_)
            | Self::Looking
            | Self::Subscribing(_)
            | Self::Beginning(_)
            | Self::Finished => WaitsFor::Time,
        }
    }
}
