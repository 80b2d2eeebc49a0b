//! A request that waits for the connection, or goes over it.

use super::super::base::Time;
use super::late::Repetition;

/// One request to a node.
pub(crate) struct Job<R> {
    pub(crate) request: R,
    pub(crate) purpose: Purpose,
    /// True if a copy was written before.
    pub(super) written: bool,
}

/// The purpose of a request, which decides where it may go.
pub(crate) enum Purpose {
    /// A question. It goes out whatever is known of the node.
    Anyway,
    /// A lock that is held. It goes out where the node serves holders.
    Holding,
    /// A lock that nobody holds. It goes out under the mark under which the node grants at the moment of the write. So a copy
    /// that is sent again after a restart never comes with the earlier mark.
    Taking,
    /// A release. It must reach the node as long as the key can be there, whether its caller waits or not.
    Release(Release),
}

/// The terms of a release.
#[derive(Debug)]
pub(crate) struct Release {
    /// The time at which the key is gone by itself; `None` if it is unknown.
    pub(crate) until: Option<Time>,
    /// Given if the release may have to be repeated after its answer.
    pub(crate) repetition: Option<Box<Repetition>>,
    /// The number of times that the node has refused it. `None` if it releases no key, and is not sent again.
    pub(crate) refusals: Option<u32>,
}

impl Release {
    /// Returns the terms of a release of keys that are gone by themselves at `until`, if that is known.
    pub(crate) fn of_key(until: Option<Time>, repetition: Option<Repetition>) -> Self {
        Self { until, repetition: repetition.map(Box::new), refusals: Some(0) }
    }

    /// Returns the terms of a request that releases no key, and is of use until that time. A refusal is final: before a second
    /// try, the caller may have asked again for what the node was to forget.
    pub(crate) const fn without_key(until: Time) -> Self {
        Self { until: Some(until), repetition: None, refusals: None }
    }
}

impl<R> Job<R> {
    pub(crate) const fn new(request: R, purpose: Purpose) -> Self {
        Self { request, purpose, written: false }
    }

    /// Returns true if the request is for a lock that nobody holds.
    pub(crate) const fn is_taking(&self) -> bool {
        matches!(self.purpose, Purpose::Taking)
    }

    /// Returns true if the request is for a lock that is held.
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
