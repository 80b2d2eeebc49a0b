//! Sets, whose members come in the order of their bytes.

use crate::embedded::keyspace::{Bytes, Set};
use crate::embedded::reply::{Fault, Reply};
use crate::embedded::state::{Command, State, command};

pub(super) const COMMANDS: &[Command] = &[
    command("SADD", -3, |state, words| {
        state.keyspace.change(&words[0], |set: &mut Set| {
            Reply::count(words[1..].iter().filter(|member| set.insert((*member).clone())).count())
        })
    }),
    command("SREM", -3, |state, words| {
        state.keyspace.change(&words[0], |set: &mut Set| {
            Reply::count(words[1..].iter().filter(|member| set.remove(*member)).count())
        })
    }),
    command("SISMEMBER", 3, |state, words| {
        Ok(Reply::flag(set(state, words)?.is_some_and(|set| set.contains(&words[1]))))
    }),
    command("SCARD", 2, |state, words| Ok(Reply::count(set(state, words)?.map_or(0, Set::len)))),
    command("SMEMBERS", 2, |state, words| {
        Ok(Reply::bulks(set(state, words)?.into_iter().flatten()))
    }),
];

fn set<'a>(state: &'a State, words: &[Bytes]) -> Result<Option<&'a Set>, Fault> {
    state.keyspace.read(&words[0])
}
