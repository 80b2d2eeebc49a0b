//! Runs the machines of `quorum/` over the nodes: attempt, wait, try again, give up, clean up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded, never};
use parking_lot::Mutex;

use crate::claim::{Claim, Wanted};
use crate::clock;
use crate::config::Settings;
use crate::error::{Error, ErrorKind, NodeFault};
use crate::held::Held;
use crate::ident::{self, Name};
use crate::node::{Address, Node};
use crate::observe;
use crate::quorum::{
    Acquisition, Ballot, Conclusion, Outcome, Patience, Policy, Step, Time, majority,
};
use crate::renewal::Timetable;
use crate::round::{Interrupts, Woken};

/// The nodes and all that is shared by the clones of one client and the locks it gave out.
pub(crate) struct Coordinator {
    nodes: Vec<Node>,
    names: Arc<[Arc<str>]>,
    settings: Settings,
    unanswered: Arc<AtomicUsize>,
    timetable: Arc<Timetable>,
    /// Dropped by `close`, which ends `closed`.
    open: Mutex<Option<Sender<()>>>,
    closed: Receiver<()>,
    /// Whether the last attempt reached a quorum, so that only changes are told.
    quorum: AtomicBool,
}

/// An attempt that has come to its end.
struct Tried {
    claim: Claim,
    started: Time,
    answer_by: Time,
    conclusion: Conclusion,
}

impl Coordinator {
    /// Starts the workers.
    pub(crate) fn start(addresses: Vec<Address>, settings: Settings) -> Result<Arc<Self>, Error> {
        let names = addresses.iter().map(|address| address.shown().clone()).collect();
        let unanswered = Arc::new(AtomicUsize::new(0));
        let nodes = addresses.into_iter().enumerate().map(|(index, address)| {
            let node = address.shown().clone();
            Node::start(
                index,
                address,
                settings.node_timeout,
                settings.replicas(),
                unanswered.clone(),
            )
            .map_err(|error| {
                let message = "no thread could be started for a node; raise the limit of threads";
                Error::config(message).with_faults(vec![NodeFault::caused_by(
                    &node,
                    "no worker thread",
                    error,
                )])
            })
        });
        let timetable = Timetable::start().map_err(|error| {
            Error::config(format!("no thread could be started for renewals: {error}"))
        })?;
        let (open, closed) = bounded(0);
        Ok(Arc::new(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            names,
            settings,
            unanswered,
            timetable,
            open: Mutex::new(Some(open)),
            closed,
            quorum: AtomicBool::new(true),
        }))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn timetable(&self) -> &Arc<Timetable> {
        &self.timetable
    }

    /// How many releases could be answered, and have not been yet.
    pub(crate) fn unanswered(&self) -> &Arc<AtomicUsize> {
        &self.unanswered
    }

    /// Takes the lock that is `wanted`; `None` if it is held by somebody else until the caller's
    /// `patience` is over.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        wanted: &Wanted,
        patience: Patience,
        cancel: Option<&Receiver<()>>,
    ) -> Result<Option<Arc<Held>>, Error> {
        let never = never();
        let interrupts = Interrupts { cancel: cancel.unwrap_or(&never), closed: &self.closed };
        stop_if(interrupts.poll(), &wanted.name)?;
        let mut acquisition = Acquisition::new(Policy {
            patience,
            backoff: self.settings.backoff,
            no_quorum_timeout: self.settings.no_quorum_timeout,
            mechanisms: self.settings.mechanisms,
        });
        loop {
            let Tried { claim, started, answer_by, conclusion } =
                self.attempt(wanted, &mut acquisition, interrupts)?;
            let round = claim.round().clone();
            let faults = || round.faults(&self.nodes, answer_by);
            let step = acquisition.concluded(conclusion, started, clock::now(), rand::random());
            if let Step::Finish(Outcome::Granted { valid_until, .. }) = step {
                self.note_quorum(true, faults);
                return Ok(Some(Held::new(claim, valid_until)));
            }
            if conclusion == Conclusion::Unreachable {
                round.hear_out(answer_by);
            }
            // Before any wait: what this attempt got must be free for others.
            drop(claim);
            match conclusion {
                // The caller's own deadline cut it short, which says nothing about the nodes.
                Conclusion::Unreachable
                    if answer_by < started.after(self.settings.attempt_timeout()) => {}
                Conclusion::Unreachable | Conclusion::TooLate => self.note_quorum(false, faults),
                _ => self.note_quorum(true, faults),
            }
            let outcome = match step {
                Step::Finish(outcome) => Some(outcome),
                Step::Wait(until) => {
                    stop_if(interrupts.wait(&never, until), &wanted.name)?;
                    acquisition.waited(clock::now())
                }
            };
            if let Some(outcome) = outcome {
                return self.refusal(outcome, wanted, faults);
            }
        }
    }

    /// Ends all waiting calls, and every later one.
    pub(crate) fn close(&self) {
        *self.open.lock() = None;
    }

    /// Whether no release waits for a majority of the nodes.
    pub(crate) fn majority_told(&self) -> bool {
        let told = self.nodes.iter().filter(|node| node.stats().kept_releases == 0).count();
        told >= majority(self.nodes.len())
    }

    fn attempt(
        self: &Arc<Self>,
        wanted: &Wanted,
        acquisition: &mut Acquisition,
        interrupts: Interrupts<'_>,
    ) -> Result<Tried, Error> {
        let owner = acquisition.owner(ident::random_owner());
        let started = clock::now();
        let answer_by = acquisition.answer_by(started, self.settings.attempt_timeout());
        let claim = Claim::new(self, wanted, owner, started, answer_by);
        stop_if(claim.attempt(answer_by, interrupts), &wanted.name)?;
        let conclusion = claim.round().with(|attempt| {
            // A verdict that is there stays; an open one is settled with what is known.
            if !attempt.decided() {
                attempt.expire();
            }
            attempt.conclude(clock::now())
        });
        Ok(Tried { claim, started, answer_by, conclusion })
    }

    /// Tells, once, that the quorum is gone or back.
    fn note_quorum(&self, quorum: bool, faults: impl FnOnce() -> Vec<NodeFault>) {
        if self.quorum.swap(quorum, Ordering::Relaxed) != quorum {
            if quorum {
                observe::quorum_back();
            } else {
                observe::quorum_lost(&faults());
            }
        }
    }

    /// What to tell a caller who did not get the lock.
    fn refusal(
        &self,
        outcome: Outcome,
        wanted: &Wanted,
        faults: impl FnOnce() -> Vec<NodeFault>,
    ) -> Result<Option<Arc<Held>>, Error> {
        let Wanted { name, terms, .. } = wanted;
        let ttl = terms.ttl;
        let nodes = self.nodes.len();
        let needed = majority(nodes);
        let (kind, message) = match outcome {
            Outcome::Granted { .. } | Outcome::Held => return Ok(None),
            Outcome::WrongKind => (
                ErrorKind::WrongKind,
                format!(
                    "{name} cannot be locked: the key \"{}\" on the nodes belongs to something \
                     that is no lock; use another name or key_prefix",
                    name.key().escape_ascii()
                ),
            ),
            Outcome::NotAdmitted => (
                ErrorKind::NoQuorum,
                format!("{name} was not granted: too many nodes admit no new locks for now"),
            ),
            Outcome::NoQuorum => (
                ErrorKind::NoQuorum,
                format!("no quorum for {name}: {needed} of {nodes} nodes have to answer"),
            ),
            Outcome::TooLate => (
                ErrorKind::NoQuorum,
                format!(
                    "no quorum in time for {name}: {needed} of {nodes} nodes granted it, but so \
                     late that its TTL of {ttl:?} was used up"
                ),
            ),
        };
        Err(Error::new(kind, message).with_faults(faults()))
    }
}

/// Turns a wait that was interrupted into its error.
fn stop_if(woken: Woken, name: &Name) -> Result<(), Error> {
    match woken {
        Woken::Decided | Woken::TimeUp => Ok(()),
        Woken::Cancelled => {
            let message = format!("waiting for {name} was cancelled");
            Err(Error::new(ErrorKind::Cancelled, message))
        }
        Woken::Closed => {
            let message = format!("{name} cannot be locked: this Quorlock was closed");
            Err(Error::new(ErrorKind::Closed, message))
        }
    }
}
