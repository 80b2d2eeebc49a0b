//! A connection that listens to channels.

use std::time::Duration;

use redis::{Cmd, ServerError, Value};

use super::address::Address;
use super::connection::{Connection, PASSING};
use super::faults::server_fault;
use super::reader::Unread;
use crate::clock;
use crate::core::base::Time;
use crate::error::NodeFault;

/// Most channels in one command.
const AT_ONCE: usize = 256;

/// The reason why nothing can be listened to.
pub(super) enum Deaf {
    /// The connection is of no use any more. The node's worker reports the fault.
    Broken,
    /// The server does not allow it.
    Refused(NodeFault),
}

/// A published message.
pub(super) struct Message {
    pub(super) channel: Vec<u8>,
    pub(super) text: Vec<u8>,
}

/// An event on a connection that listens.
pub(super) enum Event {
    Subscribed,
    Message(Message),
    Refused(ServerError),
    /// The confirmation of an UNSUBSCRIBE, or something that does not concern us.
    Other,
}

/// A connection that is used for listening only.
pub(super) struct Listening {
    connection: Connection,
    timeout: Duration,
}

impl Listening {
    pub(super) fn new(connection: Connection, timeout: Duration) -> Self {
        Self { connection, timeout }
    }

    /// The id of the present run of the server.
    pub(super) fn run_id(&self) -> &str {
        self.connection.run_id()
    }

    /// Listens to `channels`, too; returns once the server has confirmed all of them. Messages that come
    /// meanwhile go to `heard`.
    ///
    /// This is done by hand, since the crate takes a server's refusal for a confirmation.
    pub(super) fn subscribe(
        &mut self,
        channels: &[Vec<u8>],
        mut heard: impl FnMut(Message),
    ) -> Result<(), Deaf> {
        self.read_timeout(self.timeout)?;
        for channels in channels.chunks(AT_ONCE) {
            self.write(redis::cmd("SUBSCRIBE").arg(channels))?;
            let deadline = clock::now().after(self.timeout);
            let mut confirmed = 0;
            while confirmed < channels.len() {
                match self.next_before(deadline)? {
                    Event::Subscribed => confirmed += 1,
                    Event::Message(message) => heard(message),
                    Event::Refused(error) => {
                        return Err(refusal(error, &self.connection.address));
                    }
                    Event::Other => {}
                }
            }
        }
        Ok(())
    }

    /// Unsubscribes without waiting for the confirmation: messages that come before it do no harm.
    pub(super) fn unsubscribe(&mut self, channels: &[Vec<u8>]) -> Result<(), Deaf> {
        for channels in channels.chunks(AT_ONCE) {
            self.write(redis::cmd("UNSUBSCRIBE").arg(channels))?;
        }
        Ok(())
    }

    /// The next message; `None` if none came within this time.
    pub(super) fn next(&mut self, within: Duration) -> Result<Option<Message>, Deaf> {
        self.read_timeout(within)?;
        let until = clock::now().after(within);
        loop {
            match self.connection.wire.read(until) {
                Ok(value) => {
                    if let Event::Message(message) = event(value) {
                        return Ok(Some(message));
                    }
                }
                Err(Unread::Failed(error)) if error.is_timeout() => return Ok(None),
                Err(_) => return Err(Deaf::Broken),
            }
        }
    }

    fn write(&mut self, command: &Cmd) -> Result<(), Deaf> {
        self.connection.write(&command.get_packed_command()).map_err(|_| Deaf::Broken)
    }

    fn read_timeout(&mut self, timeout: Duration) -> Result<(), Deaf> {
        self.connection.wire.set_read_timeout(timeout).map_err(|_| Deaf::Broken)
    }

    fn next_before(&mut self, deadline: Time) -> Result<Event, Deaf> {
        self.connection.wire.read(deadline).map(event).map_err(|_| Deaf::Broken)
    }
}

/// The meaning of an error to SUBSCRIBE. An error that a server gives to all commands for a time, such as BUSY, is no refusal.
fn refusal(error: ServerError, address: &Address) -> Deaf {
    match PASSING.contains(&error.code()) {
        true => Deaf::Broken,
        false => Deaf::Refused(server_fault(address, &error.into())),
    }
}

/// The event of a value. The two versions of the protocol differ only in the frame.
pub(super) fn event(value: Value) -> Event {
    let (kind, mut parts) = match value {
        Value::ServerError(error) => return Event::Refused(error),
        Value::Push { kind, data } => (kind.to_string(), data.into_iter()),
        Value::Array(parts) => {
            let mut parts = parts.into_iter();
            let Some(Value::BulkString(kind)) = parts.next() else { return Event::Other };
            (String::from_utf8_lossy(&kind).into_owned(), parts)
        }
        _ => return Event::Other,
    };
    match (kind.as_str(), parts.next(), parts.next()) {
        ("subscribe", ..) => Event::Subscribed,
        ("message", Some(Value::BulkString(channel)), Some(Value::BulkString(text))) => {
            Event::Message(Message { channel, text })
        }
        _ => Event::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_pass_is_a_refusal() {
        let address = Address::parse("redis://127.0.0.1:6379", 1).expect("a URL");
        let is_refused = |said: &str| {
            let value = redis::parse_redis_value(format!("-{said}\r\n").as_bytes());
            let Ok(Value::ServerError(error)) = value else { panic!("{value:?}") };
            matches!(refusal(error, &address), Deaf::Refused(_))
        };
        for said in [
            "NOPERM User locker has no permissions to access the 'x' channel",
            "ERR unknown command 'SUBSCRIBE', with args beginning with: 'x'",
            "NOAUTH Authentication required.",
            "ERR something else",
        ] {
            assert!(is_refused(said), "{said}");
        }
        for said in [
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down",
        ] {
            assert!(!is_refused(said), "{said}");
        }
    }
}
