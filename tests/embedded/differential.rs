//! Random sequences of commands and scripts, to a real server and to an embedded node at a time.

use std::fmt::Write;
use std::time::{Duration, Instant};

use quorlock::embedded::Nodes;
use rand::random;
use redis::{Connection, Value};

use crate::client::{connect, run, try_run};
use crate::commands::{Call, Comparison, Source};
use crate::scripts::{Shipped, shipped};
use crate::support::{Server, wait_until};

/// How many sequences there are, and the seed of the first, if it is to be a certain one.
const SEQUENCES: &str = "QUORLOCK_DIFFERENTIAL_SEQUENCES";
const SEED: &str = "QUORLOCK_DIFFERENTIAL_SEED";
const LENGTH: usize = 40;

/// How long may pass between the two answers to one command, on a busy machine.
const TOLERANCE_MS: u64 = 5_000;

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
    // What fails alike everywhere would be compared for nothing.
    let calls = count * LENGTH as u64;
    assert!(errors * 2 < calls, "{errors} of {calls} calls failed on the server");
    println!("{count} sequences, {calls} calls, {errors} of them errors, {:?}", start.elapsed());
}

struct Both {
    server: Connection,
    node: Connection,
    /// What the present sequence has run.
    history: String,
}

impl Both {
    fn connect(server: &Server, nodes: &Nodes) -> Self {
        let (server, node) = (connect(&server.url()), connect(&nodes[0].url()));
        Self { server, node, history: String::new() }
    }

    /// Answers how many calls the server refused.
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

    fn compare(&mut self, call: &Call) -> Value {
        for word in &call.words {
            // The seed tells the rest of a long script.
            let _ = write!(self.history, "{:.300} ", word.escape_ascii().to_string());
        }
        self.history.push('\n');
        let [server, node] = [&mut self.server, &mut self.node].map(|connection| {
            try_run(connection, &call.words)
                .unwrap_or_else(|error| panic!("{error}\nafter {}", self.history))
        });
        assert!(
            alike(&server, &node, call.comparison),
            "the server says {server:?}\nthe node says {node:?}\nafter {}",
            self.history
        );
        server
    }

    /// All that is left, by what each type is read with.
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

fn call(text: &str, comparison: Comparison) -> Call {
    Call { words: text.split(' ').map(|word| word.as_bytes().to_vec()).collect(), comparison }
}

fn alike(one: &Value, other: &Value, comparison: Comparison) -> bool {
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

/// Borders that chance rarely meets, and what it has found: a line for each sequence, with `;` between
/// the commands and `~` for blanks within words.
const BORDERS: &[&str] = &[
    "SET k v PXAT 4102444800000; PEXPIREAT k 4102444800000 GT; PEXPIREAT k 4102444800000 LT",
    "SET k v; PEXPIREAT k 4102444800000 GT; PTTL k; PEXPIREAT k 4102444800000 LT; PEXPIRETIME k",
    "SET k v PXAT 4102444800000; SET k w KEEPTTL; PEXPIRETIME k; INCR k; SET k 1; PTTL k; INCR k",
    "SET k v PXAT 1000; EXISTS k; SET k v; EXPIRE k 0; EXISTS k; SET k v; PEXPIREAT k -1; GET k",
    "SET k v EX 9223372036854775807; SET k v PX 9223372036854775807; SET k v EX 0; SET k v PX -1",
    "SET k v; SET k w NX GET; GET k; SET n w XX GET; SET n w NX GET; HSET h f v; SET h v GET",
    "ZADD z 1 a; ZADD z GT 1 a; ZADD z GT CH 2 a; ZADD z LT CH 2 a; ZADD z XX CH 3 b; ZCARD z",
    "ZADD z 1 b 1 a inf c -inf d; ZRANGE z 0 -1 WITHSCORES; ZRANGEBYSCORE z (1 inf; ZRANK z b",
    "ZRANGE z 0 -1; ZADD z 1 a 2 b 3 c; ZRANGE z -inf inf BYSCORE LIMIT 1 -1; ZRANGE z 5 9; ZRANGE z -9 0",
    "RPUSH l a b a b a; LREM l -2 a; LRANGE l 0 -1; LREM l 1 b; LRANGE l 0 -1; LREM l 0 b; LRANGE l -9 9",
    "RPUSH l a b; LINDEX l -3; LINDEX l -2; LINDEX l 2; LPOP l; LPOP l; EXISTS l; LPOP l; RPOP l",
    "HSET h f v; HDEL h f; EXISTS h; HINCRBY h n 9223372036854775807; HINCRBY h n 1; HGET h n",
    "SADD s a a b; SREM s a b c; TYPE s; INCRBY n 9223372036854775807; INCR n; DECR n; STRLEN n",
    "PEXPIREAT k 1000 a\r\nb; PING; NOSUCH a\r\nb; PING; EVAL return~redis.error_reply('a\\nb') 0; PING",
    "EVAL return~{1,~2.9,~-2.9,~'3',~true,~false,~4} 0; EVAL return~{1,~nil,~2} 0; EVAL return 0",
    "EVAL return~123456789012345 0; EVAL return~tostring(123456789012345) 0",
    "EVAL return~redis.call('ECHO',123456789012345678) 0; EVAL return~redis.call('ECHO',1e14+0.5) 0",
    "EVAL return~{2^53,~2^53+1,~2^63,~-2^63} 0; EVAL return~redis.call('INCRBY','n',2^53+2) 0; GET n",
    "EVAL redis.call('SET','k','v')~error('x') 0; GET k; EVAL return~redis.call('HGET','k','f') 0",
    "EVAL return~redis.call('INCRBY','n',2^60) 0; EVAL return~redis.call('GET','n')+0 0; GET n",
    "EVAL return~{ok='fine',~err='BAD~x'} 0; EVAL return~redis.error_reply('BAD~x') 0",
    "EVAL return~pcall(redis.call,'GET') 0; EVAL return~{pcall(error,{err='BAD~x'})} 0",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0; SCRIPT LOAD return~7",
    "EVALSHA f1ad1c48cd6b5d8fd8e1b2a9e1de5b6ee3cf6cb5 0; SCRIPT EXISTS x; SCRIPT NOSUCH; EVAL return~1 2 k",
];

#[test]
fn borders_are_where_a_server_has_them() {
    let (server, nodes) = (Server::start(), Nodes::start(1).expect("a port is free"));
    let mut both = Both::connect(&server, &nodes);
    for sequence in BORDERS {
        both.history.clear();
        both.compare(&call("FLUSHALL", Comparison::Exact));
        for command in sequence.split(';') {
            let mut call = call(command.trim(), Comparison::Exact);
            for byte in call.words.iter_mut().flatten().filter(|byte| **byte == b'~') {
                *byte = b' ';
            }
            both.compare(&call);
        }
    }
}

/// The one thing that sequences leave out, because it takes time.
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
