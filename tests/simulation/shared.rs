//! State that a client's threads share: the nodes that may grant, the nodes' clocks, and the callers that want locks.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use super::queue::Queues;
use super::setup::Setup;
use super::subscriptions::Listener;
use crate::core::admission::Admission;
use crate::core::admission::mark::Configuration;
use crate::core::admission::set_time::SetTime;
use crate::core::admission::{ClockNews, Offset};
use crate::core::base::Time;
use crate::core::vote::{Quorum, QuorumHealth};
use crate::core::wake::Channels;

pub(super) struct Shared {
    pub(super) admission: RefCell<Admission>,
    /// True if clients may fall back to the first node.
    ordered: bool,
    clocks: RefCell<Vec<Option<Offset>>>,
    /// Number of suspensions of the client's machine, as far as it knows.
    pub(super) suspensions: Cell<u64>,
    threads: Cell<u64>,
    /// Listeners that wait for releases, or want to know of writers.
    pub(super) channels: RefCell<Channels<Listener>>,
    pub(super) queues: RefCell<Queues>,
    /// Shared knowledge of all calls about the quorum.
    quorum_health: RefCell<QuorumHealth>,
}

pub(super) fn configuration(setup: Setup, quarantine: bool) -> Configuration {
    Configuration {
        set_name: "default".to_owned(),
        nodes: setup.nodes,
        max_ttl: setup.max_ttl,
        clock_tolerance: setup.clock_tolerance,
        quarantine,
        // If clients may fall back, each node's mark says which one it is.
        index: setup.fall_back_after.map(|_| 0),
    }
}

impl Shared {
    pub(super) fn new(
        configuration: &Configuration,
        fall_back_after: Option<Duration>,
        node_timeout: Duration,
        alone: bool,
    ) -> Self {
        let ordered = fall_back_after.is_some();
        Self {
            admission: RefCell::new(Admission::new(configuration, ordered)),
            ordered,
            quorum_health: RefCell::new(QuorumHealth::new(fall_back_after, node_timeout)),
            clocks: RefCell::new(vec![None; configuration.nodes]),
            suspensions: Cell::new(0),
            threads: Cell::new(0),
            channels: RefCell::new(Channels::new(configuration.nodes)),
            queues: RefCell::new(Queues::new(alone)),
        }
    }

    /// The number of a new thread.
    pub(super) fn new_thread(&self) -> u64 {
        self.threads.set(self.threads.get() + 1);
        self.threads.get()
    }

    pub(super) fn quorum_health(&self) -> QuorumHealth {
        *self.quorum_health.borrow()
    }

    /// Notes the state of the quorum that an attempt has shown. The attempt began at `started`.
    pub(super) fn note_quorum(&self, quorum: Quorum, started: Time, now: Time) {
        self.quorum_health.borrow_mut().note(quorum, started, now);
    }

    pub(super) fn saw_clock(&self, node: usize, offset: Offset) {
        self.clocks.borrow_mut()[node] = Some(offset);
    }

    /// Applies an observation of a node to the admission. Returns true if the workers of the other nodes must look for work.
    pub(super) fn seen(&self, seen: impl FnOnce(&mut Admission)) -> bool {
        let before = self.admission.borrow().known_to_all();
        seen(&mut self.admission.borrow_mut());
        self.admission.borrow().known_to_all() != before
    }

    /// Returns true if there was news of clocks, for which the nodes must be probed.
    pub(super) fn hear_of_clocks(&self) -> bool {
        let news = self.admission.borrow_mut().take_clock_news();
        if news.iter().any(|one| matches!(one, ClockNews::Suspended(_))) {
            self.suspensions.set(self.suspensions.get() + 1);
        }
        !news.is_empty()
    }

    pub(super) fn offset(&self, node: usize) -> Option<Offset> {
        self.clocks.borrow()[node]
    }

    /// The set's time and the time that several clocks have reached, for the numbers of locks.
    pub(super) fn times_us(&self, now: Time) -> (Option<i64>, Option<i64>) {
        let admission = self.admission.borrow();
        (admission.time_us(now, self.ordered), admission.time_of_several_us(now))
    }

    /// The set's time, as far as it is known.
    pub(super) fn set_time(&self, now: Time) -> Option<SetTime> {
        self.admission.borrow().set_time(now)
    }
}
