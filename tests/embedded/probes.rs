//! The script of a probe, as a story: a server and an embedded node answer alike.

use quorlock::embedded::Nodes;
use redis::{Connection, Value};

use crate::client::{connect, run};
use crate::support::Server;

const SCRIPT: &str = include_str!("../../lua/node/admit.lua");

/// The answer of the script.
fn probe(connection: &mut Connection, old: &str, new: &str) -> Vec<Value> {
    let answer = run(connection, &["EVAL", SCRIPT, "1", "mark", old, new]);
    let Value::Array(fields) = answer else { panic!("{answer:?}") };
    assert_eq!(fields.len(), 5, "{fields:?}");
    fields
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// The answers to a sequence of probes and changes, without the time.
fn story(url: &str) -> Vec<Vec<Value>> {
    let mut connection = connect(url);
    let first = probe(&mut connection, "", "");
    let seconds: u64 = text(&first[1]).parse().expect("a time");
    assert!(seconds > 1_700_000_000, "{seconds}");

    let mut told = vec![first];
    told.push(probe(&mut connection, "", "one"));
    told.push(probe(&mut connection, "", "two"));
    told.push(probe(&mut connection, "one", "two"));
    run(&mut connection, &["DEL", "mark"]);
    run(&mut connection, &["RPUSH", "mark", "no text"]);
    told.push(probe(&mut connection, "", "three"));
    for fields in &mut told {
        fields.drain(1..3);
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
    assert_eq!(changed, [false, true, false, true, false]);
}

/// Clients read these fields of `INFO` behind the script.
#[test]
fn embedded_nodes_have_the_identity_of_a_master() {
    let nodes = Nodes::start(1).expect("a port is free");
    let mut connection = connect(&nodes[0].url());
    let mut info = |section: &str| text(&run(&mut connection, &["INFO", section]));
    let (server, replication) = (info("server"), info("replication"));
    let value = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    };
    assert_eq!(value(&replication, "role"), "master");
    assert_eq!(value(&server, "run_id").len(), 40);
    assert_eq!(value(&replication, "master_replid").len(), 40);
    assert_eq!(value(&replication, "master_replid2"), "0".repeat(40));
}
