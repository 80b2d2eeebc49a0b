//! Hashes.

use crate::embedded::keyspace::{Bytes, Hash};
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command, wrong_arity};

pub(super) const COMMANDS: &[Command] = &[
    command("HSET", -4, set),
    command("HSETNX", 4, set_new),
    command("HGET", 3, |state, words| {
        Ok(Reply::bulk_or_nil(hash(state, words)?.and_then(|hash| hash.get(&words[1]))))
    }),
    command("HMGET", -3, |state, words| {
        let hash = hash(state, words)?;
        let value = |field| Reply::bulk_or_nil(hash.and_then(|hash| hash.get(field)));
        Ok(Reply::List(words[1..].iter().map(value).collect()))
    }),
    command("HGETALL", 2, |state, words| {
        let pairs = hash(state, words)?.into_iter().flatten();
        Ok(Reply::bulks(pairs.flat_map(|(field, value)| [field, value])))
    }),
    command("HKEYS", 2, |state, words| {
        Ok(Reply::bulks(hash(state, words)?.into_iter().flat_map(Hash::keys)))
    }),
    command("HVALS", 2, |state, words| {
        Ok(Reply::bulks(hash(state, words)?.into_iter().flat_map(Hash::values)))
    }),
    command("HLEN", 2, |state, words| Ok(Reply::count(hash(state, words)?.map_or(0, Hash::len)))),
    command("HEXISTS", 3, |state, words| {
        Ok(Reply::flag(hash(state, words)?.is_some_and(|hash| hash.contains_key(&words[1]))))
    }),
    command("HDEL", -3, delete),
    command("HINCRBY", 4, add),
];

fn hash<'a>(state: &'a State, words: &[Bytes]) -> Result<Option<&'a Hash>, Fault> {
    state.keyspace.read(&words[0])
}

fn set(state: &mut State, words: &[Bytes]) -> Answer {
    let pairs = words[1..].chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return Err(wrong_arity("hset"));
    }
    state.keyspace.change(&words[0], |hash: &mut Hash| {
        let new = pairs.filter(|pair| hash.insert(pair[0].clone(), pair[1].clone()).is_none());
        Reply::count(new.count())
    })
}

fn set_new(state: &mut State, words: &[Bytes]) -> Answer {
    state.keyspace.change(&words[0], |hash: &mut Hash| {
        let new = !hash.contains_key(&words[1]);
        if new {
            hash.insert(words[1].clone(), words[2].clone());
        }
        Reply::flag(new)
    })
}

fn delete(state: &mut State, words: &[Bytes]) -> Answer {
    state.keyspace.change(&words[0], |hash: &mut Hash| {
        Reply::count(words[1..].iter().filter_map(|field| hash.remove(field)).count())
    })
}

fn add(state: &mut State, words: &[Bytes]) -> Answer {
    let by = number::integer(&words[2])?;
    state.keyspace.change(&words[0], |hash: &mut Hash| {
        let old = match hash.get(&words[1]) {
            Some(text) => {
                number::integer(text).map_err(|_| Fault::of("ERR hash value is not an integer"))?
            }
            None => 0,
        };
        let new = old.checked_add(by).ok_or(Fault::OVERFLOW)?;
        hash.insert(words[1].clone(), new.to_string().into_bytes());
        Ok(Reply::Int(new))
    })?
}
