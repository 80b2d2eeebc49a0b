//! A thread of a client that takes locks, uses them and gives them back, as users do; a call runs
//! the machines as `src/coordinator.rs` does.

mod using;

use std::rc::Rc;
use std::time::Duration;

use super::checkers::unlocked;
use super::claim::Claim;
use super::client::{Client, Cx, Note, Phase};
use super::held::Held;
use super::round::Round;
use crate::quorum::{
    Acquisition, Attempt, Backoff, Ballot, Confirmation, Extension, Judged, Judgement, Outcome,
    Outlook, Patience, Policy, Quorum, Release, Step, Terms, Time,
};

const BACKOFF: Backoff = Backoff { min: Duration::from_millis(5), max: Duration::from_millis(150) };

pub(super) struct Caller {
    index: usize,
    /// Invalidates what was scheduled before.
    epoch: u64,
    doing: Doing,
    /// The next name that it has to get in the end.
    to_probe: usize,
}

enum Doing {
    Nothing,
    Thinking,
    Attempting(Call, Claim),
    Confirming(Call, Claim, Rc<Round<Confirmation>>),
    Pausing(Call),
    Holding(Rc<Held>, Use),
    /// The second round of an extension, if `true`.
    Extending(Rc<Held>, Rc<Round<Extension>>, Use, Duration, bool),
    Unlocking(Rc<Held>, Rc<Round<Release>>, Unlock),
}

/// A call that wants a lock.
struct Call {
    acquisition: Acquisition,
    patience: Patience,
    name: usize,
    terms: Terms,
    began: Duration,
    attempts: u32,
    /// When the nodes have settled an attempt last.
    reached: Duration,
}

/// What was known of a lock when its holder began to give it back.
struct Unlock {
    /// It was valid, until then.
    valid_until: Option<Time>,
    /// Its keys had been deleted.
    gone: bool,
}

/// What it does with the lock.
#[derive(Clone, Copy)]
struct Use {
    until: Time,
    /// Asks for so much more, once.
    extend: Option<Duration>,
    unlock: bool,
}

impl Caller {
    pub(super) fn start(index: usize, cx: &mut Cx<'_>) -> Self {
        let mut caller = Self { index, epoch: 0, doing: Doing::Thinking, to_probe: 0 };
        let at = cx.now().after(cx.net.chance.ms(0..50));
        caller.remind(cx, at);
        caller
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// What it was trying to get.
    pub(super) fn into_claim(self) -> Option<Claim> {
        match self.doing {
            Doing::Attempting(_, claim) | Doing::Confirming(_, claim, _) => Some(claim),
            _ => None,
        }
    }

    /// A new phase has begun.
    pub(super) fn hurry(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let caller = &mut client.callers[index];
        let now = cx.now();
        match &mut caller.doing {
            Doing::Holding(_, usage) => {
                usage.until = now;
                usage.extend = None;
            }
            Doing::Thinking | Doing::Nothing => caller.doing = Doing::Thinking,
            Doing::Attempting(..)
            | Doing::Confirming(..)
            | Doing::Pausing(_)
            | Doing::Extending(..)
            | Doing::Unlocking(..) => {
                return;
            }
        }
        caller.remind(cx, now);
    }

    fn remind(&mut self, cx: &mut Cx<'_>, at: Time) {
        self.epoch = cx.net.fresh();
        cx.remind(at, self.note());
    }

    fn note(&self) -> Note {
        Note::Caller { caller: self.index, epoch: self.epoch }
    }

    /// Its time has come, or what it waits for.
    pub(super) fn go_on(client: &mut Client, index: usize, epoch: u64, cx: &mut Cx<'_>) {
        // It may have been dropped.
        let Some(caller) = client.callers.get_mut(index).filter(|caller| caller.epoch == epoch)
        else {
            return;
        };
        match std::mem::replace(&mut caller.doing, Doing::Nothing) {
            Doing::Nothing => {}
            Doing::Thinking => Self::call(client, index, cx),
            Doing::Attempting(call, claim) => Self::heard(client, index, cx, call, claim),
            Doing::Confirming(call, claim, round) => {
                if round.with(|confirmation| confirmation.confirmed()) {
                    claim.attempt.with(Attempt::written_back);
                }
                Self::conclude(client, index, cx, call, claim);
            }
            Doing::Pausing(call) => match call.acquisition.waited(cx.now()) {
                Some(outcome) => Self::finish(client, index, cx, &call, outcome, None),
                None => Self::attempt(client, index, cx, call),
            },
            Doing::Holding(held, usage) => Self::used(client, index, cx, held, usage),
            Doing::Extending(held, round, usage, ttl, again) => {
                let confirmed = held.conclude(cx, &round);
                let doubtful = !again && round.with(|round| round.is_doubtful(cx.now()));
                if doubtful && Self::extend(client, index, cx, &held, ttl, usage, true) {
                    return;
                } else if confirmed {
                    held.repair_again(client, cx, &round);
                }
                held.sleep_anew(cx);
                Self::hold(client, index, cx, held, usage);
            }
            Doing::Unlocking(held, round, Unlock { valid_until, gone }) => {
                let result = round.with(|release| release.result());
                let valid = valid_until.is_some_and(|until| cx.now() < until);
                let calm = cx.phase == Phase::Probing;
                if let Some(what) = unlocked(cx.net, &held.claim, result, valid, gone, calm) {
                    cx.net.checks.report(cx.net.now, "releases", what);
                }
                Self::rest(client, index, cx);
            }
        }
    }

    /// Begins a call, if there is one to make.
    fn call(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let now = cx.now();
        let rolling = cx.settings.rolling;
        let first = cx.client == 0 && index == 0;
        let (name, patience, renewed) = match cx.phase {
            Phase::Draining => return,
            Phase::Probing => {
                let name = client.callers[index].to_probe;
                if name == cx.settings.names {
                    return;
                }
                client.callers[index].to_probe += 1;
                let longest = cx.settings.longest_ttl.mul_f64(1.02) + cx.settings.max_ttl;
                let enough = longest + Duration::from_secs(5);
                (name, Patience::Until(now.after(enough)), true)
            }
            Phase::Working if rolling && first => (0, Patience::Forever, true),
            Phase::Working => {
                let chance = &mut cx.net.chance;
                let name = if rolling { 1 } else { chance.below(cx.settings.names) };
                let patience = match chance.below(4) {
                    0 => Patience::Once,
                    1 => Patience::Forever,
                    _ => Patience::Until(now.after(chance.ms(10..4_000))),
                };
                (name, patience, !chance.one_in(3))
            }
        };
        let mechanisms = cx.net.switches.mechanisms;
        let acquisition = Acquisition::new(Policy {
            patience,
            backoff: BACKOFF,
            no_quorum_timeout: cx.settings.no_quorum_timeout,
            mechanisms,
        });
        let limited = !rolling && cx.phase == Phase::Working && cx.net.chance.one_in(5);
        let share = cx.net.chance.pick(&[0.5, 1.5, 3.0]);
        let max_hold = limited.then(|| cx.settings.ttl.mul_f64(share));
        let terms = Terms { ttl: cx.settings.ttl, renewed, max_hold, mechanisms };
        let terms = terms.ending_with_the_hold();
        let began = cx.net.now;
        let call = Call { acquisition, patience, name, terms, began, attempts: 0, reached: began };
        Self::attempt(client, index, cx, call);
    }

    /// Asks all nodes once.
    fn attempt(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        call.attempts += 1;
        let random = cx.net.chance.owner();
        let owner = call.acquisition.owner(random);
        let answer_by = call.acquisition.answer_by(cx.now(), cx.settings.node_timeout);
        client.callers[index].epoch = cx.net.fresh();
        let note = client.callers[index].note();
        let claim = Claim::new(client, cx, call.name, call.terms, owner, answer_by, note);
        claim.ask(client, cx);
        cx.remind(answer_by, note);
        client.callers[index].doing = Doing::Attempting(call, claim);
    }

    /// The verdict is there, or the time for it is over.
    fn heard(client: &mut Client, index: usize, cx: &mut Cx<'_>, call: Call, claim: Claim) {
        let decided = claim.attempt.with(|attempt| attempt.decided());
        match claim.attempt.with(Attempt::number_to_write_back).filter(|_| decided) {
            Some(number) => {
                client.callers[index].epoch = cx.net.fresh();
                let note = client.callers[index].note();
                let round = claim.write_back(client, cx, number, note);
                cx.remind(claim.answer_by, note);
                client.callers[index].doing = Doing::Confirming(call, claim, round);
            }
            None => Self::conclude(client, index, cx, call, claim),
        }
    }

    /// All that is to be heard of an attempt was heard.
    fn conclude(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        mut call: Call,
        mut claim: Claim,
    ) {
        claim.saw_numbers(client);
        let now = cx.now();
        let outlook = Outlook::new(None, cx.settings.node_timeout);
        let judged = claim.attempt.with(|attempt| outlook.judge(attempt, now));
        let Judged::Concluded(Judgement { conclusion, quorum, .. }) = judged else {
            panic!("nobody falls back here: {judged:?}");
        };
        let random = cx.net.chance.share();
        let step = call.acquisition.concluded(conclusion, claim.started, now, random);
        if let Step::Finish(outcome @ Outcome::Granted { valid_until, number }) = step {
            claim.number = number;
            claim.granted_at = cx.net.now;
            let held = Held::begin(client, cx, claim, valid_until);
            let now = cx.net.now;
            let until = cx.clock.when(valid_until);
            cx.net.checks.granted(&held.claim, until, now);
            return Self::finish(client, index, cx, &call, outcome, Some(held));
        }
        if !cx.net.switches.keeps_lost_attempts {
            client.release(cx, &claim, call.terms.ttl);
        }
        let (who, now) = (cx.client, cx.net.now);
        if quorum == Quorum::Reached {
            call.reached = now;
        } else if matches!(step, Step::Wait(_)) {
            let timeout = cx.settings.no_quorum_timeout;
            cx.net.checks.unreached(who, call.reached, timeout, false, now);
        }
        match step {
            Step::Finish(outcome) => Self::finish(client, index, cx, &call, outcome, None),
            Step::Wait(until) => {
                let caller = &mut client.callers[index];
                caller.doing = Doing::Pausing(call);
                caller.remind(cx, until);
            }
        }
    }

    fn finish(
        client: &mut Client,
        index: usize,
        cx: &mut Cx<'_>,
        call: &Call,
        outcome: Outcome,
        held: Option<Rc<Held>>,
    ) {
        let who = cx.client;
        let what = held
            .as_ref()
            .map_or(format!("{outcome:?}"), |held| format!("granted to {}", held.claim.short()));
        cx.net.tell(|| format!("client {who}, caller {index}: name {}: {what}", call.name));
        let bound = match call.patience {
            Patience::Once => Some(cx.net.now.saturating_sub(call.began))
                .map(|took| (took, cx.settings.node_timeout)),
            Patience::Until(deadline) => {
                let deadline = cx.clock.when(deadline);
                Some((cx.net.now, deadline))
            }
            Patience::Forever => None,
        };
        let now = cx.net.now;
        cx.net.checks.call_ended(who, call.began, bound, now);
        cx.net.checks.attempted(who, call.attempts, now - call.began, BACKOFF.min, now);
        let no_quorum =
            matches!(outcome, Outcome::NoQuorum | Outcome::TooLate | Outcome::Unconfirmed);
        if no_quorum && call.patience == Patience::Forever {
            let timeout = cx.settings.no_quorum_timeout;
            cx.net.checks.unreached(who, call.reached, timeout, true, now);
        }
        if cx.phase == Phase::Probing {
            cx.net.checks.probed(who, call.name, held.is_some(), now);
        }
        match held {
            None => Self::rest(client, index, cx),
            Some(held) => {
                cx.net.checks.grants += 1;
                let usage = Self::usage(index, cx, &held);
                Self::hold(client, index, cx, held, usage);
            }
        }
    }

    /// Until the next call, if there is one.
    fn rest(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
        let caller = &mut client.callers[index];
        caller.doing = match cx.phase {
            Phase::Draining => Doing::Nothing,
            Phase::Probing if caller.to_probe == cx.settings.names => Doing::Nothing,
            Phase::Working | Phase::Probing => Doing::Thinking,
        };
        let think = if cx.net.chance.one_in(3) { cx.net.chance.ms(0..400) } else { Duration::ZERO };
        let at = cx.now().after(think);
        caller.remind(cx, at);
    }
}
