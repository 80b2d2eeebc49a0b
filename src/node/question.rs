//! The questions to a node about itself: their commands, and the parsing of the answers.

use std::time::Duration;

use super::address::Address;
use super::connection::{Broken, Connection, Reply, TIME};
use super::fitness::{field, is_cluster, replication_id};
use super::request::{Part, Request, Script, Value};
use crate::clock;
use crate::core::admission::{Change, Identity, Offset, Probe, Role};
use crate::core::base::Time;
use crate::core::link::{Awaited, Form};
use crate::error::NodeFault;

static ADMIT: Script = Script::new(include_str!("../../lua/node/admit.lua"));

/// A question to a node about itself: a script that reads the node's mark, perhaps with a change of it, and `INFO`, in one write.
pub(crate) struct Question {
    /// The call of the script.
    pub(crate) request: Request,
}

impl Question {
    /// The number of its commands, and so of its answers.
    pub(crate) const COMMANDS: usize = 1 + OF_SERVER.len();

    /// The question about the node whose mark is at `key`. If it makes a change, that goes with the script.
    pub(crate) fn new(key: &[u8], change: Option<&Change>) -> Self {
        let parts = [
            Part::Bytes(key),
            text(change.and_then(|change| change.replaces.as_deref())),
            text(change.map(|change| change.new.as_str())),
        ];
        Self { request: Request::new(&ADMIT, 1, &parts) }
    }

    /// Appends its commands to what will be written. The server is read behind the mark: see [`Probe`].
    pub(super) fn write_to(&self, buffer: &mut Vec<u8>, form: Form) {
        self.request.write_to(buffer, form, "");
        write_info(buffer);
    }
}

/// The answer to a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) probe: Probe,
    /// True if the server refuses `INFO` in scripts: the connection may lead through a proxy that keeps it open when another server
    /// takes over.
    pub(crate) is_relayed: bool,
}

/// The sections of `INFO` that show which server answers, one for each command: servers before 7.0 take only one.
pub(crate) const OF_SERVER: [&str; 2] = ["server", "replication"];

/// The number of answers that come next over a connection, which may be relayed.
pub(super) fn answers_to(awaited: Option<Awaited>, is_relayed: bool) -> usize {
    match awaited {
        Some(Awaited::Question) => Question::COMMANDS,
        Some(Awaited::Clock) if is_relayed => OF_SERVER.len() + 1,
        _ => 1,
    }
}

/// Reads which server answers from these sections.
pub(crate) fn identity([server, replication]: [&Value; 2]) -> Option<Identity> {
    let (Value::Text(server), Value::Text(replication)) = (server, replication) else {
        return None;
    };
    let run_id = field(server, "run_id")?;
    Identity::new(run_id, replication_id(replication)?)
}

/// Appends the commands that show which server answers.
fn write_info(buffer: &mut Vec<u8>) {
    for section in OF_SERVER {
        redis::cmd("INFO").arg(section).write_packed_command(buffer);
    }
}

/// Appends the reading of the clock; over a connection that may be relayed, which server answers is read before it. Returns
/// the number of commands besides the reading of the clock.
pub(super) fn write_clock(is_relayed: bool, buffer: &mut Vec<u8>) -> usize {
    if is_relayed {
        write_info(buffer);
    }
    buffer.extend_from_slice(TIME);
    if is_relayed { OF_SERVER.len() } else { 0 }
}

/// Reads the answers that show which server answers. Fails if that is not the server whose answers count: the connection has
/// come to its end.
pub(super) fn read_server(
    connection: &mut Connection,
    deadline: Time,
    is_still_there: impl FnOnce(&Identity) -> bool,
) -> Result<(), Broken> {
    let mut next = || match connection.read_any(deadline)? {
        Reply::Value(value) => Ok(value),
        Reply::Error(_) | Reply::NoScript => Ok(Value::Strange("an error".to_owned())),
    };
    let (server, replication) = (next()?, next()?);
    let what = match identity([&server, &replication]) {
        Some(server) if is_still_there(&server) => return Ok(()),
        Some(_) => return Err(another_server(&connection.address)),
        None => "INFO does not show any more which server answers; connecting anew",
    };
    let fault = NodeFault::new(connection.address.shown(), what);
    Err(Broken { fault, closed: true, in_step: true })
}

/// The end of a connection over which another server answers.
pub(super) fn another_server(address: &Address) -> Broken {
    let what = "another server answers over this connection, or the same one after a restart or as the master of \
                other replicas, so locks that it has just granted do not count; connecting anew";
    Broken { fault: NodeFault::new(address.shown(), what), closed: true, in_step: true }
}

/// The fault of a server whose answers to a question make no sense.
pub(super) fn strange(address: &Address, values: Vec<Value>) -> Broken {
    let values = Value::List(values);
    let what = format!(
        "the server has answered a probe with {values}; is it a proxy, or something other than Redis?"
    );
    Broken { fault: NodeFault::new(address.shown(), what), closed: false, in_step: false }
}

/// Reads the answers to the commands of a question, which were sent at that time; the script was answered at the other one. `None`
/// if no server that we know answers like this.
pub(crate) fn read(answers: &[Value], sent: Time, answered: Time) -> Option<Answer> {
    let [script, server, replication] = answers else { return None };
    let identity = identity([server, replication])?;
    let (Value::Text(server), Value::Text(replication)) = (server, replication) else {
        return None;
    };
    let before = field(replication, "master_replid2").unwrap_or_default();
    let marked = Marked::read(script, sent, answered)?;
    let probe = Probe {
        changed: marked.changed,
        role: match field(replication, "role")? {
            _ if is_cluster(server) => Role::Cluster,
            "master" => Role::Master,
            "slave" => Role::Replica,
            _ => return None,
        },
        identity,
        promoted: before.bytes().any(|byte| byte != b'0'),
        clock: marked.clock,
        mark: marked.mark,
    };
    Some(Answer { probe, is_relayed: marked.is_relayed })
}

fn text(text: Option<&str>) -> Part<'_> {
    Part::Bytes(text.unwrap_or_default().as_bytes())
}

/// The answer of the script.
struct Marked {
    changed: bool,
    clock: Offset,
    mark: Option<String>,
    is_relayed: bool,
}

impl Marked {
    fn read(value: &Value, sent: Time, answered: Time) -> Option<Self> {
        let Value::List(fields) = value else { return None };
        let [
            Value::Int(changed @ 0..=1),
            Value::Text(seconds),
            Value::Text(microseconds),
            Value::List(mark),
            Value::Int(refuses @ 0..=1),
        ] = fields.as_slice()
        else {
            return None;
        };
        let mark = match mark.as_slice() {
            [] => None,
            [Value::Text(mark)] => Some(mark.clone()),
            _ => return None,
        };
        let clock = offset(seconds, microseconds, sent, answered)?;
        Some(Self { changed: *changed == 1, clock, mark, is_relayed: *refuses == 1 })
    }
}

/// The clock offset by an answer to `TIME`, which was sent and answered at these times.
fn offset(seconds: &str, microseconds: &str, sent: Time, answered: Time) -> Option<Offset> {
    let seconds = seconds.parse::<u64>().ok()?;
    let time_us = seconds.checked_mul(1_000_000)?.checked_add(microseconds.parse().ok()?)?;
    Some(Offset::new(i64::try_from(time_us).ok()?, sent, answered))
}

/// The answers to a question.
pub(super) enum Answers {
    /// All of them, and the time at which that of the script came: its reading of the clock is as exact as that.
    Values(Vec<Value>, Time),
    NoScript,
    /// The server refuses one of its commands.
    Refused(NodeFault),
}

/// Reads the answers to all commands of a question. All of them must come by `deadline`.
pub(super) fn read_answers(connection: &mut Connection, deadline: Time) -> Result<Answers, Broken> {
    let mut values = Vec::new();
    let (mut other, mut answered) = (None, None);
    let mut broken = None;
    for i in 0..Question::COMMANDS {
        let read = if i == 0 { connection.read(deadline) } else { connection.read_any(deadline) };
        answered = answered.or_else(|| Some(clock::now()));
        match read {
            Ok(Reply::Value(value)) => values.push(value),
            Ok(Reply::NoScript) => _ = other.get_or_insert(Answers::NoScript),
            Ok(Reply::Error(fault)) => _ = other.get_or_insert(Answers::Refused(fault)),
            // The server is loading, busy or silent. The answers to the other commands must not be left.
            Err(it @ Broken { in_step: true, closed: false, .. }) => _ = broken.get_or_insert(it),
            Err(it) => return Err(it),
        }
    }
    if let Some(broken) = broken {
        return Err(broken);
    }
    let answered = answered.unwrap_or_else(clock::now);
    Ok(other.unwrap_or(Answers::Values(values, answered)))
}

/// Probes the server behind `connection`, and changes nothing. The answer may take `timeout`. The inner fault is the server's own
/// answer, such as that the user may run no scripts.
pub(super) fn probe(
    connection: &mut Connection,
    key: &[u8],
    timeout: Duration,
) -> Result<Result<Answer, NodeFault>, Broken> {
    let mut bytes = Vec::new();
    Question::new(key, None).write_to(&mut bytes, Form::Source);
    let sent = clock::now();
    connection.write(&bytes)?;
    let answers = match read_answers(connection, sent.after(timeout)) {
        Ok(answers) => answers,
        // The server is loading, busy or silent.
        Err(Broken { fault, in_step: true, closed: false }) => return Ok(Err(fault)),
        Err(broken) => return Err(broken),
    };
    let fault = |what: String| NodeFault::new(connection.address.shown(), what);
    Ok(match answers {
        Answers::Values(values, answered) => read(&values, sent, answered).ok_or_else(|| {
            fault(format!("the server has answered a probe with {}", Value::List(values)))
        }),
        Answers::Refused(fault) => Err(fault),
        Answers::NoScript => Err(fault("the server knows no script".to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "d45eaf70ea2b590722e768d829b50a108cf6c756";
    const REPL: &str = "b38e0e1ff43848f77ca38ccfe7b893db98d21826";

    const SENT: Time = Time::from_start(Duration::from_secs(7));
    const ANSWERED: Time = Time::from_start(Duration::from_secs(8));

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// The answers of a master to a probe.
    fn answers() -> Vec<Value> {
        let script = vec![
            Value::Int(0),
            text("1795238850"),
            text("040566"),
            Value::List(vec![text("some mark")]),
            Value::Int(0),
        ];
        let none = "0".repeat(40);
        vec![
            Value::List(script),
            text(&format!(
                "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{RUN}\r\n"
            )),
            text(&format!(
                "# Replication\r\nrole:master\r\nmaster_replid:{REPL}\r\nmaster_replid2:{none}\r\n"
            )),
        ]
    }

    fn script(answers: &mut [Value]) -> &mut Vec<Value> {
        let Value::List(fields) = &mut answers[0] else { panic!("a list") };
        fields
    }

    fn replaced(answers: &mut [Value], command: usize, from: &str, to: &str) {
        let Value::Text(info) = &mut answers[command] else { panic!("a text") };
        assert!(info.contains(from), "{info}");
        *info = info.replace(from, to);
    }

    fn answer(change: impl FnOnce(&mut Vec<Value>)) -> Option<Answer> {
        let mut answers = answers();
        change(&mut answers);
        read(&answers, SENT, ANSWERED)
    }

    fn probe(change: impl FnOnce(&mut Vec<Value>)) -> Option<Probe> {
        answer(change).map(|answer| answer.probe)
    }

    #[test]
    fn the_call_is_as_the_header_states() {
        let change = Change { replaces: None, new: "new".to_owned() };
        for change in [None, Some(&change)] {
            let question = Question::new(b"key", change);
            let (source, keys, arguments) = question.request.shape();
            for (table, stated) in [("KEYS", keys), ("ARGV", arguments)] {
                let header =
                    source.lines().filter(|line| line.starts_with(&format!("-- {table}[")));
                assert_eq!(header.count(), stated, "{table}");
            }
        }
    }

    /// Some servers refuse `INFO` in scripts.
    #[test]
    fn the_server_is_read_behind_the_script_and_not_in_it() {
        let mut written = Vec::new();
        let question = Question::new(b"key", None);
        question.write_to(&mut written, Form::Sha);
        let written = String::from_utf8(written).expect("text");
        let at = |word: &str| written.find(word).expect("it is written");
        assert!(at("EVALSHA") < at("INFO") && at("INFO") < at("replication"), "{written}");
        let (source, ..) = question.request.shape();
        assert_eq!(
            source.matches("'INFO'").count(),
            1,
            "only to find out if it is refused: {source}"
        );
    }

    #[test]
    fn a_server_that_refuses_info_in_scripts_may_be_behind_a_proxy() {
        assert!(!answer(|_| {}).expect("an answer").is_relayed);
        assert!(answer(|it| script(it)[4] = Value::Int(1)).expect("an answer").is_relayed);
    }

    #[test]
    fn two_sections_show_which_server_answers() {
        let answers = answers();
        assert_eq!(identity([&answers[1], &answers[2]]), Identity::new(RUN, REPL));
        assert_eq!(identity([&answers[2], &answers[1]]), None);
    }

    #[test]
    fn the_answers_are_a_probe_with_a_time() {
        let expected = Probe {
            changed: false,
            role: Role::Master,
            identity: Identity::new(RUN, REPL).expect("ids"),
            promoted: false,
            clock: Offset::new(1_795_238_850_040_566, SENT, ANSWERED),
            mark: Some("some mark".to_owned()),
        };
        assert_eq!(probe(|_| {}), Some(expected));
        let with = |change: fn(&mut Vec<Value>)| probe(change).expect("a probe");
        assert!(with(|answers| script(answers)[0] = Value::Int(1)).changed);
        assert_eq!(with(|answers| script(answers)[3] = Value::List(vec![])).mark, None);
        assert_eq!(with(|it| replaced(it, 2, "role:master", "role:slave")).role, Role::Replica);
        assert_eq!(with(|it| replaced(it, 1, "standalone", "cluster")).role, Role::Cluster);
        assert!(with(|it| replaced(it, 2, "replid2:0", "replid2:a")).promoted);
    }

    #[test]
    fn anything_else_is_no_probe() {
        let wrong: [fn(&mut Vec<Value>); 15] = [
            |answers| answers.truncate(2),
            |answers| answers.push(text("")),
            |answers| answers.swap(0, 1),
            |answers| answers.swap(1, 2),
            |answers| script(answers).truncate(4),
            |answers| script(answers)[4] = text(""),
            |answers| script(answers).push(Value::Int(0)),
            |answers| script(answers)[0] = Value::Int(2),
            |answers| script(answers)[1] = text("now"),
            |answers| script(answers)[1] = text("99999999999999999999"),
            |answers| script(answers)[3] = text("some mark"),
            |answers| answers[1] = text("run_id:"),
            |answers| answers[1] = text("run_id:a b"),
            |answers| answers[2] = text("role:master\r\nmaster_replid:\r\nconnected_slaves:1\r\n"),
            |answers| replaced(answers, 2, "role:master", "role:sentinel"),
        ];
        for (i, change) in wrong.into_iter().enumerate() {
            assert_eq!(probe(change), None, "{i}");
        }
    }
}
