//! Keys, whatever they hold.

use super::pattern;
use crate::embedded::keyspace::Bytes;
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
    command("KEYS", 2, |state, words| Ok(Reply::bulks(matching(state, Some(&words[0]), None)))),
    command("SCAN", -2, scan),
    command("DBSIZE", 1, |state, _| Ok(Reply::count(state.keyspace.len()))),
    command("FLUSHALL", -1, flush),
    command("FLUSHDB", -1, flush),
];

fn matching<'a>(
    state: &'a State,
    like: Option<&'a Bytes>,
    kind: Option<&'a Bytes>,
) -> impl Iterator<Item = &'a Bytes> {
    let entries = state.keyspace.entries().filter(move |(key, entry)| {
        like.is_none_or(|like| pattern::matches(like, key))
            && kind.is_none_or(|kind| is(kind, entry.value.type_name()))
    });
    entries.map(|(key, _)| key)
}

/// Answers everything at once: COUNT is but a hint, and a cursor of 0 says that this is all.
fn scan(state: &mut State, words: &[Bytes]) -> Answer {
    let cursor = number::integer(&words[0]).ok().filter(|cursor| *cursor >= 0);
    cursor.ok_or(Fault::of("ERR invalid cursor"))?;
    let (mut like, mut kind) = (None, None);
    let mut options = words[1..].chunks_exact(2);
    for option in options.by_ref() {
        let [name, value] = option else { return Err(Fault::SYNTAX) };
        if is(name, "MATCH") {
            like = Some(value);
        } else if is(name, "TYPE") {
            kind = Some(value);
        } else if !is(name, "COUNT") || number::integer(value)? < 1 {
            return Err(Fault::SYNTAX);
        }
    }
    if !options.remainder().is_empty() {
        return Err(Fault::SYNTAX);
    }
    let keys = if cursor == Some(0) {
        Reply::bulks(matching(state, like, kind))
    } else {
        Reply::List(Vec::new())
    };
    Ok(Reply::List(vec![Reply::bulk("0"), keys]))
}

fn flush(state: &mut State, words: &[Bytes]) -> Answer {
    match words {
        [] => {}
        [mode] if is(mode, "SYNC") || is(mode, "ASYNC") => {}
        _ => return Err(Fault::SYNTAX),
    }
    state.keyspace.clear();
    Ok(Reply::ok())
}
