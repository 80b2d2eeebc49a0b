//! The script that checks if a node is as a probe has seen it: its call, and the parsing of its reply.

use super::admit::offset;
use super::request::{Part, Request, Script, Value};
use crate::core::admission::{AsSeen, Checked};
use crate::core::base::Time;

pub(super) static CHECK: Script = Script::new(include_str!("../../lua/node/check.lua"));

/// A check of the node whose mark is at `key`.
pub(crate) fn request(key: &[u8], as_seen: &AsSeen) -> Request {
    let mark = as_seen.mark.as_deref().unwrap_or_default();
    let parts =
        [Part::Bytes(key), Part::Bytes(mark.as_bytes()), Part::Bytes(as_seen.repl_id.as_bytes())];
    Request::new(&CHECK, 1, &parts)
}

/// The findings of a check that was sent and answered at these times; `None` if no server that we know answers like this.
pub(crate) fn read(value: &Value, sent: Time, answered: Time) -> Option<Checked> {
    let Value::List(fields) = value else { return None };
    match fields.as_slice() {
        [] => Some(Checked::Differs),
        [Value::Text(seconds), Value::Text(microseconds)] => {
            offset(seconds, microseconds, sent, answered).map(Checked::AsSeen)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::admission::Offset;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn read_at_once(value: &Value) -> Option<Checked> {
        read(value, Time::default(), Time::default())
    }

    #[test]
    fn an_answer_is_a_time_or_that_something_differs_and_nothing_else() {
        let time = Value::List(vec![text("1700000000"), text("12")]);
        let offset = Offset::new(1_700_000_000_000_012, Time::default(), Time::default());
        assert_eq!(read_at_once(&time), Some(Checked::AsSeen(offset)));
        assert_eq!(read_at_once(&Value::List(vec![])), Some(Checked::Differs));
        for strange in [
            Value::Int(1),
            text("1700000000"),
            Value::List(vec![text("1700000000")]),
            Value::List(vec![text("-1"), text("12")]),
            Value::List(vec![text("soon"), text("12")]),
            Value::List(vec![text("18446744073709551615"), text("12")]),
            Value::List(vec![Value::Int(1_700_000_000), Value::Int(12)]),
        ] {
            assert_eq!(read_at_once(&strange), None, "{strange}");
        }
    }
}
