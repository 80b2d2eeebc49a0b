//! Comparison of two answers, as far as they can be equal.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::commands::Comparison;
use crate::scripts::LONGEST_TTL;

/// The longest time between the two answers to one command, on a busy machine.
pub(crate) const TOLERANCE_MS: u64 = 5_000;

pub(crate) fn alike(one: &Value, other: &Value, comparison: Comparison) -> bool {
    match (one, other) {
        // Errors compare by their class.
        (Value::ServerError(one), Value::ServerError(other)) => one.code() == other.code(),
        // So do errors that a script has caught, and returns as text.
        (Value::BulkString(one), Value::BulkString(other)) if one.starts_with(b"ERR ") => {
            other.starts_with(b"ERR ")
        }
        // A script may have stored the time of its node's clock.
        (Value::Int(one), Value::Int(other)) if are_times(*one, *other) => true,
        (Value::BulkString(one), Value::BulkString(other)) if begin_with_times(one, other) => true,
        (Value::Int(one), Value::Int(other)) if comparison == Comparison::Time => {
            one == other || *one > 1_000 && *other > 1_000 && one.abs_diff(*other) <= TOLERANCE_MS
        }
        (Value::BulkString(one), Value::BulkString(other)) if comparison == Comparison::Time => {
            one == other || is_id(one) && is_id(other)
        }
        (Value::Array(one), Value::Array(other)) if comparison == Comparison::Time => {
            one.len() == other.len()
                && (0..one.len()).all(|i| {
                    alike(&one[i], &other[i], comparison)
                        || seconds(one, other, i)
                        || i > 0 && seconds(one, other, i - 1)
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            let elements = match comparison {
                Comparison::Unordered => 1,
                Comparison::UnorderedPairs => 2,
                Comparison::Exact | Comparison::Time => usize::MAX,
            };
            one.len() == other.len()
                && in_order(one, elements)
                    .iter()
                    .zip(in_order(other, elements))
                    .all(|(one, other)| alike(one, other, comparison))
        }
        _ => one == other,
    }
}

/// Returns true if both are times, or begin with a time and have the same rest.
fn begin_with_times(one: &[u8], other: &[u8]) -> bool {
    let parts = |text: &[u8]| {
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        Some((number(&text[..end])?, text[end..].to_vec()))
    };
    let parts = parts(one).zip(parts(other));
    parts.is_some_and(|((a, one), (b, other))| are_times(a, b) && one == other)
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Returns true if both are milliseconds of the clock, and nearly the same: about now, or later by at most the TTL of
/// random calls.
fn are_times(one: i64, other: i64) -> bool {
    const LIMIT: Duration = Duration::from_secs(48 * 60 * 60);
    let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH) else { return false };
    let is_time = |ms: i64| {
        let ms = Duration::from_millis(ms.unsigned_abs());
        ms.abs_diff(now) < LIMIT || ms.abs_diff(now + LONGEST_TTL) < LIMIT
    };
    is_time(one) && is_time(other) && one.abs_diff(other) <= TOLERANCE_MS
}

/// Returns true for a run id or a replication id, but not for the zeros that stand for none.
fn is_id(bytes: &[u8]) -> bool {
    bytes.len() == 40 && bytes.iter().all(u8::is_ascii_hexdigit) && bytes.iter().any(|b| *b != b'0')
}

/// Returns true if the elements at `i` are the seconds of an answer to TIME. The microseconds follow.
fn seconds(one: &[Value], other: &[Value], i: usize) -> bool {
    let [one, other] = [one, other].map(|list| match &list[i] {
        Value::BulkString(text) if text.len() == 10 => {
            std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok())
        }
        _ => None,
    });
    let difference = one.zip(other).map(|(one, other)| one.abs_diff(other));
    difference.is_some_and(|difference| difference <= TOLERANCE_MS / 1_000)
}

/// The values with groups of `elements` sorted, in order of the groups.
fn in_order(values: &[Value], elements: usize) -> Vec<&Value> {
    let mut groups: Vec<_> = values.chunks(elements).collect();
    groups.sort_by_key(|group| format!("{group:?}"));
    groups.concat_refs()
}

trait ConcatRefs<'a> {
    fn concat_refs(&self) -> Vec<&'a Value>;
}

impl<'a> ConcatRefs<'a> for Vec<&'a [Value]> {
    fn concat_refs(&self) -> Vec<&'a Value> {
        self.iter().flat_map(|group| group.iter()).collect()
    }
}
