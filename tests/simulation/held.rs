//! A held lock, and the work of the timer for it. It runs the machines of `core/hold/held_lock.rs`.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::checkers::{Agreed, LeaseTerms, ended_with_its_last_holder, heard_of_its_end};
use super::claim::Claim;
use super::client::{Client, Cx, Note, Settings};
use super::fan_out::FanOut;
use super::node::SimNode;
use super::shared::Shared as ClientShared;
use crate::core::base::{Basis, HoldClass, Time};
use crate::core::hold::{
    Due, Ended, GiveBack, GiveBackStep, GivenBack, HeldLock, LossNotice, LossReason, Prolong,
    ProlongStep, Prolonged, ReadRequest, Schedule, Terms,
};
use crate::core::queue::{LocalLease, OfThread, QueueTicket};
use crate::core::vote::{Attempt, Extension, FencingToken, Grant, Quorum, Release, Shared};
use crate::kinds::contract::reply;

/// Polling interval of the machine while it waits for answers that wake nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

type Lock = HeldLock<Rc<FanOut<Attempt>>, Rc<FanOut<Extension>>>;

/// One holder's right to a lock, which its guard owns.
#[derive(Clone)]
pub(super) struct Hold {
    pub(super) held: Rc<Held>,
    /// Its number among the holders of the lock.
    pub(super) sequence: u64,
    state: Rc<HoldState>,
}

struct HoldState {
    /// Sequence number in its token. If its thread has taken the lock again, it is that of the first hold.
    token_of: u64,
    /// Its thread, if that may take the lock again, and the class under which it counts for that thread.
    thread: Cell<Option<(u64, HoldClass)>>,
    /// Its notice of a loss.
    notice: RefCell<LossNotice<()>>,
}

pub(super) struct Held {
    pub(super) id: u64,
    pub(super) claim: Claim,
    lock: RefCell<Lock>,
    shared: Rc<ClientShared>,
    /// Its number in the local queue of its name.
    pub(super) ticket: QueueTicket,
    /// The guards that have not been given back or dropped, by sequence number.
    guards: RefCell<BTreeMap<u64, Rc<HoldState>>>,
    /// The terms of its present holder, and the time at which that one began.
    pub(super) terms: Cell<Terms>,
    pub(super) since: Cell<Time>,
    /// End of the time that its holder has asked for, renewals aside, and the end of its validity when that was last reported.
    pub(super) wanted: Cell<Time>,
    pub(super) promised: Cell<Time>,
    /// True if a holder has asked for another time than the TTL.
    pub(super) is_extended: Cell<bool>,
    /// Time of the last request to the nodes.
    asked_at: Cell<Time>,
    /// Outdates the notes that were scheduled before, for checks and for the renewal.
    checked: Cell<u64>,
    renewed: Cell<u64>,
    /// The renewal under way.
    renewal: RefCell<Option<Prolonging>>,
}

/// A renewal, or an extension by the holder.
pub(super) type Prolonging = Prolong<Rc<FanOut<Extension>>>;

impl Held {
    pub(super) fn begin(
        client: &mut Client,
        cx: &mut Cx<'_>,
        claim: Claim,
        grant: Grant,
        ticket: QueueTicket,
    ) -> Hold {
        let id = cx.net.fresh();
        let part = (id % 8) as f64 / 7.0;
        let schedule = Schedule::new(part, Schedule::phase((cx.client % 4) as f64 / 4.0));
        let Settings { nodes, node_timeout, .. } = cx.settings;
        let lock = HeldLock::new(
            claim.attempt.clone(),
            cx.settings.class_of(claim.lock),
            claim.terms,
            &grant,
            schedule,
            nodes,
            node_timeout,
        );
        let held = Rc::new(Self {
            id,
            wanted: Cell::new(grant.started.after(claim.terms.ttl)),
            promised: Cell::new(lock.valid_until()),
            is_extended: Cell::new(false),
            asked_at: Cell::new(cx.now()),
            ticket,
            guards: RefCell::default(),
            terms: Cell::new(claim.terms),
            since: Cell::new(grant.started),
            claim,
            lock: RefCell::new(lock),
            shared: cx.shared.clone(),
            checked: Cell::new(0),
            renewed: Cell::new(0),
            renewal: RefCell::default(),
        });
        client.held.insert(held.id, held.clone());
        client.won(cx, &held, grant);
        held.enter(cx);
        held.new_guard(0, 0)
    }

    /// Returns the machine, which compares the numbers of suspensions first, as in `src/runtime/held.rs`.
    pub(super) fn lock(&self) -> RefMut<'_, Lock> {
        let mut lock = self.lock.borrow_mut();
        lock.handle_suspensions(self.claim.suspensions, self.shared.suspensions.get());
        lock
    }

    /// Returns the holds of all guards.
    pub(super) fn holds(self: &Rc<Self>) -> Vec<Hold> {
        let hold = |(sequence, state): (&u64, &Rc<HoldState>)| Hold {
            held: self.clone(),
            sequence: *sequence,
            state: state.clone(),
        };
        self.guards.borrow().iter().map(hold).collect()
    }

    fn new_guard(self: &Rc<Self>, sequence: u64, token_of: u64) -> Hold {
        let (thread, notice) = (Cell::new(None), RefCell::new(LossNotice::Open(())));
        let state = Rc::new(HoldState { token_of, thread, notice });
        self.guards.borrow_mut().insert(sequence, state.clone());
        Hold { held: self.clone(), sequence, state }
    }

    /// Returns true if its renewal waits for the note with that epoch.
    pub(super) fn heeds(&self, epoch: u64) -> bool {
        self.renewed.get() == epoch
    }

    /// Returns true if it has exactly one holder.
    pub(super) fn has_one_holder(&self) -> bool {
        self.guards.borrow().len() == 1
    }

    /// The agreement with its present holder.
    pub(super) fn agreed(&self) -> Agreed {
        Agreed {
            terms: self.terms.get(),
            since: self.since.get(),
            wanted: self.wanted.get(),
            promised: self.promised.get(),
        }
    }

    /// The terms on which it is held, for the checkers.
    pub(super) fn lease_terms(&self) -> LeaseTerms {
        let on_first = self.lock().basis() == Basis::FirstNode;
        LeaseTerms { terms: self.terms.get(), on_first }
    }

    /// Makes another caller its holder from now on, under that sequence number.
    pub(super) fn handed_over(self: &Rc<Self>, sequence: u64, terms: Terms, now: Time) -> Hold {
        self.guards.borrow_mut().clear();
        self.terms.set(terms);
        self.since.set(now);
        // The new holder's time may end before that of the previous one.
        self.promised.set(self.lock().valid_until());
        self.new_guard(sequence, sequence)
    }

    pub(super) fn ended(&self) -> bool {
        self.lock().has_ended()
    }

    pub(super) fn has_name(&self, name: usize) -> bool {
        self.claim.lock.has(name)
    }

    /// Has the first node report a request to give it up.
    pub(super) fn hears_ask(&self, now: Time) {
        let mut lock = self.lock();
        lock.hear_asks();
        let request = ReadRequest { id: self.id.to_string(), reason: String::new() };
        let _ = lock.handle_ask_read(0, vec![request], now);
    }

    /// Has the timer check the lock at the time at which that is due, as far as is known now.
    pub(super) fn enter(&self, cx: &mut Cx<'_>) {
        if self.ended() {
            return;
        }
        let now = cx.now();
        let at = self.lock().look_at(now).unwrap_or(now);
        let late = if cx.net.chance.one_in(20) { cx.net.chance.ms(0..20) } else { Duration::ZERO };
        self.checked.set(cx.net.fresh());
        cx.remind(at.after(late), Note::Held { lock: self.id, epoch: self.checked.get() });
    }

    /// The timer checks the lock.
    pub(super) fn check(client: &mut Client, lock: u64, epoch: u64, cx: &mut Cx<'_>) {
        let Some(held) = client.held_or_ending(lock).filter(|held| held.checked.get() == epoch)
        else {
            return;
        };
        let due = held.lock().take_up(cx.now());
        match due {
            Due::Nothing => _ = client.ending.remove(&held.id),
            Due::Loss => _ = Ending::lost(&held).carry_out(client, cx, None),
            Due::Renewal | Due::RenewalAt(_) | Due::EndAt(_) => {
                held.tell_risk(cx);
                held.enter(cx);
            }
        }
        if due == Due::Renewal {
            let chance = &mut cx.net.chance;
            let late = if chance.one_in(10) { chance.ms(0..30) } else { Duration::ZERO };
            held.renewed.set(cx.net.fresh());
            cx.remind(cx.now().after(late), held.renewal_note());
        }
    }

    fn renewal_note(&self) -> Note {
        Note::Renewal { lock: self.id, epoch: self.renewed.get() }
    }

    /// Carries on the renewal that was taken up, and begins it first.
    pub(super) fn carry_on(client: &mut Client, lock: u64, epoch: u64, cx: &mut Cx<'_>) {
        let Some(held) = client.held_or_ending(lock).filter(|held| held.renewed.get() == epoch)
        else {
            return;
        };
        let under_way = held.renewal.take();
        let is_under_way = under_way.is_some();
        let up = client.workers.iter().filter(|worker| !worker.is_down()).count();
        let renewal = under_way.or_else(|| Prolong::taken_up(&mut held.lock(), up, cx.now()));
        if let Some(mut renewal) = renewal {
            // The lock may change between the decision and the request.
            let chance = &mut cx.net.chance;
            let late = chance.one_in(10).then(|| chance.ms(0..30));
            let late = cx.settings.habit.renews_late().or(late).filter(|_| !is_under_way);
            let goes_on = match late {
                Some(late) => {
                    cx.remind(cx.now().after(late), held.renewal_note());
                    true
                }
                None => {
                    let note = held.renewal_note();
                    held.prolong(client, cx, &mut renewal, note).is_none()
                }
            };
            if goes_on {
                held.renewal.replace(Some(renewal));
                return;
            }
            held.lock().renewal_is_over();
        }
        held.renewed.set(cx.net.fresh());
        held.enter(cx);
        held.tell_risk(cx);
    }

    /// Carries a renewal or an extension on until it must wait for an event that wakes `waiter`. Returns the outcome
    /// once it is done.
    pub(super) fn prolong(
        &self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        prolong: &mut Prolonging,
        waiter: Note,
    ) -> Option<Prolonged> {
        loop {
            let now = cx.now();
            let step = prolong.poll(&mut self.lock(), now);
            match step {
                ProlongStep::Ask(extension, request) => {
                    self.asked_at.set(now);
                    let round = Rc::new(FanOut::new(*extension, reply::extend, waiter));
                    prolong.handle_begun(&mut self.lock(), round.clone());
                    self.claim.extend(client, cx, &round, &request);
                }
                ProlongStep::QuorumReached => cx.shared.note_quorum(Quorum::Reached, now, now),
                ProlongStep::AwaitVerdict(until) => {
                    cx.remind(until, waiter);
                    return None;
                }
                ProlongStep::AwaitAnswers(until) => {
                    cx.remind(until.min(now.after(LOOK_AGAIN)), waiter);
                    return None;
                }
                ProlongStep::Done(prolonged) => return Some(prolonged),
            }
        }
    }

    /// Tells the holders that the lock is at risk, or not any more, if that is news.
    pub(super) fn tell_risk(&self, cx: &mut Cx<'_>) {
        let news = self.lock().poll_risk(cx.now());
        if let Some(news) = news {
            let (who, claim) = (cx.client, &self.claim);
            cx.net.tell(|| format!("client {who}: {} is told of a risk: {news:?}", claim.short()));
            cx.net.checks.risk_told(self.id, claim, news, cx.net.now);
        }
    }

    /// Returns true if somebody has deleted its keys, none is set again, and no request that could set one is under way.
    pub(super) fn is_gone(&self, cx: &mut Cx<'_>) -> bool {
        let settled = self.asked_at.get().after(cx.settings.node_timeout) < cx.now();
        let (now, owner) = (cx.net.now, self.claim.owner().as_bytes());
        let has_any =
            |node: &mut SimNode| self.claim.keys.iter().any(|key| node.has(key, owner, now));
        let ours = cx.net.nodes.iter_mut().any(has_any);
        settled && !ours && cx.net.checks.is_deleted(self.id)
    }
}

impl Hold {
    /// The token that its holder has.
    pub(super) fn token(&self) -> Option<FencingToken> {
        FencingToken::new(self.held.claim.number, self.state.token_of)
    }

    /// Counts it as one of the thread's guards of that class.
    pub(super) fn of_thread(&self, thread: u64, class: HoldClass) {
        self.state.thread.set(Some((thread, class)));
    }

    /// Returns the class under which it counts among the guards of its thread.
    pub(super) fn class(&self) -> Option<HoldClass> {
        self.state.thread.get().map(|(_, class)| class)
    }

    /// Makes the holder share the lock from now on.
    pub(super) fn downgrade(&self, client: &mut Client, cx: &mut Cx<'_>) {
        let (held, now) = (&self.held, cx.now());
        if let Some((thread, _)) = self.state.thread.get() {
            self.state.thread.set(Some((thread, HoldClass::Shared)));
            let lock = held.claim.of_group();
            cx.shared.queues.borrow_mut().guard_downgraded(&lock, thread);
        }
        let is_downgraded = held.lock().downgrade(self.sequence, now);
        if is_downgraded {
            let who = cx.client;
            cx.net.tell(|| format!("client {who}: {} is downgraded", held.claim.short()));
            held.claim.downgrade();
            client.downgraded(cx, held);
            held.enter(cx);
        }
    }

    /// Drops the guard. Returns true if that was the end of the lock, or of its holder's time.
    pub(super) fn drop_guard(&self, client: &mut Client, cx: &mut Cx<'_>) -> bool {
        let mut ending = Ending::new(cx, self, GiveBack::dropped(self.sequence));
        ending.carry_out(client, cx, None);
        ending.has_left
    }
}

/// A lock's end under way, or the end of one holder's time with it.
pub(super) struct Ending {
    pub(super) held: Rc<Held>,
    machine: GiveBack,
    /// The holder that leaves; `None` if the lock is lost.
    leaving: Option<Hold>,
    /// True once the holder has handed the lock over or left it, or the lock has ended.
    pub(super) has_left: bool,
    /// The release whose answers are counted.
    pub(super) release: Option<Rc<FanOut<Release>>>,
}

impl Ending {
    pub(super) fn new(cx: &Cx<'_>, hold: &Hold, machine: GiveBack) -> Self {
        if let Some((thread, class)) = hold.state.thread.take() {
            let lock = &hold.held.claim.of_group();
            cx.shared.queues.borrow_mut().left(OfThread { thread, lock, class });
        }
        let (held, leaving) = (hold.held.clone(), Some(hold.clone()));
        Self { held, machine, leaving, has_left: false, release: None }
    }

    fn lost(held: &Rc<Held>) -> Self {
        let (held, machine) = (held.clone(), GiveBack::lost());
        Self { held, machine, leaving: None, has_left: false, release: None }
    }

    /// Handles the answers to the release, once they have come or their time is over.
    pub(super) fn answered(&mut self) {
        if let Some(release) = &self.release {
            self.machine.handle_released(release.with(|release| release.result()));
        }
    }

    /// Carries out the machine's steps. Returns the outcome; `None` if the verdict on the release will wake `waiter`.
    pub(super) fn carry_out(
        &mut self,
        client: &mut Client,
        cx: &mut Cx<'_>,
        waiter: Option<Note>,
    ) -> Option<GivenBack> {
        let held = self.held.clone();
        loop {
            match self.machine.poll() {
                GiveBackStep::HandOver => {
                    let hold = self.leaving.as_ref();
                    self.has_left = hold.is_some_and(|hold| client.hand_over(cx, hold));
                    self.machine.handle_handed_over(self.has_left);
                }
                GiveBackStep::Leave => self.leave(client, cx),
                GiveBackStep::LookAtLease => held.enter(cx),
                GiveBackStep::TellDowngrade => client.downgraded(cx, &held),
                GiveBackStep::SendReleases(releases) => {
                    self.release = client.give_back(cx, &held.claim, &releases, waiter);
                }
                GiveBackStep::TellOfOthers => client.others_want(cx, &held),
                GiveBackStep::TellQueue { lost } => client.gone(cx, &held, lost),
                GiveBackStep::AwaitRelease(within) => {
                    let note = waiter.expect("only a caller that unlocks waits");
                    cx.remind(cx.now().after(within), note);
                    return None;
                }
                GiveBackStep::TellLoss(reason) => self.tell(cx, reason),
                GiveBackStep::TellGivenBack => {
                    self.leaving
                        .iter()
                        .for_each(|hold| _ = hold.state.notice.borrow_mut().given_back());
                }
                GiveBackStep::ReportLoss(_) => {}
                GiveBackStep::Done(given_back) => {
                    self.check_notice(cx, given_back);
                    return Some(given_back);
                }
            }
        }
    }

    fn leave(&mut self, client: &mut Client, cx: &mut Cx<'_>) {
        let held = &self.held;
        let ended = self.machine.leave(&mut held.lock(), cx.now());
        self.has_left = ended != Ended::Before;
        if let Ended::OthersHold { downgraded: true, .. } = ended {
            let who = cx.client;
            cx.net.tell(|| format!("client {who}: {} is downgraded", held.claim.short()));
            held.claim.downgrade();
        }
        if let Ended::Now(_) = ended {
            cx.net.checks.ended(held.id);
            if let Some(held) = client.held.remove(&held.id) {
                client.ending.insert(held.id, held);
            }
        }
        match &self.leaving {
            Some(hold) => {
                held.guards.borrow_mut().remove(&hold.sequence);
                let others = held.guards.borrow().len();
                if let Some(what) = ended_with_its_last_holder(ended, others) {
                    let what = format!("{}: {what}", held.claim.short());
                    cx.net.checks.report(cx.net.now, "holders", what);
                }
            }
            None => _ = client.ending.remove(&held.id),
        }
    }

    /// Tells the holders that hear of the loss.
    fn tell(&mut self, cx: &mut Cx<'_>, reason: LossReason) {
        let held = self.held.clone();
        let claim = &held.claim;
        let holds: Vec<_> = self.leaving.iter().cloned().chain(self.held.holds()).collect();
        let (who, ended) = (cx.client, cx.clock.when(held.lock().valid_until()));
        // By a clock that has stood still, a validity that is over seems to last.
        let ended = if cx.clock.has_stood_still { ended.min(cx.net.now) } else { ended };
        let mut told = false;
        self.machine.tell_loss(&mut held.lock(), |holder| {
            let hold = holds.iter().find(|hold| hold.sequence == holder);
            let notice = hold.and_then(|hold| hold.state.notice.borrow_mut().lost(reason));
            told |= notice.is_some();
            notice.is_some()
        });
        let has_heard = |hold: &Hold| !matches!(*hold.state.notice.borrow(), LossNotice::Open(()));
        if self.leaving.is_none() && !holds.iter().all(has_heard) {
            let what = format!("{}: a holder does not hear of the loss", claim.short());
            cx.net.checks.report(cx.net.now, "losses", what);
        }
        if told {
            cx.net.tell(|| {
                format!("client {who}: {} is told that it is lost: {reason:?}", claim.short())
            });
            // A leaving holder determines the time of its notice itself, also in a paused process.
            if self.leaving.is_none() {
                let now = cx.net.now;
                // A short extension leaves no time for a warning.
                let is_watched = self.held.terms.get().renewed && !self.held.is_extended.get();
                let failed = reason == LossReason::Unconfirmed && is_watched;
                cx.net.checks.loss_told(who, (self.held.id, claim), (ended, failed), now);
                cx.net.checks.told(who, claim, self.held.lease_terms(), reason, ended, now);
            }
        }
    }

    /// Checks that the holder that has left was told the outcome.
    fn check_notice(&self, cx: &mut Cx<'_>, given_back: GivenBack) {
        let Some(hold) = self.leaving.as_ref().filter(|_| self.has_left) else { return };
        if let Some(what) = heard_of_its_end(given_back, &hold.state.notice.borrow()) {
            let what = format!("{}: {what}", self.held.claim.short());
            cx.net.checks.report(cx.net.now, "losses", what);
        }
    }
}

impl LocalLease for Rc<Held> {
    type Hold = Hold;
    type Thread = u64;

    fn held_until(&self, now: Time) -> Option<Time> {
        self.lock().in_queue_until(now)
    }

    fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Hold> {
        let joins = self.lock().join(terms, sequence, now);
        joins.then(|| self.new_guard(sequence, sequence))
    }

    fn reenter(&self, sequence: u64, class: HoldClass, now: Time) -> Result<Hold, LossReason> {
        let number = self.lock().reenter(class, now)?;
        Ok(self.new_guard(number, sequence))
    }
}
