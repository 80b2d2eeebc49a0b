//! The thread of one node: takes jobs out of the mailbox, and keeps the connection.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use crossbeam_channel::Sender;
use parking_lot::Mutex;

use super::address::Address;
use super::connection::{Broken, Connection};
use super::job::{Job, Release, Undelivered};
use super::link::Link;
use super::mailbox::{Found, Mailbox};
use super::pending_releases::PendingReleases;
use super::replicas::Unreplicated;
use super::set::NodeSet;
use crate::clock;
use crate::core::base::{Backoff, Time};
use crate::core::link::OldConnections;
use crate::core::vote::Failure;
use crate::error::NodeFault;
use crate::random::random;

/// The most jobs that go into one write.
const BATCH: usize = 256;

const RECONNECT: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(1_000) };

/// The shortest time between the beginnings of two tries to connect, however many attempts wait for one.
/// Without it, a host that accepts connections and closes them would see thousands a second, until ports
/// run out.
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// How long a worker whose client has gone goes on for a release of which nobody knows how long it
/// is needed, that is repeated, or that the node has refused.
const LINGER: Duration = Duration::from_secs(60);

/// What a worker shares with the handle of its node.
pub(super) struct Shared {
    pub(super) link: Link,
    pub(super) pending: PendingReleases,
    /// How many releases the node has not answered: in the mailbox, written or kept.
    pub(super) untold: Arc<AtomicUsize>,
    pub(super) writes: AtomicU64,
    pub(super) scripts: AtomicU64,
}

pub(super) struct Worker {
    pub(super) node: usize,
    pub(super) address: Address,
    pub(super) timeout: Duration,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) shared: Arc<Shared>,
    /// What is known of all nodes.
    pub(super) set: Arc<NodeSet>,
    /// The connections that were given up, and may still deliver what was written over them.
    pub(super) old: Mutex<OldConnections>,
    /// Takes the grants that count once they are replicated.
    pub(super) confirmer: Option<Sender<Unreplicated>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.abandon();
    }
}

impl Worker {
    /// Works until the mailbox is closed, and all that was in it is done; for releases
    /// that a node which is down has to get, as long as [`LINGER`] allows.
    pub(super) fn run(self) {
        let mut tries = 0;
        let mut orphaned = None;
        // Jobs that wait for the next try to connect.
        let mut waiting = Vec::new();
        loop {
            let tried_at = clock::now();
            self.shared.link.busy();
            let opened = self.open();
            self.shared.link.idle();
            let fault = match opened {
                Ok(connection) => {
                    self.shared.link.set_up();
                    tries = 0;
                    match self.serve(connection, &mut waiting, &mut orphaned) {
                        ControlFlow::Continue(fault) => fault,
                        ControlFlow::Break(()) => return,
                    }
                }
                Err(fault) => {
                    self.set_down(&fault);
                    fault
                }
            };
            for job in waiting {
                self.undeliverable(job, Failure::NotSent, &fault);
            }
            let pause = RECONNECT.pause(tries, random());
            tries = tries.saturating_add(1);
            let retry_at = clock::now().after(pause);
            waiting = match self.turn_away_until(retry_at, &fault, &mut orphaned) {
                ControlFlow::Continue(waiting) => waiting,
                ControlFlow::Break(()) => return,
            };
            if let Some(pause) = clock::slice(tried_at.after(BETWEEN_TRIES)) {
                clock::sleep(pause);
                // Callers that have asked by now wait for the same try.
                waiting.extend(self.turn_away(self.in_mailbox(), &fault));
            }
        }
    }

    pub(super) fn open(&self) -> Result<Connection, NodeFault> {
        self.connect().map_err(|fault| self.shared.link.not_connected(fault))
    }

    fn connect(&self) -> Result<Connection, NodeFault> {
        // What answers may be another server, or the same one without what it knew.
        self.set.lost(self.node);
        let mut connection = Connection::open(&self.address, self.timeout)?;
        if let Some(policy) = connection.evicts() {
            self.shared.link.evicts(policy);
        }
        let fenced_off = self.fence_off(&mut connection);
        match fenced_off.and_then(|()| self.admit(&mut connection)) {
            Ok(_) => {
                connection.address.has_answered();
                // Of a server that does not let us probe it. Else it is known by now, along with what there is
                // to compare it with, and a caller that waits for it need not wait again.
                if let Some(clock) =
                    connection.clock().filter(|_| self.set.clock(self.node).is_none())
                {
                    self.set.set_clock(self.node, clock);
                }
                Ok(connection)
            }
            Err(broken) => {
                // A replica, for instance. Another address may be the master's.
                connection.address.has_failed();
                Err(broken.fault)
            }
        }
    }

    /// Carries jobs over `connection`, at first those that are `waiting` for it, until it breaks, which
    /// marks the link as down, or (`Break`) there will be no more.
    fn serve(
        &self,
        mut connection: Connection,
        waiting: &mut Vec<Job>,
        orphaned: &mut Option<Time>,
    ) -> ControlFlow<(), NodeFault> {
        let mut reopened = false;
        loop {
            self.shared.link.busy();
            let admitted = self.admit(&mut connection);
            let due = match admitted {
                Ok(due) => due.min(self.look()),
                // As in `exchange`: were the node down for that, a release that comes now would be kept,
                // and the end of a process does not wait for those.
                Err(broken) if broken.closed && !reopened => {
                    reopened = true;
                    let opened = self.open();
                    self.shared.link.idle();
                    match opened {
                        Ok(new) => connection = new,
                        Err(fault) => {
                            return ControlFlow::Continue(self.give_up(Vec::new(), fault));
                        }
                    }
                    continue;
                }
                Err(broken) => {
                    // Not idle before it is down: in between it would look as if it answered.
                    let fault = self.broken(connection, Vec::new(), broken);
                    self.shared.link.idle();
                    return ControlFlow::Continue(fault);
                }
            };
            self.shared.link.idle();
            reopened = false;
            let Some(jobs) = self.next_batch(std::mem::take(waiting), due, orphaned) else {
                return ControlFlow::Break(());
            };
            self.shared.link.busy();
            let exchanged = self.exchange(connection, jobs);
            self.shared.link.idle();
            match exchanged {
                Ok(same_or_new) => connection = same_or_new,
                Err(fault) => return ControlFlow::Continue(fault),
            }
        }
    }

    /// Answers jobs with the node's fault until then, or until there are some that wait for another try to
    /// connect: it gives these back. `Break`: there will be no more.
    fn turn_away_until(
        &self,
        until: Time,
        fault: &NodeFault,
        orphaned: &mut Option<Time>,
    ) -> ControlFlow<(), Vec<Job>> {
        while let Some(slice) = clock::slice(until) {
            match self.mailbox.wait(slice) {
                Found::Something => {
                    let waiting = self.turn_away(self.in_mailbox(), fault);
                    if !waiting.is_empty() {
                        return ControlFlow::Continue(waiting);
                    }
                }
                Found::Nothing => {}
                Found::Closed => {
                    if !self.lingers(orphaned) {
                        return ControlFlow::Break(());
                    }
                    clock::sleep(slice);
                }
            }
        }
        ControlFlow::Continue(Vec::new())
    }

    /// Answers `jobs` with the node's fault, and gives those back that wait for another try to connect.
    fn turn_away(&self, jobs: Vec<Job>, fault: &NodeFault) -> Vec<Job> {
        let waits = self.set.waits_for_a_try(self.node);
        let (waiting, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| waits && job.is_taking());
        for job in others {
            self.undeliverable(job, Failure::NotSent, fault);
        }
        waiting
    }

    /// Whether to go on for the releases that are kept, although the client has gone.
    fn lingers(&self, orphaned: &mut Option<Time>) -> bool {
        let now = clock::now();
        let unknown = orphaned.get_or_insert(now).after(LINGER);
        self.shared.pending.needed_until(unknown).is_some_and(|needed| now < needed)
    }

    /// The jobs for the next write: the releases that were kept, those that are `waiting`, then whatever is
    /// in the mailbox.
    /// Blocks while there is nothing to do, at most until the node has to be probed, or a release to be
    /// repeated; `None` once there will never be anything.
    fn next_batch(
        &self,
        waiting: Vec<Job>,
        look_at: Time,
        orphaned: &mut Option<Time>,
    ) -> Option<Vec<Job>> {
        let pending = self.shared.pending.take(BATCH, clock::now());
        let mut jobs: Vec<_> = pending.into_iter().map(Job::Release).chain(waiting).collect();
        if jobs.is_empty() {
            let due = self.shared.pending.next_due().map_or(look_at, |due| due.min(look_at));
            let pause = clock::slice(due).unwrap_or_default();
            match self.mailbox.wait(pause) {
                Found::Something => {}
                Found::Nothing => return Some(jobs),
                Found::Closed if self.lingers(orphaned) => {
                    clock::sleep(pause);
                    return Some(jobs);
                }
                Found::Closed => return None,
            }
        }
        // Other callers run first, and the one that just asked gets to ask all nodes. Twice as much goes
        // into a write then, for a third less processor time in all. Where nobody else wants to run it
        // costs next to nothing.
        clock::yield_now();
        self.mailbox.take(&mut jobs, BATCH);
        Some(jobs)
    }

    /// The connection is of no use any more: tells all who wait for it.
    pub(super) fn broken(
        &self,
        connection: Connection,
        jobs: Vec<Job>,
        broken: Broken,
    ) -> NodeFault {
        self.leaves(&connection, &jobs);
        let fault = self.give_up(jobs, broken.fault);
        if broken.in_step {
            self.send_final_releases(connection, &fault);
        }
        fault
    }

    /// Marks the link as down, tells the askers of jobs that were sent and will not be answered,
    /// and keeps the releases.
    pub(super) fn give_up(&self, jobs: Vec<Job>, fault: NodeFault) -> NodeFault {
        self.set.lost(self.node);
        // Before any caller is told, so that one that asks again at once is not queued here once more.
        self.set_down(&fault);
        for job in jobs {
            self.undeliverable(job, Failure::Unknown, &fault);
        }
        fault
    }

    fn set_down(&self, fault: &NodeFault) {
        self.shared.link.set_down(fault.clone());
        self.set.tell_first_heard();
    }

    fn undeliverable(&self, job: Job, failure: Failure, fault: &NodeFault) {
        let undelivered = Undelivered::new(failure, fault.clone(), job.is_taking());
        job.answer(self.node, Err(undelivered));
        if let Job::Release(release) = job {
            self.keep(release);
        }
    }

    fn keep(&self, release: Release) {
        self.shared.pending.keep(release, self.shared.link.node(), clock::now());
    }

    /// Sends the releases that wait in the mailbox behind the requests that a silent server has not
    /// answered, on the very same connection. Should it wake up later and run those requests, it
    /// runs the releases right after them, and no key stays behind. They are kept for the
    /// reconnect as well: nobody knows whether this arrived.
    fn send_final_releases(&self, mut connection: Connection, fault: &NodeFault) {
        let jobs = self.in_mailbox();
        let mut buffer = Vec::new();
        for job in &jobs {
            if let Job::Release(release) = job {
                connection.encode(&release.request, "", &mut buffer);
            }
        }
        connection.final_releases(&buffer);
        // Only now: a caller that has been told may end the process.
        self.mailbox.put_back(self.turn_away(jobs, fault));
    }

    fn in_mailbox(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        self.mailbox.take(&mut jobs, BATCH);
        jobs
    }
}
