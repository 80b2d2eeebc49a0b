//! Giving a lock back by a holder, and clearing away a lost lock: one step after the other.

use std::time::Duration;

use super::super::base::{Basis, HoldClass, Mechanism, Rule, Time};
use super::super::vote::{Attempt, Extension, Kept, ReleaseResult, Shared};
use super::{Ended, EndedBy, Ending, HeldLock, LossReason, Terms};

/// The steps at the end of a holder's hold. The driver takes a step, carries it out without any mutex, and hands in
/// its result if the step says so.
///
/// ```text
/// by a holder: HandOver -> handed over ---> LookAtLease -> TellGivenBack
///                `-> Leave -> others hold it -----------> TellGivenBack, or TellLoss
///                      `---> others share it -> TellDowngrade -> LookAtLease -> the same
///                      `---> ended -> SendReleases -> TellQueue -> AwaitRelease -> TellGivenBack, or TellLoss
/// by a loss:   Leave -> TellLoss -> SendReleases -> TellQueue -> ReportLoss
/// ```
#[derive(Debug)]
pub(crate) struct GiveBack {
    by: EndedBy,
    /// True if the holder waits until a majority is certainly without the keys.
    waits: bool,
    stage: GiveBackStage,
    /// The releases that are sent after the holders were told.
    releases: Option<Releases>,
    /// Time limit for the verdict on the release, while that verdict is still to be awaited.
    verdict_within: Option<Duration>,
    given_back: GivenBack,
    /// True if the loss was told to a holder, and to none before.
    is_first: bool,
    /// True if a holder was told of a request to release the lock.
    is_asked_for: bool,
}

/// The next step of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveBackStep {
    /// Hand the lease to the next waiter of this process, and report whether there was one:
    /// [`GiveBack::handle_handed_over`].
    HandOver,
    /// Take the lock's mutex and call [`GiveBack::leave`].
    Leave,
    /// Have the timer check the lease again. The next holder may hold it for a shorter time.
    LookAtLease,
    /// Close the attempt and send the releases.
    SendReleases(Releases),
    /// Tell the local queue that another process wants the lock, as a holder was told.
    TellOfOthers,
    /// Tell the local queue that the lease has been given back, or was `lost`.
    TellQueue { lost: bool },
    /// Tell the local queue that the lock has been downgraded.
    TellDowngrade,
    /// Wait for the verdict on the release, for that time at most, and hand it to [`GiveBack::handle_released`].
    AwaitRelease(Duration),
    /// Take the lock's mutex and call [`GiveBack::tell_loss`], which names the holders that are told of the loss.
    TellLoss(LossReason),
    /// Tell the holder that there will be no message about a loss.
    TellGivenBack,
    /// Report the event that the lock is lost.
    ReportLoss(LossReason),
    /// Nothing more.
    Done(GivenBack),
}

/// The releases that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Releases {
    /// The longest time that one of the keys can live on.
    pub(crate) longest_ttl: Duration,
    /// The terms on which the nodes keep the lock, although its holder has given it back: see `min_hold`.
    pub(crate) kept: Option<Kept>,
    /// The class of the hold.
    pub(crate) class: HoldClass,
    pub(crate) answers: Answers,
}

impl Releases {
    /// The releases of a failed attempt, or of a grant that nobody takes. The nodes keep nothing of it: the keys of
    /// several such attempts would block everybody.
    pub(crate) fn of_nobody(class: HoldClass, terms: Terms, now: Time) -> Self {
        let min_hold = None.if_off(Mechanism::OnlyHeldLocksAreKept, terms.min_hold);
        let kept = min_hold.map(|min_hold| {
            let until = now.after(min_hold);
            Kept { until, by: until }
        });
        Self { longest_ttl: terms.ttl, kept, class, answers: Answers::Unheard }
    }
}

/// The use of the answers to the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// No use.
    Unheard,
    /// They tell the number of others that wait for the lock.
    OfOthers,
    /// They tell that number, and are counted: see [`Release`](super::super::vote::Release). The nodes that need no
    /// clean-up are asked, too.
    Counted(Basis),
}

/// The result of giving a lock back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// The lock is given back, handed over, or held by others; or it had ended before.
    Settled,
    /// It was lost.
    Lost(LossReason),
    /// The nodes' answers to the release show that it was lost: the keys were gone.
    WasLost,
    /// Too few nodes confirmed for certain that they are without the keys.
    Unconfirmed,
}

impl GivenBack {
    /// Returns the reason for which the lock was lost, if it was.
    pub(crate) const fn loss(self) -> Option<LossReason> {
        match self {
            Self::Lost(reason) => Some(reason),
            Self::WasLost => Some(LossReason::KeysGone),
            Self::Settled | Self::Unconfirmed => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GiveBackStage {
    HandingOver,
    HandedOver,
    Downgraded,
    Leaving,
    SendingReleases(Releases),
    TellingOfOthers,
    TellingQueue,
    Awaiting(Duration),
    Telling,
    Reporting,
    Done,
}

impl GiveBack {
    /// The holder with that sequence number drops the lock, and waits for nothing.
    pub(crate) const fn dropped(holder: u64) -> Self {
        Self::new(EndedBy::Holder(holder), false, GiveBackStage::HandingOver)
    }

    /// The holder with that sequence number unlocks, and waits to hear whether the lock was its own until then.
    pub(crate) const fn unlocked(holder: u64) -> Self {
        Self::new(EndedBy::Holder(holder), true, GiveBackStage::HandingOver)
    }

    /// The lease is over, and the thread that watches it has seen that.
    pub(crate) const fn lost() -> Self {
        Self::new(EndedBy::Loss, false, GiveBackStage::Leaving)
    }

    const fn new(by: EndedBy, waits: bool, stage: GiveBackStage) -> Self {
        let (given_back, is_first) = (GivenBack::Settled, false);
        let (releases, verdict_within, is_asked_for) = (None, None, false);
        Self { by, waits, stage, releases, verdict_within, given_back, is_first, is_asked_for }
    }

    /// Returns the next step of the driver. The answer changes with each call, and with the results that the driver
    /// hands in.
    pub(crate) fn poll(&mut self) -> GiveBackStep {
        let (step, next) = match self.stage {
            GiveBackStage::HandingOver => (GiveBackStep::HandOver, self.stage),
            // The lease comes before the holder: the holder's callbacks own objects, and dropping these may run any
            // code.
            GiveBackStage::HandedOver => (GiveBackStep::LookAtLease, GiveBackStage::Telling),
            // The timer tells the nodes.
            GiveBackStage::Downgraded => (GiveBackStep::TellDowngrade, GiveBackStage::HandedOver),
            GiveBackStage::Leaving => (GiveBackStep::Leave, self.stage),
            GiveBackStage::SendingReleases(releases) => {
                let is_asked_for = self.is_asked_for && self.given_back.loss().is_none();
                let next = if is_asked_for {
                    GiveBackStage::TellingOfOthers
                } else {
                    GiveBackStage::TellingQueue
                };
                (GiveBackStep::SendReleases(releases), next)
            }
            // The queue hears of the others before it wakes the next caller of this process: it leaves the lock to
            // them for a moment.
            GiveBackStage::TellingOfOthers => {
                (GiveBackStep::TellOfOthers, GiveBackStage::TellingQueue)
            }
            // The queue hears of it after the releases: the next caller asks the same nodes over the same
            // connections.
            GiveBackStage::TellingQueue => {
                let lost = self.given_back.loss().is_some();
                (GiveBackStep::TellQueue { lost }, self.behind_the_queue())
            }
            GiveBackStage::Awaiting(within) => (GiveBackStep::AwaitRelease(within), self.stage),
            GiveBackStage::Telling => match self.given_back.loss() {
                Some(reason) => (GiveBackStep::TellLoss(reason), self.stage),
                None => (GiveBackStep::TellGivenBack, self.behind_telling()),
            },
            // The report comes last, since a subscriber of the event may panic.
            GiveBackStage::Reporting => match self.given_back.loss().filter(|_| self.is_first) {
                Some(reason) => (GiveBackStep::ReportLoss(reason), GiveBackStage::Done),
                None => (GiveBackStep::Done(self.given_back), GiveBackStage::Done),
            },
            GiveBackStage::Done => (GiveBackStep::Done(self.given_back), self.stage),
        };
        self.stage = next;
        step
    }

    /// Notes whether a waiter of this process has got the lease.
    pub(crate) fn handle_handed_over(&mut self, is_handed_over: bool) {
        self.stage =
            if is_handed_over { GiveBackStage::HandedOver } else { GiveBackStage::Leaving };
    }

    /// Has the holder leave `held`, or ends `held` after the loss. Returns the result: after [`Ended::Now`], no
    /// renewal is due any more.
    pub(crate) fn leave<A: Shared<Attempt>, E: Shared<Extension>>(
        &mut self,
        held: &mut HeldLock<A, E>,
        now: Time,
    ) -> Ended {
        let ended = held.end(self.by, now);
        self.is_asked_for = held.goes_to_others();
        let longest_ttl = held.longest_ttl();
        let kept = match ended {
            Ended::Now(Ending { kept, .. }) => kept,
            Ended::Before | Ended::OthersHold { .. } => None,
        };
        let class = held.class();
        let releases = |answers| Some(Releases { longest_ttl, kept, class, answers });
        let (lost, releases) = match (ended, self.by) {
            (Ended::Now(Ending { lost, .. }), EndedBy::Loss) => (lost, releases(Answers::Unheard)),
            (Ended::Now(Ending { lost: None, basis, .. }), _) if self.waits => {
                self.verdict_within = Some(held.node_timeout);
                (None, releases(Answers::Counted(basis)))
            }
            (Ended::Now(Ending { lost, .. }), _) => (lost, releases(Answers::OfOthers)),
            (Ended::OthersHold { lost, .. }, _) => (lost, None),
            (Ended::Before, EndedBy::Loss) => (None, None),
            // Another thread has seen the loss, and may have much to tell before it sends the releases. The releases
            // must be under way when `unlock` returns, since the process may end then.
            (Ended::Before, EndedBy::Holder(_)) => {
                let lost = held.loss(now);
                (lost, lost.filter(|_| self.waits).and_then(|_| releases(Answers::OfOthers)))
            }
        };
        self.given_back = lost.map_or(GivenBack::Settled, GivenBack::Lost);
        self.stage = match (releases, self.by) {
            _ if ended == Ended::Before && lost.is_none() => GiveBackStage::Done,
            _ if matches!(ended, Ended::OthersHold { downgraded: true, .. }) => {
                GiveBackStage::Downgraded
            }
            (Some(releases), EndedBy::Holder(_)) => GiveBackStage::SendingReleases(releases),
            // The holders are told first, since they still work.
            (Some(_), EndedBy::Loss) | (None, _) => GiveBackStage::Telling,
        };
        self.releases = releases.filter(|_| self.by == EndedBy::Loss);
        ended
    }

    /// The verdict on the release is reached, or its time is over.
    pub(crate) fn handle_released(&mut self, result: ReleaseResult) {
        self.verdict_within = None;
        self.given_back = match result {
            ReleaseResult::Released => GivenBack::Settled,
            ReleaseResult::WasLost => GivenBack::WasLost,
            ReleaseResult::Unconfirmed => GivenBack::Unconfirmed,
        };
        self.stage = GiveBackStage::Telling;
    }

    /// Has the holders told that the lock is lost: see [`HeldLock::tell_loss`].
    pub(crate) fn tell_loss<A: Shared<Attempt>, E: Shared<Extension>>(
        &mut self,
        held: &mut HeldLock<A, E>,
        tell: impl FnMut(u64) -> bool,
    ) -> bool {
        self.is_first = held.tell_loss(self.by, tell);
        self.stage = self.behind_telling();
        self.is_first
    }

    fn behind_the_queue(&self) -> GiveBackStage {
        let verdict_within = self.verdict_within.if_off(Mechanism::NoticesAwaitTheVerdict, None);
        match (verdict_within, self.by) {
            // Once the holder was told that there is no loss, it could not be told of a loss that the verdict shows.
            (Some(within), _) => GiveBackStage::Awaiting(within),
            (_, EndedBy::Holder(_)) => GiveBackStage::Telling,
            (_, EndedBy::Loss) => GiveBackStage::Reporting,
        }
    }

    fn behind_telling(&mut self) -> GiveBackStage {
        match (self.releases.take(), self.verdict_within) {
            (Some(releases), _) => GiveBackStage::SendingReleases(releases),
            (None, Some(within)) => GiveBackStage::Awaiting(within),
            (None, None) => GiveBackStage::Reporting,
        }
    }
}

#[cfg(test)]
#[path = "tests/give_back.rs"]
mod tests;
