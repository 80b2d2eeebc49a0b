//! A lock that is held: the actions of its holders' threads and of the timer, as [`HeldLock`] decides.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::clock;
use crate::core::base::{Basis, HoldClass, Time};
use crate::core::hold::{
    Answers, Due, Ended, GiveBack, GiveBackStep, GivenBack, HeldLock, Lease, LossReason, Prolong,
    ProlongStep, Prolonged, Releases, Terms,
};
use crate::core::queue::QueueTicket;
use crate::core::vote::{Attempt, Extension, Grant, ReleaseResult, Shared};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::kinds::contract::reply;
use crate::node::{Driven, Node, Sink};
use crate::observe;
use crate::process::ThreadNumber;
use crate::runtime::claim::Claim;
use crate::runtime::fan_out::{Delivery, FanOut};
use crate::runtime::holder::HoldState;
use crate::runtime::subscriptions::{ContentionSink, Listening};
use crate::runtime::timetable::{Entry, Timetable};
pub(crate) use ending::Ending;

mod asked;
mod ending;
mod told;

type Lock = HeldLock<Arc<FanOut<Attempt>>, Arc<FanOut<Extension>>>;

/// Tells the holder with that sequence number of a loss. Returns true if that holder was not told before.
type Tell<'a> = &'a mut dyn FnMut(u64) -> bool;

/// The machine of the lock, and its present holders.
struct HeldState {
    lock: Lock,
    /// The present holders of the machine's lock; once the lock has ended, the holders that were left.
    hold_states: Vec<Arc<HoldState>>,
    /// The faults of the last renewal that was not confirmed.
    faults: Vec<NodeFault>,
}

/// A renewal, or an extension by a holder, under way.
pub(crate) type Prolonging = Prolong<Arc<FanOut<Extension>>>;

/// The thread that carries an extension on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// The timer, which renews many locks, and must not block.
    Timer,
    /// A holder that asks for the extension, and waits.
    Holder,
}

/// The event for which an extension waits, and the end of that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    Verdict(Time),
    Answers(Time),
}

impl Awaited {
    pub(crate) fn until(self) -> Time {
        match self {
            Self::Verdict(until) | Self::Answers(until) => until,
        }
    }
}

/// A lock that was granted, until it is given back or lost.
pub(crate) struct Held {
    claim: Claim,
    /// Locked while an extension is queued, while the lock is handed over or joined, and while the lock is ended.
    state: Mutex<HeldState>,
    /// The threads of this process that want the lock as well.
    local_waiters: Arc<dyn LocalWaiters>,
    timetable: Arc<Timetable<Self>>,
    /// The entry in the timetable.
    entry: Mutex<Option<Entry>>,
    /// Present once a holder wants to receive requests to release the lock.
    listens: OnceLock<Listening>,
}

/// The threads of this process that also want a lock, as far as the held lock needs them.
pub(crate) trait LocalWaiters: Send + Sync {
    /// The holder gives `held` back. Returns true if it was handed to the next of these threads.
    fn hand_over(&self, held: &Arc<Held>, hold_state: &Arc<HoldState>) -> bool;

    /// The lease of that `owner` has been given back to the nodes, or was `lost`.
    fn gone(&self, owner: &str, lost: bool);

    /// The lease can no longer be handed to any of these threads, since it has been downgraded.
    fn downgraded(&self);

    /// That thread, which may take the lock again, is about to give back one of its guards of that class.
    fn left(&self, thread: ThreadNumber, class: HoldClass);

    /// That thread has turned one of its exclusive guards into a shared one.
    fn guard_downgraded(&self, thread: ThreadNumber);

    /// A node has told that many `others` in other processes about the lock's release.
    fn heard(&self, others: u32);
}

impl Held {
    /// The claim was granted. The caller has to call [`enter`](Self::enter) after this.
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
            claim.kind().hold_class,
            claim.terms(),
            &grant,
            client.schedule(),
            client.nodes().len(),
            client.settings().node_timeout,
        );
        let hold_state = HoldState::new(claim.token(0), 0);
        let state = HeldState { lock, hold_states: vec![hold_state.clone()], faults: Vec::new() };
        let held = Arc::new(Self {
            claim,
            state: Mutex::new(state),
            local_waiters,
            timetable: timetable.clone(),
            entry: Mutex::new(None),
            listens: OnceLock::new(),
        });
        (held, hold_state)
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Returns the machine, which compares the numbers of suspensions first.
    fn state(&self) -> MutexGuard<'_, HeldState> {
        let mut state = self.state.lock();
        let suspensions = self.claim.state().set().suspensions();
        state.lock.handle_suspensions(self.claim.suspensions(), suspensions);
        state
    }

    /// Returns the basis of the lock: the nodes that back it.
    pub(crate) fn basis(&self) -> Basis {
        self.state().lock.basis()
    }

    pub(crate) fn waive_min_hold(&self) {
        self.state().lock.waive_min_hold();
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.state().lock.remaining(clock::now())
    }

    pub(crate) fn ends_by_max_hold(&self) -> bool {
        self.state().lock.ends_by_max_hold()
    }

    /// Returns the end of its validity, as far as is known now; `None` if it is not certainly ours.
    pub(crate) fn held_until(&self, now: Time) -> Option<Time> {
        self.state().lock.held_until(now)
    }

    /// Returns the same for callers that want a lease like this one: see [`HeldLock::in_queue_until`].
    pub(crate) fn in_queue_until(&self, now: Time) -> Option<Time> {
        self.state().lock.in_queue_until(now)
    }

    /// Extends the keys, and the lease with them, to at least `ttl` from now.
    pub(crate) fn extend(self: &Arc<Self>, ttl: Duration) -> Result<(), Error> {
        self.claim.state().settings().check_ttl(ttl)?;
        self.check()?;
        let (prolonged, faults) = self.prolong(Prolong::extension(ttl));
        if prolonged != Prolonged::Settled {
            self.state().faults.clone_from(&faults);
        }
        self.check_again();
        self.tell_risk();
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

    /// The timer has taken the lock out of its timetable. Returns the action that is due now: see [`HeldLock::take_up`].
    pub(crate) fn taken_up(&self) -> Due {
        self.state().lock.take_up(clock::now())
    }

    /// Returns a renewal for the timer to carry on. `None`: it is no longer due.
    pub(crate) fn renewal(&self) -> Option<Prolonging> {
        let nodes = self.claim.state().nodes();
        let up = nodes.iter().filter(|node| node.fault().is_none()).count();
        Prolong::taken_up(&mut self.state().lock, up, clock::now())
    }

    /// The timer has finished the renewal, or does not make it. The lock is checked again at its next due time.
    pub(crate) fn renewal_is_over(self: &Arc<Self>, renewal: Option<(&Prolonging, Prolonged)>) {
        if let Some((_, Prolonged::Unconfirmed { .. } | Prolonged::Hopeless { .. })) = renewal {
            self.claim.state().recorder().not_renewed();
        }
        let (is_news, faults) = match renewal {
            Some((renewal, Prolonged::Unconfirmed { is_news })) => (is_news, self.faults(renewal)),
            Some((_, Prolonged::Hopeless { is_news })) => (is_news, self.known_faults()),
            Some((_, Prolonged::Settled)) | None => (false, Vec::new()),
        };
        let mut state = self.state();
        state.lock.renewal_is_over();
        // The faults of a lost lock have still to be reported.
        let is_confirmed = renewal.is_some() && state.lock.held_until(clock::now()).is_some();
        if !faults.is_empty() || is_confirmed {
            state.faults.clone_from(&faults);
        }
        drop(state);
        self.enter();
        if is_news {
            let (names, owner) = (self.claim.names().clone(), self.claim.owner().to_owned());
            let reports = self.claim.state().reports();
            reports.tell(move || observe::not_renewed(&names, &owner, &faults));
        }
        self.tell_risk();
    }

    /// Carries the holder's extension on to its end. If it was not confirmed, also returns the faults of the nodes.
    fn prolong(self: &Arc<Self>, mut extension: Prolonging) -> (Prolonged, Vec<NodeFault>) {
        loop {
            match (self.carry_on(&mut extension, Carrier::Holder), extension.round()) {
                (ControlFlow::Continue(Awaited::Verdict(until)), Some(round)) => {
                    round.wait_uninterrupted(&mut None, until);
                }
                (ControlFlow::Continue(awaited), _) => {
                    clock::poll(awaited.until(), || !extension.awaits_answers());
                }
                (ControlFlow::Break(Prolonged::Settled), _) => {
                    return (Prolonged::Settled, Vec::new());
                }
                (ControlFlow::Break(prolonged), _) => {
                    return (prolonged, self.faults(&extension));
                }
            }
        }
    }

    /// Carries a renewal or an extension on, as far as that goes without waiting. `Break`: it is over.
    pub(crate) fn carry_on(
        self: &Arc<Self>,
        prolong: &mut Prolonging,
        carrier: Carrier,
    ) -> ControlFlow<Prolonged, Awaited> {
        let client = self.claim.state();
        loop {
            let mut state = self.state();
            let (now, before) = (clock::now(), state.lock.valid_until());
            let step = prolong.poll(&mut state.lock, now);
            // A renewal on the first node alone reaches no quorum. One that extends nothing still reaches it.
            let is_confirmed =
                matches!(step, ProlongStep::QuorumReached) || state.lock.valid_until() > before;
            if carrier == Carrier::Timer && is_confirmed {
                client.recorder().renewed(before.since(now));
            }
            match step {
                ProlongStep::Ask(extension, request) => {
                    let round = FanOut::new(*extension, reply::extend, client.names());
                    prolong.handle_begun(&mut state.lock, round.clone());
                    let delivery = match carrier {
                        Carrier::Timer => Delivery::WithOthers,
                        Carrier::Holder => Delivery::AtOnce,
                    };
                    // With the mutex held: after a release, no extension must set the key again.
                    self.claim.extend(&round, &request, delivery);
                    if state.lock.hears_asks() {
                        drop(state);
                        self.read_asks(0..client.nodes().len(), delivery);
                    }
                }
                ProlongStep::QuorumReached => {
                    // A subscriber of the event may be slow, and may ask for this very lock.
                    drop(state);
                    match carrier {
                        Carrier::Timer => client.quorum_reached_by_timer(),
                        Carrier::Holder => client.quorum_reached(),
                    }
                }
                ProlongStep::AwaitVerdict(until) => {
                    return ControlFlow::Continue(Awaited::Verdict(until));
                }
                ProlongStep::AwaitAnswers(until) => {
                    return ControlFlow::Continue(Awaited::Answers(until));
                }
                ProlongStep::Done(prolonged) => return ControlFlow::Break(prolonged),
            }
        }
    }

    /// Returns the faults of the nodes in the deciding round.
    fn faults(&self, prolong: &Prolonging) -> Vec<NodeFault> {
        prolong.round().map(|round| self.faults_of(round)).unwrap_or_default()
    }

    fn faults_of(&self, round: &Arc<FanOut<Extension>>) -> Vec<NodeFault> {
        let answer_by = round.with(|extension| extension.answer_by());
        round.faults_so_far(self.claim.state().nodes(), answer_by)
    }

    /// Returns the faults of the nodes that are known to be down.
    fn known_faults(&self) -> Vec<NodeFault> {
        self.claim.state().nodes().iter().filter_map(Node::fault).collect()
    }

    /// Enters the lock in the timetable for its next due time: see [`HeldLock::look_at`].
    pub(crate) fn enter(self: &Arc<Self>) {
        let mut entry = self.entry.lock();
        let now = clock::now();
        let look_at = self.state().lock.look_at(now);
        let Some(look_at) = look_at else { return };
        let before = entry.replace(self.timetable.enter(self, look_at));
        drop(entry);
        if let Some(before) = before {
            self.timetable.strike(before);
        }
    }

    /// The timetable has reached this lock, and has taken `entry` out. Returns true if the lock is to be checked: not if it
    /// has ended, or has been entered again meanwhile.
    pub(crate) fn taken_out(&self, entry: Entry) -> bool {
        self.entry.lock().take_if(|current| *current == entry).is_some()
    }

    /// The lease has changed, so its next due time may be different.
    fn check_again(self: &Arc<Self>) {
        if self.entry.lock().is_some() {
            self.enter();
        }
    }
}

/// Hand-over and end of the lock.
impl Held {
    /// Ends the lease and sends its holders their messages. Returns the rest of the work, which
    /// [`clear_away`](Self::clear_away) does; `None` if the lock had ended before.
    pub(crate) fn lose(self: &Arc<Self>) -> Option<Ending<'static>> {
        let mut ending = Ending::new(GiveBack::lost(), None);
        self.carry_out(&mut ending).is_none().then_some(ending)
    }

    /// Releases the keys that the lost lock has left on the nodes.
    pub(crate) fn clear_away(self: &Arc<Self>, mut ending: Ending<'_>) {
        self.carry_out(&mut ending);
    }

    /// That thread, which may take the lock again, is about to give back one of its guards of that class.
    pub(crate) fn left(&self, thread: ThreadNumber, class: HoldClass) {
        self.local_waiters.left(thread, class);
    }

    /// The holder shares the lock from now on, and waits for nothing: the timer tells the nodes. `thread` is the holder's.
    pub(crate) fn downgrade(self: &Arc<Self>, hold_state: &HoldState, thread: ThreadNumber) {
        self.local_waiters.guard_downgraded(thread);
        let mut state = self.state();
        let is_downgraded = state.lock.downgrade(hold_state.sequence, clock::now());
        if is_downgraded {
            self.claim.downgrade();
        }
        drop(state);
        if is_downgraded {
            self.local_waiters.downgraded();
            self.check_again();
        }
    }

    /// The holder gives the lock back without waiting.
    pub(crate) fn give_back(self: &Arc<Self>, hold_state: &Arc<HoldState>) {
        let dropped = GiveBack::dropped(hold_state.sequence);
        self.carry_out(&mut Ending::new(dropped, Some(hold_state)));
    }

    /// The holder gives the lock back, and learns whether it was ours until then.
    pub(crate) fn give_back_and_wait(
        self: &Arc<Self>,
        hold_state: &Arc<HoldState>,
    ) -> Result<(), Error> {
        let unlocked = GiveBack::unlocked(hold_state.sequence);
        let mut ending = Ending::new(unlocked, Some(hold_state));
        match (self.carry_out(&mut ending), &ending.release) {
            (Some(GivenBack::Lost(reason)), _) => Err(self.lost(reason)),
            (Some(GivenBack::WasLost), _) => {
                let why = "its keys were gone from the nodes before it was given back";
                Err(self.lost_because(why))
            }
            (Some(GivenBack::Unconfirmed), Some(release)) => {
                Err(self.claim.unconfirmed(release, ending.answer_by))
            }
            _ => Ok(()),
        }
    }

    /// Carries out the machine's decisions. Returns the result. `None`: the callbacks about a loss have to be called before
    /// it continues.
    #[allow(clippy::significant_drop_tightening, reason = "they are let go with the last answer")]
    fn carry_out(self: &Arc<Self>, ending: &mut Ending<'_>) -> Option<GivenBack> {
        // The nodes' connections, while the holder drives them itself.
        let mut driven = None;
        loop {
            match ending.machine.poll() {
                GiveBackStep::HandOver => {
                    let hand_over = |leaving| self.local_waiters.hand_over(self, leaving);
                    ending.machine.handle_handed_over(ending.leaving.is_some_and(hand_over));
                }
                GiveBackStep::Leave => self.leave(ending),
                GiveBackStep::LookAtLease => self.check_again(),
                GiveBackStep::TellDowngrade => self.local_waiters.downgraded(),
                GiveBackStep::SendReleases(releases) => {
                    driven = self.send_releases(ending, releases)
                }
                GiveBackStep::TellOfOthers => self.local_waiters.heard(0),
                GiveBackStep::TellQueue { lost } => {
                    self.local_waiters.gone(self.claim.owner(), lost);
                }
                GiveBackStep::AwaitRelease(within) => {
                    ending.answer_by = clock::now().after(within);
                    let result = ending.release.as_ref().map(|release| {
                        release.wait_uninterrupted(&mut driven, ending.answer_by);
                        release.with(|release| release.result())
                    });
                    driven = None;
                    ending.machine.handle_released(result.unwrap_or(ReleaseResult::Unconfirmed));
                }
                GiveBackStep::TellLoss(reason) => {
                    let leaving = ending.leaving.map(|leaving| &**leaving);
                    let machine = &mut ending.machine;
                    let tell = |lock: &mut Lock, tell: Tell<'_>| machine.tell_loss(lock, tell);
                    let (callbacks, _) = self.notify(leaving, reason, tell);
                    if leaving.is_none() {
                        ending.callbacks = callbacks;
                        return None;
                    }
                    self.have_called(callbacks);
                }
                GiveBackStep::TellGivenBack => {
                    ending.leaving.iter().for_each(|leaving| leaving.notice.given_back());
                }
                GiveBackStep::ReportLoss(reason) => match ending.leaving {
                    Some(_) => self.report_loss(reason),
                    None => self.have_loss_reported(reason),
                },
                GiveBackStep::Done(given_back) => return Some(given_back),
            }
        }
    }

    /// A holder leaves the lock, or the lock is lost. If that ends the lock, nothing is due any more.
    fn leave(&self, ending: &mut Ending<'_>) {
        let mut state = self.state();
        let ended = ending.machine.leave(&mut state.lock, clock::now());
        if let Ended::OthersHold { downgraded: true, .. } = ended {
            self.claim.downgrade();
        }
        if let (Ended::OthersHold { .. }, Some(left)) = (ended, ending.leaving) {
            state.hold_states.retain(|hold_state| hold_state.sequence != left.sequence);
        }
        drop(state);
        if let Ended::Now(_) = ended
            && let Some(entry) = self.entry.lock().take()
        {
            self.timetable.strike(entry);
        }
    }

    /// Returns the nodes' connections, if the holder drives them itself.
    fn send_releases(&self, ending: &mut Ending<'_>, releases: Releases) -> Option<Driven<'_>> {
        let claim = &self.claim;
        match releases.answers {
            Answers::Unheard => claim.release(&releases, None),
            Answers::OfOthers => claim.release(&releases, Some(&self.contention_sink(None))),
            Answers::Counted(basis) => {
                let sink = |round| self.contention_sink(Some(round));
                let (release, driven) = claim.release_counted(&releases, basis, sink);
                ending.release = Some(release);
                return driven;
            }
        }
        None
    }

    /// The lock passes from its holder to the waiter that is chosen for its lease, with its sequence number; renewal goes
    /// on. `None`: it passes to nobody.
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

    /// A caller of this process wants the lock on `terms`, together with its present holders, under that sequence number.
    /// `None`: the caller cannot have the lock on these terms.
    pub(crate) fn join(&self, terms: Terms, sequence: u64, now: Time) -> Option<Arc<HoldState>> {
        let mut state = self.state();
        if !state.lock.join(terms, sequence, now) {
            return None;
        }
        let hold_state = HoldState::new(self.claim.token(sequence), sequence);
        self.warn_further(&state, &hold_state, now);
        state.hold_states.push(hold_state.clone());
        drop(state);
        Some(hold_state)
    }

    /// A thread that got the lock under that `sequence` number takes it again, for a hold of that class and with the same
    /// token. `Err`: the lock is lost.
    pub(crate) fn reenter(
        &self,
        sequence: u64,
        class: HoldClass,
        now: Time,
    ) -> Result<Arc<HoldState>, LossReason> {
        let mut state = self.state();
        let number = state.lock.reenter(class, now)?;
        let hold_state = HoldState::new(self.claim.token(sequence), number);
        self.warn_further(&state, &hold_state, now);
        Self::ask_further(&state, &hold_state);
        state.hold_states.push(hold_state.clone());
        drop(state);
        Ok(hold_state)
    }

    /// Returns a sink that passes on the number of waiters in other processes that are told about the release.
    fn contention_sink(&self, inner: Option<Arc<dyn Sink>>) -> Arc<dyn Sink> {
        let local_waiters = self.local_waiters.clone();
        Arc::new(ContentionSink {
            heard: Box::new(move |others| local_waiters.heard(others)),
            subscriptions: self.claim.state().subscriptions().clone(),
            channels: self.claim.kind().channels(self.claim.names()),
            told: reply::told,
            inner,
        })
    }
}

#[cfg(all(test, feature = "embedded"))]
pub(crate) mod tests;
