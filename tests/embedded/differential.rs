//! Random sequences of commands and scripts, run on a real server and on an embedded node.

use std::fmt::Write;
use std::time::{Duration, Instant};

use quorlock::embedded::Nodes;
use rand::random;
use redis::{Connection, RedisResult, Value};

use crate::alike::{TOLERANCE_MS, alike};
use crate::client::{connect, run, try_run};
use crate::commands::{Call, Comparison, Source};
use crate::scripts::{REPLICATION_ID, RUN_ID, Shipped, shipped};
use crate::support::{Server, wait_until};

/// The variables with the number of sequences, and with the seed of the first one, if it is given.
const SEQUENCES: &str = "QUORLOCK_DIFFERENTIAL_SEQUENCES";
const SEED: &str = "QUORLOCK_DIFFERENTIAL_SEED";
const LENGTH: usize = 40;

fn setting(name: &str, default: impl FnOnce() -> u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default(),
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "how much was compared, for who asks with --nocapture")]
fn embedded_nodes_answer_as_a_server_does() {
    let (server, nodes) = (Server::start(), Nodes::start(1).expect("a port is free"));
    let mut both = Both::connect(&server, &nodes);
    let scripts = shipped();
    let first = setting(SEED, || u64::from(random::<u32>()));
    let count = setting(SEQUENCES, || 800);
    let start = Instant::now();
    let mut errors = 0;
    for seed in first..first + count {
        errors += both.compare_sequence(seed, &scripts);
    }
    // Calls that fail on both sides compare nothing.
    let calls = count * LENGTH as u64;
    assert!(errors * 2 < calls, "{errors} of {calls} calls failed on the server");
    println!("{count} sequences, {calls} calls, {errors} of them errors, {:?}", start.elapsed());
}

/// One of the two sides of the comparison.
struct Side {
    connection: Connection,
    run_id: Vec<u8>,
    replication_id: Vec<u8>,
}

impl Side {
    fn connect(url: &str) -> Self {
        let mut connection = connect(url);
        let Value::BulkString(info) = run(&mut connection, &["INFO"]) else { panic!("no text") };
        let info = String::from_utf8(info).expect("text");
        let line = |start| {
            let line = info.lines().find_map(|line| line.strip_prefix(start));
            line.unwrap_or_else(|| panic!("no {start} in {info}")).as_bytes().to_vec()
        };
        let (run_id, replication_id) = (line("run_id:"), line("master_replid:"));
        Self { connection, run_id, replication_id }
    }

    fn run(&mut self, words: &[Vec<u8>]) -> RedisResult<Value> {
        let words: Vec<_> = words
            .iter()
            .map(|word| match word.as_slice() {
                RUN_ID => &self.run_id,
                REPLICATION_ID => &self.replication_id,
                _ => word,
            })
            .collect();
        try_run(&mut self.connection, &words)
    }
}

pub(crate) struct Both {
    server: Side,
    node: Side,
    /// The commands of the present sequence so far.
    pub(crate) history: String,
}

impl Both {
    pub(crate) fn connect(server: &Server, nodes: &Nodes) -> Self {
        let (server, node) = (Side::connect(&server.url()), Side::connect(&nodes[0].url()));
        Self { server, node, history: String::new() }
    }

    /// Runs one sequence. Returns the number of calls that the server refused.
    fn compare_sequence(&mut self, seed: u64, scripts: &[Shipped]) -> u64 {
        self.history = format!("{SEED}={seed} {SEQUENCES}=1\n");
        let mut source = Source::new(seed);
        self.compare(&call("FLUSHALL", Comparison::Exact));
        let mut errors = 0;
        for _ in 0..LENGTH {
            let call = match source.below(10) {
                0..5 => source.command(),
                5..7 => source.shipped_call(scripts),
                _ => source.fuzzed_call(),
            };
            let answer = self.compare(&call);
            errors += u64::from(matches!(answer, Value::ServerError(_)));
        }
        self.compare_data();
        errors
    }

    pub(crate) fn compare(&mut self, call: &Call) -> Value {
        for word in &call.words {
            // The seed reproduces the rest of a long script.
            let _ = write!(self.history, "{:.300} ", word.escape_ascii().to_string());
        }
        self.history.push('\n');
        let [server, node] = [&mut self.server, &mut self.node].map(|side| {
            side.run(&call.words).unwrap_or_else(|error| panic!("{error}\nafter {}", self.history))
        });
        assert!(
            alike(&server, &node, call.comparison),
            "the server says {server:?}\nthe node says {node:?}\nafter {}",
            self.history
        );
        server
    }

    /// Compares all remaining keys, each with the reading command of its type.
    fn compare_data(&mut self) {
        let Value::Array(keys) = self.compare(&call("KEYS *", Comparison::Unordered)) else {
            panic!("KEYS answers a list");
        };
        for key in keys {
            let Value::BulkString(key) = key else { panic!("keys are strings") };
            let key = String::from_utf8(key).expect("ours are text");
            let kind = self.compare(&call(&format!("TYPE {key}"), Comparison::Exact));
            let Value::SimpleString(kind) = kind else { panic!("a type is a status") };
            let (read, comparison) = match kind.as_str() {
                "string" => (format!("GET {key}"), Comparison::Exact),
                "hash" => (format!("HGETALL {key}"), Comparison::UnorderedPairs),
                "set" => (format!("SMEMBERS {key}"), Comparison::Unordered),
                "zset" => (format!("ZRANGE {key} 0 -1 WITHSCORES"), Comparison::Exact),
                "list" => (format!("LRANGE {key} 0 -1"), Comparison::Exact),
                other => panic!("no command makes a {other}"),
            };
            self.compare(&call(&read, comparison));
            self.compare(&call(&format!("PEXPIRETIME {key}"), Comparison::Time));
        }
    }
}

pub(crate) fn call(text: &str, comparison: Comparison) -> Call {
    Call { words: text.split(' ').map(|word| word.as_bytes().to_vec()).collect(), comparison }
}

/// The expiry of keys, which the sequences leave out because it takes time.
#[test]
fn keys_end_in_both() {
    let server = Server::start();
    let nodes = Nodes::start(1).expect("a port is free");
    for url in [server.url(), nodes[0].url()] {
        let mut connection = connect(&url);
        let before = Instant::now();
        for words in [
            &["SET", "k", "v", "PX", "300"][..],
            &["HSET", "h", "f", "v"],
            &["PEXPIRE", "h", "300"],
        ] {
            run(&mut connection, words);
        }
        let mut there = || match run(&mut connection, &["EXISTS", "k", "h"]) {
            Value::Int(there) => there,
            other => panic!("no number: {other:?}"),
        };
        let first = there();
        assert!(first == 2 || before.elapsed() >= Duration::from_millis(300), "{url}: {first}");
        wait_until("the keys end", Duration::from_secs(5), || there() == 0);
        assert!(before.elapsed() >= Duration::from_millis(300), "{url}: too early");
    }
}

#[test]
fn the_clocks_say_the_same() {
    let server = Server::start();
    let nodes = Nodes::start(1).expect("a port is free");
    let mut seconds = [server.url(), nodes[0].url()].into_iter().map(|url| {
        let Value::Array(time) = run(&mut connect(&url), &["TIME"]) else { panic!("a list") };
        let [Value::BulkString(seconds), Value::BulkString(microseconds)] = time.as_slice() else {
            panic!("{url}: {time:?}");
        };
        assert!(microseconds.len() <= 6, "{url}: {time:?}");
        let seconds = String::from_utf8(seconds.clone()).expect("digits");
        seconds.parse::<u64>().expect("a number")
    });
    let (server, node) = (seconds.next().expect("a time"), seconds.next().expect("a time"));
    assert!(server.abs_diff(node) <= TOLERANCE_MS / 1_000, "{server} and {node}");
}
