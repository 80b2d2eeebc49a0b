//! What a node may be sent at the moment at which a batch is written.

use std::cell::OnceCell;

use super::job::{Ask, Job, Undelivered};
use super::request::Request;
use super::set::NodeSet;
use crate::core::vote::Failure;
use crate::error::NodeFault;

/// What is known of the node then; asked when it is needed, and once for all jobs of the batch.
pub(super) struct SendPermit<'a> {
    set: &'a NodeSet,
    node: usize,
    mark: OnceCell<Result<String, Undelivered>>,
    not_serving: OnceCell<Option<NodeFault>>,
}

impl<'a> SendPermit<'a> {
    pub(super) fn of(set: &'a NodeSet, node: usize) -> Self {
        Self { set, node, mark: OnceCell::new(), not_serving: OnceCell::new() }
    }

    /// The mark under which locks are taken, if any are.
    pub(super) fn mark(&self) -> Option<&str> {
        self.mark.get()?.as_deref().ok()
    }

    /// An error if `job` must not go to the node now.
    pub(super) fn allows(&self, job: &Job) -> Result<(), Undelivered> {
        match job {
            Job::Release(_) | Job::Ask { ask: Ask::Anyway(_), .. } => Ok(()),
            Job::Ask { ask: Ask::Holding(_), written, .. } => {
                match self.not_serving.get_or_init(|| self.set.not_serving(self.node)) {
                    None => Ok(()),
                    Some(fault) => {
                        let failure = if *written { Failure::Unknown } else { Failure::NotSent };
                        Err(Undelivered { failure, fault: fault.clone() })
                    }
                }
            }
            Job::Ask { ask: Ask::Taking(_), .. } => {
                let mark = self.mark.get_or_init(|| self.set.mark(self.node));
                mark.as_ref().map(|_| ()).map_err(Undelivered::clone)
            }
        }
    }

    /// What to write for a job that is allowed, and under which mark.
    pub(super) fn to_write<'b>(&'b self, job: &'b Job) -> (&'b Request, &'b str) {
        let mark = self.mark().filter(|_| job.is_taking());
        (job.request(), mark.unwrap_or_default())
    }
}
