//! One call that wants a lock, from its place in the local queue to the lock or the refusal.
//!
//! The machine decides, and a driver carries out. The driver reports each event with a `handle_` method.
//! It carries out the actions of [`poll_action`](Acquire::poll_action) until that returns `None`. Then it
//! waits for the event that [`waits_for`](Acquire::waits_for) names, until
//! [`poll_timeout`](Acquire::poll_timeout) at most.
//!
//! ```text
//!         +-> Look -> wait in the local queue -----------------------> Look
//!         |     |---> give way: subscribe, sleep --------------------> Look
//!         |     |---> HandedOver, Refuse
//!         |     v
//!         |   Begin -> wait for clocks -> ask the preferred node, then the others, or all at once
//!         |                                   |
//!         |             verdict, or its time is over -> write back the number
//!         |                                   |
//!         |                                 judge <-> wait for more answers
//!         |                                   |
//!         |                                   +---> Granted
//!         +-- sleep <- subscribe <- give back +---> Refuse
//! ```

mod attempts;
mod begin;
mod call_events;
#[cfg(test)]
#[path = "tests/client_model.rs"]
mod client_model;
mod conclusion;
mod contention;
mod driver;
mod obstacle;
mod queue_place;
mod reservation;
mod slot_choice;
mod state;
mod waits;
mod way_of_waiting;

use std::collections::VecDeque;
use std::time::Duration;

use self::attempts::Attempts;
use self::state::{AfterSubscribing, AttemptStage, CallState, Sleep};
use super::base::Time;
use super::queue::{Place, Turn};
use super::vote::{Attempt, Ballot};
use super::wake::WakeReason;

pub(crate) use self::attempts::{Outcome, Patience, Policy};
pub(crate) use self::call_events::{CallEvent, CallEvents};
pub(crate) use self::driver::{
    Action, Begin, Failed, SharedAttempt, Stop, Surroundings, WaitsFor, Whom,
};
pub(crate) use self::obstacle::Obstacle;
pub(crate) use self::reservation::{Priority, Reservation};
pub(crate) use self::waits::Waits;
#[cfg(test)]
pub(crate) use self::way_of_waiting::MOST_ASKERS;
pub(crate) use self::way_of_waiting::WayOfWaiting;

/// One call that wants a lock.
#[derive(Debug)]
pub(crate) struct Acquire<C> {
    attempts: Attempts,
    patience: Patience,
    /// Time limit of an attempt. The caller's deadline may shorten it.
    attempt_timeout: Duration,
    state: CallState<C>,
    actions: VecDeque<Action<C>>,
    /// Start of the call.
    began: Time,
    /// Start of the attempt.
    started: Time,
    /// End of the attempt's time. The attempt gets new time once the preferred node has answered.
    answer_by: Time,
    /// True if the call is subscribed to releases.
    subscribed: bool,
    /// The caller waited in the local queue since its last attempt.
    waited_in_queue: bool,
    /// The caller waited in the local queue at some time.
    waited_for_others: bool,
    /// The caller left the lock to others since its last attempt, so it knows that they want it.
    gave_way: bool,
    /// An attempt found the lock held by somebody else.
    refused: bool,
    /// True if the votes of the last attempt show which nodes answer. They are too old after a wait in the
    /// local queue; then all nodes that are not known to be down are expected to answer.
    last_votes_are_fresh: bool,
    told_not_admitted: bool,
    /// The caller has waited for the holder since its last attempt, and no message has ended the wait.
    waits_for_expiry: bool,
    /// The events since they were taken last.
    events: Option<CallEvents>,
}

impl<C: SharedAttempt> Acquire<C> {
    /// Creates a call whose driver has taken a place in the local queue.
    pub(crate) fn new(policy: Policy, attempt_timeout: Duration) -> Self {
        Self {
            attempts: Attempts::new(policy, attempt_timeout),
            patience: policy.patience,
            attempt_timeout,
            state: CallState::Looking,
            actions: VecDeque::new(),
            began: Time::default(),
            started: Time::default(),
            answer_by: Time::default(),
            subscribed: false,
            waited_in_queue: false,
            waited_for_others: false,
            gave_way: false,
            refused: false,
            last_votes_are_fresh: false,
            told_not_admitted: false,
            waits_for_expiry: false,
            events: None,
        }
    }

    /// Begins the call.
    pub(crate) fn start(&mut self, around: &impl Surroundings) {
        self.began = around.now();
        if around.nodes_disagree() {
            self.refuse(Outcome::NodesDisagree);
        } else {
            self.look();
        }
    }

    /// Returns the driver's next action; `None` if there is none before the next event.
    pub(crate) fn poll_action(&mut self) -> Option<Action<C>> {
        self.actions.pop_front()
    }

    /// Returns the events since the last call; `None`: there were none.
    pub(crate) fn take_events(&mut self) -> Option<CallEvents> {
        self.events.take()
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due; `None` if no time limit is
    /// set. The answer changes with each event.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.state.ends_at(self.answer_by)
    }

    /// Returns the event that ends the wait before its time. The answer changes with each event.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        self.state.waits_for()
    }

    /// Returns the claim whose attempt is under way. The answer changes with each event.
    pub(crate) fn claim(&mut self) -> Option<&mut C> {
        match &mut self.state {
            CallState::Attempting(claim, _) => Some(claim),
            _ => None,
        }
    }

    /// Handles the caller's place in the local queue, after the driver has looked at it.
    pub(crate) fn handle_turn(&mut self, place: Place, around: &mut impl Surroundings) {
        let CallState::Looking = self.state else { return };
        self.attempts.comes_first(place.comes_first);
        let now = around.now();
        // A caller that has waited until its deadline is told that the lock is held, if that is known. If not,
        // it makes one attempt without any time left. The outcome of that attempt reports the missing quorum.
        let over = self.deadline().is_some_and(|deadline| deadline <= now);
        let waited_to_the_end = over && self.waited_in_queue;
        match place.turn {
            turn if turn.is_served() && around.nodes_disagree() => {
                self.refuse(Outcome::NodesDisagree);
            }
            Turn::HandedOver | Turn::Joined | Turn::Reentered => self.finish(Action::HandedOver),
            Turn::Lost(reason) => self.refuse(Outcome::Lost(reason)),
            Turn::WaitsForItself => self.refuse(Outcome::WaitsForItself),
            // Other processes want the lock, so it is as good as held.
            Turn::GiveWay(_) if waited_to_the_end => self.refuse(Outcome::HELD),
            Turn::GiveWay(until) => self.give_way(self.at_most(until), around),
            _ if over && self.gave_way => self.refuse(Outcome::HELD),
            _ if waited_to_the_end && place.is_held => self.refuse(Outcome::HELD),
            _ if waited_to_the_end => self.take_turn(around),
            Turn::Ask => self.take_turn(around),
            Turn::Held => self.refuse(Outcome::HELD),
            Turn::Wait(until) => {
                self.state = CallState::InLocalQueue { until: self.at_most(until) }
            }
        }
    }

    /// Handles a change of the local queue.
    pub(crate) fn handle_queue_changed(&mut self) {
        if let CallState::InLocalQueue { .. } = self.state {
            self.waits_for_expiry = false;
            self.waited_in_queue = true;
            self.look();
        }
    }

    /// Handles the subscription to releases. `others`: the number of waiters in other processes.
    pub(crate) fn handle_subscribed(&mut self, others: u32, around: &mut impl Surroundings) {
        let CallState::Subscribing(next) = self.state else { return };
        self.subscribed = true;
        self.attempts.expects(others);
        match next {
            AfterSubscribing::Attempt => {
                self.begin_attempt(around);
            }
            AfterSubscribing::Sleep(sleep) => self.sleep(sleep, around),
        }
    }

    /// Handles the start of the attempt, before any node is asked.
    pub(crate) fn handle_begun(&mut self, claim: C, around: &impl Surroundings) {
        let CallState::Beginning(preferred) = self.state else {
            return self.actions.push_back(Action::GiveBack(claim));
        };
        // The nodes' clocks come first: the nodes are compared by them before any grant, and lock numbers are made
        // of them.
        if around.waits_for_clocks() {
            self.state = CallState::Attempting(claim, AttemptStage::AwaitingClocks(preferred));
        } else {
            self.ask(claim, preferred);
        }
    }

    /// Handles news of the nodes' clocks, which may be known by now.
    pub(crate) fn handle_clocks(&mut self, around: &impl Surroundings) {
        match self.take_state() {
            CallState::Attempting(claim, AttemptStage::AwaitingClocks(preferred))
                if !around.waits_for_clocks() =>
            {
                self.ask(claim, preferred);
            }
            state => self.state = state,
        }
    }

    /// Handles the verdict on the attempt by the nodes that were asked.
    pub(crate) fn handle_verdict(&mut self, around: &mut impl Surroundings) {
        match self.take_state() {
            CallState::Attempting(claim, AttemptStage::AskingOne { node, .. }) => {
                self.preferred_done(claim, node, around)
            }
            CallState::Attempting(claim, AttemptStage::AskingAll) => self.all_done(claim, around),
            state => self.state = state,
        }
    }

    /// Handles the end of the write-back: it is `confirmed` by a majority, or cannot be any more.
    pub(crate) fn handle_confirmation(&mut self, confirmed: bool, around: &mut impl Surroundings) {
        match self.take_state() {
            CallState::Attempting(claim, AttemptStage::WritingBack) => {
                if confirmed {
                    claim.with(Attempt::written_back);
                }
                self.heard(claim, around);
            }
            state => self.state = state,
        }
    }

    /// Handles the answers of further nodes, if there are any.
    pub(crate) fn handle_answers(&mut self, around: &mut impl Surroundings) {
        match self.take_state() {
            CallState::Attempting(claim, AttemptStage::AwaitingAnswers) => {
                self.judge(claim, around)
            }
            CallState::Attempting(claim, AttemptStage::HearingOut { judgement, .. })
                if !claim.with(|attempt| attempt.awaits_answers()) =>
            {
                self.conclude(claim, judgement, around);
            }
            state => self.state = state,
        }
    }

    /// Handles news of the lock's releases, if there is any.
    pub(crate) fn handle_releases(&mut self, around: &mut impl Surroundings) {
        // Each pass handles one wake reason.
        while let CallState::Sleeping(Sleep {
            until: before,
            listens: true,
            event: earlier,
            gives_way,
            ..
        }) = self.state
        {
            let reason = around.releases(|releases| releases.wake_reason()).flatten();
            let Some(reason) = reason else { return };
            let now = around.now();
            let mut until = self.attempts.woken(reason, now, around.random());
            if reason == WakeReason::PerhapsReleased {
                until = until.min(before);
            }
            // Further confirmations of subscriptions must not postpone the next attempt again.
            let listens = reason != WakeReason::Listening;
            let event = match reason {
                WakeReason::Released | WakeReason::PerhapsReleased => {
                    Some(CallEvent::WokenByMessage)
                }
                WakeReason::Listening => earlier.filter(|it| *it == CallEvent::WokenByMessage),
            };
            let sleep = Sleep { until, listens, woken: true, event, gives_way };
            self.state = CallState::Sleeping(sleep);
            if until <= now {
                return self.slept(sleep, around);
            }
            if listens {
                around.releases(|releases| releases.waits_after(reason));
            }
        }
    }

    /// Handles the end of the wait, once the time of [`poll_timeout`](Self::poll_timeout) has come.
    pub(crate) fn handle_timeout(&mut self, around: &mut impl Surroundings) {
        if self.poll_timeout().is_none_or(|due| around.now() < due) {
            return;
        }
        match self.take_state() {
            state @ CallState::InLocalQueue { .. } => {
                self.state = state;
                self.handle_queue_changed();
            }
            CallState::Attempting(claim, stage) => match stage {
                AttemptStage::AwaitingClocks(preferred) => self.ask(claim, preferred),
                AttemptStage::AskingOne { node, .. } => self.preferred_done(claim, node, around),
                AttemptStage::AskingAll => self.all_done(claim, around),
                AttemptStage::WritingBack => self.heard(claim, around),
                AttemptStage::AwaitingAnswers => self.judge(claim, around),
                AttemptStage::HearingOut { judgement, .. } => {
                    self.conclude(claim, judgement, around)
                }
            },
            CallState::Sleeping(sleep) => self.slept(sleep, around),
            state => self.state = state,
        }
    }

    /// Ends the call at once.
    pub(crate) fn handle_stop(&mut self, stop: Stop) {
        let outcome = match stop {
            Stop::Cancelled => Outcome::Cancelled,
            Stop::Closed => Outcome::Closed,
        };
        match self.take_state() {
            CallState::Finished => self.state = CallState::Finished,
            CallState::Attempting(claim, _) => self.abandon(claim, outcome),
            _ => self.refuse(outcome),
        }
    }

    fn count(&mut self, event: CallEvent) {
        self.events.get_or_insert_default().count(event);
    }

    fn take_state(&mut self) -> CallState<C> {
        std::mem::replace(&mut self.state, CallState::Finished)
    }

    fn look(&mut self) {
        self.actions.push_back(Action::Look);
        self.state = CallState::Looking;
    }

    fn finish(&mut self, last: Action<C>) {
        self.withdraw(Vec::new);
        self.leave_queue();
        self.actions.push_back(last);
        self.state = CallState::Finished;
    }

    /// Withdraws the caller's reservations, if nodes may have any. A grant has ended them on the nodes of
    /// `granted_by`.
    fn withdraw(&mut self, granted_by: impl FnOnce() -> Vec<usize>) {
        if let Some((priority, within)) = self.attempts.withdraws() {
            let granted_by = granted_by();
            self.actions.push_back(Action::Withdraw { priority, granted_by, within });
        }
    }

    /// Takes the caller out of the nodes' queues of a fair lock, if it may be in them.
    fn leave_queue(&mut self) {
        let entry = self.attempts.leaves_queue();
        self.actions.extend(entry.map(|(caller, lives)| Action::LeaveQueue(caller, lives)));
    }

    fn refuse(&mut self, outcome: Outcome) {
        self.finish(Action::Refuse(outcome));
    }

    fn abandon(&mut self, claim: C, outcome: Outcome) {
        self.actions.push_back(Action::GiveBack(claim));
        self.refuse(outcome);
    }

    fn subscribe(&mut self, next: AfterSubscribing, around: &mut impl Surroundings) {
        let caller = self.attempts.queued_caller(|| around.random_owner());
        self.actions.push_back(Action::Subscribe(caller));
        self.state = CallState::Subscribing(next);
    }

    fn give_way(&mut self, until: Time, around: &mut impl Surroundings) {
        self.waits_for_expiry = false;
        let sleep = Sleep { until, listens: true, woken: false, event: None, gives_way: true };
        if self.subscribed {
            self.actions.push_back(Action::IgnoreOwnRelease);
            self.state = CallState::Sleeping(sleep);
        } else {
            self.subscribe(AfterSubscribing::Sleep(sleep), around);
        }
    }

    /// Starts an attempt, or first a subscription if other threads of the process have one.
    fn take_turn(&mut self, around: &mut impl Surroundings) {
        self.waited_for_others |= self.waited_in_queue;
        if std::mem::take(&mut self.waited_in_queue) {
            self.attempts.waited_in_queue();
            self.last_votes_are_fresh = false;
        }
        if self.patience != Patience::Once && !self.subscribed && around.others_subscribed() {
            self.subscribe(AfterSubscribing::Attempt, around);
        } else {
            self.begin_attempt(around);
        }
    }

    fn ask(&mut self, claim: C, preferred: Option<(usize, Time)>) {
        if self.attempts.is_queued() {
            claim.with(Attempt::asks_for_queues);
        }
        match preferred {
            Some((node, until)) => {
                claim.with(|attempt| attempt.prefer(node));
                let until = until.min(self.answer_by);
                self.actions.push_back(Action::Ask(Whom::Only(node)));
                self.state = CallState::Attempting(claim, AttemptStage::AskingOne { node, until });
            }
            None => {
                self.actions.push_back(Action::Ask(Whom::All));
                self.state = CallState::Attempting(claim, AttemptStage::AskingAll);
            }
        }
    }

    /// Goes on once the preferred node has answered, or its time is over.
    fn preferred_done(&mut self, claim: C, node: usize, around: &mut impl Surroundings) {
        let answer_by = self.attempts.answer_by(around.now(), self.attempt_timeout);
        if claim.reopen(|attempt| attempt.goes_on(answer_by)) {
            self.answer_by = answer_by;
            self.actions.push_back(Action::Ask(Whom::AllBut(node)));
            self.state = CallState::Attempting(claim, AttemptStage::AskingAll);
        } else {
            self.heard(claim, around);
        }
    }

    /// Goes on once the nodes have decided the attempt, or its time is over.
    fn all_done(&mut self, claim: C, around: &mut impl Surroundings) {
        // Without a verdict the time is over, and there is nothing to write back.
        let number = claim.with(|attempt| {
            let decided = attempt.decided();
            attempt.number_to_write_back().filter(|_| decided)
        });
        match number {
            Some(number) => {
                self.actions.push_back(Action::WriteBack(number));
                self.state = CallState::Attempting(claim, AttemptStage::WritingBack);
            }
            None => self.heard(claim, around),
        }
    }

    fn sleep(&mut self, sleep: Sleep, around: &mut impl Surroundings) {
        if sleep.gives_way {
            return self.give_way(sleep.until, around);
        }
        self.state = CallState::Sleeping(sleep);
        // Nodes may have announced a release since the attempt began.
        self.handle_releases(around);
    }

    fn slept(&mut self, sleep: Sleep, around: &mut impl Surroundings) {
        if sleep.gives_way {
            // One node's message is enough to show that another process wants the lock.
            let heard = around.releases(|releases| releases.has_heard());
            let heard = sleep.woken || heard == Some(true);
            self.gave_way = true;
            self.actions.push_back(Action::GivingWayIsOver { heard });
            return self.look();
        }
        if let Some(outcome) = self.attempts.waited(around.now(), sleep.woken) {
            return self.refuse(outcome);
        }
        self.waits_for_expiry = sleep.event != Some(CallEvent::WokenByMessage);
        if let Some(event) = sleep.event {
            self.count(event);
        }
        self.look();
    }

    fn deadline(&self) -> Option<Time> {
        match self.patience {
            Patience::Until(deadline) => Some(deadline),
            Patience::Once | Patience::Forever => None,
        }
    }

    fn at_most(&self, until: Time) -> Time {
        self.deadline().map_or(until, |deadline| until.min(deadline))
    }
}

#[cfg(test)]
#[path = "tests/machine.rs"]
mod tests;
#[cfg(test)]
#[path = "tests/waiting.rs"]
mod waiting_tests;
