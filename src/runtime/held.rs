//! A lock that is held: its lease, its renewal, its end.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::clock;
use crate::core::{
    Basis, Extension, Grant, Lease, LossReason, Next, OpenRound, QueueTicket, ReleaseResult,
    Renewed, Rounds, Time, majority, rounded,
};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::ident::release_channel;
use crate::node::{Node, Sink};
use crate::observe;
use crate::random::random;
use crate::runtime::claim::Claim;
use crate::runtime::contention_sink::ContentionSink;
use crate::runtime::fan_out::FanOut;
use crate::runtime::hold_state::HoldState;
use crate::runtime::loss::Callbacks;
use crate::runtime::reply;
use crate::runtime::timetable::{Entry, Timetable};

/// A lock that was granted, until it is given back or lost.
pub(crate) struct Held {
    claim: Claim,
    lease: Mutex<Lease>,
    /// The threads of this process that want the lock as well.
    local_waiters: Arc<dyn LocalWaiters>,
    timetable: Arc<Timetable<Self>>,
    /// Locked while an extension is queued, while the lock is handed over, and while it is ended.
    rounds: Mutex<Rounds<Arc<FanOut<Extension>>>>,
    /// Who holds it now; changes only while `rounds` is locked.
    hold_state: Mutex<Arc<HoldState>>,
    /// The place in the timetable, while there is no renewal thread.
    entry: Mutex<Option<Entry>>,
    /// A message has the renewal thread look at the lease again; the end of the sender ends it.
    poke: Mutex<Option<Sender<()>>>,
    poked: Receiver<()>,
}

/// The threads of this process that want a lock as well: what a lock that is held needs of them.
pub(crate) trait LocalWaiters: Send + Sync {
    /// The holder gives `held` back. Returns whether it was handed to the next of them.
    fn hand_over(&self, held: &Arc<Held>, hold_state: &Arc<HoldState>) -> bool;

    /// The lease, which was that `owner`'s, has been given back to the nodes, or was `lost`.
    fn gone(&self, owner: &str, lost: bool);

    /// A node has told so many `others` of the lock's release, in other processes.
    fn heard(&self, others: u32);
}

/// What came of a round that too few nodes confirmed.
struct Unconfirmed {
    /// Requests were sent twice, so that nothing can be concluded from their answers.
    doubtful: bool,
    /// What was wrong with which node.
    faults: Vec<NodeFault>,
}

impl OpenRound for Arc<FanOut<Extension>> {
    fn with<R>(&self, f: impl FnOnce(&mut Extension) -> R) -> R {
        FanOut::with(self, f)
    }
}

impl Held {
    /// The claim was granted. [`enter`](Self::enter) is still to be called.
    pub(crate) fn granted(
        mut claim: Claim,
        grant: Grant,
        local_waiters: Arc<dyn LocalWaiters>,
        timetable: &Arc<Timetable<Self>>,
    ) -> (Arc<Self>, Arc<HoldState>) {
        let Grant { valid_until, number, basis, .. } = grant;
        claim.won(number);
        let hold_state = HoldState::new(claim.token(0));
        let lease = Lease::new(claim.terms(), basis, claim.started(), valid_until);
        let lease = lease.jittered(random());
        let rounds = Rounds::new();
        let (poke, poked) = bounded(1);
        let held = Arc::new(Self {
            claim,
            lease: Mutex::new(lease),
            local_waiters,
            timetable: timetable.clone(),
            rounds: Mutex::new(rounds),
            hold_state: Mutex::new(hold_state.clone()),
            entry: Mutex::new(None),
            poke: Mutex::new(Some(poke)),
            poked,
        });
        (held, hold_state)
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn timetable(&self) -> &Arc<Timetable<Self>> {
        &self.timetable
    }

    /// The lease; it is over, if this machine was suspended since the lock was asked for.
    fn lease(&self) -> MutexGuard<'_, Lease> {
        let mut lease = self.lease.lock();
        if self.claim.suspensions() != self.claim.state().set().suspensions() {
            lease.suspended();
        }
        lease
    }

    /// What the lock rests on.
    pub(crate) fn basis(&self) -> Basis {
        self.lease().basis()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.lease().remaining(clock::now())
    }

    /// Until when it is certainly ours, as far as is known now; `None` if it is not.
    pub(crate) fn held_until(&self) -> Option<Time> {
        let (now, left) = (clock::now(), self.remaining());
        (!left.is_zero() && !self.has_ended()).then(|| now.after(left))
    }

    /// `Lost`, once the lock is not certainly ours any more. Whoever sees that first tells it.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let now = clock::now();
        let mut lease = self.lease();
        let Some(reason) = lease.loss(now) else { return Ok(()) };
        let ended_ago = lease.ended_ago(now);
        drop(lease);
        self.tell_holder(reason);
        Err(self.lost(&match reason {
            LossReason::Expired => format!("{reason} {} ago", rounded(ended_ago)),
            LossReason::MaxHold => format!("{reason}, which ended {} ago", rounded(ended_ago)),
            LossReason::KeysGone | LossReason::ClockStoodStill => reason.to_string(),
        }))
    }

    /// Has the keys live for `ttl` from now on at least, and the lease with them.
    pub(crate) fn extend(self: &Arc<Self>, ttl: Duration) -> Result<(), Error> {
        self.claim.state().settings().check_ttl(ttl)?;
        self.check()?;
        let extension = self.extension(ttl);
        self.lease().extending(extension.ttl(), clock::now(), extension.valid_at_most());
        let confirmed = self.confirm(extension, ttl, false);
        self.check_again();
        self.check()?;
        confirmed.map_err(|faults| {
            let message = format!(
                "{} could not be extended: too few nodes confirmed it in time",
                self.claim.name()
            );
            Error::new(ErrorKind::NoQuorum, message).with_faults(faults)
        })
    }

    /// What is to be done about the lease, and when.
    pub(crate) fn next(&self, now: Time) -> Next {
        self.lease().next(now)
    }

    /// One round of renewal.
    pub(crate) fn renew(&self) {
        let ttl = self.claim.terms().ttl;
        let known = self.lease().is_unknown();
        let confirmed = match self.hopeless() {
            Some(faults) => {
                self.lease().renewed(Renewed::Unknown, clock::now());
                Err(faults)
            }
            None => self.confirm(self.extension(ttl), ttl, true),
        };
        match confirmed {
            // Told once, and not at each further try.
            Err(faults) if !known => observe::not_renewed(self.claim.name(), &faults),
            _ => {}
        }
    }

    /// What is wrong with the nodes, if so many are known to be down that no majority can confirm.
    /// Then a round would only have the others keep a key that is of no use any more.
    fn hopeless(&self) -> Option<Vec<NodeFault>> {
        let nodes = self.claim.state().nodes();
        let faults: Vec<_> = nodes.iter().filter_map(Node::fault).collect();
        let up = nodes.len() - faults.len();
        (self.basis() == Basis::Majority && up < majority(nodes.len())).then_some(faults)
    }

    /// Gets a message when the lease has to be looked at again, and ends with the lock.
    pub(crate) fn poked(&self) -> Receiver<()> {
        self.poked.clone()
    }

    /// Has the lease looked at when it is due: by the timetable, if there is no thread for it.
    pub(crate) fn enter(self: &Arc<Self>) {
        let mut entry = self.entry.lock();
        if self.rounds.lock().ended() {
            return;
        }
        let due = match self.next(clock::now()) {
            Next::Renew(at) | Next::End(at) => at,
            Next::Over(_) => clock::now(),
        };
        let before = entry.replace(self.timetable.enter(self, due));
        drop(entry);
        if let Some(before) = before {
            self.timetable.strike(before);
        }
    }

    /// The timetable has come to this lock, and has taken `entry` out. Whether to look at it: not if it
    /// has ended, or has been entered anew meanwhile.
    pub(crate) fn taken_out(&self, entry: Entry) -> bool {
        self.entry.lock().take_if(|current| *current == entry).is_some()
    }

    /// Whether the lock has been given back, or was lost.
    pub(crate) fn has_ended(&self) -> bool {
        self.rounds.lock().ended()
    }

    fn check_again(self: &Arc<Self>) {
        if self.entry.lock().is_some() {
            self.enter();
        }
        self.poke();
    }

    /// Has the renewal thread look at the lease again, if there is one.
    pub(crate) fn poke(&self) {
        if let Some(poke) = &*self.poke.lock() {
            // Full: it is about to look anyway.
            let _ = poke.try_send(());
        }
    }

    /// A round in which the keys shall live for `ttl` from now on, if the longest hold needs that.
    fn extension(&self, ttl: Duration) -> Extension {
        let settings = self.claim.state().settings();
        let nodes = self.claim.state().nodes().len();
        let started = clock::now();
        let ttl = self.lease().ttl(ttl, started);
        let answer_by = started.after(settings.node_timeout);
        let allowance = self.claim.terms().allowance;
        Extension::new(nodes, started, answer_by, ttl, self.basis(), allowance)
    }

    /// Puts `extension` to the nodes, and another one for `ttl` if connections broke under it.
    fn confirm(
        &self,
        extension: Extension,
        ttl: Duration,
        patient: bool,
    ) -> Result<(), Vec<NodeFault>> {
        self.ask(extension, patient)
            .or_else(|unconfirmed| match unconfirmed {
                Unconfirmed { doubtful: true, .. } => self.ask(self.extension(ttl), patient),
                unconfirmed => Err(unconfirmed),
            })
            .map_err(|unconfirmed| unconfirmed.faults)
    }

    /// Puts `extension` to the nodes, waits for the verdict, and notes what it means for the lease.
    ///
    /// Whoever has time is `patient`: then nodes that were not needed for the verdict are repaired
    /// again, too, where that is due.
    fn ask(&self, extension: Extension, patient: bool) -> Result<(), Unconfirmed> {
        let client = self.claim.state();
        let (answer_by, ttl) = (extension.answer_by(), extension.ttl());
        let round = FanOut::new(extension, reply::extend, client.names());
        let (valid_until, repair_until) = {
            let lease = self.lease();
            (lease.valid_until(), lease.repair_until())
        };
        let mut rounds = self.rounds.lock();
        if !self.claim.round().with(|attempt| rounds.begin(round.clone(), attempt)) {
            return Ok(());
        }
        self.claim.extend(&round, ttl, repair_until);
        drop(rounds);
        // Not beyond the end: then the loss has to be told.
        round.wait_uninterrupted(answer_by.min(valid_until));
        let mut rounds = self.rounds.lock();
        self.claim.round().with(|attempt| rounds.hear(attempt));
        drop(rounds);
        let now = clock::now();
        let renewed = round.with(|extension| extension.result(now));
        self.lease().renewed(renewed, now);
        if matches!(renewed, Renewed::Until(_, Basis::Majority)) {
            client.quorum_reached();
        }
        if renewed != Renewed::Gone {
            self.repair_again(&round, ttl, patient);
        }
        if renewed == Renewed::Unknown {
            let doubtful = round.with(|extension| extension.is_doubtful(now));
            let faults = round.faults(client.nodes(), answer_by);
            return Err(Unconfirmed { doubtful, faults });
        }
        Ok(())
    }

    /// Has the nodes that contenders got for a while set the key again. Whoever is `patient` waits for
    /// their answers, for a moment each, and tries again where that is due.
    fn repair_again(&self, round: &Arc<FanOut<Extension>>, ttl: Duration, patient: bool) {
        let client = self.claim.state();
        let mut round = round.clone();
        loop {
            let now = clock::now();
            let answer_by = now.after(client.settings().node_timeout);
            if patient {
                round.hear_out(answer_by);
            }
            let Some((again, up_to)) = round.with(|round| round.repair_again(now, answer_by))
            else {
                return;
            };
            let Some(repair_until) = self.lease().repair_until() else { return };
            round = FanOut::new(again, reply::extend, client.names());
            let mut rounds = self.rounds.lock();
            if !self.claim.round().with(|attempt| rounds.begin(round.clone(), attempt)) {
                return;
            }
            self.claim.repair_again(&round, ttl, repair_until, &up_to);
            drop(rounds);
            if !patient {
                return;
            }
        }
    }

    fn longest_ttl(&self) -> Duration {
        self.lease().longest_ttl()
    }

    fn lost(&self, why: &str) -> Error {
        let message = format!(
            "{} is lost: {why}; stop what it protects, somebody else may hold it now",
            self.claim.name()
        );
        Error::new(ErrorKind::Lost, message)
    }
}

/// How it changes hands, and how it ends.
impl Held {
    /// The lease is over: tells the holder, and hands out who is to be called, unless somebody else has
    /// told it. `None` if it had ended before. Otherwise [`clear_away`](Self::clear_away) is still to be
    /// done.
    pub(crate) fn lose(&self, reason: LossReason) -> Option<Option<Callbacks>> {
        self.end(None).map(|hold_state| hold_state.notice.lost(reason))
    }

    /// Gives back what the lost lock has left on the nodes. The caller that was the `first` to tell the holder
    /// reports an event, too.
    pub(crate) fn clear_away(&self, reason: LossReason, first: bool) {
        self.claim.release(self.longest_ttl(), None);
        self.local_waiters.gone(self.claim.owner(), true);
        if first {
            observe::lost(self.claim.name(), reason);
        }
    }

    /// The holder itself has seen that the lock is lost, before the timetable has: there is one message for
    /// each loss, however it is found. Calls nothing here, since the holder must not be held up.
    fn tell(&self, hold_state: &HoldState, reason: LossReason) {
        let Some(callbacks) = hold_state.notice.lost(reason) else { return };
        if let Err(callbacks) = callbacks.call_apart() {
            self.timetable.leave(callbacks);
        }
        observe::lost(self.claim.name(), reason);
    }

    /// The present holder has seen it.
    fn tell_holder(&self, reason: LossReason) {
        let hold_state = self.hold_state.lock().clone();
        self.tell(&hold_state, reason);
    }

    /// The holder gives the lock back without waiting.
    pub(crate) fn give_back(self: &Arc<Self>, hold_state: &Arc<HoldState>) {
        if self.hand_over(hold_state) {
            return;
        }
        let lost = self.lease().loss(clock::now());
        if let Some(reason) = lost {
            self.tell(hold_state, reason);
        }
        if self.end(Some(hold_state)).is_some() {
            hold_state.notice.given_back();
            self.claim.release(self.longest_ttl(), Some(&self.contention_sink(None)));
            // Behind the releases, for who is next asks the same nodes over the same connections.
            self.local_waiters.gone(self.claim.owner(), lost.is_some());
        }
    }

    /// The holder gives the lock back, and hears whether it was ours until then.
    pub(crate) fn give_back_and_wait(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
    ) -> Result<(), Error> {
        let lost = self.check();
        if lost.is_ok() && self.hand_over(hold_state) {
            return Ok(());
        }
        self.end(Some(hold_state));
        let sent = || self.local_waiters.gone(self.claim.owner(), lost.is_err());
        let (longest_ttl, basis, no_wait) = (self.longest_ttl(), self.basis(), lost.is_err());
        let sink = |round| self.contention_sink(Some(round));
        let released = self.claim.release_and_wait(longest_ttl, basis, no_wait, sink, sent);
        lost?;
        if matches!(released, Ok(ReleaseResult::WasLost)) {
            self.tell(hold_state, LossReason::KeysGone);
            return Err(self.lost("its keys were gone from the nodes before it was given back"));
        }
        // Not before that is known: there would be no message about the loss.
        hold_state.notice.given_back();
        released.map(|_| ())
    }

    /// Hands the lock to the next thread of this process that waits for it, if there is
    /// one to whom it can pass.
    fn hand_over(self: &Arc<Self>, hold_state: &Arc<HoldState>) -> bool {
        let handed_over = self.local_waiters.hand_over(self, hold_state);
        if handed_over {
            // The next one may hold it for less long. First, for what a callback owns that is not called
            // any more may do anything when it is dropped.
            self.check_again();
            hold_state.notice.given_back();
        }
        handed_over
    }

    /// The lock passes from its holder to the waiter that is chosen for its lease, with its sequence number;
    /// renewal goes on. `None`: to nobody.
    pub(crate) fn pass_on(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
        choose: impl FnOnce(&mut Lease) -> Option<(QueueTicket, u64)>,
    ) -> Option<(QueueTicket, Arc<HoldState>)> {
        let rounds = self.rounds.lock();
        let mut current = self.hold_state.lock();
        if rounds.ended() || !Arc::ptr_eq(&current, hold_state) {
            return None;
        }
        let (ticket, sequence) = choose(&mut self.lease())?;
        let next = HoldState::new(self.claim.token(sequence));
        current.clone_from(&next);
        drop(current);
        drop(rounds);
        Some((ticket, next))
    }

    /// Hears whether somebody elsewhere is told of the release.
    fn contention_sink(&self, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        let local_waiters = self.local_waiters.clone();
        Arc::new(ContentionSink {
            heard: Box::new(move |others| local_waiters.heard(others)),
            subscriptions: self.claim.state().subscriptions().clone(),
            channel: release_channel(self.claim.name().key()),
            inner,
        })
    }

    /// Ends the renewal, if the lock is still that of the holder that gives it back. Returns whose it was, if
    /// this was the first call to do so.
    fn end(&self, given_back_by: Option<&Arc<HoldState>>) -> Option<Arc<HoldState>> {
        let mut rounds = self.rounds.lock();
        let hold_state = self.hold_state.lock().clone();
        if given_back_by.is_some_and(|by| !Arc::ptr_eq(by, &hold_state))
            || !self.claim.round().with(|attempt| rounds.end(attempt))
        {
            return None;
        }
        drop(rounds);
        *self.poke.lock() = None;
        if let Some(entry) = self.entry.lock().take() {
            self.timetable.strike(entry);
        }
        Some(hold_state)
    }
}
