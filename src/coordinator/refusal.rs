//! What a caller is told who did not get the lock.

use std::time::Duration;

use super::Coordinator;
use crate::claim::Wanted;
use crate::clock;
use crate::error::{Error, ErrorKind, NodeFault};
use crate::ident::Name;
use crate::manual::Section;
use crate::observe;
use crate::quorum::{Outcome, majority};
use crate::tenancy::Tenancy;

impl Coordinator {
    /// `Config`, if a node is in a state for whose sake no lock may be taken anywhere.
    pub(super) fn check_agreement(&self, name: &Name) -> Result<(), Error> {
        match self.set.conflict() {
            None => Ok(()),
            Some(faults) => {
                let message = format!("{name} cannot be locked: the nodes are not one set of ours");
                Err(Error::config(message).with_faults(faults))
            }
        }
    }

    /// A call waits until nodes grant locks, which is in `ready_in` as far as is known.
    pub(super) fn tell_wait(&self, name: &Name, ready_in: Duration, faults: &[NodeFault]) {
        observe::waits_for_nodes(name, &self.not_admitted(ready_in), faults);
    }

    /// Why no lock is granted although the nodes answer, how long that lasts, and what ends it.
    fn not_admitted(&self, ready_in: Duration) -> String {
        let nodes = match self.settings.fall_back_after() {
            Some(_) => "the first node, to which clients may fall back, or too many of the others",
            None => "too many nodes",
        };
        let max_ttl = self.settings.max_ttl;
        if self.set.quarantined().is_empty() {
            return format!(
                "{nodes} may have forgotten locks that are held; locks are granted again in \
                 {ready_in:.1?}"
            );
        }
        format!(
            "{nodes} may have forgotten locks that are held, and are in quarantine. That ends by itself, \
             in {ready_in:.1?} (max_ttl is {max_ttl:?}). Where nothing can be held, as before the first \
             start of a new set, Quorlock::admit ends it at once. For development and CI with a throw-away \
             server there is restart_quarantine(false): without quarantine, a restart lets a second client \
             have a lock that is held. See {}",
            Section::FirstSeconds
        )
    }

    /// `None` if the lock is held, and an error otherwise.
    pub(super) fn refusal(
        &self,
        outcome: Outcome,
        wanted: &Wanted,
        faults: impl FnOnce() -> Vec<NodeFault>,
    ) -> Result<Option<Tenancy>, Error> {
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
            Outcome::Spent => (
                ErrorKind::WrongKind,
                format!(
                    "{name} cannot be locked with a fencing token: the key \"{}\" on the nodes is \
                     at the end of its range, or no number; find out who wrote it, for quorlock \
                     gets there in centuries only, and use another name until it is gone",
                    name.fence_key().escape_ascii()
                ),
            ),
            Outcome::NotAdmitted => {
                let now = clock::now();
                let ready_in = self.set.ready_in(now).unwrap_or(self.settings.max_ttl);
                let message =
                    format!("{name} was not granted: {}. The nodes", self.not_admitted(ready_in));
                (ErrorKind::Quarantined { ready_in }, message)
            }
            Outcome::NoQuorum if self.settings.fall_back_after().is_some() => (
                ErrorKind::NoQuorum,
                format!(
                    "no quorum for {name}: {needed} of {nodes} nodes have to answer, and the first \
                     one must not answer with an error, since clients may fall back to it"
                ),
            ),
            Outcome::NoQuorum => (
                ErrorKind::NoQuorum,
                format!("no quorum for {name}: {needed} of {nodes} nodes have to answer"),
            ),
            Outcome::Unconfirmed => (
                ErrorKind::NoQuorum,
                format!(
                    "no quorum for {name}: {needed} of {nodes} nodes granted it, and too few of them \
                     confirmed its fencing token in time"
                ),
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

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.hub.close();
    }
}
