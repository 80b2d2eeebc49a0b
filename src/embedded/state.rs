//! What commands work on, and what a command is.

use super::channels::Channels;
use super::keyspace::{Bytes, Keyspace};
use super::reply::{Answer, Fault};

/// What commands work on.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) keyspace: Keyspace,
    pub(super) identity: Identity,
    pub(super) channels: Channels,
    /// The node is out of memory.
    #[cfg(test)]
    pub(super) full: bool,
    /// The present script has written something, after which a server lets it go on.
    #[cfg(test)]
    pub(super) wrote: bool,
}

/// Which run of which node this is.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// Forty hexadecimal digits, new at each start.
    pub(super) run_id: String,
    /// Its present replication id, and the one before its promotion.
    pub(super) repl_ids: [String; 2],
    /// When it started, in seconds of its clock; `None` before the first command.
    pub(super) started: Option<u64>,
    /// How often it was emptied since.
    pub(super) flushes: u64,
}

impl Identity {
    pub(super) fn new(run_id: &str) -> Self {
        let repl_ids = [run_id.to_owned(), "0".repeat(40)];
        Self { run_id: run_id.to_owned(), repl_ids, started: None, flushes: 0 }
    }
}

/// One command: what it is called, how many words it takes, and what it does.
pub(super) struct Command {
    pub(super) name: &'static str,
    /// With the name. Negative: at least so many.
    words: i8,
    /// Gets the words behind the name.
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
