//! The scripts that probe and check a node, as stories: a server and an embedded node answer alike, except for their
//! identities.

use quorlock::embedded::Nodes;
use redis::{Connection, Value};

use crate::client::{connect, run};
use crate::support::Server;

const CHECK: &str = include_str!("../../lua/node/check.lua");
const SCRIPT: &str = include_str!("../../lua/node/admit.lua");

/// The answer to a probe, with the identity as it was seen before.
fn probe(connection: &mut Connection, old: &str, new: &str, identity: &[String; 2]) -> Vec<Value> {
    let [run_id, repl_id] = identity;
    let answer = run(connection, &["EVAL", SCRIPT, "1", "mark", old, new, run_id, repl_id]);
    let Value::Array(fields) = answer else { panic!("{answer:?}") };
    assert_eq!(fields.len(), 8, "{fields:?}");
    fields
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// The answers to a sequence of probes and changes, without the fields that differ between servers.
fn story(url: &str) -> Vec<Vec<Value>> {
    let mut connection = connect(url);
    let nobody = [String::new(), String::new()];
    let first = probe(&mut connection, "", "", &nobody);
    let identity = [text(&first[2]), text(&first[3])];
    assert!(identity.iter().all(|id| id.len() == 40), "{identity:?}");
    let seconds: u64 = text(&first[5]).parse().expect("a time");
    assert!(seconds > 1_700_000_000, "{seconds}");

    let mut told = vec![first];
    told.push(probe(&mut connection, "", "one", &nobody));
    told.push(probe(&mut connection, "", "one", &identity));
    told.push(probe(&mut connection, "", "two", &identity));
    told.push(probe(&mut connection, "one", "two", &identity));
    run(&mut connection, &["DEL", "mark"]);
    run(&mut connection, &["RPUSH", "mark", "no text"]);
    told.push(probe(&mut connection, "", "three", &identity));
    for fields in &mut told {
        // Run id, replication id and time.
        fields.drain(5..7);
        fields.drain(2..4);
    }
    told
}

#[test]
fn probes_of_embedded_nodes_are_as_probes_of_servers() {
    let server = Server::start();
    let nodes = Nodes::start(1).expect("a port is free");
    let (ours, theirs) = (story(&nodes[0].url()), story(&server.url()));
    assert_eq!(ours, theirs);
    let changed: Vec<_> = ours.iter().map(|fields| fields[0] == Value::Int(1)).collect();
    assert_eq!(changed, [false, false, true, false, true, false]);
}

/// The results of checks: true if the check finds the node unchanged.
fn checks(url: &str) -> Vec<bool> {
    let mut connection = connect(url);
    let first = probe(&mut connection, "", "", &[String::new(), String::new()]);
    let repl_id = text(&first[3]);
    let mut check = |mark: &str, repl_id: &str| {
        let answer = run(&mut connection, &["EVAL", CHECK, "1", "mark", mark, repl_id]);
        let Value::Array(time) = answer else { panic!("{answer:?}") };
        let is_time = || time.iter().all(|part| text(part).parse::<u64>().is_ok());
        assert!(time.is_empty() || time.len() == 2 && is_time(), "{time:?}");
        !time.is_empty()
    };
    let before = [check("", &repl_id), check("one", &repl_id), check("", &"x".repeat(40))];
    run(&mut connect(url), &["SET", "mark", "one"]);
    before.into_iter().chain([check("", &repl_id), check("one", &repl_id)]).collect()
}

#[test]
fn checks_of_embedded_nodes_are_as_checks_of_servers() {
    let server = Server::start();
    let nodes = Nodes::start(1).expect("a port is free");
    let ours = checks(&nodes[0].url());
    assert_eq!(ours, checks(&server.url()));
    assert_eq!(ours, [true, false, false, false, true]);
}
