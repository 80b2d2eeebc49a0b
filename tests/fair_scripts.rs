//! The Lua scripts of fair locks, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use std::time::Duration;

use redis::Value;
use support::lua::with_includes;
use support::{Server, wait_until};

const ACQUIRE: &str = include_str!("../lua/fair/acquire.lua");
const LEAVE: &str = include_str!("../lua/fair/leave.lua");
const RELEASE: &str = include_str!("../lua/fair/release.lua");

const MARK: &str = "{quorlock}:mark";
const RESERVED: &str = "{k}:reserved";
const QUEUE: &str = "{k}:queue";
const ENDS: &str = "{k}:queue_ends";
const FENCE: &str = "{k}:fence";
const TTL: &str = "60000";
const FENCE_TTL: &str = "660000";
/// Time for which a caller waits, in milliseconds.
const LIFE: i64 = 60_000;
/// The maximum of callers in a node's queue.
const MOST: usize = 1_000;
/// A limit that is never reached.
const LIMIT: Duration = Duration::from_secs(60);

/// The owner id of an attempt by that caller, which stands in the queue under its own name.
fn owner(caller: &str) -> String {
    format!("{caller}-attempt")
}

fn granted() -> Value {
    Value::Array(vec![Value::Int(1), Value::Int(0)])
}

struct Node(Server);

impl Node {
    fn start() -> Self {
        Self(Server::start())
    }

    fn eval(&self, script: &str, keys: &[&str], arguments: &[&str]) -> Value {
        let script = &with_includes(script);
        self.0.command(&[&["EVAL", script, &keys.len().to_string()], keys, arguments].concat())
    }

    fn ask(&self, caller: &str, ticket: usize, waits_ms: i64) -> Value {
        let (owner, ticket, waits) = (owner(caller), ticket.to_string(), waits_ms.to_string());
        let arguments = [&owner, TTL, "", caller, &ticket, &waits];
        self.eval(ACQUIRE, &["k", MARK, RESERVED, QUEUE, ENDS], &arguments)
    }

    /// A call that does not wait.
    fn try_once(&self, caller: &str) -> Value {
        self.ask(caller, 0, 0)
    }

    fn release(&self, caller: &str) -> Value {
        self.eval(RELEASE, &["k", QUEUE], &[&owner(caller), "channel", caller])
    }

    fn leave(&self, caller: &str) -> Value {
        self.eval(LEAVE, &["k", QUEUE, ENDS], &[caller, "channel"])
    }

    fn queue(&self) -> Vec<String> {
        match self.0.command(&["ZRANGE", QUEUE, "0", "-1"]) {
            Value::Array(callers) => callers.iter().map(text).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn now_ms(&self) -> i64 {
        let Value::Array(time) = self.0.command(&["TIME"]) else { panic!("no time") };
        text(&time[0]).parse::<i64>().expect("a number") * 1_000
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// The ticket in a refusal, and the time for which the lock is not free, in milliseconds.
#[track_caller]
fn refused(value: &Value) -> (i64, i64) {
    let Value::Array(words) = value else { panic!("{value:?}") };
    match words.as_slice() {
        [Value::Int(0), Value::Int(ms), Value::Int(ticket)] => (*ticket, *ms),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_free_lock_without_a_queue_is_granted_to_whoever_asks() {
    let node = Node::start();
    assert_eq!(node.try_once("one"), granted());
    assert_eq!(node.try_once("one"), granted(), "a copy");
    assert_eq!(refused(&node.try_once("two")).0, 0);
    assert_eq!(node.release("one"), Value::Int(1));
    assert_eq!(node.release("one"), Value::Int(0));
    assert_eq!(node.ask("two", 0, LIFE), granted());
    assert!(node.queue().is_empty());
}

#[test]
fn the_lowest_ticket_goes_first_and_nobody_comes_before_it() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    assert_eq!(refused(&node.ask("first", 0, LIFE)).0, 0, "it has no ticket yet, and nobody waits");
    assert_eq!(refused(&node.ask("first", 1, LIFE)).0, 1);
    assert_eq!(refused(&node.ask("second", 0, LIFE)).0, 1, "the largest there");
    assert_eq!(refused(&node.ask("second", 2, LIFE)).0, 2);
    assert_eq!(refused(&node.ask("third", 7, LIFE)).0, 7, "other nodes have known larger ones");
    assert_eq!(node.queue(), ["first", "second", "third"]);
    assert_eq!(node.release("holder"), Value::Int(1));
    let (_, ahead_ms) = refused(&node.ask("second", 2, LIFE));
    assert!(ahead_ms > 0 && ahead_ms <= LIFE, "as long as the first one waits: {ahead_ms}");
    refused(&node.try_once("fourth"));
    assert_eq!(node.ask("first", 1, LIFE), granted());
    // The caller leaves the queue once a majority has granted the lock. Until then it stays first.
    assert_eq!(node.queue(), ["first", "second", "third"]);
    assert_eq!(node.leave("first"), Value::Int(1));
    assert_eq!(node.leave("first"), Value::Int(0));
    assert_eq!(node.release("first"), Value::Int(1));
    assert_eq!(node.ask("second", 2, LIFE), granted());
}

#[test]
fn of_two_with_one_ticket_all_nodes_put_the_same_one_first() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    for caller in ["b", "c", "a"] {
        refused(&node.ask(caller, 4, LIFE));
    }
    assert_eq!(node.queue(), ["a", "b", "c"]);
}

#[test]
fn a_caller_that_asks_again_stays_where_it_is_and_for_longer() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    refused(&node.ask("first", 1, 1_000));
    refused(&node.ask("second", 2, LIFE));
    refused(&node.ask("first", 1, LIFE));
    assert_eq!(node.queue(), ["first", "second"]);
    assert_eq!(node.release("holder"), Value::Int(1));
    let (_, ahead_ms) = refused(&node.ask("second", 2, LIFE));
    assert!(ahead_ms > 1_000, "{ahead_ms}");
}

#[test]
fn a_caller_that_does_not_ask_again_is_in_nobodys_way_when_its_time_is_over() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    refused(&node.ask("dead", 1, 200));
    refused(&node.ask("second", 2, LIFE));
    assert_eq!(node.release("holder"), Value::Int(1));
    wait_until("its time is over", LIMIT, || node.ask("second", 2, LIFE) == granted());
    assert_eq!(node.queue(), ["second"]);
}

/// The node's clock was set back after the entry was made.
#[test]
fn an_entry_that_ends_later_than_any_may_is_over() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    refused(&node.ask("first", 1, LIFE));
    refused(&node.ask("second", 2, LIFE));
    let later = (node.now_ms() + 3_600_000).to_string();
    node.0.command(&["ZADD", ENDS, &later, "first"]);
    assert_eq!(node.release("holder"), Value::Int(1));
    assert_eq!(node.ask("second", 2, LIFE), granted());
}

#[test]
fn a_queue_ends_with_its_last_caller() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    refused(&node.ask("first", 1, LIFE));
    refused(&node.ask("second", 2, 300));
    for key in [QUEUE, ENDS] {
        let left = node.0.pttl(key);
        assert!(left > 1_000 && left <= LIFE, "{key}: {left}");
    }
}

#[test]
fn the_first_caller_is_told_of_a_release_by_name_and_nobody_else() {
    let node = Node::start();
    let spy = |script: &str| {
        script.replace("redis.pcall('PUBLISH', CHANNEL, ", "redis.call('SET', 'told', ")
    };
    let told = || node.0.command(&["GET", "told"]);
    assert_eq!(node.try_once("holder"), granted());
    let release = spy(RELEASE);
    node.eval(&release, &["k", QUEUE], &[&owner("holder"), "channel", "holder"]);
    assert_eq!(text(&told()), owner("holder"), "to all who have no ticket yet");
    assert_eq!(node.try_once("holder"), granted());
    refused(&node.ask("first", 1, LIFE));
    refused(&node.ask("second", 2, LIFE));
    node.eval(&release, &["k", QUEUE], &[&owner("holder"), "channel", "holder"]);
    assert_eq!(text(&told()), "first");
    // The caller gives back a grant from too few nodes, and asks again by itself. Waiters for the name as a lock of
    // another kind may try in that time, and so they react to all messages.
    assert_eq!(node.ask("first", 1, LIFE), granted());
    node.eval(&release, &["k", QUEUE], &[&owner("first"), "channel", "first"]);
    assert_eq!(text(&told()), "#queued", "nobody in the queue");
    let leave = spy(LEAVE);
    node.eval(&leave, &["k", QUEUE, ENDS], &["first", "channel"]);
    assert_eq!(text(&told()), "second", "the lock is free, and it goes next");
}

#[test]
fn a_queue_has_a_limit_and_makes_room_for_the_living() {
    let node = Node::start();
    assert_eq!(node.try_once("holder"), granted());
    let far = (node.now_ms() + LIFE).to_string();
    for i in 0..MOST {
        let caller = format!("caller-{i}");
        node.0.command(&["ZADD", QUEUE, &(i + 1).to_string(), &caller]);
        node.0.command(&["ZADD", ENDS, &far, &caller]);
    }
    let one_more = || node.ask("one-more", MOST + 1, LIFE);
    let Value::Array(words) = one_more() else { panic!("it is refused") };
    assert_eq!(words.len(), 2, "it is not in the queue: {words:?}");
    assert_eq!(node.queue().len(), MOST);
    // A caller that is already in the queue stays.
    assert_eq!(refused(&node.ask("caller-999", MOST, LIFE)).0, 1_000);
    let over = (node.now_ms() - 1_000).to_string();
    node.0.command(&["ZADD", ENDS, &over, "caller-500"]);
    assert_eq!(refused(&one_more()).0, 1_001);
    assert_eq!(node.queue().len(), MOST);
}

#[test]
fn other_locks_are_in_the_way_and_something_else_is_told() {
    let node = Node::start();
    node.0.command(&["SET", "k", "somebody", "PX", TTL]);
    refused(&node.ask("first", 1, LIFE));
    node.0.command(&["DEL", "k"]);
    node.0.command(&["HSET", "k", "somebody", "1"]);
    let no_lock = |kind: &str| Value::Array(vec![Value::Int(-2), Value::BulkString(kind.into())]);
    assert_eq!(node.try_once("first"), no_lock("hash"));
    node.0.command(&["DEL", "k", QUEUE]);
    node.0.command(&["SET", QUEUE, "no queue"]);
    assert_eq!(node.try_once("first"), no_lock("string"));
    assert_eq!(node.leave("first"), Value::Int(0));
    node.0.command(&["RENAME", QUEUE, ENDS]);
    assert_eq!(node.ask("first", 1, LIFE), no_lock("string"));
    assert!(node.queue().is_empty(), "nobody stands there without an end");
    node.0.command(&["RENAME", ENDS, QUEUE]);
    assert_eq!(node.release("first"), Value::Int(0));
}

#[test]
fn a_node_that_has_another_mark_grants_nothing_and_keeps_no_queue() {
    let node = Node::start();
    let arguments = [&owner("first"), TTL, "a mark", "first", "1", TTL].map(ToString::to_string);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let reply = node.eval(ACQUIRE, &["k", MARK, RESERVED, QUEUE, ENDS], &arguments);
    assert_eq!(reply, Value::Array(vec![Value::Int(-1), Value::Int(0)]));
    assert!(node.queue().is_empty());
}

#[test]
fn numbers_rise_from_grant_to_grant() {
    let node = Node::start();
    let ask = |caller: &str, proposal: &str| {
        let owner = owner(caller);
        let arguments = [&owner, TTL, "", caller, "0", "0", proposal, FENCE_TTL];
        node.eval(ACQUIRE, &["k", MARK, RESERVED, QUEUE, ENDS, FENCE], &arguments)
    };
    let number = |number| Value::Array(vec![Value::Int(1), Value::Int(number)]);
    assert_eq!(ask("one", "7"), number(7));
    assert_eq!(ask("one", "7"), number(7), "a copy");
    assert_eq!(node.release("one"), Value::Int(1));
    assert_eq!(ask("two", "3"), number(8));
}
