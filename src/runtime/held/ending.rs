//! The end of a lock under way, between the steps of its machine.

use std::mem;
use std::sync::Arc;

use crate::core::base::Time;
use crate::core::hold::GiveBack;
use crate::core::vote::Release;
use crate::runtime::fan_out::FanOut;
use crate::runtime::holder::Callbacks;
use crate::runtime::holder::HoldState;

/// The end of a lock, or of one holder's time with it, under way.
pub(crate) struct Ending<'a> {
    pub(super) machine: GiveBack,
    /// The holder that leaves; `None`: the lock is lost.
    pub(super) leaving: Option<&'a Arc<HoldState>>,
    /// The callbacks about the loss.
    pub(super) callbacks: Vec<Callbacks>,
    /// The release whose answers are counted, until `answer_by`.
    pub(super) release: Option<Arc<FanOut<Release>>>,
    pub(super) answer_by: Time,
}

impl<'a> Ending<'a> {
    pub(super) fn new(machine: GiveBack, leaving: Option<&'a Arc<HoldState>>) -> Self {
        let (callbacks, release, answer_by) = (Vec::new(), None, Time::default());
        Self { machine, leaving, callbacks, release, answer_by }
    }

    /// Returns the callbacks about the loss, which come before the rest of its work.
    pub(crate) fn callbacks(&mut self) -> Vec<Callbacks> {
        mem::take(&mut self.callbacks)
    }
}
