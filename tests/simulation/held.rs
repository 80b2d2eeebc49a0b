//! A lock that is held, with what its renewal thread does, as `src/runtime/held.rs` and `src/runtime/renewal.rs`
//! carry it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::checkers::{Agreed, LeaseTerms};
use super::claim::Claim;
use super::client::{Client, Cx, Note};
use super::fan_out::FanOut;
use crate::core::{
    Basis, Extension, Grant, Lease, LossReason, Next, QueueTicket, Quorum, Renewed, Rounds, Terms,
    Time, majority,
};
use crate::runtime::reply;

/// How long the answers are listened to that a verdict did not need: mostly, all are there by then.
const HEAR_OUT: Duration = Duration::from_millis(4);

pub(super) struct Held {
    pub(super) id: u64,
    pub(super) claim: Claim,
    pub(super) lease: RefCell<Lease>,
    rounds: RefCell<Rounds<Rc<FanOut<Extension>>>>,
    /// Its number in the local queue of its name.
    pub(super) ticket: QueueTicket,
    /// Its present holder's terms, when that one began, and how often it was handed over until then.
    pub(super) terms: Cell<Terms>,
    pub(super) since: Cell<Time>,
    pub(super) sequence: Cell<u64>,
    /// Until when its holder has asked for it, renewals aside, and until when it was valid before.
    pub(super) wanted: Cell<Time>,
    pub(super) promised: Cell<Time>,
    /// When the nodes were last asked for something.
    asked_at: Cell<Time>,
    /// Invalidates what was scheduled before.
    epoch: Cell<u64>,
    doing: RefCell<Doing>,
}

/// What the renewal thread does.
enum Doing {
    /// It sleeps until something is due.
    Sleeping,
    /// It has decided to renew, and gets around to it.
    AboutToRenew,
    /// `true`: this is the second round of the renewal.
    Renewing(Rc<FanOut<Extension>>, bool),
    /// A majority has confirmed; it listens to the others for a moment.
    HearingOut(Rc<FanOut<Extension>>),
}

impl Held {
    pub(super) fn begin(
        client: &mut Client,
        cx: &mut Cx<'_>,
        claim: Claim,
        grant: Grant,
        ticket: QueueTicket,
    ) -> Rc<Self> {
        let Grant { basis, valid_until, .. } = grant;
        let id = cx.net.fresh();
        let lease = Lease::new(claim.terms, basis, claim.started, valid_until)
            .jittered((id % 8) as f64 / 7.0);
        let rounds = Rounds::new();
        let held = Rc::new(Self {
            id,
            wanted: Cell::new(claim.started.after(claim.terms.ttl)),
            promised: Cell::new(lease.valid_until()),
            asked_at: Cell::new(cx.now()),
            ticket,
            terms: Cell::new(claim.terms),
            since: Cell::new(claim.started),
            sequence: Cell::new(0),
            claim,
            lease: RefCell::new(lease),
            rounds: RefCell::new(rounds),
            epoch: Cell::new(0),
            doing: RefCell::new(Doing::Sleeping),
        });
        if held.claim.suspensions != cx.shared.suspensions.get() {
            held.lease.borrow_mut().suspended();
        }
        client.held.insert(held.id, held.clone());
        client.won(cx, &held, grant);
        held.sleep(cx);
        held
    }

    /// Until when it is certainly held, as far as is known now.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        let left = self.lease.borrow().remaining(now);
        (!left.is_zero() && !self.rounds.borrow().ended()).then(|| now.after(left))
    }

    /// What its present holder agreed to.
    pub(super) fn agreed(&self) -> Agreed {
        Agreed {
            terms: self.terms.get(),
            since: self.since.get(),
            wanted: self.wanted.get(),
            promised: self.promised.get(),
        }
    }

    /// On what terms it is held, for the checkers.
    pub(super) fn lease_terms(&self) -> LeaseTerms {
        let on_first = self.lease.borrow().basis() == Basis::FirstNode;
        LeaseTerms { terms: self.terms.get(), on_first }
    }

    /// Another caller has it from now on, as the `sequence`-th to whom it was handed.
    pub(super) fn handed_over(&self, terms: Terms, sequence: u64, now: Time) {
        self.terms.set(terms);
        self.since.set(now);
        self.sequence.set(sequence);
        // It may hold it for less long than the one before.
        self.promised.set(self.lease.borrow().valid_until());
    }

    pub(super) fn ended(&self) -> bool {
        self.rounds.borrow().ended()
    }

    /// The client's machine was suspended: the lease is over, and the thread is told.
    pub(super) fn suspended(&self, cx: &mut Cx<'_>) {
        self.lease.borrow_mut().suspended();
        self.sleep_anew(cx);
    }

    /// The thread sleeps until the lease wants something.
    fn sleep(&self, cx: &mut Cx<'_>) {
        *self.doing.borrow_mut() = Doing::Sleeping;
        let now = cx.now();
        let at = match self.lease.borrow_mut().next(now) {
            Next::Renew(at) | Next::End(at) => at,
            Next::Over(_) => now,
        };
        let late = if cx.net.chance.one_in(20) { cx.net.chance.ms(0..20) } else { Duration::ZERO };
        self.remind(cx, at.after(late));
    }

    /// The lease has changed, so the thread looks at it again, if it sleeps.
    pub(super) fn sleep_anew(&self, cx: &mut Cx<'_>) {
        let sleeping = matches!(*self.doing.borrow(), Doing::Sleeping);
        if sleeping && !self.rounds.borrow().ended() {
            self.sleep(cx);
        }
    }

    fn remind(&self, cx: &mut Cx<'_>, at: Time) {
        self.epoch.set(cx.net.fresh());
        cx.remind(at, self.note());
    }

    fn note(&self) -> Note {
        Note::Held { lock: self.id, epoch: self.epoch.get() }
    }

    /// The thread runs.
    pub(super) fn go_on(client: &mut Client, lock: u64, epoch: u64, cx: &mut Cx<'_>) {
        // A thread that has not noticed the end yet runs on, too.
        let Some(held) = client.held.get(&lock).or_else(|| client.ending.get(&lock)).cloned()
        else {
            return;
        };
        if held.epoch.get() != epoch {
            return;
        }
        let doing = std::mem::replace(&mut *held.doing.borrow_mut(), Doing::Sleeping);
        match doing {
            Doing::Sleeping => held.probe(client, cx),
            Doing::AboutToRenew if held.is_hopeless(client, cx) => {
                held.lease.borrow_mut().renewed(Renewed::Unknown, cx.now());
                held.probe(client, cx);
            }
            Doing::AboutToRenew => held.renew(client, cx, false),
            Doing::Renewing(round, again) => {
                if held.conclude(cx, &round) {
                    held.hear_out(cx, round);
                } else if !again && round.with(|round| round.is_doubtful(cx.now())) {
                    held.renew(client, cx, true);
                } else if let Some(again) = held.repair_again(client, cx, &round) {
                    held.hear_out(cx, again);
                } else {
                    held.probe(client, cx);
                }
            }
            Doing::HearingOut(round) => match held.repair_again(client, cx, &round) {
                Some(again) => held.hear_out(cx, again),
                None => held.probe(client, cx),
            },
        }
    }

    fn probe(self: &Rc<Self>, client: &mut Client, cx: &mut Cx<'_>) {
        if self.rounds.borrow().ended() {
            client.ending.remove(&self.id);
            return;
        }
        let now = cx.now();
        let next = self.lease.borrow_mut().next(now);
        match next {
            Next::Renew(at) if at <= now => {
                *self.doing.borrow_mut() = Doing::AboutToRenew;
                let chance = &mut cx.net.chance;
                let late = if chance.one_in(10) { chance.ms(0..30) } else { Duration::ZERO };
                self.remind(cx, now.after(late));
            }
            Next::Renew(_) | Next::End(_) => self.sleep(cx),
            Next::Over(reason) => self.lose(client, cx, reason),
        }
    }

    /// Whether so many nodes are known to be down that no majority can confirm.
    fn is_hopeless(&self, client: &Client, cx: &Cx<'_>) -> bool {
        let up = client.workers.iter().filter(|worker| !worker.is_down()).count();
        let on_majority = self.lease.borrow().basis() == Basis::Majority;
        !self.rounds.borrow().ended() && on_majority && up < majority(cx.settings.nodes)
    }

    fn renew(self: &Rc<Self>, client: &mut Client, cx: &mut Cx<'_>, again: bool) {
        let ttl = self.claim.terms.ttl;
        self.epoch.set(cx.net.fresh());
        let Some((round, until)) = self.ask(client, cx, ttl, false, self.note()) else {
            client.ending.remove(&self.id);
            return;
        };
        *self.doing.borrow_mut() = Doing::Renewing(round, again);
        cx.remind(until, self.note());
    }

    /// Puts an extension to the nodes, whose end wakes `waiter`; the round, and how long to wait for
    /// it. `None`: the lock has ended.
    ///
    /// Who asks `by_holder` gets less at once, if it asks for less.
    pub(super) fn ask(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        ttl: Duration,
        by_holder: bool,
        waiter: Note,
    ) -> Option<(Rc<FanOut<Extension>>, Time)> {
        let started = cx.now();
        self.asked_at.set(started);
        let ttl = self.lease.borrow().ttl(ttl, started);
        let answer_by = started.after(cx.settings.node_timeout);
        let allowance = self.claim.terms.allowance;
        let basis = self.lease.borrow().basis();
        let extension =
            Extension::new(cx.settings.nodes, started, answer_by, ttl, basis, allowance);
        if by_holder {
            self.lease.borrow_mut().extending(ttl, started, extension.valid_at_most());
            self.promised.set(self.lease.borrow().valid_until());
        }
        let (valid_until, repair_until) =
            (self.lease.borrow().valid_until(), self.lease.borrow().repair_until());
        let round = Rc::new(FanOut::new(extension, reply::extend, waiter));
        let begun = self
            .claim
            .attempt
            .with(|attempt| self.rounds.borrow_mut().begin(round.clone(), attempt));
        if !begun {
            return None;
        }
        self.claim.extend(client, cx, &round, ttl, repair_until);
        Some((round, answer_by.min(valid_until)))
    }

    /// A round is over, or the time for it; whether it was confirmed.
    pub(super) fn conclude(&self, cx: &Cx<'_>, round: &Rc<FanOut<Extension>>) -> bool {
        self.claim.attempt.with(|attempt| self.rounds.borrow_mut().hear(attempt));
        let now = cx.now();
        let renewed = round.with(|extension| extension.result(now));
        self.lease.borrow_mut().renewed(renewed, now);
        if matches!(renewed, Renewed::Until(_, Basis::Majority)) {
            cx.shared.note_quorum(Quorum::Reached, now, now);
        }
        matches!(renewed, Renewed::Until(..))
    }

    fn hear_out(&self, cx: &mut Cx<'_>, round: Rc<FanOut<Extension>>) {
        *self.doing.borrow_mut() = Doing::HearingOut(round);
        self.remind(cx, cx.now().after(HEAR_OUT));
    }

    /// Has the nodes that contenders got for a while set the key again.
    pub(super) fn repair_again(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        round: &FanOut<Extension>,
    ) -> Option<Rc<FanOut<Extension>>> {
        let now = cx.now();
        self.asked_at.set(now);
        let answer_by = now.after(cx.settings.node_timeout);
        let (again, up_to) = round.with(|round| round.repair_again(now, answer_by))?;
        let repair_until = self.lease.borrow().repair_until()?;
        let round = Rc::new(FanOut::new(again, reply::extend, Note::Nobody));
        let mut rounds = self.rounds.borrow_mut();
        if !self.claim.attempt.with(|attempt| rounds.begin(round.clone(), attempt)) {
            return None;
        }
        let ttl = self.claim.terms.ttl;
        self.claim.repair_again(client, cx, &round, ttl, repair_until, &up_to);
        Some(round)
    }

    /// Whether somebody has deleted its keys, and nothing has set one again, or is under way to.
    pub(super) fn is_gone(&self, cx: &mut Cx<'_>) -> bool {
        let settled = self.asked_at.get().after(cx.settings.node_timeout) < cx.now();
        let (now, owner) = (cx.net.now, self.claim.owner.as_bytes());
        let key = &self.claim.key;
        let ours = cx.net.nodes.iter_mut().any(|n| n.value(key, now).as_deref() == Some(owner));
        settled && !ours && cx.net.checks.is_deleted(self.id)
    }

    /// Ends the renewal; whether this was the first to do so.
    pub(super) fn end(&self, client: &mut Client, cx: &mut Cx<'_>) -> bool {
        let first = self.claim.attempt.with(|attempt| self.rounds.borrow_mut().end(attempt));
        if first {
            cx.net.checks.ended(self.id);
            if let Some(held) = client.held.remove(&self.id) {
                client.ending.insert(self.id, held);
            }
        }
        first
    }

    /// The guard is dropped; whether that was the end of the lock, or of its holder's time.
    pub(super) fn drop_guard(self: &Rc<Self>, client: &mut Client, cx: &mut Cx<'_>) -> bool {
        if client.hand_over(cx, self) {
            return true;
        }
        let first = self.end(client, cx);
        if first {
            let longest_ttl = self.lease.borrow().longest_ttl();
            client.give_back(cx, &self.claim, longest_ttl);
            client.gone(cx, self, false);
        }
        first
    }

    fn lose(self: &Rc<Self>, client: &mut Client, cx: &mut Cx<'_>, reason: LossReason) {
        let ended = cx.clock.when(self.lease.borrow().valid_until());
        if self.end(client, cx) {
            let who = cx.client;
            cx.net.tell(|| {
                format!("client {who}: {} is told that it is lost: {reason:?}", self.claim.short())
            });
            cx.net.checks.told(who, &self.claim, self.lease_terms(), reason, ended, cx.net.now);
            let longest_ttl = self.lease.borrow().longest_ttl();
            client.release(cx, &self.claim, longest_ttl);
            client.gone(cx, self, true);
        }
        client.ending.remove(&self.id);
    }
}
