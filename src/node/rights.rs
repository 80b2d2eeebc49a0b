//! The permissions that the user of a node needs, and a try of each of them that changes nothing on the node.
//!
//! Servers check the access list before they check a command's last argument. So a command that sets something has a last argument
//! that no server takes: if the user may run it, it is refused as a wrong call. A command that deletes names a missing key.

use redis::ServerError;

use crate::ident::{
    self, fence_key, random_text, redisson_channel, redisson_rwlock_channel, release_channel,
};
use crate::random::random;

/// The purpose of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Serves {
    /// Every lock.
    Locks,
    /// Every lock with a fencing token.
    Fencing,
    /// Reporting that a lock was given back.
    Telling,
    /// Hearing that a lock was given back.
    Hearing,
    /// Ending old connections.
    OldConnections,
    /// Showing operators which client a connection belongs to.
    Naming,
    /// Locks that are hashes: reentrant and read-write ones, and semaphores.
    HashLocks,
    FairLocks,
    /// Locks with several names.
    SeveralNames,
}

/// A server's refusal to let its user do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) command: &'static str,
    pub(crate) serves: Serves,
    pub(crate) refused: Refused,
    /// The pattern of the access list that the key or channel of the tried command must match.
    pub(crate) pattern: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refused {
    /// The user may not run it.
    Command,
    /// The user may not touch such keys.
    Keys,
    /// The user may not use such channels.
    Channels,
    /// The server knows no command of that name.
    Unknown,
}

impl Refused {
    /// The kind of refusal that the error means; `None` if the server would carry out a correct call of the command.
    pub(super) fn by(error: &ServerError) -> Option<Self> {
        let details = error.details().unwrap_or_default();
        match error.code() {
            "NOPERM" if details.contains("channel") => Some(Self::Channels),
            "NOPERM" if details.contains("key") && !details.contains("run the") => Some(Self::Keys),
            "NOPERM" => Some(Self::Command),
            "ERR" if details.to_ascii_lowercase().starts_with("unknown command") => {
                Some(Self::Unknown)
            }
            _ => None,
        }
    }
}

/// One command, in the form in which it is tried.
pub(super) struct Try {
    pub(super) command: &'static str,
    serves: Serves,
    words: Vec<Vec<u8>>,
    pattern: String,
}

impl Try {
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>) {
        let mut command = redis::Cmd::new();
        self.words.iter().for_each(|word| _ = command.arg(word));
        command.write_packed_command(buffer);
    }

    pub(super) fn refused(&self, refused: Refused) -> Refusal {
        let Self { command, serves, pattern, .. } = self;
        Refusal { command, serves: *serves, refused, pattern: pattern.clone() }
    }
}

/// The commands that are tried. `KEY` stands for the key of a lock that nobody has, `FENCE` for the key of its fence, and
/// `CHANNEL` for the channel of its releases.
const COMMANDS: &[(Serves, &str, &str)] = {
    use Serves::*;
    &[
        (Locks, "EVAL", "wrong notanumber"),
        (Locks, "EVALSHA", "wrong notanumber"),
        (Locks, "SET", "KEY value wrong"),
        (Locks, "GET", "KEY"),
        (Locks, "DEL", "KEY"),
        (Locks, "TYPE", "KEY"),
        (Locks, "PTTL", "KEY"),
        (Locks, "PEXPIRE", "KEY wrong"),
        (Fencing, "SET", "FENCE value wrong"),
        (Fencing, "GET", "FENCE"),
        (Fencing, "PTTL", "FENCE"),
        (Fencing, "PEXPIRE", "FENCE wrong"),
        (SeveralNames, "MGET", "KEY"),
        (SeveralNames, "EXISTS", "KEY"),
        (HashLocks, "HSET", "KEY field value wrong"),
        (HashLocks, "HEXISTS", "KEY field"),
        (HashLocks, "HDEL", "KEY field"),
        (HashLocks, "HMGET", "KEY field"),
        (HashLocks, "HGETALL", "KEY"),
        (HashLocks, "HLEN", "KEY"),
        (FairLocks, "ZADD", "FENCE wrong member"),
        (FairLocks, "ZREM", "FENCE member"),
        (FairLocks, "ZRANGE", "FENCE 0 wrong"),
        (FairLocks, "ZSCORE", "FENCE member"),
        (FairLocks, "ZCARD", "FENCE"),
        (OldConnections, "CLIENT ID", ""),
        (OldConnections, "CLIENT KILL", "ID wrong"),
        (Naming, "CLIENT SETNAME", "\u{7f}"),
        (Telling, "PUBLISH", "CHANNEL message"),
        (Telling, "PUBLISH", "REDISSON message"),
        (Telling, "PUBLISH", "REDISSON_RW message"),
        // After a subscription a connection takes nothing else, so these are last.
        (Hearing, "SUBSCRIBE", "CHANNEL"),
        (Hearing, "SUBSCRIBE", "REDISSON"),
        (Hearing, "SUBSCRIBE", "REDISSON_RW"),
        (Hearing, "UNSUBSCRIBE", "CHANNEL"),
    ]
};

/// All tries, for locks whose keys have this prefix, with fencing tokens or without.
pub(super) fn tries(key_prefix: &[u8], fencing: bool) -> Vec<Try> {
    let name = ["quorlock-doctor/", &random_text(random())].concat();
    let key = [key_prefix, name.as_bytes()].concat();
    let prefix = ident::text(key_prefix);
    let make = |&(serves, command, arguments): &(Serves, &'static str, &str)| {
        let mut pattern = String::new();
        let mut word = |word: &str| {
            let (bytes, its_pattern) = match word {
                "KEY" => (key.clone(), format!("~{prefix}*")),
                "FENCE" => (fence_key(&key), format!("~{{{prefix}*")),
                "CHANNEL" => (release_channel(&key), format!("&{{{prefix}*")),
                "REDISSON" => (redisson_channel(&key), "&redisson_lock__channel:*".to_owned()),
                "REDISSON_RW" => (redisson_rwlock_channel(&key), "&redisson_rwlock:*".to_owned()),
                _ => return word.as_bytes().to_vec(),
            };
            pattern = its_pattern;
            bytes
        };
        let words = command.split(' ').chain(arguments.split_whitespace()).map(&mut word).collect();
        Try { command, serves, words, pattern }
    };
    COMMANDS.iter().filter(|(serves, ..)| fencing || *serves != Serves::Fencing).map(make).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::terms;

    /// A user with the permissions of the manual's example may do all that is tried. Each of these permissions is tried, except
    /// for the first commands of each connection.
    #[test]
    fn what_is_tried_is_what_the_manual_allows() {
        let mut allowed: BTreeSet<String> = terms::allowed_commands()
            .map(|command| command.replace('|', " ").to_uppercase())
            .collect();
        for begins_with in ["PING", "TIME", "INFO"] {
            assert!(allowed.remove(begins_with), "{begins_with}");
        }
        let tried: BTreeSet<String> =
            tries(b"quorlock:", true).iter().map(|one| one.command.to_owned()).collect();
        assert_eq!(tried, allowed);
    }

    #[test]
    fn each_command_is_tried_on_keys_of_a_lock_that_nobody_has() {
        let (with, without) = (tries(b"p:", true), tries(b"p:", false));
        assert!(with.len() > without.len());
        let (tries, set) = (&with, &with[2]);
        assert_eq!((set.command, set.pattern.as_str()), ("SET", "~p:*"));
        assert!(set.words[1].starts_with(b"p:quorlock-doctor/"), "{:?}", set.words);
        let kill = tries.iter().find(|one| one.command == "CLIENT KILL").expect("it is tried");
        assert_eq!(kill.words.len(), 4);
    }
}
