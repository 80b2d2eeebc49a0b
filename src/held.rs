//! A lock that is held: its lease, its renewal, its end.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Mutex, MutexGuard};

use crate::claim::Claim;
use crate::clock;
use crate::core::{
    Basis, Extension, Grant, Lease, LossReason, Next, OpenRound, Renewed, Rounds, Time, majority,
    rounded,
};
use crate::error::{Error, ErrorKind, NodeFault};
use crate::fan_out::FanOut;
use crate::hold::{Hold, HoldState};
use crate::kinds::reply;
use crate::node::Node;
use crate::observe;
use crate::queue::LeaseId;
use crate::random::random;
use crate::renewal::Entry;

mod ending;

/// A lock that was granted, until it is given back or lost.
pub(crate) struct Held {
    claim: Claim,
    lease: Mutex<Lease>,
    /// Its line among the threads of this process.
    lease_id: LeaseId,
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
    pub(crate) fn granted(mut claim: Claim, grant: Grant, lease_id: LeaseId) -> Hold {
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
            lease_id,
            rounds: Mutex::new(rounds),
            hold_state: Mutex::new(hold_state.clone()),
            entry: Mutex::new(None),
            poke: Mutex::new(Some(poke)),
            poked,
        });
        Hold::new(held, hold_state)
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(crate) fn lease_id(&self) -> &LeaseId {
        &self.lease_id
    }

    /// The lease; it is over, if this machine was suspended since the lock was asked for.
    fn lease(&self) -> MutexGuard<'_, Lease> {
        let mut lease = self.lease.lock();
        if self.claim.suspensions() != self.claim.coordinator().set().suspensions() {
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
        self.claim.coordinator().settings().check_ttl(ttl)?;
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
        let nodes = self.claim.coordinator().nodes();
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
        let timetable = self.claim.coordinator().timetable();
        let before = entry.replace(timetable.enter(self, due));
        drop(entry);
        if let Some(before) = before {
            timetable.strike(before);
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
        let settings = self.claim.coordinator().settings();
        let nodes = self.claim.coordinator().nodes().len();
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
        let coordinator = self.claim.coordinator();
        let (answer_by, ttl) = (extension.answer_by(), extension.ttl());
        let round = FanOut::new(extension, reply::extend, coordinator.names());
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
            coordinator.quorum_reached();
        }
        if renewed != Renewed::Gone {
            self.repair_again(&round, ttl, patient);
        }
        if renewed == Renewed::Unknown {
            let doubtful = round.with(|extension| extension.is_doubtful(now));
            let faults = round.faults(coordinator.nodes(), answer_by);
            return Err(Unconfirmed { doubtful, faults });
        }
        Ok(())
    }

    /// Has the nodes that contenders got for a while set the key again. Whoever is `patient` waits for
    /// their answers, for a moment each, and tries again where that is due.
    fn repair_again(&self, round: &Arc<FanOut<Extension>>, ttl: Duration, patient: bool) {
        let coordinator = self.claim.coordinator();
        let mut round = round.clone();
        loop {
            let now = clock::now();
            let answer_by = now.after(coordinator.settings().node_timeout);
            if patient {
                round.hear_out(answer_by);
            }
            let Some((again, up_to)) = round.with(|round| round.repair_again(now, answer_by))
            else {
                return;
            };
            let Some(repair_until) = self.lease().repair_until() else { return };
            round = FanOut::new(again, reply::extend, coordinator.names());
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
