//! What a call waits for: its place in line, releases that are told, or time.

use std::rc::Rc;

use super::call::Call;
use super::{Caller, Doing};
use crate::quorum::{Attempt, Cue, Outcome, Patience, Time, Turn, Watch};
use crate::simulation::client::{Client, Cx};
use crate::simulation::line::Looked;
use crate::simulation::round::Round;

/// What ends a pause.
#[derive(Clone, Copy)]
pub(super) enum Pause {
    /// Its time.
    Time,
    /// That time, or a cue.
    TimeOrCue(Time),
    /// The same; a release is left to others until then.
    Left(Time),
    /// There was a cue, and it takes a moment.
    Cued,
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
            return Self::finish(client, index, cx, &call, Outcome::Held, None);
        }
        let over = matches!(call.patience, Patience::Until(deadline) if deadline <= now);
        match client.look(cx, call.name, call.ticket) {
            Looked::Given(held) if Self::disagrees(cx) => {
                held.drop_guard(client, cx);
                client.leave(cx, call.name, call.ticket);
                Self::refused(client, index, cx);
            }
            Looked::Given(held) => {
                let valid_until = held.lease.borrow().valid_until();
                let outcome = Outcome::Granted { valid_until, number: held.claim.number };
                let until = cx.clock.when(valid_until);
                let (sequence, now) = (held.sequence.get(), cx.net.now);
                cx.net.checks.granted(&held.claim, sequence, until, now);
                Self::finish(client, index, cx, &call, outcome, Some(held));
            }
            Looked::Turn(Turn::Held, _) => {
                Self::finish(client, index, cx, &call, Outcome::Held, None);
            }
            Looked::Turn(_, true) if waited && over => {
                Self::finish(client, index, cx, &call, Outcome::Held, None);
            }
            Looked::Turn(turn, _) if turn == Turn::Ask || waited && over => {
                if waited {
                    call.acquisition.waited_in_line();
                    call.last = None;
                    call.reached = cx.net.now;
                }
                Self::attempt(client, index, cx, call);
            }
            Looked::Turn(Turn::Ask, _) => unreachable!("the case before"),
            Looked::Turn(Turn::Wait(mut until), _) => {
                if let Patience::Until(deadline) = call.patience {
                    until = until.min(deadline);
                }
                if let Some(at) = call.cancelled_at {
                    until = until.min(at);
                }
                let caller = &mut client.callers[index];
                caller.doing = Doing::Waiting(call);
                caller.remind(cx, until);
            }
        }
    }

    /// Something was told of a lock, or of all.
    pub(in super::super) fn tell_all(
        client: &mut Client,
        cx: &mut Cx<'_>,
        name: Option<usize>,
        news: impl Fn(&mut Watch),
    ) {
        for caller in &mut client.callers {
            let note = caller.note();
            let (Doing::Attempting(call, ..)
            | Doing::Confirming(call, ..)
            | Doing::Pausing(call, _)) = &mut caller.doing
            else {
                continue;
            };
            if let Some(watch) = &mut call.watch
                && name.is_none_or(|name| call.name == name)
            {
                news(watch);
                let cue = watch.cue();
                if cue.is_some()
                    && matches!(
                        caller.doing,
                        Doing::Pausing(_, Pause::TimeOrCue(_) | Pause::Left(_))
                    )
                {
                    cx.wake(note);
                }
            }
        }
    }

    /// The time is over, or there is a cue, or the moment after one has passed.
    pub(super) fn waited(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        pause: Pause,
    ) {
        let now = cx.now();
        if let Pause::TimeOrCue(until) | Pause::Left(until) = pause {
            let cue = call.watch.as_ref().and_then(Watch::cue);
            let wait = cue.map(|cue| {
                // Who was refused by one node alone goes by that one's word.
                let alone = |last: &Rc<Round<Attempt>>| last.with(|last| last.alone().is_some());
                if cue == Cue::Released && !call.last.as_ref().is_some_and(alone) {
                    cx.net.woken(cx.client, call.name);
                }
                let at = call.acquisition.cued(cue, now, cx.net.chance.share());
                if cue == Cue::Listening || at <= now {
                    return (at, Pause::Cued);
                }
                call.watch.iter_mut().for_each(Watch::lets_others);
                (at, Pause::Left(at))
            });
            if let Some((at, pause)) = wait.or((now < until).then_some((until, pause))) {
                let caller = &mut client.callers[index];
                caller.doing = Doing::Pausing(call, pause);
                return caller.remind(cx, at);
            }
        }
        let cued = matches!(pause, Pause::Cued | Pause::Left(_));
        call.attempts += u32::from(!cued && !call.hurries);
        match call.acquisition.waited(now, cued) {
            Some(outcome) => Self::finish(client, index, cx, &call, outcome, None),
            None => Self::next(client, index, cx, call, false),
        }
    }
}
