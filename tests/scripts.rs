//! The Lua scripts, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use redis::Value;
use support::Server;

const ACQUIRE: &str = include_str!("../lua/mutex/acquire.lua");
const EXTEND: &str = include_str!("../lua/mutex/extend.lua");
const RELEASE: &str = include_str!("../lua/mutex/release.lua");

fn run(server: &Server, script: &str, arguments: &[&str]) -> Value {
    server.command(&[&["EVAL", script, "1", "k"], arguments].concat())
}

fn pair(code: i64, value: Value) -> Value {
    Value::Array(vec![Value::Int(code), value])
}

#[test]
fn a_late_copy_of_an_acquire_grants_again_and_shortens_nothing() {
    let server = Server::start();
    assert_eq!(run(&server, ACQUIRE, &["me", "60000"]), pair(1, Value::Int(0)));
    assert_eq!(run(&server, ACQUIRE, &["me", "1000"]), pair(1, Value::Int(0)));
    assert!(server.pttl("k") > 50_000, "a late copy shortened the key");
    assert_eq!(run(&server, ACQUIRE, &["me", "90000"]), pair(1, Value::Int(0)));
    assert!(server.pttl("k") > 80_000, "granted for 90 s");
}

#[test]
fn an_acquire_names_who_is_in_the_way() {
    let server = Server::start();
    server.command(&["SET", "k", "other"]);
    assert_eq!(run(&server, ACQUIRE, &["me", "1000"]), pair(0, Value::Int(-1)));
    server.command(&["DEL", "k"]);
    server.command(&["HSET", "k", "uuid:1", "1"]);
    let data = Value::BulkString(b"hash".to_vec());
    assert_eq!(run(&server, ACQUIRE, &["me", "1000"]), pair(-2, data), "a hash that never ends");
    server.command(&["PEXPIRE", "k", "60000"]);
    let Value::Array(refused) = run(&server, ACQUIRE, &["me", "1000"]) else { panic!("an array") };
    assert_eq!(refused[0], Value::Int(0), "a hash that ends is another kind of lock");
    server.command(&["DEL", "k"]);
    server.command(&["SADD", "k", "data"]);
    let data = Value::BulkString(b"set".to_vec());
    assert_eq!(run(&server, ACQUIRE, &["me", "1000"]), pair(-2, data));
}

#[test]
fn only_the_owner_extends_and_releases() {
    let server = Server::start();
    run(&server, ACQUIRE, &["me", "10000"]);
    let never = "0";
    let always = "99999999999999";
    assert_eq!(run(&server, EXTEND, &["other", "60000", always]), Value::Int(0));
    assert!(server.pttl("k") <= 10_000, "somebody else extended it");
    assert_eq!(run(&server, RELEASE, &["other"]), Value::Int(0));
    assert_eq!(run(&server, EXTEND, &["me", "60000", never]), Value::Int(1));
    assert!(server.pttl("k") > 50_000);
    assert_eq!(run(&server, EXTEND, &["me", "1000", never]), Value::Int(1));
    assert!(server.pttl("k") > 50_000, "an extension shortened the key");
    assert_eq!(run(&server, RELEASE, &["me"]), Value::Int(1));
    assert_eq!(run(&server, RELEASE, &["me"]), Value::Int(0));
    assert_eq!(run(&server, EXTEND, &["me", "60000", never]), Value::Int(-1));
    assert_eq!(server.get("k"), None, "an extension set the key again");
    assert_eq!(run(&server, EXTEND, &["me", "60000", always]), Value::Int(2));
    assert_eq!(server.get("k").as_deref(), Some("me"));
    assert!(server.pttl("k") > 50_000);
}

#[test]
fn data_that_is_no_lock_is_no_fault_of_the_node() {
    let server = Server::start();
    server.command(&["RPUSH", "k", "data"]);
    assert_eq!(run(&server, EXTEND, &["me", "60000", "99999999999999"]), Value::Int(0));
    assert_eq!(run(&server, RELEASE, &["me"]), Value::Int(0));
    assert_eq!(server.command(&["LLEN", "k"]), Value::Int(1));
}
