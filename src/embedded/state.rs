//! The state that commands work on, and the type of a command.

use super::channels::Channels;
use super::keyspace::{Bytes, Keyspace};
use super::reply::{Answer, Fault};

/// The state that commands work on.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) keyspace: Keyspace,
    pub(super) identity: Identity,
    pub(super) channels: Channels,
    /// True if the node is out of memory.
    #[cfg(test)]
    pub(super) full: bool,
    /// True if the node takes no writes, since it lacks its replicas.
    #[cfg(test)]
    pub(super) lacks_replicas: bool,
    /// True once the present script has written. A server then no longer stops it for lack of memory or replicas.
    #[cfg(test)]
    pub(super) wrote: bool,
}

/// The identity of a node and of its present run.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// Forty hexadecimal digits, new at each start.
    pub(super) run_id: String,
    /// The present replication id, and the one before the promotion.
    pub(super) repl_ids: [String; 2],
    /// Start time, in seconds of the node's clock; `None` before the first command.
    pub(super) started: Option<u64>,
    /// Number of flushes since the start.
    pub(super) flushes: u64,
}

impl Identity {
    pub(super) fn new(run_id: &str) -> Self {
        let repl_ids = [run_id.to_owned(), "0".repeat(40)];
        Self { run_id: run_id.to_owned(), repl_ids, started: None, flushes: 0 }
    }
}

/// One command: its name, its number of words and its function.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// Number of words, the name included. A negative one is a minimum.
    words: i8,
    /// Gets the words after the name.
    pub(super) run: fn(&mut State, &[Bytes]) -> Answer,
}

pub(super) const fn command(
    name: &'static str,
    words: i8,
    run: fn(&mut State, &[Bytes]) -> Answer,
) -> Command {
    Command { name, words, run }
}

impl Command {
    pub(super) fn takes(&self, words: usize) -> bool {
        let wanted = usize::from(self.words.unsigned_abs());
        if self.words < 0 { words >= wanted } else { words == wanted }
    }
}

pub(super) fn wrong_arity(name: &str) -> Fault {
    let name = name.to_ascii_lowercase();
    Fault::new(format!("ERR wrong number of arguments for '{name}' command"))
}

pub(super) fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
