//! The commands of a node: a table of small functions, one file for each type of data.
//!
//! Only commands that locks need: no transactions, no streams, no blocking commands.

mod expiry;
mod hashes;
mod keys;
mod lists;
mod pattern;
mod server;
mod sets;
mod sorted_sets;
mod strings;

use std::collections::HashMap;
use std::sync::LazyLock;

use super::keyspace::Bytes;
use super::reply::{Answer, Fault};
use super::state::{Command, State, wrong_arity};

const FAMILIES: [&[Command]; 8] = [
    strings::COMMANDS,
    keys::COMMANDS,
    expiry::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    sorted_sets::COMMANDS,
    lists::COMMANDS,
    server::COMMANDS,
];

/// Commands that could need more memory. `WRITING` has the other ones that write.
#[cfg(test)]
const GROWING: &[&str] = &[
    "SET", "INCR", "DECR", "INCRBY", "HSET", "HSETNX", "HINCRBY", "LPUSH", "RPUSH", "SADD", "ZADD",
];
#[cfg(test)]
const WRITING: &[&str] = &[
    "DEL",
    "GETDEL",
    "EXPIRE",
    "PEXPIRE",
    "EXPIREAT",
    "PEXPIREAT",
    "PERSIST",
    "HDEL",
    "LPOP",
    "RPOP",
    "LREM",
    "SREM",
    "ZREM",
    "ZREMRANGEBYSCORE",
    "FLUSHALL",
    "FLUSHDB",
];

/// All commands by name.
static COMMANDS: LazyLock<HashMap<&[u8], &Command>> = LazyLock::new(|| {
    let commands = FAMILIES.into_iter().flatten();
    commands.map(|command| (command.name.as_bytes(), command)).collect()
});

fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.get(name.to_ascii_uppercase().as_slice()).copied()
}

impl State {
    /// Runs the command of a client.
    pub(super) fn call(&mut self, words: &[Bytes]) -> Answer {
        let (name, rest) = words.split_first().ok_or(Fault::SYNTAX)?;
        let command = find(name).ok_or_else(|| unknown(name))?;
        if !command.takes(words.len()) {
            return Err(wrong_arity(command.name));
        }
        (command.run)(self, rest)
    }

    /// Runs the command of a script, for which some errors have other texts.
    pub(super) fn call_from_script(&mut self, words: &[Bytes]) -> Answer {
        let (name, rest) = words
            .split_first()
            .ok_or(Fault::of("ERR Please specify at least one argument for this redis lib call"))?;
        let command =
            find(name).ok_or(Fault::of("ERR Unknown Redis command called from script"))?;
        if !command.takes(words.len()) {
            return Err(Fault::of("ERR Wrong number of args calling Redis command from script"));
        }
        #[cfg(test)]
        self.check_writes(command)?;
        (command.run)(self, rest)
    }

    /// Refuses commands that could need more memory if the node is out of memory, and all that write if it lacks its replicas,
    /// unless the script has written before.
    #[cfg(test)]
    fn check_writes(&mut self, command: &Command) -> Result<(), Fault> {
        let grows = GROWING.contains(&command.name);
        let writes = grows || WRITING.contains(&command.name);
        if writes && self.lacks_replicas && !self.wrote {
            return Err(Fault::of("NOREPLICAS Not enough good replicas to write."));
        }
        if grows && self.full && !self.wrote {
            return Err(Fault::of("OOM command not allowed when used memory > 'maxmemory'."));
        }
        self.wrote |= writes;
        Ok(())
    }
}

fn unknown(name: &[u8]) -> Fault {
    let name: String = String::from_utf8_lossy(name).chars().take(128).collect();
    Fault::new(format!("ERR unknown command '{name}': embedded nodes know what locks need"))
}
