//! One holder's time with a lock: the value that its guard owns.

use std::ops::Deref;
use std::sync::Arc;

use tracing::Span;

use crate::clock;
use crate::core::base::{HoldClass, Time};
use crate::error::Error;
use crate::process::ThreadNumber;
use crate::runtime::held::Held;
use crate::runtime::holder::HoldState;
use crate::spans;
use crate::stats::LabelRecorder;

/// The right of one holder to a held lock. Dropping it gives the lock back, to the next local waiter or to the nodes, and
/// never waits on the network. Other holders of the lock keep it.
pub(crate) struct Hold {
    held: Arc<Held>,
    hold_state: Arc<HoldState>,
    /// The holder's thread and the class in which it counts there. `None` if that thread may not take the lock again, or has
    /// begun to give this hold back.
    thread: Option<(ThreadNumber, HoldClass)>,
    /// The time when the hold began; `None` before that, and once it ends.
    began: Option<Time>,
    /// The recorder of the caller's label.
    figures: Option<Arc<LabelRecorder>>,
    span: Span,
    /// True if the drop has nothing left to do.
    is_given_back: bool,
}

impl Hold {
    pub(crate) fn new(held: Arc<Held>, hold_state: Arc<HoldState>) -> Self {
        let (began, figures, span) = (None, None, Span::none());
        Self { held, hold_state, thread: None, began, figures, span, is_given_back: false }
    }

    /// The caller has got the hold, and its time begins. To be called on the caller's thread, with no mutex held: a subscriber of
    /// spans may be slow, and may take locks.
    pub(crate) fn begins(mut self, figures: Option<Arc<LabelRecorder>>) -> Self {
        let claim = self.held.claim();
        self.began = Some(claim.state().recorder().hold_begins());
        self.figures = figures;
        self.span = spans::of_hold(claim.kind().label, claim.names(), claim.owner());
        self
    }

    /// The same hold, which counts as one of the thread's guards of that class.
    pub(crate) fn of_thread(mut self, thread: ThreadNumber, class: HoldClass) -> Self {
        self.thread = Some((thread, class));
        self
    }

    /// Turns the hold from exclusive into shared. Waits for nothing.
    pub(crate) fn downgrade(mut self) -> Self {
        if let Some((thread, class)) = &mut self.thread {
            *class = HoldClass::Shared;
            self.held.downgrade(&self.hold_state, *thread);
        }
        self
    }

    /// From here on the thread may take the lock again only by its other holds. This comes first: code that is called while
    /// the hold is given back may ask for the lock, and must not get a lease that is about to end. Returns the time.
    fn is_leaving(&mut self) -> Time {
        let now = clock::now();
        if let Some(began) = self.began.take() {
            let recorder = self.held.claim().state().recorder();
            recorder.hold_ends(now.since(began), self.figures.as_deref());
        }
        if let Some((thread, class)) = self.thread.take() {
            self.held.left(thread, class);
        }
        now
    }

    /// The lock's record of this holder.
    pub(crate) fn hold_state(&self) -> &Arc<HoldState> {
        &self.hold_state
    }

    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Gives the lock back and waits until that is certain. It is certain at once if the lock is handed to a local waiter,
    /// or has other holders.
    pub(crate) fn give_back_and_wait(mut self) -> Result<(), Error> {
        let since = self.is_leaving();
        let result = self.held.give_back_and_wait(&self.hold_state);
        // Only now: if a subscriber of an event panics, the drop gives back the rest.
        self.is_given_back = true;
        self.held.claim().state().recorder().unlocked(since);
        result
    }
}

impl Deref for Hold {
    type Target = HoldState;

    fn deref(&self) -> &HoldState {
        &self.hold_state
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.held.claim().state().process.is_this() {
            // The parent holds the lock. Its values are never dropped here: that would call locks again.
            std::mem::forget((self.held.clone(), self.hold_state.clone()));
            // Its subscriber may wait for a lock that a thread of the parent had.
            std::mem::forget(std::mem::replace(&mut self.span, Span::none()));
            return;
        }
        self.is_leaving();
        if !self.is_given_back {
            self.held.give_back(&self.hold_state);
        }
        let is_lost = || self.hold_state.notice.is_given_back() == Some(false);
        spans::hold_ends(&self.span, is_lost);
    }
}
