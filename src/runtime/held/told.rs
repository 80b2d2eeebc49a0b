//! The messages to the holders of a lock: that it is at risk, and that it is lost.

use std::sync::Arc;

use crate::clock;
use crate::core::base::{Time, rounded};
use crate::core::hold::{LossReason, RiskNews, RiskReason};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::observe;
use crate::risk::Risk;
use crate::runtime::held::{Held, HeldState};
use crate::runtime::holder::{Callback, Callbacks, HoldState};

impl Held {
    /// `Lost`, once the lock is not certainly ours any more. The holder that sees that first has it told to all holders.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut state = self.state();
        let Some(reason) = state.lock.loss(clock::now()) else { return Ok(()) };
        let hold_states = state.hold_states.clone();
        drop(state);
        if self.tell(&hold_states, reason) {
            self.report_loss(reason);
        }
        Err(self.lost(reason))
    }

    /// Tells the holders that the lock is at risk, or not any more, if that is news.
    pub(crate) fn tell_risk(&self) {
        let mut state = self.state();
        let Some(news) = state.lock.poll_risk(clock::now()) else { return };
        let risk = self.risk(&state, news);
        // With the mutex held, so that a warning and its end are told in their order. Nothing is called here.
        let told = state.hold_states.iter().filter_map(|holder| holder.notice.tell(&risk));
        let callbacks: Vec<_> = told.collect();
        let reports = self.claim.state().reports();
        let (names, owner) = (self.claim.names().clone(), self.claim.owner().to_owned());
        reports.tell(move || observe::risk(&names, &owner, &risk));
        drop(state);
        callbacks.into_iter().for_each(|callbacks| reports.call(callbacks));
    }

    /// A further holder is warned as the present ones are.
    pub(super) fn warn_further(&self, state: &HeldState, holder: &HoldState, now: Time) {
        if let Some(news) = state.lock.risk_now(now) {
            // It has no callbacks yet.
            let _ = holder.notice.tell(&self.risk(state, news));
        }
    }

    /// Has `callback` called with each message about the risk to that holder's lock.
    pub(crate) fn call_at_risk(&self, holder: &HoldState, callback: Callback<Risk>) {
        if let Some(callbacks) = holder.notice.call_with(callback) {
            self.claim.state().reports().call(callbacks);
        }
    }

    fn risk(&self, state: &HeldState, news: RiskNews) -> Risk {
        match news {
            RiskNews::AtRisk { reason, remaining } => {
                let faults = match reason {
                    RiskReason::NotConfirmed => state.faults.clone(),
                    RiskReason::NotAnswered => self.faults_so_far(state),
                    RiskReason::Late => Vec::new(),
                };
                Risk::AtRisk { remaining, reason, faults }
            }
            RiskNews::Recovered { remaining } => Risk::Recovered { remaining },
        }
    }

    /// The faults of the nodes in the round whose verdict is waited for.
    fn faults_so_far(&self, state: &HeldState) -> Vec<NodeFault> {
        let faults = state.lock.open_round().map(|round| self.faults_of(round));
        faults.unwrap_or_default()
    }

    /// The faults of the nodes when the lock was lost for that reason.
    fn faults_of_loss(&self, reason: LossReason) -> Vec<NodeFault> {
        if reason != LossReason::Unconfirmed {
            return Vec::new();
        }
        let state = self.state();
        let so_far = self.faults_so_far(&state);
        if so_far.is_empty() { state.faults.clone() } else { so_far }
    }

    /// The event that the lock is lost.
    pub(super) fn report_loss(&self, reason: LossReason) {
        let faults = self.faults_of_loss(reason);
        observe::lost(self.claim.names(), self.claim.owner(), reason, &faults);
    }

    /// The same from the timer, which does not wait for a subscriber of the event.
    pub(super) fn have_loss_reported(&self, reason: LossReason) {
        let faults = self.faults_of_loss(reason);
        let (names, owner) = (self.claim.names().clone(), self.claim.owner().to_owned());
        let reports = self.claim.state().reports();
        reports.tell(move || observe::lost(&names, &owner, reason, &faults));
    }

    pub(super) fn lost(&self, reason: LossReason) -> Error {
        let ended_ago = clock::now().since(self.state().lock.valid_until());
        let why = match reason {
            LossReason::Expired | LossReason::Unconfirmed => {
                format!("{reason} {} ago", rounded(ended_ago))
            }
            LossReason::MaxHold => format!("{reason}, which ended {} ago", rounded(ended_ago)),
            LossReason::KeysGone | LossReason::ClockStoodStill => reason.to_string(),
        };
        self.lost_because(&why).with_faults(self.faults_of_loss(reason))
    }

    pub(super) fn lost_because(&self, why: &str) -> Error {
        let message = format!(
            "{} is lost: {why}; stop what it protects, somebody else may hold it now",
            self.claim.names()
        );
        Error::new(ErrorKind::Lost, message)
    }

    /// Those holders get their messages about the loss, and what they want called is called. Not here, since the holder
    /// that has seen the loss must not be held up. Returns whether the event is to be reported.
    pub(super) fn tell(&self, hold_states: &[Arc<HoldState>], reason: LossReason) -> bool {
        let (callbacks, is_first) = self.notify(hold_states, reason);
        callbacks.into_iter().for_each(|callbacks| self.claim.state().reports().call(callbacks));
        is_first
    }

    /// Sends each of those holders its message about the loss, if it has not got it. Returns what is to be called, and
    /// whether no holder was told before.
    pub(super) fn notify(
        &self,
        hold_states: &[Arc<HoldState>],
        reason: LossReason,
    ) -> (Vec<Callbacks>, bool) {
        let told = hold_states.iter().filter_map(|hold_state| hold_state.notice.lost(reason));
        let callbacks: Vec<_> = told.collect();
        let is_first = !callbacks.is_empty() && self.state().lock.handle_loss_told();
        (callbacks, is_first)
    }
}
