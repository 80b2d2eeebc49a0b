//! A lock that is held: what its holders' threads, the timer and its renewal thread do to it, as [`HeldLock`] decides.

use std::mem;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::clock;
use crate::core::{
    Attempt, Basis, Ended, EndedBy, Ending, Extension, Grant, HeldLock, Lease, LossReason, Next,
    Prolong, ProlongStep, Prolonged, QueueTicket, ReleaseResult, Shared, Terms, Time, rounded,
};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::node::{Node, Sink};
use crate::observe;
use crate::random::random;
use crate::runtime::claim::Claim;
use crate::runtime::contention_sink::ContentionSink;
use crate::runtime::fan_out::FanOut;
use crate::runtime::hold_state::HoldState;
use crate::runtime::loss::Loss;
use crate::runtime::timetable::{Entry, Timetable};

/// The machine of the lock, and who holds it now.
struct State {
    lock: HeldLock<Arc<FanOut<Attempt>>, Arc<FanOut<Extension>>>,
    /// Of the holders that the machine has; when the lock has ended, of those that were left.
    hold_states: Vec<Arc<HoldState>>,
    /// Some holder was told that the lock is lost, so that the event was reported, or is about to be.
    loss_told: bool,
}

/// A lock that was granted, until it is given back or lost.
pub(crate) struct Held {
    claim: Claim,
    /// Locked while an extension is queued, while the lock is handed over or joined, and while it is ended.
    state: Mutex<State>,
    /// The threads of this process that want the lock as well.
    local_waiters: Arc<dyn LocalWaiters>,
    timetable: Arc<Timetable<Self>>,
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

impl Held {
    /// The claim was granted. [`enter`](Self::enter) is still to be called.
    pub(crate) fn granted(
        mut claim: Claim,
        grant: Grant,
        local_waiters: Arc<dyn LocalWaiters>,
        timetable: &Arc<Timetable<Self>>,
    ) -> (Arc<Self>, Arc<HoldState>) {
        claim.won(grant.number);
        let client = claim.state();
        let lock = HeldLock::new(
            claim.round().clone(),
            claim.terms(),
            &grant,
            random(),
            client.nodes().len(),
            client.settings().node_timeout,
        );
        let hold_state = HoldState::new(claim.token(0), 0);
        let (poke, poked) = bounded(1);
        let held = Arc::new(Self {
            claim,
            state: Mutex::new(State {
                lock,
                hold_states: vec![hold_state.clone()],
                loss_told: false,
            }),
            local_waiters,
            timetable: timetable.clone(),
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

    /// The machine. Its lease is over, if this computer was suspended since the lock was asked for.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if self.claim.suspensions() != self.claim.state().set().suspensions() {
            state.lock.handle_suspended();
        }
        state
    }

    /// What the lock rests on.
    pub(crate) fn basis(&self) -> Basis {
        self.state().lock.basis()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.state().lock.remaining(clock::now())
    }

    /// Until when it is certainly ours, as far as is known now; `None` if it is not.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        self.state().lock.held_until(now)
    }

    /// Whether the lock has been given back, or was lost.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().lock.has_ended()
    }

    /// What is to be done about the lease, and when.
    pub(crate) fn next(&self, now: Time) -> Next {
        self.state().lock.next(now)
    }

    /// `Lost`, once the lock is not certainly ours any more. Whoever sees that first tells it to all holders.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut state = self.state();
        let Some(reason) = state.lock.loss(clock::now()) else { return Ok(()) };
        let hold_states = state.hold_states.clone();
        drop(state);
        self.tell(&hold_states, reason);
        Err(self.lost(reason))
    }

    /// Has the keys live for `ttl` from now on at least, and the lease with them.
    pub(crate) fn extend(self: &Arc<Self>, ttl: Duration) -> Result<(), Error> {
        self.claim.state().settings().check_ttl(ttl)?;
        self.check()?;
        let (prolonged, faults) = self.prolong(Prolong::extension(ttl));
        self.check_again();
        self.check()?;
        if prolonged == Prolonged::Settled {
            return Ok(());
        }
        let message = format!(
            "{} could not be extended: too few nodes confirmed it in time",
            self.claim.names()
        );
        Err(Error::new(ErrorKind::NoQuorum, message).with_faults(faults))
    }

    /// One renewal.
    pub(crate) fn renew(&self) {
        let nodes = self.claim.state().nodes();
        let down: Vec<_> = nodes.iter().filter_map(Node::fault).collect();
        let renewal = Prolong::renewal(&self.state().lock, nodes.len() - down.len());
        match self.prolong(renewal) {
            (Prolonged::Unconfirmed { is_news: true }, faults) => {
                observe::not_renewed(self.claim.names(), &faults);
            }
            (Prolonged::Hopeless { is_news: true }, _) => {
                observe::not_renewed(self.claim.names(), &down);
            }
            _ => {}
        }
    }

    /// Carries a renewal, or the holder's extension. Also returns what was wrong with which node, where it was not
    /// confirmed.
    fn prolong(&self, mut prolong: Prolong<Arc<FanOut<Extension>>>) -> (Prolonged, Vec<NodeFault>) {
        let client = self.claim.state();
        loop {
            let mut state = self.state();
            match prolong.poll(&mut state.lock, clock::now()) {
                ProlongStep::Ask(extension, request) => {
                    let round = FanOut::new(
                        *extension,
                        self.claim.kind().decoders().extend,
                        client.names(),
                    );
                    prolong.handle_begun(&mut state.lock, round.clone());
                    // With the mutex held: behind a release, nothing must set the key again.
                    self.claim.extend(&round, &request);
                }
                ProlongStep::QuorumReached => {
                    // A subscriber of the event may be slow, and may ask for this very lock.
                    drop(state);
                    client.quorum_reached();
                }
                ProlongStep::AwaitVerdict(until) => {
                    drop(state);
                    if let Some(round) = prolong.round() {
                        round.wait_uninterrupted(until);
                    }
                }
                ProlongStep::AwaitAnswers(until) => {
                    drop(state);
                    clock::poll(until, || !prolong.awaits_answers());
                }
                ProlongStep::Done(prolonged) => {
                    drop(state);
                    let faults = prolong.round().filter(|_| prolonged != Prolonged::Settled);
                    let faults = faults.map(|round| {
                        let answer_by = round.with(|extension| extension.answer_by());
                        round.faults(client.nodes(), answer_by)
                    });
                    return (prolonged, faults.unwrap_or_default());
                }
            }
        }
    }

    /// Gets a message when the lease has to be looked at again, and ends with the lock.
    pub(crate) fn poked(&self) -> Receiver<()> {
        self.poked.clone()
    }

    /// Has the lease looked at when it is due: by the timetable, if there is no thread for it.
    pub(crate) fn enter(self: &Arc<Self>) {
        let mut entry = self.entry.lock();
        if self.has_ended() {
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

    fn lost(&self, reason: LossReason) -> Error {
        let ended_ago = clock::now().since(self.state().lock.valid_until());
        let why = match reason {
            LossReason::Expired => format!("{reason} {} ago", rounded(ended_ago)),
            LossReason::MaxHold => format!("{reason}, which ended {} ago", rounded(ended_ago)),
            LossReason::KeysGone | LossReason::ClockStoodStill => reason.to_string(),
        };
        self.lost_because(&why)
    }

    fn lost_because(&self, why: &str) -> Error {
        let message = format!(
            "{} is lost: {why}; stop what it protects, somebody else may hold it now",
            self.claim.names()
        );
        Error::new(ErrorKind::Lost, message)
    }
}

/// How it changes hands, and how it ends.
impl Held {
    /// The lease is over: tells its holders, and hands out who is to be called. `None` if it had ended before.
    /// Otherwise [`clear_away`](Self::clear_away) is still to be done.
    pub(crate) fn lose(&self, reason: LossReason) -> Option<Loss> {
        let Ended::Now(_) = self.end(EndedBy::Loss) else { return None };
        let hold_states = self.state().hold_states.clone();
        Some(self.notify(&hold_states, reason))
    }

    /// Gives back what the lost lock has left on the nodes. The caller that was the `first` to tell a holder
    /// reports an event, too.
    pub(crate) fn clear_away(&self, reason: LossReason, first: bool) {
        let longest_ttl = self.state().lock.longest_ttl();
        self.claim.release(longest_ttl, None);
        self.local_waiters.gone(self.claim.owner(), true);
        if first {
            observe::lost(self.claim.names(), reason);
        }
    }

    /// A holder itself has seen that the lock is lost, before the timetable has: there is one message for
    /// each holder, however the loss is found. Calls nothing here, since the holder must not be held up.
    fn tell(&self, hold_states: &[Arc<HoldState>], reason: LossReason) {
        let Loss { callbacks, first } = self.notify(hold_states, reason);
        for callbacks in callbacks {
            if let Err(callbacks) = callbacks.call_apart() {
                self.timetable.leave(callbacks);
            }
        }
        if first {
            observe::lost(self.claim.names(), reason);
        }
    }

    /// Sends each of those holders its message about the loss, if it has not got it.
    fn notify(&self, hold_states: &[Arc<HoldState>], reason: LossReason) -> Loss {
        let told = hold_states.iter().filter_map(|hold_state| hold_state.notice.lost(reason));
        let callbacks: Vec<_> = told.collect();
        // There is one event for each lock.
        let first = !callbacks.is_empty() && !mem::replace(&mut self.state().loss_told, true);
        Loss { callbacks, first }
    }

    /// The holder gives the lock back without waiting.
    pub(crate) fn give_back(self: &Arc<Self>, hold_state: &Arc<HoldState>) {
        if self.hand_over(hold_state) {
            return;
        }
        let ending = match self.end(EndedBy::Holder(hold_state.sequence)) {
            Ended::Now(ending) => ending,
            Ended::OthersHold { lost: None } => return hold_state.notice.given_back(),
            Ended::OthersHold { lost: Some(reason) } => {
                return self.tell(slice::from_ref(hold_state), reason);
            }
            Ended::Before => {
                // Lost, and the thread that has seen it is about to tell.
                let lost = self.state().lock.loss(clock::now());
                lost.into_iter().for_each(|reason| self.tell(slice::from_ref(hold_state), reason));
                return;
            }
        };
        if ending.lost.is_none() {
            hold_state.notice.given_back();
        }
        self.claim.release(ending.longest_ttl, Some(&self.contention_sink(None)));
        // Behind the releases, for who is next asks the same nodes over the same connections.
        self.local_waiters.gone(self.claim.owner(), ending.lost.is_some());
        // Last, for a subscriber of the event may panic.
        ending.lost.into_iter().for_each(|reason| self.tell(slice::from_ref(hold_state), reason));
    }

    /// The holder gives the lock back, and hears whether it was ours until then.
    pub(crate) fn give_back_and_wait(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
    ) -> Result<(), Error> {
        if self.hand_over(hold_state) {
            return Ok(());
        }
        let (claim, local_waiters) = (&self.claim, &self.local_waiters);
        let (longest_ttl, basis) = match self.end(EndedBy::Holder(hold_state.sequence)) {
            Ended::Now(Ending { lost: None, longest_ttl, basis }) => (longest_ttl, basis),
            Ended::OthersHold { lost: None } => {
                hold_state.notice.given_back();
                return Ok(());
            }
            Ended::OthersHold { lost: Some(reason) } => {
                self.tell(slice::from_ref(hold_state), reason);
                return Err(self.lost(reason));
            }
            Ended::Before | Ended::Now(_) => {
                // If it had ended before, it was lost, and the thread that has seen that may have much to tell before it
                // sends the releases. They are on their way when this returns, for the process may end then.
                let longest_ttl = self.state().lock.longest_ttl();
                claim.release(longest_ttl, Some(&self.contention_sink(None)));
                local_waiters.gone(claim.owner(), true);
                // Last, for a subscriber of the event may panic.
                return self.check();
            }
        };
        let sink = |round| self.contention_sink(Some(round));
        let sent = || local_waiters.gone(claim.owner(), false);
        let released = claim.release_and_wait(longest_ttl, basis, sink, sent);
        if matches!(released, Ok(ReleaseResult::WasLost)) {
            self.tell(slice::from_ref(hold_state), LossReason::KeysGone);
            let why = "its keys were gone from the nodes before it was given back";
            return Err(self.lost_because(why));
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
        let mut state = self.state();
        let (ticket, sequence) = state.lock.hand_over(hold_state.sequence, choose)?;
        let next = HoldState::new(self.claim.token(sequence), sequence);
        state.hold_states = vec![next.clone()];
        drop(state);
        Some((ticket, next))
    }

    /// A caller of this process wants the lock on `terms`, beside its present holders, under that sequence number.
    /// `None`: it cannot have it so.
    pub(crate) fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Arc<HoldState>> {
        let mut state = self.state();
        if !state.lock.join(terms, sequence, now) {
            return None;
        }
        let hold_state = HoldState::new(self.claim.token(sequence), sequence);
        state.hold_states.push(hold_state.clone());
        drop(state);
        Some(hold_state)
    }

    /// Hears whether somebody elsewhere is told of the release.
    fn contention_sink(&self, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        let local_waiters = self.local_waiters.clone();
        Arc::new(ContentionSink {
            heard: Box::new(move |others| local_waiters.heard(others)),
            subscriptions: self.claim.state().subscriptions().clone(),
            channels: self.claim.kind().channels(self.claim.names()),
            told: self.claim.kind().decoders().told,
            inner,
        })
    }

    /// A holder leaves the lock, or it is lost. If that ends it, nothing is due any more.
    fn end(&self, by: EndedBy) -> Ended {
        let mut state = self.state();
        let ended = state.lock.end(by, clock::now());
        if let (Ended::OthersHold { .. }, EndedBy::Holder(left)) = (ended, by) {
            state.hold_states.retain(|hold_state| hold_state.sequence != left);
        }
        drop(state);
        if let Ended::Now(_) = ended {
            *self.poke.lock() = None;
            if let Some(entry) = self.entry.lock().take() {
                self.timetable.strike(entry);
            }
        }
        ended
    }
}

#[cfg(all(test, feature = "embedded"))]
impl Held {
    /// As after a suspension of this machine that nobody has noticed yet.
    pub(crate) fn suspend(&self) {
        self.state().lock.handle_suspended();
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
