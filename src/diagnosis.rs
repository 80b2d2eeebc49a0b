//! The faults of a set of masters, found before locks depend on it.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use crate::clock;
use crate::config::Builder;
use crate::core::admission::Offset;
use crate::core::base::rounded;
use crate::error::{Error, NodeFault};
use crate::ident;
use crate::node::{Address, Facts, Inspection};

mod clocks;
mod findings;
mod replicas;
mod rights;
mod rules;

pub use findings::{Check, Diagnosis, Finding, NodeDiagnosis, Severity};

/// The time limit of each answer, in node timeouts: a slow node must be distinguished from one that does not answer.
const PATIENCE: u32 = 5;
const SHORTEST_PATIENCE: Duration = Duration::from_secs(1);
/// The most answers for which an inspection waits one after the other, once the latency is known.
const ANSWERS: u32 = 16;
/// Additional time for the readings of the clock, and for a slow machine.
const READINGS: Duration = Duration::from_secs(5);

impl Builder {
    /// Examines the nodes with these settings, and reports their faults.
    ///
    /// It changes nothing on the nodes, and takes no lock. So it can be called for a set that is in use, and before a set is
    /// used for the first time. It takes about one second, and longer if nodes do not answer. Each node is examined over a
    /// connection of its own, by a thread of its own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if [`build`](Self::build) would refuse these settings, or if a thread
    /// cannot be started. A fault of a node is not an error, but a finding.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use quorlock::{Quorlock, Severity};
    ///
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let diagnosis = Quorlock::builder().nodes(nodes).diagnose()?;
    /// println!("{diagnosis}");
    /// assert!(diagnosis.severity() < Severity::Problem);
    /// # Ok::<(), quorlock::Error>(())
    /// ```
    pub fn diagnose(self) -> Result<Diagnosis, Error> {
        let (addresses, settings) = self.checked()?;
        let names: Arc<[Arc<str>]> =
            addresses.iter().map(|address| address.shown().clone()).collect();
        let mark_key = ident::mark_key(&settings.key_prefix);
        let patience = settings.node_timeout.saturating_mul(PATIENCE).max(SHORTEST_PATIENCE);
        let inspection = |address| Inspection {
            address,
            key_prefix: settings.key_prefix.clone(),
            mark_key: mark_key.clone(),
            fencing: settings.fencing,
            patience,
        };
        let facts = inspect(addresses, inspection, patience)?;
        let set = rules::Set {
            names: &names,
            mark_key: &mark_key,
            settings: &settings,
            our_clock: our_clock(),
        };
        Ok(set.diagnose(&facts))
    }
}

/// Inspects all nodes at the same time.
fn inspect(
    addresses: Vec<Address>,
    inspection: impl Fn(Address) -> Inspection,
    patience: Duration,
) -> Result<Vec<Result<Facts, NodeFault>>, Error> {
    let answer_by = clock::now().after(patience.saturating_mul(ANSWERS).saturating_add(READINGS));
    let mut answers = Vec::new();
    for address in addresses {
        let name = address.shown().clone();
        let (sender, answer) = bounded(1);
        let inspection = inspection(address);
        let run = move || _ = sender.send(inspection.run());
        clock::spawn("quorlock-inspection".to_owned(), run).map_err(|error| {
            Error::config(format!("no thread could be started to examine {name}: {error}"))
        })?;
        answers.push((name, answer));
    }
    let wait = |(name, answer): (Arc<str>, Receiver<_>)| {
        let left = answer_by.since(clock::now());
        answer.recv_timeout(left).unwrap_or_else(|_| {
            let what = format!(
                "it could not be examined within {}; is its name resolved that slowly?",
                rounded(patience.saturating_mul(ANSWERS).saturating_add(READINGS))
            );
            Err(NodeFault::new(&name, what))
        })
    };
    Ok(answers.into_iter().map(wait).collect())
}

/// Returns the lead of this machine's clock over the lease clock.
fn our_clock() -> Offset {
    let before = clock::now();
    let wall_us = i64::try_from(clock::wall().as_micros()).unwrap_or(i64::MAX);
    Offset::new(wall_us, before, clock::now())
}
