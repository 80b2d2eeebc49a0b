//! A thread of a client that takes locks, uses them and gives them back, as users do; a call runs
//! the machines as `src/coordinator.rs` does.

mod using;

use std::rc::Rc;
use std::time::Duration;

use super::checkers::unlocked;
use super::claim::Claim;
use super::client::{Client, Cx, Note, Phase};
use super::held::Held;
use super::line::Looked;
use super::round::Round;
use super::setup::Habit;
use crate::quorum::{
    Acquisition, Attempt, Backoff, Ballot, Conclusion, Confirmation, Cue, Extension, Judged,
    Judgement, Outcome, Outlook, Patience, Policy, Quorum, Release, Step, Terms, Ticket, Time,
    Turn, Watch, asking_order,
};

const BACKOFF: Backoff = Backoff { min: Duration::from_millis(5), max: Duration::from_millis(150) };

pub(super) struct Caller {
    index: usize,
    /// Invalidates what was scheduled before.
    epoch: u64,
    doing: Doing,
    /// The next name that it has to get in the end.
    to_probe: usize,
    /// The calls that it has begun.
    calls: u32,
}

enum Doing {
    Nothing,
    Thinking,
    Attempting(Call, Claim),
    Confirming(Call, Claim, Rc<Round<Confirmation>>),
    Pausing(Call, Pause),
    /// It stands in line behind others of its client.
    Waiting(Call),
    Holding(Rc<Held>, Use),
    /// The second round of an extension, if `true`.
    Extending(Rc<Held>, Rc<Round<Extension>>, Use, Duration, bool),
    Unlocking(Rc<Held>, Rc<Round<Release>>, Unlock),
}

/// What ends a pause.
#[derive(Clone, Copy)]
enum Pause {
    /// Its time.
    Time,
    /// That time, or a cue.
    TimeOrCue(Time),
    /// The same; a release is left to others until then.
    Left(Time),
    /// There was a cue, and it takes a moment.
    Cued,
}

/// A call that wants a lock.
struct Call {
    acquisition: Acquisition,
    patience: Patience,
    name: usize,
    terms: Terms,
    began: Duration,
    /// Attempts after a full pause.
    attempts: u32,
    /// Its place in line.
    ticket: Ticket,
    /// When it gives up, whatever it is waiting for.
    cancelled_at: Option<Time>,
    hurries: bool,
    /// All attempts.
    asked: u32,
    /// What was heard, once it waits.
    watch: Option<Watch>,
    waits_since: Duration,
    /// The last attempt.
    last: Option<Rc<Round<Attempt>>>,
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
        let mut caller = Self { index, epoch: 0, doing: Doing::Thinking, to_probe: 0, calls: 0 };
        let at = cx.now().after(cx.settings.habit.begins()).after(cx.net.chance.ms(0..50));
        caller.remind(cx, at);
        caller
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// What it was trying to get, and its place in the line of a name.
    pub(super) fn into_parts(self) -> (Option<Claim>, Option<(usize, Ticket)>) {
        match self.doing {
            Doing::Attempting(call, claim) | Doing::Confirming(call, claim, _) => {
                (Some(claim), Some((call.name, call.ticket)))
            }
            Doing::Pausing(call, _) | Doing::Waiting(call) => {
                (None, Some((call.name, call.ticket)))
            }
            _ => (None, None),
        }
    }

    /// What wakes it, if it waits in line.
    pub(super) fn waits_in_line(&self) -> Option<Note> {
        matches!(self.doing, Doing::Waiting(_)).then(|| self.note())
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
            | Doing::Pausing(..)
            | Doing::Waiting(_)
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
            Doing::Thinking if client.waits_for_clocks(cx) => {
                const MOMENT: Duration = Duration::from_millis(1);
                let caller = &mut client.callers[index];
                caller.doing = Doing::Thinking;
                caller.remind(cx, cx.now().after(MOMENT));
            }
            Doing::Thinking => Self::call(client, index, cx),
            Doing::Attempting(call, claim) => Self::answered(client, index, cx, call, claim),
            Doing::Confirming(call, claim, round) => {
                if round.with(|confirmation| confirmation.confirmed()) {
                    claim.attempt.with(Attempt::written_back);
                }
                Self::conclude(client, index, cx, call, claim);
            }
            Doing::Pausing(call, pause) => Self::waited(client, index, cx, call, pause),
            Doing::Waiting(call) => Self::next(client, index, cx, call, true),
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
            Phase::Working if cx.settings.habit != Habit::Anything => {
                let calls = &mut client.callers[index].calls;
                *calls += 1;
                let Some(patience) = cx.settings.habit.next(*calls - 1, cx) else { return };
                (0, patience, true)
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
            ordered: true,
            mechanisms,
        });
        let limited = !rolling
            && cx.settings.habit == Habit::Anything
            && cx.phase == Phase::Working
            && cx.net.chance.one_in(5);
        let share = cx.net.chance.pick(&[0.5, 1.5, 3.0]);
        let max_hold = limited.then(|| cx.settings.ttl.mul_f64(share));
        let terms = Terms { ttl: cx.settings.ttl, renewed, max_hold, mechanisms };
        let terms = terms.ending_with_the_hold();
        let began = cx.net.now;
        let cancels = cx.phase == Phase::Working && !rolling && cx.net.chance.one_in(4);
        let cancelled_at = cancels.then(|| now.after(cx.net.chance.ms(1..500)));
        if Self::disagrees(cx) {
            return Self::refused(client, index, cx);
        }
        let ticket = client.stand_in_line(cx, name, terms, patience == Patience::Once, index);
        let call = Call {
            acquisition,
            patience,
            name,
            terms,
            began,
            attempts: 1,
            hurries: false,
            asked: 0,
            ticket,
            cancelled_at,
            reached: began,
            watch: None,
            waits_since: began,
            last: None,
        };
        Self::next(client, index, cx, call, false);
    }

    /// Asks the nodes, if it is its turn to do so; else it waits in line.
    fn next(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call, waited: bool) {
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

    /// Whether a node is in a state for whose sake no lock may be taken anywhere.
    fn disagrees(cx: &Cx<'_>) -> bool {
        cx.shared.admission.borrow().conflict().is_some()
    }

    /// Tells a caller that its client is configured in another way than others.
    fn refused(client: &mut Client, index: usize, cx: &mut Cx<'_>) {
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

    /// Something was told of a lock, or of all.
    pub(super) fn tell_all(
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
    fn waited(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call, pause: Pause) {
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

    /// Asks all nodes once, or one of them first.
    fn attempt(client: &mut Client, index: usize, cx: &mut Cx<'_>, mut call: Call) {
        call.asked += 1;
        if let Some(watch) = &mut call.watch {
            watch.attempt_begins();
        }
        let names: Vec<_> = (0..cx.settings.nodes).map(|node| format!("node-{node}")).collect();
        let order = asking_order(format!("name-{}", call.name).as_bytes(), &names);
        let now = cx.now();
        let first = call.last.take().and_then(|last| {
            let answered = |node: usize| last.with(|last| last.has_vote_of(node));
            call.acquisition.begins_with(&order, answered, now)
        });
        let random = cx.net.chance.owner();
        let owner = call.acquisition.owner(random);
        let answer_by = call.acquisition.answer_by(cx.now(), cx.settings.node_timeout);
        client.callers[index].epoch = cx.net.fresh();
        let note = client.callers[index].note();
        let claim = Claim::new(client, cx, call.name, call.terms, owner, answer_by, note);
        match first {
            Some((first, until)) => {
                claim.attempt.with(|attempt| attempt.begin_with(first));
                claim.ask(client, cx, |node| node == first);
                cx.remind(until.min(answer_by), note);
            }
            None => {
                claim.ask(client, cx, |_| true);
                cx.remind(answer_by, note);
            }
        }
        client.callers[index].doing = Doing::Attempting(call, claim);
    }

    /// The verdict is there, or the time for it is over.
    fn answered(client: &mut Client, index: usize, cx: &mut Cx<'_>, call: Call, mut claim: Claim) {
        let alone = claim.attempt.with(|attempt| attempt.alone());
        let answer_by = call.acquisition.answer_by(cx.now(), cx.settings.node_timeout);
        if let Some(first) = alone.filter(|_| claim.attempt.reopen(answer_by)) {
            claim.answer_by = answer_by;
            claim.ask(client, cx, |node| node != first);
            cx.remind(answer_by, client.callers[index].note());
            client.callers[index].doing = Doing::Attempting(call, claim);
            return;
        }
        // The time of the node that was asked alone may be over since the others were asked.
        if cx.now() < claim.answer_by && !claim.attempt.with(|attempt| attempt.decided()) {
            client.callers[index].doing = Doing::Attempting(call, claim);
            return;
        }
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
        if Self::disagrees(cx) {
            // A node was heard of meanwhile. A lock that was won all the same is given back.
            client.release(cx, &claim, call.terms.ttl);
            client.leave(cx, call.name, call.ticket);
            return Self::refused(client, index, cx);
        }
        claim.attempt.with(|attempt| {
            let covered = call.watch.as_mut().is_some_and(|watch| {
                watch.attempt_ended(attempt);
                watch.is_covered()
            });
            call.acquisition.tried(attempt, now, covered);
        });
        call.last = Some(claim.attempt.clone());
        let (random, set_time) = (cx.net.chance.share(), cx.shared.set_time(now));
        let ready_in = cx.shared.admission.borrow().ready_in(now, set_time);
        let (step, settled) = if conclusion == Conclusion::NotAdmitted {
            let step = call.acquisition.not_admitted(ready_in, claim.started, now, random);
            (step, ready_in.is_some())
        } else {
            let step = call.acquisition.concluded(conclusion, claim.started, now, random);
            (step, quorum == Quorum::Reached)
        };
        if let Step::Finish(outcome @ Outcome::Granted { valid_until, number }) = step {
            claim.number = number;
            claim.granted_at = cx.net.now;
            let held = Held::begin(client, cx, claim, valid_until, call.ticket);
            let now = cx.net.now;
            let until = cx.clock.when(valid_until);
            cx.net.checks.granted(&held.claim, 0, until, now);
            return Self::finish(client, index, cx, &call, outcome, Some(held));
        }
        if !cx.net.switches.keeps_lost_attempts {
            client.release(cx, &claim, call.terms.ttl);
        }
        if !call.acquisition.cut_short(conclusion, now) {
            client.concluded(cx, call.name, conclusion);
        }
        let (who, now) = (cx.client, cx.net.now);
        let held = matches!(conclusion, Conclusion::Held { .. });
        if settled || held {
            call.reached = now;
        } else if matches!(step, Step::Wait(_)) {
            let timeout = cx.settings.no_quorum_timeout;
            cx.net.checks.unreached(who, call.reached, timeout, false, now);
        }
        match step {
            Step::Finish(outcome) => Self::finish(client, index, cx, &call, outcome, None),
            Step::Wait(until) => {
                if held && call.watch.is_none() {
                    call.watch = Some(client.watch(cx));
                    // Whatever it has been told of others, nobody may sleep for long while the lock is free.
                    let others = if cx.net.pair { 1 } else { cx.net.chance.below(5) };
                    call.acquisition.expects(u32::try_from(others).unwrap_or(0));
                    call.waits_since = cx.net.now;
                }
                // A few tries are quick, after split votes.
                call.hurries = until.since(cx.now()) < BACKOFF.min;
                let cue = call.watch.as_ref().and_then(Watch::cue);
                let pause = if held { Pause::TimeOrCue(until) } else { Pause::Time };
                let until = if held && cue.is_some() { cx.now() } else { until };
                let caller = &mut client.callers[index];
                caller.doing = Doing::Pausing(call, pause);
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
        client.leave(cx, call.name, call.ticket);
        let who = cx.client;
        let what = held
            .as_ref()
            .map_or(format!("{outcome:?}"), |held| format!("granted to {}", held.claim.short()));
        cx.net.tell(|| format!("client {who}, caller {index}: name {}: {what}", call.name));
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
                let waits_since = call.watch.is_some().then_some(call.waits_since);
                cx.net.checks.served(who, waits_since, now);
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
