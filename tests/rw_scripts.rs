//! The Lua scripts of read-write locks, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use redis::Value;
use support::lua::with_includes;
use support::{Server, wait_until};

const READ_ACQUIRE: &str = include_str!("../lua/rwlock/read_acquire.lua");
const READ_CONFIRM: &str = include_str!("../lua/rwlock/read_confirm.lua");
const READ_EXTEND: &str = include_str!("../lua/rwlock/read_extend.lua");
const READ_RELEASE: &str = include_str!("../lua/rwlock/read_release.lua");
const WRITE_ACQUIRE: &str = include_str!("../lua/rwlock/write_acquire.lua");
const WRITE_EXTEND: &str = include_str!("../lua/rwlock/write_extend.lua");
const WRITE_RELEASE: &str = include_str!("../lua/rwlock/write_release.lua");

const MARK: &str = "{quorlock}:mark";
const FENCE: &str = "{k}:fence";
const READS: &str = "{k}:reads";
const RESERVED: &str = "{k}:reserved";
/// Time by which a fence outlives its lock, in milliseconds.
const OUTLIVES: &str = "600000";
const FENCE_TTL: &str = "660000";
const ALWAYS: &str = "99999999999999";
const NEVER: &str = "0";

fn pair(code: i64, value: i64) -> Value {
    Value::Array(vec![Value::Int(code), Value::Int(value)])
}

/// The priority of a caller, with which it reserves the lock for a second.
fn reserves(priority: u32) -> String {
    format!("{priority:034} 1000")
}

/// The owner of a write whose reads belong to `owner`.
fn writer(owner: &str) -> String {
    format!("{owner}:write")
}

fn timeout(owner: &str) -> String {
    format!("{{k}}:{owner}:rwlock_timeout:1")
}

fn tombstone(owner: &str) -> String {
    format!("k{{{owner}}}:forced")
}

/// One node, and the scripts by name. A test may change one of them.
struct Node {
    server: Server,
    changed: Option<(&'static str, &'static str)>,
}

impl Node {
    fn start() -> Self {
        Self { server: Server::start(), changed: None }
    }

    fn eval(&self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        let script = with_includes(script);
        let script = match self.changed {
            Some((piece, instead)) => script.replace(piece, instead),
            None => script,
        };
        let how_many = keys.len().to_string();
        self.server.command(&[&["EVAL", &script, &how_many], keys, arguments].concat())
    }

    /// A read without fencing. `reserves`: the caller's priority, and the time for which it reserves the lock.
    fn read(&self, owner: &str, ttl: &str, reserves: &str) -> Value {
        let keys = ["k", MARK, RESERVED, &timeout(owner)];
        self.eval(READ_ACQUIRE, &keys, &[owner, ttl, "", "", "", reserves])
    }

    fn write(&self, owner: &str, ttl: &str, reserves: &str) -> Value {
        let arguments = [&writer(owner), ttl, "", "waiting", "", "", reserves];
        self.eval(WRITE_ACQUIRE, &["k", MARK, RESERVED], &arguments)
    }

    fn fenced_read(&self, owner: &str, proposal: i64) -> Value {
        let keys = ["k", MARK, RESERVED, &timeout(owner), FENCE, READS];
        let proposal = proposal.to_string();
        let arguments = [owner, "60000", "", &proposal, FENCE_TTL];
        self.eval(READ_ACQUIRE, &keys, &arguments)
    }

    fn fenced_write(&self, owner: &str, proposal: i64) -> Value {
        let (owner, proposal) = (writer(owner), proposal.to_string());
        let arguments = [&owner, "60000", "", "waiting", &proposal, FENCE_TTL];
        self.eval(WRITE_ACQUIRE, &["k", MARK, RESERVED, FENCE], &arguments)
    }

    fn confirm_read(&self, owner: &str, number: i64) -> Value {
        let arguments = [owner, &number.to_string(), OUTLIVES];
        self.eval(READ_CONFIRM, &["k", FENCE, READS], &arguments)
    }

    fn extend_read(&self, owner: &str, ttl: &str, until: &str) -> Value {
        let (of_owner, of_writer) = (tombstone(owner), tombstone(&writer(owner)));
        let keys = ["k", MARK, &of_owner, &of_writer, &timeout(owner)];
        let ours = [owner, &writer(owner), ttl, until, "0", OUTLIVES, "ours", "theirs"];
        self.eval(READ_EXTEND, &keys, &ours)
    }

    fn repair_read(&self, owner: &str, number: i64, up_to: i64) -> Value {
        let (of_owner, of_writer) = (tombstone(owner), tombstone(&writer(owner)));
        let keys = ["k", MARK, &of_owner, &of_writer, &timeout(owner), FENCE, READS];
        let (number, up_to) = (number.to_string(), up_to.to_string());
        let ours = [owner, &writer(owner), "60000", ALWAYS, "0", OUTLIVES, "ours", "theirs"];
        self.eval(READ_EXTEND, &keys, &[&ours[..], &[&number, &up_to, FENCE_TTL]].concat())
    }

    fn extend_write(&self, owner: &str, ttl: &str, until: &str) -> Value {
        let owner = writer(owner);
        self.eval(WRITE_EXTEND, &["k", MARK, &tombstone(&owner)], &[&owner, ttl, until, "0"])
    }

    fn release_read(&self, owner: &str) -> Value {
        let arguments = [owner, &writer(owner), "ours", "theirs", "{k}"];
        self.eval(READ_RELEASE, &["k", &timeout(owner)], &arguments)
    }

    /// A release after which no extension on its way sets the read again.
    fn release_read_for_good(&self, owner: &str) -> Value {
        let (of_owner, of_writer) = (tombstone(owner), tombstone(&writer(owner)));
        let keys = ["k", &timeout(owner), &of_owner, &of_writer];
        let arguments = [owner, &writer(owner), "ours", "theirs", "{k}", "60000"];
        self.eval(READ_RELEASE, &keys, &arguments)
    }

    fn release_write(&self, owner: &str) -> Value {
        self.eval(WRITE_RELEASE, &["k"], &[&writer(owner), "ours", "theirs"])
    }

    /// The fields of the lock with their values, in order.
    fn fields(&self) -> Vec<(String, String)> {
        let text = |value: Value| match value {
            Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
            other => panic!("text: {other:?}"),
        };
        let mut fields: Vec<_> = match self.server.command(&["HGETALL", "k"]) {
            Value::Map(all) => all.into_iter().map(|(a, b)| (text(a), text(b))).collect(),
            Value::Array(all) => {
                let all: Vec<_> = all.into_iter().map(text).collect();
                all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
            }
            other => panic!("a hash: {other:?}"),
        };
        fields.sort_unstable();
        fields
    }

    fn has(&self, fields: &[(&str, &str)]) -> bool {
        let fields: Vec<_> =
            fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        self.fields() == fields
    }

    fn is_free(&self) -> bool {
        self.server.command(&["EXISTS", "k"]) == Value::Int(0)
    }

    fn fence(&self) -> i64 {
        self.server.get(FENCE).expect("there is a fence").parse().expect("a number")
    }
}

const GRANTED: fn() -> Value = || pair(1, 0);

fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::Array(parts) if parts[0] == Value::Int(0))
}

/// The layout of Redisson's `RReadWriteLock`, with counts of 1.
#[test]
fn keys_and_fields_are_as_redisson_has_them_after_each_operation() {
    let node = Node::start();
    assert_eq!(node.read("u:1", "60000", ""), GRANTED());
    assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
    assert_eq!(node.server.get("{k}:u:1:rwlock_timeout:1").as_deref(), Some("1"));
    assert_eq!(node.read("v:1", "90000", ""), GRANTED());
    assert!(node.has(&[("mode", "read"), ("u:1", "1"), ("v:1", "1")]));
    assert!(node.server.pttl("k") > 80_000, "as long as its last hold");
    assert!(node.server.pttl(&timeout("u:1")) <= 60_000);
    assert_eq!(node.release_read("v:1"), Value::Int(1));
    assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
    assert!(node.server.pttl("k") <= 60_000, "as long as those that are left");
    assert_eq!(node.server.pttl(&timeout("v:1")), -2);
    assert_eq!(node.release_read("u:1"), Value::Int(1));
    assert_eq!(node.server.keys(), Vec::<String>::new());

    assert_eq!(node.write("u:1", "60000", ""), GRANTED());
    assert!(node.has(&[("mode", "write"), ("u:1:write", "1")]));
    assert_eq!(node.extend_read("u:1", "30000", NEVER), Value::Int(1), "it only reads");
    assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
    let lives = [node.server.pttl("k"), node.server.pttl(&timeout("u:1"))];
    assert!(lives.iter().all(|ttl| *ttl > 30_000), "nothing is shortened: {lives:?}");
    assert_eq!(node.release_read("u:1"), Value::Int(1));
    assert!(node.is_free());
}

#[test]
fn a_copy_of_a_request_leaves_the_node_as_it_was() {
    let node = Node::start();
    for _ in 0..2 {
        assert_eq!(node.fenced_read("u:1", 100), pair(1, 100));
        assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
        assert_eq!(node.confirm_read("u:1", 100), Value::Int(1));
        assert_eq!(node.fence(), 100);
    }
    assert!(is_refused(&node.write("u:1", "1000", "")), "also of who reads");
    assert_eq!(node.release_read("u:1"), Value::Int(1));
    assert_eq!(node.release_read("u:1"), Value::Int(0));
    for _ in 0..2 {
        assert_eq!(node.fenced_write("u:1", 200), pair(1, 200));
        assert!(node.has(&[("mode", "write"), ("u:1:write", "1")]));
    }
    for _ in 0..2 {
        assert_eq!(node.extend_read("u:1", "60000", ALWAYS), Value::Int(1));
        assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
    }
    // Late calls of its own write set nothing.
    assert!(is_refused(&node.fenced_write("u:1", 200)));
    assert_eq!(node.extend_write("u:1", "60000", ALWAYS), Value::Int(0));
    assert_eq!(node.release_write("u:1"), Value::Int(0));
    assert!(node.has(&[("mode", "read"), ("u:1", "1")]));
}

/// The lifetimes of a crashed reader and of other readers do not affect each other.
#[test]
fn each_read_ends_by_itself() {
    let node = Node::start();
    assert_eq!(node.read("crashed:1", "300", ""), GRANTED());
    assert_eq!(node.read("u:1", "60000", ""), GRANTED());
    wait_until("it ends", std::time::Duration::from_secs(30), || {
        node.server.pttl(&timeout("crashed:1")) == -2
    });
    assert_eq!(node.extend_read("crashed:1", "60000", NEVER), Value::Int(-1), "it is over");
    assert_eq!(node.release_read("u:1"), Value::Int(1));
    assert!(node.is_free(), "nobody waits for what is over");
}

#[test]
fn a_write_excludes_all_and_a_read_all_that_write() {
    let node = Node::start();
    assert_eq!(node.write("u:1", "60000", ""), GRANTED());
    assert!(is_refused(&node.read("v:1", "60000", "")) && is_refused(&node.write("v:1", "1", "")));
    assert_eq!(node.extend_read("v:1", "60000", ALWAYS), Value::Int(0), "no read is set beside it");
    assert_eq!(node.release_write("u:1"), Value::Int(1));
    assert_eq!(node.read("v:1", "60000", ""), GRANTED());
    assert!(is_refused(&node.write("u:1", "60000", "")));
    assert_eq!(
        node.extend_write("u:1", "60000", ALWAYS),
        Value::Int(0),
        "no write is set beside it"
    );
    assert!(node.has(&[("mode", "read"), ("v:1", "1")]));

    // The test fails if either line is mutated.
    let beside = Node {
        changed: Some(("local is_read = mode == 'read' and", "local is_read = mode and")),
        ..Node::start()
    };
    assert_eq!(beside.write("u:1", "60000", ""), GRANTED());
    assert_eq!(beside.extend_read("v:1", "60000", ALWAYS), Value::Int(2));
    let beside = Node {
        changed: Some(("elseif redis.call('TYPE', LOCK).ok ~= 'none' then", "elseif false then")),
        ..Node::start()
    };
    assert_eq!(beside.read("v:1", "60000", ""), GRANTED());
    assert_eq!(beside.extend_write("u:1", "60000", ALWAYS), Value::Int(2));
    assert_eq!(beside.fields()[0].1, "write", "the reader is one that writes by now");
}

/// The lock still exists, but its keys are gone from the node, as if they had been deleted.
#[test]
fn no_older_renewal_restores_what_was_downgraded() {
    let restored_by = |changed| {
        let node = Node { changed, ..Node::start() };
        assert_eq!(node.write("u:1", "60000", ""), GRANTED());
        assert_eq!(node.extend_read("u:1", "60000", ALWAYS), Value::Int(1));
        node.server.command(&["DEL", "k", &timeout("u:1")]);
        let late = node.extend_write("u:1", "60000", ALWAYS);
        let of_writer = node.server.pttl(&tombstone("u:1:write"));
        assert!(changed.is_some() || of_writer > 600_000, "it outlives the lock: {of_writer}");
        assert!(changed.is_some() || node.extend_read("u:1", "60000", ALWAYS) == Value::Int(2));
        late
    };
    assert_eq!(restored_by(None), Value::Int(0));
    let mutation = ("set(WRITE_TOMBSTONE, '1', lives + OUTLIVES)", "");
    assert_eq!(restored_by(Some(mutation)), Value::Int(2), "the mutation bites");
}

#[test]
fn a_read_that_was_released_for_good_or_taken_by_force_is_set_no_more() {
    let node = Node::start();
    assert_eq!(node.read("u:1", "60000", ""), GRANTED());
    assert_eq!(node.read("v:1", "60000", ""), GRANTED());
    assert_eq!(node.release_read_for_good("u:1"), Value::Int(1));
    assert_eq!(node.extend_read("u:1", "60000", ALWAYS), Value::Int(0));
    assert_eq!(node.extend_write("u:1", "60000", ALWAYS), Value::Int(0));
    assert_eq!(node.extend_read("v:1", "60000", ALWAYS), Value::Int(1), "that is its own affair");
    assert!(node.has(&[("mode", "read"), ("v:1", "1")]));
}

/// The force found no key of the lock on this node.
#[test]
fn what_a_late_acquire_sets_behind_a_force_goes_with_the_next_extension() {
    let node = Node::start();
    for owner in ["u:1", "u:1:write"] {
        node.server.command(&["SET", &tombstone(owner), "1", "PX", "60000"]);
    }
    assert_eq!(node.read("v:1", "60000", ""), GRANTED());
    assert_eq!(node.read("u:1", "60000", ""), GRANTED());
    assert_eq!(node.extend_read("u:1", "60000", ALWAYS), Value::Int(0));
    assert!(node.has(&[("mode", "read"), ("v:1", "1")]));
    assert_eq!(node.server.pttl(&timeout("u:1")), -2);
    assert_eq!(node.release_read("v:1"), Value::Int(1));
    for extend in [Node::extend_write, Node::extend_read] {
        assert_eq!(node.write("u:1", "60000", ""), GRANTED());
        assert_eq!(extend(&node, "u:1", "60000", ALWAYS), Value::Int(0));
        assert!(node.is_free());
    }
}

/// Numbers of other readers block no repair, but every number of a write does.
#[test]
fn a_read_is_set_again_above_numbers_of_reads_and_below_no_number_of_a_write() {
    let node = Node::start();
    assert_eq!(node.fenced_read("u:1", 100), pair(1, 100));
    for (owner, number) in [("v:1", 101), ("w:1", 102)] {
        assert_eq!(node.fenced_read(owner, 50), pair(1, number), "larger than the last one");
    }
    assert_eq!(node.confirm_read("w:1", 300), Value::Int(1));
    node.server.command(&["DEL", "k", &timeout("u:1")]);
    assert_eq!(node.repair_read("u:1", 100, 100), Value::Int(2));
    assert_eq!(node.fence(), 300);
    for owner in ["u:1", "v:1", "w:1"] {
        node.release_read(owner);
    }
    assert_eq!(node.fenced_write("x:1", 250), pair(1, 301));
    assert_eq!(node.release_write("x:1"), Value::Int(1));
    assert_eq!(node.repair_read("u:1", 100, 100), pair(-2, 301));
    // Later reads do not hide the number of the write.
    assert_eq!(node.fenced_read("v:1", 400), pair(1, 400));
    assert_eq!(node.repair_read("u:1", 100, 300), pair(-2, 301));
    assert_eq!(node.repair_read("u:1", 100, 301), Value::Int(2));
    // If nothing tells reads from writes, each number may be that of a write.
    node.server.command(&["DEL", "k", READS, &timeout("u:1")]);
    assert_eq!(node.repair_read("u:1", 100, 301), pair(-2, 400));
    node.server.command(&["SET", READS, "something else"]);
    assert_eq!(node.repair_read("u:1", 100, 301), pair(-2, 400));
    assert_eq!(node.fenced_read("v:1", 500), pair(1, 500), "it is no fault of the node");
}

#[test]
fn those_who_wait_go_in_the_order_of_their_priorities_and_readers_together() {
    let node = Node::start();
    let reserved = || node.server.get(RESERVED).unwrap_or_default().len() / 51;
    assert_eq!(node.read("u:1", "60000", ""), GRANTED());
    assert!(is_refused(&node.write("w:1", "60000", "")) && reserved() == 0, "it does not wait");
    assert!(is_refused(&node.write("w:1", "60000", &reserves(1))) && reserved() == 1);
    assert!(is_refused(&node.read("v:1", "60000", &reserves(2))), "a write goes next");
    assert!(is_refused(&node.read("x:1", "60000", &reserves(3))), "that one goes with the other");
    assert_eq!(reserved(), 2, "a reader right behind another one needs no entry");
    assert!(is_refused(&node.write("y:1", "60000", &reserves(4))) && reserved() == 3);
    assert_eq!(node.read("u:1", "60000", ""), GRANTED(), "a copy of what was granted before");
    assert_eq!(node.release_read("u:1"), Value::Int(1));
    assert!(is_refused(&node.read("v:1", "60000", &reserves(2))), "also on a free lock");
    assert!(is_refused(&node.write("y:1", "60000", &reserves(4))));
    assert_eq!(node.write("w:1", "60000", &reserves(1)), GRANTED());
    assert_eq!(node.release_write("w:1"), Value::Int(1));
    assert!(is_refused(&node.write("y:1", "60000", &reserves(4))), "reads go next");
    // A reader that has just come goes with them.
    for (reader, priority) in [("z:1", ""), ("x:1", &reserves(3)), ("v:1", &reserves(2))] {
        assert_eq!(node.read(reader, "60000", priority), GRANTED());
    }
    assert_eq!(reserved(), 1);
    assert!(is_refused(&node.read("z:2", "60000", "")), "a write goes next");
    for reader in ["v:1", "x:1", "z:1"] {
        assert_eq!(node.release_read(reader), Value::Int(1));
    }
    assert_eq!(node.write("y:1", "60000", &reserves(4)), GRANTED());
    assert_eq!(reserved(), 0);
}

/// A foreign value under that key gets no expiry.
#[test]
fn an_extension_gives_no_end_to_what_tells_nothing_of_reads() {
    let node = Node::start();
    node.server.command(&["RPUSH", READS, "a"]);
    assert_eq!(node.fenced_read("u:1", 100), pair(1, 100));
    node.server.command(&["PEXPIRE", FENCE, "1000"]);
    assert_eq!(node.repair_read("u:1", 100, 100), Value::Int(1));
    assert!(node.server.pttl(FENCE) > 600_000);
    assert_eq!(node.server.pttl(READS), -1);
}

#[test]
fn others_locks_and_data_are_no_fault_of_the_node_and_stay() {
    let node = Node::start();
    let all = || {
        let mut answers = vec![node.read("u:1", "60000", ""), node.write("u:1", "60000", "")];
        answers.extend([node.extend_read("u:1", "60000", ALWAYS), node.release_read("u:1")]);
        answers.extend([node.extend_write("u:1", "60000", ALWAYS), node.release_write("u:1")]);
        answers
    };
    // A mutex, a reentrant lock of ours, and Redisson's `RLock`.
    for holder in [&["SET", "k", "a#b"][..], &["HSET", "k", "x:1", "1"], &["HSET", "k", "x:7", "2"]]
    {
        node.server.command(holder);
        node.server.command(&["PEXPIRE", "k", "60000"]);
        let before = node.server.command(&["DUMP", "k"]);
        let answers = all();
        assert!(is_refused(&answers[0]) && is_refused(&answers[1]), "{answers:?}");
        assert_eq!(answers[2..], [const { Value::Int(0) }; 4], "{holder:?}");
        assert_eq!(node.server.command(&["DUMP", "k"]), before);
        assert!(node.server.get(RESERVED).is_none(), "who does not wait reserves nothing");
        node.server.command(&["DEL", "k"]);
    }
    // Foreign data.
    for data in [&["RPUSH", "k", "a"][..], &["HSET", "k", "mode", "read", "other", "1"]] {
        node.server.command(data);
        let before = node.server.command(&["DUMP", "k"]);
        let answers = all();
        for answer in &answers[..2] {
            assert!(
                matches!(answer, Value::Array(parts) if parts[0] == Value::Int(-2)),
                "{answer:?}"
            );
        }
        assert_eq!(answers[2..], [const { Value::Int(0) }; 4], "{data:?}");
        assert_eq!((node.server.command(&["DUMP", "k"]), node.server.pttl("k")), (before, -1));
        node.server.command(&["DEL", "k"]);
    }
    // A foreign value in place of the reservations.
    node.server.command(&["RPUSH", RESERVED, "a"]);
    assert_eq!(node.read("u:1", "60000", &reserves(1)), GRANTED());
    assert!(is_refused(&node.write("w:1", "60000", &reserves(1))));
    assert_eq!(node.release_read("u:1"), Value::Int(1));
}

/// Such a server sets no new key. A held mutex goes on there, so a held read does, too.
#[test]
fn on_a_server_that_is_out_of_memory_a_read_is_extended_and_a_write_is_downgraded() {
    let node = Node::start();
    let memory = |most: &str| drop(node.server.command(&["CONFIG", "SET", "maxmemory", most]));
    assert_eq!(node.fenced_read("u:1", 100), pair(1, 100));
    node.server.command(&["PEXPIRE", "k", "20000"]);
    node.server.command(&["PEXPIRE", &timeout("u:1"), "20000"]);
    memory("1");
    assert_eq!(node.repair_read("u:1", 100, 100), Value::Int(1));
    let lives = [node.server.pttl("k"), node.server.pttl(&timeout("u:1"))];
    assert!(lives.iter().all(|ttl| *ttl > 30_000), "{lives:?}");
    assert_eq!(node.release_read_for_good("u:1"), Value::Int(1));
    assert!(node.is_free());
    memory("0");
    for ttl in ["30000", "90000"] {
        assert_eq!(node.write("v:1", "60000", ""), GRANTED());
        memory("1");
        for _ in 0..2 {
            assert_eq!(node.extend_read("v:1", ttl, ALWAYS), Value::Int(1), "{ttl}");
            assert!(node.has(&[("mode", "read"), ("v:1", "1")]));
        }
        let lives = [node.server.pttl("k"), node.server.pttl(&timeout("v:1"))];
        assert!(lives.iter().all(|left| *left > 50_000), "{ttl}: {lives:?}");
        assert_eq!(node.extend_write("v:1", "60000", ALWAYS), Value::Int(0), "it only reads");
        assert_eq!(node.release_read("v:1"), Value::Int(1));
        memory("0");
        node.server.command(&["DEL", &tombstone("v:1:write")]);
    }
}

#[test]
fn what_cannot_be_given_an_end_is_not_kept() {
    let node = Node::start();
    let keep = |script: &str| {
        let (me, kept) = (writer("me"), format!("{}#kept", writer("me")));
        let parts = [
            "EVAL",
            script,
            "2",
            "k",
            &tombstone("me"),
            &me,
            "ours",
            "theirs",
            ALWAYS,
            ALWAYS,
            &kept,
        ];
        node.server.try_command(&parts.map(str::as_bytes))
    };
    let release = with_includes(WRITE_RELEASE);
    let denied = release.replace("redis.pcall('PEXPIRE'", "redis.pcall('NOSUCHCOMMAND'");
    assert!(keep(&denied).is_err());
    assert!(node.is_free());
    assert_eq!(keep(&release), Ok(Value::Int(0)));
    assert!(node.server.pttl("k") > 0);
}
