//! Carries one call that wants a lock: it does on the caller's thread what [`Acquire`] decides.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, never};

use crate::clock;
use crate::core::acquire::{
    Acquire, Action, Failed, Outcome, Patience, Policy, Priority, SharedAttempt, Stop,
    Surroundings, WaitsFor,
};
use crate::core::admission::worth_waiting;
use crate::core::base::{Basis, Time};
use crate::core::link::Release;
use crate::core::queue::Turn;
use crate::core::vote::{Attempt, QuorumHealth, Shared, asking_order};
use crate::core::wake::ReleaseTracker;
use crate::error::refusal::{Known, Ready};
use crate::error::{Error, NodeFault};
use crate::ident;
use crate::kinds::contract::reservations::withdraw_request;
use crate::node::{Driven, Request};
use crate::observe;
use crate::random::random;
use crate::runtime::claim::{Asked, Claim, Wanted};
use crate::runtime::coordinator::Coordinator;
use crate::runtime::fan_out::{FanOut, Interrupts, Woken};
use crate::runtime::hold::Hold;
use crate::runtime::queue::QueuedCaller;
use crate::runtime::subscriptions::Subscription;
use crate::spans;
use crate::stats::LocalGrant;

/// The state of one call.
struct Call<'a> {
    coordinator: &'a Arc<Coordinator>,
    wanted: &'a Wanted,
    /// The caller's subscription to releases.
    waiter: Option<Subscription>,
    /// The lock that was handed over, or that the caller has joined.
    handed_over: Option<Hold>,
    /// The way in which it was got.
    local_grant: Option<LocalGrant>,
    /// The requests of the attempt that was given back last.
    last: Option<Asked>,
    /// The caller, while it may be in the queue that the nodes keep for a fair lock.
    in_queue: Option<u64>,
    /// The caller's priority, while nodes may have reservations of it.
    reserves: Option<Priority>,
    /// The nodes' connections, while the caller drives them itself.
    driven: Option<Driven<'a>>,
    /// Dropped after the rest of the call has been given back.
    queued: QueuedCaller<'a>,
}

/// Takes the `wanted` lock, if it becomes free before the caller's `patience` is over.
pub(crate) fn acquire(
    coordinator: &Arc<Coordinator>,
    wanted: &Wanted,
    patience: Patience,
    cancel: Option<&Receiver<()>>,
) -> Result<Hold, Error> {
    coordinator.process.check()?;
    let record = coordinator.recorder().call_begins(wanted.kind.label, wanted.figures.as_deref());
    let span = spans::of_call(wanted.kind.label, &wanted.names);
    // Not `in_scope`: what that returns may be leaked if a subscriber of spans panics at its end.
    let entered = span.enter();
    let result = carry(coordinator, wanted, patience, cancel);
    drop(entered);
    let error = result.as_ref().err().map(Error::kind);
    let (outcome, waited) = record.so_far(error);
    spans::call_ends(&span, outcome, waited);
    drop(span);
    // Only now: a call counts as an error if a subscriber panics.
    record.ends(error, waited);
    result.map(|hold| hold.begins(wanted.figures.clone()))
}

/// Does what the machine of the call says, until the call ends.
fn carry(
    coordinator: &Arc<Coordinator>,
    wanted: &Wanted,
    patience: Patience,
    cancel: Option<&Receiver<()>>,
) -> Result<Hold, Error> {
    let (never, settings) = (never(), coordinator.settings());
    let closed = coordinator.closed();
    let interrupts = Interrupts { cancel: cancel.unwrap_or(&never), closed };
    let mut call = Call {
        coordinator,
        wanted,
        waiter: None,
        handed_over: None,
        local_grant: None,
        last: None,
        in_queue: None,
        reserves: None,
        driven: None,
        queued: coordinator.queues().enter(wanted, patience),
    };
    // Only now: the entry that has to be forgotten some day must already be in its collection.
    coordinator.timetable().name_used();
    let policy = Policy {
        patience,
        backoff: settings.backoff,
        no_quorum_timeout: settings.no_quorum_timeout,
        // A client that may fall back waits for the first configured node in any case.
        ordered: settings.fall_back_after().is_none(),
        waiting: wanted.waiting(),
    };
    // Dropped before the call, whatever happens: its keys on the nodes are then given back.
    let mut machine: Acquire<Claim> = Acquire::new(policy, settings.attempt_timeout());
    machine.start(&call);
    if let Some(stop) = stop(interrupts.poll()) {
        machine.handle_stop(stop);
    }
    loop {
        while let Some(action) = machine.poll_action() {
            if let Some(events) = machine.take_events() {
                coordinator.recorder().count(&events);
            }
            match action {
                Action::Granted(claim, grant) => {
                    call.driven = None;
                    let faults = || claim.asked().faults(coordinator.nodes());
                    coordinator.note(grant.quorum, grant.started, faults);
                    if grant.basis == Basis::FirstNode {
                        let node = &coordinator.names()[0];
                        observe::fell_back(&wanted.names, claim.owner(), node);
                    }
                    return Ok(call.queued.won(claim, grant, coordinator.timetable()));
                }
                Action::HandedOver => {
                    if let Some(grant) = call.local_grant {
                        coordinator.recorder().granted_locally(grant);
                    }
                    let handed_over = call.handed_over.take();
                    return handed_over.ok_or_else(|| call.refusal(Outcome::HELD));
                }
                Action::Refuse(outcome) => {
                    call.driven = None;
                    return Err(call.refusal(outcome));
                }
                action => call.execute(action, &mut machine),
            }
        }
        call.wait(&mut machine, interrupts);
    }
}

impl Call<'_> {
    fn execute(&mut self, action: Action<Claim>, machine: &mut Acquire<Claim>) {
        let Self { coordinator, wanted, .. } = *self;
        if !matches!(action, Action::SawNumber(_)) {
            self.hand_over();
        }
        match action {
            Action::Look => {
                let (place, hold) = self.queued.look();
                self.handed_over = hold;
                self.local_grant = local_grant(place.turn);
                machine.handle_turn(place, self);
            }
            Action::Subscribe(caller) => {
                let others = self.queued.others();
                let channels = wanted.kind.channels(&wanted.names);
                let called = caller.map(|caller| self.queued_text(caller).into_bytes());
                let subscriptions = coordinator.subscriptions();
                self.waiter = Some(subscriptions.wait(channels, called, coordinator.nodes()));
                machine.handle_subscribed(others, self);
            }
            Action::IgnoreOwnRelease => {
                if let Some(waiter) = &self.waiter {
                    waiter.gives_way(self.queued.last_owner());
                }
            }
            Action::GivingWayIsOver { heard } => self.queued.giving_way_is_over(heard),
            Action::Begin(begin) => {
                self.in_queue = begin.waits.ticket.map(|_| upper_half(begin.owner));
                if let Some(reservation) = begin.waits.reservation.filter(|it| !it.lasts.is_zero())
                {
                    self.reserves = Some(reservation.priority);
                }
                let claim = Claim::new(coordinator.state(), wanted, begin);
                machine.handle_begun(claim, self);
            }
            Action::Ask(whom) => {
                if let Some(claim) = machine.claim() {
                    self.driven = claim.ask(whom, coordinator.nodes());
                }
            }
            Action::SawNumber(number) => coordinator.numbers().saw(&wanted.names, number),
            Action::WriteBack(number) => {
                if let Some(claim) = machine.claim() {
                    claim.write_back(number);
                }
            }
            Action::TellObstacle(obstacle) => {
                let Wanted { names, permits, .. } = wanted;
                coordinator.obstacles().tell(names, *permits, &obstacle, coordinator.names());
            }
            Action::GiveBack(claim) => {
                self.last = Some(claim.asked());
                // Its drop sends the releases.
                drop(claim);
            }
            Action::LeaveQueue(caller, within) => {
                self.in_queue = None;
                self.leave_queue(caller, within);
            }
            Action::Withdraw { priority, granted_by, within } => {
                self.reserves = None;
                self.withdraw(priority, &granted_by, within);
            }
            Action::Failed(Failed { conclusion, quorum, started }) => {
                if let Some(conclusion) = conclusion {
                    self.queued.concluded(conclusion);
                }
                coordinator.note(quorum, started, || self.faults());
            }
            Action::TellNotAdmitted(ready_in) => {
                let ready = self.ready_within(ready_in);
                let why = coordinator.refusals().not_admitted(ready);
                observe::waits_for_nodes(&wanted.names, &why, &self.faults());
            }
            // These actions end the call.
            Action::Granted(..) | Action::HandedOver | Action::Refuse(_) => {}
        }
    }

    /// Returns the nodes' connections to the workers.
    fn hand_over(&mut self) {
        if let Some(mut driven) = self.driven.take() {
            driven.hand_over();
        }
    }

    /// Returns that caller's entry in the queue of a fair lock.
    fn queued_text(&self, caller: u64) -> String {
        let label = self.coordinator.state().owner_label();
        self.wanted.kind.queued_text(label, u128::from(caller) << 64)
    }

    /// Takes that caller out of the nodes' queues.
    fn leave_queue(&self, caller: u64, within: Duration) {
        let Wanted { kind, names, .. } = self.wanted;
        if let Some(request) = kind.leave_queue(names, &self.queued_text(caller)) {
            self.tell_nodes(request, &[], within);
        }
    }

    /// Withdraws the reservations of that priority on all nodes except `but`.
    fn withdraw(&self, priority: Priority, but: &[usize], within: Duration) {
        self.tell_nodes(withdraw_request(&self.wanted.names, priority), but, within);
    }

    /// Sends the request to all nodes except `but`, behind their earlier requests. It is kept for nodes that are down, for
    /// at most `within`.
    fn tell_nodes(&self, request: Request, but: &[usize], within: Duration) {
        let (request, until) = (Arc::new(request), clock::now().after(within));
        for (i, node) in self.coordinator.nodes().iter().enumerate() {
            if !but.contains(&i) {
                node.release(&request, None, Release::without_key(until));
            }
        }
    }

    /// Waits for the next event, and hands it to the machine.
    fn wait(&mut self, machine: &mut Acquire<Claim>, interrupts: Interrupts<'_>) {
        let Some(until) = machine.poll_timeout() else { return };
        let waits_for = machine.waits_for();
        if !matches!(waits_for, WaitsFor::Verdict | WaitsFor::Answers) {
            self.hand_over();
        }
        let woken = match (waits_for, machine.claim()) {
            (WaitsFor::Verdict, Some(claim)) => {
                claim.round().wait_driving(&mut self.driven, until, interrupts)
            }
            (WaitsFor::Confirmation, Some(claim)) => claim.wait_for_confirmation(until, interrupts),
            (WaitsFor::Queue, _) => self.queued.wait(until, interrupts),
            (WaitsFor::Releases, _) => match &self.waiter {
                Some(waiter) => waiter.wait(until, interrupts),
                None => interrupts.wait(&never(), until),
            },
            (WaitsFor::Answers, Some(claim)) => {
                claim.round().wait_for_answer(&mut self.driven, until, interrupts)
            }
            (WaitsFor::Clocks, _) => {
                let (mutex, changed) = self.coordinator.set().first_heard();
                let ready = |_: &mut ()| !self.waits_for_clocks();
                interrupts.wait_until(changed, &mut mutex.lock(), until, ready)
            }
            _ => interrupts.wait(&never(), until),
        };
        if let Some(stop) = stop(woken) {
            return machine.handle_stop(stop);
        }
        let confirmed = machine.claim().is_some_and(|claim| claim.is_confirmed());
        match waits_for {
            WaitsFor::Confirmation => machine.handle_confirmation(confirmed, self),
            _ if woken == Woken::TimeUp => machine.handle_timeout(self),
            WaitsFor::Queue => machine.handle_queue_changed(),
            WaitsFor::Clocks => machine.handle_clocks(self),
            WaitsFor::Verdict => machine.handle_verdict(self),
            WaitsFor::Answers => machine.handle_answers(self),
            WaitsFor::Releases => machine.handle_releases(self),
            WaitsFor::Time => machine.handle_timeout(self),
        }
    }

    /// Returns the error of a call that ended with that outcome.
    fn refusal(&self, outcome: Outcome) -> Error {
        let Wanted { names, terms, .. } = self.wanted;
        self.coordinator.refusals().error(outcome, names, terms.ttl, self)
    }

    fn ready_within(&self, within: Duration) -> Ready {
        Ready { within, in_quarantine: !self.coordinator.set().quarantined().is_empty() }
    }
}

impl Known for Call<'_> {
    fn left_until(&self, time: Time) -> Duration {
        time.since(clock::now())
    }

    fn ready(&self) -> Ready {
        let ready_in = self.coordinator.set().ready_in(clock::now());
        self.ready_within(ready_in.unwrap_or(self.coordinator.settings().max_ttl))
    }

    fn faults(&self) -> Vec<NodeFault> {
        self.last.as_ref().map(|asked| asked.faults(self.coordinator.nodes())).unwrap_or_default()
    }

    fn conflict(&self) -> Vec<NodeFault> {
        self.coordinator.set().conflict().unwrap_or_default()
    }
}

impl Drop for Call<'_> {
    /// Does what the machine did not get to, since something has panicked.
    fn drop(&mut self) {
        if let Some(caller) = self.in_queue.take() {
            self.leave_queue(caller, self.coordinator.settings().ttl);
        }
        if let Some(priority) = self.reserves.take() {
            self.withdraw(priority, &[], self.coordinator.settings().ttl);
        }
    }
}

/// The way in which a caller with that turn gets the lock without asking the nodes; `None`: it does not.
const fn local_grant(turn: Turn) -> Option<LocalGrant> {
    match turn {
        Turn::HandedOver => Some(LocalGrant::HandedOver),
        Turn::Joined => Some(LocalGrant::Joined),
        Turn::Reentered => Some(LocalGrant::Reentered),
        Turn::Lost(_)
        | Turn::WaitsForItself
        | Turn::Ask
        | Turn::Wait(_)
        | Turn::GiveWay(_)
        | Turn::Held => None,
    }
}

/// The caller's part of that owner id.
fn upper_half(owner: u128) -> u64 {
    u64::try_from(owner >> 64).unwrap_or(u64::MAX)
}

fn stop(woken: Woken) -> Option<Stop> {
    match woken {
        Woken::Decided | Woken::TimeUp => None,
        Woken::Cancelled => Some(Stop::Cancelled),
        Woken::Closed => Some(Stop::Closed),
    }
}

impl Shared<Attempt> for Claim {
    fn with<R>(&self, f: impl FnOnce(&mut Attempt) -> R) -> R {
        self.round().with(f)
    }
}

impl SharedAttempt for Claim {
    fn reopen(&self, f: impl FnOnce(&mut Attempt) -> bool) -> bool {
        FanOut::reopen(self.round(), f)
    }
}

impl Surroundings for Call<'_> {
    fn now(&self) -> Time {
        clock::now()
    }

    fn suspensions(&mut self) -> u64 {
        self.coordinator.set().suspensions()
    }

    fn random(&mut self) -> f64 {
        random()
    }

    fn random_owner(&mut self) -> u128 {
        ident::random_owner()
    }

    fn nodes_disagree(&self) -> bool {
        self.coordinator.set().conflict().is_some()
    }

    fn waits_for_clocks(&self) -> bool {
        let nodes = self.coordinator.nodes();
        let known = nodes.iter().filter(|node| node.clock().is_some()).count();
        let coming = nodes.iter().filter(|node| node.clock().is_none() && node.fault().is_none());
        worth_waiting(known, coming.count(), nodes.len())
    }

    fn is_down(&self, node: usize) -> bool {
        self.coordinator.nodes()[node].fault().is_some()
    }

    fn voted(&self, node: usize) -> bool {
        self.last.as_ref().is_some_and(|asked| asked.has_vote_of(node))
    }

    fn asking_order(&self) -> Vec<usize> {
        let keys: Vec<_> = self.wanted.names.keys().collect();
        asking_order(&keys, self.coordinator.names())
    }

    fn others_subscribed(&self) -> bool {
        let Wanted { kind, names, .. } = self.wanted;
        self.coordinator.subscriptions().knows(|| kind.channels(names))
    }

    fn set_time_ms(&self) -> Option<u64> {
        let (set_time_us, _) = self.coordinator.set().times_us(clock::now());
        set_time_us.and_then(|time_us| u64::try_from(time_us / 1_000).ok())
    }

    fn quorum_health(&self) -> QuorumHealth {
        self.coordinator.quorum_health()
    }

    fn first_says_no(&self) -> bool {
        self.coordinator.nodes()[0].says_no()
    }

    fn ready_in(&self, now: Time) -> Option<Duration> {
        self.coordinator.set().ready_in(now)
    }

    fn releases<R>(&mut self, f: impl FnOnce(&mut ReleaseTracker) -> R) -> Option<R> {
        self.waiter.as_ref()?.with(f)
    }
}
