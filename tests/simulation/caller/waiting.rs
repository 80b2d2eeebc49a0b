//! What a call waits for: its place in line, releases that are told, or time.

use std::rc::Rc;

use super::call::Call;
use super::{Caller, Doing};
use crate::core::{Attempt, Outcome, Patience, ReleaseTracker, Time, Turn, WakeReason};
use crate::simulation::client::{Client, Cx};
use crate::simulation::fan_out::FanOut;
use crate::simulation::line::Looked;
use crate::simulation::subscriptions::Waiter;

/// What ends a pause.
#[derive(Clone, Copy)]
pub(super) enum Pause {
    /// Its time.
    Time,
    /// That time, or a wake-up.
    TimeOrWake(Time),
    /// The same; a release is left to others until then.
    Left(Time),
    /// There was a wake-up, and the short pause after it.
    Woken,
}

impl Caller {
    /// Asks the nodes, if it is its turn to do so; else it waits in line.
    pub(super) fn next(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        waited: bool,
    ) {
        let now = cx.now();
        // At its time, or at the very instant at which something wakes it.
        let cancelled = |at| at <= now || cx.net.chance.one_in(8);
        if waited && call.cancelled_at.is_some_and(cancelled) {
            return Self::finish(client, index, cx, call, Outcome::Held, None);
        }
        let over = matches!(call.patience, Patience::Until(deadline) if deadline <= now);
        let once = call.patience == Patience::Once;
        match client.probe(cx, call.name, call.ticket, once) {
            Looked::Given(held) if Self::disagrees(cx) => {
                held.drop_guard(client, cx);
                call.leave(client, cx);
                Self::refused(client, index, cx);
            }
            Looked::Given(held) => {
                let valid_until = held.lease.borrow().valid_until();
                let outcome = Outcome::Granted { valid_until, number: held.claim.number };
                let until = cx.clock.when(valid_until);
                let (sequence, now) = (held.sequence.get(), cx.net.now);
                cx.net.checks.granted(&held.claim, sequence, until, now);
                Self::finish(client, index, cx, call, outcome, Some(held));
            }
            Looked::GiveWay(until, last_owner) if !(waited && over) => {
                call.waited |= waited;
                Self::give_way(client, index, cx, call, until, last_owner);
            }
            Looked::GiveWay(..) | Looked::Turn(Turn::Held, _) => {
                Self::finish(client, index, cx, call, Outcome::Held, None);
            }
            Looked::Turn(_, is_held) if over && (call.gave_way || waited && is_held) => {
                Self::finish(client, index, cx, call, Outcome::Held, None);
            }
            Looked::Turn(turn, _) if turn == Turn::Ask || waited && over => {
                if std::mem::take(&mut call.waited) || waited {
                    call.acquisition.waited_in_line();
                    call.last = None;
                    call.reached = cx.net.now;
                }
                Self::attempt(client, index, cx, call);
            }
            Looked::Turn(Turn::Ask, _) => unreachable!("the case before"),
            Looked::Turn(Turn::Wait(until), _) => {
                let mut until = call.at_most(until);
                if let Some(at) = call.cancelled_at {
                    until = until.min(at);
                }
                let caller = &mut client.callers[index];
                caller.doing = Doing::Waiting(call);
                caller.remind(cx, until);
            }
        }
    }

    /// It leaves the lock to others until then, or until one of them gives it back, which is not that
    /// owner.
    fn give_way(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        until: Time,
        last_owner: Option<u128>,
    ) {
        if call.waiting.is_none() {
            call.wait(client, cx);
        }
        call.gives_way = true;
        call.waiting.iter_mut().for_each(|waiting| waiting.gives_way(last_owner));
        let who = cx.client;
        cx.net.tell(|| format!("client {who}, caller {index}: gives way"));
        let until = call.at_most(until);
        Self::pause(client, index, cx, call, Pause::TimeOrWake(until), until);
    }

    /// It pauses until then, or goes on at once if there is already a reason to wake it.
    pub(super) fn pause(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        call: Call,
        pause: Pause,
        until: Time,
    ) {
        let wake_reason = call.waiting.as_ref().and_then(|waiting| waiting.tracker.wake_reason());
        let woken = matches!(pause, Pause::TimeOrWake(_)) && wake_reason.is_some();
        let caller = &mut client.callers[index];
        caller.doing = Doing::Pausing(call, pause);
        caller.remind(cx, if woken { cx.now() } else { until });
    }

    /// Something was told of a lock, or of all.
    pub(in super::super) fn tell_all(
        client: &mut Client,
        cx: &mut Cx<'_>,
        name: Option<usize>,
        news: impl Fn(&mut Waiter),
    ) {
        for caller in &mut client.callers {
            let note = caller.note();
            let (Doing::Attempting(call, ..)
            | Doing::Confirming(call, ..)
            | Doing::Hearing(call, _)
            | Doing::Pausing(call, _)
            | Doing::Waiting(call)) = &mut caller.doing
            else {
                continue;
            };
            if let Some(waiting) = &mut call.waiting
                && name.is_none_or(|name| call.name == name)
            {
                news(waiting);
                let wake_reason = waiting.tracker.wake_reason();
                if wake_reason.is_some()
                    && matches!(
                        caller.doing,
                        Doing::Pausing(_, Pause::TimeOrWake(_) | Pause::Left(_))
                    )
                {
                    cx.wake(note);
                }
            }
        }
    }

    /// The time is over, or there is a wake-up, or the pause after one is over.
    pub(super) fn waited(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        pause: Pause,
    ) {
        let now = cx.now();
        if let Pause::TimeOrWake(until) | Pause::Left(until) = pause {
            let wake_reason =
                call.waiting.as_ref().and_then(|waiting| waiting.tracker.wake_reason());
            let wait = wake_reason.map(|wake_reason| {
                // Who was refused by one node alone goes by that one's word.
                let alone =
                    |last: &Rc<FanOut<Attempt>>| last.with(|last| last.preferred().is_some());
                if wake_reason == WakeReason::Released && !call.last.as_ref().is_some_and(alone) {
                    cx.net.woken(cx.client, call.name);
                }
                let at = call.acquisition.woken(wake_reason, until, now, cx.net.chance.share());
                if wake_reason == WakeReason::Listening || at <= now {
                    return (at, Pause::Woken);
                }
                call.waiting
                    .iter_mut()
                    .for_each(|waiting| waiting.tracker.waits_after(wake_reason));
                (at, Pause::Left(at))
            });
            if let Some((at, pause)) = wait.or((now < until).then_some((until, pause))) {
                let caller = &mut client.callers[index];
                caller.doing = Doing::Pausing(call, pause);
                return caller.remind(cx, at);
            }
        }
        let woken = matches!(pause, Pause::Woken | Pause::Left(_));
        if std::mem::take(&mut call.gives_way) {
            call.gave_way = true;
            let tracker = call.waiting.as_ref().map(|waiting| &waiting.tracker);
            client.gave_way(cx, call.name, woken || tracker.is_some_and(ReleaseTracker::has_heard));
            return Self::next(client, index, cx, call, false);
        }
        call.attempts += u32::from(!woken && !call.hurries);
        match call.acquisition.waited(now, woken) {
            Some(outcome) => Self::finish(client, index, cx, call, outcome, None),
            None => Self::next(client, index, cx, call, false),
        }
    }
}
