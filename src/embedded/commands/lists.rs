//! Lists, without blocking commands.

use std::ops::Range;

use crate::embedded::keyspace::{Bytes, List};
use crate::embedded::number;
use crate::embedded::reply::{Answer, Fault, Reply};
use crate::embedded::state::{Command, State, command};

pub(super) const COMMANDS: &[Command] = &[
    command("LPUSH", -3, |state, words| push(state, words, List::push_front)),
    command("RPUSH", -3, |state, words| push(state, words, List::push_back)),
    command("LPOP", 2, |state, words| pop(state, words, List::pop_front)),
    command("RPOP", 2, |state, words| pop(state, words, List::pop_back)),
    command("LLEN", 2, |state, words| Ok(Reply::count(list(state, words)?.map_or(0, List::len)))),
    command("LINDEX", 3, index),
    command("LRANGE", 4, range),
    command("LREM", 4, remove),
];

fn list<'a>(state: &'a State, words: &[Bytes]) -> Result<Option<&'a List>, Fault> {
    state.keyspace.read(&words[0])
}

fn push(state: &mut State, words: &[Bytes], push: fn(&mut List, Bytes)) -> Answer {
    state.keyspace.change(&words[0], |list: &mut List| {
        words[1..].iter().for_each(|value| push(list, value.clone()));
        Reply::count(list.len())
    })
}

fn pop(state: &mut State, words: &[Bytes], pop: fn(&mut List) -> Option<Bytes>) -> Answer {
    state.keyspace.change(&words[0], |list: &mut List| Reply::bulk_or_nil(pop(list)))
}

/// A position counted from the start; a negative `position` counts from the end.
fn absolute(position: i64, length: i64) -> i64 {
    if position < 0 { position.saturating_add(length) } else { position }
}

fn length(elements: usize) -> i64 {
    i64::try_from(elements).unwrap_or(i64::MAX)
}

/// The range of elements between two positions, both included.
pub(super) fn between(first: &[u8], last: &[u8], elements: usize) -> Result<Range<usize>, Fault> {
    let length = length(elements);
    let first = absolute(number::integer(first)?, length).clamp(0, length);
    let end = absolute(number::integer(last)?, length).saturating_add(1).clamp(first, length);
    Ok(usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0))
}

fn range(state: &mut State, words: &[Bytes]) -> Answer {
    let list = list(state, words);
    // The numbers are checked before the type.
    let length = list.as_ref().ok().and_then(|list| list.map(List::len)).unwrap_or(0);
    let wanted = between(&words[1], &words[2], length)?;
    Ok(list?.map_or(Reply::List(Vec::new()), |list| Reply::bulks(list.range(wanted))))
}

fn index(state: &mut State, words: &[Bytes]) -> Answer {
    let Some(list) = list(state, words)? else { return Ok(Reply::Nil) };
    let at = absolute(number::integer(&words[1])?, length(list.len()));
    Ok(Reply::bulk_or_nil(usize::try_from(at).ok().and_then(|at| list.get(at))))
}

fn remove(state: &mut State, words: &[Bytes]) -> Answer {
    let count = number::integer(&words[1])?;
    state.keyspace.change(&words[0], |list: &mut List| {
        let most = if count == 0 { usize::MAX } else { magnitude(count) };
        let matching = list.iter().enumerate().filter(|(_, value)| **value == words[2]);
        let matching = matching.map(|(i, _)| i);
        let mut doomed: Vec<usize> = match count < 0 {
            true => matching.rev().take(most).collect(),
            false => matching.take(most).collect(),
        };
        doomed.sort_unstable();
        for i in doomed.iter().rev() {
            list.remove(*i);
        }
        Reply::count(doomed.len())
    })
}

fn magnitude(number: i64) -> usize {
    usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX)
}
