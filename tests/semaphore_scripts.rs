//! The Lua scripts of semaphores, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use std::time::Duration;

use redis::Value;
use support::lua::{with_includes, with_listed_grant};
use support::{Server, wait_until};

const ACQUIRE: &str = include_str!("../lua/semaphore/acquire.lua");
const EXTEND: &str = include_str!("../lua/semaphore/extend.lua");
const RELEASE: &str = include_str!("../lua/semaphore/release.lua");
const HOLDER: &str = include_str!("../lua/node/holder.lua");
const FORCE: &str = include_str!("../lua/node/force.lua");

const MUTEX: [&str; 3] = [
    include_str!("../lua/mutex/acquire.lua"),
    include_str!("../lua/mutex/extend.lua"),
    include_str!("../lua/mutex/release.lua"),
];
const REENTRANT: [&str; 3] = [
    include_str!("../lua/reentrant/acquire.lua"),
    include_str!("../lua/reentrant/extend.lua"),
    include_str!("../lua/reentrant/release.lua"),
];
const READ_ACQUIRE: &str = include_str!("../lua/rwlock/read_acquire.lua");
const WRITE_ACQUIRE: &str = include_str!("../lua/rwlock/write_acquire.lua");

const MARK: &str = "{quorlock}:mark";
const RESERVED: &str = "{k}:reserved";
const CHANNEL: &str = "{k}:released";
const TTL: &str = "60000";
/// Maximum lifetime of a hold with that TTL in milliseconds: ends are rounded up, and the remaining time as well.
const MOST_MS: i64 = 60_001;
/// An end of a hold far in the future, and one in the past.
const ALWAYS: i64 = 99_999_999_999_999;
const NEVER: i64 = 0;
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

fn pair(code: i64, value: i64) -> Value {
    Value::Array(vec![Value::Int(code), Value::Int(value)])
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        Value::SimpleString(text) => text.clone(),
        other => panic!("text: {other:?}"),
    }
}

const GRANTED: fn() -> Value = || pair(1, 0);

/// The milliseconds and the free slots in a refusal.
#[track_caller]
fn refused(answer: &Value) -> (i64, String) {
    let Value::Array(parts) = answer else { panic!("{answer:?}") };
    match parts.as_slice() {
        [Value::Int(0), Value::Int(ms), free] => (*ms, text(free)),
        other => panic!("a refusal that names the free slots: {other:?}"),
    }
}

/// The milliseconds in a refusal by a lock of another kind, which names no slots.
#[track_caller]
fn refused_by_another_kind(answer: &Value) -> i64 {
    let Value::Array(parts) = answer else { panic!("{answer:?}") };
    match parts.as_slice() {
        [Value::Int(0), Value::Int(ms)] => *ms,
        other => panic!("a refusal without slots: {other:?}"),
    }
}

fn tombstone(owner: &str) -> String {
    format!("k{{{owner}}}:forced")
}

/// One node, and the scripts. A test may change a piece of them.
struct Node {
    server: Server,
    changed: Option<(&'static str, &'static str)>,
}

impl Node {
    fn start() -> Self {
        Self { server: Server::start(), changed: None }
    }

    fn eval(&self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        self.try_eval(script, keys, arguments).expect("the script runs")
    }

    fn try_eval(
        &self,
        script: &str,
        keys: &[&str],
        arguments: &[&str],
    ) -> redis::RedisResult<Value> {
        let script = &with_includes(script);
        let script = match self.changed {
            Some((piece, instead)) => {
                assert!(script.contains(piece), "the mutation applies: {piece}");
                script.replace(piece, instead)
            }
            None => script.to_owned(),
        };
        let count = keys.len().to_string();
        let parts = [&["EVAL", &script, &count], keys, arguments].concat();
        self.server.try_command(&parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>())
    }

    fn try_acquire(&self, owner: &str, permits: u32, slots: &[u32]) -> redis::RedisResult<Value> {
        let numbers = numbers(permits, slots);
        let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
        let keys = ["k", MARK, RESERVED];
        self.try_eval(ACQUIRE, &keys, &[&[owner, TTL, "", ""], &numbers[..]].concat())
    }

    /// An acquire under any mark, for a minute.
    fn acquire(&self, owner: &str, permits: u32, slots: &[u32]) -> Value {
        self.try_acquire(owner, permits, slots).expect("the script runs")
    }

    fn try_extend(
        &self,
        owner: &str,
        ttl: &str,
        until: i64,
        permits: u32,
        slots: &[u32],
    ) -> redis::RedisResult<Value> {
        let (numbers, until) = (numbers(permits, slots), until.to_string());
        let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
        let arguments = [&[owner, ttl, &until, "1"], &numbers[..]].concat();
        self.try_eval(EXTEND, &["k", MARK, &tombstone(owner)], &arguments)
    }

    /// An extension on a set whose nodes grant only under an admitted mark.
    fn extend(&self, owner: &str, ttl: &str, until: i64, permits: u32, slots: &[u32]) -> Value {
        self.try_extend(owner, ttl, until, permits, slots).expect("the script runs")
    }

    fn release(&self, owner: &str) -> Value {
        self.eval(RELEASE, &["k"], &[owner, CHANNEL])
    }

    /// A release after which the node keeps the slots until `until`, if it comes before `by`.
    fn keep(&self, owner: &str, until: i64, by: i64, permits: u32, slots: &[u32]) -> Value {
        self.try_keep(owner, until, by, permits, slots).expect("the script runs")
    }

    fn try_keep(
        &self,
        owner: &str,
        until: i64,
        by: i64,
        permits: u32,
        slots: &[u32],
    ) -> redis::RedisResult<Value> {
        let (numbers, until, by) = (numbers(permits, slots), until.to_string(), by.to_string());
        let numbers: Vec<_> = numbers.iter().map(String::as_str).collect();
        let kept = format!("{owner}#kept");
        let arguments = [&[owner, CHANNEL, &until, &by, &kept], &numbers[..]].concat();
        self.try_eval(RELEASE, &["k", &tombstone(owner)], &arguments)
    }

    /// The type of the key, and the owners that have permits.
    fn holders(&self) -> (String, Vec<String>) {
        let Value::Array(answer) = self.eval(HOLDER, &["k", MARK, "{k}:queue"], &["k"]) else {
            panic!("a list");
        };
        let Value::Array(owners) = &answer[4] else { panic!("{answer:?}") };
        let plain = |owner: &Value| {
            let digits = text(owner);
            let bytes = (0..digits.len()).step_by(2).map(|at| {
                u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits") as char
            });
            bytes.collect::<String>()
        };
        (text(&answer[0]), owners.iter().map(plain).collect())
    }

    fn force(&self, owners: &[&str]) -> Value {
        let tombstones: Vec<_> = owners.iter().map(|owner| tombstone(owner)).collect();
        let reads: Vec<_> = owners.iter().map(|owner| format!("read of {owner}")).collect();
        let mut keys = vec!["k"];
        keys.extend(tombstones.iter().chain(&reads).map(String::as_str));
        self.eval(FORCE, &keys, &[&[TTL, CHANNEL, "theirs", "reads"], owners].concat())
    }

    /// Sets a hold whose field ends at that time. The key itself lives on.
    fn set_hold(&self, owner: &str, ends: i64, permits: u32, slots: &str) {
        let hold = format!("{ends} {slots}");
        self.server.command(&["HSET", "k", "permits", &permits.to_string(), owner, &hold]);
        self.server.command(&["PEXPIRE", "k", TTL]);
    }

    fn now_ms(&self) -> i64 {
        let Value::Array(time) = self.server.command(&["TIME"]) else { panic!("no time") };
        let [s, us] = [&time[0], &time[1]].map(|part| text(part).parse::<i64>().expect("a number"));
        s * 1_000 + us / 1_000
    }

    /// The fields of the semaphore with their values, in order. The value of a hold is reduced to its slots.
    fn fields(&self) -> Vec<(String, String)> {
        let Value::Array(all) = self.server.command(&["HGETALL", "k"]) else { panic!("a hash") };
        let all: Vec<_> = all.iter().map(text).collect();
        let field = |pair: &[String]| match pair[1].split_once(' ') {
            Some((_, slots)) => (pair[0].clone(), slots.to_owned()),
            None => (pair[0].clone(), pair[1].clone()),
        };
        let mut fields: Vec<_> = all.chunks(2).map(field).collect();
        fields.sort_unstable();
        fields
    }

    #[track_caller]
    fn has(&self, fields: &[(&str, &str)]) {
        let mut fields: Vec<_> =
            fields.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        fields.sort_unstable();
        assert_eq!(self.fields(), fields);
    }

    /// The remaining lifetime of the hold in milliseconds.
    #[track_caller]
    fn lives(&self, owner: &str) -> i64 {
        let hold = text(&self.server.command(&["HGET", "k", owner]));
        let (ends, _) = hold.split_once(' ').expect("the end and the slots");
        ends.parse::<i64>().expect("a number") - self.now_ms()
    }

    fn is_free(&self) -> bool {
        self.server.command(&["EXISTS", "k"]) == Value::Int(0)
    }

    fn memory(&self, most: &str) {
        self.server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        self.server.command(&["CONFIG", "SET", "maxmemory", most]);
    }
}

fn numbers(permits: u32, slots: &[u32]) -> Vec<String> {
    std::iter::once(&permits).chain(slots).map(u32::to_string).collect()
}

#[test]
fn each_operation_leaves_the_fields_of_the_live_holds_and_the_number_of_permits() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 5, &[3]), GRANTED());
    node.has(&[("permits", "5"), ("a", "3")]);
    assert_eq!(node.acquire("b", 5, &[0, 4]), GRANTED());
    node.has(&[("permits", "5"), ("a", "3"), ("b", "0 4")]);
    assert_eq!(node.server.keys(), ["k"]);
    let lives = [node.server.pttl("k"), node.lives("a"), node.lives("b")];
    assert!(lives.iter().all(|ms| (1..=MOST_MS).contains(ms)), "{lives:?}");
    assert_eq!(node.extend("a", "600000", NEVER, 5, &[3]), Value::Int(1));
    node.has(&[("permits", "5"), ("a", "3"), ("b", "0 4")]);
    assert!(node.lives("a") > 60_000 && node.lives("b") <= MOST_MS, "only the one hold");
    assert!(node.server.pttl("k") > 60_000, "the key lives as long as its last hold");
    assert_eq!(node.release("a"), Value::Int(1));
    node.has(&[("permits", "5"), ("b", "0 4")]);
    assert_eq!(node.release("b"), Value::Int(1));
    assert_eq!(node.server.keys(), Vec::<String>::new());
}

#[test]
fn a_refusal_names_the_free_slots() {
    let node = Node::start();
    let told = |permits: u32, taken: &[u32]| {
        node.server.command(&["DEL", "k"]);
        assert_eq!(node.acquire("a", permits, taken), GRANTED());
        let (ms, free) = refused(&node.acquire("b", permits, &taken[..1]));
        assert!((1..=MOST_MS).contains(&ms), "{ms}");
        free
    };
    assert_eq!(told(1, &[0]), "0");
    assert_eq!(told(4, &[0]), "e");
    assert_eq!(told(4, &[1, 2]), "9");
    assert_eq!(told(4, &[0, 1, 2, 3]), "0");
    assert_eq!(told(5, &[0]), "e1");
    assert_eq!(told(5, &[4]), "f0");
    assert_eq!(told(1_000, &[5, 999]), format!("fd{}7", "f".repeat(247)));
    let all: Vec<u32> = (0..1_000).filter(|slot| *slot != 77).collect();
    // Slot 77 is the second slot of the 20th digit.
    assert_eq!(told(1_000, &all), format!("{}2{}", "0".repeat(19), "0".repeat(230)));
}

#[test]
fn a_refusal_says_when_the_first_hold_ends() {
    let node = Node::start();
    let now = node.now_ms();
    node.set_hold("long", now + 50_000, 3, "0");
    node.set_hold("short", now + 20_000, 3, "1");
    let (ms, free) = refused(&node.acquire("a", 3, &[0]));
    assert!(ms <= 20_001, "{ms}");
    assert_eq!(free, "4");
}

#[test]
fn several_slots_are_granted_all_or_none() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 5, &[2]), GRANTED());
    let (_, free) = refused(&node.acquire("b", 5, &[0, 1, 2]));
    assert_eq!(free, "b1");
    node.has(&[("permits", "5"), ("a", "2")]);
    assert_eq!(node.acquire("b", 5, &[0, 1, 3, 4]), GRANTED());
    node.has(&[("permits", "5"), ("a", "2"), ("b", "0 1 3 4")]);
}

#[test]
fn a_copy_of_an_acquire_grants_again_and_shortens_nothing() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 2, &[1]), GRANTED());
    assert_eq!(node.extend("a", "600000", NEVER, 2, &[1]), Value::Int(1));
    for _ in 0..2 {
        assert_eq!(node.acquire("a", 2, &[1]), GRANTED());
        node.has(&[("permits", "2"), ("a", "1")]);
        assert!(node.lives("a") > 60_000 && node.server.pttl("k") > 60_000);
    }
}

#[test]
fn holds_that_are_over_do_not_count_and_the_next_grant_deletes_them() {
    let node = Node::start();
    node.set_hold("over", node.now_ms() - 1, 2, "0");
    node.set_hold("live", ALWAYS, 2, "1");
    let (_, free) = refused(&node.acquire("a", 2, &[1]));
    assert_eq!(free, "1", "the slot of the hold that is over is free");
    node.has(&[("permits", "2"), ("over", "0"), ("live", "1")]);
    assert_eq!(node.acquire("a", 2, &[0]), GRANTED());
    node.has(&[("permits", "2"), ("a", "0"), ("live", "1")]);

    // A hold also ends by itself.
    let node = Node::start();
    let arguments = ["short", "300", "", "", "1", "0"];
    assert_eq!(node.eval(ACQUIRE, &["k", MARK, RESERVED], &arguments), GRANTED());
    node.server.command(&["PERSIST", "k"]);
    node.server.command(&["PEXPIRE", "k", TTL]);
    wait_until("the hold ends", LIMIT, || node.acquire("a", 1, &[0]) == GRANTED());
    node.has(&[("permits", "1"), ("a", "0")]);
}

#[test]
fn another_number_of_permits_is_told_while_holds_live_and_not_after_them() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 5, &[0]), GRANTED());
    for permits in [4, 6, 50] {
        let Value::Array(answer) = node.acquire("b", permits, &[1]) else { panic!("a list") };
        assert_eq!(answer[..2], [Value::Int(-4), Value::Int(5)]);
        assert!(matches!(answer[2], Value::Int(1..=MOST_MS)), "{answer:?}");
    }
    node.has(&[("permits", "5"), ("a", "0")]);
    node.set_hold("a", node.now_ms() - 1, 5, "0");
    assert_eq!(node.acquire("b", 6, &[5]), GRANTED());
    node.has(&[("permits", "6"), ("b", "5")]);
}

#[test]
fn locks_of_other_kinds_and_semaphores_exclude_each_other() {
    let node = Node::start();
    let others: [(&str, &[&str], &[&str]); 4] = [
        (MUTEX[0], &["k", MARK, RESERVED], &["m", TTL, ""]),
        (REENTRANT[0], &["k", MARK, RESERVED], &["u:1", TTL, ""]),
        (READ_ACQUIRE, &["k", MARK, RESERVED, "read"], &["u:1", TTL, ""]),
        (WRITE_ACQUIRE, &["k", MARK, RESERVED], &["u:1:write", TTL, "", "waiting"]),
    ];
    for (acquire, keys, arguments) in others {
        assert_eq!(with_listed_grant(node.eval(acquire, keys, arguments)), GRANTED());
        let before = node.server.command(&["DUMP", "k"]);
        let ms = refused_by_another_kind(&node.acquire("a", 5, &[0]));
        assert!((1..=MOST_MS).contains(&ms), "{ms}");
        assert_eq!(node.extend("a", TTL, ALWAYS, 5, &[0]), Value::Int(0));
        assert_eq!(node.release("a"), Value::Int(0));
        assert_eq!(node.keep("a", ALWAYS, ALWAYS, 5, &[0]), Value::Int(0));
        assert_eq!(node.server.command(&["DUMP", "k"]), before);
        assert!(node.server.pttl("k") <= MOST_MS);
        node.server.command(&["FLUSHALL"]);

        assert_eq!(node.acquire("a", 5, &[0]), GRANTED());
        let before = node.server.command(&["DUMP", "k"]);
        let ms = refused_by_another_kind(&with_listed_grant(node.eval(acquire, keys, arguments)));
        assert!((1..=MOST_MS).contains(&ms), "{ms}");
        assert_eq!(node.server.command(&["DUMP", "k"]), before);
        assert_eq!(node.release("a"), Value::Int(1));
        assert_eq!(with_listed_grant(node.eval(acquire, keys, arguments)), GRANTED(), "it is free");
        node.server.command(&["FLUSHALL"]);
    }
    for ([_, extend, release], owner) in [(MUTEX, "m"), (REENTRANT, "u:1")] {
        assert_eq!(node.acquire("a", 5, &[0]), GRANTED());
        let before = node.server.command(&["DUMP", "k"]);
        let arguments = [owner, TTL, &ALWAYS.to_string(), "0"];
        let extended = node.eval(extend, &["k", MARK, &tombstone(owner)], &arguments);
        assert_eq!(extended, Value::Int(0));
        assert_eq!(node.eval(release, &["k"], &[owner, CHANNEL, "theirs"][..2]), Value::Int(0));
        assert_eq!(node.server.command(&["DUMP", "k"]), before);
        node.server.command(&["DEL", "k"]);
    }
}

#[test]
fn what_is_no_lock_is_told_and_stays_as_it_is() {
    let node = Node::start();
    let data: [(&[&str], &str); 4] = [
        (&["RPUSH", "k", "a"], "list"),
        (&["HSET", "k", "mode", "read"], "hash"),
        (&["HSET", "k", "permits", "5"], "hash"),
        (&["HSET", "k", "permits", "5", "b", "99999999999999 0"], "hash"),
    ];
    for (command, kind) in data {
        node.server.command(command);
        let before = node.server.command(&["DUMP", "k"]);
        let Value::Array(answer) = node.acquire("a", 5, &[1]) else { panic!("a list") };
        assert_eq!((&answer[0], text(&answer[1]).as_str()), (&Value::Int(-2), kind));
        assert_eq!(node.extend("a", TTL, ALWAYS, 5, &[1]), Value::Int(0));
        assert_eq!(node.release("a"), Value::Int(0));
        assert_eq!(node.keep("a", ALWAYS, ALWAYS, 5, &[1]), Value::Int(0));
        assert_eq!(node.force(&["b"]), Value::Int(0));
        assert_eq!((node.server.command(&["DUMP", "k"]), node.server.pttl("k")), (before, -1));
        node.server.command(&["FLUSHALL"]);
    }
    // A foreign hash with an expiry, and any values in its fields.
    for others in ["1", "1 two", "seven 1", "-1 0", "99999999999999", ""] {
        for (permits, live) in [("5", "99999999999999 0"), ("five", "0 0"), ("5", "0 0")] {
            node.server.command(&["HSET", "k", "permits", permits, "b", live, "c", others]);
            node.server.command(&["PEXPIREAT", "k", "99999999999999"]);
            let before = node.server.command(&["DUMP", "k"]);
            let Value::Array(answer) = node.acquire("a", 5, &[1]) else { panic!("a list") };
            assert_eq!((&answer[0], text(&answer[1]).as_str()), (&Value::Int(-2), "hash"));
            assert_eq!(node.extend("a", TTL, ALWAYS, 5, &[1]), Value::Int(0));
            assert_eq!(node.release("a"), Value::Int(0));
            assert_eq!(node.keep("a", ALWAYS, ALWAYS, 5, &[1]), Value::Int(0));
            assert_eq!(node.server.command(&["DUMP", "k"]), before);
            assert!(node.server.pttl("k") > MOST_MS);
            node.server.command(&["DEL", "k"]);
        }
    }
    // A string without an expiry is a foreign mutex whose client sets none.
    node.server.command(&["SET", "k", "data"]);
    assert_eq!(refused_by_another_kind(&node.acquire("a", 5, &[1])), -1);
}

#[test]
fn nothing_is_granted_under_another_mark() {
    let node = Node::start();
    let keys = ["k", MARK, RESERVED];
    let ask = |mark: &str| node.eval(ACQUIRE, &keys, &["a", TTL, mark, "", "2", "0"]);
    assert_eq!(ask("ours"), pair(-1, 0), "there is none");
    node.server.command(&["SET", MARK, "theirs"]);
    assert_eq!(ask("ours"), pair(-1, 0));
    node.server.command(&["SET", MARK, "ours"]);
    assert_eq!(ask("ours"), GRANTED());
    node.server.command(&["DEL", MARK]);
    assert_eq!(ask("ours"), pair(-1, 0), "also to the owner of a hold");
    node.server.command(&["RPUSH", MARK, "a"]);
    assert_eq!(ask("ours"), pair(-1, 0), "it is no fault of the node");
}

#[test]
fn an_extension_prolongs_what_is_there_and_sets_again_what_is_gone() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 4, &[1, 2]), GRANTED());
    assert_eq!(node.extend("a", "90000", NEVER, 4, &[1, 2]), Value::Int(1));
    assert!(node.lives("a") > 60_000);
    assert_eq!(node.extend("a", "1000", NEVER, 4, &[1, 2]), Value::Int(1));
    assert!(node.lives("a") > 60_000 && node.server.pttl("k") > 60_000, "it is never shortened");

    // The hold is gone, in each possible way, and its slots are free.
    let admitted = "quorlock node=1";
    node.server.command(&["SET", MARK, admitted]);
    let ways: [&dyn Fn(); 3] = [
        &|| drop(node.server.command(&["DEL", "k"])),
        &|| {
            node.server.command(&["DEL", "k"]);
            assert_eq!(node.acquire("b", 4, &[0, 3]), GRANTED());
        },
        &|| node.set_hold("a", node.now_ms() - 1, 4, "1 2"),
    ];
    for make_gone in ways {
        make_gone();
        assert_eq!(node.extend("a", TTL, NEVER, 4, &[1, 2]), Value::Int(-1), "it is too late");
        assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1, 2]), Value::Int(2));
        assert!(node.fields().contains(&("a".to_owned(), "1 2".to_owned())));
        assert!(node.lives("a") > 1_000 && node.server.pttl("k") > 1_000);
    }
    // The node has forgotten its data, and grants nothing to newcomers.
    for mark in [None, Some("quorlock node=1 quarantined until_ms=5")] {
        node.server.command(&["FLUSHALL"]);
        mark.map(|mark| node.server.command(&["SET", MARK, mark]));
        assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1, 2]), Value::Int(3), "{mark:?}");
        assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1, 2]), Value::Int(1), "{mark:?}");
    }
}

#[test]
fn an_extension_takes_nothing_from_others() {
    let node = Node::start();
    assert_eq!(node.acquire("b", 4, &[2]), GRANTED());
    let before = node.server.command(&["DUMP", "k"]);
    assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1, 2]), Value::Int(0), "one slot is taken");
    assert_eq!(node.extend("a", TTL, ALWAYS, 5, &[1]), Value::Int(0), "another number of permits");
    node.server.command(&["SET", &tombstone("a"), "1", "PX", TTL]);
    assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1]), Value::Int(0), "it was forced out");
    assert_eq!(node.server.command(&["DUMP", "k"]), before);
    node.server.command(&["DEL", "k"]);
    assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1]), Value::Int(0), "also of what is free");
    assert!(node.is_free());
    // The old number of permits ends with its holds.
    node.server.command(&["DEL", &tombstone("a")]);
    node.set_hold("b", node.now_ms() - 1, 5, "1");
    assert_eq!(node.extend("a", TTL, NEVER, 4, &[1]), Value::Int(-1));
    assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[1]), Value::Int(3));
    node.has(&[("permits", "4"), ("a", "1")]);
}

#[test]
fn a_release_deletes_only_ours_and_tells_of_it() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 3, &[0]), GRANTED());
    assert_eq!(node.acquire("b", 3, &[1]), GRANTED());
    assert_eq!(node.release("c"), Value::Int(0));
    node.has(&[("permits", "3"), ("a", "0"), ("b", "1")]);

    let client = redis::Client::open(node.server.url()).expect("a URL");
    let mut connection = client.get_connection().expect("it listens");
    connection.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let mut listener = connection.as_pubsub();
    listener.subscribe(CHANNEL).expect("it listens");
    assert_eq!(node.release("a"), pair(1, 1));
    let told: String = listener.get_message().expect("it was told").get_payload().expect("text");
    assert_eq!(told, "a");
    assert_eq!(node.release("a"), Value::Int(0), "a copy");
    node.has(&[("permits", "3"), ("b", "1")]);
}

#[test]
fn a_release_has_the_key_end_with_the_longest_hold_that_is_left() {
    let node = Node::start();
    assert_eq!(node.acquire("a", 3, &[0]), GRANTED());
    assert_eq!(node.acquire("b", 3, &[1]), GRANTED());
    assert_eq!(node.acquire("c", 3, &[2]), GRANTED());
    assert_eq!(node.extend("a", "900000", NEVER, 3, &[0]), Value::Int(1));
    assert_eq!(node.extend("b", "600000", NEVER, 3, &[1]), Value::Int(1));
    assert_eq!(node.release("a"), Value::Int(1));
    let left = node.server.pttl("k");
    assert!(left > MOST_MS && left <= 600_001, "{left}");
    assert_eq!(node.release("b"), Value::Int(1));
    assert!(node.server.pttl("k") <= MOST_MS);
    // Ended holds keep nothing.
    node.set_hold("over", node.now_ms() - 1, 3, "0");
    assert_eq!(node.release("c"), Value::Int(1));
    assert!(node.is_free());
}

#[test]
fn a_release_keeps_the_slots_until_a_time_of_the_nodes_clock() {
    let node = Node::start();
    let until = node.now_ms() + 40_000;
    let keep = |owner: &str, slots: &[u32]| node.keep(owner, until, ALWAYS, 3, slots);
    assert_eq!(node.acquire("a", 3, &[0, 1]), GRANTED());
    assert_eq!(keep("a", &[0, 1]), Value::Int(1));
    node.has(&[("permits", "3"), ("a#kept", "0 1")]);
    let lives = [node.lives("a#kept"), node.server.pttl("k")];
    assert!(lives.iter().all(|ms| (1..=40_001).contains(ms)), "not as long as the TTL: {lives:?}");
    assert_eq!(keep("a", &[0, 1]), Value::Int(0), "a copy");
    node.has(&[("permits", "3"), ("a#kept", "0 1")]);
    assert_eq!(refused(&node.acquire("b", 3, &[0])).1, "4");

    // The slots are kept even if the hold is gone.
    assert_eq!(keep("gone", &[2]), Value::Int(0));
    node.has(&[("permits", "3"), ("a#kept", "0 1"), ("gone#kept", "2")]);
    node.server.command(&["DEL", "k"]);
    assert_eq!(keep("a", &[0, 1]), Value::Int(0));
    node.has(&[("permits", "3"), ("a#kept", "0 1")]);
    assert!(node.server.pttl("k") > 0, "it ends");
}

#[test]
fn a_release_keeps_no_slot_that_is_taken_nor_of_a_forced_owner_nor_too_late() {
    let node = Node::start();
    assert_eq!(node.acquire("b", 3, &[1]), GRANTED());
    assert_eq!(node.keep("a", ALWAYS, ALWAYS, 3, &[0, 1]), Value::Int(0), "slot 1 is taken");
    assert_eq!(node.keep("a", ALWAYS, ALWAYS, 4, &[0]), Value::Int(0), "other permits");
    node.server.command(&["SET", &tombstone("a"), "1", "PX", TTL]);
    assert_eq!(node.keep("a", ALWAYS, ALWAYS, 3, &[0]), Value::Int(0), "it was forced out");
    node.server.command(&["DEL", &tombstone("a")]);
    let now = node.now_ms();
    assert_eq!(node.keep("a", ALWAYS, now, 3, &[0]), Value::Int(0), "it begins too late");
    assert_eq!(node.keep("a", now, ALWAYS, 3, &[0]), Value::Int(0), "it is over");
    node.has(&[("permits", "3"), ("b", "1")]);
    // The owner's hold ends in any case.
    assert_eq!(node.acquire("a", 3, &[0]), GRANTED());
    assert_eq!(node.keep("a", ALWAYS, now, 3, &[0]), Value::Int(1));
    node.has(&[("permits", "3"), ("b", "1")]);
    // Ended holds block nothing, with any number of permits.
    node.set_hold("b", node.now_ms() - 1, 3, "0");
    assert_eq!(node.keep("a", ALWAYS, ALWAYS, 2, &[0]), Value::Int(0));
    assert_eq!(node.holders(), ("hash".to_owned(), vec!["a#kept".to_owned()]));
}

#[test]
fn only_live_owners_are_named_as_holders() {
    let node = Node::start();
    assert_eq!(node.holders(), ("none".to_owned(), vec![]));
    assert_eq!(node.acquire("b", 4, &[0, 1]), GRANTED());
    assert_eq!(node.acquire("a", 4, &[2]), GRANTED());
    node.set_hold("over", node.now_ms() - 1, 4, "3");
    assert_eq!(node.holders(), ("hash".to_owned(), vec!["a".to_owned(), "b".to_owned()]));
    node.server.command(&["DEL", "k"]);
    node.set_hold("over", node.now_ms() - 1, 4, "3");
    assert_eq!(node.holders(), ("none".to_owned(), vec![]));
}

#[test]
fn force_takes_the_permits_of_the_named_owners_and_the_key_with_the_last_one() {
    let node = Node::start();
    for (slot, owner) in ["a", "b", "c"].into_iter().enumerate() {
        assert_eq!(node.acquire(owner, 4, &[slot as u32]), GRANTED());
    }
    assert_eq!(node.force(&["a", "b", "stranger"]), Value::Int(2));
    node.has(&[("permits", "4"), ("c", "2")]);
    assert!(node.server.pttl("k") > 0, "the key ends");
    assert_eq!(node.extend("a", TTL, ALWAYS, 4, &[0]), Value::Int(0));
    assert_eq!(node.keep("b", ALWAYS, ALWAYS, 4, &[1]), Value::Int(0));
    node.has(&[("permits", "4"), ("c", "2")]);
    assert_eq!(node.acquire("d", 4, &[0]), GRANTED());
    assert_eq!(node.force(&["c", "d"]), Value::Int(2));
    assert!(node.is_free());
}

/// Locks of other kinds do not wait for ended holds.
#[test]
fn what_force_leaves_ends_with_the_last_hold_that_lives() {
    let node = Node::start();
    node.set_hold("over", node.now_ms() - 1, 3, "0");
    node.set_hold("live", ALWAYS, 3, "1");
    assert_eq!(node.force(&["live"]), Value::Int(1));
    assert!(node.is_free(), "nobody has a permit");
    node.set_hold("short", node.now_ms() + 30_000, 3, "0");
    node.set_hold("live", ALWAYS, 3, "1");
    assert_eq!(node.force(&["live"]), Value::Int(1));
    node.has(&[("permits", "3"), ("short", "0")]);
    assert!((1..=30_000).contains(&node.server.pttl("k")));
}

/// Such a server refuses the first write of a script.
#[test]
fn a_server_that_is_out_of_memory_grants_nothing_and_serves_holders() {
    let node = Node::start();
    node.memory("1");
    assert!(node.try_acquire("a", 3, &[0]).is_err());
    assert!(node.is_free(), "it leaves nothing");
    node.memory("0");
    assert_eq!(node.acquire("a", 3, &[0]), GRANTED());
    node.memory("1");
    assert!(node.try_acquire("b", 3, &[1]).is_err());
    node.has(&[("permits", "3"), ("a", "0")]);
    assert_eq!(node.extend("a", "600000", NEVER, 3, &[0]), Value::Int(1));
    node.has(&[("permits", "3"), ("a", "0")]);
    assert!(node.lives("a") > 60_000 && node.server.pttl("k") > 60_000);
    assert!(node.try_extend("b", TTL, ALWAYS, 3, &[1]).is_err(), "nothing is set again");
    node.has(&[("permits", "3"), ("a", "0")]);
    assert_eq!(node.keep("a", ALWAYS, ALWAYS, 3, &[0]), Value::Int(1));
    node.has(&[("permits", "3"), ("a#kept", "0")]);
    assert_eq!(node.release("a#kept"), Value::Int(1));
    assert!(node.is_free());
}

/// This happens if the user may not set expiries.
#[test]
fn where_no_end_can_be_set_nothing_is_left_without_one_and_all_other_holds_stay() {
    let denied = |node: Node| Node {
        changed: Some(("redis.pcall('PEXPIRE'", "redis.pcall('NOSUCHCOMMAND'")),
        ..node
    };
    let node = denied(Node::start());
    assert!(node.try_acquire("a", 3, &[0]).is_err());
    assert!(node.try_extend("a", TTL, ALWAYS, 3, &[0]).is_err());
    assert!(node.try_keep("a", ALWAYS, ALWAYS, 3, &[0]).is_err());
    assert!(node.is_free());
    for refused in [
        |node: &Node| node.try_acquire("b", 3, &[1]),
        |node: &Node| node.try_extend("b", "600000", ALWAYS, 3, &[1]),
        |node: &Node| node.try_keep("b", ALWAYS, ALWAYS, 3, &[1]),
        |node: &Node| node.try_extend("a", "600000", ALWAYS, 3, &[0]),
    ] {
        let node = Node::start();
        assert_eq!(node.acquire("a", 3, &[0]), GRANTED());
        node.server.command(&["PEXPIRE", "k", "50000"]);
        let before = node.server.command(&["HGETALL", "k"]);
        let node = denied(node);
        assert!(refused(&node).is_err());
        assert_eq!(node.server.command(&["HGETALL", "k"]), before);
    }
}
