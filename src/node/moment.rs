//! What a node may be sent at the moment at which a batch is written.

use std::cell::OnceCell;

use super::job::{Ask, Job, Undelivered};
use super::request::Request;
use super::set::NodeSet;
use crate::error::NodeFault;
use crate::quorum::Failure;

/// What is known of the node then; asked when it is needed, and once for all jobs of the batch.
pub(super) struct Moment<'a> {
    set: &'a NodeSet,
    node: usize,
    mark: OnceCell<Result<String, Undelivered>>,
    not_serving: OnceCell<Option<NodeFault>>,
}

impl<'a> Moment<'a> {
    pub(super) fn of(set: &'a NodeSet, node: usize) -> Self {
        Self { set, node, mark: OnceCell::new(), not_serving: OnceCell::new() }
    }

    /// The mark under which locks are taken, if any are.
    pub(super) fn mark(&self) -> Option<&str> {
        self.mark.get()?.as_deref().ok()
    }

    /// What to write for `job`, and under which mark; an error if it must not go there now.
    pub(super) fn to_write<'b>(
        &'b self,
        job: &'b Job,
    ) -> Result<(&'b Request, &'b str), Undelivered> {
        match job {
            Job::Release(release) => Ok((&release.request, "")),
            Job::Ask { ask: Ask::Anyway(request), .. } => Ok((request, "")),
            Job::Ask { ask: Ask::Holding(request), written, .. } => {
                match self.not_serving.get_or_init(|| self.set.not_serving(self.node)) {
                    None => Ok((request, "")),
                    Some(fault) => {
                        let failure = if *written { Failure::Unknown } else { Failure::NotSent };
                        Err(Undelivered { failure, fault: fault.clone() })
                    }
                }
            }
            Job::Ask { ask: Ask::Taking(request), .. } => {
                match self.mark.get_or_init(|| self.set.mark(self.node)) {
                    Ok(mark) => Ok((request, mark)),
                    Err(refused) => Err(refused.clone()),
                }
            }
        }
    }
}
