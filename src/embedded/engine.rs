//! One node without a network and without a clock: commands in, answers out.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::channels::{Channels, Message};
#[cfg(test)]
use super::keyspace::Keyspace;
use super::keyspace::{Bytes, Entry, Value};
use super::reply::{Answer, Fault, Reply};
use super::script::Scripts;
use super::state::{Identity, State, wrong_arity};

/// The behaviour of a Redis master for commands and scripts.
///
/// Time is an argument and nothing is random: the same calls get the same answers.
pub(crate) struct Engine {
    /// Shared only with the functions that scripts call.
    state: Arc<Mutex<State>>,
    scripts: Result<Scripts, Fault>,
}

/// The data of a node.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct Data(Keyspace);

/// A key that has not expired.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveKey {
    pub(crate) key: Bytes,
    pub(crate) value: Value,
    /// Time since the Unix epoch, by the node's clock; `None`: no expiry.
    pub(crate) expires_at: Option<Duration>,
}

impl Engine {
    /// Creates an empty node. INFO answers `run_id` also as the replication id; it has forty
    /// hexadecimal digits.
    pub(crate) fn new(run_id: &str) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        state.lock().identity = Identity::new(run_id);
        let scripts = Scripts::new(&state);
        Self { state, scripts }
    }

    /// Runs one command, a name and its arguments, at `now`: the time of the node's wall clock since
    /// the Unix epoch.
    pub(crate) fn call(&mut self, command: &[Bytes], now: Duration) -> Reply {
        self.answer(command, now).unwrap_or_else(Reply::from)
    }

    fn answer(&mut self, command: &[Bytes], now: Duration) -> Answer {
        self.set_time(now);
        let (name, words) = command.split_first().ok_or(Fault::SYNTAX)?;
        let scripts = self.scripts.as_mut().map_err(|fault| fault.clone());
        match name.to_ascii_uppercase().as_slice() {
            b"EVAL" | b"EVALSHA" | b"SCRIPT" if words.is_empty() => Err(arity(name)),
            b"EVAL" | b"EVALSHA" if words.len() < 2 => Err(arity(name)),
            b"EVAL" => scripts?.eval(words),
            b"EVALSHA" => scripts?.eval_sha(words),
            b"SCRIPT" => script(scripts?, words),
            _ => self.state.lock().call(command),
        }
    }

    /// Adds one listener of `channel`, as PUBLISH counts them.
    pub(crate) fn subscribe(&mut self, channel: &[u8]) {
        self.state.lock().channels.subscribe(channel);
    }

    /// Removes one listener of `channel`.
    pub(crate) fn unsubscribe(&mut self, channel: &[u8]) {
        self.state.lock().channels.unsubscribe(channel);
    }

    /// Returns the messages since the last call, on channels with at least one listener.
    pub(crate) fn take_published(&mut self) -> Vec<Message> {
        self.state.lock().channels.take_published()
    }

    /// Restarts the process: with its data, as from an append-only file, or without. It forgets its
    /// scripts in both cases.
    pub(crate) fn restart(&mut self, run_id: &str, keep_data: bool) {
        let mut state = self.state.lock();
        state.identity = Identity::new(run_id);
        state.channels = Channels::default();
        if !keep_data {
            state.keyspace.clear();
        }
        drop(state);
        if let Ok(scripts) = &mut self.scripts {
            scripts.forget_all();
        }
    }

    /// Makes it a new, empty node. It keeps what it has compiled, which no answer to EVAL depends on.
    #[cfg(test)]
    pub(crate) fn renew(&mut self, run_id: &str) {
        *self.state.lock() = State::default();
        self.state.lock().identity = Identity::new(run_id);
    }

    /// Makes the node a replica for a moment and then a master again, within the same run.
    #[cfg(test)]
    pub(crate) fn promote(&mut self, repl_id: &str) {
        let [present, before] = &mut self.state.lock().identity.repl_ids;
        *before = std::mem::replace(present, repl_id.to_owned());
    }

    /// Returns a copy of the node's data, as a replica has it.
    #[cfg(test)]
    pub(crate) fn data(&self) -> Data {
        Data(self.state.lock().keyspace.clone())
    }

    /// Replaces the node's data.
    #[cfg(test)]
    pub(crate) fn set_data(&mut self, data: Data) {
        self.state.lock().keyspace = data.0;
    }

    /// All keys that have not expired at `now`, in the order of their bytes.
    pub(crate) fn keys(&mut self, now: Duration) -> Vec<LiveKey> {
        self.set_time(now);
        let live = |(key, entry): (&Bytes, &Entry)| LiveKey {
            key: key.clone(),
            value: entry.value.clone(),
            expires_at: entry
                .expires_at
                .map(|at| Duration::from_millis(u64::try_from(at).unwrap_or(0))),
        };
        self.state.lock().keyspace.entries().map(live).collect()
    }

    /// Sets whether the node is out of memory from now on.
    #[cfg(test)]
    pub(crate) fn set_full(&mut self, full: bool) {
        self.state.lock().full = full;
    }

    /// Lets the node take no writes from now on, since it lacks its replicas.
    #[cfg(test)]
    pub(crate) fn lose_replicas(&mut self) {
        self.state.lock().lacks_replicas = true;
    }

    fn set_time(&mut self, now: Duration) {
        let mut state = self.state.lock();
        #[cfg(test)]
        {
            state.wrote = false;
        }
        state.keyspace.set_time(now);
        state.identity.started.get_or_insert(now.as_secs());
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

fn arity(name: &[u8]) -> Fault {
    wrong_arity(&String::from_utf8_lossy(name))
}

fn script(scripts: &mut Scripts, words: &[Bytes]) -> Answer {
    let (subcommand, rest) = words.split_first().ok_or(Fault::SYNTAX)?;
    match (subcommand.to_ascii_uppercase().as_slice(), rest) {
        (b"LOAD", [source]) => Ok(Reply::bulk(scripts.load(source)?)),
        (b"EXISTS", [_, ..]) => {
            let known = rest.iter().map(|sha| Reply::flag(scripts.knows(sha)));
            Ok(Reply::List(known.collect()))
        }
        (b"FLUSH", [] | [_]) => {
            scripts.forget_all();
            Ok(Reply::ok())
        }
        (b"LOAD" | b"EXISTS" | b"FLUSH", _) => Err(wrong_arity("script")),
        _ => Err(Fault::of("ERR unknown subcommand. Embedded nodes know LOAD, EXISTS and FLUSH.")),
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
