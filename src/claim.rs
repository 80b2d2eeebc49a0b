//! One owner id's claim to a lock: an attempt on its way, then perhaps a lock that is held.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind};
use crate::ident::{Name, owner_text};
use crate::kinds::{Kind, reply};
use crate::node::{Request, Sink};
use crate::quorum::{Attempt, Duty, Extension, Lease, Release, ReleaseResult, Time, drift};
use crate::round::{Interrupts, Round, Woken};

/// Which lock is wanted, and for how long at a time.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: &'static dyn Kind,
    pub(crate) name: Name,
    pub(crate) ttl: Duration,
}

/// Everything that may have left keys on the nodes under one owner id. Dropping it, in whatever
/// state and for whatever reason, a panic included, sends the releases that are due; that never
/// waits on the network.
pub(crate) struct Claim {
    coordinator: Arc<Coordinator>,
    wanted: Wanted,
    owner: String,
    attempt: Arc<Round<Attempt>>,
    lease: Mutex<Lease>,
}

impl Claim {
    /// A claim whose attempt is about to be made: nothing has been sent yet.
    pub(crate) fn new(
        coordinator: &Arc<Coordinator>,
        wanted: &Wanted,
        owner: u128,
        started: Time,
        answer_by: Time,
    ) -> Self {
        let attempt = Attempt::new(
            coordinator.nodes().len(),
            started,
            answer_by,
            wanted.ttl,
            coordinator.settings().mechanisms,
        );
        Self {
            coordinator: coordinator.clone(),
            wanted: wanted.clone(),
            owner: owner_text(owner),
            attempt: Round::new(attempt, reply::acquire, coordinator.names()),
            lease: Mutex::new(Lease::new(started, wanted.ttl)),
        }
    }

    /// Asks all nodes, and waits for the verdict.
    pub(crate) fn attempt(&self, answer_by: Time, interrupts: Interrupts<'_>) -> Woken {
        let Wanted { kind, name, ttl } = &self.wanted;
        self.attempt.ask(self.coordinator.nodes(), kind.acquire(name.key(), &self.owner, *ttl));
        self.attempt.wait(answer_by, interrupts)
    }

    pub(crate) fn round(&self) -> &Arc<Round<Attempt>> {
        &self.attempt
    }

    /// The attempt was won.
    pub(crate) fn granted(&self, valid_until: Time) {
        *self.lease.lock() = Lease::new(valid_until, self.wanted.ttl);
    }

    pub(crate) fn name(&self) -> &Name {
        &self.wanted.name
    }

    pub(crate) fn nodes(&self) -> usize {
        self.coordinator.nodes().len()
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.lease.lock().remaining(clock::now())
    }

    /// `Lost`, once the lock is not certainly ours any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let lease = *self.lease.lock();
        let now = clock::now();
        if !lease.remaining(now).is_zero() {
            return Ok(());
        }
        let ended_ago = lease.ended_ago(now);
        Err(self.lost(if ended_ago.is_zero() {
            "its keys were gone from the nodes before its time".to_owned()
        } else {
            format!("its validity ended {ended_ago:?} ago")
        }))
    }

    /// Has the keys live for `ttl` from now on at least, and the lease with them.
    pub(crate) fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.coordinator.settings().check_ttl(ttl)?;
        self.check()?;
        let settings = self.coordinator.settings();
        let started = clock::now();
        let answer_by = started.after(settings.node_timeout);
        let nodes = self.coordinator.nodes();
        let extension = Extension::new(nodes.len(), started, answer_by, ttl, settings.mechanisms);
        let most = extension.valid_at_most();
        let round = Round::new(extension, reply::extend, self.coordinator.names());

        self.lease.lock().extending(ttl, most);
        let Wanted { kind, name, .. } = &self.wanted;
        round.ask(nodes, kind.extend(name.key(), &self.owner, ttl));
        round.wait_uninterrupted(answer_by);

        let now = clock::now();
        let (confirmed, gone) =
            round.with(|extension| (extension.extended_until(now), extension.gone()));
        if gone {
            self.lease.lock().lost();
        } else if let Some(until) = confirmed {
            self.lease.lock().extended(until, now);
        }
        self.check()?;
        if confirmed.is_none() {
            let message =
                format!("{name} could not be extended: too few nodes confirmed it in time");
            return Err(Error::new(ErrorKind::NoQuorum, message)
                .with_faults(round.faults(nodes, answer_by)));
        }
        Ok(())
    }

    /// Gives everything back without waiting.
    pub(crate) fn release(&self) {
        let duties = self.close();
        if !duties.is_empty() {
            self.send_releases(&self.release_request(), &duties, None);
        }
    }

    /// Gives everything back, and waits until a majority has confirmed it.
    pub(crate) fn release_and_wait(&self) -> Result<(), Error> {
        let lost = self.check();
        let duties = self.close();
        let nodes = self.coordinator.nodes();
        let release = Release::new(nodes.len(), &duties);
        let round = Round::new(release, reply::release, self.coordinator.names());
        round.expect(0..nodes.len());
        let request = self.release_request();
        let sink: Arc<dyn Sink> = round.clone();
        self.send_releases(&request, &duties, Some(&sink));
        for (i, node) in nodes.iter().enumerate() {
            if duties.iter().all(|duty| duty.node != i) {
                node.ask(&request, &round);
            }
        }
        lost?;
        let answer_by = clock::now().after(self.coordinator.settings().node_timeout);
        round.wait_uninterrupted(answer_by);
        match round.with(|release| release.result()) {
            ReleaseResult::Released => Ok(()),
            ReleaseResult::WasLost => {
                Err(self.lost("its keys were gone from the nodes before it was given back".into()))
            }
            ReleaseResult::Unconfirmed => {
                let message = format!(
                    "{} was given back, but too few nodes confirmed it in time; they are told again \
                     when they come back, and its keys end with their TTL at the latest",
                    self.wanted.name
                );
                Err(Error::new(ErrorKind::NoQuorum, message)
                    .with_faults(round.faults(nodes, answer_by)))
            }
        }
    }

    /// Nothing more is sent for the attempt from here on.
    fn close(&self) -> Vec<Duty> {
        self.attempt.with(Attempt::close)
    }

    fn release_request(&self) -> Arc<Request> {
        let Wanted { kind, name, .. } = &self.wanted;
        Arc::new(kind.release(name.key(), &self.owner))
    }

    fn send_releases(&self, request: &Arc<Request>, duties: &[Duty], sink: Option<&Arc<dyn Sink>>) {
        // On the node's clock, which may be slower than ours.
        let longest = self.lease.lock().longest_ttl();
        let gone_at = clock::now().after(longest).after(drift(longest));
        for duty in duties {
            let until = (!duty.ghost).then_some(gone_at);
            self.coordinator.nodes()[duty.node].release(request, sink.cloned(), until);
        }
    }

    fn lost(&self, why: String) -> Error {
        let message = format!(
            "{} is lost: {why}; stop what it protects, somebody else may hold it now",
            self.wanted.name
        );
        Error::new(ErrorKind::Lost, message)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release();
    }
}
