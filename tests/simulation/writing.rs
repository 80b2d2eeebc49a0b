//! What goes into one write to a node, and what its answers say: single calls, and batches, as
//! `src/node/batch.rs` makes them and takes them apart.

use super::claim::MARK;
use super::fan_out::value;
use super::network::Message;
use super::switches::Switches;
use super::worker::Job;
use crate::embedded::Reply;
use crate::node::{Answers, Call, evals};

/// The calls for `jobs`, in order; each one by itself, unless they go `together`.
pub(super) fn messages(jobs: &[&Job], together: bool, switches: Switches) -> Vec<(Call, Message)> {
    let requests: Vec<_> = jobs
        .iter()
        .map(|job| (&*job.outgoing.request, job.under.as_deref().unwrap_or_default()))
        .collect();
    let mut parts = jobs.iter().map(|job| job.outgoing.part.clone());
    let message = |(call, command): (Call, _)| {
        let parts = parts.by_ref().take(call.requests).collect();
        (call, Message { command: switches.applied(command), parts })
    };
    evals(&requests, MARK, together).into_iter().map(message).collect()
}

/// What is answered to each request of a call; `None` to one that has to be made alone, and in place of
/// all where nothing was done.
pub(super) fn answers<'a>(call: &Call, reply: &'a Reply) -> Option<Vec<Option<&'a Reply>>> {
    if !call.is_batch() {
        return Some(vec![Some(reply)]);
    }
    match (call.answers(value(reply)), reply) {
        (Ok(Answers::NothingDone), _) => None,
        (Ok(Answers::Each(answers)), Reply::List(replies)) => {
            let done = |(reply, answer): (&'a Reply, Option<_>)| answer.map(|_| reply);
            Some(replies.iter().zip(answers).map(done).collect())
        }
        (answer, _) => panic!("no batch answers {reply:?}, taken for {answer:?}"),
    }
}
