//! Strings, and the numbers in them.

use super::expiry;
use crate::embedded::keyspace::{Bytes, Value};
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, is};

pub(super) const COMMANDS: &[Command] = &[
    command("SET", -3, set),
    command("GET", 2, get),
    command("GETDEL", 2, get_del),
    command("MGET", -2, |state, words| {
        // A value that is no string counts as missing.
        let text = |key: &Bytes| state.keyspace.text(key).ok().flatten();
        Ok(Reply::List(words.iter().map(|key| Reply::bulk_or_nil(text(key))).collect()))
    }),
    command("STRLEN", 2, |state, words| {
        Ok(Reply::count(state.keyspace.text(&words[0])?.map_or(0, Vec::len)))
    }),
    command("INCR", 2, |state, words| add(state, &words[0], 1)),
    command("DECR", 2, |state, words| add(state, &words[0], -1)),
    command("INCRBY", 3, |state, words| add(state, &words[0], number::integer(&words[1])?)),
];

fn get(state: &mut State, words: &[Bytes]) -> Answer {
    Ok(Reply::bulk_or_nil(state.keyspace.text(&words[0])?))
}

fn get_del(state: &mut State, words: &[Bytes]) -> Answer {
    let value = get(state, words)?;
    state.keyspace.remove(&words[0]);
    Ok(value)
}

#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
    answer_old: bool,
    keep_expiry: bool,
    expires_at: Option<i64>,
}

impl SetOptions {
    fn parse(mut words: &[Bytes], now_ms: i64) -> Result<Self, Fault> {
        let mut options = Self::default();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            if is(word, "NX") && !options.only_old {
                options.only_new = true;
            } else if is(word, "XX") && !options.only_new {
                options.only_old = true;
            } else if is(word, "GET") {
                options.answer_old = true;
            } else if is(word, "KEEPTTL") && options.expires_at.is_none() {
                options.keep_expiry = true;
            } else if let Some(unit) = expiry::Unit::of_set(word)
                && options.expires_at.is_none()
                && !options.keep_expiry
                && let Some((time, rest)) = words.split_first()
            {
                words = rest;
                let time = number::integer(time)?;
                // SET refuses times that are not positive; EXPIRE accepts them.
                let at = (time > 0).then(|| unit.to_deadline(time, now_ms)).flatten();
                options.expires_at = Some(at.ok_or_else(|| expiry::invalid("set"))?);
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(options)
    }
}

fn set(state: &mut State, words: &[Bytes]) -> Answer {
    let (key, value) = (&words[0], &words[1]);
    let keyspace = &mut state.keyspace;
    let options = SetOptions::parse(&words[2..], keyspace.now_ms())?;
    let old = match options.answer_old {
        true => Some(Reply::bulk_or_nil(keyspace.text(key)?)),
        false => None,
    };
    let entry = keyspace.entry(key);
    let exists = entry.is_some();
    if options.only_new && exists || options.only_old && !exists {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    let expires_at = match options.keep_expiry {
        true => entry.and_then(|entry| entry.expires_at),
        false => options.expires_at,
    };
    keyspace.insert(key, Value::Text(value.clone()), expires_at);
    Ok(old.unwrap_or_else(Reply::ok))
}

fn add(state: &mut State, key: &[u8], by: i64) -> Answer {
    let keyspace = &mut state.keyspace;
    let old = keyspace.text(key)?.map_or(Ok(0), |text| number::integer(text))?;
    let new = old.checked_add(by).ok_or(Fault::OVERFLOW)?;
    let expires_at = keyspace.entry(key).and_then(|entry| entry.expires_at);
    keyspace.insert(key, Value::Text(new.to_string().into_bytes()), expires_at);
    Ok(Reply::Int(new))
}
