//! One connection to a node: its thread reads commands and writes answers.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::keyspace::Bytes;
use super::machine::{Id, Machine, Output};
use super::reply::Reply;
use super::request::{self, Malformed};

/// A client that does not read its answers for this long is cut off.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Answers are written when no command is left to run, or when this many bytes are unwritten.
const MOST_UNWRITTEN: usize = 64 << 10;
const CHUNK: usize = 16 << 10;

pub(super) struct Connection {
    machine: Arc<Machine>,
    id: Id,
    input: TcpStream,
    output: Output,
    /// Answers that are not written yet.
    unwritten: Vec<u8>,
    /// The connection listens to channels; other commands are then refused.
    listens: bool,
}

/// The end of a connection. It carries no reason, as nothing uses one.
struct Ended;

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl Connection {
    /// Registers the connection. `None` if the node does not take it; it is then closed.
    pub(super) fn accept(machine: &Arc<Machine>, input: TcpStream) -> Option<Self> {
        input.set_nodelay(true).ok()?;
        input.set_write_timeout(Some(WRITE_TIMEOUT)).ok()?;
        let output = Arc::new(Mutex::new(input.try_clone().ok()?));
        let id = machine.connect(input.try_clone().ok()?, output.clone())?;
        let machine = machine.clone();
        Some(Self { machine, id, input, output, unwritten: Vec::new(), listens: false })
    }

    /// Serves the client until it leaves or the node ends.
    pub(super) fn run(mut self) {
        let _ended = self.talk();
    }

    fn talk(&mut self) -> Result<(), Ended> {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let mut done = 0;
            loop {
                let parsed = request::parse(&bytes[done..]);
                if parsed == Ok(None) {
                    break;
                }
                // A node that hangs answers nothing, not even malformed input.
                self.machine.wait_while_hung(self.id).ok_or(Ended)?;
                match parsed {
                    Ok(None) => break,
                    Ok(Some((words, length))) => {
                        done += length;
                        self.answer(&words)?;
                    }
                    Err(Malformed) => {
                        self.reply(&Reply::Error("ERR Protocol error".to_owned()))?;
                        self.flush()?;
                        return Err(Ended);
                    }
                }
            }
            bytes.drain(..done);
            self.flush()?;
            match self.input.read(&mut chunk)? {
                0 => return Err(Ended),
                read => bytes.extend_from_slice(&chunk[..read]),
            }
        }
    }

    fn answer(&mut self, words: &[Bytes]) -> Result<(), Ended> {
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        match (name.to_ascii_uppercase().as_slice(), rest) {
            (b"SUBSCRIBE", [_, ..]) => self.listen(rest, true),
            (b"UNSUBSCRIBE", []) => {
                let channels = self.machine.channels(self.id);
                if channels.is_empty() {
                    return self.reply(&confirmation("unsubscribe", Reply::Nil, 0));
                }
                self.listen(&channels, false)
            }
            (b"UNSUBSCRIBE", _) => self.listen(rest, false),
            (b"PING", _) if self.listens => {
                let text = rest.first().map_or(&b""[..], Vec::as_slice);
                self.reply(&Reply::bulks([&b"pong"[..], text]))
            }
            (b"QUIT", _) => {
                self.reply(&Reply::ok())?;
                self.flush()?;
                Err(Ended)
            }
            _ if self.listens => self.reply(&Reply::Error(
                "ERR only SUBSCRIBE, UNSUBSCRIBE, PING and QUIT are allowed in this context"
                    .to_owned(),
            )),
            (b"CLIENT", [what, _]) if what.eq_ignore_ascii_case(b"SETNAME") => {
                self.reply(&Reply::ok())
            }
            (b"CLIENT", [what]) if what.eq_ignore_ascii_case(b"ID") => {
                self.reply(&Reply::Int(self.id.number().cast_signed()))
            }
            (b"CLIENT", [what, by, id]) if is_kill_by_id(what, by) => {
                let id = std::str::from_utf8(id).ok().and_then(|id| id.parse().ok());
                let Some(id) = id.filter(|id| *id > 0) else {
                    let wrong = "ERR client-id should be greater than 0";
                    return self.reply(&Reply::Error(wrong.to_owned()));
                };
                let ended = self.machine.end_other(self.id, id).ok_or(Ended)?;
                self.reply(&Reply::Int(ended.into()))
            }
            _ => {
                let reply = self.machine.run(self.id, words).ok_or(Ended)?;
                self.reply(&reply)
            }
        }
    }

    fn listen(&mut self, channels: &[Bytes], listen: bool) -> Result<(), Ended> {
        let name = if listen { "subscribe" } else { "unsubscribe" };
        for channel in channels {
            // Written at once: messages must not come before the confirmation.
            self.flush()?;
            let Self { machine, id, output, listens, .. } = self;
            let confirm = |count: usize| {
                let mut bytes = Vec::new();
                confirmation(name, Reply::bulk(channel), count).write_to(&mut bytes);
                *listens = count > 0;
                // If this write fails, the next read fails too.
                let _ = output.lock().write_all(&bytes);
            };
            machine.listen(*id, channel, listen, confirm).ok_or(Ended)?;
        }
        Ok(())
    }

    fn reply(&mut self, reply: &Reply) -> Result<(), Ended> {
        reply.write_to(&mut self.unwritten);
        if self.unwritten.len() >= MOST_UNWRITTEN { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Ended> {
        if !self.unwritten.is_empty() {
            self.output.lock().write_all(&self.unwritten)?;
            self.unwritten.clear();
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.machine.disconnect(self.id);
    }
}

fn is_kill_by_id(what: &[u8], by: &[u8]) -> bool {
    what.eq_ignore_ascii_case(b"KILL") && by.eq_ignore_ascii_case(b"ID")
}

fn confirmation(name: &str, channel: Reply, count: usize) -> Reply {
    Reply::List(vec![Reply::bulk(name), channel, Reply::count(count)])
}
