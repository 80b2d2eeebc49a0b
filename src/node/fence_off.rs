//! What connects anew ends the connections on the server that were given up before, so that nothing runs
//! any more that was written over them.

use std::time::Duration;

use super::connection::{Broken, Connection, Reply};
use super::job::{Job, Release};
use super::request::Value;
use super::worker::Worker;
use crate::clock;
use crate::core::base::{Backoff, Time};
use crate::core::link::LATEST;
use crate::random::random;

/// The pauses after which a node is told again of a release that it has refused.
const REFUSED: Backoff =
    Backoff { min: Duration::from_millis(500), max: Duration::from_millis(10_000) };

impl Connection {
    /// The answer to `CLIENT ID`.
    pub(super) fn read_client_id(&mut self, deadline: Time) -> Result<Option<u64>, Broken> {
        Ok(match self.read_any(deadline)? {
            Reply::Value(Value::Int(id)) => u64::try_from(id).ok(),
            // The user may not ask.
            _ => None,
        })
    }

    /// Ends other connections to the server, by its count; for each of them whether it is certainly over now.
    fn end_others(&mut self, ids: &[u64], deadline: Time) -> Result<Vec<bool>, Broken> {
        let mut commands = Vec::new();
        for id in ids {
            redis::cmd("CLIENT").arg(&["KILL", "ID"]).arg(*id).write_packed_command(&mut commands);
        }
        self.write(&commands)?;
        // How many it has ended: none, if that one is not there any more. An error: we may not.
        let is_over = |reply| matches!(reply, Reply::Value(Value::Int(0 | 1)));
        ids.iter().map(|_| Ok(is_over(self.read_any(deadline)?))).collect()
    }
}

impl Worker {
    /// That connection is given up, and `unanswered` was written over it.
    pub(super) fn leaves(&self, connection: &Connection, unanswered: &[Job]) {
        if !unanswered.is_empty() {
            let id = connection.count.by_server;
            self.old.lock().given_up(connection.run_id(), id, clock::now());
        }
    }

    /// Ends the old connections to the server that answers over this new one, as far as that is permitted.
    pub(super) fn fence_off(&self, connection: &mut Connection) -> Result<(), Broken> {
        let run = connection.run_id().to_owned();
        let ids = self.old.lock().that_have_to_end(&run, connection.count.by_server, clock::now());
        if !ids.is_empty() {
            let over = connection.end_others(&ids, clock::now().after(self.timeout))?;
            let mut old = self.old.lock();
            for (id, over) in ids.into_iter().zip(over) {
                match over {
                    true => old.ended(&run, id),
                    false => old.cannot_be_ended(&run, id),
                }
            }
        }
        let now = clock::now();
        connection.count.via = self.old.lock().opened(&run, now);
        if connection.count.via.fenced {
            self.shared.pending.repeat_now(now);
        }
        Ok(())
    }

    /// The node has answered that release; it is repeated, if something may still run behind it.
    pub(super) fn answered(&self, mut release: Release, connection: &Connection) {
        let (via, now) = (connection.count.via, clock::now());
        let repetition = release.repetition.as_mut();
        let due = repetition.and_then(|it| it.answered(via, now, random::<f64>));
        if let Some(due) = due {
            self.shared.pending.repeat(release, due, self.shared.link.node());
        }
    }

    /// The node has refused that release. It is told again while the key can be there: a right that is taken away comes back, as a
    /// rule, and a server whose memory is full gets room. Where nobody knows when the key ends, that is tried for a while.
    pub(super) fn refused(&self, mut release: Release) {
        let Some(refusals) = &mut release.refusals else { return };
        *refusals = refusals.saturating_add(1);
        let now = clock::now();
        let due = now.after(REFUSED.pause(*refusals, random()));
        release.until.get_or_insert(now.after(LATEST));
        self.shared.pending.keep_refused(release, due, now);
    }
}
