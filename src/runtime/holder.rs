//! The record that a lock keeps of each present holder, and how a holder is told that the lock is lost.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::core::hold::{LossNotice, LossReason};
use crate::core::vote::FencingToken;

type Callback = Box<dyn FnOnce(LossReason) + Send>;

/// The one message about the end of a lock: see [`LossNotice`].
pub(crate) struct Notice {
    state: Mutex<LossNotice<Open>>,
    lost: Receiver<LossReason>,
}

/// How the holder is told.
struct Open {
    lost: Sender<LossReason>,
    callbacks: Vec<Callback>,
}

impl Notice {
    pub(crate) fn new() -> Self {
        let (sender, lost) = bounded(1);
        let open = Open { lost: sender, callbacks: Vec::new() };
        Self { state: Mutex::new(LossNotice::Open(open)), lost }
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
        let Open { lost, callbacks } = self.state.lock().lost(reason)?;
        // There is room for the one message.
        let _ = lost.try_send(reason);
        Some(Callbacks { reason, callbacks })
    }

    /// The lock was given back: there will be no message.
    pub(crate) fn given_back(&self) {
        let before = self.state.lock().given_back();
        // Outside the mutex: what a callback owns may come back here when it is dropped.
        drop(before);
    }
}

/// A channel that has ended, for a child by fork: the senders of the others' may be locked there.
static ENDED: OnceLock<Receiver<LossReason>> = OnceLock::new();

/// To be called before there is any lock.
pub(crate) fn prepare() {
    ENDED.get_or_init(|| bounded(1).1);
}

pub(crate) fn ended() -> Option<&'static Receiver<LossReason>> {
    ENDED.get()
}

/// What is to be called about a loss, for one holder.
#[must_use = "somebody waits to be called"]
pub(crate) struct Callbacks {
    reason: LossReason,
    callbacks: Vec<Callback>,
}

impl Callbacks {
    /// Returns whether there is nothing to call.
    pub(crate) fn is_empty(&self) -> bool {
        self.callbacks.is_empty()
    }

    /// Calls them one after the other; one that panics does not stop the others.
    pub(crate) fn call(self) {
        for callback in self.callbacks {
            let _ = catch_unwind(AssertUnwindSafe(|| callback(self.reason)));
        }
    }
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
