//! Cost of a lock and its unlock for a server, in instructions: `cargo bench --bench script_cost`, with `-- --locks N` for another
//! number of locks than 2,000. It needs `valgrind`.
//!
//! A server runs under callgrind, with that number of locks and then with twice as many. The difference is the cost of the
//! locks. The same program on the same server differs by less than one per cent from run to run, whatever else the machine does.
//! The kernel's instructions are not counted.
//!
//! *Canonical* are the scripts of the Redlock algorithm. The others are this library's scripts for a mutex, with a fence, and
//! with a reading of the clock behind each write, as a client sends them: by a call for each lock, and in batches.

#![allow(clippy::print_stdout, reason = "a benchmark's figures go to whoever runs it")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::argument;
use common::server::port::Port;
use common::server::reaper::{Folder, Process};
use common::server::{binary, wait_until};
use lua::with_includes;
use redis::{Connection, Pipeline, Value};

mod common;
#[path = "../tests/support/lua.rs"]
#[allow(dead_code, unreachable_pub, reason = "only a part of it is used here")]
mod lua;

const CANONICAL_ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
                                 return 1 else return 0 end";
const CANONICAL_RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                                 return redis.call('DEL', KEYS[1]) else return 0 end";
const ACQUIRE: &str = include_str!("../lua/mutex/acquire.lua");
const RELEASE: &str = include_str!("../lua/mutex/release.lua");
const BATCH: &str = concat!(
    "local function extend(KEYS, ARGV)\n",
    include_str!("../lua/mutex/extend.lua"),
    "end\nlocal function release(KEYS, ARGV)\n",
    include_str!("../lua/mutex/release.lua"),
    "end\n",
    include_str!("../lua/mutex/batch.lua"),
);

const MARK_KEY: &str = "quorlock:{quorlock}:mark";
/// About as long as a mark of a set of five nodes.
const MARK: &str = "quorlock-mark 2 set=default nodes=5 max_ttl_ms=10000 clock_tolerance_ms=100 quarantine=on \
                    index=- run=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa repl=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \
                    ahead_ms=-12 noted_at_ms=1795238820123 admitted";
/// The names that are locked again and again.
const NAMES: u64 = 64;
const TTL_MS: u64 = 10_000;
const FENCE_OUTLIVES_MS: u64 = 601_000;
/// Time limit of a server under callgrind.
const LIMIT: Duration = Duration::from_secs(60);

/// The calls that take locks and give them back.
#[derive(Clone, Copy)]
enum Form {
    Canonical,
    Single,
    /// So many locks are taken by one call, and given back by one.
    Batch {
        of: u64,
        equal_lifetimes: bool,
    },
}

const FORMS: [(&str, Form); 5] = [
    ("canonical", Form::Canonical),
    ("single calls", Form::Single),
    ("batches of 8", Form::Batch { of: 8, equal_lifetimes: true }),
    ("batches of 32", Form::Batch { of: 32, equal_lifetimes: true }),
    ("batches of 32, each TTL another", Form::Batch { of: 32, equal_lifetimes: false }),
];

/// One lock, as the calls name it.
struct Lock {
    key: String,
    reserved: String,
    fence: String,
    channel: String,
    owner: String,
    proposal: String,
    ttl_ms: u64,
}

fn main() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("valgrind is not installed, or not in the path");
        std::process::exit(1);
    }
    let locks = argument("--locks", 2_000).next_multiple_of(32);
    println!("Instructions of a server for a lock and its unlock, {locks} of them\n");
    let mut canonical = None;
    for (name, form) in FORMS {
        let [once, twice] = [locks, 2 * locks].map(|locks| instructions(form, locks));
        let each = (twice - once) as f64 / locks as f64;
        let ratio = each / *canonical.get_or_insert(each);
        println!("{name:32} {:>8} {ratio:>6.2}", each.round());
    }
}

/// The instructions of a server that makes so many locks and ends.
fn instructions(form: Form, locks: u64) -> u64 {
    let folder = Folder::create("quorlock-callgrind").expect("a directory can be made");
    let port = Port::claim();
    let counts = folder.join("counts");
    let mut server = Command::new("valgrind");
    server
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(binary())
        .args(["--bind", "127.0.0.1", "--port", &port.number().to_string(), "--hz", "1"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(&*folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut server = Process::spawn(&mut server).expect("valgrind was there a moment ago");
    let client = redis::Client::open(("127.0.0.1", port.number())).expect("a good address");
    let mut connection = None;
    wait_until("the server under callgrind answers", LIMIT, || {
        connection = client.get_connection().ok();
        connection.is_some()
    });
    let mut connection = connection.expect("it was waited for");
    make(form, locks, &mut connection);
    // There is no answer.
    let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").exec(&mut connection);
    server.wait().expect("a child can be waited for");
    let counts = fs::read_to_string(counts).expect("callgrind has written its counts");
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    total.and_then(|total| total.trim().parse().ok()).expect("callgrind writes a total")
}

fn make(form: Form, locks: u64, connection: &mut Connection) {
    let mut load = |script: &str| -> String {
        let script = with_includes(script);
        redis::cmd("SCRIPT").arg("LOAD").arg(script).query(connection).expect("it compiles")
    };
    let (acquire, release) = match form {
        Form::Canonical => (load(CANONICAL_ACQUIRE), load(CANONICAL_RELEASE)),
        Form::Single => (load(ACQUIRE), load(RELEASE)),
        Form::Batch { .. } => (load(BATCH), String::new()),
    };
    let () = redis::cmd("SET").arg(MARK_KEY).arg(MARK).query(connection).expect("a set mark");
    let (size, equal_lifetimes) = match form {
        Form::Canonical | Form::Single => (1, true),
        Form::Batch { of, equal_lifetimes } => (of, equal_lifetimes),
    };
    for first in (0..locks).step_by(size as usize) {
        let locks: Vec<_> = (first..first + size).map(|i| lock(i, equal_lifetimes)).collect();
        let [Lock { key, reserved, fence, channel, owner, proposal, ttl_ms }, ..] = &*locks else {
            return;
        };
        let mut take = redis::pipe();
        let mut give_back = redis::pipe();
        match form {
            Form::Canonical => {
                take.cmd("EVALSHA").arg(&acquire).arg(1).arg(key).arg(owner).arg(ttl_ms);
                give_back.cmd("EVALSHA").arg(&release).arg(1).arg(key).arg(owner);
            }
            Form::Single => {
                let keys = [key.as_str(), MARK_KEY, reserved, fence];
                take.cmd("EVALSHA").arg(&acquire).arg(4).arg(&keys).arg(owner).arg(ttl_ms);
                take.arg(MARK).arg(proposal).arg(ttl_ms + FENCE_OUTLIVES_MS).cmd("TIME");
                give_back.cmd("EVALSHA").arg(&release).arg(1).arg(key).arg(owner).arg(channel);
                give_back.cmd("TIME");
            }
            Form::Batch { equal_lifetimes, .. } => {
                let lifetimes = |ms: u64| [ms.to_string(), (ms + FENCE_OUTLIVES_MS).to_string()];
                take.cmd("EVALSHA").arg(&acquire).arg(1 + 3 * size).arg(MARK_KEY);
                let keys: Vec<_> = locks.iter().map(|lock| &lock.key).collect();
                take.arg(&keys);
                for lock in &locks {
                    take.arg(&lock.reserved).arg(&lock.fence);
                }
                take.arg(MARK).arg("acquire").arg(3).arg(2).arg(size);
                match equal_lifetimes {
                    true => take.arg(&lifetimes(*ttl_ms)),
                    false => take.arg("").arg(""),
                };
                for lock in &locks {
                    if !equal_lifetimes {
                        take.arg(&lifetimes(lock.ttl_ms));
                    }
                    take.arg(&lock.owner).arg(&lock.proposal);
                }
                take.cmd("TIME");
                give_back.cmd("EVALSHA").arg(&acquire).arg(1 + size).arg(MARK_KEY);
                give_back.arg(&keys).arg("").arg("release").arg(1).arg(2).arg(size);
                for lock in &locks {
                    give_back.arg(&lock.owner).arg(&lock.channel);
                }
                give_back.cmd("TIME");
            }
        }
        let number = |lock: &Lock| Value::BulkString(lock.proposal.clone().into_bytes());
        let (taken, given_back) = match form {
            Form::Canonical => (Value::Int(1), Value::Int(1)),
            Form::Single => (number(&locks[0]), Value::Int(1)),
            Form::Batch { .. } => (
                Value::Array(locks.iter().map(number).collect()),
                Value::Array(vec![Value::Int(1); locks.len()]),
            ),
        };
        assert_eq!(answer(&take, connection), taken, "all of them are free");
        assert_eq!(answer(&give_back, connection), given_back, "all of them are ours");
    }
}

/// The lock for the `i`th time.
fn lock(i: u64, equal_lifetimes: bool) -> Lock {
    let key = format!("quorlock:bench/{}", i % NAMES);
    let beside = |what: &str| format!("{{{key}}}:{what}");
    let [reserved, fence, channel] = ["reserved", "fence", "released"].map(beside);
    let proposal = (7_352_000_000_000 + i).to_string();
    let ttl_ms = if equal_lifetimes { TTL_MS } else { TTL_MS + i % NAMES };
    // As long as the owner ids of clients.
    let owner = format!("{:022}#{i:022}", 0);
    Lock { key, reserved, fence, channel, owner, proposal, ttl_ms }
}

/// The answer to the first command of one write.
fn answer(pipeline: &Pipeline, connection: &mut Connection) -> Value {
    let answers: Vec<Value> = pipeline.query(connection).expect("no command fails");
    answers.into_iter().next().expect("it has a command")
}
