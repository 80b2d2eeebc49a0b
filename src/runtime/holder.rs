//! The record that a lock keeps of each present holder, and how a holder is told that the lock is at risk, and that it is lost.

use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::core::hold::{LossNotice, LossReason};
use crate::core::vote::FencingToken;
use crate::risk::Risk;
use callbacks::Call;
pub(crate) use callbacks::Callbacks;
use latest::OnRisk;
pub(crate) use latest::RiskCallback;

mod callbacks;
mod latest;

type Callback = Box<dyn FnOnce(LossReason) + Send>;

/// The one message about the end of a lock: see [`LossNotice`].
pub(crate) struct Notice {
    state: Mutex<LossNotice<Open>>,
    lost: Receiver<LossReason>,
    /// Made for the first call that asks for it.
    at_risk: OnceLock<Receiver<Risk>>,
}

/// How the holder is told.
struct Open {
    lost: Sender<LossReason>,
    callbacks: Vec<Callback>,
    on_risk: Option<Box<OnRisk>>,
}

impl Open {
    fn on_risk(&mut self) -> &mut OnRisk {
        self.on_risk.get_or_insert_default()
    }
}

impl Notice {
    pub(crate) fn new() -> Self {
        let (sender, lost) = bounded(1);
        let open = Open { lost: sender, callbacks: Vec::new(), on_risk: None };
        Self { state: Mutex::new(LossNotice::Open(open)), lost, at_risk: OnceLock::new() }
    }

    /// Gets the one message; ends without one when the lock is given back.
    pub(crate) fn receiver(&self) -> &Receiver<LossReason> {
        &self.lost
    }

    /// Has `callback` called on the loss; at once, on this thread, if that has happened.
    pub(crate) fn call(&self, callback: Callback) {
        let reason = match &mut *self.state.lock() {
            LossNotice::Open(open) => {
                open.callbacks.push(callback);
                return;
            }
            LossNotice::Lost(reason) => *reason,
            LossNotice::GivenBack => return,
        };
        callback(reason);
    }

    /// The lock is lost: sends the message, and hands out what is to be called; `None` if it was told
    /// before, or given back. Nothing is called here, since a callback may block, panic, or come back to
    /// this very lock.
    pub(crate) fn lost(&self, reason: LossReason) -> Option<Callbacks> {
        let Open { lost, callbacks, on_risk } = self.state.lock().lost(reason)?;
        // First, so that who hears of the loss finds no warning behind it.
        let ended = on_risk.map(|on_risk| on_risk.end()).unwrap_or_default();
        // There is room for the one message.
        let _ = lost.try_send(reason);
        let mut calls: Vec<_> = callbacks
            .into_iter()
            .map(|callback| Box::new(move || callback(reason)) as Call)
            .collect();
        if !ended.is_empty() {
            // Not on this thread, which may be the timer: what they own may block when it is dropped.
            calls.push(Box::new(move || drop(ended)));
        }
        Some(Callbacks::new(calls))
    }

    /// Returns true if the holder has given the lock back, and false if it was lost; `None` while it is neither.
    pub(crate) fn is_given_back(&self) -> Option<bool> {
        match &*self.state.lock() {
            LossNotice::Open(_) => None,
            LossNotice::Lost(_) => Some(false),
            LossNotice::GivenBack => Some(true),
        }
    }

    /// Gets the latest message about the risk to the lock; ends when the lock is lost or given back.
    pub(crate) fn at_risk(&self) -> &Receiver<Risk> {
        self.at_risk.get_or_init(|| match &mut *self.state.lock() {
            LossNotice::Open(open) => open.on_risk().receiver(),
            LossNotice::Lost(_) | LossNotice::GivenBack => bounded(1).1,
        })
    }

    /// Has `callback` called with each message about the risk. Returns what is to be called now.
    pub(crate) fn call_at_risk(&self, callback: RiskCallback) -> Option<Callbacks> {
        let mut state = self.state.lock();
        match &mut *state {
            LossNotice::Open(open) => open.on_risk().call(callback),
            LossNotice::Lost(_) | LossNotice::GivenBack => {
                drop(state);
                // Outside the mutex: what it owns may come back here when it is dropped.
                drop(callback);
                None
            }
        }
    }

    /// The lock is at risk, or not any more. Returns what is to be called; nothing is called here.
    pub(crate) fn tell_risk(&self, risk: &Risk) -> Option<Callbacks> {
        match &mut *self.state.lock() {
            LossNotice::Open(open) => open.on_risk().tell(risk),
            LossNotice::Lost(_) | LossNotice::GivenBack => None,
        }
    }

    /// The lock was given back: there will be no message.
    pub(crate) fn given_back(&self) {
        let before = self.state.lock().given_back();
        // Outside the mutex: what a callback owns may come back here when it is dropped.
        if let Some(Open { on_risk: Some(on_risk), .. }) = before {
            drop(on_risk.end());
        }
    }
}

/// Channels that have ended, for a child by fork: the senders of the others' may be locked there.
pub(crate) struct Ended {
    pub(crate) lost: Receiver<LossReason>,
    pub(crate) at_risk: Receiver<Risk>,
}

static ENDED: OnceLock<Ended> = OnceLock::new();

/// To be called before there is any lock. Returns the channels that have ended.
pub(crate) fn ended() -> &'static Ended {
    ENDED.get_or_init(|| Ended { lost: bounded(1).1, at_risk: bounded(1).1 })
}

/// The record that a lock keeps of a present holder, and gives to nobody else.
pub(crate) struct HoldState {
    pub(crate) notice: Notice,
    /// `None` without fencing.
    pub(crate) token: Option<FencingToken>,
    /// How many had the lock before that holder got it: they were handed it, or have joined it. A hold of a lock that was
    /// taken again has a number of its own.
    pub(crate) sequence: u64,
}

impl HoldState {
    pub(crate) fn new(token: Option<FencingToken>, sequence: u64) -> Arc<Self> {
        Arc::new(Self { notice: Notice::new(), token, sequence })
    }
}
