//! Conversion of values between Lua and Redis, by the rules of Redis.

use mlua::{Lua, MultiValue, Table, Value};

use super::keyspace::Bytes;
use super::number;
use super::reply::{Answer, Fault, Reply, one_line};

/// Limits of an answer: the nesting depth of its lists, and the number of its elements in all. A
/// table can contain itself.
const DEEPEST: usize = 100;
const MOST_ELEMENTS: usize = 1_000_000;

/// The arguments of `redis.call`.
pub(super) fn command(arguments: &MultiValue) -> Result<Vec<Bytes>, Fault> {
    arguments.iter().map(word).collect()
}

fn word(value: &Value) -> Result<Bytes, Fault> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        // Lua itself would write 14 digits only.
        Value::Integer(number) => Ok(number::text(*number as f64).into_bytes()),
        Value::Number(number) => Ok(number::text(*number).into_bytes()),
        _ => Err(Fault::of("ERR Lua redis lib command arguments must be strings or integers")),
    }
}

pub(super) fn texts(lua: &Lua, words: &[Bytes]) -> mlua::Result<Table> {
    let words =
        words.iter().map(|word| lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?;
    lua.create_sequence_from(words)
}

/// The answer of `redis.call` to a script.
pub(super) fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let field = |name: &str, text: &str| {
        let table = lua.create_table()?;
        table.raw_set(name, text)?;
        Ok(Value::Table(table))
    };
    match reply {
        // All numbers of Lua 5.1 are floating point.
        Reply::Int(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Nil => Ok(Value::Boolean(false)),
        Reply::Status(text) => field("ok", text),
        Reply::Error(text) => field("err", text),
        Reply::List(replies) => {
            let table = lua.create_table()?;
            for (i, reply) in replies.iter().enumerate() {
                table.raw_set(i + 1, to_lua(lua, reply)?)?;
            }
            Ok(Value::Table(table))
        }
    }
}

/// The answer of a script.
pub(super) fn from_lua(value: Value) -> Answer {
    let mut elements_left = MOST_ELEMENTS;
    reply(value, DEEPEST, &mut elements_left)
}

fn reply(value: Value, depth: usize, elements_left: &mut usize) -> Answer {
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(number),
        Value::Number(number) => Reply::Int(number::truncated(number)),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            if let Some(text) = text_field(&table, "err") {
                Reply::Error(one_line(&text))
            } else if let Some(text) = text_field(&table, "ok") {
                Reply::Status(one_line(&text))
            } else {
                list(&table, depth, elements_left)?
            }
        }
        // False, nil, and Lua types that have no Redis equivalent.
        _ => Reply::Nil,
    })
}

/// The elements up to the first nil.
fn list(table: &Table, depth: usize, elements_left: &mut usize) -> Answer {
    let too_much = Fault::of("ERR reached lua stack limit");
    let depth = depth.checked_sub(1).ok_or_else(|| too_much.clone())?;
    let mut replies = Vec::new();
    for i in 1.. {
        let value: Value = table.raw_get(i).map_err(|error| Fault::new(format!("ERR {error}")))?;
        if value.is_nil() {
            break;
        }
        *elements_left = elements_left.checked_sub(1).ok_or_else(|| too_much.clone())?;
        replies.push(reply(value, depth, elements_left)?);
    }
    Ok(Reply::List(replies))
}

fn text_field(table: &Table, name: &str) -> Option<String> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(text.to_string_lossy()),
        _ => None,
    }
}

/// The text of an uncaught error, its class first.
pub(super) fn error_text(problem: &Value) -> String {
    let text = match problem {
        Value::Table(table) => text_field(table, "err").unwrap_or_else(|| "ERR unknown".to_owned()),
        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
        Value::Integer(number) => format!("ERR {number}"),
        Value::Number(number) => format!("ERR {}", number::text(*number)),
        Value::Error(error) => format!("ERR {error}"),
        other => format!("ERR {}", other.type_name()),
    };
    one_line(&text)
}
