//! One node as its threads and its handle see it: the engine, a movable clock, and the phase
//! (up, hung, killed or gone).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::engine::Engine;
use super::keyspace::Bytes;
use super::reply::Reply;
use crate::clock;
use crate::random::random_afresh;

/// Most connections that a node has at a time.
const MOST_CONNECTIONS: usize = 1_000;

/// The write half of a connection. Its own thread writes to it, and threads that publish do too.
pub(super) type Output = Arc<Mutex<TcpStream>>;

/// The number of a connection of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64);

impl Id {
    /// The number that `CLIENT ID` answers.
    pub(super) const fn number(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Up,
    /// Like a stopped process: received bytes are kept, and nothing answers.
    Hung,
    /// Like a process that does not run.
    Killed,
    /// The handle was dropped, and all threads are to end.
    Gone,
}

pub(super) struct Machine {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    engine: Engine,
    phase: Phase,
    clock: Clock,
    connections: BTreeMap<Id, Connection>,
    next_id: u64,
}

/// The offset of the node's clock from the machine's clock.
#[derive(Default)]
struct Clock {
    forward: Duration,
    back: Duration,
}

struct Connection {
    /// Used to end the connection.
    stream: TcpStream,
    output: Output,
    channels: BTreeSet<Bytes>,
}

impl Clock {
    fn now(&self) -> Duration {
        clock::wall().saturating_add(self.forward).saturating_sub(self.back)
    }
}

impl Inner {
    /// Closes all connections, as at the end of a process.
    fn disconnect(&mut self) {
        for connection in std::mem::take(&mut self.connections).into_values() {
            // It may be closed already.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    fn connect(&mut self, stream: TcpStream, output: Output) -> Option<Id> {
        let there = matches!(self.phase, Phase::Up | Phase::Hung);
        if !there || self.connections.len() >= MOST_CONNECTIONS {
            return None;
        }
        let id = Id(self.next_id);
        self.next_id += 1;
        self.connections.insert(id, Connection { stream, output, channels: BTreeSet::new() });
        Some(id)
    }

    fn run(&mut self, words: &[Bytes]) -> Reply {
        let reply = self.engine.call(words, self.clock.now());
        self.deliver();
        reply
    }

    /// Changes a subscription, and returns the number of channels that the connection then listens to.
    fn listen(&mut self, id: Id, channel: &[u8], listen: bool) -> Option<usize> {
        let channels = &mut self.connections.get_mut(&id)?.channels;
        if listen {
            if channels.insert(channel.to_vec()) {
                self.engine.subscribe(channel);
            }
        } else if channels.remove(channel) {
            self.engine.unsubscribe(channel);
        }
        Some(channels.len())
    }

    fn deliver(&mut self) {
        for message in self.engine.take_published() {
            let words = ["message".as_bytes(), &message.channel, &message.text];
            let mut bytes = Vec::new();
            Reply::bulks(words).write_to(&mut bytes);
            for connection in self.connections.values() {
                if connection.channels.contains(&message.channel)
                    && connection.output.lock().write_all(&bytes).is_err()
                {
                    // A client that does not read in time is cut off; the connection's own thread removes it.
                    let _ = connection.stream.shutdown(Shutdown::Both);
                }
            }
        }
    }

    fn remove(&mut self, id: Id) {
        if let Some(connection) = self.connections.remove(&id) {
            for channel in connection.channels {
                self.engine.unsubscribe(&channel);
            }
        }
    }
}

impl Machine {
    pub(super) fn new() -> Self {
        let inner = Inner {
            engine: Engine::new(&fresh_run_id()),
            phase: Phase::Up,
            clock: Clock::default(),
            connections: BTreeMap::new(),
            next_id: 1,
        };
        Self { inner: Mutex::new(inner), changed: Condvar::new() }
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        change(&mut self.inner.lock());
        self.changed.notify_all();
    }

    pub(super) fn kill(&self) {
        self.change(|inner| {
            inner.phase = Phase::Killed;
            inner.disconnect();
        });
    }

    pub(super) fn restart(&self, keep_data: bool) {
        self.change(|inner| {
            inner.disconnect();
            inner.engine.restart(&fresh_run_id(), keep_data);
            inner.phase = Phase::Up;
        });
    }

    pub(super) fn hang(&self) {
        self.change(|inner| {
            if inner.phase == Phase::Up {
                inner.phase = Phase::Hung;
            }
        });
    }

    pub(super) fn resume(&self) {
        self.change(|inner| {
            if inner.phase == Phase::Hung {
                inner.phase = Phase::Up;
            }
        });
    }

    pub(super) fn end(&self) {
        self.change(|inner| {
            inner.phase = Phase::Gone;
            inner.disconnect();
        });
    }

    pub(super) fn is_gone(&self) -> bool {
        self.inner.lock().phase == Phase::Gone
    }

    pub(super) fn flush(&self) {
        let mut inner = self.inner.lock();
        let now = inner.clock.now();
        inner.engine.call(&[b"FLUSHALL".to_vec()], now);
    }

    pub(super) fn keys(&self) -> Vec<Bytes> {
        let mut inner = self.inner.lock();
        let now = inner.clock.now();
        inner.engine.keys(now).into_iter().map(|live| live.key).collect()
    }

    pub(super) fn move_clock_forward(&self, by: Duration) {
        let clock = &mut self.inner.lock().clock;
        clock.forward = clock.forward.saturating_add(by);
    }

    pub(super) fn move_clock_back(&self, by: Duration) {
        let clock = &mut self.inner.lock().clock;
        clock.back = clock.back.saturating_add(by);
    }

    /// Registers a connection. `None` if the node does not run or has too many connections.
    pub(super) fn connect(&self, stream: TcpStream, output: Output) -> Option<Id> {
        self.inner.lock().connect(stream, output)
    }

    pub(super) fn disconnect(&self, id: Id) {
        self.inner.lock().remove(id);
    }

    /// Ends another connection, so that no command sent over it runs any more. Returns true if it existed;
    /// `None` once the calling connection has ended.
    pub(super) fn end_other(&self, id: Id, other: u64) -> Option<bool> {
        let mut inner = self.turn(id)?;
        let ended = inner.connections.get(&Id(other)).filter(|_| other != id.0);
        let stream = ended.map(|connection| connection.stream.shutdown(Shutdown::Both));
        if stream.is_some() {
            inner.remove(Id(other));
        }
        drop(inner);
        self.changed.notify_all();
        Some(stream.is_some())
    }

    /// Waits until the node can run a command of this connection; `None` once the connection has ended.
    fn turn(&self, id: Id) -> Option<MutexGuard<'_, Inner>> {
        let mut inner = self.inner.lock();
        while inner.phase == Phase::Hung && inner.connections.contains_key(&id) {
            self.changed.wait(&mut inner);
        }
        inner.connections.contains_key(&id).then_some(inner)
    }

    /// Waits until the node no longer hangs; `None` once the connection has ended.
    pub(super) fn wait_while_hung(&self, id: Id) -> Option<()> {
        self.turn(id).map(drop)
    }

    /// Runs a command of a connection; `None` once the connection has ended.
    pub(super) fn run(&self, id: Id, words: &[Bytes]) -> Option<Reply> {
        Some(self.turn(id)?.run(words))
    }

    /// Subscribes a connection to `channel`, or unsubscribes it. Then calls `confirm` with the number of
    /// channels that the connection listens to, before any message is delivered.
    pub(super) fn listen(
        &self,
        id: Id,
        channel: &[u8],
        listen: bool,
        confirm: impl FnOnce(usize),
    ) -> Option<()> {
        self.turn(id)?.listen(id, channel, listen).map(confirm)
    }

    /// The channels that a connection listens to.
    pub(super) fn channels(&self, id: Id) -> Vec<Bytes> {
        let inner = self.inner.lock();
        inner.connections.get(&id).into_iter().flat_map(|found| &found.channels).cloned().collect()
    }
}

/// Forty hexadecimal digits that no other run has.
fn fresh_run_id() -> String {
    let bytes: [u8; 20] = random_afresh();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
