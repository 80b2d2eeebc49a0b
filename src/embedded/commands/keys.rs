//! Keys of any type.

use std::hash::{DefaultHasher, Hasher};

use super::pattern;
use crate::embedded::keyspace::{Bytes, Entry};
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("DEL", -2, |state, words| {
        Ok(Reply::count(words.iter().filter_map(|key| state.keyspace.remove(key)).count()))
    }),
    command("EXISTS", -2, |state, words| {
        Ok(Reply::count(words.iter().filter(|key| state.keyspace.entry(key).is_some()).count()))
    }),
    command("TYPE", 2, |state, words| {
        let entry = state.keyspace.entry(&words[0]);
        Ok(Reply::Status(entry.map_or("none", |entry| entry.value.type_name()).to_owned()))
    }),
    command("KEYS", 2, keys),
    command("SCAN", -2, scan),
    command("DBSIZE", 1, |state, _| Ok(Reply::count(state.keyspace.len()))),
    command("FLUSHALL", -1, flush),
    command("FLUSHDB", -1, flush),
];

/// Returns true if a key matches the pattern and the type, where these are given.
fn is_like(like: Option<&Bytes>, kind: Option<&Bytes>, key: &[u8], entry: &Entry) -> bool {
    like.is_none_or(|like| pattern::matches(like, key))
        && kind.is_none_or(|kind| is(kind, entry.value.type_name()))
}

fn keys(state: &mut State, words: &[Bytes]) -> Answer {
    let entries = state.keyspace.entries();
    let keys = entries.filter(|(key, entry)| is_like(Some(&words[0]), None, key, entry));
    Ok(Reply::bulks(keys.map(|(key, _)| key)))
}

/// Keys come in the order of their hashes, and the cursor is the hash of the next key. So a key that exists all the time
/// is returned once, even if others are set or deleted meanwhile.
fn scan(state: &mut State, words: &[Bytes]) -> Answer {
    let cursor = number::integer(&words[0]).ok().filter(|cursor| *cursor >= 0);
    let cursor = cursor.ok_or(Fault::of("ERR invalid cursor"))?;
    let (mut like, mut kind, mut count) = (None, None, 10);
    let mut options = words[1..].chunks_exact(2);
    for option in options.by_ref() {
        let [name, value] = option else { return Err(Fault::SYNTAX) };
        if is(name, "MATCH") {
            like = Some(value);
        } else if is(name, "TYPE") {
            kind = Some(value);
        } else if is(name, "COUNT") {
            let most = usize::try_from(number::integer(value)?).ok();
            count = most.filter(|most| *most > 0).ok_or(Fault::SYNTAX)?;
        } else {
            return Err(Fault::SYNTAX);
        }
    }
    if !options.remainder().is_empty() {
        return Err(Fault::SYNTAX);
    }
    let entries = state.keyspace.entries().map(|(key, entry)| (hash(key), key, entry));
    let mut left: Vec<_> = entries.filter(|(hash, ..)| *hash >= cursor).collect();
    let next = (count < left.len()).then(|| {
        let (_, (next, ..), _) = left.select_nth_unstable_by_key(count, |(hash, ..)| *hash);
        *next
    });
    left.truncate(count);
    let is_wanted = |key: &[u8], entry: &Entry| is_like(like, kind, key, entry);
    let keys = left.into_iter().filter(|(_, key, entry)| is_wanted(key, entry));
    let keys = Reply::bulks(keys.map(|(_, key, _)| key));
    Ok(Reply::List(vec![Reply::bulk(next.unwrap_or(0).to_string()), keys]))
}

/// The position of a key in a scan: never 0, the cursor with which a scan begins and ends, and never negative.
fn hash(key: &[u8]) -> i64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    i64::try_from(hasher.finish() >> 1).unwrap_or(i64::MAX).max(1)
}

fn flush(state: &mut State, words: &[Bytes]) -> Answer {
    match words {
        [] => {}
        [mode] if is(mode, "SYNC") || is(mode, "ASYNC") => {}
        _ => return Err(Fault::SYNTAX),
    }
    state.keyspace.clear();
    state.identity.flushes += 1;
    Ok(Reply::ok())
}
