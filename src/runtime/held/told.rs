//! The messages to the holders of a lock: that it is at risk, and that it is lost.

use crate::clock;
use crate::core::base::{Time, rounded};
use crate::core::hold::{EndedBy, LossReason, RiskNews, RiskReason};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::observe;
use crate::risk::Risk;
use crate::runtime::held::{Held, HeldState, Lock, Tell};
use crate::runtime::holder::{Callback, Callbacks, HoldState};

impl Held {
    /// Returns `Lost` once the lock is no longer certainly ours. The first holder to notice that tells all holders.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut state = self.state();
        let Some(reason) = state.lock.loss(clock::now()) else { return Ok(()) };
        drop(state);
        let tell = |lock: &mut Lock, tell: Tell<'_>| lock.tell_loss(EndedBy::Loss, tell);
        let (callbacks, is_first) = self.notify(None, reason, tell);
        self.have_called(callbacks);
        if is_first {
            self.report_loss(reason);
        }
        Err(self.lost(reason))
    }

    /// Tells the holders that the lock is at risk, or no longer at risk, if that is news.
    pub(crate) fn tell_risk(&self) {
        let mut state = self.state();
        let Some(news) = state.lock.poll_risk(clock::now()) else { return };
        let risk = self.risk(&state, news);
        // With the mutex held, so that a warning and its end are reported in their order. Nothing is called here.
        let told = state.hold_states.iter().filter_map(|holder| holder.notice.tell(&risk));
        let callbacks: Vec<_> = told.collect();
        let reports = self.claim.state().reports();
        let (names, owner) = (self.claim.names().clone(), self.claim.owner().to_owned());
        reports.tell(move || observe::risk(&names, &owner, &risk));
        drop(state);
        callbacks.into_iter().for_each(|callbacks| reports.call(callbacks));
    }

    /// A further holder gets the warning that the present ones have got.
    pub(super) fn warn_further(&self, state: &HeldState, holder: &HoldState, now: Time) {
        if let Some(news) = state.lock.risk_now(now) {
            // The holder has no callbacks yet.
            let _ = holder.notice.tell(&self.risk(state, news));
        }
    }

    /// Calls `callback` with each message about the risk to that holder's lock.
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

    /// Returns the faults of the nodes in the round whose verdict is awaited.
    fn faults_so_far(&self, state: &HeldState) -> Vec<NodeFault> {
        let faults = state.lock.open_round().map(|round| self.faults_of(round));
        faults.unwrap_or_default()
    }

    /// Returns the faults of the nodes when the lock was lost for that reason.
    fn faults_of_loss(&self, reason: LossReason) -> Vec<NodeFault> {
        if reason != LossReason::Unconfirmed {
            return Vec::new();
        }
        let state = self.state();
        let so_far = self.faults_so_far(&state);
        if so_far.is_empty() { state.faults.clone() } else { so_far }
    }

    /// Reports the event that the lock is lost.
    pub(super) fn report_loss(&self, reason: LossReason) {
        let faults = self.faults_of_loss(reason);
        observe::lost(self.claim.names(), self.claim.owner(), reason, &faults);
    }

    /// Reports the same from the timer, which does not wait for a subscriber of the event.
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

    /// Has callbacks about the loss called on other threads, since the holder that has noticed the loss must not be delayed.
    pub(super) fn have_called(&self, callbacks: Vec<Callbacks>) {
        callbacks.into_iter().for_each(|callbacks| self.claim.state().reports().call(callbacks));
    }

    /// Sends the messages about the loss to the holders that `tell_loss` names: present ones, or the one that is `leaving`.
    /// Returns the callbacks to call, and true if the event is to be reported.
    pub(super) fn notify(
        &self,
        leaving: Option<&HoldState>,
        reason: LossReason,
        tell_loss: impl FnOnce(&mut Lock, Tell<'_>) -> bool,
    ) -> (Vec<Callbacks>, bool) {
        let mut state = self.state();
        let HeldState { lock, hold_states, .. } = &mut *state;
        let mut callbacks = Vec::new();
        // With the mutex held, and nothing is called here.
        let is_first = tell_loss(lock, &mut |holder| {
            let mut all = leaving.into_iter().chain(hold_states.iter().map(|it| &**it));
            let told = all.find(|it| it.sequence == holder).and_then(|it| it.notice.lost(reason));
            let is_told = told.is_some();
            callbacks.extend(told);
            is_told
        });
        drop(state);
        if is_first {
            self.claim.state().recorder().lost(reason);
        }
        (callbacks, is_first)
    }
}
