//! The record that a lock keeps of each present holder, and the messages to that holder: that the lock is at risk, that
//! somebody asks for its release, and that it is lost.

use std::sync::{Arc, OnceLock};

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use crate::core::hold::{LossNotice, LossReason};
use crate::core::vote::FencingToken;
use crate::release_request::ReleaseRequest;
use crate::risk::Risk;
use callbacks::Call;
pub(crate) use callbacks::Callbacks;
pub(crate) use latest::Callback;
use latest::{Latest, Message};

mod callbacks;
mod latest;

type LossCallback = Box<dyn FnOnce(LossReason) + Send>;

/// The one message about the end of a lock: see [`LossNotice`].
pub(crate) struct Notice {
    state: Mutex<LossNotice<Open>>,
    lost: Receiver<LossReason>,
    /// Created by the first calls that ask for them.
    at_risk: OnceLock<Receiver<Risk>>,
    asked: OnceLock<Receiver<ReleaseRequest>>,
}

/// The channels and callbacks of a holder.
pub(crate) struct Open {
    lost: Sender<LossReason>,
    callbacks: Vec<LossCallback>,
    risk: Option<Box<Latest<Risk>>>,
    requests: Option<Box<Latest<ReleaseRequest>>>,
}

impl Open {
    /// Ends all messages except that of a loss. Returns the values to drop outside the notice's mutex.
    fn end_messages(&mut self) -> Vec<Call> {
        let risk = self.risk.take().map(|risk| risk.end()).filter(|ended| !ended.is_empty());
        let requests = self.requests.take().map(|it| it.end()).filter(|ended| !ended.is_empty());
        let risk = risk.map(|ended| Box::new(move || drop(ended)) as Call);
        let requests = requests.map(|ended| Box::new(move || drop(ended)) as Call);
        risk.into_iter().chain(requests).collect()
    }
}

/// A type of message, with its place in a notice.
pub(crate) trait Placed: Message {
    fn latest(open: &mut Open) -> &mut Latest<Self>;

    fn receiver(notice: &Notice) -> &OnceLock<Receiver<Self>>;
}

impl Placed for Risk {
    fn latest(open: &mut Open) -> &mut Latest<Self> {
        open.risk.get_or_insert_default()
    }

    fn receiver(notice: &Notice) -> &OnceLock<Receiver<Self>> {
        &notice.at_risk
    }
}

impl Placed for ReleaseRequest {
    fn latest(open: &mut Open) -> &mut Latest<Self> {
        open.requests.get_or_insert_default()
    }

    fn receiver(notice: &Notice) -> &OnceLock<Receiver<Self>> {
        &notice.asked
    }
}

impl Notice {
    pub(crate) fn new() -> Self {
        let (sender, lost) = bounded(1);
        let open = Open { lost: sender, callbacks: Vec::new(), risk: None, requests: None };
        let (at_risk, asked) = (OnceLock::new(), OnceLock::new());
        Self { state: Mutex::new(LossNotice::Open(open)), lost, at_risk, asked }
    }

    /// Returns the channel of the one message. It ends without a message when the lock is given back.
    pub(crate) fn receiver(&self) -> &Receiver<LossReason> {
        &self.lost
    }

    /// Calls `callback` on the loss, or at once on this thread if the lock is already lost.
    pub(crate) fn call(&self, callback: LossCallback) {
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

    /// Sends the message that the lock is lost, and returns the callbacks to call. `None` if the loss was reported before,
    /// or the lock was given back. Nothing is called here, since a callback may block, panic, or call this lock again.
    pub(crate) fn lost(&self, reason: LossReason) -> Option<Callbacks> {
        let mut open = self.state.lock().lost(reason)?;
        // First, so that a holder that receives the loss finds no warning after it.
        let ended = open.end_messages();
        let Open { lost, callbacks, .. } = open;
        // There is room for the one message.
        let _ = lost.try_send(reason);
        let mut calls: Vec<_> = callbacks
            .into_iter()
            .map(|callback| Box::new(move || callback(reason)) as Call)
            .collect();
        // Not on this thread, which may be the timer: the values that the callbacks own may block when dropped.
        calls.extend(ended);
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

    /// Returns the channel of the latest message of that type. It ends when the lock is lost or given back.
    pub(crate) fn messages<M: Placed>(&self) -> &Receiver<M> {
        M::receiver(self).get_or_init(|| match &mut *self.state.lock() {
            LossNotice::Open(open) => M::latest(open).receiver(),
            LossNotice::Lost(_) | LossNotice::GivenBack => bounded(1).1,
        })
    }

    /// Calls `callback` with each message of that type. Returns the callbacks to call now.
    pub(crate) fn call_with<M: Placed>(&self, callback: Callback<M>) -> Option<Callbacks> {
        let mut state = self.state.lock();
        match &mut *state {
            LossNotice::Open(open) => M::latest(open).call(callback),
            LossNotice::Lost(_) | LossNotice::GivenBack => {
                drop(state);
                // Outside the mutex: a value that the callback owns may call this lock when dropped.
                drop(callback);
                None
            }
        }
    }

    /// Sends news of that type. Returns the callbacks to call; nothing is called here.
    pub(crate) fn tell<M: Placed>(&self, message: &M) -> Option<Callbacks> {
        match &mut *self.state.lock() {
            LossNotice::Open(open) => M::latest(open).tell(message),
            LossNotice::Lost(_) | LossNotice::GivenBack => None,
        }
    }

    /// The lock was given back: no message will come.
    pub(crate) fn given_back(&self) {
        let before = self.state.lock().given_back();
        // Outside the mutex: a value that a callback owns may call this lock when dropped.
        before.into_iter().for_each(|mut open| drop(open.end_messages()));
    }
}

/// Channels that have ended, for a forked child: the senders of the other channels may be locked there.
pub(crate) struct Ended {
    pub(crate) lost: Receiver<LossReason>,
    pub(crate) at_risk: Receiver<Risk>,
    pub(crate) asked: Receiver<ReleaseRequest>,
}

static ENDED: OnceLock<Ended> = OnceLock::new();

/// Returns the channels that have ended. The first call must come before there is any lock.
pub(crate) fn ended() -> &'static Ended {
    ENDED.get_or_init(|| Ended { lost: bounded(1).1, at_risk: bounded(1).1, asked: bounded(1).1 })
}

/// The record that a lock keeps of a present holder, and shares with no other holder.
pub(crate) struct HoldState {
    pub(crate) notice: Notice,
    /// `None` without fencing.
    pub(crate) token: Option<FencingToken>,
    /// Number of holders that had the lock before this one got it by hand-over or joining. A hold of a lock that was taken
    /// again has a number of its own.
    pub(crate) sequence: u64,
}

impl HoldState {
    pub(crate) fn new(token: Option<FencingToken>, sequence: u64) -> Arc<Self> {
        Arc::new(Self { notice: Notice::new(), token, sequence })
    }
}
