//! How a worker probes its node, before it carries anything there, and checks it, and probes it again, when that is due.

use super::connection::{Broken, Connection, GRACE, Reply};
use super::request::{Form, Request, Value};
use super::worker::Worker;
use super::{admit, check};
use crate::clock;
use crate::core::admission::{AsSeen, Change, NextProbe};
use crate::core::base::Time;
use crate::error::NodeFault;

/// The most probes in a row. Five are the most that there is to do: check, probe, begin a quarantine, set its end,
/// and once more if somebody was faster.
const STEPS: usize = 8;

impl Worker {
    /// Checks and probes the node, and changes its mark, as long as there is something to do at once. When to come
    /// back at the latest.
    ///
    /// A server that is no master ends its connection: nothing is carried there.
    pub(super) fn admit(&self, connection: &mut Connection) -> Result<Time, Broken> {
        for _ in 0..STEPS {
            let now = clock::now();
            match self.set.next(self.node, now) {
                NextProbe::Wait(until) => return Ok(until),
                NextProbe::Ask(change) => self.probe(connection, change.as_ref())?,
                NextProbe::Check(as_seen) => self.check(connection, &as_seen)?,
            }
        }
        // Somebody is changing the mark all the time. Others shall have their turn meanwhile.
        Ok(clock::now())
    }

    fn probe(&self, connection: &mut Connection, change: Option<&Change>) -> Result<(), Broken> {
        let request = admit::request(self.set.mark_key(), change);
        let Some(Asked { value, sent, answered }) = self.ask_at_once(connection, &request)? else {
            return Ok(());
        };
        let Some(probe) = admit::read(&value, sent, answered) else {
            return Err(self.no_redis("the first question", &value));
        };
        self.set.probed(self.node, probe, answered);
        match self.set.no_master(self.node) {
            Some(fault) => Err(Broken { fault, closed: false, in_step: true }),
            None => Ok(()),
        }
    }

    fn check(&self, connection: &mut Connection, as_seen: &AsSeen) -> Result<(), Broken> {
        let request = check::request(self.set.mark_key(), as_seen);
        let Some(Asked { value, sent, answered }) = self.ask_at_once(connection, &request)? else {
            return Ok(());
        };
        let Some(checked) = check::read(&value, sent, answered) else {
            return Err(self.no_redis("the question whether anything has changed", &value));
        };
        self.set.checked(self.node, checked, answered);
        Ok(())
    }

    /// Asks in a write of its own. `None`: the server does not answer that, which is noted; or it has to be asked anew.
    fn ask_at_once(
        &self,
        connection: &mut Connection,
        request: &Request,
    ) -> Result<Option<Asked>, Broken> {
        let mut buffer = Vec::new();
        let form = connection.encode(request, "", &mut buffer);
        let sent = clock::now();
        connection.write(&buffer)?;
        let deadline = clock::now().after(self.timeout + GRACE);
        match connection.read(deadline)? {
            Reply::Value(value) => {
                if form == Form::Sha {
                    self.shared.link.serves();
                }
                return Ok(Some(Asked { value, sent, answered: clock::now() }));
            }
            Reply::Error(fault) => {
                connection.forget(request.script());
                // It is up, and may serve holders as well as before.
                self.set.refused(self.node, self.shared.link.refused(fault), clock::now());
            }
            Reply::NoScript => connection.forget_scripts(),
        }
        Ok(None)
    }

    fn no_redis(&self, question: &str, value: &Value) -> Broken {
        let what = format!(
            "the server has answered {question} with {value}; is it a proxy, or something other than \
             Redis?"
        );
        let fault = NodeFault::new(self.address.shown(), what);
        Broken { fault, closed: false, in_step: false }
    }
}

/// An answer, and when it was asked for and there.
struct Asked {
    value: Value,
    sent: Time,
    answered: Time,
}
