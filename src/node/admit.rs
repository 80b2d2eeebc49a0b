//! The script that probes a node and changes its mark: its call, and the parsing of its reply.

use std::time::Duration;

use super::connection::{Broken, Connection, Reply};
use super::request::{Part, Request, Script, Value};
use crate::clock;
use crate::core::admission::{Change, Identity, Offset, Probe, Role};
use crate::core::base::Time;
use crate::core::link::Form;
use crate::error::NodeFault;

pub(super) static ADMIT: Script = Script::new(include_str!("../../lua/node/admit.lua"));

/// The request that probes the node whose mark is at `key`, and makes `change` if there is one.
pub(crate) fn request(key: &[u8], change: Option<&Change>) -> Request {
    Request::new(
        &ADMIT,
        1,
        &[
            Part::Bytes(key),
            text(change.and_then(|change| change.replaces.as_deref())),
            text(change.map(|change| change.new.as_str())),
            text(change.map(|change| change.run_id.as_str())),
            text(change.map(|change| change.repl_id.as_str())),
        ],
    )
}

fn text(text: Option<&str>) -> Part<'_> {
    Part::Bytes(text.unwrap_or_default().as_bytes())
}

/// Probes the server behind `connection`, and changes nothing. The answer may take `timeout`. The inner fault is the server's own
/// answer, such as that the user may run no scripts.
pub(super) fn ask(
    connection: &mut Connection,
    key: &[u8],
    timeout: Duration,
) -> Result<Result<Probe, NodeFault>, Broken> {
    let mut bytes = Vec::new();
    request(key, None).write_to(&mut bytes, Form::Source, "");
    let sent = clock::now();
    connection.write(&bytes)?;
    let reply = match connection.read(sent.after(timeout)) {
        Ok(reply) => reply,
        // The server is loading, busy or silent.
        Err(Broken { fault, in_step: true, closed: false }) => return Ok(Err(fault)),
        Err(broken) => return Err(broken),
    };
    let fault = |what: String| NodeFault::new(connection.address.shown(), what);
    Ok(match reply {
        Reply::Value(value) => read(&value, sent, clock::now())
            .ok_or_else(|| fault(format!("the server has answered a probe with {value}"))),
        Reply::Error(fault) => Err(fault),
        Reply::NoScript => Err(fault("the server knows no script".to_owned())),
    })
}

/// The findings of a probe that was sent and answered at these times; `None` if no server that we know
/// answers like this.
pub(crate) fn read(value: &Value, sent: Time, received: Time) -> Option<Probe> {
    let Value::List(fields) = value else { return None };
    let [
        Value::Int(changed @ 0..=1),
        Value::Text(role),
        Value::Text(run_id),
        Value::Text(repl_id),
        Value::Text(repl_id2),
        Value::Text(seconds),
        Value::Text(microseconds),
        Value::List(mark),
    ] = fields.as_slice()
    else {
        return None;
    };
    let role = match role.as_str() {
        "master" => Role::Master,
        "slave" => Role::Replica,
        "cluster" => Role::Cluster,
        _ => return None,
    };
    let mark = match mark.as_slice() {
        [] => None,
        [Value::Text(mark)] => Some(mark.clone()),
        _ => return None,
    };
    let probe = Probe {
        changed: *changed == 1,
        role,
        identity: Identity::new(run_id, repl_id)?,
        promoted: repl_id2.bytes().any(|byte| byte != b'0'),
        clock: offset(seconds, microseconds, sent, received)?,
        mark,
    };
    Some(probe)
}

/// The clock offset by an answer to `TIME`, which was sent and answered at these times.
pub(super) fn offset(
    seconds: &str,
    microseconds: &str,
    sent: Time,
    received: Time,
) -> Option<Offset> {
    let seconds = seconds.parse::<u64>().ok()?;
    let time_us = seconds.checked_mul(1_000_000)?.checked_add(microseconds.parse().ok()?)?;
    Some(Offset::new(i64::try_from(time_us).ok()?, sent, received))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "d45eaf70ea2b590722e768d829b50a108cf6c756";
    const REPL: &str = "b38e0e1ff43848f77ca38ccfe7b893db98d21826";
    const NONE: &str = "0000000000000000000000000000000000000000";

    const SENT: Time = Time::from_start(std::time::Duration::from_secs(7));
    const RECEIVED: Time = Time::from_start(std::time::Duration::from_secs(8));

    fn seen(value: &Value) -> Option<Probe> {
        read(value, SENT, RECEIVED)
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn reply(change: impl FnOnce(&mut Vec<Value>)) -> Value {
        let mut fields = vec![
            Value::Int(0),
            text("master"),
            text(RUN),
            text(REPL),
            text(NONE),
            text("1795238850"),
            text("040566"),
            Value::List(vec![text("some mark")]),
        ];
        change(&mut fields);
        Value::List(fields)
    }

    #[test]
    fn the_call_is_as_the_header_states() {
        let change = Change {
            replaces: None,
            run_id: RUN.to_owned(),
            repl_id: REPL.to_owned(),
            new: "new".to_owned(),
        };
        for change in [None, Some(&change)] {
            let request = request(b"key", change);
            let (source, keys, arguments) = request.shape();
            for (table, stated) in [("KEYS", keys), ("ARGV", arguments)] {
                let header =
                    source.lines().filter(|line| line.starts_with(&format!("-- {table}[")));
                assert_eq!(header.count(), stated, "{table}");
            }
        }
    }

    #[test]
    fn a_reply_is_a_look_with_a_time() {
        let probe = seen(&reply(|_| {})).expect("a probe");
        let expected = Probe {
            changed: false,
            role: Role::Master,
            identity: Identity::new(RUN, REPL).expect("ids"),
            promoted: false,
            clock: Offset::new(1_795_238_850_040_566, SENT, RECEIVED),
            mark: Some("some mark".to_owned()),
        };
        assert_eq!(probe, expected);
        let probe = |change: fn(&mut Vec<Value>)| seen(&reply(change)).expect("a probe");
        assert!(probe(|fields| fields[0] = Value::Int(1)).changed);
        assert_eq!(probe(|fields| fields[1] = text("slave")).role, Role::Replica);
        assert_eq!(probe(|fields| fields[1] = text("cluster")).role, Role::Cluster);
        assert!(probe(|fields| fields[4] = text(REPL)).promoted);
        assert_eq!(probe(|fields| fields[7] = Value::List(vec![])).mark, None);
    }

    #[test]
    fn anything_else_is_no_look() {
        let wrong: [fn(&mut Vec<Value>); 10] = [
            |fields| fields.truncate(7),
            |fields| fields.push(Value::Int(0)),
            |fields| fields[0] = Value::Int(2),
            |fields| fields[1] = text(""),
            |fields| fields[2] = text(""),
            |fields| fields[2] = text("a b"),
            |fields| fields[3] = text(""),
            |fields| fields[5] = text("now"),
            |fields| fields[5] = text("99999999999999999999"),
            |fields| fields[7] = text("some mark"),
        ];
        for change in wrong {
            let value = reply(change);
            assert_eq!(seen(&value), None, "{value}");
        }
        assert_eq!(seen(&Value::Int(1)), None);
    }
}
