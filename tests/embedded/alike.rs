//! Whether two answers are the same, as far as they can be.

use redis::Value;

use crate::commands::Comparison;

/// How long may pass between the two answers to one command, on a busy machine.
pub(crate) const TOLERANCE_MS: u64 = 5_000;

pub(crate) fn alike(one: &Value, other: &Value, comparison: Comparison) -> bool {
    match (one, other) {
        // Of errors their class.
        (Value::ServerError(one), Value::ServerError(other)) => one.code() == other.code(),
        // So of those that a script has caught, and answers as text.
        (Value::BulkString(one), Value::BulkString(other)) if one.starts_with(b"ERR ") => {
            other.starts_with(b"ERR ")
        }
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

/// A run id or a replication id, but not the zeros that stand for none.
fn is_id(bytes: &[u8]) -> bool {
    bytes.len() == 40 && bytes.iter().all(u8::is_ascii_hexdigit) && bytes.iter().any(|b| *b != b'0')
}

/// Whether the elements at `i` are the seconds of what TIME says. The microseconds follow.
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

/// The values with groups of `elements` sorted; as they are, if that is no part of them.
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
