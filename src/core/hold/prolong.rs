//! One renewal of a held lock, or one call of `extend`.

use std::time::Duration;

use super::super::base::{Basis, HoldClass, Time};
use super::super::vote::{Attempt, Ballot, Extension, HEAR_OUT, Renewed, Shared};
use super::{Due, HeldLock};

/// Prolongs the life of a held lock's keys: a round of extension, and repairs of the nodes that lost the key. A
/// doubtful round is followed by a second one: see [`Extension::is_doubtful`]. So is a round that a downgrade has closed.
///
/// The driver calls [`poll`](Self::poll) with the lock's mutex held. It keeps the mutex while it asks the nodes, and
/// releases it for everything else.
#[derive(Debug)]
pub(crate) struct Prolong<E> {
    by: Requester,
    /// Time for which the keys shall live; `None`: the time of a renewal.
    ttl: Option<Duration>,
    stage: ProlongStage,
    /// True if the deciding round tells the nodes of a downgrade.
    tells: bool,
    /// The class of the lock that the deciding round is for.
    class: HoldClass,
    /// The deciding round.
    round: Option<E>,
    /// The result of the deciding round.
    renewed: Renewed,
    /// The last round of repairs after the deciding round.
    repairs: Option<E>,
    /// True from the second round on.
    again: bool,
    /// True if an unconfirmed round is news: it is the first one since a confirmed round.
    is_news: bool,
}

/// The party that wants the keys to live longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requester {
    /// The lock is renewed. There is time to hear the nodes that the verdict did not need, and to repair them. `up`:
    /// the number of nodes that are not known to be down.
    Renewal { up: usize },
    /// The holder asks for it, and waits.
    Holder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProlongStage {
    Beginning,
    /// The verdict on the round is awaited.
    Asking {
        until: Time,
    },
    /// The verdict is reached. Nodes that contenders got for a while are repaired, after their answers were heard.
    Repairing {
        hear_until: Time,
    },
    Repaired,
    Done(Prolonged),
}

/// The next step of the driver.
#[derive(Debug)]
pub(crate) enum ProlongStep {
    /// Share the extension, hand it to [`Prolong::handle_begun`], and put the request to the nodes.
    Ask(Box<Extension>, ExtendRequest),
    /// Note that a majority can be reached.
    QuorumReached,
    /// Wait for the verdict on the round, until that time at most.
    AwaitVerdict(Time),
    /// Wait for the nodes that have not answered the round, until that time at most.
    AwaitAnswers(Time),
    /// Nothing more.
    Done(Prolonged),
}

/// The request to the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtendRequest {
    /// The class of the hold.
    pub(crate) class: HoldClass,
    /// Time for which the keys shall live from now on.
    pub(crate) ttl: Duration,
    /// End of the time for which a node that lost the key sets it again; `None`: it does not.
    pub(crate) repair_until: Option<Time>,
    /// For each node: the number up to which its fence may be above ours when it sets the key again. `None`: the node
    /// is not asked.
    pub(crate) up_to: Vec<Option<u64>>,
}

/// The result of prolonging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prolonged {
    /// The lease goes on, or the lock has ended, or is lost; the lock says which.
    Settled,
    /// Too few nodes confirmed in time. It `is_news`, unless the renewal before was not confirmed either.
    Unconfirmed { is_news: bool },
    /// The same, and no node was asked: too many are known to be down.
    Hopeless { is_news: bool },
}

impl<E: Shared<Extension> + Clone> Prolong<E> {
    /// A renewal for the agreed TTL. `up` is the number of nodes that are not known to be down.
    pub(crate) fn renewal(up: usize) -> Self {
        Self::new(Requester::Renewal { up }, None)
    }

    /// The renewal that the driver's timer has [taken up](HeldLock::take_up), as the driver gets to it; `None`: it is no longer
    /// due, as after an extension by the holder, and is over.
    pub(crate) fn taken_up<A: Shared<Attempt>>(
        held: &mut HeldLock<A, E>,
        up: usize,
        now: Time,
    ) -> Option<Self> {
        let is_due = held.due(now) == Due::Renewal;
        if !is_due {
            held.renewal_is_over();
        }
        is_due.then(|| Self::renewal(up))
    }

    /// The holder asks for `ttl` from now on.
    pub(crate) fn extension(ttl: Duration) -> Self {
        Self::new(Requester::Holder, Some(ttl))
    }

    fn new(by: Requester, ttl: Option<Duration>) -> Self {
        Self {
            by,
            ttl,
            stage: ProlongStage::Beginning,
            tells: false,
            class: HoldClass::Exclusive,
            round: None,
            renewed: Renewed::Unknown,
            repairs: None,
            again: false,
            is_news: false,
        }
    }

    /// Returns the round that decides; `None` before there is one.
    pub(crate) fn round(&self) -> Option<&E> {
        self.round.as_ref()
    }

    /// Returns the next step of the driver. The answer changes with each call, with the nodes' answers, and with
    /// time.
    pub(crate) fn poll<A: Shared<Attempt>>(
        &mut self,
        held: &mut HeldLock<A, E>,
        now: Time,
    ) -> ProlongStep {
        loop {
            match self.stage {
                ProlongStage::Beginning => {
                    if let Some(step) = self.begin(held, now) {
                        return step;
                    }
                }
                ProlongStage::Asking { until } => {
                    if now < until && !self.in_round(Extension::decided) {
                        return ProlongStep::AwaitVerdict(until);
                    }
                    self.conclude(held, now);
                    if matches!(self.renewed, Renewed::Until(_, Basis::Majority)) {
                        return ProlongStep::QuorumReached;
                    }
                }
                ProlongStage::Repairing { hear_until } => {
                    let has_time = self.by != Requester::Holder && now < hear_until;
                    if has_time && self.awaits_answers() {
                        return ProlongStep::AwaitAnswers(hear_until);
                    }
                    if let Some(step) = self.repair_again(held, now) {
                        return step;
                    }
                    self.stage = ProlongStage::Repaired;
                }
                ProlongStage::Repaired => {
                    let doubtful = self.in_round(|round| round.is_doubtful(now));
                    // A downgrade has closed the round. It happens once to a lock.
                    let superseded = self.class != held.class() && !held.has_ended();
                    self.stage = match self.renewed {
                        _ if doubtful && !self.again => ProlongStage::Beginning,
                        Renewed::Unknown if superseded => ProlongStage::Beginning,
                        // That has closed the round before it was confirmed.
                        Renewed::Unknown if held.is_given_back() => {
                            ProlongStage::Done(Prolonged::Settled)
                        }
                        Renewed::Unknown => {
                            held.risk.handle_failed();
                            ProlongStage::Done(Prolonged::Unconfirmed { is_news: self.is_news })
                        }
                        Renewed::Until(..) | Renewed::Gone => {
                            ProlongStage::Done(Prolonged::Settled)
                        }
                    };
                    self.again = true;
                }
                ProlongStage::Done(prolonged) => return ProlongStep::Done(prolonged),
            }
        }
    }

    /// The driver has shared the extension that it is about to put to the nodes.
    pub(crate) fn handle_begun<A: Shared<Attempt>>(&mut self, held: &mut HeldLock<A, E>, round: E) {
        let HeldLock { attempt, rounds, lease, open_round, .. } = held;
        debug_assert!(
            !rounds.are_closed(),
            "the mutex was let go since the driver was told to ask"
        );
        attempt.with(|attempt| rounds.begin(round.clone(), attempt));
        if self.stage == ProlongStage::Beginning {
            let answer_by = round.with(|extension| extension.answer_by());
            // The wait does not go beyond the end of validity: then the loss must be told.
            self.stage = ProlongStage::Asking { until: answer_by.min(lease.valid_until()) };
            lease.handle_asked();
            *open_round = Some(round.clone());
            (self.round, self.repairs) = (Some(round), None);
            return;
        }
        self.stage = ProlongStage::Repairing { hear_until: hear_until(&round) };
        self.repairs = Some(round);
    }

    /// Returns true if nodes that were asked have not answered yet.
    pub(crate) fn awaits_answers(&self) -> bool {
        let last = self.repairs.as_ref().or(self.round.as_ref());
        last.is_some_and(|round| round.with(|extension| extension.awaits_answers()))
    }

    fn begin<A: Shared<Attempt>>(
        &mut self,
        held: &mut HeldLock<A, E>,
        now: Time,
    ) -> Option<ProlongStep> {
        if held.rounds.are_closed() {
            self.stage = ProlongStage::Done(Prolonged::Settled);
            return None;
        }
        if !self.again {
            self.is_news = !held.lease.is_unknown();
            if let Requester::Renewal { up } = self.by
                && held.is_hopeless(up)
            {
                held.renewed(Renewed::Unknown, now, now);
                held.risk.handle_failed();
                if held.telling() {
                    held.not_told(now);
                }
                self.stage = ProlongStage::Done(Prolonged::Hopeless { is_news: self.is_news });
                return None;
            }
        }
        let ttl = self.ttl.unwrap_or_else(|| held.lease.renewal_ttl(now));
        let extension = held.extension(ttl, now);
        let ttl = extension.ttl();
        self.tells = held.telling();
        self.class = held.class();
        if self.by == Requester::Holder && !self.again {
            held.extending(ttl, now, extension.valid_at_most());
        }
        let up_to = vec![Some(0); held.nodes];
        let repair_until = held.lease.repair_until();
        let request = ExtendRequest { class: self.class, ttl, repair_until, up_to };
        Some(ProlongStep::Ask(Box::new(extension), request))
    }

    /// Ends the round, and updates the lease with its result.
    fn conclude<A: Shared<Attempt>>(&mut self, held: &mut HeldLock<A, E>, now: Time) {
        let Some(round) = &self.round else { return };
        // The nodes' answers about our key are noted when the next round begins, or the lock ends.
        self.renewed = round.with(|extension| extension.result(now));
        if self.tells && !matches!(self.renewed, Renewed::Until(..)) {
            held.not_told(now);
        }
        held.renewed(self.renewed, round.with(|extension| extension.started()), now);
        self.stage = match self.renewed {
            Renewed::Gone => ProlongStage::Done(Prolonged::Settled),
            _ => ProlongStage::Repairing { hear_until: hear_until(round) },
        };
    }

    /// Has the nodes that contenders got for a while set the key again, if that is due.
    fn repair_again<A: Shared<Attempt>>(
        &mut self,
        held: &mut HeldLock<A, E>,
        now: Time,
    ) -> Option<ProlongStep> {
        let answer_by = now.after(held.node_timeout);
        let last = self.repairs.as_ref().or(self.round.as_ref())?;
        let (extension, up_to) = last.with(|round| round.repair_again(now, answer_by))?;
        let repair_until = held.lease.repair_until()?;
        if held.rounds.are_closed() {
            return None;
        }
        let request = ExtendRequest {
            class: held.class(),
            ttl: extension.ttl(),
            repair_until: Some(repair_until),
            up_to,
        };
        Some(ProlongStep::Ask(Box::new(extension), request))
    }

    fn in_round(&self, f: impl FnOnce(&Extension) -> bool) -> bool {
        self.round.as_ref().is_some_and(|round| round.with(|extension| f(extension)))
    }
}

/// The time by which most nodes that a verdict did not need have answered.
fn hear_until<E: Shared<Extension>>(round: &E) -> Time {
    round.with(|extension| extension.started().after(HEAR_OUT).min(extension.answer_by()))
}
