//! Runs the machines of `core/` over the nodes: attempt, wait, try again, give up, clean up.

use std::ops::Deref;
use std::sync::Arc;

use crossbeam_channel::{Receiver, never};

use crate::clock;
use crate::core::{
    Acquisition, Attempt, Basis, Conclusion, Judged, Judgement, Outcome, Patience, Policy, Step,
    Time, asking_order,
};
use crate::error::Error;
use crate::ident;
use crate::node::Address;
use crate::observe;
use crate::process::Process;
use crate::random::random;
use crate::runtime::claim::{Claim, Wanted};
use crate::runtime::client_state::ClientState;
use crate::runtime::fan_out::{FanOut, Interrupts};
use crate::runtime::held::Held;
use crate::runtime::hold::Hold;
use crate::runtime::numbers::wait_for_clocks;
use crate::runtime::queue::{self, Queues};
use crate::runtime::renewal;
use crate::runtime::settings::Settings;
use crate::runtime::subscriptions::{self, Waiter};
use crate::runtime::timetable::Timetable;

mod refusal;

use refusal::stop_if;

/// The calls of one client that want locks, and what they wait in.
pub(crate) struct Coordinator {
    state: Arc<ClientState>,
    timetable: Arc<Timetable<Held>>,
    queues: Arc<Queues>,
}

impl Deref for Coordinator {
    type Target = ClientState;

    fn deref(&self) -> &ClientState {
        &self.state
    }
}

/// An attempt that has come to its end.
struct Tried {
    claim: Claim,
    started: Time,
    answer_by: Time,
    judgement: Judgement,
}

impl Coordinator {
    /// Starts the workers and the timetable.
    pub(crate) fn start(
        process: Process,
        addresses: Vec<Address>,
        settings: Settings,
    ) -> Result<Arc<Self>, Error> {
        let state = ClientState::start(process, addresses, settings)?;
        let timetable = renewal::start(state.set().suspended()).map_err(|error| {
            Error::config(format!("no thread could be started for renewals: {error}"))
        })?;
        Ok(Arc::new(Self { state, timetable, queues: Queues::new() }))
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn queues(&self) -> &Arc<Queues> {
        &self.queues
    }

    /// Takes the lock that is `wanted`; `None` if it is held by somebody else until the caller's
    /// `patience` is over.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        wanted: &Wanted,
        patience: Patience,
        cancel: Option<&Receiver<()>>,
    ) -> Result<Option<Hold>, Error> {
        self.process.check()?;
        let never = never();
        let interrupts = Interrupts { cancel: cancel.unwrap_or(&never), closed: &self.closed };
        stop_if(interrupts.poll(), &wanted.name)?;
        self.check_agreement(&wanted.name)?;
        let mut told = false;
        let mut acquisition = Acquisition::new(Policy {
            patience,
            backoff: self.settings.backoff,
            no_quorum_timeout: self.settings.no_quorum_timeout,
            // Whoever may fall back hears the first node of the configuration in any case.
            ordered: self.settings.fall_back_after().is_none(),
        });
        // Left on every way out of here, after what was tried has been given back.
        let mut place = self.queues.enter(wanted, patience, !self.settings.local_queue);
        let mut waiting: Option<Waiter> = None;
        let mut last = None;
        loop {
            match place.next(interrupts) {
                queue::Next::Ask { waited: true } => {
                    acquisition.waited_in_line();
                    last = None;
                }
                queue::Next::Ask { waited: false } => {}
                queue::Next::GiveWay(until, last_owner) => {
                    let waiting =
                        waiting.get_or_insert_with(|| self.wait(wanted, &mut acquisition));
                    waiting.gives_way(last_owner);
                    let woken =
                        subscriptions::pause(Some(waiting), &mut acquisition, until, interrupts);
                    let woken =
                        woken.or_else(|woken| stop_if(woken, &wanted.name).map(|()| false))?;
                    // Whose release is still on its way from most nodes has come all the same.
                    place.gave_way(woken || waiting.has_heard());
                    continue;
                }
                queue::Next::Stopped(woken) => stop_if(woken, &wanted.name)?,
                queue::Next::Held => return Ok(None),
                queue::Next::Given(hold) => {
                    self.check_agreement(&wanted.name)?;
                    return Ok(Some(hold));
                }
            }
            if patience != Patience::Once
                && waiting.is_none()
                && self.subscriptions.is_busy()
                && let Some(known) = self.subscriptions.wait_too(channel(wanted), &self.nodes)
            {
                // Others of this process have waited for it: as a rule, this one will have to.
                acquisition.expects(self.queues.others(wanted.name.key()));
                acquisition.is_contended();
                waiting = Some(known);
            }
            if let Some(waiting) = &waiting {
                waiting.attempt_begins();
            }
            let Tried { claim, started, answer_by, judgement } =
                self.attempt(wanted, &mut acquisition, last.take(), waiting.as_ref(), interrupts)?;
            let Judgement { conclusion, basis, quorum } = judgement;
            // A node may have been heard of meanwhile. A lock that was won all the same is given back.
            self.check_agreement(&wanted.name)?;
            let asked = claim.asked();
            let faults = || asked.faults(&self.nodes, answer_by);
            let now = clock::now();
            claim.round().with(|attempt| {
                let covered =
                    waiting.as_ref().is_some_and(|waiting| waiting.attempt_ended(attempt));
                acquisition.tried(attempt, now, covered);
            });
            self.tell_of_endless_keys(&claim);
            last = Some(claim.round().clone());
            let ready_in = match conclusion {
                Conclusion::NotAdmitted => self.set.ready_in(now),
                _ => None,
            };
            let step = match conclusion {
                Conclusion::NotAdmitted => {
                    acquisition.not_admitted(ready_in, started, now, random())
                }
                _ => acquisition.concluded(conclusion, started, now, random()),
            };
            if let Step::Finish(Outcome::Granted { valid_until, number }) = step {
                self.note(quorum, started, faults);
                if basis == Basis::FirstNode {
                    observe::fell_back(&wanted.name, &self.names[0]);
                }
                return Ok(Some(place.won(claim, basis, valid_until, number, &self.timetable)));
            }
            // Before any wait: what this attempt got must be free for others.
            drop(claim);
            if !acquisition.cut_short(conclusion, now) {
                place.concluded(conclusion);
            }
            self.note(quorum, started, faults);
            let outcome = match step {
                Step::Finish(outcome) => Some(outcome),
                Step::Wait(until) => {
                    if let (Conclusion::NotAdmitted, Some(ready_in), false) =
                        (conclusion, ready_in.filter(|left| !left.is_zero()), told)
                    {
                        told = true;
                        self.tell_wait(&wanted.name, ready_in, &faults());
                    }
                    let held = matches!(conclusion, Conclusion::Held { .. });
                    if held && waiting.is_none() {
                        waiting = Some(self.wait(wanted, &mut acquisition));
                    }
                    let waiting = waiting.as_ref().filter(|_| held);
                    let woken = subscriptions::pause(waiting, &mut acquisition, until, interrupts);
                    let woken =
                        woken.or_else(|woken| stop_if(woken, &wanted.name).map(|()| false))?;
                    acquisition.waited(clock::now(), woken)
                }
            };
            if let Some(outcome) = outcome {
                return self.refusal(outcome, wanted, faults);
            }
        }
    }

    /// From now on the caller hears of releases.
    fn wait(&self, wanted: &Wanted, acquisition: &mut Acquisition) -> Waiter {
        acquisition.expects(self.queues.others(wanted.name.key()));
        self.subscriptions.wait(channel(wanted), &self.nodes)
    }

    fn attempt(
        self: &Arc<Self>,
        wanted: &Wanted,
        acquisition: &mut Acquisition,
        last: Option<Arc<FanOut<Attempt>>>,
        waiting: Option<&Waiter>,
        interrupts: Interrupts<'_>,
    ) -> Result<Tried, Error> {
        let owner = acquisition.owner(ident::random_owner());
        let first = acquisition.prefers_one().then(|| {
            let order = asking_order(wanted.name.key(), &self.names);
            let answered = |node: usize| match &last {
                Some(last) => last.with(|last| last.has_vote_of(node)),
                None => self.nodes[node].fault().is_none(),
            };
            let hears = |node: usize| waiting.is_none_or(|waiting| waiting.hears(node));
            acquisition.preferred_node(&order, |node| answered(node) && hears(node), clock::now())
        });
        let suspensions = self.set.suspensions();
        let started = clock::now();
        let until = |now| acquisition.answer_by(now, self.settings.attempt_timeout());
        let answer_by = until(started);
        let mut claim = Claim::new(&self.state, wanted, owner, started, suspensions, answer_by);
        // By them nodes are compared before they grant anything, and numbers are made.
        stop_if(wait_for_clocks(&self.nodes, answer_by, interrupts), &wanted.name)?;
        let mut proposal = None;
        if self.settings.fencing {
            proposal = Some(self.numbers.propose(&wanted.name, &self.set));
        }
        let more = || until(clock::now());
        stop_if(claim.attempt(proposal, first.flatten(), more, interrupts), &wanted.name)?;
        let answer_by = claim.round().with(|attempt| attempt.answer_by());
        self.numbers.saw(&wanted.name, claim.round().with(|attempt| attempt.number_of_several()));
        let round = claim.round();
        let judgement = loop {
            let quorum_health = *self.quorum_health.lock();
            let first_says_no = self.nodes[0].says_no();
            let judged = round.with(|attempt| {
                attempt.first_says_no(first_says_no);
                quorum_health.judge(attempt, clock::now())
            });
            let woken = match judged {
                Judged::HearFirst => round.hear_first(answer_by, interrupts),
                Judged::HearAll => round.hear_all(answer_by, interrupts),
                Judged::Concluded(judgement) => break judgement,
            };
            stop_if(woken, &wanted.name)?;
        };
        match judgement.conclusion {
            Conclusion::Unreachable => round.hear_out(answer_by),
            // Whoever has to change something shall hear of all of it.
            Conclusion::Rejected => {
                stop_if(round.hear_all(answer_by, interrupts), &wanted.name)?;
            }
            _ => {}
        }
        Ok(Tried { claim, started, answer_by, judgement })
    }
}

/// On which the nodes tell of the lock's releases.
fn channel(wanted: &Wanted) -> Vec<u8> {
    ident::release_channel(wanted.name.key())
}
