//! The callers' side of a node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use parking_lot::{Mutex, MutexGuard};

use super::address::Address;
use super::driver::Driver;
use super::job::{Answer, Ask, Asked, Counted, Job, Sink, Undelivered};
use super::mailbox::{Mailbox, Refused};
use super::replicas::{Confirmer, Replicas};
use super::request::{Part, Request, Script};
use super::set::NodeSet;
use super::shared::Shared;
use super::status::Status;
use super::subscriber::{Listeners, SubscriberThread};
use super::worker::Worker;
use crate::clock;
use crate::core::admission::Offset;
use crate::core::base::Time;
use crate::core::link::{self, Failure, Purpose, Release, Route, Via};
use crate::error::{Cause, NodeFault};
use crate::observe;
use crate::stats::NodeStats;

/// Most grants that wait for a node's replicas.
const GRANTS: usize = 4_096;

/// Wakes one of our subscribers, since its channels may have changed.
static WAKE: Script = Script::new(include_str!("../../lua/node/wake.lua"));

/// A sink that ignores all answers.
struct Unheard;

impl Sink for Unheard {
    fn sending(&self, _node: usize, _via: Via) -> bool {
        true
    }

    fn unsent(&self, _node: usize) {}

    fn answer(&self, _node: usize, _answer: Answer) {}
}

/// One master, by its mailbox. Dropping it ends the worker once the mailbox is empty.
pub(crate) struct Node {
    index: usize,
    address: Address,
    timeout: Duration,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    driver: Arc<Mutex<Driver>>,
    set: Arc<NodeSet>,
    unanswered: Arc<AtomicUsize>,
}

impl Node {
    /// Starts the worker of the node at `index`, which connects at once. `unanswered` counts the
    /// releases that can be answered and have not been yet.
    pub(crate) fn start(
        index: usize,
        address: Address,
        timeout: Duration,
        set: &Arc<NodeSet>,
        replicas: Option<Replicas>,
        unanswered: Arc<AtomicUsize>,
    ) -> io::Result<Self> {
        let mailbox = set.mailbox(index).clone();
        let shared = Arc::new(Shared::new(Status::new(address.shown().clone(), timeout)));
        let confirmer = match replicas {
            None => None,
            Some(replicas) => {
                let (confirmer, grants) = bounded(GRANTS);
                let address = address.clone();
                let run = Confirmer { node: index, address, timeout, replicas, grants };
                clock::spawn(format!("quorlock-wait-{index}"), move || run.run())?;
                Some(confirmer)
            }
        };
        let at = (address.clone(), timeout);
        let driver = Driver::new(index, at, shared.clone(), set.clone(), confirmer);
        let driver = Arc::new(Mutex::new(driver));
        mailbox.make_waker();
        let worker = Worker {
            driver: driver.clone(),
            mailbox: mailbox.clone(),
            shared: shared.clone(),
            set: set.clone(),
        };
        clock::spawn(format!("quorlock-node-{index}"), move || worker.run())?;
        Ok(Self { index, address, timeout, mailbox, shared, driver, set: set.clone(), unanswered })
    }

    /// Asks the node; the answer goes to `sink`. It comes at once if the node is known to be down. But if an
    /// attempt to take a lock waits for a try to connect, the worker makes one now.
    pub(crate) fn ask(&self, ask: Ask, sink: &Arc<impl Sink + 'static>) {
        self.ask_by(Mailbox::send, ask, sink);
    }

    /// Like [`ask`](Self::ask), for one of many requests that go out in one write. It does not wake the worker:
    /// the caller must call [`wake_worker`](Self::wake_worker) afterwards.
    pub(crate) fn ask_with_others(&self, ask: Ask, sink: &Arc<impl Sink + 'static>) {
        self.ask_by(Mailbox::put, ask, sink);
    }

    /// Makes the node's worker write the requests of [`ask_with_others`](Self::ask_with_others).
    pub(crate) fn wake_worker(&self) {
        self.mailbox.wake_worker();
    }

    /// Notes that a caller that has driven the connection leaves it. Wakes the worker if that `is_needed`.
    pub(super) fn left(&self, is_needed: bool) {
        if is_needed {
            self.mailbox.wake();
        } else {
            self.mailbox.was_taken();
        }
    }

    pub(super) const fn index(&self) -> usize {
        self.index
    }

    /// Returns false if the node is known to be down, so that it is not asked.
    pub(super) fn may_answer(&self) -> bool {
        let is_down = !self.shared.status.is_not_down();
        Route::of(&Purpose::Taking, is_down, self.waits_for_a_try()).is_submitted()
    }

    /// The client's knowledge of all nodes.
    pub(super) const fn set(&self) -> &Arc<NodeSet> {
        &self.set
    }

    /// Returns the node's connection for a caller that drives it itself. `None` if others use it, if the worker is needed for
    /// anything, or if the node is far away and `takes_far` is false.
    pub(super) fn try_drive(&self, takes_far: bool) -> Option<MutexGuard<'_, Driver>> {
        let mut driver = self.driver.try_lock()?;
        ((takes_far || !driver.link.is_far()) && driver.can_be_driven()).then_some(driver)
    }

    fn ask_by(
        &self,
        send: impl FnOnce(&Mailbox, Job) -> Result<(), Refused>,
        ask: Ask,
        sink: &Arc<impl Sink + 'static>,
    ) {
        let job = ask.into_job(self.index, sink.clone());
        let (takes, waits) = (job.is_taking(), self.waits_for_a_try());
        let without_room = Route::without_room(&job.purpose, waits);
        let fault = self.shared.status.fault();
        let route = Route::of(&job.purpose, fault.is_some(), waits);
        let (failure, fault) = match fault.filter(|_| route.tells_at_once()) {
            Some(fault) => (Failure::NotSent, fault),
            None => {
                let Err(refused) = send(&self.mailbox, job) else { return };
                (without_room, self.refused(refused).0)
            }
        };
        sink.answer(self.index, Err(Undelivered::new(failure, fault, takes)));
    }

    /// Returns true if attempts to take a lock wait for a try to connect while the node is down.
    fn waits_for_a_try(&self) -> bool {
        self.set.waits_for_a_try(self.index)
    }

    /// Makes the node forget a lock, or something else of ours, now or when it comes back. Never blocks. The request never gets
    /// lost while it is of use, by the terms of `release`.
    ///
    /// The caller is told at once if the node is down.
    pub(crate) fn release(
        &self,
        request: &Arc<Request>,
        sink: Option<Arc<dyn Sink>>,
        release: Release,
    ) {
        let Some(job) = self.release_job(request, sink, release) else { return };
        if let Err(refused) = self.mailbox.send(job) {
            let (fault, mut job) = self.refused(refused);
            let node = self.shared.status.node().clone();
            self.set.tell(move || observe::release_dropped(&node));
            if let Some(sink) = link::Request::take_caller(&mut job.request) {
                sink.answer(self.index, Err(Undelivered { failure: Failure::NotSent, fault }));
            }
        }
    }

    /// Returns the request that [`release`](Self::release) submits, if it does.
    pub(super) fn release_job(
        &self,
        request: &Arc<Request>,
        mut sink: Option<Arc<dyn Sink>>,
        release: Release,
    ) -> Option<Job> {
        let (fault, purpose) = (self.shared.status.fault(), Purpose::Release(release));
        let route = Route::of(&purpose, fault.is_some(), self.waits_for_a_try());
        let fault = fault.filter(|_| route.tells_at_once());
        let is_told = fault.is_some();
        if let (Some(fault), Some(sink)) = (fault, sink.take_if(|_| is_told)) {
            sink.answer(self.index, Err(Undelivered { failure: Failure::NotSent, fault }));
        }
        let asked = Asked {
            node: self.index,
            request: request.clone(),
            sink,
            unanswered: (!is_told).then(|| Counted::by(&self.unanswered)),
            untold: Some(Counted::by(&self.shared.untold)),
        };
        route.is_submitted().then(|| Job::new(asked, purpose))
    }

    /// Starts a thread that listens to the node until `listeners` want to hear nothing any more. A message
    /// on the channel `wake_channel` makes it ask them for changes.
    pub(crate) fn listen(
        &self,
        wake_channel: &[u8],
        listeners: Arc<dyn Listeners>,
    ) -> io::Result<()> {
        let Self { index, address, timeout, .. } = self;
        let (node, address, timeout, wake_channel) =
            (*index, address.clone(), *timeout, wake_channel.to_vec());
        let set = self.set.clone();
        let subscriber = SubscriberThread { node, address, timeout, wake_channel, set, listeners };
        clock::spawn(format!("quorlock-hear-{node}"), move || subscriber.run())?;
        Ok(())
    }

    /// Publishes a message on the channel `wake_channel`, if that is possible now.
    pub(crate) fn wake_subscriber(&self, wake_channel: &[u8]) {
        let request = Request::new(&WAKE, 0, &[Part::Bytes(wake_channel)]);
        self.ask(Ask::Anyway(Arc::new(request)), &Arc::new(Unheard));
    }

    /// The fault of the node, if it is known to be down.
    pub(crate) fn fault(&self) -> Option<NodeFault> {
        self.shared.status.fault()
    }

    /// Returns true if the node is down by its own answer: it says that it is loading, busy, or takes no
    /// writes.
    pub(crate) fn says_no(&self) -> bool {
        self.fault().is_some_and(|fault| fault.cause() != Cause::Way)
    }

    /// The reason why the node has not answered for as long as `waited`; `None` if it is not known to be down
    /// and the wait ended early, as the others had settled the matter (not `late`).
    pub(crate) fn silence(&self, waited: Duration, late: bool) -> Option<NodeFault> {
        self.shared.status.silence(waited, late)
    }

    /// The time in milliseconds of the node's own clock, or somewhat earlier; 0 if the clock is not known.
    pub(crate) fn clock_ms(&self, time: Time) -> i64 {
        self.clock().map_or(0, |offset| offset.at_least_ms(time))
    }

    /// The node's clock at its last reading; `None` if it was never read.
    pub(crate) fn clock(&self) -> Option<Offset> {
        self.set.clock(self.index)
    }

    /// Returns true if the node has answered all releases.
    pub(crate) fn is_told(&self) -> bool {
        self.unanswered_releases() == 0
    }

    fn unanswered_releases(&self) -> usize {
        self.shared.untold.load(Ordering::SeqCst)
    }

    /// Has answers that callers leave read at once from now on: the client ends, and waits for them.
    pub(crate) fn hurry(&self) {
        self.shared.hurries.store(true, Ordering::Relaxed);
        self.mailbox.wake();
    }

    /// Drops what is of no use any more. Returns true if the node must still be told anything.
    pub(crate) fn tidy(&self) -> bool {
        let keeps_any = self.shared.keeps_any.load(Ordering::Relaxed);
        // The worker checks this at least once a second.
        self.shared.is_to_tidy.store(true, Ordering::Relaxed);
        [self.mailbox.tidy(), keeps_any, !self.is_told()].contains(&true)
    }

    /// Number of kept releases. While a node is down, its worker may be connecting and not have taken them out of the mailbox.
    fn kept_releases(&self) -> usize {
        match self.shared.status.fault() {
            Some(_) => self.unanswered_releases(),
            None => self.shared.kept.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn stats(&self) -> NodeStats {
        let (status, connected) = (&self.shared.status, self.shared.status.is_up());
        let fault = status.fault().or_else(|| self.set.problem(self.index));
        let seen = self.set.seen_of(self.index, clock::now());
        NodeStats {
            node: status.node().to_string(),
            connected,
            fault: fault.map(|fault| fault.what().to_owned()),
            condition: seen.condition,
            grants_in: seen.grants_in,
            clock_ahead_us: seen.clock_ahead_us,
            round_trip: self.clock().map(Offset::round_trip),
            connections: status.connections(),
            writes: self.shared.writes.load(Ordering::Relaxed),
            scripts: self.shared.scripts.load(Ordering::Relaxed),
            kept_releases: self.kept_releases(),
            unanswered_releases: self.unanswered_releases(),
            listened_to: 0,
        }
    }

    fn refused(&self, refused: Refused) -> (NodeFault, Job) {
        let (what, job) = match refused {
            Refused::Full(job) => {
                ("too many requests wait for this node already; is the server overloaded?", job)
            }
            Refused::Abandoned(job) => {
                ("its worker thread has ended, which is a fault of quorlock; please report it", job)
            }
        };
        (NodeFault::new(self.shared.status.node(), what), job)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}
