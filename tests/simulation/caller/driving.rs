//! Drives one call that wants a lock, as `src/runtime/call.rs` does on a thread: carries out the actions of
//! `core::Acquire`, and reports events to it.

use std::rc::Rc;
use std::time::Duration;

use super::call::Call;
use super::{Caller, Doing};
use crate::core::acquire::{
    Acquire, Action, Failed, Outcome, SharedAttempt, Stop, Surroundings, WaitsFor,
};
use crate::core::base::{Basis, Time};
use crate::core::vote::{
    Attempt, Ballot, Conclusion, Grant, Quorum, QuorumHealth, Shared, asking_order,
};
use crate::core::wake::{ReleaseTracker, WakeReason};
use crate::simulation::claim::Claim;
use crate::simulation::client::{Client, Cx};
use crate::simulation::fan_out::FanOut;
use crate::simulation::held::{Held, Hold};
use crate::simulation::lock_id::LockId;
use crate::simulation::subscriptions::Waiter;

/// Interval at which a caller checks if the nodes' clocks are known. In the simulator no event reports that.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A call's surroundings among the threads of its client.
pub(super) struct Around<'a, 'b> {
    client: &'a Client,
    cx: &'a mut Cx<'b>,
    lock: LockId,
    waiting: &'a Option<Waiter>,
    last: &'a Option<Rc<FanOut<Attempt>>>,
}

impl<'a, 'b> Around<'a, 'b> {
    /// The surroundings of a call that has not asked any node.
    pub(super) fn new(client: &'a Client, cx: &'a mut Cx<'b>, lock: LockId) -> Self {
        Self { client, cx, lock, waiting: &None, last: &None }
    }
}

impl Shared<Attempt> for Claim {
    fn with<R>(&self, f: impl FnOnce(&mut Attempt) -> R) -> R {
        self.attempt.with(f)
    }
}

impl SharedAttempt for Claim {
    fn reopen(&self, f: impl FnOnce(&mut Attempt) -> bool) -> bool {
        self.attempt.reopen(f)
    }
}

impl Surroundings for Around<'_, '_> {
    fn now(&self) -> Time {
        self.cx.now()
    }

    fn suspensions(&mut self) -> u64 {
        self.cx.shared.suspensions.get()
    }

    fn random(&mut self) -> f64 {
        self.cx.net.chance.share()
    }

    fn random_owner(&mut self) -> u128 {
        self.cx.net.chance.owner()
    }

    fn nodes_disagree(&self) -> bool {
        Caller::disagrees(self.cx)
    }

    fn waits_for_clocks(&self) -> bool {
        self.client.waits_for_clocks(self.cx)
    }

    fn is_down(&self, node: usize) -> bool {
        self.client.workers[node].is_down()
    }

    fn voted(&self, node: usize) -> bool {
        self.last.as_ref().is_some_and(|last| last.with(|last| last.has_vote_of(node)))
    }

    fn asking_order(&self) -> Vec<usize> {
        let names: Vec<_> =
            (0..self.cx.settings.nodes).map(|node| format!("node-{node}")).collect();
        let lock = self.lock.names();
        asking_order(&lock.keys().collect::<Vec<_>>(), &names)
    }

    fn others_subscribed(&self) -> bool {
        let channels = self.cx.shared.channels.borrow();
        self.lock.channels().iter().any(|channel| channels.knows(channel))
    }

    fn set_time_ms(&self) -> Option<u64> {
        let (set_time_us, _) = self.cx.shared.times_us(self.cx.now());
        set_time_us.and_then(|time_us| u64::try_from(time_us / 1_000).ok())
    }

    fn quorum_health(&self) -> QuorumHealth {
        self.cx.shared.quorum_health()
    }

    fn first_says_no(&self) -> bool {
        self.client.workers[0].says_no()
    }

    fn ready_in(&self, now: Time) -> Option<Duration> {
        let set_time = self.cx.shared.set_time(now);
        self.cx.shared.admission.borrow().ready_in(now, set_time)
    }

    fn releases<R>(&mut self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R> {
        self.waiting.as_ref()?.with(self.cx, f)
    }
}

impl Call {
    /// Tells the machine of an event.
    fn tell<R>(
        &mut self,
        client: &Client,
        cx: &mut Cx<'_>,
        event: impl FnOnce(&mut Acquire<Claim>, &mut Around<'_, '_>) -> R,
    ) -> R {
        let Self { acquire, waiting, last, lock, .. } = self;
        event(acquire, &mut Around { client, cx, lock: *lock, waiting, last })
    }

    /// Returns true if news of releases ends its wait.
    pub(super) fn heeds_releases(&self) -> bool {
        self.acquire.waits_for() == WaitsFor::Releases
    }

    /// Returns true if it waits in the local queue behind others of its client.
    pub(super) fn waits_in_queue(&self) -> bool {
        self.acquire.waits_for() == WaitsFor::Queue
    }

    /// Ends the call with its client, and gives back what it has on the nodes.
    pub(in super::super) fn close(mut self, client: &mut Client, cx: &mut Cx<'_>) {
        self.acquire.handle_stop(Stop::Closed);
        while let Some(action) = self.acquire.poll_action() {
            match action {
                Action::GiveBack(claim) => client.release(cx, &claim),
                Action::LeaveQueue(caller, within) => {
                    self.leave_queue(client, cx, caller, within);
                }
                Action::Withdraw { priority, granted_by, within } => {
                    self.withdraw(client, cx, priority, &granted_by, within);
                }
                _ => {}
            }
        }
        self.leave(client, cx);
    }
}

impl Caller {
    /// Begins the call.
    pub(super) fn start_call(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        call.tell(client, cx, |acquire, around| acquire.start(around));
        Self::carry(client, index, cx, call);
    }

    /// Continues the call: its time has come, or the event that it waits for.
    pub(super) fn happened(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        let now = cx.now();
        let waits_for = call.acquire.waits_for();
        // Cancelled at its time, or at the very instant at which something wakes it in the queue.
        let in_queue = waits_for == WaitsFor::Queue;
        if let Some(at) = call.cancelled_at
            && (at <= now || in_queue && cx.net.chance.one_in(8))
        {
            call.acquire.handle_stop(Stop::Cancelled);
            return Self::carry(client, index, cx, call);
        }
        let is_due = call.acquire.poll_timeout().is_some_and(|due| due <= now);
        let is_told = match waits_for {
            WaitsFor::Verdict => {
                let decided = |claim: &mut Claim| claim.attempt.with(|attempt| attempt.decided());
                let is_decided = call.acquire.claim().is_some_and(decided);
                if is_decided {
                    call.tell(client, cx, |acquire, around| acquire.handle_verdict(around));
                }
                is_decided
            }
            WaitsFor::Confirmation => {
                let round = call.confirmation.take();
                let verdict = round.as_ref().map(|round| {
                    round.with(|round| (round.decided() || is_due, round.confirmed()))
                });
                if let Some((true, confirmed)) = verdict {
                    call.tell(client, cx, |acquire, around| {
                        acquire.handle_confirmation(confirmed, around);
                    });
                    true
                } else {
                    call.confirmation = round;
                    false
                }
            }
            _ if is_due => false,
            WaitsFor::Queue => {
                call.acquire.handle_queue_changed();
                true
            }
            WaitsFor::Clocks => {
                call.tell(client, cx, |acquire, around| acquire.handle_clocks(around));
                true
            }
            WaitsFor::Answers => {
                call.tell(client, cx, |acquire, around| acquire.handle_answers(around));
                true
            }
            WaitsFor::Releases => {
                Self::releases_told(client, cx, &mut call);
                true
            }
            WaitsFor::Time => false,
        };
        if !is_told {
            call.tell(client, cx, |acquire, around| acquire.handle_timeout(around));
        }
        Self::carry(client, index, cx, call);
    }

    fn releases_told(client: &Client, cx: &mut Cx<'_>, call: &mut Call) {
        let waiter = call.waiting.as_ref();
        let reason = waiter.and_then(|waiter| waiter.with(cx, |heard| heard.wake_reason())?);
        // A caller that one node alone has refused relies on that node's message.
        let by_one = |last: &Rc<FanOut<Attempt>>| last.with(|last| last.preferred().is_some());
        if reason == Some(WakeReason::Released) && !call.last.as_ref().is_some_and(by_one) {
            cx.net.woken(cx.client, call.lock);
        }
        call.pauses &= reason.is_none();
        call.tell(client, cx, |acquire, around| acquire.handle_releases(around));
    }

    /// Carries out the machine's actions until it waits for something.
    fn carry(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        while let Some(action) = call.acquire.poll_action() {
            match action {
                Action::Look => {
                    let (place, hold) = client.look(cx, call.queue, call.ticket);
                    call.handed_over = hold;
                    call.tell(client, cx, |acquire, around| acquire.handle_turn(place, around));
                }
                Action::Subscribe(caller) => {
                    let others = call.wait(client, index, cx, caller);
                    call.tell(client, cx, |acquire, around| {
                        acquire.handle_subscribed(others, around);
                    });
                }
                Action::IgnoreOwnRelease => {
                    let last_owner = client.last_owner(cx, call.queue);
                    call.waiting
                        .iter()
                        .for_each(|waiter| waiter.gives_way(cx, last_owner.as_deref()));
                    let who = cx.client;
                    cx.net.tell(|| format!("client {who}, caller {index}: gives way"));
                }
                Action::GivingWayIsOver { heard } => {
                    client.giving_way_is_over(cx, call.queue, heard)
                }
                Action::Begin(begin) => {
                    call.asked += 1;
                    call.attempts += u32::from(std::mem::take(&mut call.pauses));
                    if std::mem::take(&mut call.waited) {
                        (call.reached, call.refused) = (cx.net.now, cx.net.now);
                        call.is_unreached = false;
                    }
                    let note = client.callers[index].next_note(cx);
                    let claim = Claim::new(client, cx, call.queue, call.terms, begin, note);
                    call.tell(client, cx, |acquire, around| acquire.handle_begun(claim, around));
                }
                Action::Ask(whom) => {
                    if let Some(claim) = call.acquire.claim() {
                        claim.ask(client, cx, |node| whom.includes(node));
                    }
                }
                Action::SawNumber(number) => {
                    let now = cx.now();
                    call.lock.keys().for_each(|key| client.numbers.saw(&key, number, now));
                }
                Action::WriteBack(number) => {
                    let note = client.callers[index].note();
                    if let Some(claim) = call.acquire.claim() {
                        call.confirmation = Some(claim.write_back(client, cx, number, note));
                    }
                }
                Action::TellObstacle(_) | Action::TellNotAdmitted(_) => {}
                Action::GiveBack(claim) => {
                    if !cx.net.switches.keeps_lost_attempts {
                        client.release(cx, &claim);
                    }
                    call.last = Some(claim.attempt);
                }
                Action::LeaveQueue(caller, within) => {
                    call.leave_queue(client, cx, caller, within);
                }
                Action::Withdraw { priority, granted_by, within } => {
                    call.withdraw(client, cx, priority, &granted_by, within);
                }
                Action::Failed(failed) => {
                    let ticket =
                        |last: &Rc<FanOut<Attempt>>| last.with(|last| last.largest_ticket());
                    if call.asked == 1 && call.last.as_ref().and_then(ticket).is_none() {
                        cx.net.checks.has_no_place((cx.client, index));
                    }
                    call.failed(client, cx, failed);
                }
                Action::Granted(claim, grant) => {
                    return Self::granted(client, index, cx, call, claim, grant);
                }
                Action::HandedOver => {
                    if let Some(hold) = call.handed_over.take() {
                        return Self::handed_over(client, index, cx, call, hold);
                    }
                }
                Action::Refuse(Outcome::NodesDisagree) => {
                    if let Some(hold) = call.handed_over.take() {
                        hold.drop_guard(client, cx);
                    }
                    call.leave(client, cx);
                    return Self::refused(client, index, cx);
                }
                Action::Refuse(outcome) => {
                    let what = format!("{outcome:?}");
                    return Self::finish(client, index, cx, call, what, Some(outcome), None);
                }
            }
        }
        Self::await_event(client, index, cx, call);
    }

    /// Waits until the machine must be told of something.
    fn await_event(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        let now = cx.now();
        let mut at = call.acquire.poll_timeout().expect("the machine waits for something");
        let waits_for = call.acquire.waits_for();
        match waits_for {
            WaitsFor::Clocks => at = at.min(now.after(LOOK_AGAIN)),
            WaitsFor::Answers => {
                if let Some(claim) = call.acquire.claim() {
                    claim.attempt.hear_out();
                }
            }
            WaitsFor::Queue => call.waited = true,
            WaitsFor::Time | WaitsFor::Releases => {
                // A few tries are quick, after split votes.
                if let Some(reached) = call.failed.take() {
                    call.pauses = at.since(now) >= cx.settings.backoff.min;
                    if !reached {
                        let timeout = cx.settings.no_quorum_timeout;
                        let (who, now) = (cx.client, cx.net.now);
                        cx.net.checks.unreached(who, call.refused, timeout, false, now);
                    }
                }
            }
            WaitsFor::Verdict | WaitsFor::Confirmation => {}
        }
        call.check_wait(cx, index);
        let at = call.cancelled_at.map_or(at, |cancelled| at.min(cancelled));
        let caller = &mut client.callers[index];
        caller.doing = Doing::Calling(Box::new(call));
        match waits_for {
            // Answers wake the caller under the epoch in which the requests were sent.
            WaitsFor::Clocks | WaitsFor::Verdict | WaitsFor::Confirmation | WaitsFor::Answers => {
                let note = caller.note();
                caller.due = at;
                cx.remind(at, note);
            }
            _ => caller.remind(cx, at),
        }
    }

    fn granted(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        call: Call,
        mut claim: Claim,
        grant: Grant,
    ) {
        let now = cx.now();
        claim.number = grant.number;
        claim.granted_at = cx.net.now;
        // True if the first node's time for an answer is over, or if the way to it has failed since it was asked.
        let answer_by = claim.attempt.with(|attempt| attempt.answer_by());
        let tried = now >= answer_by || cx.net.link(cx.client, 0).failed_at >= claim.began;
        let has_word = claim.attempt.reached_first.get() || client.workers[0].says_no();
        claim.without_first = tried && !has_word;
        cx.shared.note_quorum(grant.quorum, grant.started, now);
        if grant.basis == Basis::FirstNode {
            let (who, short) = (cx.client, claim.short());
            cx.net.tell(|| format!("client {who}, caller {index}: {short} falls back"));
        }
        let hold = Held::begin(client, cx, claim, grant, call.ticket);
        let class = cx.settings.class_of(hold.held.claim.lock);
        client.counted(cx, index, class, &hold);
        let until = cx.clock.when(grant.valid_until);
        let now = cx.net.now;
        cx.net.checks.granted(&hold.held.claim, hold.sequence, until, now);
        let what = format!("granted to {}", hold.held.claim.short());
        Self::finish(client, index, cx, call, what, None, Some(hold));
    }

    fn handed_over(client: &mut Client, index: usize, cx: &mut Cx<'_>, call: Call, hold: Hold) {
        let held = &hold.held;
        let until = cx.clock.when(held.lock().valid_until());
        let now = cx.net.now;
        cx.net.checks.granted(&held.claim, hold.sequence, until, now);
        let what = format!("granted to {}", held.claim.short());
        Self::finish(client, index, cx, call, what, None, Some(hold));
    }

    /// Wakes that caller, if it waits for news of releases.
    pub(in super::super) fn wake_listening(client: &Client, cx: &mut Cx<'_>, caller: usize) {
        if let Some(caller) = client.callers.get(caller)
            && let Doing::Calling(call) = &caller.doing
            && call.heeds_releases()
        {
            cx.wake(caller.note());
        }
    }
}

impl Call {
    /// Handles a failed attempt.
    fn failed(&mut self, client: &mut Client, cx: &mut Cx<'_>, failed: Failed) {
        let Failed { conclusion, quorum, started } = failed;
        let now = cx.now();
        if let Some(conclusion) = conclusion {
            client.concluded(cx, self.queue, conclusion);
        }
        cx.shared.note_quorum(quorum, started, now);
        let set_time = cx.shared.set_time(now);
        let reached = match conclusion {
            Some(Conclusion::NotAdmitted) => {
                cx.shared.admission.borrow().ready_in(now, set_time).is_some()
            }
            // A refusal by one node that was asked alone says nothing about the others.
            Some(Conclusion::Held { .. }) => quorum != Quorum::Untold,
            _ => quorum == Quorum::Reached,
        };
        if reached {
            self.reached = cx.net.now;
            let (client, now) = (cx.client, cx.net.now);
            cx.net.checks.reached(client, now);
        }
        let says_nothing = conclusion.is_some() && quorum == Quorum::Untold;
        if reached || says_nothing && !self.is_unreached {
            self.refused = cx.net.now;
        }
        self.is_unreached = !(reached || says_nothing && !self.is_unreached);
        self.failed = Some(reached || says_nothing);
    }
}
