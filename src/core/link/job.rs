//! A request that waits for the connection, or goes over it.

use super::super::base::Time;
use super::late::Repetition;

/// One request to a node.
pub(crate) struct Job<R> {
    pub(crate) request: R,
    pub(crate) purpose: Purpose,
    /// A copy was written before.
    pub(super) written: bool,
}

/// The purpose of a request, which says where it may go.
pub(crate) enum Purpose {
    /// A question, whatever is known of the node.
    Anyway,
    /// A lock that is held: where the node serves holders.
    Holding,
    /// A lock that nobody holds: under the mark under which the node grants at the moment at which it is written. So a
    /// copy that is sent again after a restart never comes with the mark of before.
    Taking,
    /// A release. It has to reach the node as long as the key can be there, whether its caller waits or not.
    Release(Release),
}

/// The terms of a release.
#[derive(Debug)]
pub(crate) struct Release {
    /// The time at which the key is gone by itself; `None` if that cannot be told.
    pub(crate) until: Option<Time>,
    /// Given if it may not be done when it is answered.
    pub(crate) repetition: Option<Box<Repetition>>,
    /// Times that the node has refused it. `None`: it releases no key, and is not told again.
    pub(crate) refusals: Option<u32>,
}

impl<R> Job<R> {
    pub(crate) const fn new(request: R, purpose: Purpose) -> Self {
        Self { request, purpose, written: false }
    }

    /// Returns true if it wants a lock that nobody holds.
    pub(crate) const fn is_taking(&self) -> bool {
        matches!(self.purpose, Purpose::Taking)
    }

    /// Returns true if it is asked for a lock that is held.
    pub(crate) const fn is_holding(&self) -> bool {
        matches!(self.purpose, Purpose::Holding)
    }

    /// Returns the terms of a release; `None` if it is none.
    pub(crate) const fn release(&self) -> Option<&Release> {
        match &self.purpose {
            Purpose::Release(release) => Some(release),
            _ => None,
        }
    }

    pub(super) const fn release_mut(&mut self) -> Option<&mut Release> {
        match &mut self.purpose {
            Purpose::Release(release) => Some(release),
            _ => None,
        }
    }
}
