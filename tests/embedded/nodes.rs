//! Faults of embedded nodes, and their effects on clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use quorlock::embedded::Nodes;
use quorlock::{ErrorKind, OptionalGuard as _, Quorlock};
use redis::Value;

use crate::client::{answer_within, connect, run, try_run};
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(10);
/// Time in which a forbidden answer would arrive.
const SILENCE: Duration = Duration::from_millis(50);

fn bulk(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

fn one() -> Nodes {
    Nodes::start(1).expect("a port is free")
}

#[test]
fn a_killed_node_answers_nobody_and_comes_back_on_its_port() {
    let nodes = one();
    let node = &nodes[0];
    let mut connection = connect(&node.url());
    run(&mut connection, &["SET", "k", "v"]);

    node.kill();
    try_run(&mut connection, &["PING"]).expect_err("it is closed");
    let url = node.url();
    // The redis crate's client sends a greeting first.
    let greeting = redis::Client::open(url.as_str()).and_then(|client| client.get_connection());
    greeting.map(drop).expect_err("it is down");

    node.restart();
    assert_eq!(node.url(), url);
    let greeting = redis::Client::open(url.as_str()).and_then(|client| client.get_connection());
    greeting.map(drop).expect("it is up");
    let mut connection = connect(&url);
    assert_eq!(run(&mut connection, &["GET", "k"]), bulk("v"), "its data was kept");

    node.restart_empty();
    try_run(&mut connection, &["PING"]).expect_err("a restart closes it, too");
    assert_eq!(run(&mut connect(&url), &["GET", "k"]), Value::Nil);
}

fn run_id(nodes: &Nodes) -> String {
    let info = run(&mut connect(&nodes[0].url()), &["INFO", "server"]);
    let Value::BulkString(info) = info else { panic!("no text: {info:?}") };
    let info = String::from_utf8(info).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("run_id:"));
    line.expect("a run id").to_owned()
}

#[test]
fn each_run_has_an_id_of_its_own() {
    let nodes = one();
    let first = run_id(&nodes);
    assert_eq!(run_id(&nodes), first);
    assert!(first.len() == 40 && first.chars().all(|digit| digit.is_ascii_hexdigit()), "{first}");
    nodes[0].restart();
    assert_ne!(run_id(&nodes), first);
    assert_ne!(run_id(&one()), run_id(&one()), "those of two nodes");
}

#[test]
fn a_hung_node_runs_later_what_it_has_received() {
    let nodes = one();
    let node = &nodes[0];
    let (mut before, mut watcher) = (connect(&node.url()), connect(&node.url()));
    run(&mut before, &["PING"]);
    node.hang();
    let mut after = connect(&node.url());
    for (connection, key) in [(&mut before, "a"), (&mut after, "b")] {
        let command = redis::cmd("INCR").arg(key).get_packed_command();
        connection.send_packed_command(&command).expect("it takes bytes");
        assert_eq!(answer_within(connection, SILENCE), None);
    }
    assert_eq!(node.keys(), Vec::<Vec<u8>>::new(), "nothing has run");
    // The client has left meanwhile, but its command was sent.
    drop(before);
    node.resume();
    wait_until("both have run", LIMIT, || node.keys() == [b"a".to_vec(), b"b".to_vec()]);
    assert_eq!(run(&mut watcher, &["INCR", "a"]), Value::Int(2));
}

/// The node does not even answer commands that need no data, or errors.
#[test]
fn a_hung_node_answers_nothing_at_all() {
    let nodes = one();
    nodes[0].hang();
    let sent = [
        &redis::cmd("CLIENT").arg("SETNAME").arg("me").get_packed_command(),
        &redis::cmd("UNSUBSCRIBE").get_packed_command(),
        &redis::cmd("QUIT").get_packed_command(),
        &b"no command\r\n".to_vec(),
    ];
    let mut streams = sent.map(|bytes| {
        let mut stream = TcpStream::connect(nodes[0].url().trim_start_matches("redis://"))
            .expect("its port is open");
        stream.write_all(bytes).expect("it takes bytes");
        stream.set_read_timeout(Some(SILENCE)).expect("more than zero");
        stream
    });
    for (stream, bytes) in streams.iter_mut().zip(sent) {
        stream.read(&mut [0; 64]).map(drop).expect_err(&bytes.escape_ascii().to_string());
    }
    nodes[0].resume();
    for stream in &mut streams {
        stream.set_read_timeout(Some(LIMIT)).expect("more than zero");
        assert!(stream.read(&mut [0; 64]).expect("it goes on") > 0);
    }
}

#[test]
fn a_node_that_is_killed_while_it_hangs_runs_nothing() {
    let nodes = one();
    let node = &nodes[0];
    let mut connection = connect(&node.url());
    run(&mut connection, &["PING"]);
    node.hang();
    let command = redis::cmd("INCR").arg("k").get_packed_command();
    connection.send_packed_command(&command).expect("it takes bytes");
    assert_eq!(answer_within(&mut connection, SILENCE), None);
    node.kill();
    node.resume();
    try_run(&mut connect(&node.url()), &["PING"]).expect_err("resuming does not start it");
    node.restart();
    run(&mut connect(&node.url()), &["PING"]);
    assert_eq!(node.keys(), Vec::<Vec<u8>>::new());
}

/// As on a server, commands sent over an ended connection do not run any more.
#[test]
fn a_connection_ends_another_one() {
    let nodes = one();
    let node = &nodes[0];
    let (mut old, mut new) = (connect(&node.url()), connect(&node.url()));
    let Value::Int(id) = run(&mut old, &["CLIENT", "ID"]) else { panic!("an id is a number") };
    assert_ne!(run(&mut new, &["CLIENT", "ID"]), Value::Int(id));
    let id = id.to_string();
    assert_eq!(run(&mut new, &["CLIENT", "KILL", "ID", &id]), Value::Int(1));
    assert_eq!(run(&mut new, &["CLIENT", "KILL", "ID", &id]), Value::Int(0), "it is gone");
    // The client may notice the end only when the answer does not come.
    let _ = old.send_packed_command(&redis::cmd("INCR").arg("k").get_packed_command());
    assert_eq!(answer_within(&mut old, LIMIT), None);
    assert_eq!(node.keys(), Vec::<Vec<u8>>::new());
    let wrong = try_run(&mut new, &["CLIENT", "KILL", "ID", "0"]);
    assert!(matches!(wrong, Ok(Value::ServerError(_))), "{wrong:?}");
}

#[test]
fn clocks_can_be_moved() {
    let nodes = one();
    let node = &nodes[0];
    let mut connection = connect(&node.url());
    run(&mut connection, &["SET", "k", "v", "PX", "60000"]);
    node.move_clock_back(Duration::from_secs(3_600));
    let Value::Int(left) = run(&mut connection, &["PTTL", "k"]) else { panic!("a number") };
    assert!((3_600_000..=3_660_000).contains(&left), "{left}");
    node.move_clock_forward(Duration::from_secs(2 * 3_600));
    assert_eq!(node.keys(), Vec::<Vec<u8>>::new());
    assert_eq!(run(&mut connection, &["GET", "k"]), Value::Nil);
}

#[test]
fn messages_reach_those_who_listen_and_only_them() {
    let nodes = one();
    let mut listener = connect(&nodes[0].url());
    let mut publisher = connect(&nodes[0].url());
    let publish = ["PUBLISH", "free", "lock"];
    assert_eq!(run(&mut publisher, &publish), Value::Int(0));
    let confirmed = Value::Array(vec![bulk("subscribe"), bulk("free"), Value::Int(1)]);
    assert_eq!(run(&mut listener, &["SUBSCRIBE", "free"]), confirmed);
    assert_eq!(run(&mut publisher, &["PUBLISH", "other", "lock"]), Value::Int(0));
    assert_eq!(run(&mut publisher, &publish), Value::Int(1));
    let script = "return redis.call('PUBLISH', KEYS[1], 'from a script')";
    assert_eq!(run(&mut publisher, &["EVAL", script, "1", "free"]), Value::Int(1));
    for text in ["lock", "from a script"] {
        let message = Value::Array(vec![bulk("message"), bulk("free"), bulk(text)]);
        assert_eq!(answer_within(&mut listener, LIMIT), Some(message));
    }
    assert_eq!(run(&mut listener, &["GET", "k"]).code(), "ERR", "it listens");
    let gone = Value::Array(vec![bulk("unsubscribe"), bulk("free"), Value::Int(0)]);
    assert_eq!(run(&mut listener, &["UNSUBSCRIBE"]), gone);
    assert_eq!(run(&mut listener, &["GET", "k"]), Value::Nil);

    run(&mut listener, &["SUBSCRIBE", "free"]);
    drop(listener);
    wait_until("nobody listens", LIMIT, || run(&mut publisher, &publish) == Value::Int(0));
}

trait Code {
    fn code(&self) -> &str;
}

impl Code for Value {
    fn code(&self) -> &str {
        let Self::ServerError(error) = self else { panic!("no error: {self:?}") };
        error.code()
    }
}

#[test]
fn what_is_no_command_is_refused_and_harms_nobody_else() {
    let nodes = one();
    let mut connection = connect(&nodes[0].url());
    connection.send_packed_command(b"GET / HTTP/1.1\r\n\r\n").expect("it is up");
    assert_eq!(answer_within(&mut connection, LIMIT).expect("a reason").code(), "ERR");
    try_run(&mut connection, &["PING"]).expect_err("it is closed");
    run(&mut connect(&nodes[0].url()), &["PING"]);
}

#[test]
fn nodes_end_with_their_last_handle() {
    let nodes = Nodes::start(3).expect("three ports are free");
    let addresses = nodes.urls();
    let addresses: Vec<_> =
        addresses.iter().map(|url| url.trim_start_matches("redis://")).collect();
    let clone = nodes.clone();
    let mut connection = connect(&clone[1].url());
    drop(nodes);
    run(&mut connection, &["PING"]);
    clone[0].hang();
    let start = Instant::now();
    drop(clone);
    assert!(start.elapsed() < LIMIT, "it took {:?}", start.elapsed());
    try_run(&mut connection, &["PING"]).expect_err("it is closed");
    for address in addresses {
        TcpStream::connect(address).expect_err("nobody listens there any more");
    }
}

#[test]
fn as_many_nodes_as_make_sense_can_be_had() {
    for n in [0, 33, usize::MAX] {
        let error = Nodes::start(n).expect_err("no such number");
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert_eq!(Quorlock::embedded(n).expect_err("no such number").kind(), ErrorKind::Config);
    }
    assert_eq!(Nodes::start(32).expect("ports are free").len(), 32);
}

#[test]
fn the_nodes_of_a_client_live_as_long_as_it_does() {
    let (locks, _) = Quorlock::embedded(3).expect("ports are free");
    let guard = locks.lock("orders/42").expect("all nodes are up");
    guard.unlock().expect("they still are");
}

/// A lock on three nodes survives faults of one node, but not of two.
#[test]
fn locks_live_and_die_with_a_majority_of_nodes() {
    let nodes = Nodes::start(3).expect("ports are free");
    let client = || {
        Quorlock::builder()
            .restart_quarantine(false)
            .nodes(nodes.urls())
            .build()
            .expect("the settings are valid")
    };
    let (one, other) = (client(), client());
    let guard = one.lock("orders/42").expect("all nodes are up");
    // Two nodes grant the lock, but the test needs it on all three.
    let lock = b"quorlock:orders/42".to_vec();
    wait_until("all have it", LIMIT, || nodes.iter().all(|node| node.keys().contains(&lock)));
    let harms: [&dyn Fn(); 3] =
        [&|| nodes[0].restart_empty(), &|| nodes[0].hang(), &|| nodes[0].kill()];
    for harm in harms {
        harm();
        assert!(other.try_lock("orders/42").optional().expect("two are up").is_none());
    }
    nodes[1].kill();
    let error = other.try_lock("orders/42").expect_err("one is no majority");
    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    nodes[0].restart();
    nodes[1].restart_empty();
    guard.unlock().expect("two are up");
    wait_until("it is free", LIMIT, || nodes.iter().all(|node| !node.keys().contains(&lock)));
}
