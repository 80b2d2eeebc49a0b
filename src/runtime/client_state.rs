//! The state that the calls of one client and its locks share: the nodes, and the knowledge about them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::Mutex;

use super::obstacles::Obstacles;
use super::reports::Reports;
use super::subscriptions::Subscriptions;
use crate::clock;
use crate::config::settings::Settings;
use crate::core::base::{Time, majority};
use crate::core::hold::Schedule;
use crate::core::vote::{LastNumbers, News, Proposal, Quorum, QuorumHealth};
use crate::error::refusal::Refusals;
use crate::error::{Error, NodeFault};
use crate::ident::{self, Names};
use crate::node::{Address, Node, NodeSet};
use crate::observe;
use crate::process::{self, Process};
use crate::random::random;
use crate::stats::{NodeStats, Recorder, Stats};

/// The nodes and everything else that the clones of one client and its locks share.
pub(crate) struct ClientState {
    /// The process whose threads work for the client.
    pub(crate) process: Process,
    pub(super) nodes: Vec<Node>,
    pub(super) set: Arc<NodeSet>,
    pub(super) names: Arc<[Arc<str>]>,
    pub(super) settings: Settings,
    /// The beginning of its owner texts.
    owner_label: String,
    unanswered: Arc<AtomicUsize>,
    /// Dropped by `close`, which ends `closed`.
    open: Mutex<Option<Sender<()>>>,
    closed: Receiver<()>,
    /// The common knowledge of all calls about the quorum.
    quorum_health: Mutex<QuorumHealth>,
    numbers: Numbers,
    obstacles: Obstacles,
    pub(super) subscriptions: Arc<Subscriptions>,
    reports: Reports,
    recorder: Arc<Recorder>,
    /// Its other side ends with this state.
    #[cfg(feature = "metrics")]
    ended: (Sender<()>, Receiver<()>),
    /// The delay of this client's renewals behind the steps of the clock.
    renewal_phase: Duration,
}

impl ClientState {
    /// Starts the workers.
    pub(super) fn start(
        process: Process,
        addresses: Vec<Address>,
        settings: Settings,
        kinds: &[&'static str],
    ) -> Result<Arc<Self>, Error> {
        let names: Arc<[Arc<str>]> =
            addresses.iter().map(|address| address.shown().clone()).collect();
        let set = NodeSet::new(
            ident::mark_key(&settings.key_prefix),
            &names,
            &settings.configuration(names.len()),
            settings.fall_back_after().is_some(),
        );
        let owner_label = settings.owner_label.clone().unwrap_or_else(process::default_label);
        let unanswered = Arc::new(AtomicUsize::new(0));
        let nodes = addresses.into_iter().enumerate().map(|(index, address)| {
            let node = address.shown().clone();
            Node::start(
                index,
                address.of_client(&owner_label),
                settings.node_timeout,
                &set,
                settings.replicas(),
                unanswered.clone(),
            )
            .map_err(|error| {
                Error::config(format!(
                    "no thread could be started for {node} ({error}); raise the limit of threads"
                ))
            })
        });
        let reports = Reports::start().map_err(|error| {
            Error::config(format!(
                "no thread could be started for reports ({error}); raise the limit of threads"
            ))
        })?;
        let quorum_health =
            QuorumHealth::new(settings.fall_back_after(), settings.attempt_timeout());
        let (open, closed) = bounded(0);
        let wake_channel = ident::wake_channel(&settings.key_prefix, ident::random_owner());
        let subscriptions = Subscriptions::new(names.len(), wake_channel);
        Ok(Arc::new(Self {
            process,
            nodes: nodes.collect::<Result<_, _>>()?,
            set,
            names,
            settings,
            owner_label,
            unanswered,
            open: Mutex::new(Some(open)),
            closed,
            quorum_health: Mutex::new(quorum_health),
            numbers: Numbers::default(),
            obstacles: Obstacles::default(),
            subscriptions,
            reports,
            recorder: Arc::new(Recorder::new(kinds)),
            #[cfg(feature = "metrics")]
            ended: bounded(0),
            renewal_phase: Schedule::phase(random()),
        }))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn node_stats(&self) -> Vec<NodeStats> {
        let stats = |(i, node): (usize, &Node)| {
            let listened_to = self.subscriptions.listened_to(i);
            NodeStats { listened_to, ..node.stats() }
        };
        self.nodes.iter().enumerate().map(stats).collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        let majority = majority(self.nodes.len());
        Stats { majority, nodes: self.node_stats(), ..self.recorder.snapshot() }
    }

    /// The counts of all that this client does.
    pub(crate) const fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Gets no message, and ends with this state.
    #[cfg(feature = "metrics")]
    pub(crate) const fn ended(&self) -> &Receiver<()> {
        &self.ended.1
    }

    pub(crate) fn set(&self) -> &Arc<NodeSet> {
        &self.set
    }

    pub(crate) fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the beginning of the client's owner texts.
    pub(crate) fn owner_label(&self) -> &str {
        &self.owner_label
    }

    pub(crate) fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// Returns the number of releases that could be answered and have not been yet.
    pub(crate) fn unanswered(&self) -> &Arc<AtomicUsize> {
        &self.unanswered
    }

    /// Returns the channel that ends when the client is closed.
    pub(crate) fn closed(&self) -> &Receiver<()> {
        &self.closed
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(crate) fn quorum_health(&self) -> QuorumHealth {
        *self.quorum_health.lock()
    }

    /// Ends all waiting calls, and makes every later one fail.
    pub(crate) fn close(&self) {
        *self.open.lock() = None;
    }

    /// Returns true if no release waits for a majority of the nodes.
    pub(crate) fn majority_told(&self) -> bool {
        let told = self.nodes.iter().filter(|node| node.is_told()).count();
        told >= majority(self.nodes.len())
    }

    /// A holder's extension has reached a majority.
    pub(crate) fn quorum_reached(&self) {
        self.note(Quorum::Reached, clock::now(), Vec::new);
    }

    /// A renewal has reached a majority. The timer does not wait for a subscriber of the event.
    pub(crate) fn quorum_reached_by_timer(&self) {
        let now = clock::now();
        if self.quorum_health.lock().note(Quorum::Reached, now, now) == Some(News::Back) {
            self.reports.tell(observe::quorum_back);
        }
    }

    /// Returns the events and callbacks for other threads to carry out.
    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Forgets unused names, and returns true if anything is left of any.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        let shared = [
            self.numbers.tidy(now),
            self.obstacles.tidy(now),
            self.subscriptions.tidy(now),
            self.reports.tidy(),
        ];
        let nodes = self.nodes.iter().filter(|node| node.tidy()).count();
        nodes > 0 || shared.contains(&true)
    }

    /// Returns the facts that its errors name.
    pub(crate) fn refusals(&self) -> Refusals {
        Refusals {
            nodes: self.nodes.len(),
            falls_back: self.settings.fall_back_after().is_some(),
            max_ttl: self.settings.max_ttl,
        }
    }

    /// Returns the obstacles that calls have met.
    pub(crate) fn obstacles(&self) -> &Obstacles {
        &self.obstacles
    }

    /// Returns the renewal schedule of a lock that was granted just now.
    pub(crate) fn schedule(&self) -> Schedule {
        Schedule::new(random(), self.renewal_phase)
    }

    /// Lets the nodes' workers write requests that were delayed to go with others.
    pub(crate) fn wake_workers(&self) {
        self.nodes.iter().for_each(Node::wake_worker);
    }

    /// Notes the evidence of an attempt about the quorum, and reports the loss and the return of the quorum.
    pub(crate) fn note(
        &self,
        quorum: Quorum,
        started: Time,
        faults: impl FnOnce() -> Vec<NodeFault>,
    ) {
        let news = self.quorum_health.lock().note(quorum, started, clock::now());
        match news {
            Some(News::Lost) => observe::quorum_lost(&faults()),
            Some(News::Back) => observe::quorum_back(),
            None => {}
        }
    }
}

impl Drop for ClientState {
    fn drop(&mut self) {
        self.subscriptions.close();
    }
}

/// The state about fencing that the attempts of one client share.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<LastNumbers>);

impl Numbers {
    /// Returns the number to propose for a grant of the lock with these names.
    pub(crate) fn propose(&self, names: &Names, set: &NodeSet) -> Proposal {
        let last = self.0.lock().last_of(names.keys());
        let (set_time_us, several_us) = set.times_us(clock::now());
        Proposal::new(last, set_time_us, several_us)
    }

    /// Forgets the names that were not used for long, and returns true if any are left.
    pub(crate) fn tidy(&self, now: Time) -> bool {
        self.0.lock().tidy(now)
    }

    /// Several nodes have answered with that number for the lock with these names.
    pub(crate) fn saw(&self, names: &Names, number: u64) {
        let (now, mut numbers) = (clock::now(), self.0.lock());
        names.keys().for_each(|key| numbers.saw(key, number, now));
    }
}
