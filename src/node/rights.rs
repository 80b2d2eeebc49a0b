//! What the user of a node has to be allowed, and how each of it is tried without a change on the node.
//!
//! Servers look at the access list before they look at a command's last argument. So what sets something has one that no
//! server takes: it is refused as a wrong call where the user may make it. What deletes names a key that nobody has.

use redis::ServerError;

use crate::ident::{
    self, fence_key, random_text, redisson_channel, redisson_rwlock_channel, release_channel,
};
use crate::random::random;

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Serves {
    /// Every lock.
    Locks,
    /// Every lock with a fencing token.
    Fencing,
    /// To say that a lock was given back.
    Telling,
    /// To hear that a lock was given back.
    Hearing,
    /// To end old connections.
    OldConnections,
    /// Locks that are hashes: reentrant and read-write ones, and semaphores.
    HashLocks,
    FairLocks,
    /// Locks with several names.
    SeveralNames,
}

/// A server does not let its user do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) command: &'static str,
    pub(crate) serves: Serves,
    pub(crate) refused: Refused,
    /// The pattern of the access list that the key or channel has to match, for the command as it was tried.
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
    /// What the server refuses by that error; `None` if it would carry out the command, called rightly.
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

/// One command, as it is tried.
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

/// `KEY` stands for the key of a lock that nobody has, `FENCE` for that of its fence, and `CHANNEL` for the channel on which
/// its releases are told.
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
        (Telling, "PUBLISH", "CHANNEL message"),
        (Telling, "PUBLISH", "REDISSON message"),
        (Telling, "PUBLISH", "REDISSON_RW message"),
        // Behind a subscription a connection takes nothing else, so these are last.
        (Hearing, "SUBSCRIBE", "CHANNEL"),
        (Hearing, "SUBSCRIBE", "REDISSON"),
        (Hearing, "SUBSCRIBE", "REDISSON_RW"),
        (Hearing, "UNSUBSCRIBE", "CHANNEL"),
    ]
};

/// All that is tried, for locks whose keys begin like that, with fencing tokens or without.
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

    /// Whoever has what the manual's example allows has all that is tried, and nothing of it is left untried but what
    /// each connection begins with.
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
