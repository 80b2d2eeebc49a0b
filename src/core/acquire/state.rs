//! Where a call that wants a lock stands, and what it waits for.

use super::super::base::Time;
use super::super::vote::Judgement;
use super::driver::WaitsFor;

/// A wait for time to pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) until: Time,
    /// A release that is told may end it.
    pub(super) listens: bool,
    /// It was changed by what was told.
    pub(super) woken: bool,
    /// The lock is left to others meanwhile.
    pub(super) gives_way: bool,
}

#[derive(Debug)]
pub(super) enum CallState<C> {
    /// The driver looks at the local queue.
    Looking,
    /// Behind others in the local queue.
    InLocalQueue {
        until: Time,
    },
    /// The driver subscribes to releases; then this follows.
    Subscribing(AfterSubscribing),
    /// The driver begins an attempt, which asks that node alone at first, until then.
    Beginning(Option<(usize, Time)>),
    /// The attempt of that claim is under way.
    Attempting(C, AttemptStage),
    Sleeping(Sleep),
    Finished,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum AttemptStage {
    /// It waits for the nodes' clocks, and asks that node alone at first, until then.
    AwaitingClocks(Option<(usize, Time)>),
    /// That node was asked, and has until then.
    AskingOne { node: usize, until: Time },
    /// All nodes were asked.
    AskingAll,
    /// The nodes are told the lock's number.
    WritingBack,
    /// The answers do not suffice to judge the attempt.
    AwaitingAnswers,
    /// The attempt is judged. The caller is to hear of more nodes' faults, until then.
    HearingOut { judgement: Judgement, until: Time },
}

/// What follows a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) enum AfterSubscribing {
    Attempt,
    Sleep(Sleep),
}

impl<C> CallState<C> {
    /// When the wait ends by itself. `answer_by`: the end of the time for answers.
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

    /// What ends the wait before its time.
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
