//! The Lua scripts of locks with several names, run one by one on a real server, as late, repeated and foreign copies
//! would.

mod support;

use redis::Value;
use support::Server;
use support::lua::with_includes;

const ACQUIRE: &str = include_str!("../lua/multi/acquire.lua");
const CONFIRM: &str = include_str!("../lua/multi/confirm.lua");
const EXTEND: &str = include_str!("../lua/multi/extend.lua");
const RELEASE: &str = include_str!("../lua/multi/release.lua");

const MARK: &str = "{quorlock}:mark";
const KEYS: [&str; 3] = ["a", "b", "c"];
const RESERVED: [&str; 3] = ["{a}:reserved", "{b}:reserved", "{c}:reserved"];
const FENCES: [&str; 3] = ["{a}:fence", "{b}:fence", "{c}:fence"];
const TOMBSTONES: [&str; 3] = ["a{me}:forced", "b{me}:forced", "c{me}:forced"];
const CHANNELS: [&str; 3] = ["{a}:released", "{b}:released", "{c}:released"];
/// Time by which a fence outlives its lock, in milliseconds.
const OUTLIVES: i64 = 600_000;
/// Beyond the numbers that a Lua script may turn into text.
const BIG: i64 = 1_234_567_890_123_457;
const LARGEST: i64 = (1 << 51) - 1;
const ALWAYS: &str = "99999999999999";

fn run(server: &Server, script: &str, keys: &[&[&str]], arguments: &[&str]) -> Value {
    let keys = keys.concat();
    let count = keys.len().to_string();
    let script = &with_includes(script);
    server.command(&[&["EVAL", script, &count], &keys[..], arguments].concat())
}

fn pair(code: i64, value: Value) -> Value {
    Value::Array(vec![Value::Int(code), value])
}

fn granted(number: i64) -> Value {
    pair(1, Value::Int(number))
}

/// Takes the lock for a minute, under any mark.
fn acquire(server: &Server, owner: &str, proposal: i64) -> Value {
    let (number, ttl) = (proposal.to_string(), (OUTLIVES + 60_000).to_string());
    let arguments = [owner, "60000", "", &number, &ttl];
    run(server, ACQUIRE, &[&[MARK], &RESERVED, &KEYS, &FENCES], &arguments)
}

/// Takes the lock without fencing.
fn take(server: &Server, mark: &str, owner: &str, ttl: &str) -> Value {
    run(server, ACQUIRE, &[&[MARK], &RESERVED, &KEYS], &[owner, ttl, mark])
}

/// Extends the lock of that number by 90 s, and repairs it until the time `until`, up to the fence `up_to`.
fn extend(server: &Server, until: &str, number: i64, up_to: i64) -> Value {
    let (number, up_to) = (number.to_string(), up_to.to_string());
    let ttl = (OUTLIVES + 90_000).to_string();
    let arguments = ["me", "90000", until, "0", &number, &up_to, &ttl];
    run(server, EXTEND, &[&[MARK], &KEYS, &TOMBSTONES, &FENCES], &arguments)
}

fn confirm(server: &Server, owner: &str, number: i64) -> Value {
    let arguments = [owner, &number.to_string(), &OUTLIVES.to_string()];
    run(server, CONFIRM, &[&KEYS, &FENCES], &arguments)
}

fn release(server: &Server, owner: &str) -> Value {
    release_keeping(server, owner, "0")
}

/// Releases the lock, and makes the node keep it until that time.
fn release_keeping(server: &Server, owner: &str, until: &str) -> Value {
    if until == "0" {
        let arguments = [&[owner, "", "", "", "", ""], &CHANNELS[..]].concat();
        return run(server, RELEASE, &[&KEYS], &arguments);
    }
    let arguments = [&[owner, until, until, "kept", "", ""], &CHANNELS[..]].concat();
    let tombstones = TOMBSTONES.map(|key| key.replace("me", owner));
    run(server, RELEASE, &[&KEYS, &tombstones.each_ref().map(String::as_str)], &arguments)
}

fn raising_release(server: &Server, owner: &str, to: i64) -> Value {
    let (to, ttl) = (to.to_string(), OUTLIVES.to_string());
    run(
        server,
        RELEASE,
        &[&KEYS, &TOMBSTONES, &FENCES],
        &[&[owner, "", "", "", &to, &ttl], &CHANNELS[..]].concat(),
    )
}

/// The owner of each key.
fn owners(server: &Server) -> [Option<String>; 3] {
    KEYS.map(|key| server.get(key))
}

/// True for each key that belongs to `owner`.
fn is_of(server: &Server, owner: &str) -> [bool; 3] {
    owners(server).map(|whose| whose.as_deref() == Some(owner))
}

fn fences(server: &Server) -> [i64; 3] {
    FENCES.map(|fence| server.get(fence).map_or(0, |number| number.parse().expect("a number")))
}

fn refused_for(reply: &Value) -> i64 {
    match reply {
        Value::Array(values) => match values[..] {
            [Value::Int(0), Value::Int(ms)] => ms,
            _ => panic!("{reply:?}"),
        },
        _ => panic!("{reply:?}"),
    }
}

#[test]
fn any_name_that_is_taken_is_in_the_way_of_all() {
    let server = Server::start();
    for taken in KEYS {
        server.command(&["SET", taken, "other", "PX", "50000"]);
        assert!((1..=50_000).contains(&refused_for(&take(&server, "", "me", "1000"))));
        assert_eq!(is_of(&server, "me"), [false; 3], "{taken} is taken");
        server.command(&["DEL", taken]);
    }
    assert_eq!(take(&server, "", "me", "60000"), granted(0));
    assert_eq!(is_of(&server, "me"), [true; 3]);
}

#[test]
fn a_refusal_names_the_time_after_which_all_names_are_free() {
    let server = Server::start();
    server.command(&["SET", "a", "other", "PX", "20000"]);
    server.command(&["HSET", "b", "uuid:1", "1"]);
    server.command(&["PEXPIRE", "b", "50000"]);
    let ms = refused_for(&take(&server, "", "me", "1000"));
    assert!(ms > 40_000, "the other kind's lock is there for longer: {ms}");
    server.command(&["SET", "c", "other"]);
    assert_eq!(refused_for(&take(&server, "", "me", "1000")), -1, "one of them never ends");
    server.command(&["PERSIST", "b"]);
    let data = Value::BulkString(b"hash".to_vec());
    assert_eq!(take(&server, "", "me", "1000"), pair(-2, data), "waiting is of no use");
}

#[test]
fn an_acquire_grants_under_the_very_mark_that_it_names() {
    let server = Server::start();
    let not_admitted = pair(-1, Value::Int(0));
    assert_eq!(take(&server, "mark 1", "me", "60000"), not_admitted, "there is none");
    server.command(&["RPUSH", MARK, "data"]);
    assert_eq!(take(&server, "mark 1", "me", "60000"), not_admitted, "no fault of the node");
    server.command(&["DEL", MARK]);
    server.command(&["SET", MARK, "mark 2"]);
    assert_eq!(take(&server, "mark 1", "me", "60000"), not_admitted);
    assert_eq!(is_of(&server, "me"), [false; 3]);
    assert_eq!(take(&server, "mark 2", "me", "60000"), granted(0));
}

#[test]
fn one_number_is_above_the_fences_of_all_names() {
    let server = Server::start();
    server.command(&["SET", FENCES[1], &(BIG + 7).to_string()]);
    server.command(&["SET", FENCES[2], &BIG.to_string(), "PX", "9000000"]);
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 8));
    assert_eq!(fences(&server), [BIG + 8; 3], "all names have it");
    assert_eq!(server.pttl(FENCES[1]), -1, "no end is brought forward");
    assert!(server.pttl(FENCES[2]) > 8_000_000);
    let lives = server.pttl(FENCES[0]);
    assert!(lives > OUTLIVES + 50_000 && lives <= OUTLIVES + 60_000, "{lives}");
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 8), "nothing is counted twice");
    assert_eq!(confirm(&server, "me", BIG + 9), Value::Int(1));
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 9));
}

#[test]
fn a_late_copy_of_an_acquire_shortens_nothing_and_counts_what_was_gone_as_a_new_grant() {
    let server = Server::start();
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), Value::Int(1));
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    assert!(KEYS.iter().all(|key| server.pttl(key) > 80_000), "a late copy shortened a key");
    assert!(FENCES.iter().all(|fence| server.pttl(fence) > OUTLIVES + 80_000));
    // Another client may have had that name in between.
    server.command(&["DEL", "b"]);
    assert_eq!(acquire(&server, "me", BIG), granted(BIG + 1));
    assert_eq!((is_of(&server, "me"), fences(&server)), ([true; 3], [BIG + 1; 3]));
    // If another client still has it, the rest stays as it is: a lease may depend on it.
    server.command(&["SET", "b", "other", "PX", "50000"]);
    refused_for(&acquire(&server, "me", BIG));
    assert_eq!(is_of(&server, "me"), [true, false, true]);
    assert_eq!(fences(&server), [BIG + 1; 3], "a refusal leaves them alone");
}

#[test]
fn no_number_is_granted_twice_at_the_end_of_the_range() {
    let server = Server::start();
    let nothing_was_granted = |what: &str| {
        assert_eq!(is_of(&server, "me"), [false; 3], "{what}");
        server.command(&["FLUSHALL"]);
    };
    for fence in FENCES {
        server.command(&["SET", fence, &LARGEST.to_string()]);
        assert_eq!(acquire(&server, "me", 1), pair(-3, Value::Int(0)));
        nothing_was_granted(fence);
        for strange in ["nonsense", "", "inf", "nan"] {
            server.command(&["SET", fence, strange]);
            assert_eq!(acquire(&server, "me", BIG), pair(-3, Value::Int(1)), "{strange}");
            assert_eq!(server.get(fence).as_deref(), Some(strange), "it is as it was");
            nothing_was_granted(strange);
        }
        server.command(&["RPUSH", fence, "data"]);
        assert_eq!(acquire(&server, "me", BIG), pair(-3, Value::Int(1)));
        assert_eq!(server.command(&["LLEN", fence]), Value::Int(1));
        nothing_was_granted("a list");
    }
    assert_eq!(acquire(&server, "me", LARGEST + 1), pair(-3, Value::Int(0)));
    nothing_was_granted("the proposal");
}

#[test]
fn a_number_is_confirmed_only_where_all_names_are_ours() {
    let server = Server::start();
    assert_eq!(acquire(&server, "me", BIG), granted(BIG));
    assert_eq!(confirm(&server, "other", BIG + 5), Value::Int(0));
    for key in KEYS {
        server.command(&["DEL", key]);
        assert_eq!(confirm(&server, "me", BIG + 5), Value::Int(0), "{key} is free");
        server.command(&["RPUSH", key, "data"]);
        assert_eq!(confirm(&server, "me", BIG + 5), Value::Int(0), "no fault of the node");
        server.command(&["DEL", key]);
        server.command(&["SET", key, "me", "PX", "60000"]);
    }
    assert_eq!(fences(&server), [BIG; 3]);
    server.command(&["SET", FENCES[2], &(BIG + 9).to_string(), "PX", "9000"]);
    assert_eq!(confirm(&server, "me", BIG + 5), Value::Int(1));
    assert_eq!(fences(&server), [BIG + 5, BIG + 5, BIG + 9], "it knows more already");
    assert!(FENCES.iter().all(|fence| server.pttl(fence) > OUTLIVES + 50_000));
}

#[test]
fn an_extension_is_of_all_names_and_is_refused_for_no_fence() {
    let server = Server::start();
    acquire(&server, "me", BIG);
    server.command(&["SET", FENCES[1], &(BIG + 99).to_string()]);
    server.command(&["DEL", FENCES[2]]);
    server.command(&["PEXPIRE", "c", "200000"]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), Value::Int(1));
    assert_eq!(fences(&server), [BIG, BIG + 99, BIG], "one that is gone is there again");
    let lives = KEYS.map(|key| server.pttl(key) / 10_000);
    assert!(matches!(lives, [8 | 9, 8 | 9, 19 | 20]), "{lives:?}");
    assert!(server.pttl(FENCES[2]) > OUTLIVES + 180_000, "it outlives the lock");
}

#[test]
fn a_repair_sets_all_names_or_none() {
    let server = Server::start();
    assert_eq!(extend(&server, "0", BIG, BIG), Value::Int(-1), "too late");
    assert_eq!((is_of(&server, "me"), fences(&server)), ([false; 3], [0; 3]));
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), Value::Int(2));
    assert_eq!((is_of(&server, "me"), fences(&server)), ([true; 3], [BIG; 3]));

    // Some keys are gone, and their names are free.
    server.command(&["DEL", "a", "c"]);
    assert_eq!(extend(&server, "0", BIG, BIG), pair(-3, Value::Int(0)), "too late");
    assert_eq!(is_of(&server, "me"), [false, true, false]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), Value::Int(2));
    assert_eq!(is_of(&server, "me"), [true; 3]);

    // One name belongs to another client, with a lock of another kind.
    server.command(&["DEL", "a", "c"]);
    server.command(&["PEXPIRE", "b", "5000"]);
    server.command(&["HSET", "c", "uuid:1", "1"]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), pair(-3, Value::Int(0)));
    assert_eq!(server.get("a"), None, "a name is not taken without the others");
    assert!(server.pttl("b") <= 5_000, "nor extended without them");
    server.command(&["DEL", "b"]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), Value::Int(0));
    assert_eq!((server.get("a"), server.get("b")), (None, None));
}

/// A grant of any of the names has a larger number. So the fence of one name bounds the repair of all.
#[test]
fn a_repair_stops_at_a_larger_fence_of_any_name() {
    let server = Server::start();
    server.command(&["SET", FENCES[1], &(BIG + 50).to_string(), "PX", "700000"]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), pair(-2, Value::Int(BIG + 50)));
    assert_eq!(is_of(&server, "me"), [false; 3]);
    assert_eq!(fences(&server), [BIG + 50; 3]);
    // A contender has one of the names for a moment.
    let ttl = OUTLIVES.to_string();
    let mutex = include_str!("../lua/mutex/acquire.lua");
    let arguments = ["other", "60000", "", &BIG.to_string(), &ttl];
    assert_eq!(
        run(&server, mutex, &[&["a", MARK, RESERVED[0], FENCES[0]]], &arguments),
        granted(BIG + 51)
    );
    assert_eq!(extend(&server, ALWAYS, BIG, BIG + 50), Value::Int(0));
    server.command(&["DEL", "a"]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG + 50), pair(-2, Value::Int(BIG + 51)));
    assert_eq!(extend(&server, ALWAYS, BIG, BIG + 51), Value::Int(2));
    assert_eq!((is_of(&server, "me"), fences(&server)), ([true; 3], [BIG + 51; 3]));
    // Where our key exists, no fence blocks the extension.
    server.command(&["DEL", "c"]);
    server.command(&["SET", FENCES[0], &(BIG + 99).to_string()]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG + 51), Value::Int(2));
    server.command(&["DEL", "c"]);
    server.command(&["SET", FENCES[2], &(BIG + 99).to_string()]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG + 51), pair(-3, Value::Int(BIG + 99)));
    assert_eq!(is_of(&server, "me"), [true, true, false], "the rest stays as it is");
}

#[test]
fn a_repair_tells_whether_the_node_grants_to_newcomers() {
    let server = Server::start();
    let keys = [&[MARK][..], &KEYS, &TOMBSTONES];
    let repair = || run(&server, EXTEND, &keys, &["me", "90000", ALWAYS, "1"]);
    assert_eq!(repair(), Value::Int(3), "nobody has looked since it forgot");
    server.command(&["DEL", "a"]);
    server.command(&["SET", MARK, "quorlock-mark 2 .. quarantined until_ms=- id=00"]);
    assert_eq!(repair(), Value::Int(3));
    server.command(&["DEL", "a"]);
    server.command(&["SET", MARK, "quorlock-mark 2 .. admitted"]);
    assert_eq!(repair(), Value::Int(2));
}

#[test]
fn a_release_deletes_what_is_ours_and_tells_of_each_name() {
    let server = Server::start();
    let client = redis::Client::open(server.url()).expect("a valid URL");
    let mut listener = client.get_connection().expect("the server is up");
    let mut listener = listener.as_pubsub();
    listener.subscribe("{b}:released").expect("it may");
    take(&server, "", "me", "60000");
    assert_eq!(release(&server, "other"), Value::Int(0));
    assert_eq!(release(&server, "me"), granted(1), "one connection, of one of the names");
    assert_eq!(owners(&server), [None, None, None]);
    let told = listener.get_message().expect("a message");
    assert_eq!(told.get_payload::<String>().expect("text"), "me");
    // A part of the names is not the lock.
    take(&server, "", "me", "60000");
    server.command(&["SET", "a", "other"]);
    assert_eq!(release(&server, "me"), Value::Int(0));
    assert_eq!(owners(&server), [Some("other".to_owned()), None, None]);
    assert_eq!(listener.get_message().expect("told of b").get_channel_name(), "{b}:released");
}

#[test]
fn a_release_that_raises_the_fences_keeps_late_repairs_out() {
    let server = Server::start();
    acquire(&server, "me", BIG);
    server.command(&["SET", FENCES[1], &(BIG + 9).to_string()]);
    assert_eq!(raising_release(&server, "me", BIG + 1), Value::Int(1));
    assert_eq!(fences(&server), [BIG + 1, BIG + 9, BIG + 1]);
    assert_eq!(extend(&server, ALWAYS, BIG, BIG), pair(-2, Value::Int(BIG + 9)));
    assert_eq!(raising_release(&server, "me", BIG + 10), Value::Int(0), "a repetition");
    assert_eq!(fences(&server), [BIG + 10; 3]);
    assert_eq!(server.pttl(FENCES[1]), -1, "no end is brought forward");
}

#[test]
fn a_release_may_keep_all_names_for_a_while() {
    let server = Server::start();
    let now: Vec<i64> = redis::from_redis_value(server.command(&["TIME"])).expect("numbers");
    let until = (now[0] * 1_000 + 50_000).to_string();
    take(&server, "", "me", "60000");
    assert_eq!(release_keeping(&server, "me", &until), Value::Int(1));
    assert_eq!(is_of(&server, "kept"), [true; 3]);
    let lives = KEYS.map(|key| server.pttl(key));
    assert!(lives.iter().all(|ms| (40_000..=50_000).contains(ms)), "{lives:?}");
    assert_eq!(release_keeping(&server, "me", &until), Value::Int(0), "a repetition");
    // A name without its key is kept as well, and a key of another client stays.
    server.command(&["FLUSHALL"]);
    take(&server, "", "me", "60000");
    server.command(&["DEL", "a", "b"]);
    server.command(&["HSET", "b", "uuid:1", "1"]);
    assert_eq!(release_keeping(&server, "me", &until), Value::Int(0));
    assert_eq!((server.get("a"), server.get("c")), (Some("kept".into()), Some("kept".into())));
    assert_eq!(server.command(&["HGET", "b", "uuid:1"]), Value::BulkString(b"1".to_vec()));
    // The release comes too late to keep anything.
    server.command(&["FLUSHALL"]);
    take(&server, "", "me", "60000");
    assert_eq!(release_keeping(&server, "me", "1"), Value::Int(1));
    assert_eq!(owners(&server), [None, None, None]);
}

/// A refusal in the middle of the script leaves no partial lock.
#[test]
fn a_server_that_refuses_a_command_grants_nothing() {
    let server = Server::start();
    let acquired = [&[MARK], &RESERVED[..], &KEYS, &FENCES].concat();
    let extended = [&[MARK], &KEYS[..], &TOMBSTONES, &FENCES].concat();
    let all = ["set", "get", "mget", "exists", "type", "pttl", "pexpire", "time", "eval"];
    for missing in all {
        server.command(&["FLUSHALL"]);
        let user = ["ACL", "SETUSER", "locker", "reset", "on", ">secret", "~*"].map(str::to_owned);
        let may = all.iter().filter(|command| **command != missing).map(|it| format!("+{it}"));
        let words: Vec<_> = user.into_iter().chain(may).collect();
        server.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
        let url = server.url().replace("://", "://locker:secret@");
        let mut limited =
            redis::Client::open(url).and_then(|client| client.get_connection()).expect("it may");
        let ttl = OUTLIVES.to_string();
        let mut as_limited = |script: &str, keys: &[&str], arguments: &[&str]| {
            let mut command = redis::cmd("EVAL");
            command.arg(script).arg(keys.len()).arg(keys).arg(arguments);
            command.query::<Value>(&mut limited)
        };
        let number = BIG.to_string();
        let _ = as_limited(&with_includes(ACQUIRE), &acquired, &["me", "60000", "", &number, &ttl]);
        all_or_none(&server, "acquire", missing);
        server.command(&["DEL", "a", "b", "c"]);
        let _ =
            as_limited(EXTEND, &extended, &["me", "60000", ALWAYS, "1", &number, &number, &ttl]);
        all_or_none(&server, "repair", missing);
    }
}

fn all_or_none(server: &Server, what: &str, missing: &str) {
    let ours = is_of(server, "me");
    assert!(ours == [true; 3] || ours == [false; 3], "{what} without {missing}: {ours:?}");
}

#[test]
fn a_server_that_is_out_of_memory_grants_and_repairs_nothing() {
    let server = Server::start();
    server.command(&["SET", FENCES[0], "7"]);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let acquired = [&[MARK], &RESERVED[..], &KEYS, &FENCES].concat();
    let extended = [&[MARK], &KEYS[..], &TOMBSTONES, &FENCES].concat();
    let refused = |script: &str, keys: &[&str], arguments: &[&str]| {
        let count = keys.len().to_string();
        let words = [&["EVAL", script, &count], keys, arguments].concat();
        let words: Vec<_> = words.into_iter().map(str::as_bytes).collect();
        let error = server.try_command(&words).expect_err("out of memory");
        assert_eq!(error.code(), Some("OOM"), "{error}");
        assert_eq!(is_of(&server, "me"), [false; 3]);
    };
    let (number, ttl) = (BIG.to_string(), OUTLIVES.to_string());
    refused(&with_includes(ACQUIRE), &acquired, &["me", "60000", "", &number, &ttl]);
    refused(EXTEND, &extended, &["me", "60000", ALWAYS, "1", &number, &number, &ttl]);
    // A lock on such a server is given back, and kept on request.
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    take(&server, "", "me", "60000");
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(release_keeping(&server, "me", ALWAYS), Value::Int(1));
    assert_eq!(is_of(&server, "kept"), [true; 3]);
}

/// The force of any single name loses the lock.
#[test]
fn a_lock_of_which_one_name_was_forced_open_is_extended_under_none() {
    for (name, tombstone) in KEYS.into_iter().zip(TOMBSTONES) {
        let server = Server::start();
        acquire(&server, "me", BIG);
        server.command(&["SET", tombstone, "1", "PX", "60000"]);
        let still_there = pair(-3, Value::Int(0));
        assert_eq!(extend(&server, ALWAYS, BIG, LARGEST), still_there, "{name}");
        server.command(&["DEL", name]);
        assert_eq!(extend(&server, ALWAYS, BIG, LARGEST), still_there);
        assert_eq!(server.get(name), None, "it is not set again");
        assert_eq!(release_keeping(&server, "me", ALWAYS), Value::Int(0));
        assert_eq!(server.get(name), None, "nor is it kept");
        server.command(&["DEL", "a", "b", "c"]);
        assert_eq!(extend(&server, ALWAYS, BIG, LARGEST), Value::Int(0));
        assert_eq!(owners(&server), [None, None, None]);
    }
}
