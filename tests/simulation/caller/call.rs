//! A call that wants a lock: its beginning and its end.

use std::rc::Rc;
use std::time::Duration;

use super::{Caller, Doing};
use crate::core::acquire::{Acquire, Outcome, Patience, Policy, Priority};
use crate::core::base::{Allowance, HoldClass, Time};
use crate::core::hold::Terms;
use crate::core::link::Release;
use crate::core::queue::{QueueKey, QueueTicket};
use crate::core::vote::{Attempt, Confirmation, PermitsWanted};
use crate::kinds::contract::kind::Kind;
use crate::kinds::contract::reservations::withdraw_request;
use crate::node::Request;
use crate::simulation::claim::{Claim, label};
use crate::simulation::client::{Client, Cx, Phase};
use crate::simulation::fan_out::FanOut;
use crate::simulation::held::Hold;
use crate::simulation::lock_id::LockId;
use crate::simulation::network::Part;
use crate::simulation::queue::QueueId;
use crate::simulation::setup::{Habit, LONGEST_KEPT};
use crate::simulation::subscriptions::Waiter;
use crate::simulation::worker::Outgoing;

/// A call that wants a lock, with the state of its driver.
pub(in super::super) struct Call {
    pub(super) acquire: Acquire<Claim>,
    pub(super) patience: Patience,
    pub(super) lock: LockId,
    pub(super) queue: QueueId,
    pub(super) terms: Terms,
    /// Its place in the local queue.
    pub(super) ticket: QueueTicket,
    /// Time at which it gives up, whatever it is waiting for.
    pub(super) cancelled_at: Option<Time>,
    /// Its subscription to releases, once it waits for them.
    pub(super) waiting: Option<Waiter>,
    /// The lock that was handed over, or that the caller has joined.
    pub(super) handed_over: Option<Hold>,
    /// The last attempt.
    pub(super) last: Option<Rc<FanOut<Attempt>>>,
    pub(super) confirmation: Option<Rc<FanOut<Confirmation>>>,
    pub(super) began: Duration,
    /// Numbers of all attempts, and of those after a full pause.
    pub(super) asked: u32,
    pub(super) attempts: u32,
    /// True if the pause before the next attempt is a full one.
    pub(super) pauses: bool,
    /// Set if an attempt has just failed: true if it has reached the nodes.
    pub(super) failed: Option<bool>,
    /// True if it has waited in the local queue since its last attempt.
    pub(super) waited: bool,
    pub(super) waits_since: Duration,
    /// Last time at which the nodes settled an attempt.
    pub(super) reached: Duration,
    /// As `reached`, but a refusal by one node that was asked alone counts, too. An outage is measured from this
    /// time: several such attempts may follow each other, each with a pause behind it. Once an attempt has not
    /// reached the nodes, all of them are asked.
    pub(super) refused: Duration,
    /// True if an attempt has not reached the nodes, and none has since.
    pub(super) is_unreached: bool,
}

impl Call {
    /// Subscribes it to releases from now on. Returns the number of others that wait in other processes.
    pub(super) fn wait(
        &mut self,
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        caller: Option<u64>,
    ) -> u32 {
        let called = caller.map(|caller| self.queued_text(cx, caller));
        self.waiting = Some(client.wait(cx, index, self.lock, called));
        self.waits_since = cx.net.now;
        client.others(cx, self.queue)
    }

    /// The text under which that caller stands in the queue of a fair lock.
    fn queued_text(&self, cx: &Cx<'_>, caller: u64) -> String {
        self.lock.kind().queued_text(label(cx.client), u128::from(caller) << 64)
    }

    /// Makes the nodes take that caller out of their queues.
    pub(super) fn leave_queue(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        caller: u64,
        within: Duration,
    ) {
        let queued = self.queued_text(cx, caller);
        if let Some(leave) = self.lock.kind().leave_queue(&self.lock.names(), &queued) {
            self.tell_nodes(client, cx, (leave, queued, "leave"), &[], within);
        }
    }

    /// Makes nodes take back the reservations of that priority. Nodes that have granted the lock are left out.
    pub(super) fn withdraw(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        priority: Priority,
        granted_by: &[usize],
        within: Duration,
    ) {
        let withdraw = withdraw_request(&self.lock.names(), priority);
        let of = format!("{priority:?}");
        self.tell_nodes(client, cx, (withdraw, of, "withdraw"), granted_by, within);
    }

    fn tell_nodes(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        (request, of, what): (Request, String, &'static str),
        but: &[usize],
        within: Duration,
    ) {
        let owner = Rc::new(of.into_bytes());
        let part = Part { keys: self.lock.keys().collect(), owner, what };
        let (outgoing, until) =
            (Outgoing { request: Rc::new(request), part }, cx.now().after(within));
        for (node, worker) in client.workers.iter_mut().enumerate() {
            if !but.contains(&node) {
                worker.release(cx, outgoing.clone(), None, Release::without_key(until));
            }
        }
    }

    /// Reports the length of its wait so far to the checkers.
    pub(super) fn check_wait(&self, cx: &mut Cx<'_>, index: usize) {
        let (now, caller) = (cx.net.now, (cx.client, index));
        cx.net.checks.waits(caller, self.lock, self.began, now);
    }

    /// Stops waiting for releases, and leaves the local queue.
    pub(in super::super) fn leave(&mut self, client: &mut Client, cx: &mut Cx<'_>) {
        if let Some(waiter) = self.waiting.take() {
            Client::stop_waiting(cx, &waiter);
        }
        client.leave(cx, self.queue, self.ticket);
    }
}

impl Caller {
    /// Begins a call, if there is one to make.
    pub(super) fn call(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now();
        let rolling = cx.settings.rolling;
        let first = cx.client == 0 && index == 0;
        let (lock, patience, renewed) = match cx.phase {
            Phase::Draining => return,
            Phase::Probing => {
                let to_probe = client.callers[index].to_probe;
                let Some(lock) = LockId::probe(to_probe, cx.settings.names) else { return };
                client.callers[index].to_probe += 1;
                (lock, Patience::Until(now.after(cx.settings.enough)), true)
            }
            Phase::Working if cx.settings.habit != Habit::Anything => {
                let calls = &mut client.callers[index].calls;
                *calls += 1;
                let Some(patience) = cx.settings.habit.next(*calls - 1, cx) else { return };
                let (habit, names) = (cx.settings.habit, cx.settings.names);
                (habit.lock_of(index, names, &mut cx.net.chance), patience, true)
            }
            Phase::Working if rolling && first => {
                let any = LockId::any(&mut cx.net.chance, |_| true, 0, 1);
                (any, Patience::Forever, true)
            }
            Phase::Working => {
                let chance = &mut cx.net.chance;
                let name = if rolling { 1 } else { chance.below(cx.settings.names) };
                let patience = match chance.below(4) {
                    0 => Patience::Once,
                    1 => Patience::Forever,
                    _ => Patience::Until(now.after(chance.ms(10..4_000))),
                };
                let renewed = !chance.one_in(3);
                let of = if rolling { 1 } else { cx.settings.names };
                // The checker for two clients knows of one holder at a time.
                let (pair, only) = (cx.net.pair, cx.settings.kind);
                let kinds = |kind: &Kind| {
                    let fits = !pair || kind.hold_class == HoldClass::Exclusive;
                    fits && only.is_none_or(|only| [kind.label, kind.group].contains(&only))
                };
                (LockId::any(&mut cx.net.chance, kinds, name, of), patience, renewed)
            }
        };
        let permits = Self::permits(cx, lock);
        let policy = Policy {
            patience,
            backoff: cx.settings.backoff,
            no_quorum_timeout: cx.settings.no_quorum_timeout,
            // A client that may fall back needs the first configured node's answer in any case, so it begins with no other node.
            ordered: cx.settings.fall_back_after.is_none(),
            waiting: lock.kind().waiting(&lock.names(), permits),
        };
        let limited = !rolling
            && cx.settings.habit == Habit::Anything
            && cx.phase == Phase::Working
            && cx.net.chance.one_in(5);
        let share = cx.net.chance.pick(&[0.5, 1.5, 3.0]);
        let max_hold = limited.then(|| cx.settings.ttl.mul_f64(share));
        let min_hold = Self::min_hold(cx, rolling);
        let clock_tolerance = cx.settings.clock_tolerance;
        let allowance = Allowance { clock_tolerance };
        let terms = Terms {
            ttl: cx.settings.ttl,
            renewed,
            max_hold,
            min_hold,
            allowance,
            risk_margin: None,
            one_holder: false,
        };
        let terms = terms.ending_with_the_hold();
        let began = cx.net.now;
        let may_cancel = cx.phase == Phase::Working && !rolling && cx.settings.habit.cancels();
        let cancels = may_cancel && cx.net.chance.one_in(4);
        let cancels_after =
            cx.settings.habit.cancels_after().filter(|_| cx.phase == Phase::Working);
        let cancels_after = cancels_after.or_else(|| cancels.then(|| cx.net.chance.ms(1..500)));
        let cancelled_at = cancels_after.map(|after| now.after(after));
        let (queue, once) = (QueueKey::new(lock, permits), patience == Patience::Once);
        let askers = policy.waiting.askers();
        let ticket = client.enter_queue(cx, (queue, askers), terms, once, index);
        if patience != Patience::Once {
            cx.net.checks.call_begins((cx.client, index), lock, began);
        }
        let call = Call {
            acquire: Acquire::new(policy, cx.settings.node_timeout),
            patience,
            lock,
            queue,
            terms,
            ticket,
            cancelled_at,
            waiting: None,
            handed_over: None,
            last: None,
            confirmation: None,
            began,
            asked: 0,
            attempts: 1,
            pauses: false,
            failed: None,
            waited: false,
            waits_since: began,
            reached: began,
            refused: began,
            is_unreached: false,
        };
        Self::start_call(client, index, cx, call);
    }

    /// Number of permits of a semaphore that it wants: in the end all of them, to find out if one is missing.
    fn permits(cx: &mut Cx<'_>, lock: LockId) -> Option<PermitsWanted> {
        lock.kind().permits()?;
        if cx.phase == Phase::Probing {
            let of = cx.settings.permits_in_the_end;
            return Some(PermitsWanted { count: of, of });
        }
        let of = cx.settings.permits;
        let most = cx.settings.habit.most_permits().map_or(of, |most| most.min(of));
        if let Some(count) = cx.settings.habit.permits() {
            return Some(PermitsWanted { count, of });
        }
        let count = if most == 1 { 1 } else { 1 + cx.net.chance.below(most as usize) as u32 };
        Some(PermitsWanted { count, of })
    }

    /// Shortest time for which the nodes are to keep the lock.
    fn min_hold(cx: &mut Cx<'_>, rolling: bool) -> Option<Duration> {
        let habit = cx.settings.habit;
        if cx.phase != Phase::Working || habit != Habit::Anything || rolling || cx.net.pair {
            return habit.min_hold().filter(|_| cx.phase == Phase::Working);
        }
        let chance = &mut cx.net.chance;
        let share = chance.one_in(8).then(|| chance.pick(&[0.05, 0.5, LONGEST_KEPT]))?;
        Some(cx.settings.ttl.mul_f64(share))
    }

    /// Returns true if a node is in a state that forbids taking any lock.
    pub(super) fn disagrees(cx: &Cx<'_>) -> bool {
        cx.shared.admission.borrow().conflict().is_some()
    }

    /// Tells a caller that its client is configured differently from others.
    pub(super) fn refused(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let (who, now) = (cx.client, cx.net.now);
        cx.net.tell(|| format!("client {who}, caller {index}: Config"));
        cx.net.checks.disagreed(who, now);
        let caller = &mut client.callers[index];
        if cx.phase == Phase::Working {
            caller.doing = Doing::Thinking;
            let at = cx.now().after(cx.net.chance.ms(100..1_000));
            caller.remind(cx, at);
        }
    }

    pub(super) fn finish(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        what: String,
        refused: Option<Outcome>,
        hold: Option<Hold>,
    ) {
        let waits_since = call.waiting.is_some().then_some(call.waits_since);
        call.leave(client, cx);
        let who = cx.client;
        cx.net.tell(|| format!("client {who}, caller {index}: {}: {what}", call.lock));
        cx.net.checks.waits_no_more((who, index), hold.is_some(), cx.net.now);
        call.check_wait(cx, index);
        let bound = match call.patience {
            Patience::Once => Some(cx.net.now.saturating_sub(call.began))
                // Nodes that are found to be ready are asked again at once.
                .map(|took| (took, cx.settings.node_timeout * call.asked.min(2))),
            Patience::Until(deadline) => {
                let deadline = cx.clock.when(deadline);
                Some((cx.net.now, deadline))
            }
            Patience::Forever => None,
        };
        let (now, pause) = (cx.net.now, cx.settings.backoff.min);
        cx.net.checks.call_ended(who, call.began, bound, now);
        cx.net.checks.attempted(who, call.attempts, now - call.began, pause, now);
        let no_quorum =
            matches!(refused, Some(Outcome::NoQuorum | Outcome::TooLate | Outcome::Unconfirmed));
        if no_quorum && call.patience == Patience::Forever {
            let timeout = cx.settings.no_quorum_timeout;
            cx.net.checks.unreached(who, call.reached, timeout, true, now);
        }
        if cx.phase == Phase::Probing {
            cx.net.checks.probed(who, call.lock, hold.is_some(), now);
        }
        match hold {
            None => Self::rest(client, index, cx),
            Some(hold) => {
                match cx.phase {
                    // All callers want each kind in turn, so that others may come first, and readers come together.
                    Phase::Probing => cx.net.checks.served_in_the_end(who, call.lock, now),
                    Phase::Working | Phase::Draining => {
                        cx.net.checks.served(who, call.lock, waits_since, now);
                    }
                }
                let usage = Self::usage(index, cx, &hold.held);
                Self::hold(client, index, cx, hold, usage);
            }
        }
    }
}
