//! How a worker probes its node, before it carries anything there, and again when that is due.

use super::admit;
use super::connection::{Broken, Connection, GRACE, Reply};
use super::worker::Worker;
use crate::clock;
use crate::core::{Change, NextProbe, Time};
use crate::error::NodeFault;

/// The most probes in a row. Four are the most that there is to do: probe, begin a quarantine, set its end,
/// and once more if somebody was faster.
const STEPS: usize = 8;

impl Worker {
    /// Probes the node, and changes its mark, as long as there is something to do at once. When to come
    /// back at the latest.
    ///
    /// A server that is no master ends its connection: nothing is carried there.
    pub(super) fn admit(&self, connection: &mut Connection) -> Result<Time, Broken> {
        for _ in 0..STEPS {
            let now = clock::now();
            match self.set.next(self.node, now) {
                NextProbe::Wait(until) => return Ok(until),
                NextProbe::Ask(change) => self.probe(connection, change.as_ref())?,
            }
        }
        // Somebody is changing the mark all the time. Others shall have their turn meanwhile.
        Ok(clock::now())
    }

    fn probe(&self, connection: &mut Connection, change: Option<&Change>) -> Result<(), Broken> {
        let request = admit::request(self.set.mark_key(), change);
        let mut buffer = Vec::new();
        connection.encode(&request, "", &mut buffer);
        let sent = clock::now();
        connection.write(&buffer)?;
        let deadline = clock::now().after(self.timeout + GRACE);
        let value = match connection.read(deadline)? {
            Reply::Value(value) => value,
            Reply::Error(fault) => {
                connection.forget(request.script());
                // It is up, and may serve holders as well as before.
                self.set.refused(self.node, fault, clock::now());
                return Ok(());
            }
            Reply::NoScript => {
                connection.forget_scripts();
                return Ok(());
            }
        };
        let now = clock::now();
        let Some(probe) = admit::read(&value, sent, now) else {
            let what = format!(
                "the first question to the server was answered with {value}; is something else than Redis, or \
                 a proxy, in between?"
            );
            let fault = NodeFault::new(self.address.shown(), what);
            return Err(Broken { fault, closed: false, in_step: false });
        };
        self.set.probed(self.node, probe, now);
        match self.set.no_master(self.node) {
            Some(fault) => Err(Broken { fault, closed: false, in_step: true }),
            None => Ok(()),
        }
    }
}
