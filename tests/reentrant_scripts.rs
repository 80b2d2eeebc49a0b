//! The Lua scripts of reentrant locks, run one by one on a real server, as late, repeated and foreign copies would.

mod support;

use std::sync::LazyLock;

use redis::Value;
use support::lua::{with_includes, with_listed_grant};
use support::{Server, access};

const ACQUIRE: &str = include_str!("../lua/reentrant/acquire.lua");
static CONFIRM: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/reentrant/confirm.lua")));
static EXTEND: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/reentrant/extend.lua")));
static RELEASE: LazyLock<String> =
    LazyLock::new(|| with_includes(include_str!("../lua/reentrant/release.lua")));

const FENCE: &str = "{k}:fence";
const RESERVED: &str = "{k}:reserved";
const MARK: &str = "{quorlock}:mark";
/// Time by which a fence outlives its lock, in milliseconds.
const OUTLIVES: i64 = 600_000;
/// Beyond the numbers that a Lua script may turn into text.
const BIG: i64 = 1_234_567_890_123_457;
const LARGEST: i64 = (1 << 51) - 1;
const ALWAYS: &str = "99999999999999";
const NEVER: &str = "0";

fn pair(code: i64, value: Value) -> Value {
    Value::Array(vec![Value::Int(code), value])
}

fn granted(number: i64) -> Value {
    pair(1, Value::Int(number))
}

/// An acquire without fencing, under any mark.
fn take(server: &Server, owner: &str, ttl: &str) -> Value {
    let script = with_includes(ACQUIRE);
    with_listed_grant(server.command(&["EVAL", &script, "3", "k", MARK, RESERVED, owner, ttl, ""]))
}

fn acquire(server: &Server, owner: &str, proposal: i64) -> Value {
    let (proposal, fence_ttl) = (proposal.to_string(), (OUTLIVES + 60_000).to_string());
    let (script, keys) = (with_includes(ACQUIRE), ["k", MARK, RESERVED, FENCE]);
    let arguments = [owner, "60000", "", &proposal, &fence_ttl];
    with_listed_grant(server.command(&[&["EVAL", &script, "4"], &keys[..], &arguments].concat()))
}

/// An extension without fencing, on a node without quarantine.
fn extend(server: &Server, owner: &str, ttl: &str, until: &str) -> Value {
    let tombstone = tombstone(owner);
    server.command(&["EVAL", &EXTEND, "3", "k", MARK, &tombstone, owner, ttl, until, "0"])
}

fn fenced_extend(server: &Server, ttl: i64, number: i64) -> Value {
    let (ttl, number, fence_ttl) =
        (ttl.to_string(), number.to_string(), (OUTLIVES + ttl).to_string());
    let arguments = ["me", &ttl, ALWAYS, "0", &number, &number, &fence_ttl];
    let keys = ["EVAL", &EXTEND, "4", "k", MARK, &tombstone("me"), FENCE];
    server.command(&[&keys[..], &arguments[..]].concat())
}

fn confirm(server: &Server, owner: &str, number: i64) -> Value {
    let (number, outlives) = (number.to_string(), OUTLIVES.to_string());
    server.command(&["EVAL", &CONFIRM, "2", "k", FENCE, owner, &number, &outlives])
}

fn release(server: &Server, owner: &str) -> Value {
    server.command(&["EVAL", &RELEASE, "1", "k", owner, "ours", "theirs"])
}

fn raising_release(server: &Server, owner: &str, to: &str) -> Value {
    let keys = ["EVAL", &RELEASE, "3", "k", &tombstone(owner), FENCE];
    let arguments = [owner, "ours", "theirs", "", "", "", to, "90000"];
    server.command(&[&keys[..], &arguments[..]].concat())
}

/// The tombstone of that owner.
fn tombstone(owner: &str) -> String {
    format!("k{{{owner}}}:forced")
}

/// The fields of the lock with their values.
fn fields(server: &Server) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("text: {other:?}"),
    };
    match server.command(&["HGETALL", "k"]) {
        Value::Array(all) => all.iter().map(text).collect(),
        Value::Map(all) => {
            all.iter().flat_map(|(field, value)| [text(field), text(value)]).collect()
        }
        other => panic!("a hash: {other:?}"),
    }
}

fn fence(server: &Server) -> i64 {
    server.get(FENCE).expect("there is a fence").parse().expect("a number")
}

#[test]
fn a_late_copy_of_an_acquire_grants_again_counts_nothing_and_shortens_nothing() {
    let server = Server::start();
    for ttl in ["60000", "1000"] {
        assert_eq!(take(&server, "me", ttl), granted(0));
        assert_eq!(fields(&server), ["me", "1"]);
        assert!(server.pttl("k") > 50_000);
    }
    assert_eq!(take(&server, "me", "90000"), granted(0));
    assert!(server.pttl("k") > 80_000, "granted for 90 s");
    assert_eq!(fields(&server), ["me", "1"]);
}

#[test]
fn an_acquire_names_who_is_in_the_way_and_touches_nothing_of_it() {
    let server = Server::start();
    let refused_for = |ttl: i64| {
        let Value::Array(refused) = take(&server, "me", "1000") else { panic!("an array") };
        assert_eq!(refused[0], Value::Int(0));
        let Value::Int(left) = refused[1] else { panic!("milliseconds") };
        assert!(left > ttl - 10_000 && left <= ttl, "{left}");
    };
    // Redisson's lock, held twice; its read lock, with two readers; a lock of ours with another owner.
    let holders =
        [&["uuid:7", "2"][..], &["mode", "read", "uuid:7", "1", "uuid:8", "1"], &["other:1", "1"]];
    for holder in holders {
        server.command(&[&["HSET", "k"], holder].concat());
        server.command(&["PEXPIRE", "k", "60000"]);
        refused_for(60_000);
        assert_eq!(fields(&server).len(), holder.len());
        server.command(&["DEL", "k"]);
    }
    server.command(&["SET", "k", "a mutex", "PX", "60000"]);
    refused_for(60_000);
    assert_eq!(server.get("k").as_deref(), Some("a mutex"));
    server.command(&["SET", "k", "for ever"]);
    assert_eq!(take(&server, "me", "1000"), pair(0, Value::Int(-1)));
    server.command(&["DEL", "k"]);
    server.command(&["HSET", "k", "uuid:7", "1"]);
    let is = |kind: &str| pair(-2, Value::BulkString(kind.as_bytes().to_vec()));
    assert_eq!(take(&server, "me", "1000"), is("hash"), "a hash that never ends");
    server.command(&["DEL", "k"]);
    server.command(&["RPUSH", "k", "data"]);
    assert_eq!(take(&server, "me", "1000"), is("list"));
}

#[test]
fn an_acquire_grants_under_the_very_mark_that_it_names() {
    let server = Server::start();
    let script = with_includes(ACQUIRE);
    let take = |mark: &str| {
        let call = ["EVAL", &script, "3", "k", MARK, RESERVED, "me", "60000", mark];
        with_listed_grant(server.command(&call))
    };
    assert_eq!(take("mark 1"), pair(-1, Value::Int(0)), "there is none");
    server.command(&["SET", MARK, "mark 2"]);
    assert_eq!(take("mark 1"), pair(-1, Value::Int(0)));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0), "nothing was taken");
    assert_eq!(take("mark 2"), granted(0));
}

/// A hash gets its expiry by a second command.
#[test]
fn a_lock_that_cannot_be_given_an_end_is_not_left_behind() {
    let server = Server::start();
    let commands: Vec<_> = [access::EVERY_CLIENT, &["hset", "hdel", "hexists", "pttl"]].concat();
    let user = access::user("locker", "", &commands);
    server.command(&user.iter().map(String::as_str).collect::<Vec<_>>());
    let url = server.url().replace("://", "://locker:secret@");
    let client = redis::Client::open(url).expect("a valid URL");
    let mut connection = client.get_connection().expect("it may log in");
    let mut call = redis::cmd("EVAL");
    call.arg(&[&with_includes(ACQUIRE), "3", "k", MARK, RESERVED, "me", "60000", ""]);
    assert!(call.query::<Value>(&mut connection).is_err(), "it may not call PEXPIRE");
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0));
    server.command(&["ACL", "SETUSER", "locker", "+pexpire"]);
    let answer = call.query::<Value>(&mut connection).expect("that was all that it lacked");
    assert_eq!(with_listed_grant(answer), granted(0));
}

#[test]
fn only_the_owner_extends_and_releases() {
    let server = Server::start();
    take(&server, "me", "10000");
    assert_eq!(extend(&server, "other", "60000", ALWAYS), Value::Int(0));
    assert!(server.pttl("k") <= 10_000, "somebody else extended it");
    assert_eq!(release(&server, "other"), Value::Int(0));
    assert_eq!(extend(&server, "me", "60000", NEVER), Value::Int(1));
    assert!(server.pttl("k") > 50_000);
    assert_eq!(extend(&server, "me", "1000", NEVER), Value::Int(1));
    assert!(server.pttl("k") > 50_000, "an extension shortened the key");
    assert_eq!(release(&server, "me"), Value::Int(1));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0));
    assert_eq!(release(&server, "me"), Value::Int(0));
    assert_eq!(extend(&server, "me", "60000", NEVER), Value::Int(-1));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0));
    assert_eq!(extend(&server, "me", "60000", ALWAYS), Value::Int(2));
    assert_eq!(fields(&server), ["me", "1"]);
    assert!(server.pttl("k") > 50_000);
}

#[test]
fn a_foreign_lock_and_data_are_no_fault_of_the_node_and_stay() {
    let server = Server::start();
    server.command(&["HSET", "k", "uuid:7", "2"]);
    server.command(&["PEXPIRE", "k", "10000"]);
    for _ in 0..2 {
        assert_eq!(extend(&server, "me", "60000", ALWAYS), Value::Int(0));
        assert_eq!(release(&server, "me"), Value::Int(0));
        assert_eq!(confirm(&server, "me", BIG), Value::Int(0));
        assert_eq!(server.get(FENCE), None);
        if server.command(&["TYPE", "k"]) == Value::SimpleString("hash".to_owned()) {
            assert_eq!(fields(&server), ["uuid:7", "2"]);
            assert!(server.pttl("k") <= 10_000);
        }
        server.command(&["DEL", "k"]);
        server.command(&["RPUSH", "k", "data"]);
    }
    assert_eq!(server.command(&["LLEN", "k"]), Value::Int(1));
}

/// The owners of other fields in the hash still have the lock.
#[test]
fn a_release_deletes_its_own_field_alone() {
    let server = Server::start();
    take(&server, "me", "60000");
    server.command(&["HSET", "k", "other", "1"]);
    assert_eq!(release(&server, "me"), Value::Int(1));
    assert_eq!(fields(&server), ["other", "1"]);
}

/// The script counts our listeners or Redisson's, whichever are more: ours listen to both channels.
#[test]
fn a_release_tells_both_channels_and_says_how_many_were_told() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("a valid URL");
    let told = |channels: &[&[&str]], expected: i64| {
        let mut connections: Vec<_> =
            channels.iter().map(|_| client.get_connection().expect("the server is up")).collect();
        let mut listeners: Vec<_> = connections.iter_mut().map(|one| one.as_pubsub()).collect();
        for (listener, channels) in listeners.iter_mut().zip(channels) {
            listener.subscribe(*channels).expect("it may");
        }
        take(&server, "me", "60000");
        let answer = if expected == 0 { Value::Int(1) } else { granted(expected) };
        assert_eq!(release(&server, "me"), answer);
        assert_eq!(release(&server, "me"), Value::Int(0), "nothing to be told");
        for (listener, channels) in listeners.iter_mut().zip(channels) {
            for channel in *channels {
                let message = listener.get_message().expect("it was published");
                assert_eq!(message.get_channel_name(), *channel, "ours comes first");
                let text: String = message.get_payload().expect("text");
                assert_eq!(text, if *channel == "ours" { "me" } else { "0" });
            }
        }
    };
    told(&[], 0);
    told(&[&["ours", "theirs"]], 1);
    told(&[&["theirs"]], 1);
    told(&[&["ours", "theirs"], &["theirs"], &["theirs"]], 3);
}

/// The lock is kept until a time of the node's own clock, from every caller, even if the key was gone.
#[test]
fn a_lock_that_is_kept_is_somebody_elses_for_as_long() {
    let server = Server::start();
    let Value::Array(now) = server.command(&["TIME"]) else { panic!("seconds and more") };
    let Value::BulkString(seconds) = &now[0] else { panic!("seconds") };
    let seconds: i64 = String::from_utf8_lossy(seconds).parse().expect("a number");
    let keep = |owner: &str, until: i64| {
        let until = ((seconds + until) * 1_000).to_string();
        let keys = ["EVAL", &RELEASE, "2", "k", &tombstone(owner)];
        let arguments = [owner, "ours", "theirs", &until, &until, "me#kept"];
        server.command(&[&keys[..], &arguments[..]].concat())
    };
    take(&server, "me", "600000");
    assert_eq!(keep("me", 60), Value::Int(1));
    for late in ["me", "gone"] {
        assert_eq!(fields(&server), ["me#kept", "1"]);
        assert!(server.pttl("k") > 30_000 && server.pttl("k") <= 60_000);
        let Value::Array(refused) = take(&server, "me", "1000") else { panic!("an array") };
        assert_eq!(refused[0], Value::Int(0));
        assert_eq!(extend(&server, "me", "90000", ALWAYS), Value::Int(0), "nothing sets it again");
        assert_eq!(keep(late, 90), Value::Int(0), "a copy changes nothing");
    }
    server.command(&["DEL", "k"]);
    assert_eq!(keep("me", -60), Value::Int(0));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0), "it is over");
    assert_eq!(keep("me", 60), Value::Int(0));
    assert_eq!(fields(&server), ["me#kept", "1"], "its key was gone");
    server.command(&["DEL", "k"]);
    take(&server, "other", "60000");
    assert_eq!(keep("me", 60), Value::Int(0));
    assert_eq!(fields(&server), ["other", "1"]);
}

#[test]
fn grants_are_numbered_as_those_of_the_mutex() {
    let server = Server::start();
    for (proposal, number) in
        [(BIG, BIG), (BIG, BIG + 1), (7, BIG + 2), (BIG + 4, BIG + 4), (LARGEST, LARGEST)]
    {
        for _ in 0..2 {
            assert_eq!(acquire(&server, "me", proposal), granted(number), "nothing counts twice");
            assert_eq!(fence(&server), number, "kept as it was answered");
        }
        let lives = server.pttl(FENCE);
        assert!(lives > OUTLIVES + 50_000 && lives <= OUTLIVES + 60_000, "{lives}");
        assert_eq!(confirm(&server, "other", LARGEST), Value::Int(0));
        assert_eq!(confirm(&server, "me", number), Value::Int(1));
        assert_eq!(release(&server, "me"), Value::Int(1));
        assert_eq!(fence(&server), number, "it outlives the lock");
    }
    assert_eq!(acquire(&server, "me", 1), pair(-3, Value::Int(0)));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0), "nothing was granted");
    server.command(&["SET", FENCE, "nonsense"]);
    assert_eq!(acquire(&server, "me", 1), pair(-3, Value::Int(1)));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0), "nothing was granted");
}

#[test]
fn a_fence_outlives_what_is_extended_and_keeps_late_repairs_out() {
    let server = Server::start();
    acquire(&server, "me", BIG);
    assert_eq!(fenced_extend(&server, 90_000, BIG), Value::Int(1));
    assert!(server.pttl(FENCE) > OUTLIVES + 80_000);
    assert_eq!(raising_release(&server, "me", &(BIG + 1).to_string()), Value::Int(1));
    assert_eq!(fence(&server), BIG + 1);
    assert_eq!(fenced_extend(&server, 90_000, BIG), pair(-2, Value::Int(BIG + 1)));
    assert_eq!(server.command(&["EXISTS", "k"]), Value::Int(0));
    assert_eq!(raising_release(&server, "me", "5"), Value::Int(0), "it never falls");
    assert_eq!(fence(&server), BIG + 1);
    assert_eq!(fenced_extend(&server, 90_000, BIG + 1), Value::Int(2));
    assert_eq!((fields(&server).len(), fence(&server)), (2, BIG + 1));
}

#[test]
fn what_cannot_be_given_an_end_is_not_kept() {
    let server = Server::start();
    let keep = |script: &str| {
        let parts = [
            "EVAL",
            script,
            "2",
            "k",
            &tombstone("me"),
            "me",
            "ours",
            "theirs",
            ALWAYS,
            ALWAYS,
            "me#kept",
        ];
        server.try_command(&parts.map(str::as_bytes))
    };
    assert!(
        keep(&RELEASE.replace("redis.pcall('PEXPIRE'", "redis.pcall('NOSUCHCOMMAND'")).is_err()
    );
    assert_eq!(server.keys(), Vec::<String>::new());
    assert_eq!(keep(&RELEASE), Ok(Value::Int(0)));
    assert_eq!(fields(&server), ["me#kept", "1"]);
    assert!(server.pttl("k") > 0);
}
